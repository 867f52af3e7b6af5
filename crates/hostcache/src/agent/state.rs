//! The state that all parts of an agent share: volumes and their maps, contents, requests to the
//! server, and what waits to be sent or told. It decides nothing.

use super::asked::{Asked, Tickets};
use super::contents::Contents;
use super::events::{AgentCounts, Event, VolumeKey};
use super::volume::Volume;
use crate::blocks::Blocks;
use crate::flash::Flash;
use crate::map::Known;
use crate::messages::{ContentId, ToServer};
use crate::settings::{AgentSettings, SettingsError};
use std::collections::{BTreeMap, VecDeque};
use thermocline_policy::lookup::Admission;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::Rng;

/// The shared state.
pub(super) struct AgentState {
    pub(super) settings: AgentSettings,
    pub(super) admission: Admission,
    pub(super) contents: Contents,
    pub(super) volumes: BTreeMap<VolumeKey, Volume>,
    /// Volumes by their numbers at the server.
    pub(super) by_number: BTreeMap<u32, VolumeKey>,
    pub(super) tickets: Tickets,
    /// Requests to the server without an answer.
    pub(super) requests: Asked,
    pub(super) out: VecDeque<ToServer>,
    pub(super) events: VecDeque<Event>,
    pub(super) counts: AgentCounts,
}

impl AgentState {
    /// State of an agent with an empty cache.
    ///
    /// # Errors
    /// A setting does not fit.
    pub(super) fn new(settings: AgentSettings) -> Result<AgentState, SettingsError> {
        let policy = crate::settings::cache(
            &settings.cache_policy,
            settings.cache_blocks,
            settings.block_bytes,
            settings.seed,
        )?;
        let admission = PolicySpec::parse(&settings.lookup)?.build_lookup()?.admission();
        let secret = Rng::seeded(settings.seed).next_u64();
        let flash = match &settings.flash {
            None => None,
            Some(of) => {
                let (slots, seed) = (of.blocks.max(1), settings.seed);
                let policy = crate::settings::cache(&of.policy, slots, settings.block_bytes, seed)?;
                Some(Flash::new(policy, slots, admission.flash_shares_min))
            }
        };
        let blocks = Blocks::new(settings.block_bytes, policy);
        let contents =
            Contents::new(blocks, flash, settings.hash_of, secret, settings.protocol.tracker);
        Ok(AgentState {
            settings,
            admission,
            contents,
            volumes: BTreeMap::new(),
            by_number: BTreeMap::new(),
            tickets: Tickets::default(),
            requests: Asked::default(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            counts: AgentCounts::default(),
        })
    }

    /// Names a block in a volume's map.
    pub(super) fn set_map(&mut self, volume: VolumeKey, block: u32, known: Known) {
        let contents = &mut self.contents;
        if let Some(volume) = self.volumes.get_mut(&volume) {
            volume.map.set(block, known, |content, by| contents.change_refs(content, by));
        }
    }

    /// Notes blocks of which the server says that they have content that this host was sent.
    pub(super) fn pushed(&mut self, id: ContentId, version: u64, blocks: &[(u32, u32)]) {
        let Some(content) = self.contents.with_id(id) else { return };
        for &(number, block) in blocks {
            let Some(&key) = self.by_number.get(&number) else { continue };
            let Some(volume) = self.volumes.get_mut(&key) else { continue };
            if block < volume.blocks && volume.map.learns(block, version) {
                self.set_map(key, block, Known::Content(content));
            }
        }
    }
}
