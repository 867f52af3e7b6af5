//! What volumes must hold: for each block, the versions that a crash may leave.

use std::collections::BTreeMap;
use thermocline_content::{BLOCK, ContentId, Domain};
use thermocline_units::VolumeId;

/// A block's contents: a stamp for each of its eight sectors, 0 for zeroes.
pub(crate) type Value = [u32; 8];

pub(crate) const SECTORS: u64 = 8;
pub(crate) const ZERO: Value = [0; 8];

/// The bytes that stand for stamps.
pub(crate) fn bytes_of(stamps: &[u32]) -> Vec<u8> {
    stamps.iter().flat_map(|stamp| stamp.to_le_bytes().repeat(128)).collect()
}

/// The stamps that bytes stand for; `None` if they are no sectors that anybody wrote.
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
    /// The write that brings it; 0: it is there.
    pub(crate) write: u64,
    /// The write that brought it.
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

    /// The write ended.
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
    /// In sectors.
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

    /// Bytes of blocks that are not zeroes.
    pub(crate) fn mapped(&self) -> u64 {
        let mapped = self.blocks.iter().filter(|block| block.now() != ZERO).count() as u64;
        mapped * u64::from(BLOCK)
    }
}

/// Everything that must be there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
}

impl Model {
    /// Different contents in use, over all domains.
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
}
