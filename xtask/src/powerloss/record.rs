//! The record that the verifier in the guest keeps of what it sent and what was answered, and what
//! follows from it for the contents at a mark.
//!
//! Invariants: marks stand in the record and in the log of the device in the same order; nothing is
//! sent between a mark's place in the record and its place in the log. So at a point of the log
//! behind mark N and before mark N + 1, whatever the record says to be durable before N has to be
//! there, and of the rest only what it says to have been sent before N + 1 may be.

use crate::torture::ledger::{Change, Flaw, Ledger, SECTOR};
use std::ops::Range;

/// One line of the record. Ranges are sectors of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A change was about to be sent; they are numbered from 1.
    Sent(Range<u64>, Change),
    /// A change was answered: its range, number, kind, and whether it is durable.
    Answered(Range<u64>, u32, Change, bool),
    /// A flush was answered that covers so many answers.
    Flushed(usize),
    /// The engine ended, in order or not.
    Ended(bool),
    /// A run of sectors was read after an end and held this write.
    ReadBack(Range<u64>, u32),
    Mark(u64),
}

/// Changes and their letters.
const CHANGES: [(Change, &str); 3] =
    [(Change::Written, "w"), (Change::Zeroed, "z"), (Change::Discarded, "d")];

fn letter(change: Change) -> &'static str {
    CHANGES.iter().find(|(this, _)| *this == change).map_or("?", |(_, letter)| letter)
}

impl Event {
    pub(super) fn line(&self) -> String {
        match self {
            Event::Sent(Range { start, end }, change) => {
                format!("sent {start} {end} {}", letter(*change))
            }
            Event::Answered(Range { start, end }, write, change, forced) => {
                format!("answered {start} {end} {write} {} {}", letter(*change), u8::from(*forced))
            }
            Event::Flushed(mark) => format!("flushed {mark}"),
            Event::Ended(durable) => format!("ended {}", u8::from(*durable)),
            Event::ReadBack(Range { start, end }, write) => format!("read {start} {end} {write}"),
            Event::Mark(mark) => format!("mark {mark}"),
        }
    }

    /// Reads a line; `None` for what is no line of a record.
    pub(super) fn parse(line: &str) -> Option<Event> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let range = || Some(number(1)?..number(2)?);
        let change = |at: usize| {
            let letter = words.get(at)?;
            CHANGES.iter().find(|(_, this)| this == letter).map(|(change, _)| *change)
        };
        Some(match *words.first()? {
            "sent" => Event::Sent(range()?, change(3)?),
            "answered" => Event::Answered(range()?, number(3)? as u32, change(4)?, number(5)? == 1),
            "flushed" => Event::Flushed(number(1)? as usize),
            "ended" => Event::Ended(number(1)? == 1),
            "read" => Event::ReadBack(range()?, number(3)? as u32),
            "mark" => Event::Mark(number(1)?),
            _ => return None,
        })
    }
}

/// Goes through a record and knows what may be there.
pub(super) struct Witness {
    events: Vec<Event>,
    ledger: Ledger,
    /// Events that the ledger has been told.
    told: usize,
    /// Flaws that the guest saw already.
    pub(super) flaws: Vec<Flaw>,
}

impl Witness {
    /// A witness of a volume that reads as zeroes; `text` is the record's.
    pub(super) fn new(seed: u64, bytes: u64, text: &str) -> Result<Witness, String> {
        let parsed = |line| Event::parse(line).ok_or_else(|| format!("the record says `{line}`"));
        let events = text.lines().map(parsed).collect::<Result<_, String>>()?;
        Ok(Witness { events, ledger: Ledger::new(seed, bytes), told: 0, flaws: Vec::new() })
    }

    /// Contents that may be there between this mark and the next; marks are asked for in their
    /// order. None when the record has no such mark.
    pub(super) fn at(&mut self, mark: u64) -> Option<Ledger> {
        let place = self.events.iter().position(|event| *event == Event::Mark(mark))?;
        while self.told < place {
            self.tell();
        }
        let mut ledger = self.ledger.clone();
        let behind = self.events[place + 1..].iter();
        for event in behind.take_while(|event| !matches!(event, Event::Mark(_))) {
            if let Event::Sent(range, change) = event {
                ledger.sent(range, *change);
            }
        }
        ledger.ended(false);
        Some(ledger)
    }

    fn tell(&mut self) {
        match self.events[self.told].clone() {
            Event::Sent(range, change) => {
                self.ledger.sent(&range, change);
            }
            Event::Answered(range, write, change, forced) => {
                self.ledger.done(&range, write, change, forced);
            }
            Event::Flushed(mark) => self.ledger.flushed(mark),
            Event::Ended(durable) => self.ledger.ended(durable),
            Event::ReadBack(range, 0) => {
                let zeroes = vec![0; (range.end - range.start) as usize * SECTOR];
                self.flaws.extend(self.ledger.settle(&range, &zeroes));
            }
            Event::ReadBack(range, write) => {
                let bytes = self.ledger.contents(&range, write);
                self.flaws.extend(self.ledger.settle(&range, &bytes));
            }
            Event::Mark(_) => {}
        }
        self.told += 1;
    }
}

#[cfg(test)]
mod tests;
