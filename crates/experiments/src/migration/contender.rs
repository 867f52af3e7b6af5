//! One placement on its own disks, under the requests that all contenders share.
//!
//! 1. At a slot's start the placement has observed the last one, and proposes moves through the
//!    joint that the engine uses.
//! 2. The machine leaves out moves of units that are moving and moves to full disks, and copies the
//!    others at `pace` of the rate that the busier of both disks had left in the slot observed.
//! 3. Answers are tallied by application; those to units that move are tallied again.
//!
//! An application is a volume, a unit a chunk, a disk a pool. Decides nothing itself.

use super::config::{Class, Config, Size, Tier};
use super::disks::{Answer, Copier, Disks, Order};
use super::measures::{Measures, Tally};
use super::workload::Request;
use crate::ExperimentError;
use thermocline_policy::placement::{
    Budget, ChunkAccess, Move, Placement, PoolLoad, PoolTraits, Service, Sla, SlaClass, VolumeView,
};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// A contender.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// The placement, as on the command line.
    pub(super) policy: String,
    /// Copying outranks the requests to the unit that moves.
    pub(super) outranks: bool,
}

/// Applications, units and disks of one load.
#[derive(Debug, Clone)]
pub(super) struct Site<'a> {
    pub(super) config: &'a Config,
    /// Classes by application.
    pub(super) classes: Vec<Class>,
}

impl<'a> Site<'a> {
    pub(super) fn new(config: &'a Config, size: &Size) -> Site<'a> {
        let of = |class, count: u32| (0..count).map(move |_| class);
        let classes = of(Class::Strict, size.strict).chain(of(Class::Loose, size.loose)).collect();
        Site { config, classes }
    }

    fn application(&self, unit: u32) -> usize {
        (unit / self.config.units_per_application) as usize
    }

    fn class(&self, unit: u32) -> Class {
        self.classes[self.application(unit)]
    }

    /// Classes of all units.
    pub(super) fn units(&self) -> impl Iterator<Item = Class> {
        let per_application = self.config.units_per_application as usize;
        self.classes.iter().flat_map(move |class| std::iter::repeat_n(*class, per_application))
    }

    fn tier(&self, pool: PoolId) -> &Tier {
        let Config { fast, slow, .. } = self.config;
        if pool.0 < fast.disks { fast } else { slow }
    }

    fn pools(&self) -> u16 {
        self.config.fast.disks + self.config.slow.disks
    }

    fn is_fast(&self, disk: u16) -> bool {
        disk < self.config.fast.disks
    }

    /// Strict units in turn over the fast disks, loose ones over the slow.
    fn homes(&self) -> Vec<u16> {
        let (mut strict, mut loose) = (0, 0);
        let Config { fast, slow, .. } = self.config;
        let mut home = |class| match class {
            Class::Strict => {
                strict += 1;
                (strict - 1) % fast.disks
            }
            Class::Loose => {
                loose += 1;
                fast.disks + (loose - 1) % slow.disks
            }
        };
        self.units().map(&mut home).collect()
    }

    fn chunk(&self, unit: u32) -> ChunkId {
        let index = unit % self.config.units_per_application;
        ChunkId { volume: VolumeId(self.application(unit) as u32), index }
    }

    fn unit(&self, chunk: ChunkId) -> u32 {
        chunk.volume.0 * self.config.units_per_application + chunk.index
    }
}

/// One placement on its own disks.
pub(super) struct Contender<'a> {
    site: &'a Site<'a>,
    placement: Box<dyn Placement>,
    disks: Disks,
    tally: Tally,
}

/// A placement's view.
struct Stand<'a> {
    site: &'a Site<'a>,
    disks: &'a Disks,
}

impl<'a> Contender<'a> {
    pub(super) fn new(site: &'a Site<'a>, plan: &Plan) -> Result<Contender<'a>, ExperimentError> {
        let config = site.config;
        let spec = PolicySpec::parse(&plan.policy)?;
        let placement = spec.build_placement()?;
        let unit_kib = config.squeezed_unit().0 as f64 / 1024.0;
        let pieces = (unit_kib * config.copy.beta / config.copy.piece).ceil() as u32;
        let copier = Copier { pieces, piece_kib: config.copy.piece, outranks: plan.outranks };
        let rate = |pool| site.tier(PoolId(pool)).kib_per_ms;
        let rates: Vec<f64> = (0..site.pools()).map(rate).collect();
        let strict = site.units().map(|class| class == Class::Strict).collect();
        let disks = Disks::new(&rates, site.homes(), strict, copier);
        let tally = Tally::new(&site.classes, config.sla);
        Ok(Contender { site, placement, disks, tally })
    }

    /// Decides at `now`, ms, from the requests of one slot; `bursty` says which units burst in it.
    pub(super) fn decide(&mut self, seen: &[Request], bursty: &[bool], now: f64) {
        let asked = self.observe(seen);
        let stand = Stand { site: self.site, disks: &self.disks };
        let mut moves = Vec::new();
        self.placement.propose(nanos(now), &stand, Budget::UNLIMITED, &mut moves);
        let spare = self.spare(&asked);
        let orders = self.validate(&moves, &spare);
        self.disks.order(orders.iter().copied(), now);
        for (unit, _) in (0..).zip(bursty).filter(|(_, bursty)| **bursty) {
            if self.site.class(unit) == Class::Loose {
                let ordered = orders.iter().find(|order| order.unit == unit).map(|order| order.to);
                let at = ordered.or_else(|| self.disks.destination(unit));
                let at = at.unwrap_or(self.disks.homes()[unit as usize]);
                self.tally.judge_burst(self.site.is_fast(at));
            }
        }
    }

    /// Shows the placement the requests; KiB that each unit was asked for.
    fn observe(&mut self, seen: &[Request]) -> Vec<f64> {
        let mut asked = vec![0.0; self.disks.homes().len()];
        let unit_bytes = self.site.config.squeezed_unit().0;
        for request in seen {
            asked[request.unit as usize] += f64::from(request.kib);
            let bytes = ((f64::from(request.kib) * 1024.0) as u64).clamp(512, unit_bytes);
            let offset =
                (f64::from(request.place) * (unit_bytes - bytes) as f64) as u64 / 512 * 512;
            self.placement.observe(&ChunkAccess {
                at: nanos(request.at),
                chunk: self.site.chunk(request.unit),
                offset: Bytes(offset),
                bytes: Bytes(bytes),
                write: false,
            });
        }
        asked
    }

    /// KiB a ms that each disk had left, a hundredth of its rate at least.
    fn spare(&self, asked: &[f64]) -> Vec<f64> {
        let slot_ms = self.site.config.squeezed_slot().as_secs_f64() * 1e3;
        let rate = |pool| self.site.tier(PoolId(pool)).kib_per_ms;
        let rates: Vec<f64> = (0..self.site.pools()).map(rate).collect();
        let mut spare = rates.clone();
        for (home, kib) in self.disks.homes().iter().zip(asked) {
            spare[usize::from(*home)] -= kib / slot_ms;
        }
        spare.iter().zip(&rates).map(|(spare, rate)| spare.max(rate / 100.0)).collect()
    }

    /// The moves that can be carried out, with their pace.
    fn validate(&self, moves: &[Move], spare: &[f64]) -> Vec<Order> {
        let stand = Stand { site: self.site, disks: &self.disks };
        let room = |pool| {
            let pool = PoolId(pool);
            stand.capacity_chunks(pool) as i64 - stand.used_chunks(pool) as i64
        };
        let mut rooms: Vec<i64> = (0..self.site.pools()).map(room).collect();
        let mut orders: Vec<Order> = Vec::new();
        for step in moves {
            let unit = self.site.unit(step.chunk);
            let (from, to) =
                (usize::from(self.disks.homes()[unit as usize]), usize::from(step.to.0));
            let moving = self.disks.destination(unit).is_some();
            if moving || from == to || rooms[to] < 1 {
                continue;
            }
            (rooms[from], rooms[to]) = (rooms[from] + 1, rooms[to] - 1);
            let kib_per_ms = spare[from].min(spare[to]) * self.site.config.copy.pace;
            orders.push(Order { unit, to: step.to.0, kib_per_ms });
        }
        orders
    }

    /// Serves the requests, until `end`.
    pub(super) fn serve(&mut self, requests: &[Request], end: f64) {
        let Contender { site, disks, tally, .. } = self;
        let mut note = |answer: Answer| tally.note(site.application(answer.unit), &answer);
        disks.serve(requests, end, &mut note);
    }

    /// Measures of `length` ms.
    pub(super) fn measures(&self, length: f64) -> Measures {
        self.tally.measures(self.disks.busy_ms().map(|busy| busy / length).collect())
    }
}

fn nanos(ms: f64) -> Nanos {
    Nanos((ms * 1e6) as u64)
}

impl VolumeView for Stand<'_> {
    fn chunk_size(&self) -> Bytes {
        self.site.config.squeezed_unit()
    }

    fn epoch(&self) -> Nanos {
        self.site.config.squeezed_slot()
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        // A request takes its size divided by the rate, whatever its pattern (Table 4).
        let per_second = (self.site.tier(pool).kib_per_ms * 1000.0 / 4.0).round() as u64;
        let latency = Nanos(1_000_000_000 / per_second.max(1));
        let service = Service { latency, per_second: per_second.max(1) };
        PoolTraits {
            services: [service; 4],
            price_per_gib: None,
            milliwatts: None,
            overwrites: None,
        }
    }

    fn load(&self, _: PoolId) -> PoolLoad {
        PoolLoad::default()
    }

    fn volume_count(&self) -> u32 {
        self.site.classes.len() as u32
    }

    fn sla(&self, volume: VolumeId) -> Option<Sla> {
        let class = *self.site.classes.get(volume.0 as usize)?;
        let latency = self.site.config.sla.of(class);
        let class = match class {
            Class::Strict => SlaClass::Strict,
            Class::Loose => SlaClass::Loose,
        };
        Some(Sla { latency, class })
    }

    fn pool_count(&self) -> u16 {
        self.site.pools()
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        self.site.tier(pool).units
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        PoolId(self.disks.homes()[self.site.unit(chunk) as usize])
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        let units = 0..self.disks.homes().len() as u32;
        let at = |unit: &u32| {
            self.disks.homes()[*unit as usize] == pool.0
                || self.disks.destination(*unit) == Some(pool.0)
        };
        units.filter(at).count() as u64
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        for (unit, home) in (0..).zip(self.disks.homes()) {
            if *home == pool.0 {
                visit(self.site.chunk(unit));
            }
        }
    }
}
