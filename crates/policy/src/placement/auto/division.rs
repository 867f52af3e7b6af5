//! Division of the fastest pool: how many of its slots hold lines of 4 KiB instead of chunks.
//!
//! 1. *Ghosts* of the cache of lines see what users read in few blocks, of chunks on slower pools:
//!    caches of [`SIZES`] sizes without contents, from the whole pool down by halves, which replace
//!    as the machine's does. Of a large pool they see a sample of the blocks, and are as much
//!    smaller. A read counts as served by a size that has all of its blocks, as in the machine. So
//!    they say how many of these reads each size would serve, and what lies between is taken for
//!    linear. Old reads fade with a half-life of [`HALF_LIFE`] epochs.
//! 2. Where lines are lent, what they served is held against what the ghosts say: reads of the
//!    fastest pool beyond those of its chunks, one for each block. All gains are lowered by what
//!    did not come.
//! 3. A line saves the difference between a random read of its chunk's pool and one of the fastest;
//!    a read that misses costs a write there. So each number of slots has a *gain*, in seconds of
//!    waiting a second. More slots count for what they bring for certain: two standard errors of
//!    the number of reads less.
//! 4. *More*: of all larger sizes the one that brings most beyond what it takes away is wanted, if
//!    that is more than [`AHEAD`] times what is lost and pays for the moves. What is lost is
//!    nothing while slots are free, and then what the chunks there lose by going, those first that
//!    lose least; but for those that exchanges of chunks (`ghosts`) will send away anyway. The
//!    moves are those of these chunks, at `margin` times their price, and within what the ledger
//!    allows; there are none to a pool that is overloaded.
//! 5. *Fewer*: when the last step gains less than it costs, or when the last chunks that exchanges
//!    send away would lose more than [`AHEAD`] times as much as its slots gain. A step is
//!    1/[`STEPS`] of the pool.
//! 6. A chunk of which little was seen is not believed to lose nothing: what it was asked weighs
//!    against [`PRIOR`] epochs of what chunks are asked that were there at first.
//!
//! Writes are no reason for lines: they wait for the chunk's pool all the same. Only the fastest
//! pool is divided, if it has [`STEPS`] slots or more: of fewer, each is too large a part to be
//! taken from chunks on so little evidence. Chunks that yield are those of no strict SLA.
//!
//! Source: ours. A division by marginal gain is Stone, Turek and Wolf, "Optimal Partitioning of
//! Cache Memory", IEEE ToC 1992; miniatures by spatial sampling are Waldspurger et al., ATC 2017.
//!
//! State: 8 B for each line of a ghost, at most 2 MiB, whatever the pool's size; O([`SIZES`]) for a
//! read of a sampled block, a hash for others.

use crate::cache::{SetRule, Sets};
use crate::mrc::shards::Sampler;
use crate::placement::price::Price;
use crate::placement::{ChunkAccess, FLASH, PoolChange, VolumeView};
use crate::registry::{Settings, SettingsError};
use std::ops::Range;
use thermocline_units::PoolId;

/// Parts of the pool by which a division changes.
const STEPS: u64 = 64;
/// Sizes of ghosts.
const SIZES: usize = 8;
/// Epochs after which a read weighs half.
const HALF_LIFE: f64 = 8.0;
/// Lines of the largest ghost, at most.
const LINES_MAX: u64 = 1 << 17;
/// Places that a line may be in, as in the machine.
const WAYS: u32 = 16;
/// Hits from which on they are held against what came.
const HITS_MIN: f64 = 20.0;
/// Weight of the newest epoch in what came of gains.
const NEWEST: f64 = 0.25;
/// Ratio of what a change must bring to what it takes away.
const AHEAD: f64 = 1.25;
/// Standard errors by which what more slots bring is lowered.
const SURE: f64 = 2.0;
/// Epochs that the ghost has seen before anything follows from it.
const EPOCHS_MIN: u32 = 1;
/// Epochs of what others are asked that a chunk's own weigh against.
pub(super) const PRIOR: f32 = 32.0;
/// Epochs for which a gain is believed to last, at most.
const HORIZON_MAX: u32 = 16;
const LINE: u64 = 4096;
/// Blocks of the longest read that lines serve; so many in a row are sampled together.
const BLOCKS_MAX: u64 = 8;

/// Source of the number of slots that hold lines.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// The ghost.
    Gain,
    /// A share of the fastest pool's slots; 0: no lines.
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
    /// Loss of each chunk there by going, in seconds a second, least first.
    pub(super) losses: &'a [f32],
    /// Seconds that users wait for a chunk's copy to the next pool, times `margin`; and what may be
    /// spent on copies, over what one costs.
    pub(super) copy: f64,
    pub(super) copies: f64,
    /// Exchanges that have proved their worth, and send as many chunks away.
    pub(super) exchanges: u64,
    pub(super) epoch_s: f64,
}

impl Facts<'_> {
    /// Slots between two sizes.
    fn step(&self) -> u64 {
        (self.slots / STEPS).max(1)
    }

    /// Chunks that may be paid for to go.
    fn payable(&self) -> u64 {
        self.copies.max(0.0).min(self.losses.len() as f64) as u64
    }

    /// Chunks that exchanges send away, as far as these may be paid for: two copies each.
    fn sent_away(&self) -> usize {
        self.exchanges.min(self.payable() / 2) as usize
    }

    /// Loss by the chunks that must go for so many slots, in seconds a second, and their number.
    fn lost(&self, slots: u64) -> (f64, f64) {
        let goes = slots.saturating_sub(self.free).min(self.losses.len() as u64) as usize;
        let lost: f32 = self.losses.iter().skip(self.sent_away()).take(goes).sum();
        (f64::from(lost), goes as f64)
    }

    /// Loss by the last of the chunks that exchanges send away, in so many slots.
    fn lost_last(&self, slots: u64) -> f64 {
        let away = self.sent_away();
        let lost: f32 = self.losses[away.saturating_sub(slots as usize)..away].iter().sum();
        f64::from(lost)
    }
}

/// Seconds a second that lines save, by the number of their slots.
struct Gains<'a> {
    ghosts: &'a Ghosts,
    /// Reads that were seen, and reads a second.
    reads: f64,
    per_s: f64,
    /// Seconds that a hit saves, and that the fills of a miss cost.
    saved: f64,
    fill: f64,
}

impl Gains<'_> {
    /// Share of reads that lines serve.
    fn hits(&self, slots: u64) -> f64 {
        self.ghosts.hits(slots)
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

/// Reads and their blocks, fading.
#[derive(Debug, Clone, Copy, Default)]
struct Reads {
    requests: f64,
    blocks: f64,
}

impl Reads {
    fn add(&mut self, blocks: usize) {
        self.requests += 1.0;
        self.blocks += blocks as f64;
    }

    fn fade(&mut self, keep: f64) {
        self.requests *= keep;
        self.blocks *= keep;
    }
}

/// A cache without contents.
#[derive(Debug)]
struct Ghost {
    /// Slots that it stands for.
    slots: u64,
    lines: Sets,
    /// Reads that it would have served.
    hits: Reads,
}

impl Ghost {
    fn of(slots: u64, lines: u64) -> Ghost {
        let lines = lines.clamp(1, LINES_MAX) as u32;
        let (lines, hits) = (Sets::new(lines, WAYS, SetRule::S3Fifo), Reads::default());
        Ghost { slots, lines, hits }
    }

    /// A read of some lines: all of them are there, or those come that are not.
    fn read(&mut self, lines: &[u32]) {
        let mut frames = [0; BLOCKS_MAX as usize];
        let mut there = 0;
        for &line in lines {
            match self.lines.find(line) {
                Some(frame) => {
                    frames[there] = frame;
                    there += 1;
                }
                None => {
                    let placed = self.lines.place(line, |_, _| true);
                    debug_assert!(placed.is_some(), "any line may leave");
                }
            }
        }
        if there == lines.len() {
            frames[..there].iter().for_each(|&frame| self.lines.hit(frame));
            self.hits.add(there);
        }
    }
}

/// Ghosts of all sizes, smallest first, and the sample that they see.
#[derive(Debug)]
struct Ghosts {
    sampler: Sampler,
    sizes: Vec<Ghost>,
    /// Reads that they have seen.
    seen: Reads,
}

impl Ghosts {
    /// For a pool of so many slots of so many blocks each.
    fn new(slots: u64, blocks: u64) -> Ghosts {
        let rate = (LINES_MAX as f64 / (slots as f64 * blocks as f64)).min(1.0);
        let parts = (0..SIZES as u32).rev().map(|halves| slots >> halves).filter(|&part| part > 0);
        let ghost = |part: u64| Ghost::of(part, (part as f64 * blocks as f64 * rate) as u64);
        let (sampler, seen) = (Sampler::new(rate, 1, 1), Reads::default());
        Ghosts { sampler, sizes: parts.map(ghost).collect(), seen }
    }

    /// A read of some blocks of a chunk; one that lies in two groups counts as two.
    #[inline]
    fn read(&mut self, chunk: u32, blocks: Range<u64>) {
        let mut from = blocks.start;
        while from < blocks.end {
            let group = from / BLOCKS_MAX;
            let to = ((group + 1) * BLOCKS_MAX).min(blocks.end);
            if self.sampler.keeps(u64::from(chunk) << 32 | group) {
                self.read_part(chunk, from..to);
            }
            from = to;
        }
    }

    fn read_part(&mut self, chunk: u32, blocks: Range<u64>) {
        let mut lines = [0; BLOCKS_MAX as usize];
        let count = (blocks.end - blocks.start) as usize;
        for (line, block) in lines.iter_mut().zip(blocks) {
            let key = u64::from(chunk) << 32 | block;
            let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (key >> 29);
            *line = (mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32 % u32::MAX;
        }
        self.seen.add(count);
        self.sizes.iter_mut().for_each(|ghost| ghost.read(&lines[..count]));
    }

    fn fade(&mut self, keep: f64) {
        self.seen.fade(keep);
        self.sizes.iter_mut().for_each(|ghost| ghost.hits.fade(keep));
    }

    /// Share of reads that so many slots would serve.
    fn hits(&self, slots: u64) -> f64 {
        self.share(slots, |reads| reads.requests)
    }

    /// Blocks that so many slots would serve, of all blocks that are read.
    fn hit_blocks(&self, slots: u64) -> f64 {
        self.share(slots, |reads| reads.blocks)
    }

    /// Blocks of a read.
    fn length(&self) -> f64 {
        self.seen.blocks / self.seen.requests.max(1.0)
    }

    fn share(&self, slots: u64, count: fn(&Reads) -> f64) -> f64 {
        let seen = count(&self.seen);
        if seen <= 0.0 {
            return 0.0;
        }
        let (mut below, mut share) = (0, 0.0);
        for ghost in &self.sizes {
            // More room serves no fewer, but for chance.
            let here = (count(&ghost.hits) / seen).clamp(share, 1.0_f64.max(share));
            if slots <= ghost.slots {
                let part = (slots - below) as f64 / (ghost.slots - below) as f64;
                return share + (here - share) * part;
            }
            (below, share) = (ghost.slots, here);
        }
        share
    }

    fn bytes(&self) -> u64 {
        self.sizes.iter().map(|ghost| ghost.lines.bytes()).sum()
    }
}

/// The division, and the ghosts that it follows.
#[derive(Debug)]
pub(super) struct Division {
    mode: Mode,
    /// True if the machine holds lines, as of the last `look`: an adopted shadow comes to one
    /// that does.
    lends: bool,
    ghosts: Option<Ghosts>,
    /// Slots of the pool that the ghosts were made for.
    slots: u64,
    blocks: u64,
    epochs: u32,
    /// Seconds that what the ghosts have seen took, fading.
    seconds: f64,
    /// Reads of chunks on the fastest pool in this epoch.
    own: u64,
    /// Reads of the fastest pool beyond those, in the epoch that ends: lines served them.
    beyond: u64,
    /// Share of what the ghosts say that came, lately; and in the epoch that ends.
    came: f64,
    came_now: f64,
    /// Reads by the pool of their chunk, fading, and those of this epoch, and their blocks.
    reads: Vec<f64>,
    now: Vec<f64>,
    blocks_now: u64,
    wanted: u64,
    pub(super) told: Told,
}

impl Default for Division {
    fn default() -> Division {
        Division {
            mode: Mode::Share(0.0),
            lends: true,
            ghosts: None,
            slots: 0,
            blocks: 1,
            epochs: 0,
            seconds: 0.0,
            own: 0,
            beyond: 0,
            came: 1.0,
            came_now: 1.0,
            reads: Vec::new(),
            now: Vec::new(),
            blocks_now: 0,
            wanted: 0,
            told: Told::default(),
        }
    }
}

impl Division {
    /// A division as the setting `lines` says.
    pub(super) fn new(settings: &Settings) -> Result<Division, SettingsError> {
        let mode = match settings.text("lines") {
            "gain" => Mode::Gain,
            _ => Mode::Share(settings.number("lines", 0.0, 1.0)?),
        };
        Ok(Division { mode, ..Division::default() })
    }

    /// True if it may want lines at all.
    pub(super) fn is_on(&self) -> bool {
        self.lends && self.mode != Mode::Share(0.0)
    }

    /// Slots that shall hold lines.
    pub(super) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Takes note of a read of a chunk that is on the pool `home`.
    #[inline]
    pub(super) fn observe(&mut self, access: &ChunkAccess, number: u32, home: usize) {
        if home == 0 && !access.write {
            self.own += 1;
        }
        let end = access.offset.0.saturating_add(access.bytes.0);
        let blocks = access.offset.0 / LINE..end.div_ceil(LINE);
        let length = blocks.end - blocks.start;
        if home == 0 || access.write || length > BLOCKS_MAX {
            return;
        }
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.read(number, blocks);
        }
        if let Some(reads) = self.now.get_mut(home) {
            *reads += 1.0;
            self.blocks_now += length;
        }
    }

    /// Pools are at other places; what ghosts know is of the fastest pool that was.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        change.shift(&mut self.reads, 0.0);
        change.shift(&mut self.now, 0.0);
        if let PoolChange::Joined(FLASH) | PoolChange::Left(FLASH) = change {
            self.ghosts = None;
            self.slots = 0;
        }
    }

    /// Begins an epoch's decision: forgets a part of what was seen, and begins anew where the pool
    /// has another size.
    pub(super) fn look(&mut self, view: &dyn VolumeView) {
        self.lends = view.lends_lines();
        if !self.lends {
            // Slots that were set aside for lines would stay empty.
            self.wanted = 0;
        }
        let pools = usize::from(view.pool_count());
        let (slots, blocks) = (view.capacity_chunks(PoolId(0)), view.chunk_size().0 / LINE);
        self.reads.resize(pools, 0.0);
        self.now.resize(pools, 0.0);
        self.beyond = view.load(PoolId(0)).reads.saturating_sub(self.own);
        if !self.lends || self.mode != Mode::Gain || pools < 2 || slots < STEPS {
            self.ghosts = None;
            self.slots = 0;
            return;
        }
        if (slots, blocks) != (self.slots, self.blocks) || self.ghosts.is_none() {
            self.ghosts = Some(Ghosts::new(slots, blocks.max(1)));
            (self.slots, self.blocks, self.epochs, self.seconds) = (slots, blocks, 0, 0.0);
            self.reads.fill(0.0);
            return;
        }
        let keep = 0.5_f64.powf(1.0 / HALF_LIFE);
        let epoch = view.epoch().as_secs_f64();
        self.epochs += 1;
        self.seconds = self.seconds * keep + epoch;
        for (all, now) in self.reads.iter_mut().zip(&self.now) {
            *all = *all * keep + now;
        }
        self.compare();
    }

    /// Holds what the ghosts say that lines served in the epoch against reads of the fastest pool.
    fn compare(&mut self) {
        let ghosts = self.ghosts.as_ref();
        let said = self.blocks_now as f64 * ghosts.map_or(0.0, |all| all.hit_blocks(self.wanted));
        if self.wanted == 0 {
            self.came_now = 0.0;
            self.came += (1.0 - self.came) * NEWEST / 4.0;
        } else if said >= HITS_MIN {
            self.came_now = (self.beyond as f64 / said).min(1.0);
            self.came += (self.came_now - self.came) * NEWEST;
        } else {
            self.came_now = self.came;
        }
    }

    /// Ends an epoch.
    pub(super) fn advance(&mut self) {
        self.now.fill(0.0);
        (self.blocks_now, self.own) = (0, 0);
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.fade(0.5_f64.powf(1.0 / HALF_LIFE));
        }
    }

    /// Share of reads that lines serve, of so many slots, as far as the ghosts know.
    fn hit_ratio(&self, slots: u64) -> f64 {
        self.ghosts.as_ref().map_or(0.0, |ghosts| ghosts.hits(slots))
    }

    /// Reads a second in this epoch that lines have served, by the pool of their chunk.
    pub(super) fn served(&self, epoch_s: f64) -> Vec<f64> {
        let ratio = match self.mode {
            _ if self.wanted == 0 || self.blocks_now == 0 => 0.0,
            Mode::Gain => self.hit_ratio(self.wanted) * self.came_now.min(self.came),
            Mode::Share(_) => (self.beyond as f64 / self.blocks_now as f64).min(1.0),
        };
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
        let Some(ghosts) = &self.ghosts else {
            self.wanted = 0;
            return;
        };
        let reads: f64 = self.reads.iter().sum();
        if self.epochs < EPOCHS_MIN || reads <= 0.0 {
            return;
        }
        let read = |price: &Price| price.of(&[1.0, 0.0, 0.0, 0.0]);
        let saved =
            self.reads.iter().zip(prices).map(|(n, home)| n * (read(home) - read(&prices[0])));
        let gains = Gains {
            ghosts,
            reads,
            per_s: reads / self.seconds,
            saved: (saved.sum::<f64>() / reads).max(0.0) * self.came,
            fill: prices[0].of(&[0.0, 1.0, 0.0, 0.0]) * ghosts.length(),
        };
        // Room that nobody may pay for is not waited for.
        let most = (facts.free + facts.payable()).min(facts.slots);
        let horizon = f64::from(self.epochs.min(HORIZON_MAX)) * facts.epoch_s;
        let next = self.wanted + facts.step();
        let lost = facts.lost(next).0 - facts.lost(self.wanted).0;
        let told =
            Told { gain: gains.of(self.wanted), more: gains.certain(self.wanted, next), lost };
        let wanted = match more(&gains, facts, (self.wanted, most), horizon) {
            Some(more) => more,
            None if is_too_much(&gains, facts, self.wanted) => {
                self.wanted.saturating_sub(facts.step())
            }
            None => self.wanted.min(most),
        };
        (self.told, self.wanted) = (told, wanted);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ghosts.as_ref().map_or(0, Ghosts::bytes)
    }
}

/// The larger size up to the one that there may be that brings most beyond what it takes away, for
/// so many seconds; `None`: none brings enough.
fn more(
    gains: &Gains<'_>,
    facts: &Facts<'_>,
    (here, most): (u64, u64),
    horizon: f64,
) -> Option<u64> {
    let (lost_here, _) = facts.lost(here);
    let mut best: Option<(f64, u64)> = None;
    for steps in 1..=STEPS {
        let to = (here + steps * facts.step()).min(most);
        if to <= here {
            break;
        }
        let (lost, goes) = facts.lost(to);
        let net =
            gains.certain(here, to) - AHEAD * (lost - lost_here) - goes * facts.copy / horizon;
        if net > 0.0 && best.is_none_or(|(before, _)| net > before) {
            best = Some((net, to));
        }
    }
    best.map(|(_, to)| to)
}

/// True if so many slots, or the last step of them, gain less than they cost, or than chunks lose
/// that had to go.
fn is_too_much(gains: &Gains<'_>, facts: &Facts<'_>, here: u64) -> bool {
    let fewer = here.saturating_sub(facts.step());
    let last = gains.of(here) - gains.of(fewer);
    let costs = last < 0.0 || gains.of(here) < 0.0;
    here > 0 && (costs || facts.lost_last(here - fewer) > AHEAD * last)
}

#[cfg(test)]
mod tests;
