//! No filter: every miss is admitted. For tables that compare filters by name.
//!
//! State: none.

use super::super::Tag;
use super::Admission;
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "all",
    summary: "admits every miss",
    source: "what caches do without a filter",
    settings: &[],
    build: Build::Admission(|_, _| Ok(Box::new(All))),
};

/// Admits everything.
struct All;

impl Admission for All {
    fn reserve(&mut self, _universe: u32) {}

    fn on_hit(&mut self, _line: LineId, _tag: Tag) {}

    fn admit(&mut self, _line: LineId, _tag: Tag) -> bool {
        true
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}
