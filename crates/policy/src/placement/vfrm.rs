//! vFRM: the hottest chunks live on flash.
//!
//! 1. Requests heat the chunks they touch; nothing moves on a miss.
//! 2. At an epoch's end every chunk has a temperature (see `heat`).
//! 3. The hottest chunks, as many as flash holds, belong there. A chunk without heat in the whole
//!    history never enters, but one that is there stays until a warmer one needs its place.
//! 4. Only the difference moves (see `difference`).
//!
//! Source: Tai 2015 §4.2 (J. Tai, VMware Flash Resource Manager); Tai et al. 2017 §4. Differs from
//! it in the cooling factors where the history is not 8 epochs (decision 0013), and in nothing
//! else.
//!
//! State: 29 B a chunk at 8 epochs: 16 of counters, 12 of address, 1 for where it is. O(1) an
//! access, O(chunks) an epoch.

use super::difference::Difference;
use super::heat::{self, HeatMap, HeatSettings};
use super::rank::{Candidate, hottest};
use super::{Budget, ChunkAccess, FLASH, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::Nanos;

pub(crate) const ENTRY: Entry = Entry {
    name: "vfrm",
    summary: "keeps the chunks with the highest temperature on flash, updated each epoch",
    source: "vFRM, Tai 2015 §4.2 and Tai et al. 2017 §4",
    settings: &[heat::HISTORY, heat::LAMBDA, heat::COOLING, heat::HALF_LIFE],
    build: Build::Placement(|settings| Ok(Box::new(Vfrm::new(HeatSettings::read(settings)?)))),
};

/// Temperature-based placement of one or more volumes in one common flash.
#[derive(Debug)]
pub(crate) struct Vfrm {
    heat: HeatMap,
}

impl Vfrm {
    pub(super) fn new(settings: HeatSettings) -> Vfrm {
        Vfrm { heat: HeatMap::new(settings) }
    }
}

impl Placement for Vfrm {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.heat.record(access);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.heat.look(view);
        let chunks = 0..self.heat.chunks.len();
        let mut candidates: Vec<Candidate> = chunks
            .map(|number| Candidate::by_temperature(&self.heat, number))
            .filter(|c| c.is_on_flash() || !c.is_cold())
            .collect();
        let capacity = usize::try_from(view.capacity_chunks(FLASH)).unwrap_or(usize::MAX);
        let (hot, cold) = hottest(&mut candidates, capacity);
        let mut difference = Difference::default();
        hot.iter().for_each(|c| difference.keep(*c));
        cold.iter().for_each(|c| difference.leave(*c));
        difference.propose(&self.heat, view, budget, moves);
        self.heat.advance();
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: self.heat.bytes() }
    }
}
