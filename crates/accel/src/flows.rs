//! The flow table of the classifier: which tag a flow has, and which of its packets wait.
//!
//! Entries are in a list by their last packet, the longest idle first. O(log flows) a packet, O(1)
//! for the list. State: about 150 B a flow.
//!
//! Invariants: a flow with packets under way or held, or in a move, is never forgotten; the number
//! of held packets is the sum over flows.

use crate::switch::Tag;
use crate::work::{FlowKey, GroupId, Way};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::{Nanos, Slab};

/// Number of an entry.
pub(crate) type FlowIndex = u32;

const NONE: u32 = u32::MAX;

/// Movement of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moving {
    /// No move: it stays where it is.
    No,
    /// Waiting until none of its packets is under way, to take this tag; `None`: there is no
    /// place for it, and it will be forgotten.
    Waits(Option<Tag>),
    /// Its state is on the way.
    Transfers(Tag),
}

/// A packet that waits: the time at which it came, its direction, and itself.
pub(crate) type Held = (Nanos, Way, Bytes);

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) group: GroupId,
    pub(crate) key: FlowKey,
    pub(crate) tag: Tag,
    pub(crate) moving: Moving,
    /// Packets under way.
    pub(crate) under_way: u32,
    /// Packets since the last look at the balance.
    pub(crate) recent: u32,
    held: VecDeque<Held>,
    seen: Nanos,
    before: u32,
    after: u32,
}

/// All flows.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: Slab<Flow>,
    index: BTreeMap<(GroupId, FlowKey), FlowIndex>,
    first: u32,
    last: u32,
    held: usize,
}

impl Default for Flows {
    fn default() -> Flows {
        Flows { flows: Slab::default(), index: BTreeMap::new(), first: NONE, last: NONE, held: 0 }
    }
}

impl Flows {
    pub(crate) fn find(&self, group: GroupId, key: FlowKey) -> Option<FlowIndex> {
        self.index.get(&(group, key)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Packets that are held, of all flows.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn get(&self, at: FlowIndex) -> &Flow {
        &self.flows[at]
    }

    pub(crate) fn get_mut(&mut self, at: FlowIndex) -> &mut Flow {
        &mut self.flows[at]
    }

    /// Every flow, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FlowIndex, &Flow)> {
        self.flows.iter()
    }

    /// Begins to count anew what flows send.
    pub(crate) fn clear_recent(&mut self) {
        self.flows.iter_mut().for_each(|(_, flow)| flow.recent = 0);
    }

    pub(crate) fn insert(
        &mut self,
        now: Nanos,
        group: GroupId,
        key: FlowKey,
        tag: Tag,
    ) -> FlowIndex {
        let at = self.flows.insert(Flow {
            group,
            key,
            tag,
            moving: Moving::No,
            under_way: 0,
            recent: 0,
            held: VecDeque::new(),
            seen: now,
            before: NONE,
            after: NONE,
        });
        let replaced = self.index.insert((group, key), at);
        assert!(replaced.is_none(), "a flow is in the table once");
        self.push_last(at);
        at
    }

    /// Forgets a flow; its tag.
    pub(crate) fn remove(&mut self, at: FlowIndex) -> Tag {
        self.unlink(at);
        let flow = self.flows.remove(at);
        assert!(flow.under_way == 0 && flow.held.is_empty(), "none of its packets is left");
        self.index.remove(&(flow.group, flow.key));
        flow.tag
    }

    /// Notes a packet of the flow.
    pub(crate) fn touch(&mut self, now: Nanos, at: FlowIndex) {
        self.unlink(at);
        self.push_last(at);
        let flow = &mut self.flows[at];
        assert!(now >= flow.seen, "time does not run backwards");
        flow.seen = now;
        flow.recent = flow.recent.saturating_add(1);
    }

    /// The flow that was idle longest, if it has been idle since `before` and nothing of it is
    /// under way. Looks at a few flows from the idle end, since busy ones may stand there.
    pub(crate) fn idle_since(&self, before: Nanos) -> Option<FlowIndex> {
        const LOOKS_MAX: usize = 16;
        let mut at = self.first;
        for _ in 0..LOOKS_MAX {
            if at == NONE || self.flows[at].seen > before {
                return None;
            }
            let flow = &self.flows[at];
            if flow.under_way == 0 && flow.moving == Moving::No && flow.held.is_empty() {
                return Some(at);
            }
            at = flow.after;
        }
        None
    }

    /// Holds a packet back, if there is room; `false` if there is none.
    pub(crate) fn hold(
        &mut self,
        at: FlowIndex,
        packet: Held,
        (flow_max, all_max): (usize, usize),
    ) -> bool {
        let held = &mut self.flows[at].held;
        if held.len() >= flow_max || self.held >= all_max {
            return false;
        }
        held.push_back(packet);
        self.held += 1;
        assert!(self.held <= all_max, "no more are held than may be");
        true
    }

    /// Takes all held packets of a flow, in order.
    pub(crate) fn take_held(&mut self, at: FlowIndex) -> VecDeque<Held> {
        let held = std::mem::take(&mut self.flows[at].held);
        assert!(self.held >= held.len(), "held packets are counted");
        self.held -= held.len();
        held
    }

    fn push_last(&mut self, at: FlowIndex) {
        let last = std::mem::replace(&mut self.last, at);
        let flow = &mut self.flows[at];
        assert!(flow.before == NONE && flow.after == NONE, "it is in no list");
        flow.before = last;
        match last {
            NONE => self.first = at,
            last => self.flows[last].after = at,
        }
    }

    fn unlink(&mut self, at: FlowIndex) {
        let flow = &mut self.flows[at];
        let (before, after) = (flow.before, flow.after);
        (flow.before, flow.after) = (NONE, NONE);
        assert!(before != at && after != at, "no flow follows itself");
        match before {
            NONE => self.first = after,
            before => self.flows[before].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.flows[after].before = before,
        }
    }
}
