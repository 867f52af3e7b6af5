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

/// See the module.
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
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_write() {
        let mut runs = Runs::default();
        for (place, byte) in [(8, 1), (9, 2), (20, 3)] {
            runs.push(place, place * 10, Payload::from(vec![byte; BLOCK as usize]));
        }
        let runs: Vec<Run> = runs.into_iter().collect();
        assert_eq!(runs.iter().map(|run| run.place).collect::<Vec<_>>(), [8, 20]);
        assert_eq!(runs[0].numbers, [80, 90]);
        let data = runs[0].data().to_vec();
        assert_eq!((data.len(), data[0], data[4096]), (8192, 1, 2));
    }
}
