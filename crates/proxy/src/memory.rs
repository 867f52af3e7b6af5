//! State of the servers as text, for a process that takes over.
//!
//! A reader of another version passes over what it does not know, and takes what is missing for
//! nothing known.

use super::admin::AdminApi;
use serde::{Deserialize, Serialize};
use thermocline_balancer::Memory;
use thermocline_units::Nanos;

/// Bytes of the text; backends for which there is no room are left out. Half of what Linux takes
/// for one variable of a process.
const TEXT_MAX: usize = 64 * 1024;

/// State of a backend.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct MemoryJson {
    name: String,
    draining: bool,
    fit: Option<bool>,
    out_for_ns: Option<u64>,
    ejections: u32,
    ramped_for_ns: Option<u64>,
}

impl AdminApi {
    /// State of the servers, for a process that takes over.
    pub fn memories(&self) -> String {
        let memories = self.shared.dispatch(|dispatcher, now| dispatcher.memories(now));
        let (mut told, mut room) = (Vec::new(), TEXT_MAX - 2);
        for memory in memories {
            let json = MemoryJson {
                name: memory.name,
                draining: memory.draining,
                fit: memory.fit,
                out_for_ns: memory.out_for.map(|time| time.0),
                ejections: memory.ejections,
                ramped_for_ns: memory.ramped_for.map(|time| time.0),
            };
            let Ok(text) = serde_json::to_string(&json) else { continue };
            if let Some(left) = room.checked_sub(text.len() + 1) {
                room = left;
                told.push(text);
            }
        }
        format!("[{}]", told.join(","))
    }

    /// Goes on from what the process before has known.
    ///
    /// # Errors
    /// When the text is none of [`AdminApi::memories`]; nothing has changed then.
    pub fn remember(&self, text: &str) -> Result<(), serde_json::Error> {
        let told: Vec<MemoryJson> = serde_json::from_str(text)?;
        let memory = |json: MemoryJson| Memory {
            name: json.name,
            draining: json.draining,
            fit: json.fit,
            out_for: json.out_for_ns.map(Nanos),
            ejections: json.ejections,
            ramped_for: json.ramped_for_ns.map(Nanos),
        };
        let memories: Vec<Memory> = told.into_iter().map(memory).collect();
        self.shared.dispatch(|dispatcher, now| dispatcher.remember(now, &memories));
        Ok(())
    }
}
