//! Events about a policy's moves, by campaign: one when a campaign begins, and one when it has
//! ended.
//!
//! 1. A campaign begins with a proposal when none is under way. Proposals that follow while chunks
//!    still move belong to it.
//! 2. It has ended when nothing that was proposed is left. What was dropped on the way (a deadline,
//!    a lost trial, a newer proposal) is told with its end.
//! 3. A policy that is asked every second would fill the list of events. So beginnings are told at
//!    most every [`QUIET`]; what is proposed in between is one campaign, and told after that.
//!
//! State: a count for each pair of pools.

use super::Engine;
use crate::api::{MoveFlow, Moves};
use std::collections::{BTreeMap, BTreeSet};
use thermocline_admin::api::Severity;
use thermocline_units::{Bytes, Nanos, PoolId};
use thermocline_volume::{Finished, Flow, MovesDropped, Outcome, Proposed};

/// From the telling of a beginning to the next.
const QUIET: Nanos = Nanos::from_secs(60);
/// Pairs of pools named in one event.
const FLOWS_TOLD: usize = 6;

type Pair = (PoolId, PoolId);

/// Moves that were proposed one after the other without a pause, or within [`QUIET`].
struct Campaign {
    began: Nanos,
    policy: String,
    /// Proposals so far.
    rounds: u64,
    planned: BTreeMap<Pair, Flow>,
    /// Chunks that have arrived.
    done: BTreeMap<Pair, u64>,
    failed: u64,
    /// Moves that the group had dropped before.
    dropped: MovesDropped,
    /// True if its beginning was told.
    told: bool,
    /// Time at which nothing was left to move.
    ended: Option<Nanos>,
    /// True if its end was told.
    closed: bool,
}

/// Moves of a policy, told as campaigns with a beginning and an end.
#[derive(Default)]
pub(super) struct Campaigns {
    last: Option<Campaign>,
    /// Time at which a beginning was last told.
    told_at: Option<Nanos>,
}

impl Engine {
    /// Takes note of what was proposed, and of what has ended of it.
    pub(super) fn note_moves(&mut self) {
        if let Some(proposed) = self.group.take_proposed() {
            self.note_proposed(&proposed);
        }
        let Some(campaign) = &mut self.campaigns.last else { return };
        for Finished { operation, outcome, from, .. } in
            self.finished.iter().filter(|finished| finished.proposed)
        {
            match (outcome, from) {
                (Outcome::Done, Some(from)) => {
                    *campaign.done.entry((*from, operation.to)).or_default() += 1;
                }
                (Outcome::Failed, _) => campaign.failed += 1,
                _ => {}
            }
        }
    }

    fn note_proposed(&mut self, proposed: &Proposed) {
        let now = self.now();
        if !self.campaigns.last.as_ref().is_some_and(Campaign::is_open) {
            let policy = self.policy.as_ref();
            let policy = policy.map_or("none".to_string(), |policy| policy.label.clone());
            let dropped = self.group.moves_dropped();
            self.campaigns.last = Some(Campaign::new(now, policy, dropped));
        }
        let campaign = self.campaigns.last.as_mut().expect("just put there");
        campaign.ended = None;
        campaign.rounds += 1;
        for (&pair, flow) in &proposed.flows {
            let planned = campaign.planned.entry(pair).or_default();
            planned.chunks += flow.chunks;
            planned.requests += flow.requests;
        }
        if !campaign.told {
            self.tell_beginning(now);
        }
    }

    /// Tells that a campaign begins, unless one has begun a short while ago.
    fn tell_beginning(&mut self, now: Nanos) {
        let lately = |at: Nanos| now.saturating_sub(at) < QUIET;
        if self.campaigns.told_at.is_some_and(lately) {
            return;
        }
        self.campaigns.told_at = Some(now);
        let Some(campaign) = &mut self.campaigns.last else { return };
        campaign.told = true;
        let campaign = self.campaigns.last.as_ref().expect("it was there");
        let chunk = self.group.chunk_size().0;
        let flows = campaign.planned.iter().map(|(&pair, flow)| {
            let (chunks, requests) = (flow.chunks, flow.requests);
            let (bytes, way) = (Bytes(chunks * chunk), self.way(pair));
            (flow.chunks, format!("{bytes} {way} ({requests} requests in the epoch)"))
        });
        let text = format!("{} moves {}", campaign.policy, list(flows.collect()));
        self.event(Severity::Info, "move", text);
    }

    /// Ends the campaign when nothing of it is left; called every second.
    pub(super) fn watch_moves(&mut self) {
        let now = self.now();
        let idle = self.group.moves_pending() == 0;
        let Some(campaign) = self.campaigns.last.as_mut().filter(|last| last.is_open()) else {
            return;
        };
        if idle {
            campaign.ended.get_or_insert(now);
        }
        if !campaign.told {
            self.tell_beginning(now);
        }
        let campaign = self.campaigns.last.as_mut().expect("it was there");
        if campaign.told && campaign.ended.is_some() {
            campaign.closed = true;
            let severity = if campaign.failed > 0 { Severity::Warning } else { Severity::Info };
            let text = self.end_told();
            self.event(severity, "move", text);
        }
    }

    fn end_told(&self) -> String {
        let dropped = self.group.moves_dropped();
        let campaign = self.campaigns.last.as_ref().expect("callers have one");
        let chunk = self.group.chunk_size().0;
        let flows = campaign.done.iter().map(|(&pair, &chunks)| {
            (chunks, format!("{} {}", Bytes(chunks * chunk), self.way(pair)))
        });
        let took = campaign.ended.map_or(Nanos(0), |at| at.saturating_sub(campaign.began));
        let rounds = match campaign.rounds {
            1 => String::new(),
            rounds => format!(" in {rounds} epochs"),
        };
        let flows = match campaign.done.is_empty() {
            true => "nothing".to_string(),
            false => list(flows.collect()),
        };
        let mut text = format!(
            "{} has moved {flows}{rounds}, in {:.0} s",
            campaign.policy,
            took.as_secs_f64()
        );
        let late = dropped.expired - campaign.dropped.expired;
        let slower = dropped.slower - campaign.dropped.slower;
        let worn = dropped.worn - campaign.dropped.worn;
        for (count, why) in [
            (late, "had not begun by their deadline"),
            (slower, "were slower at their destination"),
            (worn, "stayed because the day's budget of their pool was used up"),
            (campaign.failed, "failed"),
        ] {
            if count > 0 {
                text += &format!("; {count} chunks {why}");
            }
        }
        text
    }

    /// The campaign under way, or the last one.
    pub(super) fn moves_told(&self) -> Option<Moves> {
        let campaign = self.campaigns.last.as_ref()?;
        let chunk = self.group.chunk_size().0;
        let until = campaign.ended.unwrap_or_else(|| self.now());
        let pairs = campaign.planned.keys().chain(campaign.done.keys());
        let pairs: BTreeSet<Pair> = pairs.copied().collect();
        let flows = pairs.into_iter().map(|pair| MoveFlow {
            from: pair.0.0,
            to: pair.1.0,
            planned_bytes: campaign.planned.get(&pair).map_or(0, |flow| flow.chunks * chunk),
            moved_bytes: campaign.done.get(&pair).map_or(0, |chunks| chunks * chunk),
        });
        Some(Moves {
            policy: campaign.policy.clone(),
            seconds: until.saturating_sub(campaign.began).as_secs_f64(),
            epochs: campaign.rounds,
            flows: flows.collect(),
            pending_bytes: self.group.moves_pending() as u64 * chunk,
            failed_chunks: campaign.failed,
            over: campaign.ended.is_some(),
        })
    }

    fn way(&self, (from, to): Pair) -> String {
        let name = |id| self.group.pool_status(id).map_or_else(String::new, |pool| pool.name);
        format!("from {} to {}", name(from), name(to))
    }
}

impl Campaign {
    fn new(began: Nanos, policy: String, dropped: MovesDropped) -> Campaign {
        Campaign {
            began,
            policy,
            rounds: 0,
            planned: BTreeMap::new(),
            done: BTreeMap::new(),
            failed: 0,
            dropped,
            told: false,
            ended: None,
            closed: false,
        }
    }

    /// True if its end is still to be told.
    fn is_open(&self) -> bool {
        !self.closed
    }
}

/// The largest flows, in words.
fn list(mut flows: Vec<(u64, String)>) -> String {
    flows.sort_by_key(|(chunks, _)| std::cmp::Reverse(*chunks));
    let more = flows.len().saturating_sub(FLOWS_TOLD);
    let mut words: Vec<String> = flows.into_iter().take(FLOWS_TOLD).map(|(_, text)| text).collect();
    if more > 0 {
        words.push(format!("and between {more} more pairs of pools"));
    }
    words.join(", ")
}
