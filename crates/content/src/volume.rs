//! Volumes in memory, and the counts that follow from what they map.

use crate::blocks::Blocks;
use crate::format::VolumeRecord;
use crate::name::{BLOCK, Domain};
use crate::request::{Quotas, Tag};
use crate::tree::{Nodes, Ref};
use std::collections::BTreeMap;
use thermocline_units::{Bytes, VolumeId};

/// A volume in memory.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) size: Bytes,
    pub(crate) domain: Domain,
    pub(crate) read_only: bool,
    pub(crate) quotas: Quotas,
    pub(crate) mapped: u64,
    pub(crate) version: u64,
    /// Volume that it was made of; 0: none.
    pub(crate) origin: VolumeId,
    pub(crate) tag: Tag,
    pub(crate) root: u32,
    pub(crate) level: u8,
}

impl Volume {
    /// The volume that a record describes, with this node as its root.
    pub(crate) fn of(record: VolumeRecord, root: u32, nodes: &Nodes) -> Volume {
        let blocks = record.size.0.div_ceil(u64::from(BLOCK));
        Volume {
            name: record.name,
            size: record.size,
            domain: record.domain,
            read_only: record.read_only,
            quotas: record.quotas,
            mapped: record.mapped,
            version: record.version,
            origin: record.origin,
            tag: record.tag,
            root,
            level: nodes.root_level(blocks),
        }
    }

    /// A volume that shares the map of this one, whose number is `id`.
    pub(crate) fn copy(
        &self,
        id: VolumeId,
        name: String,
        read_only: bool,
        nodes: &mut Nodes,
    ) -> Volume {
        nodes.share(self.root);
        Volume { name, read_only, origin: id, tag: Tag::default(), ..self.clone() }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.size.0.div_ceil(u64::from(BLOCK))
    }
}

/// Counts that follow from references; made anew at each opening.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Blocks that some leaf names.
    pub(crate) referenced: u32,
    /// Blocks charged, by volume.
    pub(crate) charged: BTreeMap<VolumeId, u64>,
}

impl Ledger {
    pub(crate) fn note(&mut self, blocks: &mut Blocks, change: Ref) {
        match change {
            Ref::Add(number) => {
                if blocks.add_ref(number) {
                    self.referenced += 1;
                    *self.charged.entry(blocks.owner(number)).or_default() += 1;
                }
            }
            Ref::Drop(number) => {
                if blocks.drop_ref(number) {
                    self.referenced -= 1;
                    if let Some(charged) = self.charged.get_mut(&blocks.owner(number)) {
                        *charged -= 1;
                    }
                }
            }
        }
    }
}
