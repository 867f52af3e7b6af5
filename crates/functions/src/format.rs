//! Bytes of exported flows, as docs/formats/flow-state.md draws them. They may come from outside.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::ImportError;

const MAGIC: &[u8; 4] = b"TCFS";
const VERSION: u16 = 1;
const KIND_AT: usize = 6;
const COUNT_AT: usize = 8;
const RECORD_BYTES_AT: usize = 12;
/// Magic 4, version 2, kind 2, number of records 4, bytes of a record 4, tag 8.
const HEADER_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;
/// Bytes of a NAT's record: four of them stand before its ports.
const NAT_BYTES: usize = 32;
/// Bytes of a direction of an inspected flow.
const DIRECTION_BYTES: usize = 64;
/// Bytes of an inspection's record: four of them stand before its ports.
const DPI_BYTES: usize = 176;

const _: () = {
    assert!(MAGIC.len() + 2 == KIND_AT && KIND_AT + 2 == COUNT_AT);
    assert!(COUNT_AT + 4 == RECORD_BYTES_AT && RECORD_BYTES_AT + 4 + 8 == HEADER_BYTES);
    let addresses = bytes_of(|flow: &NatRecord| flow.addresses);
    let ends = bytes_of(|flow: &NatRecord| flow.ports) + addresses;
    assert!(4 + ends + bytes_of(|flow: &NatRecord| flow.idle) == NAT_BYTES);
    let before = bytes_of(|way: &DirectionRecord| (way.next, way.flags, way.position));
    let states = bytes_of(|way: &DirectionRecord| way.states);
    let cases = bytes_of(|way: &DirectionRecord| way.cases);
    let partial = bytes_of(|way: &DirectionRecord| way.partial);
    assert!(before + states + cases + partial == DIRECTION_BYTES);
    let ends =
        bytes_of(|flow: &DpiRecord| flow.ports) + bytes_of(|flow: &DpiRecord| flow.addresses);
    let directions = 2 * DIRECTION_BYTES;
    assert!(4 + ends + bytes_of(|flow: &DpiRecord| flow.idle) + directions == DPI_BYTES);
};

/// Bytes of what `field` takes from a record.
const fn bytes_of<R, F>(_field: fn(&R) -> F) -> usize {
    size_of::<F>()
}

/// Function that the state is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Nat = 1,
    Dpi = 2,
}

impl Kind {
    fn record_bytes(self) -> usize {
        match self {
            Kind::Nat => NAT_BYTES,
            Kind::Dpi => DPI_BYTES,
        }
    }
}

/// A NAT's flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NatRecord {
    pub(crate) protocol: u8,
    pub(crate) class: u8,
    pub(crate) flags: u8,
    /// Ports of the inside, the external and the remote end; and that for which the mapping is, or
    /// 0.
    pub(crate) ports: [u16; 4],
    pub(crate) addresses: [u32; 3],
    pub(crate) idle: u64,
}

/// An inspected flow's direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DirectionRecord {
    pub(crate) next: u32,
    pub(crate) flags: u32,
    pub(crate) position: u64,
    pub(crate) states: [u32; 4],
    pub(crate) cases: u128,
    /// Rule, elements that were seen, end of the last one.
    pub(crate) partial: [(u16, u16, u32); 2],
}

/// An inspected flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DpiRecord {
    pub(crate) protocol: u8,
    pub(crate) flags: u8,
    pub(crate) ports: [u16; 2],
    pub(crate) addresses: [u128; 2],
    pub(crate) idle: u64,
    pub(crate) directions: [DirectionRecord; 2],
}

/// Appends records to bytes.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    count: u32,
}

/// Begins a state at the end of `out`.
pub(crate) fn seal(kind: Kind, tag: u64, out: &mut Vec<u8>) -> Writer<'_> {
    let start = out.len();
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend((kind as u16).to_le_bytes());
    out.extend(0u32.to_le_bytes());
    out.extend((kind.record_bytes() as u32).to_le_bytes());
    out.extend(tag.to_le_bytes());
    Writer { out, start, count: 0 }
}

impl Writer<'_> {
    pub(crate) fn nat(&mut self, record: &NatRecord) {
        self.out.extend([record.protocol, record.class, record.flags, 0]);
        self.out.extend(record.ports.iter().flat_map(|port| port.to_le_bytes()));
        self.out.extend(record.addresses.iter().flat_map(|address| address.to_le_bytes()));
        self.out.extend(record.idle.to_le_bytes());
        self.count += 1;
    }

    pub(crate) fn dpi(&mut self, record: &DpiRecord) {
        self.out.extend([record.protocol, record.flags, 0, 0]);
        self.out.extend(record.ports.iter().flat_map(|port| port.to_le_bytes()));
        self.out.extend(record.idle.to_le_bytes());
        self.out.extend(record.addresses.iter().flat_map(|address| address.to_le_bytes()));
        for direction in &record.directions {
            self.out.extend(direction.next.to_le_bytes());
            self.out.extend(direction.flags.to_le_bytes());
            self.out.extend(direction.position.to_le_bytes());
            self.out.extend(direction.states.iter().flat_map(|state| state.to_le_bytes()));
            self.out.extend(direction.cases.to_le_bytes());
            for (rule, seen, end) in direction.partial {
                self.out.extend(rule.to_le_bytes());
                self.out.extend(seen.to_le_bytes());
                self.out.extend(end.to_le_bytes());
            }
        }
        self.count += 1;
    }

    /// Ends the state with the number of records and the checksum.
    pub(crate) fn finish(self) {
        let Writer { out, start, count } = self;
        if let Some(place) = out.get_mut(start + COUNT_AT..start + RECORD_BYTES_AT) {
            place.copy_from_slice(&count.to_le_bytes());
        }
        let checksum = crc32c::crc32c(out.get(start..).unwrap_or_default());
        out.extend(checksum.to_le_bytes());
    }
}

/// State whose frame is right.
#[derive(Debug)]
pub(crate) struct Sealed<'a> {
    bytes: &'a [u8],
    kind: Kind,
    tag: u64,
    count: usize,
}

/// Checks header, length and checksum.
pub(crate) fn open(kind: Kind, bytes: &[u8]) -> Result<Sealed<'_>, ImportError> {
    let damaged = |at, expected| ImportError::Damaged { at, expected };
    let mut header = Fields { bytes, at: 0 };
    if &header.take::<4>()? != MAGIC {
        return Err(damaged(0, "`TCFS`"));
    }
    let version = header.u16()?;
    if version != VERSION {
        return Err(ImportError::Version(version));
    }
    if header.u16()? != kind as u16 {
        return Err(damaged(KIND_AT, "the number of this function"));
    }
    let count = header.u32()? as usize;
    if header.u32()? as usize != kind.record_bytes() {
        return Err(damaged(RECORD_BYTES_AT, "the length of this function's records"));
    }
    let tag = header.u64()?;
    let end = count.checked_mul(kind.record_bytes()).and_then(|n| n.checked_add(HEADER_BYTES));
    let end = end.filter(|end| end.checked_add(CHECKSUM_BYTES) == Some(bytes.len()));
    let end = end.ok_or(damaged(COUNT_AT, "as many records as there are bytes for"))?;
    let mut trailer = Fields { bytes, at: end };
    let is_right = trailer.u32()? == crc32c::crc32c(bytes.get(..end).unwrap_or_default());
    if !is_right && !cfg!(fuzzing) {
        return Err(damaged(end, "the checksum of what is before it"));
    }
    Ok(Sealed { bytes, kind, tag, count })
}

impl Sealed<'_> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    fn fields(&self, index: usize) -> Fields<'_> {
        Fields { bytes: self.bytes, at: HEADER_BYTES + index * self.kind.record_bytes() }
    }

    /// A record of a NAT, with its place.
    pub(crate) fn nat(&self, index: usize) -> Result<(usize, NatRecord), ImportError> {
        let mut fields = self.fields(index);
        let at = fields.at;
        let [protocol, class, flags, _] = fields.take::<4>()?;
        let ports = [fields.u16()?, fields.u16()?, fields.u16()?, fields.u16()?];
        let addresses = [fields.u32()?, fields.u32()?, fields.u32()?];
        let idle = fields.u64()?;
        Ok((at, NatRecord { protocol, class, flags, ports, addresses, idle }))
    }

    /// A record of an inspection, with its place.
    pub(crate) fn dpi(&self, index: usize) -> Result<(usize, DpiRecord), ImportError> {
        let mut fields = self.fields(index);
        let at = fields.at;
        let [protocol, flags, ..] = fields.take::<4>()?;
        let ports = [fields.u16()?, fields.u16()?];
        let idle = fields.u64()?;
        let addresses = [fields.u128()?, fields.u128()?];
        let mut directions = [DirectionRecord::default(); 2];
        for direction in &mut directions {
            direction.next = fields.u32()?;
            direction.flags = fields.u32()?;
            direction.position = fields.u64()?;
            for state in &mut direction.states {
                *state = fields.u32()?;
            }
            direction.cases = fields.u128()?;
            for partial in &mut direction.partial {
                *partial = (fields.u16()?, fields.u16()?, fields.u32()?);
            }
        }
        Ok((at, DpiRecord { protocol, flags, ports, addresses, idle, directions }))
    }
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ImportError> {
        let field = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let field = *field.ok_or(ImportError::Damaged { at: self.at, expected: "more bytes" })?;
        self.at += N;
        Ok(field)
    }

    fn u16(&mut self) -> Result<u16, ImportError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, ImportError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ImportError> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Result<u128, ImportError> {
        self.take().map(u128::from_le_bytes)
    }
}
