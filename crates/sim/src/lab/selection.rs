//! Policies of a run of `lab cache`: those named, a usual selection, or all that can compete.

use super::run::LabError;
use thermocline_policy::registry::{self, PolicySpec};

/// The selection that runs when no policy is named: what people deploy, what the literature
/// compares with, our own, the bound, and three flash managers.
const USUAL: [&str; 10] = [
    "fifo",
    "lru",
    "arc",
    "lirs",
    "s3-fifo",
    "s3-shadow",
    "w-tiny-lfu",
    "belady",
    "baseline",
    "g2-vfrm",
];

/// Placements that `all` leaves out, because what they decide by does not exist in a replay of
/// caches: it has no queues, no latencies and no mirrors.
const OUT_OF_PLACE: [&str; 2] = ["lmst", "orthus"];

/// Policies that a run replays.
#[derive(Clone, Default)]
pub struct Selection {
    /// The policies, in the order asked for.
    pub specs: Vec<PolicySpec>,
    /// Note on those that were left out, for people.
    pub note: Option<String>,
    /// True for each policy that was named by itself, not as one of `usual` or `all`.
    named: Vec<bool>,
}

impl Selection {
    /// Adds what `word` names: `usual`, `all`, or one policy, which `parse` reads. Of `objects`,
    /// only what caches them is selected.
    ///
    /// # Errors
    /// Those of `parse`.
    pub fn add<E>(
        &mut self,
        word: &str,
        objects: bool,
        parse: impl FnOnce(&str) -> Result<PolicySpec, E>,
    ) -> Result<(), E> {
        match word {
            "all" => self.add_all(objects),
            "usual" => self.add_usual(objects),
            word => self.add_one(parse(word)?),
        }
        Ok(())
    }

    /// Adds one policy.
    pub fn add_one(&mut self, spec: PolicySpec) {
        self.specs.push(spec);
        self.named.push(true);
    }

    /// Adds the usual policies.
    pub fn add_usual(&mut self, objects: bool) {
        self.add_names(USUAL.into_iter(), objects);
    }

    /// That none of them is a placement that is told the future: that is of a volume's requests.
    ///
    /// # Errors
    /// When one is.
    pub(crate) fn check_placements(&self) -> Result<(), LabError> {
        match self.specs.iter().find(|spec| spec.foresees_volumes()) {
            Some(spec) => Err(LabError::OnlyVolumes { policy: spec.label.clone() }),
            None => Ok(()),
        }
    }

    /// The policies that have curves.
    ///
    /// # Errors
    /// When a policy that was named by itself is no cache.
    pub(crate) fn into_caches(self) -> Result<Vec<PolicySpec>, LabError> {
        let mut specs = self.specs.iter().zip(&self.named);
        match specs.find(|(spec, named)| **named && spec.is_placement()) {
            Some((spec, _)) => Err(LabError::NoCurve { policy: spec.label.clone() }),
            None => Ok(self.specs.into_iter().filter(|spec| !spec.is_placement()).collect()),
        }
    }

    fn add_all(&mut self, objects: bool) {
        let names = registry::entries().map(|entry| entry.name);
        self.add_names(names.filter(|name| !OUT_OF_PLACE.contains(name)), objects);
        if !objects {
            self.note = Some(format!(
                "left out of `all`, because they decide by latencies and mirrors, which a replay \
                 of caches does not have: {}; `thermocline lab volume` runs them",
                OUT_OF_PLACE.join(", ")
            ));
        }
    }

    fn add_names(&mut self, names: impl Iterator<Item = &'static str>, objects: bool) {
        let specs = names.filter_map(|name| PolicySpec::parse(name).ok());
        self.specs.extend(specs.filter(|spec| !objects || !spec.is_placement()));
        self.named.resize(self.specs.len(), false);
    }
}
