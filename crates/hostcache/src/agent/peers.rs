//! Other hosts: blocks that they are sent at the server's request, and what they send unasked.
//!
//! The server may name a host to which another one still has to send the content. Such a host sends
//! it on when it comes. It waits only for what a host before it was already named for, so hosts
//! that wait for each other never form a circle. A host that is owed a block for too long is told
//! that it does not come: it asks the server, before its own patience ends.
//!
//! Another host may be faster than the server's word that it sends something. What comes early is
//! kept until that word has come.

use super::events::AgentError;
use super::reading::Reads;
use super::state::AgentState;
use crate::messages::{ContentId, HostId, ToPeer};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::Nanos;
use thermocline_units::situations::{met, met_if};

/// Messages that may wait for one peer; further requests are answered with [`ToPeer::Gone`].
const PEER_QUEUE_MAX: usize = 256;
/// Messages of a peer that are kept for tokens that are not known yet. It is one request's blocks.
const EARLY_MAX: usize = crate::BLOCKS_MAX;
/// Unexpected blocks of a peer after which its connection ends.
const STRAYS_MAX: u32 = 4096;

/// Blocks that may be owed to one host at once; more are answered with [`ToPeer::Gone`].
const OWED_MAX: usize = 256;

/// A content that a host is to be sent when it has come here.
#[derive(Debug)]
struct Owed {
    token: u64,
    to: HostId,
    /// Time from which on the host is told that it does not come.
    until: Nanos,
}

/// The other hosts.
#[derive(Debug, Default)]
pub(super) struct Peers {
    out: BTreeMap<HostId, VecDeque<ToPeer>>,
    /// Contents that are owed, each with a reference.
    owed: BTreeMap<u32, Vec<Owed>>,
    /// Number of those that are owed to each host.
    counts: BTreeMap<HostId, usize>,
    /// Contents and the times at which something owed of them may be late, in their order.
    deadlines: VecDeque<(Nanos, u32)>,
    /// Messages whose tokens are not known yet, in the order in which they came.
    early: BTreeMap<HostId, VecDeque<ToPeer>>,
    /// Blocks that nothing waited for.
    strays: BTreeMap<HostId, u32>,
}

impl Peers {
    /// The next message.
    pub(super) fn next_message(
        &mut self,
        state: &mut AgentState,
        reads: &mut Reads,
    ) -> Option<(HostId, ToPeer)> {
        for content in reads.take_ended() {
            self.settle(state, content);
        }
        let (&host, queue) = self.out.iter_mut().find(|(_, queue)| !queue.is_empty())?;
        queue.pop_front().map(|message| (host, message))
    }

    /// Sends a block to another host at the server's request, at once or when it has come.
    pub(super) fn serve(
        &mut self,
        state: &mut AgentState,
        reads: &mut Reads,
        now: Nanos,
        (token, id, to): (u64, ContentId, HostId),
    ) {
        let content = state.contents.with_id(id);
        let coming = content.filter(|&content| {
            state.admission.from_peers
                && !state.contents.is_cached(content)
                && reads.comes_from_a_peer(content)
        });
        let count = self.counts.entry(to).or_default();
        match coming {
            Some(content) if *count < OWED_MAX => {
                met("a host was to serve what another one was still to send it");
                *count += 1;
                // Half of the time that it waits itself: the other host asks the server in time.
                let until = Nanos(now.0.saturating_add(state.settings.peer_within.0 / 2));
                state.contents.change_refs(content, 1);
                reads.watch(content);
                self.owed.entry(content).or_default().push(Owed { token, to, until });
                self.deadlines.push_back((until, content));
            }
            _ => self.send(state, content, token, to),
        }
    }

    /// Time at which [`Peers::give_up_late`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.front().map(|(at, _)| *at)
    }

    /// Tells hosts that what they are owed has not come in time.
    pub(super) fn give_up_late(&mut self, state: &mut AgentState, now: Nanos) {
        while self.deadlines.front().is_some_and(|(at, _)| *at <= now) {
            let (_, content) = self.deadlines.pop_front().expect("it is there");
            let Some(owed) = self.owed.remove(&content) else { continue };
            let (late, waits): (Vec<Owed>, _) =
                owed.into_iter().partition(|owed| owed.until <= now);
            if !waits.is_empty() {
                self.owed.insert(content, waits);
            }
            for Owed { token, to, .. } in late {
                met("what a host was to send on did not come in time");
                self.pay(state, content, token, to);
            }
        }
    }

    /// Sends what has come, or says that it does not come any more.
    fn settle(&mut self, state: &mut AgentState, content: u32) {
        for Owed { token, to, .. } in self.owed.remove(&content).unwrap_or_default() {
            self.pay(state, content, token, to);
        }
    }

    /// Sends a block that was owed, if it is here, and gives the reference back.
    fn pay(&mut self, state: &mut AgentState, content: u32, token: u64, to: HostId) {
        let count = self.counts.get_mut(&to).expect("it was counted");
        *count = count.checked_sub(1).expect("it was counted");
        self.send(state, Some(content), token, to);
        state.contents.change_refs(content, -1);
    }

    /// Sends a block, or says that it is not here.
    fn send(&mut self, state: &mut AgentState, content: Option<u32>, token: u64, to: HostId) {
        let bytes = content.and_then(|content| state.contents.peek(content));
        let queue = self.out.entry(to).or_default();
        met_if(bytes.is_none(), "a host was to serve what it does not hold");
        let message = match bytes {
            Some(bytes) if queue.len() < PEER_QUEUE_MAX => {
                state.counts.served += 1;
                ToPeer::Block { token, bytes: Bytes::copy_from_slice(bytes) }
            }
            _ => ToPeer::Gone { token },
        };
        if queue.len() < 2 * PEER_QUEUE_MAX {
            queue.push_back(message);
        }
    }

    /// Keeps a message that nothing waits for, or not yet, in place of the oldest of too many.
    ///
    /// # Errors
    /// There were too many that nothing ever waited for.
    pub(super) fn came_early(&mut self, from: HostId, message: ToPeer) -> Result<(), AgentError> {
        met("a peer answered what nobody waits for");
        let early = self.early.entry(from).or_default();
        early.push_back(message);
        if early.len() <= EARLY_MAX {
            return Ok(());
        }
        early.pop_front();
        let strays = self.strays.entry(from).or_default();
        *strays += 1;
        match *strays > STRAYS_MAX {
            true => Err(AgentError::Strays { host: from.0, strays: *strays }),
            false => Ok(()),
        }
    }

    /// Takes the message for a token that another host has sent before its time.
    pub(super) fn take_early(&mut self, from: HostId, token: u64) -> Option<ToPeer> {
        let early = self.early.get_mut(&from)?;
        let is_it = |message: &ToPeer| {
            let (ToPeer::Block { token: of, .. } | ToPeer::Gone { token: of }) = message;
            *of == token
        };
        early.iter().position(is_it).and_then(|at| early.remove(at))
    }

    /// Forgets a host whose connection is over.
    pub(super) fn lost(&mut self, state: &mut AgentState, host: HostId) {
        self.out.remove(&host);
        self.strays.remove(&host);
        self.early.remove(&host);
        self.counts.remove(&host);
        for (content, owed) in &mut self.owed {
            let before = owed.len();
            owed.retain(|owed| owed.to != host);
            for _ in owed.len()..before {
                state.contents.change_refs(*content, -1);
            }
        }
        self.owed.retain(|_, owed| !owed.is_empty());
    }
}
