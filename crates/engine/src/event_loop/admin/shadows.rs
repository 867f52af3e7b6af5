//! Shadows: added, told, ended, adopted; and why a chunk is where it is.

use super::{AdminApi, placement};
use crate::api::{Adopted, Explanation, NewShadow, Shadow};
use thermocline_admin::api::{Refused, Severity};
use thermocline_policy::placement::shadow::{Report, ShadowError};
use thermocline_units::ChunkId;

/// The refusal of a shadow.
fn refused(error: ShadowError) -> Refused {
    match error {
        ShadowError::NoSample(_) => Refused::invalid(error),
        _ => Refused::conflict(error),
    }
}

impl AdminApi<'_> {
    /// Shadows, in the order in which they began.
    pub fn shadows(&self) -> Vec<Shadow> {
        self.engine.group.shadows().reports().map(|report| self.shadow(&report)).collect()
    }

    fn shadow(&self, report: &Report<'_>) -> Shadow {
        let group = &self.engine.group;
        let names: Vec<String> = group
            .pools_there()
            .iter()
            .map(|&id| group.pool_status(id).expect("ids below the count exist").name)
            .collect();
        let age = self.engine.now().saturating_sub(report.begun);
        Shadow::of(report, group.shadows().one_in(), age, &names)
    }

    /// Lets a policy begin as a shadow.
    ///
    /// # Errors
    /// When there is no such placement, a setting is wrong, it is a shadow already, or there are
    /// too many.
    pub(crate) fn add_shadow(&mut self, wish: &NewShadow) -> Result<Shadow, Refused> {
        let (spec, placement) = placement(&wish.policy)?;
        let now = self.engine.now();
        self.engine
            .group
            .begin_shadow(now, (&spec.label, placement), wish.one_in)
            .map_err(refused)?;
        let text = format!("{} is a shadow from now on", spec.label);
        self.engine.rivals.insert(spec.label.clone(), spec);
        self.engine.event(Severity::Info, "policy", text);
        let shadows = self.shadows();
        Ok(shadows.into_iter().next_back().expect("it has just begun"))
    }

    /// Ends a shadow.
    ///
    /// # Errors
    /// When there is none of this name.
    pub(crate) fn remove_shadow(&mut self, name: &str) -> Result<(), Refused> {
        match self.engine.group.end_shadow(name) {
            Some(_) => {
                self.engine.rivals.remove(name);
                let text = format!("{name} is no shadow any more");
                self.engine.event(Severity::Info, "policy", text);
                Ok(())
            }
            None => Err(self.no_shadow(name)),
        }
    }

    fn no_shadow(&self, name: &str) -> Refused {
        let names: Vec<&str> =
            self.engine.group.shadows().reports().map(|report| report.name).collect();
        let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        Refused::missing(format!("there is no shadow {name}; there are: {known}"))
    }

    /// Gives the decision about moves to a shadow. It takes over with what it has learnt if it has
    /// seen every chunk; what it knows of a sample would count against all others. Where a
    /// recording is made it begins anew too, so that the recording can be replayed.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn adopt(&mut self, name: &str) -> Result<Adopted, Refused> {
        let group = &mut self.engine.group;
        let knows = group.shadows().one_in() == 1 && !group.is_observed();
        let Some(own) = group.end_shadow(name) else { return Err(self.no_shadow(name)) };
        let spec = self.engine.rivals.remove(name).expect("every shadow was asked for");
        let placement = if knows { own } else { placement(&spec.written)?.1 };
        if let Some(own) = placement.epoch() {
            let now = self.engine.now();
            self.engine.group.set_epoch(now, own);
        }
        self.decide_by(spec, placement);
        let how = if knows { "with what it has seen as a shadow" } else { "anew" };
        let text = format!("{name} decides about moves from now on, {how}");
        self.engine.event(Severity::Info, "policy", text);
        Ok(Adopted { policy: self.policy(), knows })
    }

    /// Place of a chunk, its heat, and the reasons of the policy for it.
    ///
    /// # Errors
    /// When there is no such volume, or it ends before the offset.
    pub fn explain(&self, volume: &str, offset: u64) -> Result<Explanation, Refused> {
        let extents = self.extents(volume, offset, Some(1))?;
        let chunk = extents.into_iter().next().expect("a byte is in a chunk");
        let index = (offset / self.engine.group.chunk_size().0) as u32;
        let id = ChunkId { volume: self.volume(volume)?, index };
        let group = &self.engine.group;
        let mut reasons = group.explain(id).unwrap_or_default();
        reasons.extend(group.hints().explain(self.engine.now(), id, group.chunk_size()));
        Ok(Explanation { chunk, policy: self.policy().spec, reasons })
    }
}
