//! One end of a tunnel: many flows over one connection, with one cache.
//!
//! 1. The end is told bytes of the connection ([`End::receive`]) and of its clients
//!    ([`End::give`]), and says what the connection ([`End::transmit`]) and the clients
//!    ([`End::next_event`]) get.
//! 2. A flow's segments travel on a stream of their own. What the ends ask of each other (chunks
//!    that one lost, segments that are complete) travels on the first stream, so that a flow that
//!    waits for a chunk cannot hold back the answer.
//! 3. Before each segment the controller of the flow's class is asked how it is cut, and afterwards
//!    told what came of it.
//! 4. Content may be cut by another unit ([`Settings::offload`]): the end says what is to be cut
//!    ([`End::next_cut_job`]), and is told the answers ([`End::cut_done`]). The same is sent.
//!
//! Invariants: a client gets the very bytes that the other one said, in order, up to an end that
//! was said or a reset; memory is bounded whatever the other end sends; a flow that nobody reads
//! holds no other one back. An error ends the connection; the cache outlives it
//! ([`End::into_cache`]).

use crate::chunkings::chunking_by;
use crate::classes::{ClassReport, Classes, Costs};
use crate::config::{Cache, Settings, Target};
use crate::decoder::{Decoder, WAITING_BYTES_MAX};
use crate::encoder::Limits;
use crate::events::{FlowEvent, FlowId};
use crate::fetching::Fetching;
use crate::flow::{Flow, FlowReport};
use crate::format::{Control, FormatError, value};
use crate::offload::{Offload, OffloadCounts, UnitFault};
use crate::shared::Shared;
use crate::store::{DiskCounts, DiskDone, DiskJob};
use crate::talk::Talk;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_policy::registry::SpecError;
use thermocline_policy::tunnel::Conditions;
use thermocline_ports::Ticket as CutTicket;
use thermocline_ports::accelerator::{Done, Fingerprint, Job};
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_wire::{ConfigError, Event, OpenError, Role, Session, StreamId, WireError};

/// Bytes that every flow may hold, however many there are.
const FLOW_BYTES_MIN: usize = 64 * 1024;

/// Bytes that every flow may have waiting for its client, however many there are.
const WAITING_BYTES_MIN: usize = 64 * 1024;
/// Bytes that wait for clients, of all flows, from which on a flow gets no more than that.
const WAITING_BYTES_IN_ALL: usize = 256 << 20;

/// Code of a reset because a flow's bytes broke off.
pub const RESET_BROKEN_OFF: u32 = 1;

/// Code of the end of a connection whose other end broke a rule.
const CLOSED_BY_OFFENCE: u32 = 1;

/// The end of a connection, by what the other end sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TunnelError {
    /// The connection's frames.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Their contents.
    #[error(
        "the other end broke the protocol: {0}; look whether both ends run a release of this program"
    )]
    Format(#[from] FormatError),
}

/// Settings that an end cannot begin with.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The connection's.
    #[error(transparent)]
    Wire(#[from] ConfigError),
    /// The controller's.
    #[error(transparent)]
    Controller(#[from] SpecError),
}

/// A clock for the processor time that segments take.
pub type Stopwatch = Box<dyn FnMut() -> Nanos + Send>;

/// One end of a tunnel.
pub struct End {
    role: Role,
    session: Session,
    cache: Cache,
    limits: Limits,
    held_max: usize,
    /// Bytes that all flows hold.
    held: usize,
    /// Bytes that wait for clients, of all flows.
    waiting: usize,
    run: u64,
    classes: Classes,
    stopwatch: Stopwatch,
    /// Counts instead of the stopwatch, where time is virtual.
    costs: Option<Costs>,
    /// Processor time of all segments so far.
    spent: Nanos,
    flows: BTreeMap<u32, Flow>,
    talk: Talk,
    /// The fingerprint by which content is cut; `None`: the fastest one here.
    fingerprint: Option<Fingerprint>,
    /// Another unit that cuts.
    offload: Option<Offload>,
    fetching: Fetching,
    /// The newest time that it was told.
    now: Nanos,
    events: VecDeque<FlowEvent>,
}

impl End {
    /// An end of a connection that was just made, with what it kept of earlier ones.
    ///
    /// # Errors
    /// A setting does not fit, or there is no such controller.
    pub fn new(
        settings: Settings,
        mut cache: Cache,
        stopwatch: Stopwatch,
        now: Nanos,
    ) -> Result<End, SettingsError> {
        let known = cache.classes.take().filter(|known| known.are_by(&settings.controller));
        let classes = known.map_or_else(|| Classes::new(&settings.controller), Ok)?;
        cache.shared.shadows.begin();
        let mut wire = settings.wire;
        wire.epoch = cache.epoch;
        wire.parameters = cache.parameters().into();
        Ok(End {
            role: wire.role,
            session: Session::new(wire, now)?,
            cache,
            limits: Limits { retained_bytes_max: settings.flow_bytes_max },
            held_max: settings.flows_bytes_max,
            held: 0,
            waiting: 0,
            run: settings.seed,
            classes,
            stopwatch,
            costs: None,
            spent: Nanos(0),
            flows: BTreeMap::new(),
            talk: Talk::default(),
            fingerprint: settings.offload.map(|offload| offload.fingerprint()),
            offload: settings.offload.map(|offload| Offload::new(offload, settings.seed)),
            fetching: Fetching::new(settings.disk_patience),
            now,
            events: VecDeque::new(),
        })
    }

    /// The same in virtual time: processor time is counted by `costs`, and nothing is measured.
    ///
    /// # Errors
    /// As [`End::new`].
    pub fn modelled(
        settings: Settings,
        cache: Cache,
        costs: Costs,
        now: Nanos,
    ) -> Result<End, SettingsError> {
        let end = End::new(settings, cache, Box::new(|| Nanos(0)), now)?;
        Ok(End { costs: Some(costs), ..end })
    }

    /// Processor time of all segments so far.
    pub fn spent(&self) -> Nanos {
        self.spent
    }

    /// Takes in bytes of the connection, in pieces of any size. Take the events after each call.
    ///
    /// # Errors
    /// The other end broke a rule: the connection is over, and nothing more is delivered. Transmit
    /// once more, so that it hears of which.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), TunnelError> {
        self.now = now;
        let received = self.session.receive(now, bytes);
        if received.is_ok() {
            while let Some(event) = self.session.next_event() {
                let done = self.on_event(now, event);
                let done = done.and_then(|()| Ok(self.talk.check(self.held)?));
                done.inspect_err(|error| {
                    self.session.close(CLOSED_BY_OFFENCE, &error.to_string())
                })?;
            }
        }
        Ok(received?)
    }

    /// The next thing that a client is to hear of.
    pub fn next_event(&mut self) -> Option<FlowEvent> {
        self.events.pop_front()
    }

    /// Opens a flow.
    ///
    /// # Errors
    /// It cannot be opened, at least not now; nothing happened.
    pub fn open(&mut self, now: Nanos, target: &Target) -> Result<FlowId, OpenError> {
        if self.talk.stream().is_none() {
            return Err(OpenError::NotYet);
        }
        let stream = self.session.open(&target.header())?;
        self.add(now, stream, target);
        Ok(FlowId(stream.number()))
    }

    /// Bytes that a flow may give now. If that is 0, [`FlowEvent::Room`] comes when it is not.
    pub fn room(&mut self, flow: FlowId) -> usize {
        let others = self.held_max.saturating_sub(self.held);
        let Some(flow) = self.flows.get_mut(&flow.0).filter(|flow| !flow.is_ending) else {
            return 0;
        };
        let guaranteed = FLOW_BYTES_MIN.saturating_sub(flow.held());
        let room = flow.encoder.room_at_once().min(others.max(guaranteed));
        flow.wants_room = room == 0;
        met_if(room == 0, "a flow waits for the other end");
        room
    }

    /// Takes bytes of a client, at most [`End::room`]. They may wait for more: see [`End::flush`].
    ///
    /// # Panics
    /// If there are more than the flow has room for.
    pub fn give(&mut self, now: Nanos, flow: FlowId, bytes: &[u8]) {
        let room = self.room(flow);
        let Some(state) = self.flows.get_mut(&flow.0) else { return };
        assert!(bytes.len() <= room, "{} bytes are given, there is room for {room}", bytes.len());
        let before = state.held();
        state.encoder.push(bytes);
        self.held += state.held() - before;
        let took = self.cut(now, flow.0);
        self.shadow(now, flow.0, bytes);
        self.send_segments(now, flow.0, took);
    }

    /// Sends what waits, because the client says nothing more for now.
    pub fn flush(&mut self, now: Nanos, flow: FlowId) {
        if let Some(state) = self.flows.get_mut(&flow.0) {
            state.flushes = true;
            self.send_segments(now, flow.0, Nanos(0));
        }
    }

    /// Bytes of a flow that wait for more to come, for [`End::flush`], or for another unit.
    pub fn pending(&self, flow: FlowId) -> usize {
        self.flows.get(&flow.0).map_or(0, |flow| flow.encoder.pending())
    }

    /// True if another unit cuts bytes of a flow. When it has, [`FlowEvent::Cut`] comes.
    pub fn is_being_cut(&self, flow: FlowId) -> bool {
        self.flows.get(&flow.0).is_some_and(|flow| flow.encoder.is_asked())
    }

    /// The next job for the unit of [`Settings::offload`](crate::Settings::offload). Look after
    /// each call that takes bytes, answers or time. Tickets are of this end alone.
    pub fn next_cut_job(&mut self) -> Option<(CutTicket, Job)> {
        self.offload.as_mut()?.next_job()
    }

    /// The unit has done a job. Take the events after each call. An answer that nobody waits for
    /// any more is not heard.
    pub fn cut_done(&mut self, now: Nanos, done: Done) {
        let Some(offload) = &mut self.offload else { return };
        let Some(number) = offload.flow_of(&done) else { return };
        let encoder = self.flows.get_mut(&number).map(|flow| &mut flow.encoder);
        if offload.answered(done, encoder) {
            self.unit_failed(now);
        }
        self.go_on(now, number);
    }

    /// The unit has failed: what it had is cut here, and it gets nothing until
    /// [`End::unit_is_back`]. Failures that the end found itself need not be told.
    pub fn unit_failed(&mut self, now: Nanos) {
        let flows = self.offload.as_mut().map_or_else(Vec::new, Offload::fail);
        for number in flows {
            if let Some(flow) = self.flows.get_mut(&number) {
                flow.encoder.withdraw();
                self.go_on(now, number);
            }
        }
    }

    /// A unit is there again, with the abilities of the one that failed.
    pub fn unit_is_back(&mut self) {
        if let Some(offload) = &mut self.offload {
            offload.is_back();
        }
    }

    /// The next failure of the unit that this end found, once each.
    pub fn next_unit_fault(&mut self) -> Option<UnitFault> {
        self.offload.as_mut()?.next_fault()
    }

    /// Counts of the unit's work for this end; `None` without one.
    pub fn offload_counts(&self) -> Option<OffloadCounts> {
        self.offload.as_ref().map(Offload::counts)
    }

    /// The client said its last byte.
    pub fn end(&mut self, now: Nanos, flow: FlowId) {
        if let Some(state) = self.flows.get_mut(&flow.0) {
            state.is_ending = true;
            state.flushes = true;
            let (class, wanted) = (state.class, self.classes.wanted(state.class));
            let findings = state.scout.end(wanted, &mut self.cache.shared);
            self.classes.shadowed(now, class, (0, Nanos(0)), &findings);
            self.send_segments(now, flow.0, Nanos(0));
        }
    }

    /// Drops a flow, both ways; no more events of it come.
    pub fn reset(&mut self, flow: FlowId, code: u32) {
        if let Some(state) = self.flows.get(&flow.0) {
            self.session.reset(state.stream, code);
            self.talk.say(Control::Dropped { flow: flow.0, code });
            self.drop_flow(flow.0);
        }
    }

    /// The client has taken bytes that it got.
    ///
    /// # Errors
    /// What may be read now breaks a rule: the connection is over.
    ///
    /// # Panics
    /// If the client got fewer.
    pub fn taken(&mut self, now: Nanos, flow: FlowId, bytes: usize) -> Result<(), TunnelError> {
        self.now = now;
        self.decode(flow.0, |decoder, limit, shared| decoder.taken(bytes, limit, shared))
    }

    /// The next job for the device of the cache's second tier. Jobs are done in their order, also
    /// those of a connection before this one, and each is answered by [`End::disk_done`].
    pub fn next_disk_job(&mut self) -> Option<DiskJob> {
        self.cache.shared.store.next_disk_job()
    }

    /// The device has done a job. Take the events after each call.
    ///
    /// # Errors
    /// A segment whose last chunk this was is not what the other end sent: the connection is over.
    pub fn disk_done(&mut self, now: Nanos, done: DiskDone) -> Result<(), TunnelError> {
        self.now = now;
        let had_failed = self.disk_counts().has_failed;
        let read = self.cache.shared.store.disk_done(done);
        if self.disk_counts().has_failed && !had_failed {
            self.events.push_back(FlowEvent::DiskFailed);
        }
        let waiting = read.and_then(|(ticket, bytes)| {
            let (flow, fetch) = self.fetching.answered(ticket)?;
            Some((flow, fetch, bytes))
        });
        self.fetching.heard(now);
        let Some((flow, fetch, bytes)) = waiting else { return Ok(()) };
        self.decode(flow, |decoder, _, shared| decoder.fetched(fetch, bytes.as_deref(), shared))
    }

    /// Goes on without what the device does not return in time.
    fn tick_disk(&mut self) -> Result<(), TunnelError> {
        while let Some((flow, fetch)) = self.fetching.late(self.now) {
            met("the device did not return a chunk in time");
            self.decode(flow, |decoder, _, shared| decoder.fetched(fetch, None, shared))?;
        }
        if self.fetching.is_hung(self.now) && !self.disk_counts().has_failed {
            self.cache.shared.store.give_up_disk();
            self.events.push_back(FlowEvent::DiskFailed);
        }
        Ok(())
    }

    /// Counts of the cache's second tier.
    pub fn disk_counts(&self) -> DiskCounts {
        self.cache.shared.store.disk_counts()
    }

    /// Appends what the connection gets, about `max_bytes` of it; how many bytes. 0: nothing.
    pub fn transmit(&mut self, now: Nanos, out: &mut VecDeque<Bytes>, max_bytes: usize) -> usize {
        self.talk.pump(&mut self.session);
        self.session.transmit(now, out, max_bytes)
    }

    /// True if [`End::transmit`] may have something.
    pub fn wants_transmit(&self) -> bool {
        self.talk.has_something() || self.session.wants_transmit()
    }

    /// Time at which [`End::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let late = self.offload.as_ref().and_then(Offload::next_deadline);
        let of_disk = self.fetching.next_deadline();
        self.session.next_deadline().into_iter().chain(late).chain(of_disk).min()
    }

    /// Does what is due. Take the events after each call.
    ///
    /// # Errors
    /// The other end has said nothing for too long, or broke a rule: the connection is over.
    pub fn tick(&mut self, now: Nanos) -> Result<(), TunnelError> {
        self.now = now;
        if self.offload.as_mut().is_some_and(|offload| offload.is_late(now)) {
            self.unit_failed(now);
        }
        self.tick_disk()?;
        Ok(self.session.tick(now)?)
    }

    /// Asks the other end for a sign of life: [`End::round_trip`] is new when it has come.
    pub fn ping(&mut self) {
        self.session.ping();
    }

    /// Lets no new flows begin; those that are there go on.
    pub fn close(&mut self, reason: &str) {
        self.session.close(0, reason);
    }

    /// Says what the link and the processor can give from now on.
    pub fn set_conditions(&mut self, now: Nanos, conditions: Conditions) {
        self.classes.set_conditions(now, conditions);
    }

    /// Flows that are not over.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// True if both ends want no new flows, none is left at either, and nothing is to be sent: the
    /// connection can be closed.
    pub fn is_drained(&self) -> bool {
        // The first stream lasts as long as the connection.
        let has_no_flows = self.flows.is_empty() && self.session.streams() <= 1;
        self.session.is_closing() && has_no_flows && !self.wants_transmit()
    }

    /// Reports on each class of flows that this end sent for.
    pub fn reports(&self) -> impl Iterator<Item = ClassReport> {
        self.classes.reports()
    }

    /// Report on one flow; `None` when it is over.
    pub fn flow_report(&self, flow: FlowId) -> Option<FlowReport> {
        self.flows.get(&flow.0).map(Flow::report)
    }

    /// Chunks that the other end had to ask for, and that this end asked for.
    pub fn asked(&self) -> (u64, u64) {
        self.talk.asked()
    }

    /// Time from the last ping to its answer.
    pub fn round_trip(&self) -> Option<Nanos> {
        self.session.round_trip()
    }

    /// The cache, when the connection is over.
    pub fn into_cache(self) -> Cache {
        Cache { classes: Some(self.classes), ..self.cache }
    }

    fn add(&mut self, now: Nanos, stream: StreamId, target: &Target) {
        let class = self.classes.admit(target.class);
        let choice = self.classes.choose(now, class);
        let chunking = chunking_by(self.fingerprint, choice);
        let flow = Flow::new(stream, target, class, self.limits, self.run, chunking, choice);
        let earlier = self.flows.insert(stream.number(), flow);
        assert!(earlier.is_none(), "streams' numbers are never used again");
    }

    fn drop_flow(&mut self, number: u32) {
        if let Some(mut flow) = self.flows.remove(&number) {
            flow.scout.drop_region(&mut self.cache.shared);
            self.held -= flow.held();
            self.waiting -= flow.decoder.waiting();
        }
    }

    fn on_event(&mut self, now: Nanos, event: Event) -> Result<(), TunnelError> {
        match event {
            Event::Hello { epoch, parameters, .. } => {
                self.cache.meet(epoch, &parameters)?;
                if self.role == Role::Connector {
                    self.begin_talk()?;
                }
            }
            Event::Opened { stream, header } => self.on_opened(now, stream, &header)?,
            Event::Data { stream, bytes } if self.talk.stream() == Some(stream) => {
                self.session.consumed(stream, bytes.len());
                for message in self.talk.receive(&bytes)? {
                    self.on_control(now, message)?;
                }
            }
            Event::Data { stream, bytes } => self.on_data(stream, &bytes)?,
            Event::Ended { stream } | Event::Reset { stream, .. }
                if self.talk.stream() == Some(stream) =>
            {
                return Err(
                    value("the end of the first stream", 0, "that of the connection").into()
                );
            }
            Event::Ended { stream } => {
                if let Some(flow) = self.flows.get_mut(&stream.number()) {
                    flow.peer_ended = true;
                    self.deliver(stream.number());
                }
            }
            Event::Reset { stream, code } => {
                self.on_reset(stream.number(), code);
            }
            Event::Writable { stream } => self.send_segments(now, stream.number(), Nanos(0)),
            Event::Closing { reason, .. } => self.events.push_back(FlowEvent::Closing { reason }),
        }
        Ok(())
    }

    /// Opens the first stream. Without it no flow begins, which is right when an end is closing.
    fn begin_talk(&mut self) -> Result<(), TunnelError> {
        match self.session.open(&[]) {
            Ok(stream) => {
                self.talk.begin(stream);
                self.events.push_back(FlowEvent::Ready);
                Ok(())
            }
            Err(OpenError::Closing) => Ok(()),
            Err(_) => Err(value("the streams that the other end takes", 0, "1 or more").into()),
        }
    }

    /// The other end dropped a flow.
    fn on_reset(&mut self, number: u32, code: u32) {
        let Some(flow) = self.flows.get(&number) else { return };
        let is_heard = flow.has_ended && flow.told_end;
        met_if(is_heard, "a flow was dropped whose client has everything");
        self.drop_flow(number);
        if !is_heard {
            self.events.push_back(FlowEvent::Reset { flow: FlowId(number), code });
        }
    }

    fn on_opened(
        &mut self,
        now: Nanos,
        stream: StreamId,
        header: &[u8],
    ) -> Result<(), TunnelError> {
        if self.role == Role::Acceptor && self.talk.stream().is_none() {
            if !header.is_empty() {
                let length = header.len() as u64;
                return Err(value("the header of the first stream", length, "empty").into());
            }
            self.talk.begin(stream);
            self.events.push_back(FlowEvent::Ready);
            return Ok(());
        }
        let target = Target::read(header)?;
        self.add(now, stream, &target);
        self.events.push_back(FlowEvent::Opened { flow: FlowId(stream.number()), target });
        Ok(())
    }

    fn on_data(&mut self, stream: StreamId, bytes: &[u8]) -> Result<(), TunnelError> {
        if !self.flows.contains_key(&stream.number()) {
            // It was reset here, and what was on its way came after all.
            self.session.consumed(stream, bytes.len());
        }
        self.decode(stream.number(), |decoder, limit, shared| decoder.push(bytes, limit, shared))
    }

    /// Lets a flow's receiving half work, with the bytes that may wait for its client.
    fn decode(
        &mut self,
        number: u32,
        work: impl FnOnce(&mut Decoder, usize, &mut Shared) -> Result<(), FormatError>,
    ) -> Result<(), TunnelError> {
        let Some(flow) = self.flows.get_mut(&number) else { return Ok(()) };
        let is_crowded = self.waiting >= WAITING_BYTES_IN_ALL;
        let limit = if is_crowded { WAITING_BYTES_MIN } else { WAITING_BYTES_MAX };
        self.waiting -= flow.decoder.waiting();
        let worked = work(&mut flow.decoder, limit, &mut self.cache.shared);
        self.waiting += flow.decoder.waiting();
        worked?;
        self.deliver(number);
        Ok(())
    }

    fn on_control(&mut self, now: Nanos, message: Control) -> Result<(), TunnelError> {
        let (Control::Complete { flow: number, .. }
        | Control::Missing { flow: number, .. }
        | Control::Fill { flow: number, .. }
        | Control::Dropped { flow: number, .. }) = message;
        // Of a flow that was reset, or is over: messages cross each other.
        let Some(flow) = self.flows.get_mut(&number) else { return Ok(()) };
        match message {
            Control::Complete { segments, .. } => {
                let before = flow.held();
                flow.encoder.complete(segments)?;
                self.held -= before - flow.held();
                self.send_segments(now, number, Nanos(0));
                self.tell_room(number);
                self.finish(number);
            }
            Control::Missing { segment, tokens, .. } => {
                met("the other end asked for chunks");
                for (token, bytes) in flow.encoder.missing(segment, &tokens)? {
                    self.talk.say(Control::Fill { flow: number, segment, token, bytes });
                }
            }
            Control::Fill { segment, token, bytes, .. } => {
                flow.decoder.fill(segment, token, &bytes, &mut self.cache.shared)?;
                self.deliver(number);
            }
            Control::Dropped { code, .. } => self.on_reset(number, code),
        }
        Ok(())
    }

    /// Hands out what a flow's receiving half has, and tells the other end about it.
    fn deliver(&mut self, number: u32) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        let id = FlowId(number);
        for missing in flow.decoder.take_missing() {
            met("chunks were missing");
            let (segment, tokens) = (missing.segment, missing.tokens);
            self.talk.say(Control::Missing { flow: number, segment, tokens });
        }
        for fetch in flow.decoder.take_fetches() {
            met("a chunk is read from the device");
            self.fetching.begin(self.now, number, fetch);
        }
        while let Some(bytes) = flow.decoder.next_bytes() {
            self.events.push_back(FlowEvent::Bytes { flow: id, bytes });
        }
        if flow.decoder.complete() > flow.told_complete {
            flow.told_complete = flow.decoder.complete();
            self.talk.say(Control::Complete { flow: number, segments: flow.told_complete });
        }
        let credit = flow.decoder.take_credit();
        if credit > 0 {
            self.session.consumed(flow.stream, credit as usize);
        }
        if flow.peer_ended && !flow.told_end {
            if flow.decoder.is_done() || mutant("end_before_fills") {
                flow.told_end = true;
                self.events.push_back(FlowEvent::Ended { flow: id });
            } else if flow.decoder.is_broken_off() {
                met("a flow broke off inside a segment");
                self.session.reset(flow.stream, RESET_BROKEN_OFF);
                self.talk.say(Control::Dropped { flow: number, code: RESET_BROKEN_OFF });
                self.drop_flow(number);
                self.events.push_back(FlowEvent::Reset { flow: id, code: RESET_BROKEN_OFF });
                return;
            }
        }
        self.finish(number);
    }

    /// Has what came of a flow cut, by the unit or here; processor time that it took here.
    fn cut(&mut self, now: Nanos, number: u32) -> Nanos {
        let Some(flow) = self.flows.get_mut(&number) else { return Nanos(0) };
        if flow.encoder.is_cut() {
            return Nanos(0);
        }
        let offload = self.offload.as_mut();
        let started = (self.stopwatch)();
        if !offload.is_some_and(|offload| offload.takes(now, number, &mut flow.encoder)) {
            flow.encoder.cut();
        }
        (self.stopwatch)().saturating_sub(started)
    }

    /// Goes on with a flow of which nothing is with the unit any more.
    fn go_on(&mut self, now: Nanos, number: u32) {
        let took = self.cut(now, number);
        self.send_segments(now, number, took);
        if self.flows.get(&number).is_some_and(|flow| !flow.encoder.is_asked()) {
            self.events.push_back(FlowEvent::Cut { flow: FlowId(number) });
        }
    }

    /// Sends what a flow has, as far as the connection takes it. `took` is processor time that was
    /// spent on the next segment already.
    fn send_segments(&mut self, now: Nanos, number: u32, mut took: Nanos) {
        while self.send_outgoing(number) {
            took.0 += self.cut(now, number).0;
            let Some(flow) = self.flows.get_mut(&number) else { return };
            if !flow.encoder.is_ready() {
                break;
            }
            let before = flow.held();
            let started = (self.stopwatch)();
            let segment = flow.encoder.next_segment(&mut self.cache.shared);
            let (parts, encoded) = segment.expect("a segment is ready");
            took.0 += (self.stopwatch)().saturating_sub(started).0;
            took = self.costs.map_or(took, |costs| costs.of(&encoded));
            self.spent.0 += took.0;
            self.held -= before - flow.held();
            flow.outgoing.extend(parts);
            flow.sent.add(&encoded);
            self.classes.observe(now, flow.class, flow.choice, &encoded, took);
            took = Nanos(0);
            self.choose_again(now, number);
        }
        let Some(flow) = self.flows.get_mut(&number) else { return };
        let is_all_sent = flow.outgoing.is_empty() && flow.encoder.pending() == 0;
        if flow.is_ending && is_all_sent && !flow.has_ended {
            flow.has_ended = true;
            self.session.end(flow.stream);
        }
        self.tell_room(number);
        self.finish(number);
    }

    /// Has the connection take what waits of a flow's segments; true if it took all of it. A flush
    /// counts from then on: what came meanwhile is sent with the rest.
    fn send_outgoing(&mut self, number: u32) -> bool {
        let Some(flow) = self.flows.get_mut(&number) else { return false };
        while let Some(part) = flow.outgoing.front_mut() {
            if self.session.send(flow.stream, part).is_err() || !part.is_empty() {
                met_if(!part.is_empty(), "a segment waits for the connection");
                return false;
            }
            flow.outgoing.pop_front();
        }
        if std::mem::take(&mut flow.flushes) {
            met_if(flow.encoder.is_asked(), "a flow is flushed while a unit cuts");
            if !(flow.encoder.is_asked() && mutant("a_flush_is_lost_while_a_unit_cuts")) {
                flow.encoder.flush();
            }
        }
        true
    }

    /// Asks how a flow's next segment is cut.
    fn choose_again(&mut self, now: Nanos, number: u32) {
        let Some(class) = self.flows.get(&number).map(|flow| flow.class) else { return };
        let choice = self.classes.choose(now, class);
        let chunking = chunking_by(self.fingerprint, choice);
        let Some(flow) = self.flows.get_mut(&number) else { return };
        met_if(chunking != flow.encoder.chunking(), "a flow is cut in another way");
        flow.choice = choice;
        flow.encoder.set_chunking(chunking);
    }

    /// Lets the shadows see what a flow's client said, if the class's controller wants them.
    fn shadow(&mut self, now: Nanos, number: u32, bytes: &[u8]) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        let (wanted, shared) = (self.classes.wanted(flow.class), &mut self.cache.shared);
        if wanted.is_empty() {
            return flow.scout.rest(bytes.len(), shared);
        }
        let started = (self.stopwatch)();
        let findings = flow.scout.pass(bytes, wanted, shared);
        let took = (self.stopwatch)().saturating_sub(started);
        let took = self.costs.map_or(took, |costs| costs.of_shadows(bytes.len()));
        self.spent.0 += took.0;
        self.classes.shadowed(now, flow.class, (bytes.len(), took), &findings);
    }

    fn tell_room(&mut self, number: u32) {
        let waits = self.flows.get(&number).is_some_and(|flow| flow.wants_room);
        if waits && self.room(FlowId(number)) > 0 {
            self.events.push_back(FlowEvent::Room { flow: FlowId(number) });
        }
    }

    fn finish(&mut self, number: u32) {
        if self.flows.get(&number).is_some_and(Flow::is_over) {
            self.drop_flow(number);
        }
    }
}
