//! Two ends of a tunnel in virtual time: the live machine on a modelled link.
//!
//! 1. Each file is a flow that the near site asks for and the far site sends. Flows begin in the
//!    order of the files, so many side by side; a server has its bytes at once, a client takes them
//!    at once.
//! 2. The far end's processor does one segment after the other; how long a segment takes is counted
//!    by [`Costs`]. The near end's relays what it gets, at the cost of a byte relayed.
//! 3. Between them is TLS over TCP on a link that may lose packets, or a queue that loses nothing
//!    ([`carrier`]).

mod carrier;
mod plain;
mod tcp;
#[cfg(test)]
mod tests;

pub use plain::plain;
pub use tcp::Congestion;

use carrier::{BURST_BYTES, Carrier};
use std::collections::VecDeque;
use std::io::{self, Read};
use tcp::Side;
use thermocline_policy::tunnel::Conditions;
use thermocline_ports::model::LinkProfile;
use thermocline_tunnel::{
    Cache, ClassReport, Costs, Encoded, End, FlowEvent, FlowId, Settings, SettingsError, Sharing,
    Target,
};
use thermocline_units::{Bytes as Size, Nanos};
use thermocline_wire::Role;

/// Bytes that a server writes at once.
const WRITE_BYTES: usize = 64 * 1024;
/// Time after which the controllers are told what the link took.
const CONDITIONS_EVERY: Nanos = Nanos::from_secs(1);

/// A flow that begins when there is room for it.
pub struct Offered {
    /// Its name, for errors.
    pub name: String,
    /// Its class: the server's port.
    pub class: u16,
    /// Its bytes.
    pub bytes: Box<dyn Read>,
}

/// A scene.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Each direction of the link.
    pub link: LinkProfile,
    /// The congestion control of the ends' TCP connection; `None`: a queue that loses nothing and
    /// has no windows.
    pub tcp: Option<Congestion>,
    /// Bytes of chunks that each end keeps.
    pub cache: Size,
    /// The controller, by its name in the registry.
    pub controller: String,
    /// Flows that may share chunks.
    pub sharing: Sharing,
    /// Processor time of the ends.
    pub costs: Costs,
    /// Flows side by side, 1 or more.
    pub parallel: usize,
    /// Seed of everything random.
    pub seed: u64,
}

/// Outcome of a scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Virtual time from the first flow's beginning to the last byte.
    pub took: Nanos,
    /// Processor time of the far end.
    pub spent: Nanos,
    /// Bytes that the link carried towards the clients, with all that was put around them.
    pub carried: Size,
    /// Bytes of the flows.
    pub bytes: Size,
    /// Report on each class at the far end.
    pub classes: Vec<ClassReport>,
}

impl Outcome {
    /// Bytes of flows a second.
    pub fn goodput(&self) -> f64 {
        self.bytes.0 as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// The sum over classes.
    pub fn totals(&self) -> Encoded {
        let mut totals = Encoded::default();
        for class in &self.classes {
            totals.add(&class.sent);
        }
        totals
    }
}

/// A scene that could not be played.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    /// The settings of the ends.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A flow's bytes.
    #[error("{name}: {error}")]
    Read {
        /// The flow.
        name: String,
        /// The failure.
        error: io::Error,
    },
}

/// Plays a scene to its end.
///
/// # Errors
/// A setting does not fit, or bytes cannot be read.
pub fn play(
    scene: &Scene,
    flows: impl IntoIterator<Item = Offered>,
) -> Result<Outcome, SceneError> {
    let mut stage = Stage::new(scene)?;
    let mut waiting = flows.into_iter().peekable();
    loop {
        while stage.flows.len() < scene.parallel.max(1) && stage.near.is_ready {
            let Some(offered) = waiting.next() else { break };
            stage.open(offered);
        }
        stage.write()?;
        stage.exchange();
        if stage.flows.is_empty() && waiting.peek().is_none() && stage.near.is_ready {
            return Ok(stage.outcome());
        }
        stage.wait();
    }
}

/// One end.
struct Site {
    end: End,
    side: Side,
    /// Bytes that arrived while the processor was busy.
    arrived: Vec<u8>,
    /// The processor is busy until then.
    processor_free: Nanos,
    is_ready: bool,
}

impl Site {
    fn is_busy(&self, now: Nanos) -> bool {
        self.processor_free > now
    }

    /// The end gets what has arrived.
    fn receive(&mut self, now: Nanos) {
        if !self.arrived.is_empty() {
            let arrived = std::mem::take(&mut self.arrived);
            self.end.receive(now, &arrived).expect("both ends keep the rules");
        }
    }

    fn work(&mut self, now: Nanos, spent: Nanos) {
        self.processor_free = Nanos(self.processor_free.max(now).0 + spent.0);
    }
}

struct Served {
    flow: FlowId,
    offered: Offered,
    /// True if the server has heard of it.
    is_open: bool,
    is_ended: bool,
    is_over: bool,
}

struct Stage<'a> {
    scene: &'a Scene,
    now: Nanos,
    far: Site,
    near: Site,
    carrier: Carrier,
    began: Option<Nanos>,
    flows: Vec<Served>,
    /// The flow that is served next.
    turn: usize,
    bytes: u64,
    told: Nanos,
}

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene) -> Result<Stage<'a>, SettingsError> {
        let site = |role, side, run: u8| -> Result<Site, SettingsError> {
            let mut settings = Settings::new(role, scene.seed);
            settings.controller = scene.controller.clone();
            // Nothing is silent in virtual time.
            settings.wire.silent_after = Nanos::from_secs(1 << 30);
            settings.wire.ping_after = Nanos::from_secs(1 << 29);
            let cache = Cache::new(scene.cache, [run; 16], scene.seed);
            let end = End::modelled(settings, cache, scene.costs, Nanos(0))?;
            let (arrived, processor_free, is_ready) = (Vec::new(), Nanos(0), false);
            Ok(Site { end, side, arrived, processor_free, is_ready })
        };
        Ok(Stage {
            scene,
            now: Nanos(0),
            far: site(Role::Acceptor, Side::Far, 1)?,
            near: site(Role::Connector, Side::Near, 2)?,
            carrier: Carrier::new(scene.link, scene.tcp, scene.seed),
            began: None,
            flows: Vec::new(),
            turn: 0,
            bytes: 0,
            told: Nanos(0),
        })
    }

    /// A client asks for a file, and says nothing more.
    fn open(&mut self, offered: Offered) {
        let (class, sharing) = (offered.class, self.scene.sharing);
        let target = Target { address: "server:0".to_string(), class, sharing };
        let flow = self.near.end.open(self.now, &target);
        let flow = flow.expect("few flows, and both ends are there");
        self.near.end.end(self.now, flow);
        self.began.get_or_insert(self.now);
        self.flows.push(Served { flow, offered, is_open: false, is_ended: false, is_over: false });
    }

    /// Servers write, one after the other, while the processor is free.
    fn write(&mut self) -> Result<(), SceneError> {
        for _ in 0..self.flows.len() {
            if self.far.is_busy(self.now) {
                return Ok(());
            }
            self.turn = (self.turn + 1) % self.flows.len();
            let served = &mut self.flows[self.turn];
            if served.is_ended || !served.is_open {
                continue;
            }
            let room = self.far.end.room(served.flow).min(WRITE_BYTES);
            // What the link has not taken waits in the end; more would only wait as well.
            let backlog = self.far.end.pending(served.flow);
            if room == 0 || backlog > 4 * WRITE_BYTES {
                continue;
            }
            let mut bytes = vec![0; room];
            let named = |error| SceneError::Read { name: served.offered.name.clone(), error };
            let length = served.offered.bytes.read(&mut bytes).map_err(named)?;
            let before = self.far.end.spent();
            if length == 0 {
                served.is_ended = true;
                self.far.end.end(self.now, served.flow);
            } else {
                self.far.end.give(self.now, served.flow, &bytes[..length]);
                self.bytes += length as u64;
            }
            let spent = self.far.end.spent().saturating_sub(before);
            self.far.work(self.now, spent);
        }
        Ok(())
    }

    /// The link takes and delivers what it can by now.
    fn exchange(&mut self) {
        for site in [&mut self.far, &mut self.near] {
            send(self.now, site, &mut self.carrier);
        }
        self.carrier.advance(self.now);
        for site in [&mut self.far, &mut self.near] {
            let mut arrived = self.carrier.take(self.now, site.side);
            site.arrived.append(&mut arrived);
        }
        self.far.receive(self.now);
        while let Some(event) = self.far.end.next_event() {
            if let FlowEvent::Opened { flow, .. } = event {
                let served = self.flows.iter_mut().find(|served| served.flow == flow);
                served.expect("a flow of this scene").is_open = true;
            }
        }
        if !self.near.is_busy(self.now) {
            self.near.receive(self.now);
        }
        self.take();
        if self.now.saturating_sub(self.told) >= CONDITIONS_EVERY {
            let link = Some(Size(self.scene.link.lane.bytes_per_s));
            let conditions = Conditions { link, processor: 1.0 };
            self.far.end.set_conditions(self.now, conditions);
            self.told = self.now;
        }
    }

    /// Clients take what arrived.
    fn take(&mut self) {
        while let Some(event) = self.near.end.next_event() {
            match event {
                FlowEvent::Ready => self.near.is_ready = true,
                FlowEvent::Bytes { flow, bytes } => {
                    let spent = self.scene.costs.relay_per_byte * bytes.len() as f64;
                    self.near.work(self.now, Nanos(spent as u64));
                    let taken = self.near.end.taken(self.now, flow, bytes.len());
                    taken.expect("both ends keep the rules");
                }
                FlowEvent::Ended { flow } => {
                    let served = self.flows.iter_mut().find(|served| served.flow == flow);
                    served.expect("a flow of this scene").is_over = true;
                }
                _ => {}
            }
        }
        self.flows.retain(|served| !served.is_over);
    }

    /// Goes on to the next moment at which something can happen.
    fn wait(&mut self) {
        let mut moments = vec![self.carrier.next_event()];
        for site in [&self.far, &self.near] {
            if site.end.wants_transmit() {
                moments.push(self.carrier.room_at(site.side));
            }
            moments.push(site.is_busy(self.now).then_some(site.processor_free));
        }
        let next = moments.into_iter().flatten().min();
        // The last thing that was under way may have made room, or ended the last flow.
        let has_room = |served: &Served| {
            served.is_open && !served.is_ended && self.far.end.room(served.flow) > 0
        };
        let goes_on = self.flows.is_empty() || self.flows.iter().any(has_room);
        let next = next.or(goes_on.then_some(self.now));
        let next = next.expect("a flow is under way, so something is to come");
        self.now = next.max(Nanos(self.now.0 + 1));
    }

    fn outcome(self) -> Outcome {
        Outcome {
            took: self.now.saturating_sub(self.began.unwrap_or_default()),
            spent: self.far.end.spent(),
            carried: Size(self.carrier.carried(Side::Far)),
            bytes: Size(self.bytes),
            classes: self.far.end.reports().collect(),
        }
    }
}

/// An end gives what the carrier takes by `now`.
fn send(now: Nanos, site: &mut Site, carrier: &mut Carrier) {
    loop {
        let room = carrier.room(now, site.side);
        let mut out = VecDeque::new();
        if room == 0 || site.end.transmit(now, &mut out, room.min(BURST_BYTES)) == 0 {
            return;
        }
        carrier.give(now, site.side, out.into_iter().flatten().collect());
    }
}
