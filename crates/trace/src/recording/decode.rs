//! From the records of one block back to events.
//!
//! Nothing is believed: every number is held against its bound before it is used, so that a block
//! made by somebody else costs no more memory than one of ours.

use super::encoder::{Last, SECTOR};
use super::format::{
    FIGURES_MAX, PAIRS_MAX, POOLS_MAX, RUN_MAX, SEEN_MAX, TEXT_MAX, places_of, tag,
};
use super::{Access, Ask, Asked, CHUNKS_MAX, Epoch, Event, Homes, PoolFill, Routed, VOLUMES_MAX};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Chunks that a pool is believed to hold.
const POOL_CHUNKS_MAX: u64 = 1 << 40;

/// A record, or what is wrong with it.
type Decoded<T> = Result<T, String>;

/// Reads records; keeps what the next one is a difference to.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Version of the file.
    pub(super) version: u16,
    /// Bytes of a chunk; 0 before the head.
    pub(super) chunk: u64,
    pub(super) about: Vec<(String, String)>,
    last: Last,
    /// Requests so far.
    asked: u64,
    /// A request, how many of its parts were seen at once, and how many are given out.
    seen: Option<(Asked, u64, u64)>,
}

/// The records of a block that are still to come.
pub(super) struct Records<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl Records<'_> {
    #[inline]
    fn byte(&mut self) -> Decoded<u8> {
        let byte = self.bytes.get(self.at).ok_or("the record ends early")?;
        self.at += 1;
        Ok(*byte)
    }

    #[inline]
    fn number(&mut self) -> Decoded<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number of more than 64 bits".to_string())
    }

    /// A number of at most `max`.
    #[inline]
    fn bounded(&mut self, what: &str, max: u64) -> Decoded<u64> {
        let number = self.number()?;
        if number <= max { Ok(number) } else { Err(format!("{what} {number}; at most {max}")) }
    }

    #[inline]
    fn difference(&mut self, from: u64) -> Decoded<u64> {
        let coded = self.number()?;
        let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        Ok(from.wrapping_add(difference as u64))
    }

    fn text(&mut self) -> Decoded<String> {
        let length = self.bounded("a text of bytes:", TEXT_MAX as u64)? as usize;
        let bytes = self.bytes.get(self.at..self.at + length).ok_or("the text ends early")?;
        self.at += length;
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(char::is_control) => Ok(text.to_string()),
            _ => Err("a text that is not printable UTF-8".to_string()),
        }
    }
}

impl Decoder {
    /// True if accesses are at hand that need no more records.
    #[inline]
    pub(super) fn has_seen(&self) -> bool {
        self.seen.is_some()
    }

    /// The next event, when records are at hand or [`Decoder::has_seen`]; `None` for the head.
    pub(super) fn next(&mut self, records: &mut Records<'_>) -> Decoded<Option<Event>> {
        if let Some((asked, seen, given)) = &mut self.seen {
            let access = asked.part(*given, Bytes(self.chunk));
            *given += 1;
            if given == seen {
                self.seen = None;
            }
            return Ok(Some(Event::Accessed(access)));
        }
        let first = records.byte()?;
        if self.chunk == 0 {
            self.head(first, records)?;
            return Ok(None);
        }
        if first & tag::VOLUME != 0 {
            let volume = records.bounded("volume", u64::from(VOLUMES_MAX) - 1)?;
            self.last.volume = volume as u32;
        }
        self.event(first, records).map(Some)
    }

    fn event(&mut self, first: u8, records: &mut Records<'_>) -> Decoded<Event> {
        Ok(match first & tag::KIND {
            tag::READ => Event::Asked(self.asked(first, Ask::Read, records)?),
            tag::WRITE => Event::Asked(self.asked(first, Ask::Write, records)?),
            tag::FLUSH => Event::Asked(self.asked(first, Ask::Flush, records)?),
            tag::TRIM => Event::Asked(self.asked(first, Ask::Trim, records)?),
            tag::ZERO => Event::Asked(self.asked(first, Ask::Zero, records)?),
            kind @ (tag::ANSWERED | tag::FAILED) => {
                let back = records.number()?;
                let request = self.asked.checked_sub(back).filter(|_| back > 0);
                let request = request.ok_or_else(|| {
                    format!("an answer to the request {back} before the next, of {}", self.asked)
                })?;
                let took = Nanos(records.bounded("nanoseconds:", i64::MAX as u64)?);
                Event::Answered { request, took, done: kind == tag::ANSWERED }
            }
            tag::READS_CHUNK => Event::Accessed(self.accessed(false, records)?),
            tag::WRITES_CHUNK => Event::Accessed(self.accessed(true, records)?),
            tag::EPOCH => Event::Epoch(self.epoch(records)?),
            tag::HOMES => Event::Homes(self.homes(records)?),
            tag::MOVE => {
                let chunk = self.chunk(records)?;
                let to = PoolId(records.bounded("pool", POOLS_MAX - 1)? as u16);
                Event::Proposed { chunk, to, mirror: first & tag::MIRRORED != 0 }
            }
            tag::PROMISED => {
                let volume = VolumeId(self.last.volume);
                Event::Promised { volume, figures: figures(records)? }
            }
            tag::POOLS => {
                let at = self.time(records)?;
                let place = PoolId(records.bounded("pool", POOLS_MAX - 1)? as u16);
                Event::Pools { at, place, gone: first & tag::GONE != 0 }
            }
            tag::ROUTED => Event::Routed(self.routed(records)?),
            tag::EPOCH_END => Event::EpochEnded,
            tag::PLACED => Event::Placed { at: self.time(records)?, name: records.text()? },
            tag::END => Event::Ended,
            kind => return Err(format!("a record of kind {kind}, which there is not")),
        })
    }

    fn head(&mut self, first: u8, records: &mut Records<'_>) -> Decoded<()> {
        if first != tag::HEAD {
            return Err("the first record is not the head".to_string());
        }
        let chunk = records.number()?;
        if !chunk.is_power_of_two() || !(SECTOR..=1 << 40).contains(&chunk) {
            return Err(format!("a chunk of {chunk} bytes; it is a power of two from 512"));
        }
        for _ in 0..records.bounded("pairs:", PAIRS_MAX as u64)? {
            self.about.push((records.text()?, records.text()?));
        }
        self.chunk = chunk;
        Ok(())
    }

    #[inline]
    fn time(&mut self, records: &mut Records<'_>) -> Decoded<Nanos> {
        self.last.at = records.difference(self.last.at)?;
        if self.last.at > i64::MAX as u64 {
            return Err(format!("a time of {} ns; at most 2^63 − 1", self.last.at));
        }
        Ok(Nanos(self.last.at))
    }

    #[inline]
    fn chunk(&mut self, records: &mut Records<'_>) -> Decoded<ChunkId> {
        let index = records.difference(self.last.chunk)?;
        if index >= u64::from(CHUNKS_MAX) {
            return Err(format!("chunk {index}; they lie below {CHUNKS_MAX}"));
        }
        self.last.chunk = index;
        Ok(ChunkId { volume: VolumeId(self.last.volume), index: index as u32 })
    }

    #[inline]
    fn asked(&mut self, first: u8, ask: Ask, records: &mut Records<'_>) -> Decoded<Asked> {
        let at = self.time(records)?;
        let mut asked = Asked {
            at,
            volume: VolumeId(self.last.volume),
            ask,
            offset: Bytes(0),
            length: Bytes(0),
            forced: first & tag::FORCED != 0,
        };
        self.asked += 1;
        if ask == Ask::Flush {
            return Ok(asked);
        }
        let sector = records.difference(self.last.sector)?;
        let sectors = records.number()?;
        let end = sector.checked_add(sectors).filter(|&end| {
            let reach = u128::from(self.chunk) * u128::from(CHUNKS_MAX);
            sectors > 0 && u128::from(end) * u128::from(SECTOR) <= reach && end < 1 << 53
        });
        self.last.sector = end.ok_or_else(|| {
            format!("a request of {sectors} sectors at {sector}; it is empty or ends too far")
        })?;
        (asked.offset, asked.length) = (Bytes(sector * SECTOR), Bytes(sectors * SECTOR));
        let parts = asked.part_count(Bytes(self.chunk));
        let seen = match first & tag::SEEN {
            0 => records.bounded("parts seen:", parts)?,
            _ => parts,
        };
        if seen > SEEN_MAX {
            return Err(format!("{seen} parts seen at once; at most {SEEN_MAX}"));
        }
        self.seen = (seen > 0).then_some((asked, seen, 0));
        Ok(asked)
    }

    fn accessed(&mut self, write: bool, records: &mut Records<'_>) -> Decoded<Access> {
        let at = self.time(records)?;
        let chunk = self.chunk(records)?;
        let sectors = records.bounded("sectors:", self.chunk / SECTOR)?;
        let first = match self.version {
            1 => 0,
            _ => records.bounded("the first sector in a chunk:", self.chunk / SECTOR - sectors)?,
        };
        let (offset, bytes) = (Bytes(first * SECTOR), Bytes(sectors * SECTOR));
        Ok(Access { at, chunk, offset, bytes, write })
    }

    fn epoch(&mut self, records: &mut Records<'_>) -> Decoded<Epoch> {
        let at = self.time(records)?;
        let budget = records.number()?.wrapping_sub(1);
        let volumes = records.bounded("volumes:", u64::from(VOLUMES_MAX))? as u32;
        let length = match self.version {
            1 => None,
            _ => Some(Nanos(records.bounded("nanoseconds:", i64::MAX as u64)?)),
        };
        let mut pools = Vec::new();
        for _ in 0..records.bounded("pools:", POOLS_MAX)? {
            let capacity = records.bounded("chunks of a pool:", POOL_CHUNKS_MAX)?;
            let used = records.bounded("chunks on a pool:", POOL_CHUNKS_MAX)?;
            let figures = if self.version == 1 { Vec::new() } else { figures(records)? };
            pools.push(PoolFill { capacity, used, figures });
        }
        Ok(Epoch { at, budget, volumes, length, pools })
    }

    fn homes(&mut self, records: &mut Records<'_>) -> Decoded<Homes> {
        let chunk = self.chunk(records)?;
        let room = (CHUNKS_MAX - chunk.index).min(RUN_MAX);
        let count = records.bounded("chunks in a run, less one:", u64::from(room) - 1)? as u32 + 1;
        let code = records.number()?;
        let (pool, second) = places_of(code).ok_or_else(|| {
            format!("chunks on the pools of code {code}; there are {POOLS_MAX} pools")
        })?;
        self.last.chunk += u64::from(count) - 1;
        Ok(Homes { chunk, count, pool, second })
    }

    fn routed(&mut self, records: &mut Records<'_>) -> Decoded<Routed> {
        let at = self.time(records)?;
        let count = records.bounded("pools:", POOLS_MAX)?;
        let pools = (0..count).map(|_| figures(records)).collect::<Decoded<_>>()?;
        let mut share = || records.bounded("millionths:", 1_000_000).map(|share| share as u32);
        Ok(Routed { at, pools, shares: [share()?, share()?] })
    }
}

fn figures(records: &mut Records<'_>) -> Decoded<Vec<u64>> {
    let count = records.bounded("figures:", FIGURES_MAX as u64)?;
    (0..count).map(|_| records.number()).collect()
}
