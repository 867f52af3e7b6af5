//! Formatting a block cache, and finding it again.
//!
//! Formatting writes an empty table, then the label of the fast device, then that of the slow one:
//! a pair is a pair only when both labels say so. Opening reads both labels and the table; what the
//! table names is dirty, everything else is not cached. One request is under way at a time.

use crate::LINE;
use crate::cache::{BlockCache, mark};
use crate::format::{self, Label, Side, WAYS, is_label, table_offset, table_sectors};
use std::ops::Range;
use thermocline_policy::cache::Sets;
use thermocline_ports::{Device, DeviceError, Io, Payload, SECTOR};
use thermocline_units::{Bytes, Nanos};

/// Sectors of the table that are read or written at once: 512 KiB.
const RUN_SECTORS: u32 = 1024;

/// Why a block cache cannot be opened, or has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The fast device has no room for the smallest cache.
    #[error("the cache device has {0}; the smallest cache takes 2 MiB")]
    CacheTooSmall(Bytes),
    /// The slow device has no room behind its label.
    #[error("the slow device has {0}; there is no room behind its label of 64 KiB")]
    OriginTooSmall(Bytes),
    /// The slow device has more lines than can be numbered.
    #[error("the slow device has {0}; a cache takes less than 16 TiB")]
    OriginTooLarge(Bytes),
    /// A device carries no label of a cache.
    #[error("the {0} device carries no label of a block cache")]
    NoLabel(&'static str),
    /// A device carries a label that cannot be read.
    #[error("the label on the {0} device is damaged, or of another version of this program")]
    BadLabel(&'static str),
    /// The devices belong to different caches.
    #[error("the cache device and the slow device do not belong together")]
    Strangers,
    /// A device has become smaller.
    #[error("the {0} device is smaller than its label says")]
    Shrunk(&'static str),
    /// The table of dirty lines cannot be believed.
    #[error("sector {0} of the table of dirty lines is damaged")]
    Table(u32),
    /// A device failed.
    #[error("a device of the block cache failed: {0}")]
    Device(DeviceError),
}

/// What is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    WriteTable(Range<u32>),
    FlushTable,
    WriteLabel(Side),
    ReadLabel(Side),
    ReadTable(Range<u32>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Opening {
    stage: Stage,
    /// The fast device's.
    label: Option<Label>,
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Cache => "cache",
        Side::Origin => "slow",
    }
}

impl<C: Device, O: Device> BlockCache<C, O> {
    pub(crate) fn start_formatting(&mut self, now: Nanos) {
        self.step(now, Stage::WriteTable(self.next_sectors(0)), None);
    }

    pub(crate) fn start_reading(&mut self, now: Nanos) {
        self.step(now, Stage::ReadLabel(Side::Cache), None);
    }

    fn next_sectors(&self, from: u32) -> Range<u32> {
        from..table_sectors(self.index.slots()).min(from + RUN_SECTORS)
    }

    fn label(&self, side: Side) -> Label {
        let lines = self.geometry.size.0.div_ceil(u64::from(LINE)) as u32;
        Label { side, identity: self.identity, slots: self.index.slots(), lines }
    }

    fn step(&mut self, now: Nanos, stage: Stage, label: Option<Label>) {
        let (side, io) = match &stage {
            Stage::WriteTable(sectors) => {
                let mut bytes = Vec::new();
                for sector in sectors.clone() {
                    format::encode_table(self.identity, sector, |_| None, &mut bytes);
                }
                let data = Payload::from(bytes);
                (Side::Cache, Io::Write { offset: table_offset(sectors.start), data, fua: false })
            }
            Stage::FlushTable => (Side::Cache, Io::Flush),
            Stage::WriteLabel(side) => {
                let data = Payload::from(self.label(*side).encode());
                (*side, Io::Write { offset: Bytes(0), data, fua: true })
            }
            Stage::ReadLabel(side) => (*side, Io::Read { offset: Bytes(0), length: 4096 }),
            Stage::ReadTable(sectors) => {
                let length = sectors.len() as u32 * SECTOR;
                (Side::Cache, Io::Read { offset: table_offset(sectors.start), length })
            }
        };
        self.opening = Some(Opening { stage, label });
        self.send(now, side, crate::cache::Task::Open, io);
    }

    /// A step has ended.
    pub(crate) fn opening_went_on(&mut self, now: Nanos, result: Result<Payload, DeviceError>) {
        let opening = self.opening.take().expect("its request was under way");
        let next = result
            .map_err(OpenError::Device)
            .and_then(|payload| self.after(opening.stage, opening.label, &payload));
        match next {
            Ok(Some((stage, label))) => self.step(now, stage, label),
            Ok(None) => {}
            Err(error) => self.failure = Some(error),
        }
    }

    fn after(
        &mut self,
        stage: Stage,
        label: Option<Label>,
        payload: &Payload,
    ) -> Result<Option<(Stage, Option<Label>)>, OpenError> {
        Ok(match stage {
            Stage::WriteTable(sectors) => match self.next_sectors(sectors.end) {
                next if next.is_empty() => Some((Stage::FlushTable, None)),
                next => Some((Stage::WriteTable(next), None)),
            },
            Stage::FlushTable => Some((Stage::WriteLabel(Side::Cache), None)),
            Stage::WriteLabel(Side::Cache) => Some((Stage::WriteLabel(Side::Origin), None)),
            Stage::WriteLabel(Side::Origin) => None,
            Stage::ReadLabel(side) => {
                let found = self.read_label(side, payload)?;
                match label {
                    None => Some((Stage::ReadLabel(Side::Origin), Some(found))),
                    Some(own) => {
                        self.adopt(own, found)?;
                        Some((Stage::ReadTable(self.next_sectors(0)), None))
                    }
                }
            }
            Stage::ReadTable(sectors) => {
                self.restore(&sectors, &payload.to_vec())?;
                let next = self.next_sectors(sectors.end);
                (!next.is_empty()).then_some((Stage::ReadTable(next), None))
            }
        })
    }

    fn read_label(&self, side: Side, payload: &Payload) -> Result<Label, OpenError> {
        let block = payload.to_vec();
        match Label::decode(&block) {
            Some(label) if label.side == side => Ok(label),
            Some(_) => Err(OpenError::Strangers),
            None if is_label(&block) => Err(OpenError::BadLabel(name(side))),
            None => Err(OpenError::NoLabel(name(side))),
        }
    }

    /// Becomes the cache that the labels tell of.
    fn adopt(&mut self, cache: Label, origin: Label) -> Result<(), OpenError> {
        if cache.identity != origin.identity
            || (cache.slots, cache.lines) != (origin.slots, origin.lines)
        {
            return Err(OpenError::Strangers);
        }
        if cache.slots > self.index.slots() {
            return Err(OpenError::Shrunk(name(Side::Cache)));
        }
        if u64::from(cache.lines) > self.geometry.size.0.div_ceil(u64::from(LINE)) {
            return Err(OpenError::Shrunk(name(Side::Origin)));
        }
        if cache.slots < format::SLOTS_MIN {
            return Err(OpenError::BadLabel(name(Side::Cache)));
        }
        self.identity = cache.identity;
        self.index = Sets::new(cache.slots, WAYS);
        self.status.lines = cache.slots;
        self.status.memory = Bytes(self.index.bytes());
        Ok(())
    }

    fn restore(&mut self, sectors: &Range<u32>, bytes: &[u8]) -> Result<(), OpenError> {
        let lines = self.label(Side::Cache).lines;
        for (sector, bytes) in sectors.clone().zip(bytes.chunks(SECTOR as usize)) {
            let named = format::decode_table(self.identity, sector, bytes);
            for (slot, line) in named.ok_or(OpenError::Table(sector))? {
                let sound = line < lines
                    && self.index.fits(line, slot)
                    && self.index.find(line).is_none()
                    && self.index.line_in(slot).is_none();
                if !sound {
                    return Err(OpenError::Table(sector));
                }
                self.index.restore(line, slot);
                self.remark(slot, mark::VALID | mark::RECORDED, 0);
                self.remark(slot, mark::DIRTY, 0);
            }
        }
        Ok(())
    }
}
