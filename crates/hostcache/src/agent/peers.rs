//! Other hosts: blocks that they are sent at the server's request, and what they send unasked.
//!
//! The server may name a host to which another one still has to send the content. Such a host sends
//! it on when it comes. It waits only for what a host before it was already named for, so hosts
//! that wait for each other never form a circle.

use super::events::AgentError;
use super::reading::Reads;
use super::state::AgentState;
use crate::messages::{ContentId, HostId, ToPeer};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::situations::{met, met_if};

/// Messages that may wait for one peer; further requests are answered with [`ToPeer::Gone`].
const PEER_QUEUE_MAX: usize = 256;
/// Unexpected blocks of a peer after which its connection ends.
const STRAYS_MAX: u32 = 4096;

/// Blocks that may be owed to other hosts at once; more are answered with [`ToPeer::Gone`].
const OWED_MAX: usize = 4096;

/// A content that a host is to be sent when it has come here.
#[derive(Debug)]
struct Owed {
    token: u64,
    id: ContentId,
    to: HostId,
}

/// The other hosts.
#[derive(Debug, Default)]
pub(super) struct Peers {
    out: BTreeMap<HostId, VecDeque<ToPeer>>,
    owed: Vec<Owed>,
    /// Awaited contents that had come, or been given up, when `owed` was last looked through.
    ended: u64,
    /// Blocks that nothing waited for.
    strays: BTreeMap<HostId, u32>,
}

impl Peers {
    /// The next message.
    pub(super) fn next_message(
        &mut self,
        state: &mut AgentState,
        reads: &Reads,
    ) -> Option<(HostId, ToPeer)> {
        if !self.owed.is_empty() && self.ended != reads.ended() {
            self.settle(state, reads);
        }
        let (&host, queue) = self.out.iter_mut().find(|(_, queue)| !queue.is_empty())?;
        queue.pop_front().map(|message| (host, message))
    }

    /// Sends a block to another host at the server's request, at once or when it has come.
    pub(super) fn serve(
        &mut self,
        state: &mut AgentState,
        reads: &Reads,
        token: u64,
        id: ContentId,
        to: HostId,
    ) {
        let content = state.contents.with_id(id);
        let is_cached = content.is_some_and(|content| state.contents.is_cached(content));
        let comes = state.admission.from_peers
            && content.is_some_and(|content| reads.comes_from_a_peer(content));
        let owed = Owed { token, id, to };
        if !is_cached && comes && self.owed.len() < OWED_MAX {
            met("a host was to serve what another one was still to send it");
            return self.owed.push(owed);
        }
        self.send(state, &owed);
    }

    /// Sends what has come of that which is owed, and says what does not come any more.
    fn settle(&mut self, state: &mut AgentState, reads: &Reads) {
        self.ended = reads.ended();
        let comes = |owed: &Owed| {
            let content = state.contents.with_id(owed.id);
            content.is_some_and(|content| reads.awaits(content))
        };
        let (waits, over) = std::mem::take(&mut self.owed).into_iter().partition(comes);
        self.owed = waits;
        let over: Vec<Owed> = over;
        over.iter().for_each(|owed| self.send(state, owed));
    }

    /// Sends a block, or says that it is not here.
    fn send(&mut self, state: &mut AgentState, owed: &Owed) {
        let content = state.contents.with_id(owed.id);
        let bytes = content.and_then(|content| state.contents.peek(content));
        let queue = self.out.entry(owed.to).or_default();
        met_if(bytes.is_none(), "a host was to serve what it does not hold");
        let message = match bytes {
            Some(bytes) if queue.len() < PEER_QUEUE_MAX => {
                state.counts.served += 1;
                ToPeer::Block { token: owed.token, bytes: Bytes::copy_from_slice(bytes) }
            }
            _ => ToPeer::Gone { token: owed.token },
        };
        if queue.len() < 2 * PEER_QUEUE_MAX {
            queue.push_back(message);
        }
    }

    /// Notes a message that nothing waits for.
    ///
    /// # Errors
    /// There were too many.
    pub(super) fn stray(&mut self, from: HostId) -> Result<(), AgentError> {
        met("a peer answered what nobody waits for");
        let strays = self.strays.entry(from).or_default();
        *strays += 1;
        match *strays > STRAYS_MAX {
            true => Err(AgentError::Strays { host: from.0, strays: *strays }),
            false => Ok(()),
        }
    }

    /// Forgets a host whose connection is over.
    pub(super) fn lost(&mut self, host: HostId) {
        self.out.remove(&host);
        self.owed.retain(|owed| owed.to != host);
        self.strays.remove(&host);
    }
}
