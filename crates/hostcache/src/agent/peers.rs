//! Other hosts: blocks that they are sent at the server's request, and what they send unasked.

use super::events::AgentError;
use super::state::AgentState;
use crate::messages::{ContentId, HostId, ToPeer};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::situations::met;

/// Messages that may wait for one peer; further requests are answered with [`ToPeer::Gone`].
const PEER_QUEUE_MAX: usize = 256;
/// Unexpected blocks of a peer after which its connection ends.
const STRAYS_MAX: u32 = 4096;

/// The other hosts.
#[derive(Debug, Default)]
pub(super) struct Peers {
    out: BTreeMap<HostId, VecDeque<ToPeer>>,
    /// Blocks that nothing waited for.
    strays: BTreeMap<HostId, u32>,
}

impl Peers {
    /// The next message.
    pub(super) fn next_message(&mut self) -> Option<(HostId, ToPeer)> {
        let (&host, queue) = self.out.iter_mut().find(|(_, queue)| !queue.is_empty())?;
        queue.pop_front().map(|message| (host, message))
    }

    /// Sends a block to another host at the server's request.
    pub(super) fn serve(&mut self, state: &mut AgentState, token: u64, id: ContentId, to: HostId) {
        let bytes = state.contents.with_id(id).and_then(|content| state.contents.peek(content));
        let queue = self.out.entry(to).or_default();
        let message = match bytes {
            Some(bytes) if queue.len() < PEER_QUEUE_MAX => {
                state.counts.served += 1;
                ToPeer::Block { token, bytes: Bytes::copy_from_slice(bytes) }
            }
            _ => {
                met("a host was to serve what it does not hold");
                ToPeer::Gone { token }
            }
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
        self.strays.remove(&host);
    }
}
