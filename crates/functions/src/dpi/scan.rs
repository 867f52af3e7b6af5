//! Inspection of the next bytes of a direction: automata, elements, rules, and what they decide.
//!
//! The result does not depend on how a stream is cut into pieces: matches count in the order of
//! their ends, and the first one of a rule that passes or drops decides. At the same byte, pass
//! goes before drop.

use super::rules::Action;
use super::ruleset::{Ruleset, Seen, Use};
use super::stream::{Direction, Partial, flag};
use std::collections::BTreeMap;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// Decision about a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// A rule passes it.
    Pass,
    /// A rule drops it.
    Drop,
    /// Too many rules are partly matched.
    Overflow,
}

/// Key of a direction in the table of spilled partial matches.
pub(super) type Key = (u32, usize);

/// Buffers that are used again for each piece, and partial matches that found no room in their
/// direction.
#[derive(Debug)]
pub(super) struct Scanner {
    hits: Vec<(usize, Use)>,
    /// Rules that matched, of the piece that is looked at; number of the packet at which each rule
    /// was told last.
    matched: Vec<(Action, u16)>,
    told: Vec<u64>,
    packet: u64,
    spilled: BTreeMap<Key, Vec<Partial>>,
    spilled_count: usize,
    spilled_max: usize,
}

/// Partial matches that one direction may have beside those that it holds itself.
const SPILLED_BY_DIRECTION_MAX: usize = 64;

/// Bytes that are run over before what was found in them is weighed. It bounds the list of what was
/// found; a usual segment is one part.
const PART_BYTES: usize = 2048;

impl Scanner {
    pub(super) fn new(rules: &Ruleset, spilled_max: usize) -> Scanner {
        Scanner {
            hits: Vec::new(),
            matched: Vec::new(),
            told: vec![0; rules.rules.len()],
            packet: 0,
            spilled: BTreeMap::new(),
            spilled_count: 0,
            spilled_max,
        }
    }

    /// Begins a packet: each rule is told once for it.
    pub(super) fn begin_packet(&mut self) {
        self.packet += 1;
    }

    /// Forgets what a direction has spilled.
    pub(super) fn forget(&mut self, key: Key) {
        if let Some(partial) = self.spilled.remove(&key) {
            self.spilled_count -= partial.len();
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.hits.capacity() * size_of::<(usize, Use)>()
            + self.told.capacity() * 8
            + self.spilled_count * size_of::<Partial>()
            + self.spilled.len() * 64
    }

    /// Rules that match by their header alone. `tell` is called for each rule that matched.
    pub(super) fn headers(
        &mut self,
        rules: &Ruleset,
        seen: &Seen,
        mut tell: impl FnMut(u32, bool),
    ) -> Option<Decision> {
        self.matched.clear();
        for &number in &rules.header_only {
            if rules.rules[usize::from(number)].applies(seen) {
                self.matched.push((rules.rules[usize::from(number)].action, number));
            }
        }
        self.conclude(rules, &mut tell)
    }

    /// The next bytes of a direction.
    pub(super) fn inspect_piece(
        &mut self,
        rules: &Ruleset,
        seen: &Seen,
        (key, direction): (Key, &mut Direction),
        piece: &[u8],
        mut tell: impl FnMut(u32, bool),
    ) -> Option<Decision> {
        let mut parts = piece.chunks(PART_BYTES);
        parts.find_map(|part| self.inspect_part(rules, seen, (key, direction), part, &mut tell))
    }

    fn inspect_part(
        &mut self,
        rules: &Ruleset,
        seen: &Seen,
        (key, direction): (Key, &mut Direction),
        piece: &[u8],
        tell: &mut impl FnMut(u32, bool),
    ) -> Option<Decision> {
        let mut hits = std::mem::take(&mut self.hits);
        hits.clear();
        for (nth, table) in rules.tables.iter().enumerate() {
            let uses = &rules.uses[nth];
            let from = match mutant("automaton_begins_anew_with_each_segment") {
                true => table.start(),
                false => direction.states[nth],
            };
            direction.states[nth] = table.run(from, piece, |end, patterns| {
                for &pattern in patterns {
                    hits.extend(uses[pattern as usize].iter().map(|&found| (end, found)));
                }
            });
        }
        if rules.tables.len() > 1 {
            hits.sort_by_key(|(end, _)| *end);
        }
        let decision = self.weigh(rules, seen, (key, direction), (piece, &hits), tell);
        self.hits = hits;
        direction.position += piece.len() as u64;
        direction.note_cases(piece, rules.cases_kept);
        decision
    }

    /// Goes through the elements that were found, byte by byte.
    fn weigh(
        &mut self,
        rules: &Ruleset,
        seen: &Seen,
        (key, direction): (Key, &mut Direction),
        (piece, hits): (&[u8], &[(usize, Use)]),
        tell: &mut impl FnMut(u32, bool),
    ) -> Option<Decision> {
        for hits in hits.chunk_by(|a, b| a.0 == b.0) {
            self.matched.clear();
            for (end, found) in hits {
                let position = direction.position + *end as u64;
                let length = found.length as usize;
                let is_wanted = found
                    .cases
                    .is_none_or(|cases| direction.cases_before(piece, *end, length) == cases)
                    && found.is_in_place(position)
                    && rules.rules[usize::from(found.rule)].applies(seen);
                if !is_wanted {
                    continue;
                }
                match self.complete(rules, key, direction, found, position) {
                    Ok(true) => {
                        let action = rules.rules[usize::from(found.rule)].action;
                        self.matched.push((action, found.rule));
                    }
                    Ok(false) => {}
                    Err(overflow) => return Some(overflow),
                }
            }
            if let Some(decision) = self.conclude(rules, tell) {
                return Some(decision);
            }
        }
        None
    }

    /// Notes an element that was found; true if it was the last one of its rule.
    fn complete(
        &mut self,
        rules: &Ruleset,
        key: Key,
        direction: &mut Direction,
        found: &Use,
        end: u64,
    ) -> Result<bool, Decision> {
        let elements = rules.rules[usize::from(found.rule)].elements;
        if elements == 1 {
            return Ok(true);
        }
        let full = ((1u32 << elements) - 1) as u16;
        let mut partial = self.find(key, direction, found.rule);
        let is_new = partial.seen == 0;
        let bit = 1u16 << found.element;
        if partial.seen & bit != 0 {
            return Ok(false);
        }
        if let Some(gap) = found.gap {
            let before = 1u16 << (found.element - 1);
            let start = (end as u32).wrapping_sub(found.length);
            let distance = start.wrapping_sub(partial.end);
            // The rule's literal may reach back over the end: then the distance is below zero.
            let is_behind = distance < u32::MAX - 2 * super::rules::CONTENT_BYTES_MAX as u32;
            let is_far = (is_behind && distance >= gap) || mutant("distance_does_not_count");
            if partial.seen & before == 0 || !is_far {
                return Ok(false);
            }
        }
        partial.seen |= bit;
        if found.leads {
            partial.end = end as u32;
        }
        if partial.seen == full {
            met("a rule with several elements matched");
            self.put(key, direction, Partial { seen: 0, ..partial }, is_new)?;
            return Ok(true);
        }
        self.put(key, direction, partial, is_new)?;
        Ok(false)
    }

    fn find(&self, key: Key, direction: &Direction, rule: u16) -> Partial {
        let mut own = direction.partial.iter();
        if let Some(partial) = own.find(|partial| partial.seen != 0 && partial.rule == rule) {
            return *partial;
        }
        if direction.has(flag::SPILLED) {
            let spilled = self.spilled.get(&key).into_iter().flatten();
            let mut spilled = spilled.filter(|partial| partial.rule == rule);
            return spilled.next().copied().unwrap_or(Partial { rule, ..Partial::default() });
        }
        Partial { rule, ..Partial::default() }
    }

    /// Writes a partial match back; with nothing seen, its place becomes free.
    fn put(
        &mut self,
        key: Key,
        direction: &mut Direction,
        partial: Partial,
        is_new: bool,
    ) -> Result<(), Decision> {
        let own = direction.partial.iter_mut();
        let mut own = own.filter(|own| match is_new {
            true => own.seen == 0,
            false => own.seen != 0 && own.rule == partial.rule,
        });
        if let Some(place) = own.next() {
            *place = partial;
            return Ok(());
        }
        if is_new && partial.seen == 0 {
            return Ok(());
        }
        met("a partial match found no room in its direction");
        let spilled = self.spilled.entry(key).or_default();
        direction.flags |= flag::SPILLED;
        match spilled.iter().position(|other| other.rule == partial.rule) {
            Some(at) if partial.seen == 0 => {
                spilled.swap_remove(at);
                self.spilled_count -= 1;
            }
            Some(at) => spilled[at] = partial,
            None => {
                let is_full = spilled.len() >= SPILLED_BY_DIRECTION_MAX;
                if is_full || self.spilled_count >= self.spilled_max {
                    return Err(Decision::Overflow);
                }
                spilled.push(partial);
                self.spilled_count += 1;
            }
        }
        Ok(())
    }

    /// Tells of the rules that matched at one byte, and decides.
    fn conclude(&mut self, rules: &Ruleset, tell: &mut impl FnMut(u32, bool)) -> Option<Decision> {
        self.matched.sort_unstable();
        self.matched.dedup();
        let first = self.matched.first()?.0;
        if first == Action::Pass && !mutant("drop_goes_before_pass") {
            return Some(Decision::Pass);
        }
        for &(action, number) in &self.matched {
            let told = &mut self.told[usize::from(number)];
            if std::mem::replace(told, self.packet) != self.packet && action != Action::Pass {
                tell(rules.rules[usize::from(number)].sid, action == Action::Drop);
            }
        }
        self.matched.iter().any(|(action, _)| *action == Action::Drop).then_some(Decision::Drop)
    }
}
