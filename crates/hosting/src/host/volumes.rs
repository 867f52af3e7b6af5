//! Volumes that a host is to have, and how far each has come: asked for, refused and asked for
//! again, attached, lost to another host, being given back.
//!
//! Knows nothing of the agent: keys come in with what happened.

use crate::api::HostVolume;
use crate::reminders::Reminders;
use std::collections::BTreeMap;
use thermocline_hostcache::{BLOCK_BYTES, HostId, Shortage, VolumeKey};
use thermocline_units::Nanos;
use tokio::sync::oneshot;

/// Those who wait for a volume to be given back.
pub(super) type Waiting = oneshot::Sender<()>;

#[derive(Default)]
struct Volume {
    key: Option<VolumeKey>,
    blocks: u32,
    is_attached: bool,
    is_lost: bool,
    why: Option<String>,
    /// Time at which it is asked for again.
    again: Option<Nanos>,
    detaching: Vec<Waiting>,
    /// Host that it is given back for.
    to: Option<HostId>,
    /// Writes that found no room since it was attached.
    refused: u64,
    /// Room that was short last.
    short: Option<Shortage>,
    told: Reminders<Shortage>,
}

/// Meaning of a shortage, and what to do.
pub(super) fn short_of(shortage: Shortage) -> &'static str {
    match shortage {
        Shortage::Store => {
            "the store is full; delete volumes or snapshots there, or trim in guests"
        }
        Shortage::Logical => {
            "the volume's logical quota is used up; raise it (`thermocline store volume quota`), \
             or trim in the guest"
        }
        Shortage::Physical => {
            "the volume's physical quota is used up; raise it (`thermocline store volume quota`), \
             or trim in the guest"
        }
    }
}

/// Next step of giving a volume back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GiveBack {
    /// The wait is over: the volume is not here any more; what was asked of the agent under this
    /// key is.
    Now(Option<VolumeKey>),
    /// The volume must be flushed first.
    Flush(VolumeKey),
}

/// All of them, by name.
#[derive(Default)]
pub(super) struct Volumes(BTreeMap<String, Volume>);

impl Volumes {
    pub(super) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the volume is here or asked for, or will be.
    pub(super) fn is_wanted(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|volume| volume.key.is_some() || volume.again.is_some())
    }

    /// True while it is being given back.
    pub(super) fn is_detaching(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|volume| !volume.detaching.is_empty())
    }

    /// True if the host knows of it, also if it was lost.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// True if it is here.
    pub(super) fn is_attached(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|volume| volume.is_attached)
    }

    pub(super) fn key(&self, name: &str) -> Option<VolumeKey> {
        self.0.get(name)?.key
    }

    /// Takes note that it is asked for under this key.
    pub(super) fn asked(&mut self, name: &str, key: VolumeKey) {
        let volume = self.0.entry(name.to_string()).or_default();
        (volume.key, volume.again, volume.is_lost) = (Some(key), None, false);
    }

    /// Those that are to be asked for again.
    pub(super) fn due(&self, now: Nanos) -> Vec<String> {
        let due = self.0.iter().filter(|(_, volume)| volume.again.is_some_and(|at| at <= now));
        due.map(|(name, _)| name.clone()).collect()
    }

    /// Time at which one is to be asked for again.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.0.values().filter_map(|volume| volume.again).min()
    }

    fn of(&mut self, key: VolumeKey) -> Option<(String, &mut Volume)> {
        let found = self.0.iter_mut().find(|(_, volume)| volume.key == Some(key));
        found.map(|(name, volume)| (name.clone(), volume))
    }

    /// Takes note that it is here; its name.
    pub(super) fn attached(&mut self, key: VolumeKey, blocks: u32) -> Option<String> {
        let (name, volume) = self.of(key)?;
        (volume.blocks, volume.is_attached, volume.is_lost) = (blocks, true, false);
        volume.why = None;
        Some(name)
    }

    /// Takes note that it was refused, and is asked for again at this time; its name, if the reason
    /// is a new one.
    pub(super) fn refused(&mut self, key: VolumeKey, why: &str, again: Nanos) -> Option<String> {
        let (name, volume) = self.of(key)?;
        (volume.key, volume.again) = (None, Some(again));
        let is_new = volume.why.as_deref() != Some(why);
        volume.why = Some(why.to_string());
        is_new.then_some(name)
    }

    /// Takes note that a write found no room; the volume's name, unless that was told lately.
    pub(super) fn refused_write(
        &mut self,
        key: VolumeKey,
        shortage: Shortage,
        now: Nanos,
    ) -> Option<String> {
        let (name, volume) = self.of(key)?;
        volume.refused += 1;
        volume.short = Some(shortage);
        volume.told.is_due(shortage, now).then_some(name)
    }

    /// Takes note that it is lost; its name. It is asked for again at a time, or when somebody says
    /// so.
    pub(super) fn lost(
        &mut self,
        key: VolumeKey,
        why: &str,
        again: Option<Nanos>,
    ) -> Option<String> {
        let (name, volume) = self.of(key)?;
        (volume.key, volume.is_attached, volume.is_lost) = (None, false, true);
        volume.detaching.clear();
        volume.to = None;
        volume.again = again;
        volume.why = Some(why.to_string());
        Some(name)
    }

    /// Begins to give it back, for another host if one is named; `told` is told when that is done.
    pub(super) fn give_back(&mut self, name: &str, to: Option<HostId>, told: Waiting) -> GiveBack {
        let Some(volume) = self.0.get_mut(name) else {
            tell(told);
            return GiveBack::Now(None);
        };
        match volume.key {
            Some(key) if volume.is_attached => {
                volume.detaching.push(told);
                // Who named a host before is not overruled by somebody who names none.
                volume.to = to.or(volume.to);
                GiveBack::Flush(key)
            }
            key => {
                self.0.remove(name);
                tell(told);
                GiveBack::Now(key)
            }
        }
    }

    /// Takes note that it could not be flushed, so it stays; its name and its blocks. Who waited
    /// hears of it.
    pub(super) fn stays(&mut self, key: VolumeKey) -> Option<(String, u32)> {
        let (name, volume) = self.of(key)?;
        volume.detaching.clear();
        volume.to = None;
        Some((name, volume.blocks))
    }

    /// Takes note that it was flushed and given back; its name, and the host that it is for.
    pub(super) fn given_back(&mut self, key: VolumeKey) -> Option<(String, Option<HostId>)> {
        let (name, volume) = self.of(key)?;
        volume.detaching.drain(..).for_each(tell);
        let to = volume.to;
        self.0.remove(&name);
        Some((name, to))
    }

    /// All of them for people; `fence` knows the fencing numbers of leases.
    pub(super) fn status(&self, fence: impl Fn(VolumeKey) -> u64) -> Vec<HostVolume> {
        let told = self.0.iter().map(|(name, volume)| HostVolume {
            name: name.clone(),
            state: match (volume.is_attached, volume.is_lost) {
                (true, _) => "attached".to_string(),
                (false, true) => "lost".to_string(),
                (false, false) => "waiting".to_string(),
            },
            why: volume.why.clone(),
            size_bytes: u64::from(volume.blocks) * BLOCK_BYTES as u64,
            fence: volume.key.map_or(0, &fence),
            refused_writes: volume.refused,
            last_refusal: volume.short.map(|shortage| short_of(shortage).to_string()),
        });
        told.collect()
    }
}

/// Tells somebody who may not wait any more.
fn tell(told: Waiting) {
    let _ = told.send(());
}

#[cfg(test)]
mod tests;
