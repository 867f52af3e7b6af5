//! Two ends of a tunnel in virtual time: the live machine on a modelled link.
//!
//! 1. Each file is a flow from the far site to the near one. Flows begin in the order of the files,
//!    so many side by side; a server has its bytes at once, a client takes them at once.
//! 2. The far end's processor does one segment after the other; how long a segment takes is counted
//!    by [`Costs`].
//! 3. The link takes what the end gives it as fast as its bandwidth allows, and delivers it later.
//!    Acknowledgements go back over a link of the same kind.
//!
//! It does not lose packets and has no congestion control: a link that TCP would fill. What the
//! near end's processor does is taken to be less than the far end's.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, Read};
use thermocline_policy::tunnel::Conditions;
use thermocline_ports::model::{LinkProfile, ModelLink};
use thermocline_ports::{Link, Packet, Payload};
use thermocline_tunnel::{
    Cache, ClassReport, Costs, Encoded, End, FlowEvent, FlowId, Settings, SettingsError, Sharing,
    Target,
};
use thermocline_units::{Bytes as Size, Nanos};
use thermocline_wire::Role;

/// Bytes that the link gets at once: the longest frame.
const BURST_BYTES: usize = 16 * 1024 + 64;
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
    /// Bytes of chunks that each end keeps.
    pub cache: Size,
    /// The controller, by its name in the registry.
    pub controller: String,
    /// Flows that may share chunks.
    pub sharing: Sharing,
    /// Processor time of the far end.
    pub costs: Costs,
    /// Flows side by side, 1 or more.
    pub parallel: usize,
    /// Of everything random.
    pub seed: u64,
}

/// Outcome of a scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Virtual time from the first byte to the last.
    pub took: Nanos,
    /// Processor time of the far end.
    pub spent: Nanos,
    /// Bytes that the link carried towards the clients, frames included.
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
        while stage.flows.len() < scene.parallel.max(1) && stage.far.is_ready {
            let Some(offered) = waiting.next() else { break };
            stage.open(offered);
        }
        stage.write()?;
        stage.exchange();
        if stage.flows.is_empty() && waiting.peek().is_none() && stage.far.is_ready {
            return Ok(stage.outcome());
        }
        stage.wait();
    }
}

/// One end with its direction of the link.
struct Site {
    end: End,
    link: ModelLink,
    /// The link takes nothing before.
    link_free: Nanos,
    carried: u64,
    is_ready: bool,
}

struct Served {
    flow: FlowId,
    offered: Offered,
    is_ended: bool,
    is_over: bool,
}

struct Stage<'a> {
    scene: &'a Scene,
    now: Nanos,
    far: Site,
    near: Site,
    /// The far end's processor is busy until then.
    processor_free: Nanos,
    flows: Vec<Served>,
    /// The flow that is served next.
    turn: usize,
    bytes: u64,
    told: Nanos,
}

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene) -> Result<Stage<'a>, SettingsError> {
        let site = |role, run: u8| -> Result<Site, SettingsError> {
            let mut settings = Settings::new(role, scene.seed);
            settings.controller = scene.controller.clone();
            // Nothing is silent in virtual time.
            settings.wire.silent_after = Nanos::from_secs(1 << 30);
            settings.wire.ping_after = Nanos::from_secs(1 << 29);
            let cache = Cache::new(scene.cache, [run; 16], scene.seed);
            Ok(Site {
                end: End::modelled(settings, cache, scene.costs, Nanos(0))?,
                link: ModelLink::new(scene.link, scene.seed ^ u64::from(run)),
                link_free: Nanos(0),
                carried: 0,
                is_ready: false,
            })
        };
        Ok(Stage {
            scene,
            now: Nanos(0),
            far: site(Role::Connector, 1)?,
            near: site(Role::Acceptor, 2)?,
            processor_free: Nanos(0),
            flows: Vec::new(),
            turn: 0,
            bytes: 0,
            told: Nanos(0),
        })
    }

    fn open(&mut self, offered: Offered) {
        let (class, sharing) = (offered.class, self.scene.sharing);
        let target = Target { address: "client:0".to_string(), class, sharing };
        let flow =
            self.far.end.open(self.now, &target).expect("few flows, and both ends are there");
        self.flows.push(Served { flow, offered, is_ended: false, is_over: false });
    }

    /// Servers write, one after the other, while the processor is free.
    fn write(&mut self) -> Result<(), SceneError> {
        for _ in 0..self.flows.len() {
            if self.processor_free > self.now {
                return Ok(());
            }
            self.turn = (self.turn + 1) % self.flows.len();
            let served = &mut self.flows[self.turn];
            if served.is_ended {
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
            self.processor_free = Nanos(self.now.0 + spent.0);
        }
        Ok(())
    }

    /// The links take and deliver what they can by now.
    fn exchange(&mut self) {
        let rate = self.scene.link.lane.bytes_per_s.max(1) as f64;
        carry(self.now, rate, &mut self.far, &mut self.near);
        carry(self.now, rate, &mut self.near, &mut self.far);
        while let Some(event) = self.far.end.next_event() {
            self.far.is_ready |= event == FlowEvent::Ready;
        }
        self.take();
        if self.now.saturating_sub(self.told) >= CONDITIONS_EVERY {
            let link = Some(Size(rate as u64));
            let conditions = Conditions { link, processor: 1.0 };
            self.far.end.set_conditions(self.now, conditions);
            self.told = self.now;
        }
    }

    /// Clients take what arrived.
    fn take(&mut self) {
        while let Some(event) = self.near.end.next_event() {
            match event {
                FlowEvent::Bytes { flow, bytes } => {
                    let taken = self.near.end.taken(flow, bytes.len());
                    taken.expect("both ends keep the rules");
                }
                FlowEvent::Opened { flow, .. } => self.near.end.end(self.now, flow),
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
        let mut next =
            [self.far.link.next_event(), self.near.link.next_event()].into_iter().flatten().min();
        for site in [&self.far, &self.near] {
            if site.end.wants_transmit() {
                next = Some(next.map_or(site.link_free, |next| next.min(site.link_free)));
            }
        }
        if self.flows.iter().any(|served| !served.is_ended) && self.processor_free > self.now {
            let free = self.processor_free;
            next = Some(next.map_or(free, |next| next.min(free)));
        }
        // The last thing that was under way may have made room, or ended the last flow.
        let has_room = |served: &Served| !served.is_ended && self.far.end.room(served.flow) > 0;
        let goes_on = self.flows.is_empty() || self.flows.iter().any(has_room);
        let next = next.or(goes_on.then_some(self.now));
        let next = next.expect("a flow is under way, so something is to come");
        self.now = next.max(Nanos(self.now.0 + 1));
    }

    fn outcome(self) -> Outcome {
        Outcome {
            took: self.now,
            spent: self.far.end.spent(),
            carried: Size(self.far.carried),
            bytes: Size(self.bytes),
            classes: self.far.end.reports().collect(),
        }
    }
}

/// One direction: the end gives what the link takes by `now`, and the other end gets what arrived.
fn carry(now: Nanos, bytes_per_s: f64, from: &mut Site, to: &mut Site) {
    while from.link_free <= now {
        let mut out = VecDeque::new();
        let length = from.end.transmit(now, &mut out, BURST_BYTES);
        if length == 0 {
            break;
        }
        from.carried += length as u64;
        from.link_free = Nanos(now.0 + (length as f64 * 1e9 / bytes_per_s) as u64);
        let data: Vec<u8> = out.into_iter().flatten().collect();
        from.link.send(now, Packet { tag: 0, data: Payload::Bytes(data.into()) });
    }
    let mut arrived = Vec::new();
    from.link.poll(now, &mut arrived);
    for packet in arrived {
        to.end.receive(now, &packet.data.to_vec()).expect("both ends keep the rules");
    }
}
