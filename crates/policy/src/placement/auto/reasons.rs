//! Reasons of `auto` for moving a chunk, or for leaving it, in words.

use super::ghosts::PREDICTORS;
use super::pulse::LANES;
use super::{Auto, Decision};
use thermocline_units::{ChunkId, text};

impl Auto {
    /// Reasons for a chunk's place: what is known of it, what its classes returned, what the whole
    /// of it came to.
    pub(super) fn reasons(&self, chunk: ChunkId) -> Vec<String> {
        let Some(number) = self.pulse.chunks.find(chunk) else { return Vec::new() };
        // One that was met in the running epoch has no figures yet.
        if !self.pulse.knows(number) || self.prices.len() < 2 {
            return Vec::new();
        }
        let home = self.pulse.pool_of(number);
        let mut told = Vec::new();
        for (lane, half_life) in LANES.into_iter().enumerate() {
            let asked = self.pulse.lately(lane, number);
            let [reads, writes, read, written] = asked;
            let costs = self.prices.iter().map(|price| text::seconds(price.of(&asked)));
            let costs: Vec<String> = costs.collect();
            told.push(format!(
                "over {half_life} epoch(s): {reads:.2} reads and {writes:.2} writes a second, and \
                 {:.1} KiB a second in order; for these users would wait {} in each second on \
                 pools 0 to {}",
                (read + written) * 4.0,
                costs.join(", "),
                costs.len() - 1,
            ));
        }
        told.push(self.evidence());
        told.extend(self.account());
        told.extend(self.divided());
        let Decision { predicted, worth, proposed, .. } = self.last;
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
        let returned = (0..PREDICTORS).filter_map(|predictor| {
            let (count, mean) = self.ghosts.returned(predictor);
            let share = mean * 100.0;
            let watched = count.round();
            (watched > 0.0)
                .then(|| format!("{}: {share:.0} % of it, in {watched} cases", of(predictor)))
        });
        let returned: Vec<String> = returned.collect();
        if returned.is_empty() {
            return "no exchange of chunks was predicted yet of which something could come".into();
        }
        format!("what came of predicted savings, by predictor: {}", returned.join("; "))
    }

    /// Slots that hold lines, and the reason for no more.
    fn divided(&self) -> Option<String> {
        let (slots, told) = (self.division.wanted(), self.division.told);
        self.division.is_on().then(|| {
            format!(
                "{slots} slots of pool 0 hold single blocks of 4 KiB, which save users {} in each \
                 second; some more would save {} and take {} away",
                text::seconds(told.gain),
                text::seconds(told.more),
                text::seconds(told.lost),
            )
        })
    }

    /// Seconds and chunks, saved and spent, promised and come.
    fn account(&self) -> Vec<String> {
        let ledger = &self.ledger;
        vec![
            format!(
                "since the start users waited {}; moving saved {} and spent {} on {} copies of chunks",
                text::seconds(ledger.waited),
                text::seconds(ledger.saved),
                text::seconds(ledger.spent),
                ledger.moved,
            ),
            format!(
                "what was moved was to save {}, and {} came",
                text::seconds(ledger.promised_in_all),
                text::seconds(ledger.came_in_all),
            ),
        ]
    }
}
