//! G1-vFRM: half of flash reserved in equal parts, half contested.
//!
//! At an epoch's end, with *popularity* a chunk's temperature (decision 0012) and a VM one volume:
//!
//! 1. A VM that accessed fewer chunks than its private share holds takes them all in; its least
//!    popular private chunks leave as far as there is no room, and become *evicted*.
//! 2. A VM that accessed as many or more keeps the most popular of them; private chunks it did not
//!    access become *evicted*, accessed chunks that found no room *extra*.
//! 3. The public zone takes the extra chunks of all VMs by popularity; where these do not fill it,
//!    the evicted ones by popularity; where even both do not, it makes room by dropping its least
//!    popular.
//! 4. Flash holds both zones; only the difference moves.
//!
//! Source: Tai 2015 §4.3.2, Algorithm 1 (Tai et al. 2017 §4.5 calls it GLB-vFRM). Differs: line 14
//! evicts only what needs room, lines 31–36 are set unions, a chunk that becomes private leaves the
//! public zone (decision 0014). `form=printed` undoes these. A burst enters the public zone
//! unconditionally, as in the source.
//!
//! State: 30 B a chunk at 8 epochs. O(1) an access, O(chunks) an epoch.

use super::heat::{self, HeatMap, HeatSettings};
use super::rank::{Candidate, hottest};
use super::zones::{self, Form, Zone, Zones};
use super::{Budget, ChunkAccess, FLASH, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Settings, SettingsError};
use thermocline_units::Nanos;

pub(crate) const ENTRY: Entry = Entry {
    name: "g1-vfrm",
    summary: "equal private flash for each VM, the rest shared by popularity",
    source: "G1-vFRM, Tai 2015 §4.3.2 Algorithm 1; GLB-vFRM, Tai et al. 2017 §4.5",
    settings: &[
        zones::PRIVATE,
        zones::FORM,
        heat::HISTORY,
        heat::LAMBDA,
        heat::COOLING,
        heat::HALF_LIFE,
    ],
    build: Build::Placement(|settings| Ok(Box::new(G1Vfrm::new(settings)?))),
};

/// Two zones, the private one in equal parts.
#[derive(Debug)]
pub(crate) struct G1Vfrm {
    heat: HeatMap,
    zones: Zones,
    private: f64,
    form: Form,
}

/// Places in each zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    /// Private places of one VM.
    share: usize,
    public: usize,
}

/// Chunks that the private zone hands to the public one.
#[derive(Debug, Default)]
struct Overflow {
    extra: Vec<Candidate>,
    evicted: Vec<Candidate>,
}

/// A VM's chunks, each in one list.
#[derive(Debug, Default)]
struct Demand {
    /// Accessed, and private already.
    kept: Vec<Candidate>,
    /// Accessed, not private: Algorithm 1's `popDiff`.
    new: Vec<Candidate>,
    /// Private, not accessed: `prvDiff`.
    idle: Vec<Candidate>,
}

impl G1Vfrm {
    fn new(settings: &Settings) -> Result<G1Vfrm, SettingsError> {
        Ok(G1Vfrm {
            heat: HeatMap::new(HeatSettings::read(settings)?),
            zones: Zones::default(),
            private: settings.number("private", 0.0, 1.0)?,
            form: Form::read(settings)?,
        })
    }

    /// Equal whole shares; what does not divide evenly is public (decision 0016).
    fn sizes(&self, view: &dyn VolumeView) -> Sizes {
        let capacity = view.capacity_chunks(FLASH);
        let vms = u64::from(view.volume_count()).max(1);
        let share = (capacity as f64 * self.private) as u64 / vms;
        Sizes { share: share as usize, public: (capacity - share * vms) as usize }
    }

    /// Every chunk that is accessed, in a zone, or on flash; and the demand of each VM.
    fn candidates(&self, volumes: u32) -> (Vec<Candidate>, Vec<Demand>) {
        let mut touched = Vec::new();
        let mut demands: Vec<Demand> = Vec::new();
        demands.resize_with(volumes as usize, Demand::default);
        for number in 0..self.heat.chunks.len() {
            let accessed = self.heat.last(number) > 0;
            if !accessed && !self.zones.any(number) && !self.heat.is_on_flash(number) {
                continue;
            }
            let candidate = Candidate::by_temperature(&self.heat, number);
            touched.push(candidate);
            let vm = self.heat.chunks.id(number).volume.0 as usize;
            assert!(vm < demands.len(), "a volume's number is below the view's volume count");
            match (accessed, self.zones.has(number, Zone::Private)) {
                (true, true) => demands[vm].kept.push(candidate),
                (true, false) => demands[vm].new.push(candidate),
                (false, true) => demands[vm].idle.push(candidate),
                (false, false) => {}
            }
        }
        (touched, demands)
    }

    /// Algorithm 1, lines 8–23, for one VM.
    fn update_private(&mut self, share: usize, demand: Demand, overflow: &mut Overflow) {
        let Demand { kept, new, idle } = demand;
        let accessed = kept.len() + new.len();
        if accessed < share {
            let mut private = kept;
            private.extend(idle);
            let crowded = (private.len() + new.len()).saturating_sub(share);
            let leaving = match self.form {
                Form::Corrected => crowded,
                Form::Printed => crowded.max(new.len().min(private.len())),
            };
            let stay = private.len() - leaving;
            let (_, evicted) = hottest(&mut private, stay);
            evicted.iter().for_each(|c| self.zones.leave(c.number, Zone::Private));
            overflow.evicted.extend_from_slice(evicted);
            new.iter().for_each(|c| self.make_private(c.number));
        } else {
            idle.iter().for_each(|c| self.zones.leave(c.number, Zone::Private));
            overflow.evicted.extend(idle);
            let mut popular = kept;
            popular.extend(new);
            let (private, extra) = hottest(&mut popular, share);
            private.iter().for_each(|c| self.make_private(c.number));
            extra.iter().for_each(|c| self.zones.leave(c.number, Zone::Private));
            overflow.extra.extend_from_slice(extra);
        }
    }

    fn make_private(&mut self, number: u32) {
        self.zones.enter(number, Zone::Private);
        if self.form == Form::Corrected {
            self.zones.leave(number, Zone::Public);
        }
    }

    /// Algorithm 1, lines 24–37.
    fn update_public(&mut self, capacity: usize, touched: &[Candidate], overflow: Overflow) {
        let Overflow { mut extra, mut evicted } = overflow;
        if extra.len() >= capacity {
            let (members, _) = hottest(&mut extra, capacity);
            self.zones.refill(Zone::Public, touched, &*members);
        } else if extra.len() + evicted.len() >= capacity {
            let (members, _) = hottest(&mut evicted, capacity - extra.len());
            self.zones.refill(Zone::Public, touched, extra.iter().chain(&*members));
        } else {
            extra.append(&mut evicted);
            self.make_public_room(capacity, touched, &extra);
            extra.iter().for_each(|c| self.zones.enter(c.number, Zone::Public));
        }
    }

    /// Drops the least popular public chunks that must leave for `incoming`, which does not fill
    /// the zone.
    fn make_public_room(&mut self, capacity: usize, touched: &[Candidate], incoming: &[Candidate]) {
        if self.form == Form::Corrected {
            // What comes in and is there already must not be dropped, nor counted twice.
            incoming.iter().for_each(|c| self.zones.leave(c.number, Zone::Public));
        }
        let is_public = |c: &&Candidate| self.zones.has(c.number, Zone::Public);
        let mut public: Vec<Candidate> = touched.iter().filter(is_public).copied().collect();
        let crowded = (public.len() + incoming.len()).saturating_sub(capacity);
        let leaving = match self.form {
            Form::Corrected => crowded,
            Form::Printed => crowded.max(incoming.len()).min(public.len()),
        };
        let stay = public.len() - leaving;
        let (_, dropped) = hottest(&mut public, stay);
        dropped.iter().for_each(|c| self.zones.leave(c.number, Zone::Public));
    }
}

impl Placement for G1Vfrm {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.heat.record(access);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.heat.look(view);
        self.zones.cover(self.heat.chunks.len());
        let sizes = self.sizes(view);
        let (touched, demands) = self.candidates(view.volume_count());
        let mut overflow = Overflow::default();
        for demand in demands {
            self.update_private(sizes.share, demand, &mut overflow);
        }
        self.update_public(sizes.public, &touched, overflow);
        self.zones.difference(&touched).propose(&self.heat, view, budget, moves);
        self.heat.advance();
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: self.heat.bytes() + self.zones.bytes() }
    }
}
