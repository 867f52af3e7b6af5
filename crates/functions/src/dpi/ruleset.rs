//! Rules compiled: each content and expression is an element, and all elements are found by a few
//! automata.
//!
//! 1. A content that stands alone is a literal of the one automaton of literals, which ignores
//!    case; where case counts, it is compared afterwards.
//! 2. A content with `within` joins the one before it to an expression with a gap between them.
//! 3. A content with `distance` alone is an element of its own that must begin behind the end of
//!    the one before. The earliest end is the best one there, so one number is enough to remember.
//! 4. Expressions share automata, as many in one as its limit of states allows. Those whose matches
//!    begin with literals have automata of their own, if there are enough, because a filter stands
//!    before these.
//!
//! A rule has matched when all of its elements were found.

use super::automaton::{self, Table, TooLarge};
use super::header::{Addresses, Ports};
use super::rules::{self, Action, Content, Rule, RuleError, RuleProtocol};
use std::collections::BTreeMap;
use std::ops::Range;

/// Automata for expressions.
pub(super) const GROUPS_MAX: usize = 3;

/// Limits on what rules may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// States of the automaton of literals, about their bytes together; default 1,000,000.
    pub literal_states_max: usize,
    /// States of each of the three automata of expressions; default 20,000. It also limits the
    /// work of compiling them.
    pub expression_states_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { literal_states_max: 1_000_000, expression_states_max: 20_000 }
    }
}

/// A packet as headers of rules see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) protocol: u8,
    pub(super) source: (u128, u16),
    pub(super) destination: (u128, u16),
    pub(super) to_server: bool,
    pub(super) established: bool,
}

/// An element of a rule, behind a pattern of an automaton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) rule: u16,
    pub(super) element: u8,
    /// Bytes of a literal; 0 for expressions.
    pub(super) length: u32,
    /// Letters in upper case, the last byte's bit lowest; `None` where case does not count.
    pub(super) cases: Option<u128>,
    offset: u32,
    /// Greatest position of the end.
    end_max: Option<u32>,
    /// Least distance from the end of the element before.
    pub(super) gap: Option<u32>,
    /// The next element is measured from its end.
    pub(super) leads: bool,
}

impl Use {
    /// True if an end at this position of the stream is where the rule wants it.
    pub(super) fn is_in_place(&self, end: u64) -> bool {
        end.saturating_sub(self.length.into()) >= u64::from(self.offset)
            && self.end_max.is_none_or(|max| end <= max.into())
    }
}

/// A compiled rule.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    pub(super) action: Action,
    pub(super) sid: u32,
    message: String,
    protocol: RuleProtocol,
    source: (Addresses, Ports),
    destination: (Addresses, Ports),
    both_ways: bool,
    to_server: Option<bool>,
    established: Option<bool>,
    pub(super) elements: u8,
}

impl Compiled {
    /// True if the rule looks at packets of this kind.
    pub(super) fn applies(&self, seen: &Seen) -> bool {
        use crate::packet::{ICMP, ICMP_V6, TCP, UDP};
        let protocol = match self.protocol {
            RuleProtocol::Ip => true,
            RuleProtocol::Tcp => seen.protocol == TCP,
            RuleProtocol::Udp => seen.protocol == UDP,
            RuleProtocol::Icmp => matches!(seen.protocol, ICMP | ICMP_V6),
        };
        let ends = |source: (u128, u16), destination: (u128, u16)| {
            self.source.0.includes(source.0)
                && self.source.1.includes(source.1)
                && self.destination.0.includes(destination.0)
                && self.destination.1.includes(destination.1)
        };
        protocol
            && self.to_server.is_none_or(|wanted| wanted == seen.to_server)
            && self.established.is_none_or(|wanted| wanted == seen.established)
            && (ends(seen.source, seen.destination)
                || (self.both_ways && ends(seen.destination, seen.source)))
    }
}

/// A file of rules, compiled.
#[derive(Debug, Clone)]
pub struct Ruleset {
    pub(super) rules: Vec<Compiled>,
    /// The automaton of literals, if there are any, and those of expressions.
    pub(super) tables: Vec<Table>,
    /// For each table and pattern its uses.
    pub(super) uses: Vec<Vec<Vec<Use>>>,
    /// Rules without elements.
    pub(super) header_only: Vec<u16>,
    /// Number of bytes before a segment whose cases are needed: 0 to 127.
    pub(super) cases_kept: usize,
    pub(super) fingerprint: u64,
}

enum Pattern {
    Literal(Vec<u8>, bool),
    Expression(String),
}

struct Element {
    pattern: Pattern,
    content: Content,
    gap: Option<u32>,
    leads: bool,
}

impl Ruleset {
    /// Reads and compiles the text of a rule file; `file` is its name, for messages.
    ///
    /// # Errors
    /// The first rule that is not understood or costs too much, with its line.
    pub fn compile(file: &str, text: &str, limits: Limits) -> Result<Ruleset, RuleError> {
        let parsed = rules::parse(file, text)?;
        let mut set = Ruleset {
            rules: Vec::new(),
            tables: Vec::new(),
            uses: Vec::new(),
            header_only: Vec::new(),
            cases_kept: 0,
            fingerprint: 0,
        };
        let (mut literals, mut expressions) = (Literals::default(), Vec::new());
        for rule in &parsed {
            let fail = |message| RuleError { file: file.to_string(), line: rule.line, message };
            let number = set.rules.len() as u16;
            let elements = elements(rule).map_err(fail)?;
            if elements.is_empty() {
                set.header_only.push(number);
            }
            for (nth, element) in elements.iter().enumerate() {
                let found = element.as_use(number, nth as u8);
                if found.cases.is_some() {
                    set.cases_kept = set.cases_kept.max(found.length as usize - 1);
                }
                match &element.pattern {
                    Pattern::Literal(bytes, _) => literals.add(bytes, found),
                    Pattern::Expression(text) => {
                        expressions.push((rule.line, text.clone(), found));
                    }
                }
            }
            if literals.bytes > limits.literal_states_max {
                let max = limits.literal_states_max;
                return Err(fail(format!("the contents so far need more than {max} states")));
            }
            set.rules.push(compiled(rule, elements.len() as u8));
        }
        set.add_literals(file, literals, &limits)?;
        set.add_expressions(file, &expressions, &limits)?;
        let tables = set.tables.iter().map(|table| u64::from(table.fingerprint()));
        let tables = tables.fold(0u64, |all, table| all.rotate_left(7) ^ table);
        set.fingerprint = u64::from(crc32c::crc32c(text.as_bytes())) << 32 ^ tables;
        Ok(set)
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// True if it has no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Message of the rule with this number, as its author wrote it.
    pub fn message(&self, sid: u32) -> Option<&str> {
        self.rules.iter().find(|rule| rule.sid == sid).map(|rule| &rule.message[..])
    }

    /// States of all automata, and bytes of their tables.
    pub fn cost(&self) -> (usize, usize) {
        let states = self.tables.iter().map(Table::states).sum();
        (states, self.tables.iter().map(Table::memory).sum())
    }

    fn add_literals(
        &mut self,
        file: &str,
        literals: Literals,
        limits: &Limits,
    ) -> Result<(), RuleError> {
        if literals.uses.is_empty() {
            return Ok(());
        }
        let (bytes, uses): (Vec<_>, Vec<_>) = literals.uses.into_iter().unzip();
        let table = Table::of_literals(&bytes, limits.literal_states_max + 2);
        let table = table.map_err(|error| RuleError {
            file: file.to_string(),
            line: 1,
            message: format!("all contents together: {}", said(&error, limits.literal_states_max)),
        })?;
        self.tables.push(table);
        self.uses.push(uses);
        Ok(())
    }

    /// Expressions whose matches begin with literals have automata of their own, which a filter
    /// stands before, unless that takes more automata than there may be.
    fn add_expressions(
        &mut self,
        file: &str,
        expressions: &[Expression],
        limits: &Limits,
    ) -> Result<(), RuleError> {
        let has_beginnings = |(_, text, _): &Expression| automaton::beginnings(text).is_some();
        let (filtered, others): (Vec<_>, Vec<_>) =
            expressions.iter().cloned().partition(has_beginnings);
        let groups = match grouped(file, &[&filtered, &others], limits) {
            Ok(groups) => groups,
            Err(_) => grouped(file, &[expressions], limits)?,
        };
        for (table, uses) in groups {
            self.tables.push(table);
            self.uses.push(uses);
        }
        Ok(())
    }
}

/// Line, text and use of an expression.
type Expression = (usize, String, Use);

/// An automaton of expressions, and for each of them its use.
type Group = (Table, Vec<Vec<Use>>);

/// Automata of expressions, each of expressions of one kind.
fn grouped(file: &str, kinds: &[&[Expression]], limits: &Limits) -> Result<Vec<Group>, RuleError> {
    let max = limits.expression_states_max;
    let mut groups = Vec::new();
    for kind in kinds {
        let mut rest = *kind;
        while let Some((line, ..)) = rest.first() {
            let fail = |message| RuleError { file: file.to_string(), line: *line, message };
            if groups.len() == GROUPS_MAX {
                let message = "expressions up to here fill all automata: simplify or remove some";
                return Err(fail(message.to_string()));
            }
            let mut count = rest.len();
            let table = loop {
                let texts: Vec<&str> = rest[..count].iter().map(|e| &e.1[..]).collect();
                match Table::of_expressions(&texts, max) {
                    Ok(table) => break table,
                    Err(error) if count == 1 => return Err(fail(said(&error, max))),
                    Err(_) => count = count.div_ceil(2),
                }
            };
            groups.push((table, rest[..count].iter().map(|(.., found)| vec![*found]).collect()));
            rest = &rest[count..];
        }
    }
    Ok(groups)
}

fn said(error: &TooLarge, max: usize) -> String {
    match error {
        TooLarge::States => format!("its automaton needs more than {max} states: simplify it"),
        TooLarge::Library(message) => message.clone(),
    }
}

/// Literals without regard to case, each with its uses, and the sum of their bytes.
#[derive(Default)]
struct Literals {
    uses: BTreeMap<Vec<u8>, Vec<Use>>,
    bytes: usize,
}

impl Literals {
    fn add(&mut self, bytes: &[u8], found: Use) {
        let key = bytes.to_ascii_lowercase();
        let length = key.len();
        let uses = self.uses.entry(key).or_default();
        if uses.is_empty() {
            self.bytes += length;
        }
        uses.push(found);
    }
}

fn compiled(rule: &Rule, elements: u8) -> Compiled {
    Compiled {
        action: rule.action,
        sid: rule.sid,
        message: rule.message.clone(),
        protocol: rule.protocol,
        source: rule.source.clone(),
        destination: rule.destination.clone(),
        both_ways: rule.both_ways,
        to_server: rule.to_server,
        established: rule.established,
        elements,
    }
}

impl Element {
    fn as_use(&self, rule: u16, element: u8) -> Use {
        let Content { bytes, offset, depth, .. } = &self.content;
        let (gap, leads) = (self.gap, self.leads);
        match &self.pattern {
            Pattern::Expression(_) => {
                Use { rule, element, length: 0, cases: None, offset: 0, end_max: None, gap, leads }
            }
            Pattern::Literal(_, nocase) => {
                let upper = |all: u128, byte: &u8| all << 1 | u128::from(byte.is_ascii_uppercase());
                let has_letters = bytes.iter().any(u8::is_ascii_alphabetic);
                let counts = !nocase && has_letters;
                let offset = offset.unwrap_or(0);
                Use {
                    rule,
                    element,
                    length: bytes.len() as u32,
                    cases: counts.then(|| bytes.iter().fold(0, upper)),
                    offset,
                    end_max: depth.map(|depth| offset + depth),
                    gap,
                    leads,
                }
            }
        }
    }
}

/// Cuts a rule into elements.
fn elements(rule: &Rule) -> Result<Vec<Element>, String> {
    let contents = &rule.contents;
    let mut elements = Vec::new();
    let (mut at, mut chains) = (0, 0);
    while at < contents.len() {
        let joined = contents[at + 1..].iter().take_while(|c| c.within.is_some()).count();
        let run = at..at + 1 + joined;
        let first = &contents[at];
        let gap = first.is_relative().then(|| first.distance.unwrap_or(0));
        if gap.is_some() && joined > 0 {
            return Err(
                "`within` behind a content that has `distance` only is not in the subset: \
                        give that one a `within`, too"
                    .into(),
            );
        }
        let leads = contents.get(run.end).is_some_and(|next| next.is_relative());
        chains += usize::from(gap.is_none() && leads);
        if chains > 1 {
            return Err("two chains of `distance` in one rule are not in the subset: make two \
                        rules"
                .into());
        }
        elements.push(element(contents, run.clone(), gap, leads));
        at = run.end;
    }
    for text in &rule.expressions {
        check_expression(text)?;
        let pattern = Pattern::Expression(text.clone());
        elements.push(Element { pattern, content: Content::default(), gap: None, leads: false });
    }
    Ok(elements)
}

fn element(contents: &[Content], run: Range<usize>, gap: Option<u32>, leads: bool) -> Element {
    let content = contents[run.start].clone();
    if run.len() == 1 {
        let pattern = Pattern::Literal(content.bytes.clone(), content.nocase);
        return Element { pattern, content, gap, leads };
    }
    let mut text = match (content.offset.unwrap_or(0), content.depth) {
        (0, None) => String::new(),
        (offset, None) => format!("\\A(?s:.{{{offset},}})"),
        (offset, Some(depth)) => {
            let last = offset + depth - content.bytes.len() as u32;
            format!("\\A(?s:.{{{offset},{last}}})")
        }
    };
    for (nth, content) in contents[run].iter().enumerate() {
        if nth > 0 {
            let least = content.distance.unwrap_or(0);
            let most = content.within.unwrap_or(0) - content.bytes.len() as u32;
            text.push_str(&format!("(?s:.{{{least},{most}}})"));
        }
        let bytes: String = content.bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let flag = if content.nocase { "i" } else { "-i" };
        text.push_str(&format!("(?{flag}:{bytes})"));
    }
    Element { pattern: Pattern::Expression(text), content, gap, leads }
}

/// Refuses what an automaton cannot decide with the last byte of a match.
fn check_expression(text: &str) -> Result<(), String> {
    use regex_syntax::hir::Look;
    let mut parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build();
    let parsed = parser.parse(text).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        format!("pcre: {}", last.trim_start_matches("error: "))
    })?;
    let behind = parsed.properties().look_set().remove(Look::Start).remove(Look::StartLF);
    if !behind.is_empty() {
        return Err("pcre: `$`, `\\b` and the like need the byte behind: not in the subset".into());
    }
    if parsed.properties().minimum_len().is_none_or(|length| length == 0) {
        return Err("pcre: it matches nothing at all, or everything: not in the subset".into());
    }
    Ok(())
}
