//! Chunks that two pools hold: where `benefit` takes them to be, and which should become so.
//!
//! 1. A mirrored chunk counts as being on the faster of its two pools; of what it demands, the
//!    share that the fast loop diverts loads the other.
//! 2. What rises from the second pool to the fastest is mirrored there in place of moved, as long
//!    as room allows: its requests can then be divided at once, and a chunk that was not written
//!    since leaves the fastest pool without a copy.
//! 3. While the fastest pool is the dearer one though all is diverted that can be, chunks that take
//!    most of its time are mirrored below.
//! 4. Where the second pool runs short, the mirrors with the least demand are given up there.

use super::super::activity::Activity;
use super::super::demand::Faded;
use super::super::mirrors::{Balance, Load, SECOND, of_all_slots, slots};
use super::super::plan::Rooms;
use super::super::{FLASH, Move, PoolChange, VolumeView};
use super::pools::Loaded;
use thermocline_units::{ChunkId, PoolId};

/// Share of the second pool's slots that mirrors leave free.
const RESERVE: f64 = 0.025;
/// Not mirrored.
const NONE: u16 = u16::MAX;

/// Mirrored chunks, with the two pools of each. State: 2 B a chunk, 16 B a mirrored one.
#[derive(Debug)]
pub(super) struct Mirrored {
    /// Share of all slots that may hold a second copy.
    most: f64,
    pub(super) balance: Balance,
    mirrors: Vec<(ChunkId, PoolId)>,
    /// Other pools, by chunk's number.
    others: Vec<u16>,
}

impl Mirrored {
    /// `most` of all slots, 0 to 1, may hold a second copy.
    pub(super) fn new(most: f64, balance: Balance) -> Mirrored {
        Mirrored { most, balance, mirrors: Vec::new(), others: Vec::new() }
    }

    /// Pools are at other places.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        self.balance.pools_changed(change);
    }

    /// Takes note of what is mirrored now; `activity` looks, too.
    pub(super) fn look(&mut self, view: &dyn VolumeView, activity: &mut Activity) {
        self.mirrors.clear();
        view.visit_mirrors(&mut |chunk, other| self.mirrors.push((chunk, other)));
        for &(chunk, _) in &self.mirrors {
            _ = activity.chunks.number(chunk);
        }
        activity.look(view);
        self.others.clear();
        self.others.resize(activity.chunks.len() as usize, NONE);
        for &(chunk, other) in &self.mirrors {
            self.others[activity.chunks.number(chunk) as usize] = other.0;
        }
        if view.pool_count() > 1 {
            self.balance.look(view);
        }
    }

    /// The other pool of a chunk, where it is mirrored.
    #[inline]
    pub(super) fn other(&self, number: u32) -> Option<PoolId> {
        let other = self.others.get(number as usize).copied().unwrap_or(NONE);
        (other != NONE).then_some(PoolId(other))
    }

    /// Rooms by move of a plan: the least that the second pool has from then on, less what is kept.
    fn room_from(activity: &Activity, view: &dyn VolumeView, planned: &[Move]) -> Vec<i128> {
        let kept = (slots(view, SECOND) as f64 * RESERVE) as i128;
        let mut room = Rooms::of(view).free(SECOND) - kept;
        let mut after: Vec<i128> = Vec::with_capacity(planned.len() + 1);
        for step in planned {
            let number = activity.chunks.find(step.chunk).expect("chunks that move were met");
            room += i128::from(activity.pool_of(number) == SECOND) - i128::from(step.to == SECOND);
            after.push(room);
        }
        after.push(room);
        for at in (0..planned.len()).rev() {
            after[at] = after[at].min(after[at + 1]);
        }
        after
    }

    /// Turns the moves of a plan into those that make and end mirrors, and adds to them.
    pub(super) fn propose(
        &self,
        (activity, demands): (&Activity, &Faded),
        fastest: &Loaded,
        view: &dyn VolumeView,
        planned: Vec<Move>,
        moves: &mut Vec<Move>,
    ) {
        if view.pool_count() < 2 {
            moves.extend(planned);
            return;
        }
        let room = Mirrored::room_from(activity, view, &planned);
        let most = of_all_slots(view, self.most).saturating_sub(self.mirrors.len() as u64);
        let mut made = 0;
        let last = *room.last().expect("the end counts, too");
        let number = |chunk| activity.chunks.find(chunk).expect("chunks that move were met");
        let mut moving = vec![false; demands.len() as usize];
        moves.extend(self.given_up(view, |chunk| demands.of(number(chunk)).weight()));
        for (step, room) in planned.into_iter().zip(room) {
            let number = number(step.chunk);
            moving[number as usize] = true;
            let rises = step.to == FLASH && activity.pool_of(number) == SECOND;
            let allowed = made < most && room > i128::from(made);
            // Its place below is kept, which the plan took for free from here on.
            if rises && self.other(number).is_none() && allowed {
                made += 1;
                moves.push(Move::mirror(step.chunk, FLASH));
            } else {
                moves.push(step);
            }
        }
        if self.balance.load == Load::Over && self.balance.diverts_all() {
            let hot = |&number: &u32| {
                activity.pool_of(number) == FLASH
                    && self.other(number).is_none()
                    && !moving[number as usize]
                    && !demands.of(number).is_none()
            };
            let time = |number| fastest.share(&demands.of(number)).time;
            let mut hottest: Vec<(f64, u32)> =
                (0..demands.len()).filter(hot).map(|number| (time(number), number)).collect();
            hottest.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let left = (last - i128::from(made)).clamp(0, (most - made).into()) as usize;
            let chosen = hottest.into_iter().take(left);
            moves.extend(chosen.map(|(_, n)| Move::mirror(activity.chunks.id(n), SECOND)));
        }
    }

    /// Mirrors that end because the second pool is short of room, the least demanded first.
    fn given_up(&self, view: &dyn VolumeView, weight: impl Fn(ChunkId) -> f64) -> Vec<Move> {
        let kept = (slots(view, SECOND) as f64 * RESERVE) as u64;
        let free = view.capacity_chunks(SECOND).saturating_sub(view.used_chunks(SECOND));
        let short = kept.saturating_sub(free) as usize;
        if short == 0 {
            return Vec::new();
        }
        let of_both = self.mirrors.iter().filter(|&&(chunk, other)| {
            let sides = [view.pool_of(chunk), other];
            sides.contains(&FLASH) && sides.contains(&SECOND)
        });
        let mut least: Vec<(f64, ChunkId)> =
            of_both.map(|&(chunk, _)| (weight(chunk), chunk)).collect();
        least.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        least.into_iter().take(short).map(|(_, chunk)| Move::to(chunk, FLASH)).collect()
    }
}
