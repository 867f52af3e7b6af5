//! Tables of deterministic automata: states in rows, classes of bytes in columns.
//!
//! The libraries build automata; this is the form in which they run here. States are numbered
//! densely, so that a state which somebody else wrote down can be checked, and a pattern counts as
//! found with its last byte, so that the packet that carries it can be stopped. A state is the
//! number of its row times the number of columns. States in which patterns end come last, so one
//! comparison finds them.

use super::filter::{Filter, GROUP};
use aho_corasick::automaton::Automaton as _;
use aho_corasick::{Anchored, MatchKind};
use regex_automata::MatchKind as RegexMatchKind;
use regex_automata::dfa::{Automaton as _, dense};
use regex_automata::nfa::thompson::NFA;
use regex_automata::util::start;
use std::collections::BTreeMap;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// An automaton.
#[derive(Debug, Clone)]
pub(super) struct Table {
    classes: [u8; 256],
    next: Vec<u32>,
    first_match: u32,
    columns: u32,
    start: u32,
    /// For each state from `first_match` on, where its patterns begin in `patterns`.
    ends: Vec<u32>,
    patterns: Vec<u32>,
    /// Finds most of the bytes over which the automaton need not run.
    filter: Option<Filter>,
    /// States from which bytes may be skipped: those of expressions in which no match has begun.
    /// `None`: any, because what an automaton of literals knows lies in the last bytes.
    at_rest: Option<[u32; 2]>,
}

/// Share of a piece, 1 / this, over which the automaton may run piecemeal before the rest is no
/// longer filtered. It bounds what bytes can cost that were chosen to pass the filter.
const FILTERED_SHARE: usize = 4;

/// Bytes between two looks whether an automaton of expressions is at rest.
const REST_LOOK: usize = 4;

/// Bytes of running that one candidate costs beside them.
const CANDIDATE_COST: usize = 4;

/// A reason why there is no automaton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TooLarge {
    /// Its states would be more than may be.
    States,
    /// The library refused it.
    Library(String),
}

impl Table {
    pub(super) fn start(&self) -> u32 {
        self.start
    }

    /// True if a number that came from outside is a state.
    pub(super) fn has_state(&self, state: u32) -> bool {
        state.is_multiple_of(self.columns) && (state as usize) < self.next.len()
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::memory);
        (self.next.capacity() + self.ends.capacity() + self.patterns.capacity()) * 4 + filter
    }

    /// Number of states.
    pub(super) fn states(&self) -> usize {
        self.next.len() / self.columns as usize
    }

    /// A number that differs, most likely, if the table does.
    pub(super) fn fingerprint(&self) -> u32 {
        let numbers = self.next.iter().chain(&self.patterns).chain(&self.ends);
        let bytes = numbers.flat_map(|number| number.to_le_bytes());
        let bytes: Vec<u8> = bytes.chain(self.classes).collect();
        crc32c::crc32c(&bytes)
    }

    /// Runs over bytes from a state; calls `found` with the end in `bytes`, counted from 1, and the
    /// patterns that end there. Gives the state behind.
    #[inline]
    pub(super) fn run(
        &self,
        state: u32,
        bytes: &[u8],
        mut found: impl FnMut(usize, &[u32]),
    ) -> u32 {
        let mut run = Run { table: self, at: 0, state };
        if let Some(filter) = &self.filter {
            run.skip(filter, bytes, &mut found);
        }
        run.run_to(bytes.len(), bytes, &mut found);
        run.state
    }

    #[cold]
    fn ending(&self, state: u32) -> &[u32] {
        let nth = ((state - self.first_match) / self.columns) as usize;
        &self.patterns[self.ends[nth] as usize..self.ends[nth + 1] as usize]
    }

    /// An automaton of literals, without regard to case: its patterns are those of `literals`.
    pub(super) fn of_literals(literals: &[Vec<u8>], states_max: usize) -> Result<Table, TooLarge> {
        let mut builder = aho_corasick::nfa::noncontiguous::Builder::new();
        builder.match_kind(MatchKind::Standard).ascii_case_insensitive(true).prefilter(false);
        let library = |error: aho_corasick::BuildError| TooLarge::Library(error.to_string());
        let nfa = builder.build(literals).map_err(library)?;
        let mut builder = aho_corasick::dfa::Builder::new();
        builder.match_kind(MatchKind::Standard).prefilter(false);
        let dfa = builder.build_from_noncontiguous(&nfa).map_err(library)?;
        let start = dfa.start_state(Anchored::No).map_err(|e| TooLarge::Library(e.to_string()))?;
        let table = build(
            literal_classes(literals),
            start,
            states_max,
            |state, byte| dfa.next_state(Anchored::No, state, byte),
            |state| {
                let count = if dfa.is_match(state) { dfa.match_len(state) } else { 0 };
                (0..count).map(|nth| dfa.match_pattern(state, nth).as_u32()).collect()
            },
        )?;
        Ok(Table { filter: Some(Filter::new(literals)), ..table })
    }

    /// The same automaton of expressions with a filter, if each of its matches begins with one of
    /// these bytes, and no expression looks around.
    fn behind_filter_of(self, beginnings: &[Vec<u8>]) -> Table {
        let firsts = || beginnings.iter().filter_map(|bytes| bytes.first());
        let is_first = |byte: u8| firsts().any(|first| first.eq_ignore_ascii_case(&byte));
        let Some(other) = (0..=255u8).find(|byte| !is_first(*byte)) else { return self };
        let step =
            |state: u32| self.next[state as usize + usize::from(self.classes[usize::from(other)])];
        let rest = step(self.start);
        if step(rest) != rest || rest >= self.first_match || self.start >= self.first_match {
            return self;
        }
        let at_rest = Some([self.start, rest]);
        Table { filter: Some(Filter::new(beginnings)), at_rest, ..self }
    }

    /// An automaton of expressions, which look at nothing behind their end.
    pub(super) fn of_expressions(
        expressions: &[&str],
        states_max: usize,
    ) -> Result<Table, TooLarge> {
        let library = |error: &dyn std::fmt::Display| TooLarge::Library(error.to_string());
        let syntax = regex_automata::util::syntax::Config::new().unicode(false).utf8(false);
        let nfa = NFA::compiler()
            .configure(NFA::config().utf8(false).nfa_size_limit(Some(states_max * 64)))
            .syntax(syntax)
            .build_many(expressions)
            .map_err(|error| library(&error))?;
        // Rows of the library have a power of two of columns, at most 512, of four bytes.
        let limit = states_max.saturating_mul(64 * 4);
        let config = dense::Config::new()
            .match_kind(RegexMatchKind::All)
            .start_kind(regex_automata::dfa::StartKind::Unanchored)
            .dfa_size_limit(Some(limit))
            .determinize_size_limit(Some(limit));
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa);
        let dfa = dfa.map_err(|error| match error.is_size_limit_exceeded() {
            true => TooLarge::States,
            false => library(&error),
        })?;
        let from = start::Config::new().anchored(regex_automata::Anchored::No);
        let start = dfa.start_state(&from).map_err(|error| library(&error))?;
        let mut classes = [0; 256];
        for (byte, class) in (0..=255).zip(&mut classes) {
            *class = nfa.byte_classes().get(byte);
        }
        let table = build(
            classes,
            start,
            states_max,
            |state, byte| dfa.next_state(state, byte),
            |state| {
                // The library tells of a match one byte late; at the end of input it must not.
                let end = dfa.next_eoi_state(state);
                let count = if dfa.is_match_state(end) { dfa.match_len(end) } else { 0 };
                (0..count).map(|nth| dfa.match_pattern(end, nth).as_u32()).collect()
            },
        )?;
        let beginnings: Option<Vec<Vec<Vec<u8>>>> =
            expressions.iter().map(|expression| beginnings(expression)).collect();
        Ok(match beginnings {
            Some(beginnings) => table.behind_filter_of(&beginnings.concat()),
            None => table,
        })
    }
}

/// An automaton under way.
struct Run<'t> {
    table: &'t Table,
    /// Bytes that are done.
    at: usize,
    /// State behind them.
    state: u32,
}

impl Run<'_> {
    /// Runs over the bytes up to `end`.
    #[inline]
    fn run_to(&mut self, end: usize, bytes: &[u8], found: &mut impl FnMut(usize, &[u32])) {
        let table = self.table;
        let next = &table.next[..];
        let mut state = self.state;
        for (at, &byte) in (self.at + 1..).zip(&bytes[self.at..end]) {
            state = next[state as usize + usize::from(table.classes[usize::from(byte)])];
            if state >= table.first_match {
                found(at, table.ending(state));
            }
        }
        (self.at, self.state) = (end, state);
    }

    /// Runs where literals may end, and where the state behind the last byte is decided. It stops
    /// early if the filter is of little use.
    fn skip(&mut self, filter: &Filter, bytes: &[u8], found: &mut impl FnMut(usize, &[u32])) {
        if bytes.len() < 2 * GROUP {
            return;
        }
        // Groups that reach back into the piece before are not known.
        self.run_to(GROUP - 1, bytes, found);
        self.run_to_rest(bytes, found);
        let mut budget = bytes.len() / FILTERED_SHARE;
        while let Some(end) = filter.next(bytes, self.at + 1, &mut budget) {
            met("a literal may end here");
            self.begin(filter.start(bytes, end, self.at));
            let cost = end - self.at + CANDIDATE_COST;
            self.run_to(end, bytes, found);
            let ended = self.at;
            self.run_to_rest(bytes, found);
            let cost = cost + (self.at - ended);
            let Some(rest) = budget.checked_sub(cost) else {
                met("the filter was of little use");
                return;
            };
            budget = rest;
        }
        if self.at == bytes.len() {
            return;
        }
        match mutant("state_behind_the_last_byte_is_not_decided") {
            true => self.begin(bytes.len()),
            false => self.begin(filter.start(bytes, bytes.len(), self.at)),
        }
    }

    /// Runs on until bytes may be skipped, or to the end.
    fn run_to_rest(&mut self, bytes: &[u8], found: &mut impl FnMut(usize, &[u32])) {
        let Some(at_rest) = self.table.at_rest else { return };
        if mutant("a_match_that_has_begun_is_skipped") {
            return;
        }
        while self.at < bytes.len() && !at_rest.contains(&self.state) {
            met("a match of an expression has begun");
            self.run_to((self.at + REST_LOOK).min(bytes.len()), bytes, found);
        }
    }

    /// Begins anew at a later place, or goes on where it is.
    fn begin(&mut self, at: usize) {
        assert!(at >= self.at, "no byte is run over twice");
        if at > self.at || mutant("state_before_a_skip_is_forgotten") {
            met("bytes were skipped");
            (self.at, self.state) = (at, self.table.start);
        }
    }
}

/// The bytes with which each match of an expression begins, in lower case: a few literals, one of
/// which it is. `None` if they are many or short, or if the expression looks around.
pub(super) fn beginnings(expression: &str) -> Option<Vec<Vec<u8>>> {
    let mut parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build();
    let parsed = parser.parse(expression).ok()?;
    if !parsed.properties().look_set().is_empty() {
        return None;
    }
    let found = regex_syntax::hir::literal::Extractor::new().extract(&parsed);
    let mut all: Vec<Vec<u8>> =
        found.literals()?.iter().map(|literal| literal.as_bytes().to_ascii_lowercase()).collect();
    all.sort_unstable();
    all.dedup();
    let is_long = !all.is_empty() && all.iter().all(|bytes| bytes.len() >= GROUP);
    is_long.then_some(all)
}

/// A class for each byte that literals have, either case, and one for all others.
fn literal_classes(literals: &[Vec<u8>]) -> [u8; 256] {
    let mut classes = [0; 256];
    let mut used = [false; 256];
    for byte in literals.iter().flatten() {
        used[usize::from(byte.to_ascii_lowercase())] = true;
    }
    // All 256 bytes cannot be used: there is no upper case among them.
    let mut count = 0;
    for byte in (0..=255u8).filter(|byte| used[usize::from(*byte)]) {
        count += 1;
        classes[usize::from(byte)] = count;
        classes[usize::from(byte.to_ascii_uppercase())] = count;
    }
    classes
}

/// Numbers all states that can be reached, and writes their rows.
fn build<S: Copy + Ord>(
    classes: [u8; 256],
    start: S,
    states_max: usize,
    step: impl Fn(S, u8) -> S,
    patterns: impl Fn(S) -> Vec<u32>,
) -> Result<Table, TooLarge> {
    let columns = usize::from(*classes.iter().max().unwrap_or(&0)) + 1;
    let mut bytes_of_class = vec![0u8; columns];
    for (byte, class) in (0..=255u8).zip(classes) {
        bytes_of_class[usize::from(class)] = byte;
    }
    let mut numbers = BTreeMap::from([(start, 0u32)]);
    let mut states = vec![start];
    let mut rows: Vec<u32> = Vec::new();
    let mut at = 0;
    while at < states.len() {
        for &byte in &bytes_of_class {
            let next = step(states[at], byte);
            let number = *numbers.entry(next).or_insert_with(|| {
                states.push(next);
                states.len() as u32 - 1
            });
            rows.push(number);
        }
        at += 1;
        if states.len() > states_max {
            return Err(TooLarge::States);
        }
    }
    let ending: Vec<Vec<u32>> = states.iter().map(|&state| patterns(state)).collect();
    // States without patterns first, each kind in the order in which it was reached.
    let mut order: Vec<usize> = (0..states.len()).collect();
    order.sort_by_key(|&state| !ending[state].is_empty());
    let mut place = vec![0u32; states.len()];
    for (row, &state) in order.iter().enumerate() {
        place[state] = (row * columns) as u32;
    }
    let plain = ending.iter().filter(|patterns| patterns.is_empty()).count();
    let mut table = Table {
        classes,
        next: Vec::with_capacity(rows.len()),
        first_match: (plain * columns) as u32,
        columns: columns as u32,
        start: place[0],
        ends: vec![0],
        patterns: Vec::new(),
        filter: None,
        at_rest: None,
    };
    for state in order {
        let row = &rows[state * columns..(state + 1) * columns];
        table.next.extend(row.iter().map(|&number| place[number as usize]));
        if !ending[state].is_empty() {
            table.patterns.extend(&ending[state]);
            table.ends.push(table.patterns.len() as u32);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests;
