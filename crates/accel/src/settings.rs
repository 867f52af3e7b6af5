//! Settings of a platform: cards, slots, and the bound of every queue. Plain data.

use thermocline_units::{Bytes, Nanos};

/// A slot (a region that can be configured by itself).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotSettings {
    /// Units of logic (LUTs), above 0.
    pub room: u32,
}

/// A card: slots that share one configuration port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardSettings {
    /// Its name.
    pub name: String,
    /// Its slots, one at least.
    pub slots: Vec<SlotSettings>,
    /// Part of a load that does not depend on the image.
    pub load_fixed: Nanos,
    /// Bytes a second that the configuration port takes, above 0.
    pub port_rate: Bytes,
}

impl CardSettings {
    /// A card of equal slots.
    pub fn new(name: &str, slots: usize, room: u32) -> CardSettings {
        CardSettings {
            name: name.to_string(),
            slots: vec![SlotSettings { room }; slots],
            load_fixed: Nanos::from_micros(1000),
            port_rate: Bytes(200_000_000),
        }
    }

    /// Time to load an image of `bytes`: fixed + bytes / port rate.
    pub fn load_time(&self, bytes: Bytes) -> Nanos {
        let moved = u128::from(bytes.0) * 1_000_000_000 / u128::from(self.port_rate.0.max(1));
        Nanos(self.load_fixed.0.saturating_add(moved.min(u128::from(u64::MAX)) as u64))
    }
}

/// Bounds and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Flows in the table; when it is full the flow that was idle longest goes, and without an idle
    /// one the packet is dropped.
    pub flows_max: usize,
    /// A flow without packets for so long is forgotten.
    pub flow_idle: Nanos,
    /// Packets that wait for a slot.
    pub queue_max: usize,
    /// Packets that wait for the processor, for each function. It is slow, and a flow that leaves
    /// it waits for its packets there, so this bounds how long that takes.
    pub processor_queue_max: usize,
    /// Packets of a batch.
    pub batch_max: usize,
    /// Batches at a worker at a time.
    pub batches_max: usize,
    /// Packets that are held for one flow while it moves.
    pub held_per_flow_max: usize,
    /// Packets that are held for all flows.
    pub held_max: usize,
    /// Flows of one transfer of state.
    pub transfer_max: usize,
    /// Flows that are moved to other slots for balance in one period.
    pub balance_max: usize,
    /// A worker that has not answered for so long has failed.
    pub patience: Nanos,
    /// A slot that failed is tried again after this time, doubled with each failure in a row.
    pub retry_after: Nanos,
    /// Time between two plans, and between two looks at the balance.
    pub period: Nanos,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            flows_max: 1 << 20,
            flow_idle: Nanos::from_secs(60),
            queue_max: 512,
            processor_queue_max: 64,
            batch_max: 32,
            batches_max: 2,
            held_per_flow_max: 64,
            held_max: 16_384,
            transfer_max: 256,
            balance_max: 256,
            patience: Nanos::from_secs(1),
            retry_after: Nanos::from_secs(1),
            period: Nanos::from_micros(10_000),
        }
    }
}
