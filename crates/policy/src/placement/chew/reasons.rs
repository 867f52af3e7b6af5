//! Reasons of ChewAnalyzer for the pool of a chunk, or of a run of chunks, level by level, in
//! words.
//!
//! Told again from the verdict that was kept: what it was like, where it was taken, and on
//! which levels time was what pools lacked.

use super::classify::{Classifier, Found, Verdict};
use super::library::Level;
use super::taxonomy::Profile;

impl Classifier {
    /// The reasons of the last verdict about a case; nothing when there was none.
    pub(super) fn reasons(&self, case: u32) -> Vec<String> {
        let Some(verdict) = self.known(case) else { return Vec::new() };
        let Profile { intensity, writes, random, overwritten } = verdict.profile;
        let percent = |share: f32| share * 100.0;
        let library = self.taxonomy.library();
        let unit = library.unit;
        let scaled = self.scaled_to().map_or(String::new(), |of| format!(", as if it had {of}"));
        let mut lines = vec![format!(
            "when last accessed: {intensity:.1} units of {unit} a second{scaled}, {:.0} % of them \
             written; {:.0} % of accesses random, {:.0} % of writes overwriting",
            percent(writes),
            percent(random),
            percent(overwritten)
        )];
        let levels = match verdict.found {
            Found::Level(level) => usize::from(level) + 1,
            _ => library.levels.len(),
        };
        lines.extend((0..levels).map(|level| self.tell(verdict, level)));
        if verdict.found == Found::Left {
            let pool = verdict.to.0;
            let weight = self.taxonomy.weight_on(&verdict.profile, levels - 1);
            lines.push(format!("left over, by weight {weight:.1}: pool {pool} takes it"));
        }
        lines
    }

    /// The history of a case on one level, in words.
    fn tell(&self, verdict: &Verdict, level: usize) -> String {
        let rule = self.taxonomy.rule(&verdict.profile, level);
        let Level { name, .. } = &self.taxonomy.library().levels[level];
        let weight = self.taxonomy.weight_on(&verdict.profile, level);
        let wanted: Vec<_> = rule.pools.iter().map(|tier| tier.name()).collect();
        let outcome = match verdict.found {
            Found::Level(found) if usize::from(found) == level => {
                format!("pool {} takes it", verdict.to.0)
            }
            _ if verdict.late >> level & 1 == 1 => "no time left".to_string(),
            _ => "no space left".to_string(),
        };
        let (number, pattern) = (level + 1, &rule.pattern);
        format!(
            "level {number}, {name}: weight {weight:.1}, {pattern}, for {}: {outcome}",
            wanted.join(", then ")
        )
    }
}
