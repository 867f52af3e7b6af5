//! A volume machine on modelled devices, and the clock that they share.
//!
//! 1. What the machine wants from its devices goes to them at once.
//! 2. The next thing that happens is the earliest of: a device completes something, the machine has
//!    something to do by the clock. The clock jumps there.
//! 3. Completions of one moment come before the tick of that moment, pools in their order.
//!
//! Knows nothing of traces and measures nothing but the length of device queues. No allocation in
//! the steady state: all lists are reused.

use super::pools::PoolPlan;
use super::run::{MachineError, MachineOptions};
use thermocline_blockcache::{
    BlockCache, LINE, ORIGIN_LABEL_BYTES, OpenError, PoolDevice, Settings as CacheSettings, Status,
};
use thermocline_ports::model::{Counters, ModelDevice, Profile, ProfileError};
use thermocline_ports::{Completion, Device, Geometry, Io, Ticket};
use thermocline_units::{Bytes, Nanos, PoolId};
use thermocline_volume::{
    CreateError, Finished, Group, PoolCounters, PoolSpec, PoolStatus, Reply, Request, Service,
    Settings, traits_of,
};

/// Names the group on its disks; any number does, there is only one.
const IDENTITY: u64 = 0x7468_6572_6d6f;
/// Ticks that may follow each other at one moment before the machine counts as stuck.
const TICKS_AT_ONCE_MAX: u32 = 100_000;
/// Pools grow this often until they hold what they should: metadata takes some of each.
const FITTINGS_MAX: u32 = 8;

/// A device and its queue.
struct Bay {
    device: PoolDevice<ModelDevice>,
    queued: u32,
    queued_max: u32,
}

/// A volume machine on modelled devices, and virtual time.
pub(super) struct Stage {
    pub(super) group: Group,
    bays: Vec<Bay>,
    now: Nanos,
    ticks_at_once: u32,
    io: Vec<(PoolId, Ticket, Io)>,
    done: Vec<Completion>,
    pub(super) replies: Vec<Reply>,
    pub(super) finished: Vec<Finished>,
}

/// Use of a device, and the length of its queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceUse {
    pub(super) counters: Counters,
    pub(super) queued_max: u32,
    /// Status of the block cache in front of it, and counters of its fast device.
    pub(super) cache: Option<(Status, Counters)>,
}

impl Stage {
    /// A new machine in service, its pools large enough for `chunks` of them each.
    pub(super) fn new(
        options: &MachineOptions,
        pools: &[PoolPlan],
        chunks: &[u64],
    ) -> Result<Stage, MachineError> {
        let (mut group, geometries) = fit(&options.settings(), pools, chunks)?;
        let (mut bays, mut now) = (Vec::new(), Nanos(0));
        for (index, (plan, geometry)) in pools.iter().zip(&geometries).enumerate() {
            group.set_traits(PoolId(index as u16), Some(traits_of(&plan.profile)));
            let device = device(options, plan, geometry.size, index as u64, &mut now)?;
            bays.push(Bay { device, queued: 0, queued_max: 0 });
        }
        let mut stage = Stage {
            group,
            bays,
            now,
            ticks_at_once: 0,
            io: Vec::new(),
            done: Vec::new(),
            replies: Vec::new(),
            finished: Vec::new(),
        };
        stage.hand_over();
        while *stage.group.service() == Service::Opening && stage.step(Nanos(u64::MAX)) {}
        match stage.group.service() {
            Service::Ready => Ok(stage),
            service => Err(MachineError::NotReady(format!("{service:?}"))),
        }
    }

    /// Virtual time.
    #[inline]
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Time at which something happens by itself; `None`: never.
    #[inline]
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let device = self.bays.iter().filter_map(|bay| bay.device.next_event()).min();
        let next = match (device, self.group.next_tick()) {
            (Some(device), Some(tick)) => Some(device.min(tick)),
            (device, tick) => device.or(tick),
        };
        next.map(|at| at.max(self.now))
    }

    /// Lets the next thing happen, if it happens by `until`; whether it did.
    pub(super) fn step(&mut self, until: Nanos) -> bool {
        let next = self.next_event().filter(|&at| at <= until);
        next.inspect(|&at| self.happen(at)).is_some()
    }

    /// Lets happen what happens at `at`, the time of the next event.
    ///
    /// # Panics
    /// When the machine ticks without end at one moment: its bug.
    #[inline]
    pub(super) fn happen(&mut self, at: Nanos) {
        if at > self.now {
            (self.now, self.ticks_at_once) = (at, 0);
        }
        if !self.deliver() {
            self.ticks_at_once += 1;
            assert!(
                self.ticks_at_once < TICKS_AT_ONCE_MAX,
                "the machine ticks without end at {at}"
            );
            self.group.tick(at);
        }
        self.hand_over();
    }

    /// Moves the clock to `at`, before which nothing happens.
    #[inline]
    pub(super) fn wait(&mut self, at: Nanos) {
        debug_assert!(self.next_event().is_none_or(|next| next >= at), "something happens before");
        self.now = self.now.max(at);
    }

    /// Lets everything happen that happens by `until`, and moves the clock there.
    pub(super) fn pass_until(&mut self, until: Nanos) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Hands a request to the machine; it comes back when the machine has as many as it takes.
    pub(super) fn submit(&mut self, request: Request) -> Result<(), Request> {
        self.group.submit(self.now, request)?;
        self.hand_over();
        Ok(())
    }

    /// Hands completions to the machine; whether there were any.
    fn deliver(&mut self) -> bool {
        let mut any = false;
        for (index, bay) in self.bays.iter_mut().enumerate() {
            if bay.device.next_event().is_none_or(|at| at > self.now) {
                continue;
            }
            bay.device.poll(self.now, &mut self.done);
            // A disk may have found that it has yet to move its head.
            any = true;
            for completion in self.done.drain(..) {
                bay.queued -= 1;
                self.group.complete(self.now, PoolId(index as u16), completion);
            }
        }
        any
    }

    /// Gives the devices what the machine wants from them.
    pub(super) fn hand_over(&mut self) {
        self.group.take_io(&mut self.io);
        for (pool, ticket, io) in self.io.drain(..) {
            let bay = &mut self.bays[usize::from(pool.0)];
            bay.queued += 1;
            bay.queued_max = bay.queued_max.max(bay.queued);
            bay.device.submit(self.now, ticket, io);
        }
        self.group.take_replies(&mut self.replies);
        self.group.take_finished(&mut self.finished);
    }

    /// Forgets how long queues were.
    pub(super) fn restart_queues(&mut self) {
        self.bays.iter_mut().for_each(|bay| bay.queued_max = bay.queued);
    }

    /// Number of pools.
    pub(super) fn pool_count(&self) -> usize {
        self.bays.len()
    }

    /// The state of each pool.
    pub(super) fn pools(&self) -> impl Iterator<Item = PoolStatus> + '_ {
        let status = |pool: usize| self.group.pool_status(PoolId(pool as u16));
        (0..self.bays.len()).map(move |pool| status(pool).expect("pools stay"))
    }

    /// Counters of the machine on each pool.
    pub(super) fn pool_counters(&self) -> Vec<PoolCounters> {
        self.pools().map(|pool| pool.counters).collect()
    }

    /// Use of each device.
    pub(super) fn devices(&self) -> Vec<DeviceUse> {
        let of = |Bay { device, queued_max, .. }: &Bay| DeviceUse {
            counters: *device.main().counters(),
            queued_max: *queued_max,
            cache: device.cache_status().zip(device.fast().map(|fast| *fast.counters())),
        };
        self.bays.iter().map(of).collect()
    }
}

/// A pool's device of `size` for the machine, behind a new cache where the plan has one; `now` goes
/// on to when that is ready.
fn device(
    options: &MachineOptions,
    plan: &PoolPlan,
    size: Bytes,
    seed: u64,
    now: &mut Nanos,
) -> Result<PoolDevice<ModelDevice>, MachineError> {
    let seed = options.seed ^ seed;
    let model = |profile: &Profile, size: Bytes, seed: u64| {
        let sized = profile.with_size(size);
        let unfit = |error: ProfileError| MachineError::Device(plan.name.clone(), error.problem);
        sized.map(|profile| ModelDevice::new(&profile, seed)).map_err(unfit)
    };
    let Some(cache) = &plan.cache else {
        return Ok(PoolDevice::Bare(model(&plan.profile, size, seed)?));
    };
    let origin = model(&plan.profile, Bytes(size.0 + ORIGIN_LABEL_BYTES), seed)?;
    let room = cache.size.bytes(size).0.next_multiple_of(u64::from(LINE));
    let fast = model(&cache.profile, Bytes(room), !seed)?;
    let unfit = |error: OpenError| MachineError::Cache(plan.name.clone(), error.to_string());
    let settings = CacheSettings { policy: cache.policy, ..CacheSettings::default() };
    let made = BlockCache::format(*now, fast, origin, IDENTITY, settings).map_err(unfit)?;
    let mut device = Box::new(made);
    while !device.is_open().map_err(unfit)? {
        *now = device.next_event().expect("a step is under way").max(*now);
        device.poll(*now, &mut Vec::new());
    }
    Ok(PoolDevice::Cached(device))
}

/// Bytes of a pool, at most: what the largest modelled device has. Known before a group is laid
/// out, which takes no more chunks than have numbers.
const POOL_MAX: Bytes = Bytes(1 << 50);

/// The group on devices on which each pool holds exactly as many chunks as it should; more where
/// the place of the metadata does not settle.
fn fit(
    settings: &Settings,
    pools: &[PoolPlan],
    chunks: &[u64],
) -> Result<(Group, Vec<Geometry>), MachineError> {
    let chunk = settings.chunk_size.0;
    for (plan, &chunks) in pools.iter().zip(chunks) {
        let size = Bytes(chunks.saturating_mul(chunk));
        if size > POOL_MAX {
            let problem = format!("a size of {size}; at most {POOL_MAX}");
            return Err(MachineError::Device(plan.name.clone(), problem));
        }
    }
    let spec = |(plan, &chunks): (&PoolPlan, &u64)| PoolSpec {
        name: plan.name.clone(),
        geometry: Geometry {
            size: Bytes(chunks * chunk),
            discard_zeroes: plan.profile.discard_zeroes,
            far: plan.profile.is_far(),
        },
        zeroed: true,
        reserve_chunks: plan.reserve.0.div_ceil(chunk) as u32,
    };
    let mut specs: Vec<PoolSpec> = pools.iter().zip(chunks).map(spec).collect();
    for fitting in 1.. {
        match Group::create(settings.clone(), &specs, IDENTITY) {
            Ok(group) => {
                let held = |pool: usize| group.pool_status(PoolId(pool as u16)).expect("just made");
                let surplus = |(pool, &chunks): (usize, &u64)| {
                    i64::from(held(pool).slots_total) - chunks as i64
                };
                let surplus: Vec<i64> = chunks.iter().enumerate().map(surplus).collect();
                let fits = |&extra: &i64| extra == 0 || extra > 0 && fitting > FITTINGS_MAX;
                if surplus.iter().all(fits) {
                    let geometries = specs.iter().map(|spec| spec.geometry).collect();
                    return Ok((group, geometries));
                }
                for (spec, extra) in specs.iter_mut().zip(surplus) {
                    let extra = if fitting < FITTINGS_MAX { extra } else { extra.min(0) };
                    let size = spec.geometry.size.0 as i64 - extra * chunk as i64;
                    spec.geometry.size = Bytes(size as u64);
                }
            }
            Err(CreateError::TooSmall(_, metadata) | CreateError::NoReplica(metadata))
                if fitting <= FITTINGS_MAX =>
            {
                let more = metadata.0.div_ceil(chunk) * chunk;
                specs.iter_mut().for_each(|spec| spec.geometry.size.0 += more);
            }
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("pools that only grow hold what they should in the end")
}
