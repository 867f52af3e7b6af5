//! Packets before and at one worker: a bounded queue, and batches under way.
//!
//! Invariant: packets leave in the order in which they came in; an answer that comes before that
//! of an earlier batch waits for it.

use crate::flows::FlowIndex;
use crate::switch::Tag;
use crate::work::{Ticket, Verdict, Way};
use bytes::Bytes;
use std::collections::VecDeque;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;

/// A packet on its way through the platform.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) flow: FlowIndex,
    pub(crate) tag: Tag,
    pub(crate) way: Way,
    /// Time at which it came to the platform.
    pub(crate) came: Nanos,
    pub(crate) bytes: Bytes,
}

#[derive(Debug)]
struct Batch {
    ticket: Ticket,
    packets: Vec<Carried>,
    sent: Nanos,
    verdicts: Option<Vec<Verdict>>,
}

/// A queue before a worker.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    queue: VecDeque<Carried>,
    batches: VecDeque<Batch>,
    last_done: Nanos,
    /// Packets that were answered, since the start.
    answered: u64,
}

/// Nanoseconds that a worker took for a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Took {
    /// Time of a worker that had another batch before this one, or that measured it itself.
    Exactly(f64),
    /// The way to the worker and back may be part of it.
    AtMost(f64),
}

/// A batch that has been answered.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The packets.
    pub(crate) packets: Vec<Carried>,
    /// A verdict for each of them.
    pub(crate) verdicts: Vec<Verdict>,
}

impl Lane {
    /// Packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Packets that the worker has answered, since the start.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.batches.is_empty()
    }

    /// Takes a packet, or gives it back when the queue is full.
    pub(crate) fn push(&mut self, packet: Carried, most: usize) -> Result<(), Carried> {
        if self.queue.len() >= most {
            return Err(packet);
        }
        self.queue.push_back(packet);
        assert!(self.queue.len() <= most, "the queue is bounded");
        Ok(())
    }

    /// The packets of the next batch, if one may go; `ticket` is its number.
    pub(crate) fn next_batch(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        batch_max: usize,
        batches_max: usize,
    ) -> Option<&[Carried]> {
        if self.queue.is_empty() || self.batches.len() >= batches_max {
            return None;
        }
        let count = self.queue.len().min(batch_max);
        let packets: Vec<Carried> = self.queue.drain(..count).collect();
        assert!(!packets.is_empty(), "a batch has packets");
        self.batches.push_back(Batch { ticket, packets, sent: now, verdicts: None });
        self.batches.back().map(|batch| batch.packets.as_slice())
    }

    /// Takes an answer, and what it says of the worker's speed; `None` if the answer does not fit
    /// the batch. `worked` is the time that the worker itself measured.
    pub(crate) fn answer(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        verdicts: Vec<Verdict>,
        worked: Option<Nanos>,
    ) -> Option<Took> {
        let batch = self.batches.iter_mut().find(|batch| batch.ticket == ticket)?;
        if batch.verdicts.is_some() || verdicts.len() != batch.packets.len() {
            return None;
        }
        self.answered += verdicts.len() as u64;
        batch.verdicts = Some(verdicts);
        let (sent, count) = (batch.sent, batch.packets.len() as f64);
        // A worker does one batch after the other, so it began this one when the last was done. If
        // it had none to do, the way there and back is part of the time.
        let took = now.saturating_sub(sent.max(self.last_done)).0 as f64 / count;
        let was_busy = sent < self.last_done;
        assert!(now >= self.last_done, "time does not run backwards");
        self.last_done = now;
        let is_first = self.batches.front().is_some_and(|batch| batch.ticket == ticket);
        met_if(!is_first, "an answer came before that of an earlier batch");
        if let Some(worked) = worked {
            // It cannot have worked on the batch for longer than it had it.
            let worked = worked.min(now.saturating_sub(sent));
            return Some(Took::Exactly(worked.0 as f64 / count));
        }
        Some(if was_busy { Took::Exactly(took) } else { Took::AtMost(took) })
    }

    /// The first batch, if it has been answered.
    pub(crate) fn take_answered(&mut self) -> Option<Answered> {
        let is_answered = self.batches.front().is_some_and(|batch| batch.verdicts.is_some());
        let batch = if mutant("an_answer_overtakes_another") {
            let at = self.batches.iter().rposition(|batch| batch.verdicts.is_some())?;
            self.batches.remove(at)?
        } else {
            self.batches.pop_front_if(|_| is_answered)?
        };
        let verdicts = batch.verdicts.expect("it is answered");
        assert_eq!(verdicts.len(), batch.packets.len(), "a verdict a packet");
        Some(Answered { packets: batch.packets, verdicts })
    }

    /// Takes everything that waits or is under way, because the worker is gone.
    pub(crate) fn abandon(&mut self) -> Vec<Carried> {
        let mut lost: Vec<Carried> = Vec::new();
        self.batches.drain(..).for_each(|batch| lost.extend(batch.packets));
        lost.extend(self.queue.drain(..));
        assert!(self.is_empty(), "nothing is left");
        lost
    }
}
