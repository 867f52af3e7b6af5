//! Why `auto` moved a chunk, or did not, in words.

use super::ghosts::PREDICTORS;
use super::pulse::LANES;
use super::{Auto, Decision};
use thermocline_units::ChunkId;

/// Seconds as milliseconds, with as many digits as say something.
fn ms(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}

impl Auto {
    /// Reasons for a chunk's place: what is known of it, what its classes returned, what the whole
    /// of it came to.
    pub(super) fn reasons(&self, chunk: ChunkId) -> Vec<String> {
        let Some(number) = self.pulse.chunks.find(chunk) else { return Vec::new() };
        if number >= self.pulse.len() || self.prices.len() < 2 {
            return Vec::new();
        }
        let home = self.pulse.home(number);
        let mut told = Vec::new();
        for (lane, half_life) in LANES.into_iter().enumerate() {
            let asked = self.pulse.lately(lane, number);
            let [reads, writes, read, written] = asked;
            let costs = self.prices.iter().map(|price| ms(price.of(&asked)));
            let costs: Vec<String> = costs.collect();
            told.push(format!(
                "over {half_life} epochs: {reads:.3} reads and {writes:.3} writes a second, {:.1} KiB a \
                 second in order; users would wait {} a second for it on pools 0 to {}",
                (read + written) * 4.0,
                costs.join(", "),
                costs.len() - 1,
            ));
        }
        told.push(self.evidence());
        told.extend(self.account());
        let Decision { predicted, worth, proposed } = self.last;
        told.push(format!(
            "it is on pool {home}; of {predicted} exchanges that were looked at last, {worth} had \
             proved to save more than {} times their copies, and {proposed} were {}",
            self.margin,
            if self.acts { "proposed" } else { "recommended" },
        ));
        told
    }

    /// Returns of predictions so far.
    fn evidence(&self) -> String {
        let of = |predictor: usize| match predictor {
            0..3 => format!("memory of {} epochs", LANES[predictor]),
            _ => "chunks around".to_string(),
        };
        let returned = (0..PREDICTORS).map(|predictor| {
            let (count, mean) = self.ghosts.returned(predictor);
            format!(
                "{}: {:.0} % of what was predicted ({count:.0} watched)",
                of(predictor),
                mean * 100.0
            )
        });
        format!("what predictions return, {}", returned.collect::<Vec<_>>().join("; "))
    }

    /// Seconds and chunks, saved and spent, promised and come.
    fn account(&self) -> Vec<String> {
        let ledger = &self.ledger;
        vec![
            format!(
                "since the start users waited {}; moving saved {} and spent {} on {} copies of chunks",
                ms(ledger.waited),
                ms(ledger.saved),
                ms(ledger.spent),
                ledger.moved,
            ),
            format!(
                "what was moved was to save {}, and {} came",
                ms(ledger.promised_in_all),
                ms(ledger.came_in_all),
            ),
        ]
    }
}
