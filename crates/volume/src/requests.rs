//! Requests of clients: checked, split into parts by chunk, answered when the last part has ended.

use crate::core::traffic::Part;
use crate::core::traffic::Verb;
use crate::foreground::RequestState;
use crate::group::Group;
use crate::map::NONE;
use crate::request::{Action, Reply, RequestError, RequestId};
use std::ops::Range;
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;

/// Parts of one request under way at once; the rest is split off as these end.
const PARTS_PER_REQUEST_MAX: u32 = 64;
/// Chunks of a discard looked at before others get a turn.
const SPLIT_STEPS_MAX: u32 = 16_384;

impl Group {
    /// Makes parts until enough are under way or the request is split up.
    pub(crate) fn split(&mut self, request: u32) {
        let mut steps = 0;
        loop {
            let ongoing = &self.requests[request];
            let (cursor, end) = (ongoing.cursor, ongoing.end);
            assert!(cursor <= end, "what is split off is of the request");
            if cursor == end || ongoing.parts >= PARTS_PER_REQUEST_MAX {
                break;
            }
            let index = cursor / u64::from(self.core.pools.chunk_bytes());
            let chunk = ChunkId { volume: ongoing.volume, index: index as u32 };
            let base = index * u64::from(self.core.pools.chunk_bytes());
            let stop = end.min(base + u64::from(self.core.pools.chunk_bytes()));
            let range = (cursor - base) as u32..(stop - base) as u32;
            self.requests[request].cursor = stop;
            steps += 1;
            if self.is_void(request, chunk) {
                if steps >= SPLIT_STEPS_MAX && stop < end {
                    self.list(request);
                    return;
                }
                continue;
            }
            self.make_part(request, chunk, range);
        }
        self.end_request_if_done(request);
    }

    /// True if the request would do nothing to the chunk: zeroes onto a chunk that holds none.
    /// Where it is forced and the journal may yet have to learn so, one part must wait for that.
    pub(crate) fn is_void(&self, request: u32, chunk: ChunkId) -> bool {
        let entry = self.core.map.entry(chunk);
        let ongoing = &self.requests[request];
        let zeroes = Action::is_zeroing(&ongoing.action);
        let forced = matches!(ongoing.action, Action::WriteZeroes { fua: true, .. });
        let waits = forced
            && ongoing.parts == 0
            && self.core.has_changes()
            && !mutant("forced_zeroes_on_nothing_at_once");
        zeroes && entry.traffic == NONE && entry.first().is_none() && !waits
    }

    pub(crate) fn make_part(&mut self, request: u32, chunk: ChunkId, range: Range<u32>) {
        assert!(range.start < range.end, "a part is not empty");
        assert!(range.end <= self.core.pools.chunk_bytes(), "a part stays within its chunk");
        let ongoing = &mut self.requests[request];
        let at = u64::from(chunk.index) * u64::from(self.core.pools.chunk_bytes())
            + u64::from(range.start);
        let from = (at - ongoing.start) as u32;
        let (verb, fua) = match &ongoing.action {
            Action::Read { .. } => (Verb::Read, false),
            Action::Write { payload, fua, .. } => {
                let length = range.end - range.start;
                (Verb::Write(payload.slice(from..from + length)), *fua)
            }
            Action::WriteZeroes { fua, .. } => (Verb::Zero, *fua),
            Action::Discard { .. } => (Verb::Discard, false),
            Action::Flush => unreachable!("a flush has no parts"),
        };
        ongoing.parts += 1;
        assert!(ongoing.parts <= PARTS_PER_REQUEST_MAX, "a request has a bounded number of parts");
        let priority = ongoing.priority;
        self.core.map.hold(chunk.volume);
        let lane = self.lane_for(chunk, &verb);
        let part = self.core.parts.insert(Part {
            request,
            chunk,
            range,
            verb,
            fua,
            priority,
            lane,
            order: 0,
            outstanding: 0,
            failed: 0,
            succeeded: 0,
            error: None,
            sent: Vec::new(),
            avoided: Vec::new(),
            unfit: 0,
            placed_on: None,
        });
        if self.slas.is_strict(chunk.volume) {
            self.scheduler.push_strict(part, lane, priority);
        } else {
            self.scheduler.push(part, lane, priority);
        }
    }

    pub(crate) fn list(&mut self, request: u32) {
        if !std::mem::replace(&mut self.requests[request].listed, true) {
            self.unsplit.push(request);
        }
    }

    /// Answers for a part that is durable as far as it promised.
    pub(crate) fn end_part(&mut self, part: u32) {
        let part = self.core.parts.remove(part);
        assert_eq!(part.outstanding, 0, "no device has a part that ends");
        self.scheduler.ended(part.lane, part.priority);
        self.core.map.let_go(part.chunk.volume);
        let request = &mut self.requests[part.request];
        assert!(request.parts > 0, "each part ends once");
        request.parts -= 1;
        request.error = request.error.or(part.error);
        if request.cursor < request.end {
            self.list(part.request);
        } else {
            self.end_request_if_done(part.request);
        }
    }

    /// Takes a request out of flight.
    fn take_request(&mut self, index: u32) -> RequestState {
        let request = self.requests.remove(index);
        self.shares.give_back(request.share);
        request
    }

    /// Takes all requests out of flight; what devices still answer for them is ignored.
    pub(crate) fn drain_requests(&mut self) -> Vec<RequestId> {
        let indices: Vec<u32> = self.requests.iter().map(|(index, _)| index).collect();
        indices.into_iter().map(|index| self.take_request(index).id).collect()
    }

    pub(crate) fn end_request_if_done(&mut self, index: u32) {
        let request = &self.requests[index];
        if request.parts > 0 || request.cursor < request.end || request.listed {
            return;
        }
        let mut request = self.take_request(index);
        assert_eq!(request.cursor, request.end, "all of it was split");
        request.pieces.sort_unstable_by_key(|piece| piece.at);
        let result = match request.error {
            Some(error) => Err(error),
            None => Ok(request.pieces),
        };
        if result.is_ok() {
            self.slas.judge(request.volume, self.core.now.saturating_sub(request.since));
        }
        self.reply(Reply { id: request.id, result });
    }

    /// Hands an answer to its client.
    pub(crate) fn reply(&mut self, reply: Reply) {
        if let Some(observer) = &mut self.observer {
            observer.answered(self.core.now, reply.id, reply.result.is_ok());
        }
        self.replies_out.push(reply);
    }

    /// Answers a flush.
    pub(crate) fn end_flush(&mut self, request: u32, result: Result<(), RequestError>) {
        let request = self.take_request(request);
        assert!(matches!(request.action, Action::Flush), "only flushes wait for the journal");
        assert_eq!(request.parts, 0, "a flush has no parts");
        self.reply(Reply { id: request.id, result: result.map(|()| Vec::new()) });
    }
}
