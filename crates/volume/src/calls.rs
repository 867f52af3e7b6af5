//! Calls that change a group: requests of clients, operations, hints and scrubs. Each ends with all
//! that can be done now. Administration of pools and volumes: [`crate::admin`].

use crate::group::Group;
use crate::group_state::service::Service;
use crate::hinting::{HintCounts, HintRefusal};
use crate::journal::Waiter;
use crate::observer::Observer;
use crate::operation::{Operation, OperationId, Refusal};
use crate::request::{Action, Reply, Request, RequestError};
use crate::requests::RequestState;
use crate::shares::lane_of;
use thermocline_policy::hints::Level;
use thermocline_policy::hints::rules::Classes;
use thermocline_policy::hints::store::{Held, Hint, HintError, Hints};
use thermocline_policy::placement::shadow::ShadowError;
use thermocline_policy::placement::{Placement, Unreadable};
use thermocline_ports::SECTOR;
use thermocline_units::situations::met;
use thermocline_units::{Nanos, PoolId, VolumeId};

impl Group {
    /// Takes a request at `now`; the answer comes out of `take_replies`, at once or later.
    ///
    /// # Errors
    /// Gives the request back when as many are in flight as the group takes, or when the pool that
    /// it waits for has its share of them: try again after a reply. Requests of other pools, by
    /// [`Group::counts_for`], may be taken meanwhile.
    pub fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Request> {
        let share = lane_of(&self.state, &request);
        if !self.requests.has_share(&self.state, share) {
            met("request handed back");
            return Err(request);
        }
        self.state.now = self.state.now.max(now);
        match self.check(&request) {
            Err(error) => {
                let reply = Reply { id: request.id, result: Err(error) };
                self.requests.reply(&self.state, &mut self.epochs, reply);
            }
            Ok((start, end)) => {
                if let Some(observer) = &mut self.epochs.observer {
                    observer.asked(now, &request);
                }
                let priority = self.hinting.lower(now, &request, (start, end));
                let flush = matches!(request.action, Action::Flush);
                let ongoing = RequestState {
                    id: request.id,
                    volume: request.volume,
                    action: request.action,
                    priority,
                    share,
                    since: self.state.now,
                    start,
                    cursor: start,
                    end,
                    parts: 0,
                    listed: !flush,
                    error: None,
                    pieces: Vec::new(),
                };
                self.requests.shares.take(share);
                let index = self.requests.all.insert(ongoing);
                if flush {
                    self.state.journal.join(Waiter::Flush(index));
                } else {
                    self.requests.unsplit.push(index);
                }
                self.pump(now);
            }
        }
        Ok(())
    }

    /// The pool whose share a request needs a place in, by which requests that were handed back are
    /// best kept apart; `None`: it waits for no single pool.
    pub fn counts_for(&self, request: &Request) -> Option<PoolId> {
        lane_of(&self.state, request).pool()
    }

    /// The request's range in bytes of its volume.
    fn check(&self, request: &Request) -> Result<(u64, u64), RequestError> {
        if self.state.service != Service::Ready {
            return Err(RequestError::NotReady);
        }
        let volume = self.state.map.volume(request.volume).filter(|volume| !volume.deleting);
        let volume = volume.ok_or(RequestError::NoVolume)?;
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
        if length == 0 || end > volume.size.0 || !whole {
            return Err(RequestError::BadRange);
        }
        Ok((offset, end))
    }

    /// Queues an operation.
    ///
    /// # Errors
    /// When it makes no sense now; nothing has changed then.
    pub fn start(&mut self, now: Nanos, operation: Operation) -> Result<OperationId, Refusal> {
        self.begin(now, operation)
    }

    /// Cancels an operation that is queued or copying; one that is switching goes on. Whether it
    /// was found and will end as cancelled. A redirected chunk keeps what it has at either place.
    pub fn cancel(&mut self, now: Nanos, id: OperationId) -> bool {
        if self.moves.cancel_queued(id) {
            return true;
        }
        let found = self.moves.cancel_copying(&mut self.state, id);
        if found {
            self.pump(now);
        }
        found
    }

    /// Begins to read and verify everything that pools hold, but for what is across a network only;
    /// one that is under way begins anew.
    pub fn scrub(&mut self, now: Nanos) {
        self.begin_scrub(now, None);
    }

    /// Begins to read and verify all copies of chunks that have one on `pool`.
    pub fn scrub_pool(&mut self, now: Nanos, pool: PoolId) {
        self.begin_scrub(now, Some(pool));
    }

    fn begin_scrub(&mut self, now: Nanos, pool: Option<PoolId>) {
        if self.state.service == Service::Ready {
            self.scrub.begin(&self.state.map, pool);
            self.pump(now);
        }
    }

    /// Ends the scrub that is under way, once what is on devices has come back; whether there was
    /// one.
    pub fn cancel_scrub(&mut self) -> bool {
        self.scrub.cancel()
    }

    /// Takes a hint: its class by the table in force. What of its range lies beyond the volume's
    /// end is left out.
    ///
    /// # Errors
    /// When it is malformed, there are too many, or its volume does not exist.
    pub fn hint(&mut self, now: Nanos, hint: &Hint<'_>) -> Result<u8, HintRefusal> {
        if self.state.service != Service::Ready {
            return Err(HintRefusal::NotReady);
        }
        let range = self.range_within(hint.volume, hint.range)?;
        self.hear(now, |hints| hints.take(now, &Hint { range, ..*hint }))
    }

    /// Takes back a range that was hinted before a restart; what lies beyond the volume's end is
    /// left out.
    ///
    /// # Errors
    /// As [`Group::hint`].
    pub fn put_back_hint(&mut self, now: Nanos, held: &Held<'_>) -> Result<(), HintRefusal> {
        let range = self.range_within(held.volume, held.range)?;
        self.hear(now, |hints| hints.put_back(now, &Held { range, ..held.clone() }))
    }

    /// Lets `word` reach the store. With the first one an epoch begins, unless one is running.
    fn hear<T>(
        &mut self,
        now: Nanos,
        word: impl FnOnce(&mut Hints) -> Result<T, HintError>,
    ) -> Result<T, HintRefusal> {
        let mattered = self.epochs.matter(&self.hinting.hints);
        let taken = word(&mut self.hinting.hints)?;
        if !mattered {
            self.housekeeping.begin_epoch(now, self.state.settings.epoch);
        }
        Ok(taken)
    }

    /// The part of a hint's range that lies in its volume.
    fn range_within(
        &self,
        volume: Option<VolumeId>,
        (start, end): (u64, u64),
    ) -> Result<(u64, u64), HintRefusal> {
        let Some(id) = volume else { return Ok((start, end)) };
        let volume = self.state.map.volume(id).filter(|volume| !volume.deleting);
        let size = volume.ok_or(HintRefusal::NoVolume(id))?.size.0;
        if start >= size {
            return Err(HintRefusal::Beyond(start, size));
        }
        Ok((start, end.min(size)))
    }

    /// Wishes copies of a range's chunks in the reserve of a faster pool; they come one after the
    /// other, as copying allows: those first that are needed first, `due`, and last those of which
    /// that is not known. How many chunks that are.
    ///
    /// # Errors
    /// When there is no such volume, or the range begins beyond its end.
    pub fn prefetch(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        range: (u64, u64),
        due: Option<Nanos>,
    ) -> Result<u64, HintRefusal> {
        let wished = self.hinting.wish_prefetches(&self.state, volume, range, due)?;
        self.pump(now);
        Ok(wished)
    }

    /// Lets somebody listen from now on, in place of whoever did, who is returned.
    ///
    /// What a placement has learnt before is not told: a recording from which its proposals shall
    /// be had again begins before the placement is set.
    pub fn set_observer(
        &mut self,
        observer: Option<Box<dyn Observer>>,
    ) -> Option<Box<dyn Observer>> {
        std::mem::replace(&mut self.epochs.observer, observer)
    }

    /// True if somebody listens.
    pub fn is_observed(&self) -> bool {
        self.epochs.observer.is_some()
    }

    /// Hints in force, by source.
    pub fn hints(&self) -> &Hints {
        &self.hinting.hints
    }

    /// Counts of what hints led to.
    pub fn hint_counts(&self) -> HintCounts {
        self.hinting.counts
    }

    /// Withdraws what a source said of a range of a volume at a level.
    pub fn withdraw_hint(
        &mut self,
        source: &str,
        level: Level,
        volume: VolumeId,
        range: std::ops::Range<u64>,
    ) {
        self.hinting.hints.withdraw(source, level, volume, range);
    }

    /// Withdraws everything that a source said. Whether there is such a source.
    pub fn forget_hints(&mut self, source: &str) -> bool {
        self.hinting.hints.forget(source)
    }

    /// Accuracy of a source, as it was before a restart.
    pub fn put_back_score(&mut self, source: &str, class: &str, score: f64) {
        self.hinting.hints.put_back_score(source, class, score);
    }

    /// Takes another table of classes; hints given before are forgotten, since they were classified
    /// by the old one.
    pub fn set_hint_classes(&mut self, classes: Classes) {
        self.hinting.hints = Hints::new(classes);
    }

    /// Lets a placement begin as a shadow: see [`Shadows::begin`]. Epochs pass from now on, also
    /// when nobody decides.
    ///
    /// # Errors
    /// See [`Shadows::begin`].
    ///
    /// [`Shadows::begin`]: thermocline_policy::placement::shadow::Shadows::begin
    pub fn begin_shadow(
        &mut self,
        now: Nanos,
        rival: (&str, Box<dyn Placement>),
        one_in: Option<u32>,
    ) -> Result<(), ShadowError> {
        let mattered = self.epochs.matter(&self.hinting.hints);
        let mut shadows = std::mem::take(&mut self.epochs.shadows);
        let begun = shadows.begin(now, &self.view(), rival, one_in);
        self.epochs.shadows = shadows;
        begun?;
        if !mattered {
            self.housekeeping.begin_epoch(now, self.state.settings.epoch);
        }
        Ok(())
    }

    /// Ends a shadow: see [`Shadows::end`].
    ///
    /// [`Shadows::end`]: thermocline_policy::placement::shadow::Shadows::end
    pub fn end_shadow(&mut self, name: &str) -> Option<Box<dyn Placement>> {
        self.epochs.shadows.end(name)
    }

    /// Lets the placement go on from what one of the same name had learnt.
    ///
    /// # Errors
    /// When nobody decides, or the bytes are not its own.
    pub fn learn_from(&mut self, learnt: &[u8]) -> Result<(), Unreadable> {
        let map = &self.state.map;
        let placement = self.epochs.placement.as_mut().ok_or(Unreadable)?;
        placement.learn_from(learnt, &|chunk| map.has(chunk))
    }
}
