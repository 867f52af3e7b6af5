//! Requests of an administrator to a running engine. Everything here runs on the loop's thread and
//! answers at once; what takes time is begun, and told of by jobs, states and events. By subject:
//! volumes ([`mod@volumes`]), pools ([`mod@pools`]), what moves ([`mod@moves`]), what rivals would
//! have moved ([`mod@shadows`]).

pub(super) mod forecasts;
mod hints;
mod moves;
mod pools;
mod room;
mod scrubs;
mod shadows;
mod volumes;

pub use pools::Reach;

use super::Engine;
use super::clients::{Flushed, ReadBack};
use crate::api::{
    Journal, Lines, MovesDropped, NewPolicy, Parts, Policy, PolicyAccount, Second, Status,
};
use crate::learnt::{self, Learnt};
use crate::metrics::Figures;
use std::collections::BTreeMap;
use std::path::Path;
use thermocline_admin::api::{Event, Refused, Severity, Tactic};
use thermocline_policy::placement::Placement;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes, Nanos, PoolId, VolumeId};
use thermocline_volume::settings::BLOCK;
use thermocline_volume::{
    AdminError, CreateError, Group, LinesStatus, Observer, PartsStatus, Service,
};

/// The policy that moves nothing.
const NOBODY: &str = "none";

/// The administrator's access to a running engine.
pub struct AdminApi<'a> {
    engine: &'a mut Engine,
}

/// The refusal of what the volume group refuses.
fn refused(error: AdminError) -> Refused {
    match error {
        AdminError::NotReady => Refused::unavailable(error),
        AdminError::NoVolume(_) | AdminError::NoPool(_) => Refused::missing(error),
        AdminError::PoolState { .. }
        | AdminError::NotActive { .. }
        | AdminError::NotDraining { .. }
        | AdminError::CannotGrow { .. }
        | AdminError::Growing(_)
        | AdminError::LastPool(_)
        | AdminError::NameTaken(_)
        | AdminError::Pool(CreateError::NameTaken(_)) => Refused::conflict(error),
        _ => Refused::invalid(error),
    }
}

/// A placement of the registry, that knows nothing yet.
fn placement(spec: &str) -> Result<(PolicySpec, Box<dyn Placement>), Refused> {
    let spec = PolicySpec::parse(spec).map_err(Refused::invalid)?;
    let placement = spec.build_placement().map_err(Refused::invalid)?;
    Ok((spec, placement))
}

/// A placement and what it was asked for as; `None`: nobody decides.
type Chosen = Option<(PolicySpec, Box<dyn Placement>)>;

/// The placement that a wish names, or nobody.
fn chosen(spec: &str) -> Result<Chosen, Refused> {
    if spec == NOBODY { Ok(None) } else { placement(spec).map(Some) }
}

impl<'a> AdminApi<'a> {
    pub(super) fn new(engine: &'a mut Engine) -> AdminApi<'a> {
        AdminApi { engine }
    }

    /// Makes everything durable that was done so far, and then says whether that succeeded.
    pub(crate) fn flush(&mut self, flushed: Flushed) {
        self.engine.flush(flushed);
    }

    /// Reads sectors of a volume in the background; see [`Engine::read_back`].
    pub(crate) fn read_back(&mut self, volume: VolumeId, at: Bytes, length: u32, read: ReadBack) {
        self.engine.read_back(volume, at, length, read);
    }

    /// The engine at a glance.
    pub fn status(&self) -> Status {
        let Engine { group, counts, .. } = &*self.engine;
        let service = match group.service() {
            Service::Opening => "opening",
            Service::Ready => "ready",
            Service::Closing => "closing",
            Service::Closed => "closed",
            Service::Failed(_) => "failed",
        };
        let journal = group.journal();
        let tactics = &group.settings().tactics;
        let pools = self.pools();
        let dropped = group.moves_dropped();
        let read: u64 = pools.iter().map(|pool| pool.counters.read_bytes).sum();
        let fastest = pools.iter().find(|pool| !pool.is_removed());
        let fastest = fastest.map_or(0, |pool| pool.counters.read_bytes);
        Status {
            version: env!("CARGO_PKG_VERSION").to_string(),
            identity: format!("{:016x}", group.identity()),
            service: service.to_string(),
            uptime_seconds: self.engine.now().as_secs_f64(),
            chunk_bytes: group.chunk_size().0,
            epoch_seconds: group.settings().epoch.as_secs_f64(),
            policy: self.policy(),
            shadows: self.shadows(),
            volumes: self.volumes(),
            pools,
            tactics: Tactic::in_force(tactics.in_force(), &tactics.disagreements()),
            operations_pending: group.operations_pending() as u64,
            copy_rate_bytes: group.copy_rate().map(|rate| rate.0),
            moves: self.engine.moves_told(),
            moves_dropped: MovesDropped {
                expired: dropped.expired,
                slower: dropped.slower,
                worn: dropped.worn,
            },
            moves_fed_bytes: group.moves_fed().0,
            lines: lines(&group.lines()),
            parts: parts(group.parts()),
            scrub: self.scrub(),
            journal: Journal {
                blocks: journal.blocks,
                used: journal.used,
                written: journal.written,
            },
            connections: self.engine.connections.len() as u64,
            clients: self.engine.clients(),
            in_flight: self.engine.origins.len() as u64,
            map_bytes: group.map_memory().0,
            requests: counts.requests().map(|(kind, l)| (kind.to_string(), l.into())).collect(),
            fastest_pool_share: (read > 0).then(|| fastest as f64 / read as f64),
        }
    }

    /// A copy of everything that is measured.
    pub(crate) fn figures(&self) -> Figures {
        let group = &self.engine.group;
        let pools = group.pools_by_rank().iter().map(|&id| {
            let latencies = group.pool_latencies(id).expect("ids below the count exist");
            [latencies.reads.clone(), latencies.writes.clone()]
        });
        Figures {
            status: self.status(),
            pools: pools.collect(),
            requests: self.engine.counts.requests().map(|(kind, l)| (kind, l.clone())).collect(),
            hints: self.hint_waits(),
            pins: self.pool_pins(),
        }
    }

    /// Policy that decides about moves.
    pub fn policy(&self) -> Policy {
        let Some(spec) = &self.engine.policy else {
            return Policy { spec: NOBODY.to_string(), settings: BTreeMap::new(), account: None };
        };
        let settings =
            spec.settings.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let group = &self.engine.group;
        let account = group.placement_account();
        Policy {
            spec: spec.label.clone(),
            settings: settings.collect(),
            account: account.map(|account| PolicyAccount::of(&account, group.chunk_size())),
        }
    }

    /// The placement that a wish names, or nobody, if it does not contradict the group's settings.
    fn fitting(&self, spec: &str) -> Result<Chosen, Refused> {
        let chosen = chosen(spec)?;
        let percent = self.engine.group.settings().lent_percent;
        let divides = chosen.as_ref().is_some_and(|(_, placement)| placement.lines().is_some());
        if percent > 0 && divides {
            return Err(Refused::invalid(format!(
                "the policy `{spec}` says how much of the fastest pool holds lines, and so does \
                 `lines = \"{percent}%\"` in the configuration; remove that, or give the policy \
                 the setting `lines=0`"
            )));
        }
        Ok(chosen)
    }

    /// Gives the decision to another policy, or to nobody. Without an epoch in the wish, one that
    /// wants its own (`auto`) gets that: at epochs of minutes it learns too slowly to be of use.
    ///
    /// # Errors
    /// When there is no such placement, or a setting or the epoch is wrong.
    pub(crate) fn set_policy(&mut self, wish: &NewPolicy) -> Result<Policy, Refused> {
        let chosen = self.fitting(&wish.spec)?;
        let given = match wish.epoch_seconds {
            Some(seconds) if !(0.1..=1e6).contains(&seconds) => {
                return Err(Refused::invalid("an epoch lasts from 0.1 to 1,000,000 seconds"));
            }
            seconds => seconds.map(|seconds| Nanos((seconds * 1e9) as u64)),
        };
        let own = || chosen.as_ref()?.1.epoch();
        if let Some(epoch) = given.or_else(own) {
            let now = self.engine.now();
            self.engine.group.set_epoch(now, epoch);
        }
        self.give_to(chosen);
        Ok(self.policy())
    }

    /// The same at the start: the epoch is that of the group's settings.
    ///
    /// # Errors
    /// When there is no such placement, or a setting is wrong.
    pub fn begin_policy(&mut self, spec: &str) -> Result<(), Refused> {
        let chosen = self.fitting(spec)?;
        self.give_to(chosen);
        Ok(())
    }

    /// The file of what the policy has learnt; `None`: it learns nothing.
    pub fn learnt(&self) -> Option<Vec<u8>> {
        let group = &self.engine.group;
        let (policy, bytes) = group.learnt()?;
        let (identity, chunk_size) = (group.identity(), group.chunk_size());
        let pools = Some(group.pools_there().iter().map(|id| id.0).collect());
        Some(Learnt { identity, chunk_size, policy: policy.to_string(), pools, bytes }.encode())
    }

    /// Lets the policy go on from what is in the file at `path`, if that is of this policy and
    /// group. Whatever keeps it from that is told as an event.
    pub fn recall(&mut self, path: &Path) {
        let wrong = |error: String| {
            // Another version may read it; the next write would go over it.
            let kept = if learnt::set_aside(path) { ", it is kept as learnt.unread" } else { "" };
            format!("{}: {error}{kept}; the policy learns anew", path.display())
        };
        let file = match learnt::read(path) {
            Ok(None) => return,
            Ok(Some(file)) => Learnt::decode(&file).map_err(wrong),
            Err(error) => Err(wrong(error.to_string())),
        };
        let group = &mut self.engine.group;
        let outcome = file.and_then(|file| {
            let own = file.identity == group.identity()
                && file.chunk_size == group.chunk_size()
                && file.policy == group.placement_name();
            if !own {
                return Ok(false);
            }
            let known = file.pools.map(|ids| ids.into_iter().map(PoolId).collect::<Vec<_>>());
            // The ranks of before were those of all pools that there ever were.
            let known = known.unwrap_or_else(|| group.pools_by_rank().to_vec());
            let taken = group.learn_from(&file.bytes, &known).map(|()| true);
            taken.map_err(|error| wrong(error.to_string()))
        });
        match outcome {
            Ok(true) => {
                let text = format!("{} goes on from what it had learnt", self.policy().spec);
                self.engine.event(Severity::Info, "policy", text);
            }
            Ok(false) => {}
            Err(text) => self.engine.event(Severity::Warning, "policy", text),
        }
    }

    /// Tells that what was learnt cannot be kept.
    pub(crate) fn note_forgetting(&mut self, text: String) {
        self.engine.event(Severity::Warning, "policy", text);
    }

    fn give_to(&mut self, chosen: Chosen) {
        let name = chosen.as_ref().map_or(NOBODY, |(spec, _)| &spec.label);
        let text = format!("{name} decides about moves from now on");
        match chosen {
            Some((spec, placement)) => self.decide_by(spec, placement),
            None => {
                self.engine.group.set_placement(None);
                self.engine.policy = None;
            }
        }
        self.engine.event(Severity::Info, "policy", text);
    }

    fn decide_by(&mut self, spec: PolicySpec, placement: Box<dyn Placement>) {
        self.engine.group.set_named_placement(&spec.spelled_out(), placement);
        self.engine.policy = Some(spec);
    }

    /// Lets somebody hear what clients ask and what the policy sees and decides, in place of
    /// whoever did. A recording from which proposals can be had again begins before its policy is
    /// set.
    pub fn set_observer(&mut self, make: impl FnOnce(&Group) -> Box<dyn Observer>) {
        let observer = make(&self.engine.group);
        self.engine.group.set_observer(Some(observer));
    }

    /// Lets a recorder of a sample hear the same, until [`AdminApi::end_sample`].
    ///
    /// # Errors
    /// When somebody hears it already.
    pub(crate) fn begin_sample(
        &mut self,
        make: impl FnOnce(&Group) -> Box<dyn Observer>,
    ) -> Result<(), Refused> {
        if self.engine.group.is_observed() {
            let text = "the engine is recorded or sampled already; use that recording, or wait";
            return Err(Refused::conflict(text));
        }
        self.set_observer(make);
        Ok(())
    }

    /// Ends a sample.
    pub(crate) fn end_sample(&mut self) {
        self.engine.group.set_observer(None);
    }

    /// Tells everybody who follows events that something has happened.
    pub fn note(&mut self, severity: Severity, subject: &str, text: String) {
        self.engine.event(severity, subject, text);
    }

    /// The last minutes, second by second, from a number on.
    pub fn history(&self, from: u64) -> Vec<Second> {
        self.engine.counts.seconds.from(from)
    }

    /// The last thousand events, from a number on.
    pub fn events(&self, from: u64) -> Vec<Event> {
        self.engine.counts.events.from(from)
    }
}

/// State of lines, as the API shows it.
fn lines(status: &LinesStatus) -> Lines {
    Lines {
        pool: status.pool.map(|pool| pool.0),
        slots_wanted: status.wanted.into(),
        slots_lent: status.lent.into(),
        lines: status.lines,
        memory_bytes: status.memory.0,
        hits: status.hits,
        misses: status.misses,
        filled_bytes: status.fills * u64::from(BLOCK),
        wrong: status.wrong,
    }
}

fn parts(status: PartsStatus) -> Parts {
    let share = |millionths: u32| f64::from(millionths) / 1e6;
    Parts {
        chunks: status.chunks as u64,
        most: status.most as u64,
        diverted_reads: status.route.map(|route| share(route.reads)),
        diverted_writes: status.route.map(|route| share(route.writes)),
    }
}
