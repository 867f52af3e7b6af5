//! The past as people who look are told it: the last seconds, and what happened. Both are bounded.

use crate::api::{Event, Severity};
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};
use thermocline_units::Nanos;

/// Seconds that are remembered.
const SECONDS_MAX: usize = 300;
/// Events that are remembered.
const EVENTS_MAX: usize = 1000;

/// Milliseconds since 1970.
pub fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_millis() as u64)
}

/// The last things of a row, which are numbered from 0 on.
#[derive(Debug)]
struct Last<T> {
    kept: VecDeque<T>,
    passed: u64,
}

impl<T> Default for Last<T> {
    fn default() -> Last<T> {
        Last { kept: VecDeque::new(), passed: 0 }
    }
}

impl<T: Clone> Last<T> {
    fn push(&mut self, one: T, most: usize) -> &T {
        if self.kept.len() == most {
            self.kept.pop_front();
        }
        self.passed += 1;
        self.kept.push_back(one);
        self.kept.back().expect("just put there")
    }

    /// All with this number and later ones.
    fn from(&self, number: u64) -> Vec<T> {
        let forgotten = self.passed - self.kept.len() as u64;
        let skip = usize::try_from(number.saturating_sub(forgotten)).unwrap_or(usize::MAX);
        self.kept.iter().skip(skip).cloned().collect()
    }
}

/// The last five minutes, second by second.
#[derive(Debug)]
pub struct Seconds<T>(Last<T>);

impl<T> Default for Seconds<T> {
    fn default() -> Seconds<T> {
        Seconds(Last::default())
    }
}

impl<T: Clone> Seconds<T> {
    /// Number of the second that ends next, from 0 on.
    pub fn number(&self) -> u64 {
        self.0.passed
    }

    /// Ends a second, whose number is [`Seconds::number`].
    pub fn end(&mut self, second: T) {
        self.0.push(second, SECONDS_MAX);
    }

    /// The seconds from this number on, as far as they are remembered.
    pub fn from(&self, number: u64) -> Vec<T> {
        self.0.from(number)
    }
}

/// Totals since a start.
pub trait Totals {
    /// A second: what was added to the totals in it.
    type Second: Clone;

    /// The growth since `before`, as second `number`.
    fn since(&self, before: &Self, number: u64) -> Self::Second;
}

/// The last five minutes, second by second, as the growth of totals.
#[derive(Debug)]
pub struct Growth<T: Totals> {
    seconds: Seconds<T::Second>,
    /// The totals at the end of the last second; none before the first look.
    before: Option<T>,
    ends: Nanos,
}

impl<T: Totals> Default for Growth<T> {
    fn default() -> Growth<T> {
        Growth { seconds: Seconds::default(), before: None, ends: Nanos(0) }
    }
}

impl<T: Totals> Growth<T> {
    /// True if the second is over.
    pub fn is_over(&self, now: Nanos) -> bool {
        now >= self.ends
    }

    /// Ends a second that is over. The first call begins the first second. A second that is
    /// looked at late is longer than the others.
    pub fn note(&mut self, now: Nanos, totals: T) {
        if let Some(before) = &self.before {
            let number = self.seconds.number();
            self.seconds.end(totals.since(before, number));
        }
        self.before = Some(totals);
        self.ends = Nanos(now.0 + 1_000_000_000);
    }

    /// The seconds from this number on, as far as they are remembered.
    pub fn from(&self, number: u64) -> Vec<T::Second> {
        self.seconds.from(number)
    }
}

/// The last thousand events, numbered from 1 on.
#[derive(Debug, Default)]
pub struct Events(Last<Event>);

impl Events {
    /// Writes down that something happened now; the event as it is told.
    pub fn note(&mut self, severity: Severity, subject: &str, text: String) -> &Event {
        let (id, subject) = (self.0.passed + 1, subject.to_string());
        self.0.push(Event { id, at_ms: wall_clock(), severity, subject, text }, EVENTS_MAX)
    }

    /// The events from this number on, as far as they are remembered.
    pub fn from(&self, id: u64) -> Vec<Event> {
        self.0.from(id.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests;
