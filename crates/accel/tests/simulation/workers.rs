//! Workers of a simulation: three functions with state, on slots and on the processor.
//!
//! - `mark` (stateful, alters): appends its name and how many packets of the flow it has seen.
//! - `order` (stateful): panics when a packet of a flow comes out of order.
//! - `sieve` (keeps nothing): drops one packet in seven, by its number.

use bytes::Bytes;
use std::collections::BTreeMap;
use thermocline_accel::{Batched, FlowKey, FunctionId, GroupId, Place, SlotId, Verdict, Work};

pub(crate) const MARK: FunctionId = FunctionId(0);
pub(crate) const ORDER: FunctionId = FunctionId(1);
pub(crate) const SIEVE: FunctionId = FunctionId(2);

/// Bytes of a packet as it is offered: its flow, its number, and noise.
pub(crate) const PACKET_BYTES: usize = 16;

pub(crate) fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("a packet has a number"))
}

type Flow = (GroupId, FlowKey);

/// State of one worker.
#[derive(Debug, Default)]
struct Worker {
    function: Option<FunctionId>,
    states: BTreeMap<Flow, u32>,
}

/// All workers.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    workers: BTreeMap<Place, Worker>,
}

impl Workers {
    /// The function that a slot holds.
    pub(crate) fn holds(&self, slot: SlotId) -> Option<FunctionId> {
        self.workers.get(&Place::Slot(slot)).and_then(|worker| worker.function)
    }

    /// A slot is configured: it knows nothing.
    pub(crate) fn configure(&mut self, slot: SlotId, function: FunctionId) {
        let worker = Worker { function: Some(function), states: BTreeMap::new() };
        self.workers.insert(Place::Slot(slot), worker);
    }

    /// A slot is not to be trusted any more.
    pub(crate) fn wipe(&mut self, slot: SlotId) {
        self.workers.remove(&Place::Slot(slot));
    }

    fn at(&mut self, place: Place, function: FunctionId) -> &mut Worker {
        if let Place::Processor(own) = place {
            assert_eq!(own, function, "a lane of the processor has one function");
            self.workers.entry(place).or_default().function = Some(function);
        }
        let worker = self.workers.get_mut(&place);
        let worker = worker.unwrap_or_else(|| panic!("{place:?} runs nothing"));
        assert_eq!(worker.function, Some(function), "{place:?} runs another function");
        worker
    }

    /// Does the work of an honest worker; the state that an import brings is taken over.
    pub(crate) fn process(
        &mut self,
        place: Place,
        function: FunctionId,
        packets: &[Batched],
    ) -> Vec<Verdict> {
        let worker = self.at(place, function);
        packets.iter().map(|packet| worker.one(function, packet)).collect()
    }

    pub(crate) fn export(&mut self, work: &Work) -> Bytes {
        let Work::Export { place, function, flows, .. } = work else { panic!("no export") };
        let worker = self.at(*place, *function);
        let mut state = Vec::new();
        for flow in flows {
            if let Some(value) = worker.states.remove(flow) {
                state.extend(flow.0.0.to_le_bytes());
                state.extend(flow.1.0.to_le_bytes());
                state.extend(value.to_le_bytes());
            }
        }
        state.into()
    }

    pub(crate) fn import(&mut self, place: Place, function: FunctionId, state: &[u8]) {
        let worker = self.at(place, function);
        for entry in state.chunks_exact(16) {
            let group = GroupId(u32::from_le_bytes(entry[..4].try_into().unwrap()));
            let flow = FlowKey(u64::from_le_bytes(entry[4..12].try_into().unwrap()));
            let value = u32::from_le_bytes(entry[12..].try_into().unwrap());
            worker.states.insert((group, flow), value);
        }
    }
}

impl Worker {
    fn one(&mut self, function: FunctionId, packet: &Batched) -> Verdict {
        let number = number(&packet.bytes);
        let state = self.states.entry((packet.group, packet.flow)).or_default();
        match function {
            MARK => {
                *state += 1;
                let mut bytes = packet.bytes.to_vec();
                bytes.push(b'M');
                bytes.extend(state.to_le_bytes());
                Verdict::Replace(bytes.into())
            }
            ORDER => {
                assert!(number > *state, "{number} came to a function after {state}");
                *state = number;
                if number.is_multiple_of(5) { Verdict::Alert(number) } else { Verdict::Pass }
            }
            _ if number % 7 == 3 => Verdict::Drop,
            _ => Verdict::Pass,
        }
    }
}
