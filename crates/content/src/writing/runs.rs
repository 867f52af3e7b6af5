//! New blocks whose slots lie one behind the other, which are written at once.

use crate::name::BLOCK;
use thermocline_ports::Payload;

/// A run of slots: the first, numbers and bytes of its blocks.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) place: u32,
    pub(super) numbers: Vec<u32>,
    parts: Vec<Payload>,
}

impl Run {
    /// The bytes of all its blocks.
    pub(super) fn data(&self) -> Payload {
        if let [one] = &self.parts[..] {
            return one.clone();
        }
        let mut bytes = Vec::with_capacity(self.parts.len() * BLOCK as usize);
        for part in &self.parts {
            match part {
                Payload::Bytes(part) => bytes.extend_from_slice(part),
                Payload::Zeroes(length) => bytes.resize(bytes.len() + *length as usize, 0),
            }
        }
        Payload::from(bytes)
    }
}

/// Runs of new blocks.
#[derive(Debug, Default)]
pub(super) struct Runs(Vec<Run>);

impl Runs {
    pub(super) fn push(&mut self, place: u32, number: u32, data: Payload) {
        match self.0.last_mut() {
            Some(run) if run.place + run.numbers.len() as u32 == place => {
                run.numbers.push(number);
                run.parts.push(data);
            }
            _ => self.0.push(Run { place, numbers: vec![number], parts: vec![data] }),
        }
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = Run> {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests;
