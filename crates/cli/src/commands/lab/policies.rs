//! Which policies a run of `lab cache` replays: those named, a usual selection, or all that can
//! compete.

use crate::config::library;
use crate::error::CliError;
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
pub(super) struct Chosen {
    /// The policies, in the order asked for.
    pub(super) specs: Vec<PolicySpec>,
    /// Note on those that were left out, for people.
    pub(super) note: Option<String>,
}

/// The policies that `words` name; the usual ones when there is none.
///
/// # Errors
/// When a word is no policy.
pub(super) fn chosen(words: &[String], objects: bool) -> Result<Chosen, CliError> {
    let mut chosen = Chosen { specs: Vec::new(), note: None };
    let usual = ["usual".to_string()];
    let words = if words.is_empty() { &usual } else { words };
    for word in words {
        match word.as_str() {
            "all" => chosen.add_all(objects),
            "usual" => chosen.add(USUAL.into_iter(), objects),
            word => chosen.specs.push(library::policy(word).map_err(CliError::input)?),
        }
    }
    Ok(chosen)
}

impl Chosen {
    /// Adds policies by name; of objects, only what caches them.
    fn add(&mut self, names: impl Iterator<Item = &'static str>, objects: bool) {
        let specs = names.filter_map(|name| PolicySpec::parse(name).ok());
        self.specs.extend(specs.filter(|spec| !objects || !spec.is_placement()));
    }

    fn add_all(&mut self, objects: bool) {
        let names = || registry::entries().map(|entry| entry.name);
        let competes = |name: &&str| !OUT_OF_PLACE.contains(name);
        self.add(names().filter(competes), objects);
        if !objects {
            self.note = Some(format!(
                "left out of `all`, because they decide by latencies and mirrors, which a replay \
                 of caches does not have: {}; `thermocline lab volume` runs them",
                OUT_OF_PLACE.join(", ")
            ));
        }
    }
}
