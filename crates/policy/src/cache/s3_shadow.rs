//! S3-FIFO whose small queue is as large as a sample of the lines says it should be.
//!
//! No one share of the small queue serves every load: 1 % is best for loops, 60 % for what comes
//! again soon, and with 95 % S3-FIFO is nearly FIFO, which is the best of all where lines come
//! again in the order in which they came. So the share changes while the cache runs.
//!
//! 1. The cache is an S3-FIFO (`s3_fifo.rs`). Five *candidates* name a share of the small queue and
//!    the hits that move a line to main. One of them rules the cache; the first is the one nearest
//!    to FIFO, because it can lose least.
//! 2. A *shadow* for each candidate is an S3-FIFO of its own that sees a sample of the lines, and
//!    has room for as large a part of the cache as the sample is of all lines.
//! 3. The sample takes one line of every 2^k neighbouring numbers, which one by a hash of their
//!    common part; that part numbers the sampled lines without gaps. k is 5, or less where a
//!    shadow would have fewer than [`SHADOW_LINES_MIN`] lines.
//! 4. At a sampled access, each candidate whose shadow hits where the ruling one's does not gains a
//!    point, and loses one where it is the other way round. Every 16 sampled accesses the candidate
//!    furthest ahead takes over, if it is ahead by more than three standard errors: with g points
//!    gained and l lost, (g − l)² > 9 (g + l). All points are forgotten then.
//! 5. Points are halved after as many sampled accesses as a shadow has lines, eight times over.
//!
//! Taking over flushes nothing: all candidates share the two queues, the ghosts and the counts.
//! When the new share is smaller, each eviction also moves four of small's oldest lines to main
//! until both have their shares; when it is larger, evictions come from main until then.
//!
//! Source: this project. That S3-FIFO's share decides is Yang et al., SOSP 2023, section 6; ghost
//! caches that choose among policies are Ari et al., "ACME", 2002; miniatures by spatial sampling
//! are Waldspurger et al., ATC 2017. Settings were chosen on the traces that
//! `docs/results/own-cache-policy.md` names, with what they come to on traces left out.
//!
//! State: that of S3-FIFO, and 5/32 of it again: 2.1 B a cached line and 0.7 B a distinct line more
//! with the defaults, in caches of 2,048 lines and more. O(1) amortised; one access in 32 is made
//! six times.

use super::s3_fifo::{S3Fifo, Tuning};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "s3-shadow",
    summary: "S3-FIFO whose small queue has the share that serves a sample of the lines best",
    source: "this project; S3-FIFO is Yang et al., SOSP 2023",
    settings: &[
        Setting {
            name: "shares",
            default: "0.01/0.1/0.3/0.6/0.95",
            unit: "fractions of the cache",
            help: "shares of the small queue to choose from, at most 8; the last one begins",
        },
        Setting {
            name: "moves",
            default: "2/1/1/2/2",
            unit: "hits",
            help: "for each share, hits in the small queue that send a line to main; 1 to 3",
        },
    ],
    build: Build::Cache(|geometry, settings| {
        Ok(Box::new(S3Shadow::new(geometry.lines, &candidates(settings)?)?))
    }),
};

/// Candidates at most.
const CANDIDATES_MAX: usize = 8;
/// Lines that a shadow has at least, unless the cache has fewer.
const SHADOW_LINES_MIN: u32 = 64;
/// The sample takes one line of 2⁵ at the least: with five shadows and one of 2⁴, an access cost
/// 1.7 times that of S3-FIFO, now 1.4 times.
const SAMPLE_LOG2_MAX: u32 = 5;
/// Sampled accesses between two decisions.
const DECISION: u32 = 16;
/// Standard errors by which a candidate must be ahead, squared.
const AHEAD_SQUARED: u64 = 9;
/// Points are halved after so many times a shadow's lines of sampled accesses.
const MEMORY: u32 = 8;

/// A share of the small queue, and the hits that move a line to main.
type Candidate = (f64, u32);

fn candidates(settings: &Settings) -> Result<Vec<Candidate>, SettingsError> {
    let shares = settings.numbers("shares", 0.0, 1.0)?;
    let moves = settings.numbers("moves", 1.0, 3.0)?;
    if shares.len() > CANDIDATES_MAX {
        return Err(settings.wrong("shares", format!("at most {CANDIDATES_MAX} shares")));
    }
    if moves.len() != shares.len() {
        return Err(
            settings.wrong("moves", format!("one number for each of {} shares", shares.len()))
        );
    }
    Ok(shares.into_iter().zip(moves.into_iter().map(|hits| hits as u32)).collect())
}

/// A candidate and what speaks for it.
#[derive(Debug)]
struct Shadow {
    /// The cache under this candidate, in small.
    cache: S3Fifo,
    /// Parameters that the cache is told when this candidate takes over.
    tuning: Tuning,
    /// Sampled accesses that only this one hit, of it and the ruling one.
    gained: u32,
    /// Sampled accesses that only the ruling one hit.
    lost: u32,
}

/// S3-FIFO with a small queue as large as a sample of the lines advises.
#[derive(Debug)]
pub(crate) struct S3Shadow {
    cache: S3Fifo,
    shadows: Vec<Shadow>,
    /// The ruling candidate.
    ruling: usize,
    /// One line of 2 to the power of this is sampled.
    sample_log2: u32,
    /// Sampled accesses since points were halved.
    sampled: u32,
    /// Sampled accesses after which points are halved.
    memory: u32,
}

impl S3Shadow {
    fn new(lines: u32, candidates: &[Candidate]) -> Result<S3Shadow, SettingsError> {
        let sample_log2 = (lines / SHADOW_LINES_MIN).max(1).ilog2().min(SAMPLE_LOG2_MAX);
        let shadow_lines = (lines >> sample_log2).max(1);
        let ruling = candidates.len() - 1;
        let shadow = |(share, hits): &Candidate| Shadow {
            cache: S3Fifo::tuned(shadow_lines, Tuning::of(shadow_lines, *share, *hits)),
            tuning: Tuning::of(lines, *share, *hits),
            gained: 0,
            lost: 0,
        };
        S3Fifo::check_room(ENTRY.name, lines)?;
        let shadows: Vec<Shadow> = candidates.iter().map(shadow).collect();
        Ok(S3Shadow {
            cache: S3Fifo::tuned(lines, shadows[ruling].tuning),
            shadows,
            ruling,
            sample_log2,
            sampled: 0,
            memory: (shadow_lines * MEMORY).max(DECISION),
        })
    }

    /// The number of `line` among the sampled lines, if it is one of them.
    #[inline(always)]
    fn sampled_number(&self, line: LineId) -> Option<LineId> {
        let group = line.0 >> self.sample_log2;
        let member = group.wrapping_mul(0x9e37_79b9) >> 7;
        let mask = (1 << self.sample_log2) - 1;
        ((member ^ line.0) & mask == 0).then_some(LineId(group))
    }

    /// Shows a sampled line to every shadow.
    fn access_shadows(&mut self, line: LineId) {
        let mut hits = [false; CANDIDATES_MAX];
        for (shadow, hit) in self.shadows.iter_mut().zip(&mut hits) {
            *hit = shadow.cache.access(line).is_hit();
        }
        let ruling = hits[self.ruling];
        for (shadow, hit) in self.shadows.iter_mut().zip(hits) {
            shadow.gained += u32::from(hit && !ruling);
            shadow.lost += u32::from(!hit && ruling);
        }
        self.sampled += 1;
        if self.sampled.is_multiple_of(DECISION) {
            self.decide();
        }
        if self.sampled >= self.memory {
            self.sampled = 0;
            for shadow in &mut self.shadows {
                shadow.gained /= 2;
                shadow.lost /= 2;
            }
        }
    }

    /// Lets the candidate take over that is furthest ahead of the ruling one, if any is surely so.
    fn decide(&mut self) {
        let lead = |shadow: &Shadow| {
            let ahead = u64::from(shadow.gained.saturating_sub(shadow.lost));
            let sure = ahead * ahead > AHEAD_SQUARED * u64::from(shadow.gained + shadow.lost);
            if sure { ahead } else { 0 }
        };
        let leads = self.shadows.iter().map(lead).enumerate();
        let (best, ahead) =
            leads.max_by_key(|(i, ahead)| (*ahead, usize::MAX - i)).unwrap_or((0, 0));
        if ahead == 0 {
            return;
        }
        self.ruling = best;
        self.cache.retune(self.shadows[best].tuning);
        for shadow in &mut self.shadows {
            (shadow.gained, shadow.lost) = (0, 0);
        }
    }
}

impl Replacement for S3Shadow {
    fn reserve(&mut self, universe: u32) {
        self.cache.reserve(universe);
        let sampled = universe.div_ceil(1 << self.sample_log2);
        self.shadows.iter_mut().for_each(|shadow| shadow.cache.reserve(sampled));
    }

    #[inline]
    fn access(&mut self, line: LineId) -> Outcome {
        if let Some(sampled) = self.sampled_number(line) {
            self.access_shadows(sampled);
        }
        self.cache.access(line)
    }

    fn contains(&self, line: LineId) -> bool {
        self.cache.contains(line)
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        if let Some(sampled) = self.sampled_number(line) {
            for shadow in &mut self.shadows {
                shadow.cache.invalidate(sampled);
            }
        }
        self.cache.invalidate(line)
    }

    fn resident(&self) -> u32 {
        Replacement::resident(&self.cache)
    }

    fn footprint(&self) -> Footprint {
        let shadows = self.shadows.iter().map(|shadow| shadow.cache.footprint());
        shadows.fold(self.cache.footprint(), |sum, own| Footprint {
            resident: sum.resident + own.resident,
            index: sum.index + own.index,
        })
    }

    #[inline]
    fn prefetch_far(&self, line: LineId) {
        self.cache.prefetch_far(line);
        if let Some(sampled) = self.sampled_number(line) {
            self.shadows.iter().for_each(|shadow| shadow.cache.prefetch_far(sampled));
        }
    }
}

#[cfg(test)]
mod tests;
