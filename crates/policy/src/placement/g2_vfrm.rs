//! G2-vFRM: the private zone goes to the globally most frequent chunks, the public one to recent
//! ones.
//!
//! At an epoch's end, with *frequency* a chunk's aged access counter and *popularity* its
//! temperature:
//!
//! 1. The private zone holds the most frequent chunks of all VMs, so a VM's reservation follows how
//!    many frequent chunks it has. What it held and no longer holds is *evicted*.
//! 2. If the private zone holds the whole working set, nothing else is needed; if both zones do,
//!    the public one takes the rest.
//! 3. Else the public zone takes the chunks accessed in the epoch that are not private, by
//!    popularity; where these do not fill it, the best of its former and the evicted chunks stay as
//!    well.
//! 4. Flash holds both zones; only the difference moves.
//!
//! Source: Tai 2015 §4.3.2, Algorithm 2. Differs: line 12 takes the chunks that left the private
//! zone, not those that stayed; line 27 counts from the zone's capacity, not its mutated content; a
//! working set that fits the private zone leaves no copy in the public one (decision 0015).
//! `form=printed` undoes these.
//!
//! State: 34 B a chunk at 8 epochs. O(1) an access, O(chunks) an epoch.

use super::frequency::{self, Frequency};
use super::heat::{self, HeatMap, HeatSettings};
use super::rank::{Candidate, hottest};
use super::zones::{self, Form, Zone, Zones};
use super::{Budget, ChunkAccess, FLASH, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Settings, SettingsError};
use thermocline_units::Nanos;

pub(crate) const ENTRY: Entry = Entry {
    name: "g2-vfrm",
    summary: "private flash for the most frequent chunks of all VMs, the rest for recent ones",
    source: "G2-vFRM, Tai 2015 §4.3.2 Algorithm 2",
    settings: &[
        zones::PRIVATE,
        zones::FORM,
        frequency::AGE_EVERY,
        heat::HISTORY,
        heat::LAMBDA,
        heat::COOLING,
        heat::HALF_LIFE,
    ],
    build: Build::Placement(|settings| Ok(Box::new(G2Vfrm::new(settings)?))),
};

/// Two zones, one by frequency, one by recency.
#[derive(Debug)]
pub(crate) struct G2Vfrm {
    heat: HeatMap,
    frequency: Frequency,
    zones: Zones,
    private: f64,
    form: Form,
}

/// Places in each zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    private: usize,
    public: usize,
}

impl G2Vfrm {
    fn new(settings: &Settings) -> Result<G2Vfrm, SettingsError> {
        Ok(G2Vfrm {
            heat: HeatMap::new(HeatSettings::read(settings)?),
            frequency: Frequency::read(settings)?,
            zones: Zones::default(),
            private: settings.number("private", 0.0, 1.0)?,
            form: Form::read(settings)?,
        })
    }

    fn sizes(&self, view: &dyn VolumeView) -> Sizes {
        let capacity = view.capacity_chunks(FLASH);
        let private = (capacity as f64 * self.private) as u64;
        Sizes { private: private as usize, public: (capacity - private) as usize }
    }

    /// Every chunk in the working set, in a zone, or on flash.
    fn candidates(&self) -> Vec<Candidate> {
        let chunks = 0..self.heat.chunks.len();
        let matters = |number: &u32| {
            self.frequency.count(*number) > 0
                || self.zones.any(*number)
                || self.heat.is_on_flash(*number)
        };
        chunks.filter(matters).map(|number| Candidate::by_temperature(&self.heat, number)).collect()
    }

    /// Algorithm 2, lines 6–14. The working set, its private part first, how long that is, and what
    /// line 12 calls evicted.
    fn update_private(
        &mut self,
        capacity: usize,
        touched: &[Candidate],
    ) -> (Vec<Candidate>, usize, Vec<Candidate>) {
        let mut working_set: Vec<Candidate> = touched
            .iter()
            .map(|c| Candidate::by_count(&self.heat, c.number, self.frequency.count(c.number)))
            .filter(|c| !c.is_cold())
            .collect();
        let fits = working_set.len() <= capacity;
        let (private, _) = hottest(&mut working_set, capacity);
        let was = |c: &&Candidate| self.zones.has(c.number, Zone::Private);
        let before: Vec<Candidate> = touched.iter().filter(was).copied().collect();
        self.zones.refill(Zone::Private, touched, &*private);
        let count = private.len();
        let stayed = |c: &Candidate| self.zones.has(c.number, Zone::Private);
        let evicted = match self.form {
            Form::Corrected => before.into_iter().filter(|c| !stayed(c)).collect(),
            Form::Printed if fits => Vec::new(),
            Form::Printed => before.into_iter().filter(stayed).collect(),
        };
        (working_set, count, evicted)
    }

    /// Algorithm 2, lines 18–29: the working set exceeds flash.
    fn compete(&mut self, capacity: usize, touched: &[Candidate], evicted: &[Candidate]) {
        let outside = |c: &&Candidate| !self.zones.has(c.number, Zone::Private);
        let accessed = |c: &&Candidate| self.heat.last(c.number) > 0;
        let mut recent: Vec<Candidate> =
            touched.iter().filter(outside).filter(accessed).copied().collect();
        if recent.len() >= capacity {
            let (members, _) = hottest(&mut recent, capacity);
            self.zones.refill(Zone::Public, touched, &*members);
            return;
        }
        let public = |c: &&Candidate| self.zones.has(c.number, Zone::Public);
        let mut former: Vec<Candidate> =
            touched.iter().filter(public).filter(outside).copied().collect();
        former.extend_from_slice(evicted);
        former.retain(|c| self.heat.last(c.number) == 0 || self.zones.has(c.number, Zone::Private));
        let room = capacity - recent.len();
        let quota = match self.form {
            Form::Corrected => room,
            Form::Printed => former.len().saturating_sub(recent.len()).min(room),
        };
        let (stay, _) = hottest(&mut former, quota);
        self.zones.refill(Zone::Public, touched, stay.iter().chain(&recent));
    }

    /// The first two cases of `UpdatePublicZone`: the working set fits the private zone, or flash.
    fn hold_rest(
        &mut self,
        capacity: usize,
        touched: &[Candidate],
        rest: &[Candidate],
        fits: bool,
    ) {
        if !fits {
            self.zones.refill(Zone::Public, touched, rest);
            return;
        }
        let stale = |c: &&Candidate| {
            self.zones.has(c.number, Zone::Public)
                && (self.form == Form::Printed || !self.zones.has(c.number, Zone::Private))
        };
        let mut public: Vec<Candidate> = touched.iter().filter(stale).copied().collect();
        let (members, _) = hottest(&mut public, capacity);
        self.zones.refill(Zone::Public, touched, &*members);
    }
}

impl Placement for G2Vfrm {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        let number = self.heat.record(access);
        self.frequency.record(number);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.heat.look(view);
        self.zones.cover(self.heat.chunks.len());
        self.frequency.cover(self.heat.chunks.len());
        let sizes = self.sizes(view);
        let touched = self.candidates();
        let (working_set, private, evicted) = self.update_private(sizes.private, &touched);
        if working_set.len() > sizes.private + sizes.public {
            self.compete(sizes.public, &touched, &evicted);
        } else {
            let fits = working_set.len() <= sizes.private;
            self.hold_rest(sizes.public, &touched, &working_set[private..], fits);
        }
        self.zones.difference(&touched).propose(&self.heat, view, budget, moves);
        self.frequency.advance();
        self.heat.advance();
    }

    fn footprint(&self) -> Footprint {
        let index = self.heat.bytes() + self.frequency.bytes() + self.zones.bytes();
        Footprint { resident: 0, index }
    }
}
