//! Requests of clients: checked, split into sub-requests by chunk, answered when the last
//! sub-request has ended.

use crate::epoch::epochs::Epochs;
use crate::epoch::slas::Slas;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::io::busy_chunk::{SubRequest, Verb};
use crate::io::request::{Action, Fragment, Priority, Reply, Request, RequestError, RequestId};
use crate::io::scheduler::{Lane, Scheduler};
use crate::io::shares::Shares;
use crate::io::sources::lane_for;
use crate::journal::commit::Waiter;
use std::ops::Range;
use thermocline_ports::SECTOR;
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, Nanos, PoolId, Slab, VolumeId};

/// Sub-requests of one request under way at once; the rest is split off as these end.
const SUB_REQUESTS_MAX: u32 = 64;
/// Chunks of a discard looked at before others get a turn.
const SPLIT_STEPS_MAX: u32 = 16_384;

/// A client's request under way.
#[derive(Debug)]
pub(crate) struct RequestState {
    pub(in crate::io) id: RequestId,
    pub(in crate::io) volume: VolumeId,
    pub(in crate::io) action: Action,
    pub(in crate::io) priority: Priority,
    /// Lane that it counts for among the requests in flight.
    pub(in crate::io) share: Lane,
    /// Moment of its arrival.
    pub(in crate::io) since: Nanos,
    pub(in crate::io) start: u64,
    pub(in crate::io) cursor: u64,
    pub(in crate::io) end: u64,
    pub(in crate::io) sub_requests: u32,
    /// True if it stands in the list of requests with sub-requests to be made.
    pub(in crate::io) listed: bool,
    pub(in crate::io) error: Option<RequestError>,
    pub(in crate::io) fragments: Vec<Fragment>,
}

/// The requests of a group's clients that are under way.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(in crate::io) all: Slab<RequestState>,
    /// Requests that have sub-requests to be made.
    pub(in crate::io) unsplit: Vec<u32>,
    pub(in crate::io) scheduler: Scheduler,
    /// Shares of the requests in flight.
    pub(in crate::io) shares: Shares,
    pub(crate) slas: Slas,
    replies: Vec<Reply>,
}

impl Requests {
    /// Returns no requests; at most `depth` sub-requests may be under way on a pool at once.
    pub(crate) fn new(depth: u32) -> Requests {
        Requests {
            all: Slab::default(),
            unsplit: Vec::new(),
            scheduler: Scheduler::new(depth),
            shares: Shares::default(),
            slas: Slas::default(),
            replies: Vec::new(),
        }
    }

    /// Number of the requests under way.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// True if no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.all.is_empty()
    }

    /// True if sub-requests wait for their turn.
    pub(crate) fn has_queued(&self) -> bool {
        self.scheduler.queued() != (0, 0)
    }

    /// The volume of a request under way.
    pub(crate) fn volume_of(&self, request: u32) -> VolumeId {
        self.all[request].volume
    }

    /// Moment at which a sub-request that waits has waited long enough.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.scheduler.next_deadline()
    }

    /// Sets the number of sub-requests that may be under way on a pool; `None`: as on others.
    pub(crate) fn set_pool_depth(&mut self, pool: PoolId, depth: Option<u32>) {
        self.scheduler.set_depth(Lane::of(pool), depth);
    }

    /// A request's range in bytes of its volume: begin and end. A flush has none, and needs no
    /// volume where there is none.
    ///
    /// # Errors
    /// When the group is not in service, there is no such volume, or the range is empty, not in
    /// whole sectors, or beyond the volume's end.
    pub(crate) fn range_of(
        group: &GroupState,
        request: &Request,
    ) -> Result<(u64, u64), RequestError> {
        if group.service != Service::Ready {
            return Err(RequestError::NotReady);
        }
        // Where no volume is left, a flush makes it durable that they are gone.
        if matches!(request.action, Action::Flush) && !group.map.has_living() {
            return Ok((0, 0));
        }
        let volume = group.map.living(request.volume).ok_or(RequestError::NoVolume)?;
        let (offset, length) = match &request.action {
            Action::Read { offset, length } => (offset.0, u64::from(*length)),
            Action::Write { offset, payload, .. } => (offset.0, u64::from(payload.len())),
            Action::WriteZeroes { offset, length, .. } | Action::Discard { offset, length } => {
                (offset.0, length.0)
            }
            Action::Flush => return Ok((0, 0)),
        };
        let end = offset.checked_add(length).ok_or(RequestError::BadRange)?;
        let whole = (offset | length).is_multiple_of(u64::from(SECTOR));
        if length == 0 || end > volume.size().0 || !whole {
            return Err(RequestError::BadRange);
        }
        Ok((offset, end))
    }

    /// Takes a request of this range, which counts for the lane and goes by the priority.
    pub(crate) fn take(
        &mut self,
        group: &mut GroupState,
        request: Request,
        (share, priority): (Lane, Priority),
        (start, end): (u64, u64),
    ) {
        let flush = matches!(request.action, Action::Flush);
        assert_eq!(flush, start == end, "all but a flush have a range");
        let ongoing = RequestState {
            id: request.id,
            volume: request.volume,
            action: request.action,
            priority,
            share,
            since: group.now,
            start,
            cursor: start,
            end,
            sub_requests: 0,
            listed: !flush,
            error: None,
            fragments: Vec::new(),
        };
        self.shares.take(share);
        let index = self.all.insert(ongoing);
        if flush {
            group.journal.join(Waiter::Flush(index));
        } else {
            self.unsplit.push(index);
        }
    }

    /// Appends the answers to clients.
    pub(crate) fn take_replies(&mut self, out: &mut Vec<Reply>) {
        out.append(&mut self.replies);
    }

    /// True if a request or a sub-request can go on now.
    pub(crate) fn has_work(&self) -> bool {
        !self.unsplit.is_empty() || self.scheduler.has_work()
    }

    /// Makes sub-requests until enough are under way or the request is split up.
    pub(crate) fn split(&mut self, group: &mut GroupState, epochs: &mut Epochs, request: u32) {
        let mut steps = 0;
        loop {
            let ongoing = &self.all[request];
            let (cursor, end) = (ongoing.cursor, ongoing.end);
            assert!(cursor <= end, "what is split off is of the request");
            if cursor == end || ongoing.sub_requests >= SUB_REQUESTS_MAX {
                break;
            }
            let index = cursor / u64::from(group.pools.chunk_bytes());
            let chunk = ChunkId { volume: ongoing.volume, index: index as u32 };
            let base = index * u64::from(group.pools.chunk_bytes());
            let stop = end.min(base + u64::from(group.pools.chunk_bytes()));
            let range = (cursor - base) as u32..(stop - base) as u32;
            self.all[request].cursor = stop;
            steps += 1;
            if self.is_void(group, request, chunk) {
                if steps >= SPLIT_STEPS_MAX && stop < end {
                    self.list(request);
                    return;
                }
                continue;
            }
            self.make_sub_request(group, request, chunk, range);
        }
        self.end_request_if_done(group, epochs, request);
    }

    /// True if the request would do nothing to the chunk: zeroes onto a chunk that holds none.
    /// Where it is forced and the journal may yet have to learn so, one sub-request must wait for
    /// that.
    pub(crate) fn is_void(&self, group: &GroupState, request: u32, chunk: ChunkId) -> bool {
        let entry = group.map.entry(chunk);
        let ongoing = &self.all[request];
        let zeroes = Action::is_zeroing(&ongoing.action);
        let forced = matches!(ongoing.action, Action::WriteZeroes { fua: true, .. });
        let waits = forced
            && ongoing.sub_requests == 0
            && group.has_changes()
            && !mutant("forced_zeroes_on_nothing_at_once");
        zeroes && !group.map.is_busy(chunk) && entry.first().is_none() && !waits
    }

    pub(crate) fn make_sub_request(
        &mut self,
        group: &mut GroupState,
        request: u32,
        chunk: ChunkId,
        range: Range<u32>,
    ) {
        assert!(range.start < range.end, "a sub-request is not empty");
        assert!(range.end <= group.pools.chunk_bytes(), "a sub-request stays within its chunk");
        let ongoing = &mut self.all[request];
        let at =
            u64::from(chunk.index) * u64::from(group.pools.chunk_bytes()) + u64::from(range.start);
        let from = (at - ongoing.start) as u32;
        let (verb, fua) = match &ongoing.action {
            Action::Read { .. } => (Verb::Read, false),
            Action::Write { payload, fua, .. } => {
                let length = range.end - range.start;
                (Verb::Write(payload.slice(from..from + length)), *fua)
            }
            Action::WriteZeroes { fua, .. } => (Verb::Zero, *fua),
            Action::Discard { .. } => (Verb::Discard, false),
            Action::Flush => unreachable!("a flush has no sub-requests"),
        };
        ongoing.sub_requests += 1;
        assert!(
            ongoing.sub_requests <= SUB_REQUESTS_MAX,
            "a request has a bounded number of sub-requests"
        );
        let priority = ongoing.priority;
        group.map.hold(chunk.volume);
        let lane = lane_for(group, chunk, &range, &verb);
        let part = SubRequest::new(request, chunk, range, verb);
        let sub_request = group.sub_requests.insert(SubRequest { fua, priority, lane, ..part });
        if self.slas.is_strict(chunk.volume) {
            self.scheduler.push_strict(sub_request, lane, priority);
        } else {
            self.scheduler.push(sub_request, lane, priority);
        }
    }

    pub(crate) fn list(&mut self, request: u32) {
        if !std::mem::replace(&mut self.all[request].listed, true) {
            self.unsplit.push(request);
        }
    }

    /// Answers for a sub-request that is durable as far as it promised.
    pub(crate) fn end_sub_request(
        &mut self,
        group: &mut GroupState,
        epochs: &mut Epochs,
        sub_request: u32,
    ) {
        let sub_request = group.sub_requests.remove(sub_request);
        assert_eq!(sub_request.outstanding, 0, "no device has a sub-request that ends");
        self.scheduler.ended(sub_request.lane, sub_request.priority);
        group.map.let_go(sub_request.chunk.volume);
        let request = &mut self.all[sub_request.request];
        assert!(request.sub_requests > 0, "each sub-request ends once");
        request.sub_requests -= 1;
        request.error = request.error.or(sub_request.error);
        if request.cursor < request.end {
            self.list(sub_request.request);
        } else {
            self.end_request_if_done(group, epochs, sub_request.request);
        }
    }

    /// Takes a request out of flight.
    fn take_request(&mut self, index: u32) -> RequestState {
        let request = self.all.remove(index);
        self.shares.give_back(request.share);
        request
    }

    /// Takes all requests out of flight; what devices still answer for them is ignored.
    pub(crate) fn drain_requests(&mut self) -> Vec<RequestId> {
        let indices: Vec<u32> = self.all.iter().map(|(index, _)| index).collect();
        indices.into_iter().map(|index| self.take_request(index).id).collect()
    }

    pub(crate) fn end_request_if_done(
        &mut self,
        group: &mut GroupState,
        epochs: &mut Epochs,
        index: u32,
    ) {
        let request = &self.all[index];
        if request.sub_requests > 0 || request.cursor < request.end || request.listed {
            return;
        }
        let mut request = self.take_request(index);
        assert_eq!(request.cursor, request.end, "all of it was split");
        request.fragments.sort_unstable_by_key(|fragment| fragment.at);
        let read = || {
            request.fragments.iter().map(|fragment| u64::from(fragment.payload.len())).sum::<u64>()
        };
        let reads = matches!(request.action, Action::Read { .. }) && request.error.is_none();
        assert!(!reads || read() == request.end - request.start, "all of it was read, and once");
        let result = match request.error {
            Some(error) => Err(error),
            None => Ok(request.fragments),
        };
        if result.is_ok() {
            self.slas.judge(request.volume, group.now.saturating_sub(request.since));
        }
        self.reply(group, epochs, Reply { id: request.id, result });
    }

    /// Hands an answer to its client.
    pub(crate) fn reply(&mut self, group: &GroupState, epochs: &mut Epochs, reply: Reply) {
        epochs.answered(group.now, &reply);
        self.replies.push(reply);
    }

    /// Answers a flush.
    pub(crate) fn end_flush(
        &mut self,
        group: &mut GroupState,
        epochs: &mut Epochs,
        request: u32,
        result: Result<(), RequestError>,
    ) {
        let request = self.take_request(request);
        assert!(matches!(request.action, Action::Flush), "only flushes wait for the journal");
        assert_eq!(request.sub_requests, 0, "a flush has no sub-requests");
        self.reply(group, epochs, Reply { id: request.id, result: result.map(|()| Vec::new()) });
    }
}

#[cfg(test)]
mod tests;
