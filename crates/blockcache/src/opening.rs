//! Formatting a block cache, and finding it again.
//!
//! Formatting takes away the label of the slow device, writes an empty table, then the label of the
//! slow device, then that of the fast one: a pair is a pair only when both labels say so, and where
//! the slow device has a label the table is whole. What a formatting that was cut off leaves behind
//! is recognised ([`is_unfinished`]) and may be formatted again: the fast device has no label yet,
//! and nothing was ever stored there.
//!
//! One flipped bit in a label or in a sector of the table is set right; more are told, and refused.
//!
//! Opening reads both labels and the table; what the table names is dirty, everything else is not
//! cached. A program that was killed leaves what it wrote in the devices' own caches: both are
//! flushed before anybody reads it. One request is under way at a time.

use crate::LINE;
use crate::format::{self, Label, Side, is_label, table_offset, table_sectors};
use crate::lines::{Lines, mark};
use crate::open_error::OpenError;
use crate::state::CacheState;
use crate::tasks::Task;
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload, SECTOR};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Bytes, with_one_bit_changed};

/// Sectors of the table that are read or written at once: 512 KiB.
const RUN_SECTORS: u32 = 1024;

const _: () = assert!((RUN_SECTORS as u64) * (SECTOR as u64) <= u32::MAX as u64, "one request");

/// The stage that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    ClearLabel,
    WriteTable(Range<u32>),
    FlushTable,
    WriteLabel(Side),
    ReadLabel(Side),
    ReadTable(Range<u32>),
    /// The flush that makes durable what was found.
    FlushFound(Side),
}

/// The opening of a cache: labels, then the table.
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

impl Opening {
    /// Begins to format: the contents of both devices are lost.
    pub(crate) fn formatting(state: &mut CacheState) -> Opening {
        assert!(state.lines.counts() == (0, 0), "a new cache has no lines");
        let stage = match mutant("old_label_not_cleared") {
            true => Stage::WriteTable(next_sectors(state, 0)),
            false => Stage::ClearLabel,
        };
        Opening::begin(state, stage, None)
    }

    /// Begins to read what is there.
    pub(crate) fn reading(state: &mut CacheState) -> Opening {
        Opening::begin(state, Stage::ReadLabel(Side::Cache), None)
    }

    /// Sends the request of a stage.
    fn begin(state: &mut CacheState, stage: Stage, label: Option<Label>) -> Opening {
        let (side, io) = match &stage {
            Stage::ClearLabel => {
                let data = Payload::Zeroes(table_offset(0).0 as u32);
                (Side::Origin, Io::Write { offset: Bytes(0), data, fua: true })
            }
            Stage::WriteTable(sectors) => {
                let mut bytes = Vec::new();
                for sector in sectors.clone() {
                    format::encode_table(state.identity, sector, |_| None, &mut bytes);
                }
                let data = Payload::from(bytes);
                (Side::Cache, Io::Write { offset: table_offset(sectors.start), data, fua: false })
            }
            Stage::FlushTable => (Side::Cache, Io::Flush),
            Stage::FlushFound(side) => (*side, Io::Flush),
            Stage::WriteLabel(side) => {
                let data = Payload::from(own_label(state, *side).encode());
                (*side, Io::Write { offset: Bytes(0), data, fua: true })
            }
            Stage::ReadLabel(side) => (*side, Io::Read { offset: Bytes(0), length: 4096 }),
            Stage::ReadTable(sectors) => {
                let length = sectors.len() as u32 * SECTOR;
                (Side::Cache, Io::Read { offset: table_offset(sectors.start), length })
            }
        };
        let needs_label = stage == Stage::ReadLabel(Side::Origin);
        assert!(label.is_some() == needs_label, "a label waits for the other one, and no longer");
        state.send(side, Task::Open, io);
        Opening { stage, label }
    }

    /// The request of the stage has ended. Returns the next stage; `None` when there is none: the
    /// cache is open, or has failed.
    pub(crate) fn went_on(
        self,
        state: &mut CacheState,
        result: Result<Payload, DeviceError>,
    ) -> Option<Opening> {
        assert!(state.failure().is_none(), "an opening that has failed does not go on");
        let next = result
            .map_err(OpenError::Device)
            .and_then(|payload| after(state, self.stage, self.label, &payload));
        match next {
            Ok(Some((stage, label))) => Some(Opening::begin(state, stage, label)),
            Ok(None) => None,
            Err(error) => {
                state.refuse(error);
                None
            }
        }
    }
}

fn next_sectors(state: &CacheState, from: u32) -> Range<u32> {
    from..table_sectors(state.lines.slots()).min(from + RUN_SECTORS)
}

/// The label of this cache on one of the devices.
fn own_label(state: &CacheState, side: Side) -> Label {
    let lines = state.geometry.size.0.div_ceil(u64::from(LINE)) as u32;
    Label { side, identity: state.identity, slots: state.lines.slots(), lines }
}

/// The stage after one that has ended well, with the label that it needs; `None` after the last.
fn after(
    state: &mut CacheState,
    stage: Stage,
    label: Option<Label>,
    payload: &Payload,
) -> Result<Option<(Stage, Option<Label>)>, OpenError> {
    if let Stage::WriteTable(sectors) | Stage::ReadTable(sectors) = &stage {
        assert!(!sectors.is_empty(), "a stage of the table is about sectors");
    }
    Ok(match stage {
        Stage::ClearLabel => Some((Stage::WriteTable(next_sectors(state, 0)), None)),
        Stage::FlushTable if mutant("fast_label_first") => {
            Some((Stage::WriteLabel(Side::Cache), None))
        }
        Stage::WriteLabel(Side::Cache) if mutant("fast_label_first") => {
            Some((Stage::WriteLabel(Side::Origin), None))
        }
        Stage::WriteLabel(Side::Origin) if mutant("fast_label_first") => None,
        Stage::WriteTable(sectors) => match next_sectors(state, sectors.end) {
            next if next.is_empty() && mutant("table_not_flushed_before_the_labels") => {
                Some((Stage::WriteLabel(Side::Origin), None))
            }
            next if next.is_empty() => Some((Stage::FlushTable, None)),
            next => Some((Stage::WriteTable(next), None)),
        },
        Stage::FlushTable => Some((Stage::WriteLabel(Side::Origin), None)),
        Stage::WriteLabel(Side::Origin) => Some((Stage::WriteLabel(Side::Cache), None)),
        Stage::WriteLabel(Side::Cache) => None,
        Stage::ReadLabel(side) => {
            let found = read_label(side, payload)?;
            match label {
                None => Some((Stage::ReadLabel(Side::Origin), Some(found))),
                Some(own) => {
                    adopt(state, own, found)?;
                    Some((Stage::ReadTable(next_sectors(state, 0)), None))
                }
            }
        }
        Stage::ReadTable(sectors) => {
            restore(state, &sectors, &payload.to_vec())?;
            match next_sectors(state, sectors.end) {
                next if !next.is_empty() => Some((Stage::ReadTable(next), None)),
                _ if mutant("found_lines_taken_for_flushed") => None,
                _ => Some((Stage::FlushFound(Side::Cache), None)),
            }
        }
        Stage::FlushFound(Side::Cache) if mutant("slow_device_taken_for_flushed") => None,
        Stage::FlushFound(Side::Cache) => Some((Stage::FlushFound(Side::Origin), None)),
        Stage::FlushFound(Side::Origin) => None,
    })
}

fn read_label(side: Side, payload: &Payload) -> Result<Label, OpenError> {
    let block = payload.to_vec();
    let corrected = || {
        let sector = block.get(..SECTOR as usize).filter(|block| is_label(block))?;
        with_one_bit_changed(sector, Label::decode)
    };
    match Label::decode(&block).or_else(corrected) {
        Some(label) if label.side == side => Ok(label),
        Some(_) => Err(OpenError::Strangers),
        None if is_label(&block) => Err(OpenError::BadLabel(name(side))),
        None => Err(OpenError::NoLabel(name(side))),
    }
}

/// Becomes the cache that the labels tell of.
fn adopt(state: &mut CacheState, cache: Label, origin: Label) -> Result<(), OpenError> {
    assert!((cache.side, origin.side) == (Side::Cache, Side::Origin), "one label of each device");
    if cache.identity != origin.identity
        || (cache.slots, cache.lines) != (origin.slots, origin.lines)
    {
        return Err(OpenError::Strangers);
    }
    if cache.slots > state.lines.slots() {
        return Err(OpenError::Shrunk(name(Side::Cache)));
    }
    if u64::from(cache.lines) > state.geometry.size.0.div_ceil(u64::from(LINE)) {
        return Err(OpenError::Shrunk(name(Side::Origin)));
    }
    if cache.slots < format::SLOTS_MIN {
        return Err(OpenError::BadLabel(name(Side::Cache)));
    }
    state.identity = cache.identity;
    state.lines = Lines::new(cache.slots, state.settings.policy);
    state.status.lines = cache.slots;
    state.status.memory = Bytes(state.lines.bytes());
    Ok(())
}

/// Puts the lines that sectors of the table name into their slots.
fn restore(state: &mut CacheState, sectors: &Range<u32>, bytes: &[u8]) -> Result<(), OpenError> {
    let lines = own_label(state, Side::Cache).lines;
    let (_, before) = state.lines.counts();
    let mut restored = 0;
    assert!(bytes.len() == sectors.len() * SECTOR as usize, "all sectors were read");
    for (sector, bytes) in sectors.clone().zip(bytes.chunks(SECTOR as usize)) {
        let decode = |bytes: &[u8]| format::decode_table(state.identity, sector, bytes);
        let corrected = || {
            let named = with_one_bit_changed(bytes, decode);
            met_if(named.is_some(), "a flipped bit of the table is set right");
            named
        };
        let named = decode(bytes).or_else(corrected);
        for (slot, line) in named.ok_or(OpenError::Table(sector))? {
            let sound = line < lines
                && state.lines.fits(line, slot)
                && state.lines.find(line).is_none()
                && state.lines.line_in(slot).is_none();
            if !sound {
                return Err(OpenError::Table(sector));
            }
            state.lines.restore(line, slot);
            state.lines.remark(slot, mark::VALID | mark::RECORDED, 0);
            state.lines.remark(slot, mark::DIRTY, 0);
            restored += 1;
        }
    }
    assert!(state.lines.counts().1 == before + restored, "what the table names is dirty");
    assert!(!state.lines.has_news(), "what the table names is no news to it");
    Ok(())
}
/// True if two devices are what a formatting left that was cut off, or blank, and may be formatted.
/// `size` is that of the fast device, `slow` how the slow one begins: its label and the start of
/// what the machine above sees, where that keeps its own label. `read` fills a buffer from an
/// offset of the fast device.
///
/// The fast device must have no label, and a table that names no line: empty sectors, or zeroes
/// where none was written. The slow device must be blank but for the label that the same formatting
/// wrote, with a table that is whole. A cache that was in use has its label; if that is lost, the
/// machine above has left its own behind it, on the slow device as the table names nothing.
///
/// # Errors
/// What `read` says.
pub fn is_unfinished<E>(
    size: Bytes,
    slow: &[u8],
    mut read: impl FnMut(Bytes, &mut [u8]) -> Result<(), E>,
) -> Result<bool, E> {
    let slots = format::slots_on(size);
    let mut block = vec![0; table_offset(0).0 as usize];
    if slots < format::SLOTS_MIN {
        return Ok(false);
    }
    read(Bytes(0), &mut block)?;
    let (head, behind) = slow.split_at(block.len().min(slow.len()));
    let label = Label::decode(head).filter(|l| l.side == Side::Origin && l.slots == slots);
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    if !is_zero(&block) || !is_zero(behind) || label.is_none() && !is_zero(head) {
        return Ok(false);
    }
    let mut from = 0;
    while from < table_sectors(slots) {
        let to = table_sectors(slots).min(from + RUN_SECTORS);
        let mut run = vec![0; (to - from) as usize * SECTOR as usize];
        read(table_offset(from), &mut run)?;
        for (sector, bytes) in (from..to).zip(run.chunks(SECTOR as usize)) {
            let identity = label.map_or(format::table_identity(bytes), |label| label.identity);
            let named = format::decode_table(identity, sector, bytes);
            let unwritten = label.is_none() && is_zero(bytes);
            if !unwritten && named.is_none_or(|named| !named.is_empty()) {
                return Ok(false);
            }
        }
        from = to;
    }
    Ok(true)
}
