//! Pairs of chunks to exchange: one that comes to a pool by one predictor, and one that goes for
//! it.
//!
//! Who would go is judged by what speaks most for it: of all memories the one that would miss it
//! most. So a chunk that was busy an hour ago and may be again goes after one that never was. The
//! copy that its going takes counts, too: one whose slow copy was kept goes before its like.

use super::ghosts::Pair;
use super::pulse::LANES;
use super::{Auto, CONSIDERED};
use crate::placement::plan::Rooms;
use crate::placement::price::Ask;
use crate::placement::{SlaClass, VolumeView};
use thermocline_units::PoolId;

/// Epochs over which the copy of a chunk that goes is spread, to be compared with what it loses.
const COPY_EPOCHS: f64 = 16.0;

/// A chunk with what it saves, or loses, a second.
type Weighed = (f32, u32);

/// Keeps the first [`CONSIDERED`] in an order, in that order.
fn first(all: &mut Vec<Weighed>, order: impl Fn(&Weighed, &Weighed) -> std::cmp::Ordering) {
    if all.len() > CONSIDERED {
        all.select_nth_unstable_by(CONSIDERED, &order);
        all.truncate(CONSIDERED);
    }
    all.sort_unstable_by(order);
}

impl Auto {
    /// Pairs for the pool `to`, best first: whoever saves most by coming with whoever loses least
    /// by going, while that saves anything.
    pub(super) fn pairs(
        &self,
        predictor: usize,
        to: usize,
        around: &[Ask],
        view: &dyn VolumeView,
        rooms: &Rooms,
    ) -> Vec<Pair> {
        let (mut coming, mut going) = (Vec::new(), Vec::new());
        let (bytes, seconds) = (view.chunk_size().0 as f64, view.epoch().as_secs_f64());
        let copy = (self.copy_cost(bytes, to, to + 1) / (seconds * COPY_EPOCHS)) as f32;
        for number in 0..self.pulse.len() {
            // What is on no pool cannot be moved, and nothing need make room for it.
            if self.pulse.first_home(number).is_none() {
                continue;
            }
            let home = self.pulse.pool_of(number);
            if home == to {
                // As far as the next pool below: what is lost there orders them everywhere.
                let lost = self.loses(number, predictor, around, to, to + 1);
                let copies = if self.pulse.is_kept_on(number, to + 1) { 0.0 } else { copy };
                going.push((lost + copies, number));
            } else if home > to {
                let saved = self.saves(number, predictor, around, home, to);
                if saved > 0.0 {
                    coming.push((saved, number));
                }
            }
        }
        first(&mut coming, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        first(&mut going, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let free = rooms.free(PoolId(to as u16)).max(0);
        let mut victims = going.into_iter();
        let mut pairs = Vec::new();
        for (at, (saved, number)) in (0..).zip(coming) {
            let from = self.pulse.pool_of(number);
            let pair = |victim, predicted| Pair {
                chunk: number,
                victim,
                from: from as u8,
                to: to as u8,
                predictor: predictor as u8,
                signs: self.signs(number, predictor, around, to),
                predicted,
            };
            if at < free {
                pairs.push(pair(None, saved));
                continue;
            }
            let gives_way = |&(_, victim): &Weighed| self.gives_way(victim, number, view);
            let Some((_, victim)) = victims.find(gives_way) else { break };
            let lost = self.loses(victim, predictor, around, to, from);
            if saved <= lost {
                break;
            }
            pairs.push(pair(Some(victim), saved - lost));
        }
        pairs
    }

    /// Seconds a second that a predictor expects a chunk to save on `to`, compared with `from`.
    fn saves(&self, number: u32, predictor: usize, around: &[Ask], from: usize, to: usize) -> f32 {
        let asked = self.expected(predictor, around, number);
        (self.prices[from].of(&asked) - self.prices[to].of(&asked)) as f32
    }

    /// Seconds a second that a chunk may lose by going from `from` to `to`.
    pub(super) fn loses(
        &self,
        number: u32,
        predictor: usize,
        around: &[Ask],
        from: usize,
        to: usize,
    ) -> f32 {
        if self.ahead.is_some() {
            return self.saves(number, predictor, around, to, from);
        }
        let lost = |lane| self.saves(number, lane, around, to, from);
        (0..LANES.len()).map(lost).fold(0.0, f32::max)
    }

    /// Signs that speak for a chunk beside the prediction, see [`Pair::signs`].
    fn signs(&self, number: u32, predictor: usize, around: &[Ask], to: usize) -> u8 {
        if self.ahead.is_some() {
            return 0;
        }
        let from = self.pulse.pool_of(number);
        let predicted = self.saves(number, predictor, around, from, to);
        let near = self.saves(number, LANES.len(), around, from, to);
        let near = u8::from(near > predicted * 0.02) + u8::from(near > predicted * 0.3);
        let longer = if predictor >= LANES.len() { 1 } else { (predictor + 1).min(2) };
        let longer = self.saves(number, longer, around, from, to);
        near + 3 * u8::from(longer > predicted * 0.5)
    }

    /// True if a chunk may be made to go for another: strict SLAs do not give way to looser
    /// ones.
    fn gives_way(&self, victim: u32, to: u32, view: &dyn VolumeView) -> bool {
        !self.is_strict(victim, view) || self.is_strict(to, view)
    }

    /// True if a chunk is of a volume with a strict SLA.
    pub(super) fn is_strict(&self, number: u32, view: &dyn VolumeView) -> bool {
        let sla = view.sla(self.pulse.chunks.id(number).volume);
        sla.is_some_and(|sla| sla.class == SlaClass::Strict)
    }
}
