//! Meeting point of the link and the clients of one connection: the `End`, behind one lock.
//!
//! All tasks of a gateway run on one thread, so nobody waits for the lock but who asks for the
//! status, and the thread of the cache's second tier when it hands over what it has read. It is
//! never held across an `await`. A client's bytes go from its socket into the end, and from the end
//! to its socket, without a queue between: what the end has room for is the bound.
//!
//! A connection has a number. A flow of an earlier one finds that it is cut. [`flow`] is what a
//! client's task does with its flow.

mod flow;

pub(crate) use flow::{Flow, Pulled};

use crate::accelerator::Accelerator;
use crate::keys::Fingerprint;
use crate::status::{ClassStatus, FLOWS_TOLD_MAX, FlowStatus, LinkStatus, OfClient};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use thermocline_policy::tunnel::Conditions;
use thermocline_ports::accelerator::Done;
use thermocline_tunnel::{Cache, DiskDone, DiskJob, End, FlowEvent, FlowId, OffloadCounts, Target};
use thermocline_units::Nanos;
use thermocline_wire::OpenError;

/// Bytes that are taken from a client at once, at most.
const PULL_BYTES: usize = 256 * 1024;

/// The reason for an end after which the other end refers to nothing that was on the device.
const DISK_FAILED: &str = "the chunks on disk are lost: the disk failed or hangs. The ends connect \
                           anew without them; look at the disk, and start again to use it";

/// A flow that is gone before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The link broke.
    Link,
    /// The other end gave it up, with a code of [`crate::codes`].
    Reset(u32),
}

/// A flow that cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoFlow {
    #[error("the link is down")]
    Down,
    #[error("{0}")]
    Open(OpenError),
}

/// A flow's name and its figures, for people.
struct Account {
    target: String,
    began: Instant,
    /// Bytes that the client has got.
    received: u64,
    /// Bytes sent and received up to the last second's end, and in it.
    before: [u64; 2],
    last: [u64; 2],
}

impl Account {
    fn new(target: &Target) -> Account {
        let target = target.address.clone();
        Account { target, began: Instant::now(), received: 0, before: [0; 2], last: [0; 2] }
    }

    fn end_second(&mut self, sent: u64) {
        let now = [sent, self.received];
        self.last = [now[0] - self.before[0], now[1] - self.before[1]];
        self.before = now;
    }
}

/// A client's place.
struct Mailbox {
    account: Account,
    bytes: VecDeque<Bytes>,
    has_ended: bool,
    reset: Option<u32>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl From<&Account> for OfClient {
    fn from(account: &Account) -> OfClient {
        let [sent_per_s, received_per_s] = account.last;
        OfClient {
            target: account.target.clone(),
            for_s: account.began.elapsed().as_secs_f64(),
            received: account.received,
            sent_per_s,
            received_per_s,
        }
    }
}

impl Mailbox {
    fn new(target: &Target) -> Mailbox {
        let account = Account::new(target);
        let (bytes, has_ended, reset) = (VecDeque::new(), false, None);
        Mailbox { account, bytes, has_ended, reset, reader: None, writer: None }
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

/// Bytes of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Bytes a second that the link took while more waited.
    pub(crate) rate: Option<f64>,
}

/// A connection.
struct Live {
    end: End,
    peer: String,
    key: Fingerprint,
    since: Instant,
    is_ready: bool,
    flows: BTreeMap<FlowId, Mailbox>,
    /// Flows that the other end opened and nobody serves yet.
    opened: Vec<(FlowId, Target)>,
    /// The reason that the connection must end.
    failed: Option<String>,
    /// The other end wants no new flows, and why.
    closing: Option<String>,
    traffic: Traffic,
    /// Bytes of each class a second ago, and how many came in that second.
    goodput: BTreeMap<u16, (u64, u64)>,
}

impl Live {
    /// Hands events to those whom they concern.
    fn dispatch(&mut self) {
        while let Some(event) = self.end.next_event() {
            match event {
                FlowEvent::Ready => self.is_ready = true,
                FlowEvent::Opened { flow, target } => {
                    self.flows.insert(flow, Mailbox::new(&target));
                    self.opened.push((flow, target));
                }
                FlowEvent::Closing { reason } => self.closing = Some(reason),
                FlowEvent::DiskFailed => self.note(Err::<(), _>(DISK_FAILED)),
                FlowEvent::Bytes { flow, bytes } => {
                    self.tell(flow, |mailbox| mailbox.bytes.push_back(bytes));
                }
                FlowEvent::Ended { flow } => self.tell(flow, |mailbox| mailbox.has_ended = true),
                FlowEvent::Reset { flow, code } => self.tell(flow, |mailbox| {
                    mailbox.reset = Some(code);
                    // Nobody is to have them, and the end counts them no longer.
                    mailbox.bytes.clear();
                }),
                FlowEvent::Room { flow } | FlowEvent::Cut { flow } => self.tell(flow, |_| ()),
            }
        }
    }

    fn tell(&mut self, flow: FlowId, what: impl FnOnce(&mut Mailbox)) {
        if let Some(mailbox) = self.flows.get_mut(&flow) {
            what(mailbox);
            mailbox.wake();
        }
    }

    /// The flows that carried most in the last second.
    fn busiest(&self, classes: &[ClassStatus]) -> Vec<FlowStatus> {
        let mut flows: Vec<(&Account, FlowId)> =
            self.flows.iter().map(|(flow, mailbox)| (&mailbox.account, *flow)).collect();
        let carried = |account: &Account| account.last[0] + account.last[1];
        flows.sort_by_key(|(account, _)| std::cmp::Reverse((carried(account), account.began)));
        let told = flows.into_iter().take(FLOWS_TOLD_MAX).filter_map(|(account, flow)| {
            let report = self.end.flow_report(flow)?;
            let class = classes.iter().find(|class| class.class == report.class);
            let why = class.map_or_else(String::new, |class| class.why.clone());
            Some(FlowStatus::new(&report, why, account.into()))
        });
        told.collect()
    }

    /// Ends the connection if the other end broke a rule, or what it was told holds no longer, and
    /// tells it so.
    fn note<T, E: ToString>(&mut self, result: Result<T, E>) {
        if let Err(error) = result
            && self.failed.is_none()
        {
            let why = error.to_string();
            self.end.close(&why);
            self.failed = Some(why);
        }
    }
}

#[derive(Default)]
struct State {
    live: Option<Live>,
    /// Number of the connection.
    number: u64,
    scratch: Vec<u8>,
    link: Option<Waker>,
    /// The device of the cache's second tier.
    disk: Option<Sender<DiskJob>>,
    /// Its answers since the last connection.
    answers: VecDeque<DiskDone>,
    /// Bytes that clients have not taken yet of flows that came to their end before the connection
    /// did, by connection and flow.
    left_over: BTreeMap<(u64, FlowId), Mailbox>,
    /// The accelerator that cuts for the end, and the hub that it answers to.
    accelerator: Option<Arc<Accelerator>>,
    own: Weak<Hub>,
}

impl State {
    fn live(&mut self, number: u64) -> Result<&mut Live, Cut> {
        self.live.as_mut().filter(|_| self.number == number).ok_or(Cut::Link)
    }

    /// A client's place; also when the connection came to a good end.
    fn mailbox(&mut self, number: u64, flow: FlowId) -> Result<&mut Mailbox, Cut> {
        let live = self.live.as_mut().filter(|_| self.number == number);
        let mailbox = match live {
            Some(live) => live.flows.get_mut(&flow),
            None => self.left_over.get_mut(&(number, flow)),
        };
        mailbox.ok_or(Cut::Link)
    }

    /// Hands events round, and wakes the link if it has something to do.
    fn settle(&mut self) {
        let Some(live) = &mut self.live else { return };
        live.dispatch();
        let mut has_job = false;
        while let (Some(disk), Some(job)) = (&self.disk, live.end.next_disk_job()) {
            // Its thread lives as long as this hub.
            let _ = disk.send(job);
            has_job = true;
        }
        has_job |= self.offload();
        let Some(live) = &mut self.live else { return };
        if (live.end.wants_transmit() || live.failed.is_some() || has_job)
            && let Some(waker) = self.link.take()
        {
            waker.wake();
        }
    }
}

impl State {
    /// Gives the accelerator what the end wants cut, and tells it what the end found wrong with it.
    /// True if there was a job: as one of the disk, it has a deadline that the link's timer must
    /// know.
    fn offload(&mut self) -> bool {
        let (Some(live), Some(accelerator)) = (&mut self.live, &self.accelerator) else {
            return false;
        };
        let mut has_job = false;
        while let Some((ticket, job)) = live.end.next_cut_job() {
            accelerator.submit(&self.own, self.number, ticket, job);
            has_job = true;
        }
        while let Some(fault) = live.end.next_unit_fault() {
            accelerator.fail(fault.to_string());
        }
        has_job
    }
}

/// The link's next work.
pub(crate) enum Work {
    /// Send what was appended, if anything; wake at this time.
    Send { deadline: Option<Instant> },
    /// The connection is over: everything is sent and both ends want no more.
    Drained,
    /// The connection is over, and why. What was appended is a last word.
    Failed(String),
}

/// The meeting place.
pub(crate) struct Hub {
    state: Mutex<State>,
    began: Instant,
}

impl Hub {
    pub(crate) fn new(began: Instant, accelerator: Option<Arc<Accelerator>>) -> Arc<Hub> {
        Arc::new_cyclic(|own| {
            accelerator.iter().for_each(|accelerator| accelerator.join(own));
            let state = State { accelerator, own: own.clone(), ..State::default() };
            Hub { state: Mutex::new(state), began }
        })
    }

    pub(crate) fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn at(&self, time: Nanos) -> Instant {
        self.began + Duration::from_nanos(time.0.min(u64::MAX / 4))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device that the end's cache writes to from now on.
    pub(crate) fn set_disk(&self, jobs: Sender<DiskJob>) {
        self.lock().disk = Some(jobs);
    }

    /// The device has done a job.
    pub(crate) fn disk_done(&self, done: DiskDone) {
        let now = self.now();
        let mut state = self.lock();
        match &mut state.live {
            Some(live) => {
                let done = live.end.disk_done(now, done);
                live.note(done);
            }
            None => state.answers.push_back(done),
        }
        state.settle();
    }

    /// The accelerator has done a job of this connection.
    pub(crate) fn cut_done(&self, number: u64, done: Done) {
        let now = self.now();
        let mut state = self.lock();
        if let Ok(live) = state.live(number) {
            live.end.cut_done(now, done);
        }
        state.settle();
    }

    /// The accelerator has failed: the end cuts for itself.
    pub(crate) fn accelerator_failed(&self) {
        let now = self.now();
        let mut state = self.lock();
        if let Some(live) = &mut state.live {
            live.end.unit_failed(now);
        }
        state.settle();
    }

    /// The accelerator works again.
    pub(crate) fn accelerator_is_back(&self) {
        if let Some(live) = &mut self.lock().live {
            live.end.unit_is_back();
        }
    }

    /// Counts of the accelerator's work for the connection that is there.
    pub(crate) fn offload_counts(&self) -> Option<OffloadCounts> {
        self.lock().live.as_ref().and_then(|live| live.end.offload_counts())
    }

    /// Puts a new connection's end in; its number.
    pub(crate) fn install(&self, mut end: End, peer: String, key: Fingerprint) -> u64 {
        let mut state = self.lock();
        assert!(state.live.is_none(), "one connection at a time");
        state.number += 1;
        for done in std::mem::take(&mut state.answers) {
            // Those who waited for it are gone, but the cache learns what it has.
            end.disk_done(self.now(), done).expect("no flow waits for it");
        }
        if state.accelerator.as_ref().is_some_and(|accelerator| !accelerator.is_up()) {
            end.unit_failed(self.now());
        }
        state.scratch.resize(PULL_BYTES, 0);
        // What was counted on earlier connections is not of this one's first second.
        let goodput = end.reports().map(|report| (report.class, (report.sent.bytes, 0)));
        let goodput = goodput.collect();
        state.live = Some(Live {
            end,
            peer,
            key,
            since: Instant::now(),
            is_ready: false,
            flows: BTreeMap::new(),
            opened: Vec::new(),
            failed: None,
            closing: None,
            traffic: Traffic::default(),
            goodput,
        });
        state.number
    }

    /// Takes the end out: its flows are cut, its cache goes on.
    pub(crate) fn remove(&self, number: u64) -> Option<Cache> {
        let mut state = self.lock();
        state.live(number).ok()?;
        let mut live = state.live.take()?;
        live.flows.values_mut().for_each(Mailbox::wake);
        if let (Some(accelerator), Some(counts)) = (&state.accelerator, live.end.offload_counts()) {
            accelerator.add(&counts);
        }
        if live.end.is_drained() {
            let ended = live.flows.into_iter().filter(|(_, mailbox)| mailbox.has_ended);
            state.left_over.extend(ended.map(|(flow, mailbox)| ((number, flow), mailbox)));
        }
        Some(live.end.into_cache())
    }

    /// Takes the end of whatever connection is there, when nobody is served any more.
    pub(crate) fn take_cache(&self) -> Option<Cache> {
        Some(self.lock().live.take()?.end.into_cache())
    }

    /// Ends the connection that is there, if any.
    pub(crate) fn abandon(&self, why: &str) {
        let mut state = self.lock();
        if let Some(live) = &mut state.live {
            live.end.close(why);
            live.failed.get_or_insert(why.to_string());
        }
        state.settle();
    }

    /// Lets no new flows begin.
    pub(crate) fn close(&self, why: &str) {
        let mut state = self.lock();
        if let Some(live) = &mut state.live {
            live.end.close(why);
        }
        state.settle();
    }

    /// True if both ends want no new flows, and all came to their end.
    pub(crate) fn is_drained(&self, number: u64) -> bool {
        self.lock().live(number).is_ok_and(|live| live.end.is_drained())
    }

    /// True when there is no connection.
    pub(crate) fn is_down(&self) -> bool {
        self.lock().live.is_none()
    }

    /// True once the other end has said its first words.
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().live.as_ref().is_some_and(|live| live.is_ready)
    }

    /// Opens a flow.
    pub(crate) fn open(self: &Arc<Hub>, target: &Target) -> Result<Flow, NoFlow> {
        let now = self.now();
        let mut state = self.lock();
        let number = state.number;
        let live = state.live.as_mut().filter(|live| live.is_ready && live.failed.is_none());
        let live = live.ok_or(NoFlow::Down)?;
        let flow = live.end.open(now, target).map_err(|error| match error {
            OpenError::NotYet | OpenError::Closing | OpenError::Failed => NoFlow::Down,
            other => NoFlow::Open(other),
        })?;
        live.flows.insert(flow, Mailbox::new(target));
        state.settle();
        Ok(Flow::new(self.clone(), number, flow))
    }

    /// Flows that the other end opened since the last call.
    pub(crate) fn take_opened(self: &Arc<Hub>, number: u64) -> Vec<(Flow, Target)> {
        let mut state = self.lock();
        let opened = state.live(number).map(|live| std::mem::take(&mut live.opened));
        let flow = |flow| Flow::new(self.clone(), number, flow);
        opened.unwrap_or_default().into_iter().map(|(id, target)| (flow(id), target)).collect()
    }

    /// Takes in bytes of the link.
    pub(crate) fn receive(&self, number: u64, bytes: &[u8]) {
        let now = self.now();
        let mut state = self.lock();
        if let Ok(live) = state.live(number) {
            let received = live.end.receive(now, bytes);
            live.note(received);
            live.traffic.received += bytes.len() as u64;
        }
        state.settle();
    }

    /// The link's next work; the link is woken when it changes.
    pub(crate) fn work(
        &self,
        number: u64,
        out: &mut VecDeque<Bytes>,
        most: usize,
        cx: &Context<'_>,
    ) -> Work {
        let now = self.now();
        let mut state = self.lock();
        let Ok(live) = state.live(number) else { return Work::Drained };
        if live.end.next_deadline().is_some_and(|deadline| deadline <= now) {
            let ticked = live.end.tick(now);
            live.note(ticked);
            state.settle();
        }
        let Ok(live) = state.live(number) else { return Work::Drained };
        // The reason for an end goes behind what is under way.
        if out.is_empty() || live.failed.is_some() {
            live.end.transmit(now, out, most);
        }
        if let Some(why) = &live.failed {
            return Work::Failed(why.clone());
        }
        if out.is_empty() && live.end.is_drained() {
            return Work::Drained;
        }
        let deadline = live.end.next_deadline().map(|deadline| self.at(deadline));
        match &mut state.link {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
        Work::Send { deadline }
    }

    /// Notes what the link has taken, once a second.
    pub(crate) fn end_second(&self, number: u64, sent: u64, rate: Option<f64>) {
        let now = self.now();
        let mut state = self.lock();
        let Ok(live) = state.live(number) else { return };
        live.traffic.sent = sent;
        if rate.is_some() && rate != live.traffic.rate {
            live.traffic.rate = rate;
            let link = rate.map(|rate| thermocline_units::Bytes(rate as u64));
            live.end.set_conditions(now, Conditions { link, ..Conditions::default() });
        }
        for report in live.end.reports() {
            let (before, last) = live.goodput.entry(report.class).or_default();
            *last = report.sent.bytes - *before;
            *before = report.sent.bytes;
        }
        for (flow, mailbox) in &mut live.flows {
            let sent = live.end.flow_report(*flow).map(|report| report.sent.bytes);
            mailbox.account.end_second(sent.unwrap_or(mailbox.account.before[0]));
        }
    }

    /// Notes bytes that the link has taken.
    pub(crate) fn note_sent(&self, number: u64, sent: u64) {
        if let Ok(live) = self.lock().live(number) {
            live.traffic.sent = sent;
        }
    }

    /// The other end's reason for wanting no more flows.
    pub(crate) fn closing(&self, number: u64) -> Option<String> {
        self.lock().live(number).ok().and_then(|live| live.closing.clone())
    }

    /// The connection as it is now; `None` when there is none.
    pub(crate) fn status(&self) -> Option<LinkStatus> {
        let mut state = self.lock();
        let has_disk = state.disk.is_some();
        let live = state.live.as_mut()?;
        let classes = live.end.reports().map(|report| {
            let goodput = live.goodput.get(&report.class).map_or(0, |(_, last)| *last);
            ClassStatus::new(&report, goodput)
        });
        let classes: Vec<ClassStatus> = classes.collect();
        let (asked_of_us, asked_by_us) = live.end.asked();
        Some(LinkStatus {
            peer: live.peer.clone(),
            key: live.key.to_string(),
            is_up: live.is_ready,
            for_s: live.since.elapsed().as_secs_f64(),
            round_trip_us: live.end.round_trip().map(|time| time.0 / 1000),
            flows: live.end.flows(),
            sent_bytes: live.traffic.sent,
            received_bytes: live.traffic.received,
            link_bytes_per_s: live.traffic.rate.map(|rate| rate as u64),
            chunks_asked_of_us: asked_of_us,
            chunks_asked_by_us: asked_by_us,
            disk: has_disk.then(|| live.end.disk_counts().into()),
            busiest: live.busiest(&classes),
            classes,
        })
    }
}

#[cfg(test)]
mod tests;
