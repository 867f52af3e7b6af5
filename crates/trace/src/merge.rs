//! Several traces as one multi-VM workload.
//!
//! Steps:
//! 1. Each input's times are counted from its own first request, so that all start together.
//! 2. The next request is the earliest of all inputs' next; of equal times the one of the input
//!    named first (a stable k-way merge over a heap of k entries, O(log k) a request).
//! 3. Volumes are numbered anew in the order in which they appear. A name that another input has
//!    already taken gets its own input's label in front (`web/0` beside `0`).
//!
//! State: one batch and one heap entry an input. Never reorders an input: where its times run
//! backwards its requests follow at once, with the times they have.

use crate::{Batch, Request, TraceError, TraceReader};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use thermocline_units::{Nanos, VolumeId};

/// A k-way merge of traces by time.
pub struct Merge {
    inputs: Vec<Input>,
    /// Times at which inputs that are not at their end go on, earliest on top.
    agenda: BinaryHeap<Reverse<(Nanos, usize)>>,
    volumes: Vec<String>,
    started: bool,
}

struct Input {
    label: String,
    reader: Box<dyn TraceReader>,
    batch: Batch,
    next: usize,
    /// Time of the input's first request.
    origin: Nanos,
    /// The merged number of each of the input's volumes; `None` until it appears.
    numbers: Vec<Option<VolumeId>>,
}

impl Merge {
    /// Merges `inputs`, each with the label that tells its volumes from others of the same name.
    /// Labels that occur twice are numbered (`web`, `web-2`).
    pub fn new(inputs: Vec<(String, Box<dyn TraceReader>)>) -> Merge {
        let mut labels: Vec<String> = Vec::with_capacity(inputs.len());
        let inputs = inputs.into_iter().map(|(label, reader)| {
            let label = distinct(&label, &labels);
            labels.push(label.clone());
            Input::new(label, reader)
        });
        Merge {
            inputs: inputs.collect(),
            agenda: BinaryHeap::new(),
            volumes: Vec::new(),
            started: false,
        }
    }

    /// Reads every input's first batch and puts them all at time zero.
    fn start(&mut self) -> Result<(), TraceError> {
        for (index, input) in self.inputs.iter_mut().enumerate() {
            if input.refill()? {
                input.origin = input.batch.requests[0].time;
                self.agenda.push(Reverse((Nanos(0), index)));
            }
        }
        self.started = true;
        Ok(())
    }
}

impl TraceReader for Merge {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        if !self.started {
            self.start()?;
        }
        while batch.requests.len() < Batch::CAPACITY {
            let Some(mut top) = self.agenda.peek_mut() else { break };
            let Reverse((now, index)) = *top;
            let input = &mut self.inputs[index];
            input.take(batch, &mut self.volumes);
            if input.next < input.batch.requests.len() || input.refill()? {
                *top = Reverse((input.next_time().max(now), index));
            } else {
                PeekMut::pop(top);
            }
        }
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }

    fn repairs(&self) -> Vec<String> {
        let of = |input: &Input| {
            let label = input.label.clone();
            input.reader.repairs().into_iter().map(move |repair| format!("{label}: {repair}"))
        };
        self.inputs.iter().flat_map(of).collect()
    }

    /// Facts about each input, its label behind the key.
    fn about(&self) -> Vec<(String, String)> {
        let of = |input: &Input| {
            let label = input.label.clone();
            let pairs = input.reader.about().into_iter();
            pairs.map(move |(key, value)| (format!("{key}.{label}"), value))
        };
        self.inputs.iter().flat_map(of).collect()
    }

    fn names_objects(&self) -> bool {
        self.inputs.iter().any(|input| input.reader.names_objects())
    }

    /// Position in each input.
    fn position(&self) -> String {
        let places = self.inputs.iter().map(|input| input.reader.position());
        places.filter(|place| !place.is_empty()).collect::<Vec<_>>().join(", ")
    }

    fn bytes_read(&self) -> u64 {
        self.inputs.iter().map(|input| input.reader.bytes_read()).sum()
    }
}

impl Input {
    fn new(label: String, reader: Box<dyn TraceReader>) -> Input {
        let (batch, numbers) = (Batch::default(), Vec::new());
        Input { label, reader, batch, next: 0, origin: Nanos(0), numbers }
    }

    /// Reads the next batch; false at the end.
    fn refill(&mut self) -> Result<bool, TraceError> {
        self.next = 0;
        self.reader.read_batch(&mut self.batch)?;
        Ok(!self.batch.requests.is_empty())
    }

    fn next_time(&self) -> Nanos {
        self.batch.requests[self.next].time.saturating_sub(self.origin)
    }

    /// Appends the next request to `batch`, in the merge's terms.
    fn take(&mut self, batch: &mut Batch, volumes: &mut Vec<String>) {
        let request = self.batch.requests[self.next];
        let volume = self.number(request.volume, volumes);
        let hashes = batch.push_hashes(self.batch.hashes_of(&request));
        batch.requests.push(Request { time: self.next_time(), volume, hashes, ..request });
        self.next += 1;
    }

    /// The merged number of the input's `volume`, a new one when it appears for the first time.
    fn number(&mut self, volume: VolumeId, volumes: &mut Vec<String>) -> VolumeId {
        let index = volume.0 as usize;
        if index >= self.numbers.len() {
            self.numbers.resize(index + 1, None);
        }
        *self.numbers[index].get_or_insert_with(|| {
            let name = &self.reader.volumes()[index];
            let name = if volumes.contains(name) {
                distinct(&format!("{}/{name}", self.label), volumes)
            } else {
                name.clone()
            };
            volumes.push(name);
            VolumeId(u32::try_from(volumes.len() - 1).expect("volumes are numbered in 32 bits"))
        })
    }
}

/// `name`, or `name-2`, `name-3` … when it is taken.
fn distinct(name: &str, taken: &[String]) -> String {
    let numbered = (2u32..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_string())
        .chain(numbered)
        .find(|candidate| !taken.contains(candidate))
        .expect("there are more numbers than names")
}

#[cfg(test)]
mod tests;
