//! Equal static partitions: each VM has an LRU cache of its own.
//!
//! Source: the first of the two straightforward ways that Tai 2015 §4.3.2 starts from. No state of
//! its own.

use super::lists::Partitions;
use super::{Partitioned, Sharing, Tag};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "equal",
    summary: "one LRU partition a VM, all equal for ever",
    source: "the static baseline of Tai 2015 §4.3.2",
    settings: &[],
    build: Build::Cache(|geometry, _| {
        let partitions = Partitions::new(geometry.lines, geometry.volumes);
        Ok(Box::new(Partitioned { partitions, sharing: Equal }))
    }),
};

#[derive(Debug)]
struct Equal;

impl Sharing for Equal {
    #[inline]
    fn observe(&mut self, _: LineId, _: Tag) {}

    fn end_epoch(&mut self, _: &mut Partitions) {}

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}
