//! Division of the fastest pool: how many of its slots hold lines of 4 KiB instead of chunks.
//!
//! 1. A *ghost* of the cache of lines sees what users read in few blocks, of chunks on slower pools:
//!    a sample of the blocks, of which it knows how many others were read since each was read
//!    before (SHARDS). So it says for every size how many of these reads a cache would serve; old
//!    reads fade with a half-life of [`HALF_LIFE`] epochs.
//! 2. A line saves the difference between a random read of its chunk's pool and one of the fastest;
//!    a read that misses costs a write there. So each number of slots has a *gain*, in seconds of
//!    waiting a second. More slots count for what they bring for certain: two standard errors of
//!    the number of reads less.
//! 3. *More*: of all larger sizes the one that brings most beyond what it takes away is wanted, if
//!    that is more than [`AHEAD`] times what is lost and pays for the moves. What is lost is
//!    nothing while slots are free, and then what the chunks there that would miss it least lose by
//!    going; the moves are those of these chunks, at `margin` times their price, and within what the
//!    ledger allows.
//! 4. *Fewer*: when the last step gains less than it costs, or when the exchanges that have proved
//!    their worth (`ghosts`) would save more than [`AHEAD`] times as much in its slots. A step is
//!    1/[`STEPS`] of the pool.
//!
//! Writes are no reason for lines: they wait for the chunk's pool all the same. Only the fastest
//! pool is divided, and chunks that yield are those of no strict SLA.
//!
//! Source: ours. A division by marginal gain is Stone, Turek and Wolf, "Optimal Partitioning of
//! Cache Memory", IEEE ToC 1992; the curve is `mrc::shards`.
//!
//! State: at most 120 B for each of [`LINES_MAX`] sampled lines, 4 MiB, whatever the pool's size;
//! O(log) for a read of a sampled block, a hash for others.

use super::price::Price;
use crate::mrc::MissRatioCurve;
use crate::mrc::shards::{Resolution, Sampler, Shards};
use crate::placement::{ChunkAccess, VolumeView};
use crate::registry::{Settings, SettingsError};
use thermocline_units::PoolId;

/// Sizes that are told apart, beside none.
const STEPS: usize = 64;
/// Epochs after which a read weighs half.
const HALF_LIFE: f64 = 8.0;
/// Lines whose last reads are known, at most.
const LINES_MAX: usize = 1 << 15;
/// How many times what it takes away a change must bring.
const AHEAD: f64 = 1.25;
/// Standard errors by which what more slots bring is lowered.
const SURE: f64 = 2.0;
/// Epochs that the ghost has seen before anything follows from it.
const EPOCHS_MIN: u32 = 2;
/// Epochs for which a gain is believed to last, at most.
const HORIZON_MAX: u32 = 16;
const LINE: u64 = 4096;
/// Bytes of the longest read that lines serve.
const READ_MAX: u64 = 8 * LINE;

/// Who says how many slots hold lines.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// The ghost.
    Gain,
    /// So large a share of the fastest pool's slots; 0: no lines.
    Share(f64),
}

/// Figures of the last decision, for `explain`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    /// Seconds a second: what the lines save, what one step more would, and what it would take
    /// away.
    pub(super) gain: f64,
    pub(super) more: f64,
    pub(super) lost: f64,
}

/// The machine as the division sees it at an epoch's end.
pub(super) struct Facts<'a> {
    /// Slots of the fastest pool, and those without a chunk.
    pub(super) slots: u64,
    pub(super) free: u64,
    /// What chunks there lose by going, in seconds a second, least first.
    pub(super) losses: &'a [f32],
    /// Seconds that users wait for a chunk's copy to the next pool, times `margin`; and what may be
    /// spent on copies, over what one costs.
    pub(super) copy: f64,
    pub(super) copies: f64,
    /// What exchanges that have proved their worth would save, each in one slot more, best first.
    pub(super) rivals: &'a [f64],
    pub(super) epoch_s: f64,
}

impl Facts<'_> {
    /// Slots between two sizes.
    fn step(&self) -> u64 {
        (self.slots / STEPS as u64).max(1)
    }

    /// Chunks that may be paid for to go.
    fn payable(&self) -> u64 {
        self.copies.max(0.0).min(self.losses.len() as f64) as u64
    }

    /// Loss by the chunks that must go for so many slots, in seconds a second, and their number.
    fn lost(&self, slots: u64) -> (f64, f64) {
        let goes = slots.saturating_sub(self.free).min(self.losses.len() as u64) as usize;
        let lost: f32 = self.losses[..goes].iter().sum();
        (f64::from(lost), goes as f64)
    }
}

/// Seconds a second that lines save, by the number of their slots.
struct Gains {
    curve: MissRatioCurve,
    /// Reads that the curve is made of, and reads a second.
    reads: f64,
    per_s: f64,
    /// Lines of a slot.
    blocks: u64,
    /// Seconds that a hit saves, and that a fill costs.
    saved: f64,
    fill: f64,
}

impl Gains {
    fn new(curve: MissRatioCurve, (reads, per_s): (f64, f64), blocks: u64) -> Gains {
        Gains { curve, reads, per_s, blocks, saved: 0.0, fill: 0.0 }
    }

    /// At these prices, for reads of so many of chunks on each pool.
    fn priced(self, prices: &[Price], homes: &[f64]) -> Gains {
        let read = |price: &Price| price.of(&[1.0, 0.0, 0.0, 0.0]);
        let saved = homes.iter().zip(prices).map(|(n, home)| n * (read(home) - read(&prices[0])));
        let saved = (saved.sum::<f64>() / self.reads).max(0.0);
        Gains { saved, fill: prices[0].of(&[0.0, 1.0, 0.0, 0.0]), ..self }
    }

    /// Share of reads that lines serve.
    fn hits(&self, slots: u64) -> f64 {
        1.0 - self.curve.at(slots * self.blocks)
    }

    fn of(&self, slots: u64) -> f64 {
        let hits = self.hits(slots);
        if slots > 0 { self.per_s * (hits * self.saved - (1.0 - hits) * self.fill) } else { 0.0 }
    }

    /// Gain of more slots, as far as it is certain.
    fn certain(&self, from: u64, to: u64) -> f64 {
        let seen = (self.hits(to) - self.hits(from)) * self.reads;
        let sure = if seen > 0.0 { (1.0 - SURE / seen.sqrt()).max(0.0) } else { 0.0 };
        (self.of(to) - self.of(from)) * sure
    }
}

/// The division, and the ghost that it follows.
#[derive(Debug)]
pub(super) struct Division {
    mode: Mode,
    ghost: Option<Shards>,
    /// Slots of the pool that the ghost was made for.
    slots: u64,
    blocks: u64,
    epochs: u32,
    /// Seconds that what the ghost has seen took, fading.
    seconds: f64,
    /// Reads by the pool of their chunk, fading, and those of this epoch.
    homes: Vec<f64>,
    now: Vec<f64>,
    wanted: u64,
    pub(super) told: Told,
}

impl Default for Division {
    fn default() -> Division {
        Division {
            mode: Mode::Share(0.0),
            ghost: None,
            slots: 0,
            blocks: 1,
            epochs: 0,
            seconds: 0.0,
            homes: Vec::new(),
            now: Vec::new(),
            wanted: 0,
            told: Told::default(),
        }
    }
}

impl Division {
    /// As the setting `lines` says.
    pub(super) fn new(settings: &Settings) -> Result<Division, SettingsError> {
        let mode = match settings.text("lines") {
            "gain" => Mode::Gain,
            _ => Mode::Share(settings.number("lines", 0.0, 1.0)?),
        };
        Ok(Division { mode, ..Division::default() })
    }

    /// True if it may want lines at all.
    pub(super) fn is_on(&self) -> bool {
        self.mode != Mode::Share(0.0)
    }

    /// Slots that shall hold lines.
    pub(super) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Takes note of a read of a chunk that is on the pool `home`.
    #[inline]
    pub(super) fn observe(&mut self, access: &ChunkAccess, number: u32, home: usize) {
        let Some(ghost) = &mut self.ghost else { return };
        if home == 0 || access.write || access.bytes.0 > READ_MAX {
            return;
        }
        let first = access.offset.0 / LINE;
        for block in first..(access.offset.0 + access.bytes.0).div_ceil(LINE) {
            ghost.access(u64::from(number) << 32 | block);
        }
        if let Some(reads) = self.now.get_mut(home) {
            *reads += 1.0;
        }
    }

    /// Begins an epoch's decision: forgets a part of what was seen, and begins anew where the pool
    /// has another size.
    pub(super) fn look(&mut self, view: &dyn VolumeView) {
        let pools = usize::from(view.pool_count());
        let (slots, blocks) = (view.capacity_chunks(PoolId(0)), view.chunk_size().0 / LINE);
        self.homes.resize(pools, 0.0);
        self.now.resize(pools, 0.0);
        if self.mode != Mode::Gain || pools < 2 || slots == 0 {
            self.ghost = None;
            self.slots = 0;
            return;
        }
        if (slots, blocks) != (self.slots, self.blocks) || self.ghost.is_none() {
            let step_lines = (slots * blocks / STEPS as u64).max(1);
            let resolution = Resolution { step_lines, points: STEPS };
            let sampler = Sampler::new(1.0, 1, 1);
            self.ghost = Some(Shards::fixed_size(sampler, LINES_MAX, resolution));
            (self.slots, self.blocks, self.epochs, self.seconds) = (slots, blocks, 0, 0.0);
            self.homes.fill(0.0);
            return;
        }
        let keep = 0.5_f64.powf(1.0 / HALF_LIFE);
        let epoch = view.epoch().as_secs_f64();
        self.epochs += 1;
        self.seconds = self.seconds * keep + epoch;
        for (all, now) in self.homes.iter_mut().zip(&self.now) {
            *all = *all * keep + now;
        }
    }

    /// Ends an epoch.
    pub(super) fn advance(&mut self) {
        self.now.fill(0.0);
        if let Some(ghost) = &mut self.ghost {
            ghost.fade(0.5_f64.powf(1.0 / HALF_LIFE));
        }
    }

    /// Share of reads that lines serve, of so many slots, as far as the ghost knows.
    fn hit_ratio(&self, slots: u64) -> f64 {
        let Some(ghost) = self.ghost.as_ref().filter(|ghost| ghost.accesses() > 0.0) else {
            return 0.0;
        };
        1.0 - ghost.curve().at(slots * self.blocks)
    }

    /// Reads a second in this epoch that lines have served, by the pool of their chunk.
    pub(super) fn served(&self, epoch_s: f64) -> Vec<f64> {
        let ratio = if self.wanted > 0 { self.hit_ratio(self.wanted) } else { 0.0 };
        self.now.iter().map(|reads| reads * ratio / epoch_s).collect()
    }

    /// Decides how many slots shall hold lines. Slots beyond the free ones must be left by chunks.
    pub(super) fn decide(&mut self, prices: &[Price], facts: &Facts<'_>) {
        self.told = Told::default();
        if let Mode::Share(share) = self.mode {
            self.wanted = (share * facts.slots as f64) as u64;
            return;
        }
        self.wanted = self.wanted.min(facts.slots);
        let Some(ghost) = &self.ghost else {
            self.wanted = 0;
            return;
        };
        let reads: f64 = self.homes.iter().sum();
        if self.epochs < EPOCHS_MIN || reads <= 0.0 {
            return;
        }
        let gains = Gains::new(ghost.curve(), (reads, reads / self.seconds), self.blocks)
            .priced(prices, &self.homes);
        // Room that nobody may pay for is not waited for.
        let most = (facts.free + facts.payable()).min(facts.slots);
        self.told.gain = gains.of(self.wanted);
        self.wanted = match self.more(&gains, facts, most) {
            Some(more) => more,
            None if self.is_too_much(&gains, facts) => self.wanted - facts.step().min(self.wanted),
            None => self.wanted.min(most),
        };
    }

    /// The larger size that brings most beyond what it takes away; `None`: none brings enough.
    fn more(&mut self, gains: &Gains, facts: &Facts<'_>, most: u64) -> Option<u64> {
        let here = self.wanted;
        let horizon = f64::from(self.epochs.min(HORIZON_MAX)) * facts.epoch_s;
        let (lost_here, _) = facts.lost(here);
        let mut best: Option<(f64, u64)> = None;
        for steps in 1..=STEPS as u64 {
            let to = (here + steps * facts.step()).min(most);
            if to <= here {
                break;
            }
            let (lost, goes) = facts.lost(to);
            let (lost, brings) = (lost - lost_here, gains.certain(here, to));
            let net = brings - AHEAD * lost - goes * facts.copy / horizon;
            if net > 0.0 && best.is_none_or(|(before, _)| net > before) {
                best = Some((net, to));
            }
            if steps == 1 {
                (self.told.more, self.told.lost) = (brings, lost);
            }
        }
        best.map(|(_, to)| to)
    }

    /// True if the last step gains less than it costs, or than chunks would save in its slots.
    fn is_too_much(&self, gains: &Gains, facts: &Facts<'_>) -> bool {
        let fewer = self.wanted.saturating_sub(facts.step());
        let last = gains.of(self.wanted) - gains.of(fewer);
        let rivals: f64 = facts.rivals.iter().take((self.wanted - fewer) as usize).sum();
        // Part of what rivals would save is served by lines already.
        let rivals = rivals * (1.0 - gains.hits(self.wanted));
        self.wanted > 0 && (last < 0.0 || rivals > AHEAD * last)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ghost.as_ref().map_or(0, Shards::bytes)
    }
}

#[cfg(test)]
mod tests;
