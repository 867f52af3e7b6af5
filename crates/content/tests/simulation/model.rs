//! Expected contents of volumes: for each block, the versions that a crash may leave.

use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_content::{BLOCK, ContentId, Domain, Mapped};
use thermocline_units::VolumeId;

/// A block's contents: a stamp for each of its eight sectors, 0 for zeroes.
pub(crate) type Value = [u32; 8];

pub(crate) const SECTORS: u64 = 8;
pub(crate) const ZERO: Value = [0; 8];

/// The bytes that encode stamps.
pub(crate) fn bytes_of(stamps: &[u32]) -> Vec<u8> {
    stamps.iter().flat_map(|stamp| stamp.to_le_bytes().repeat(128)).collect()
}

/// The stamps that bytes encode; `None` if no write made such sectors.
pub(crate) fn stamps_of(bytes: &[u8]) -> Option<Vec<u32>> {
    let sector = |sector: &[u8]| {
        let stamp = u32::from_le_bytes(sector[..4].try_into().ok()?);
        sector.chunks(4).all(|word| word == stamp.to_le_bytes()).then_some(stamp)
    };
    bytes.chunks(512).map(sector).collect()
}

pub(crate) fn content_of(value: &Value) -> ContentId {
    ContentId::of(&bytes_of(value))
}

#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) value: Value,
    /// The write that is under way; 0: it has ended.
    pub(crate) write: u64,
    /// The write that made it.
    pub(crate) born: u64,
}

/// A block: the oldest version that a crash may leave, and all after it.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) versions: Vec<Version>,
}

impl Block {
    pub(crate) fn of(value: Value) -> Block {
        Block { versions: vec![Version { value, write: 0, born: 0 }] }
    }

    /// The version that was answered last.
    pub(crate) fn now(&self) -> Value {
        let there = self.versions.iter().rev().find(|version| version.write == 0);
        there.expect("one is always there").value
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.versions.iter().any(|version| version.write != 0)
    }

    /// Notes that the write ended.
    pub(crate) fn end(&mut self, write: u64, well: bool) {
        if well {
            let at = self.versions.iter().position(|version| version.write == write);
            if let Some(at) = at {
                self.versions[at].write = 0;
            }
        } else {
            self.versions.retain(|version| version.write != write);
        }
    }

    /// Index of the version that was answered last.
    pub(crate) fn mark(&self) -> usize {
        self.versions.iter().rposition(|version| version.write == 0).expect("one is there")
    }

    pub(crate) fn allows(&self, value: &Value) -> bool {
        self.versions.iter().any(|version| version.value == *value)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) name: String,
    /// Size in sectors.
    pub(crate) size: u64,
    pub(crate) domain: Domain,
    pub(crate) read_only: bool,
    pub(crate) has_quota: bool,
    pub(crate) blocks: Vec<Block>,
}

impl Volume {
    pub(crate) fn new(name: String, size: u64, domain: Domain) -> Volume {
        let blocks = vec![Block::of(ZERO); size.div_ceil(SECTORS) as usize];
        Volume { name, size, domain, read_only: false, has_quota: false, blocks }
    }

    /// Values that a read that begins now may return, sector by sector.
    pub(crate) fn allowed(&self, sectors: Range<u64>) -> Vec<Vec<u32>> {
        let allowed = sectors.map(|sector| {
            let block = &self.blocks[(sector / SECTORS) as usize];
            let versions = block.versions[block.mark()..].iter();
            versions.map(|version| version.value[(sector % SECTORS) as usize]).collect()
        });
        allowed.collect()
    }

    /// Bytes of blocks that are not zeroes.
    pub(crate) fn mapped(&self) -> u64 {
        let mapped = self.blocks.iter().filter(|block| block.now() != ZERO).count() as u64;
        mapped * u64::from(BLOCK)
    }
}

/// Versions that a flush makes durable, by volume and block.
pub(crate) type Marks = Vec<(VolumeId, u64, u64)>;

/// The expected state of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
}

impl Model {
    /// Number of different contents in use, over all domains.
    pub(crate) fn distinct(&self) -> usize {
        let blocks = self.volumes.values().flat_map(|volume| {
            volume.blocks.iter().flat_map(|block| {
                block.versions.iter().map(|version| (volume.domain, version.value))
            })
        });
        let mut all: Vec<_> = blocks.filter(|(_, value)| *value != ZERO).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }
    /// Notes that a write begins to change a block.
    pub(crate) fn begin(&mut self, write: u64, volume: VolumeId, block: u64, value: Value) {
        let volume = self.volumes.get_mut(&volume).expect("asked about it");
        volume.blocks[block as usize].versions.push(Version { value, write, born: write });
    }

    pub(crate) fn is_busy(&self, volume: VolumeId, block: u64) -> bool {
        self.volumes[&volume].blocks[block as usize].is_busy()
    }

    /// Notes that a write ended. If it was forced, earlier versions are removed, because a crash
    /// cannot leave them any more.
    pub(crate) fn end(
        &mut self,
        id: u64,
        volume: VolumeId,
        blocks: &[u64],
        well: bool,
        forced: bool,
    ) {
        let Some(volume) = self.volumes.get_mut(&volume) else { return };
        assert!(!(well && volume.read_only), "a snapshot was written");
        for &block in blocks {
            let block = &mut volume.blocks[block as usize];
            block.end(id, well);
            if well && forced {
                let own = block.versions.iter().position(|version| version.born == id);
                block.versions.drain(..own.unwrap_or(0));
            }
        }
    }

    /// Versions that a flush that begins now makes durable.
    pub(crate) fn marks(&self) -> Marks {
        let blocks = self.volumes.iter().flat_map(|(&id, volume)| {
            let born = |block: &Block| block.versions[block.mark()].born;
            (0u64..).zip(&volume.blocks).map(move |(at, block)| (id, at, born(block)))
        });
        blocks.collect()
    }

    pub(crate) fn flushed(&mut self, marks: &Marks) {
        for (volume, at, born) in marks {
            let Some(volume) = self.volumes.get_mut(volume) else { continue };
            let block = &mut volume.blocks[*at as usize];
            // The version may be gone: a later flush, or a forced write, was faster.
            let is_it = |version: &Version| version.write == 0 && version.born == *born;
            if let Some(found) = block.versions.iter().position(is_it) {
                block.versions.drain(..found);
            }
        }
    }

    /// Compares read contents with those that were allowed when the read began, or since.
    pub(crate) fn check_read(
        &self,
        volume: VolumeId,
        first: u64,
        allowed: &[Vec<u32>],
        bytes: &[u8],
    ) {
        let Some(it) = self.volumes.get(&volume) else { return };
        let stamps = stamps_of(bytes);
        let stamps = stamps.unwrap_or_else(|| panic!("garbage in {volume:?} at {first}"));
        for ((sector, stamp), allowed) in (first..).zip(stamps).zip(allowed) {
            let block = &it.blocks[(sector / SECTORS) as usize];
            let later = block.versions.iter().map(|v| v.value[(sector % SECTORS) as usize]);
            assert!(
                allowed.contains(&stamp) || later.clone().any(|value| value == stamp),
                "{volume:?} sector {sector}: {stamp}, and {allowed:?} or {:?} expected",
                later.collect::<Vec<_>>()
            );
        }
    }

    /// Compares names with the contents that blocks had when the names were requested, or since.
    pub(crate) fn check_names(
        &self,
        volume: VolumeId,
        first: u64,
        before: &[Value],
        names: &[Mapped],
    ) {
        let Some(it) = self.volumes.get(&volume) else { return };
        assert_eq!(names.len(), before.len());
        for ((block, name), before) in (first..).zip(names).zip(before) {
            let block = &it.blocks[block as usize];
            let mut values = block.versions.iter().map(|version| &version.value).chain([before]);
            let fits = values.any(|value| match name {
                Mapped::Zeroes => *value == ZERO,
                Mapped::Block(_, content) => *content == content_of(value),
            });
            assert!(fits, "{volume:?}: {name:?} is not {before:?}, nor {block:?}");
        }
    }
}
