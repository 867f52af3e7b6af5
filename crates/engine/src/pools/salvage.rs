//! Groups with damaged metadata: whether what is lost is accepted, and what it is, in words.

use thermocline_ports::Geometry;
use thermocline_units::ChunkId;
use thermocline_volume::{Group, Salvage, Settings};

/// Chunks that are named one by one.
const CHUNKS_TOLD: usize = 20;

/// Treatment of a group whose metadata is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Damage {
    /// Not opened.
    #[default]
    Refused,
    /// Opened without what is lost.
    Accepted,
}

impl Damage {
    /// Opens the group that the devices hold.
    pub fn open(self, settings: Settings, devices: &[Option<Geometry>]) -> Group {
        match self {
            Damage::Refused => Group::open(settings, devices),
            Damage::Accepted => Group::open_damaged(settings, devices),
        }
    }
}

impl From<bool> for Damage {
    fn from(accepted: bool) -> Damage {
        if accepted { Damage::Accepted } else { Damage::Refused }
    }
}

/// Losses, a sentence each; none: nothing was lost.
pub fn losses(group: &Group, salvage: &Salvage) -> Vec<String> {
    let mut told = Vec::new();
    if salvage.older_session {
        told.push(
            "the newest superblock is lost: everything since the last start but one is as it was \
             then, whatever was flushed since"
                .to_string(),
        );
    }
    if !salvage.journal_blocks.is_empty() {
        let blocks: Vec<String> = salvage.journal_blocks.iter().map(u64::to_string).collect();
        told.push(format!(
            "blocks {} of the journal are lost: chunks that were placed or moved by what they said \
             read as before that, or as zeroes",
            blocks.join(", ")
        ));
    }
    for (after, before) in &salvage.gaps {
        let after = after.map_or("the beginning".to_string(), |chunk| place(group, chunk));
        let before = before.map_or("the end".to_string(), |chunk| place(group, chunk));
        told.push(format!(
            "a block of the map is lost: what is between {after} and {before} reads as zeroes, as \
             far as the journal does not say more"
        ));
    }
    for chunk in salvage.displaced.iter().take(CHUNKS_TOLD) {
        let place = place(group, *chunk);
        told.push(format!("the chunk at {place} is lost: a later one has its place"));
    }
    if let Some(more @ 1..) = salvage.displaced.len().checked_sub(CHUNKS_TOLD) {
        told.push(format!("{more} further chunks are lost: later ones have their places"));
    }
    told
}

fn place(group: &Group, chunk: ChunkId) -> String {
    let volume = group.volumes().find(|volume| volume.id == chunk.volume);
    let name = volume.map_or(chunk.volume.to_string(), |volume| volume.name);
    format!("{name}, byte {}", u64::from(chunk.index) * group.chunk_size().0)
}
