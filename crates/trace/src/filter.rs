//! A part of a trace: a window of time, some volumes, some operations, aligned addresses, the first
//! requests only.
//!
//! Steps for each request, in this order: the window, the volume, the operation, the alignment, the
//! count. Times are counted from the window's start; volumes are numbered anew in the order in
//! which they appear. The trace is taken to be in time order: nothing is read after the window's
//! end.

use crate::{Batch, Op, Request, TraceError, TraceReader};
use thermocline_units::{Bytes, Nanos, VolumeId};

/// Selection of a trace's requests, and changes to them. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Start of the window; becomes time zero.
    pub from: Nanos,
    /// End of the window, not included.
    pub until: Option<Nanos>,
    /// Names of the volumes wanted; all when empty.
    pub volumes: Vec<String>,
    /// Operations wanted; all when empty.
    pub ops: Vec<Op>,
    /// Offsets are rounded down and ends up to multiples of this; never zero.
    pub align: Option<Bytes>,
    /// At most so many requests.
    pub first: Option<u64>,
}

/// A reader of the selected part of another reader's trace.
pub struct Filter {
    reader: Box<dyn TraceReader>,
    selection: Selection,
    input: Batch,
    ended: bool,
    given: u64,
    /// Fate of each of the reader's volumes.
    fates: Vec<Fate>,
    volumes: Vec<String>,
    /// Requests whose hashes were left out because the alignment changed their blocks.
    hashes_lost: u64,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Unseen,
    Unwanted,
    Wanted(VolumeId),
}

impl Filter {
    /// Selects from `reader`.
    ///
    /// # Panics
    /// When the selection aligns to zero bytes.
    pub fn new(reader: Box<dyn TraceReader>, selection: Selection) -> Filter {
        assert!(selection.align != Some(Bytes(0)), "nothing can be aligned to zero bytes");
        Filter {
            reader,
            selection,
            input: Batch::default(),
            ended: false,
            given: 0,
            fates: Vec::new(),
            volumes: Vec::new(),
            hashes_lost: 0,
        }
    }

    /// Wanted volumes that have not appeared; to be asked at the end.
    pub fn missing_volumes(&self) -> Vec<&str> {
        let wanted = self.selection.volumes.iter().map(String::as_str);
        wanted.filter(|name| !self.volumes.iter().any(|seen| seen == name)).collect()
    }

    /// The volumes of the unfiltered trace, as far as it was read.
    pub fn input_volumes(&self) -> &[String] {
        self.reader.volumes()
    }

    /// Selects from the batch in `self.input`.
    fn select(&mut self, batch: &mut Batch) {
        for index in 0..self.input.requests.len() {
            let request = self.input.requests[index];
            let beyond = self.selection.until.is_some_and(|until| request.time >= until);
            if beyond || self.selection.first.is_some_and(|first| self.given == first) {
                self.ended = true;
                return;
            }
            if request.time < self.selection.from || !self.wants_op(request.op) {
                continue;
            }
            let Some(volume) = self.wanted_volume(request.volume) else { continue };
            let (offset, length) = self.aligned(&request);
            let same = (offset, length) == (request.offset, request.length);
            let hashes = match same {
                true => batch.push_hashes(self.input.hashes_of(&request)),
                false => Default::default(),
            };
            self.hashes_lost += u64::from(!same && request.hashes.count > 0);
            let time = request.time.saturating_sub(self.selection.from);
            batch.requests.push(Request { time, volume, offset, length, hashes, ..request });
            self.given += 1;
        }
    }

    fn wants_op(&self, op: Op) -> bool {
        self.selection.ops.is_empty() || self.selection.ops.contains(&op)
    }

    /// The new number of `volume`, when it is wanted.
    fn wanted_volume(&mut self, volume: VolumeId) -> Option<VolumeId> {
        let index = volume.0 as usize;
        if index >= self.fates.len() {
            self.fates.resize(index + 1, Fate::Unseen);
        }
        match self.fates[index] {
            Fate::Wanted(number) => Some(number),
            Fate::Unwanted => None,
            Fate::Unseen => {
                let name = &self.reader.volumes()[index];
                let wanted = &self.selection.volumes;
                if !wanted.is_empty() && !wanted.contains(name) {
                    self.fates[index] = Fate::Unwanted;
                    return None;
                }
                let number = VolumeId(self.volumes.len() as u32);
                self.volumes.push(name.clone());
                self.fates[index] = Fate::Wanted(number);
                Some(number)
            }
        }
    }

    /// The request's range, rounded outwards. A range without length keeps none.
    fn aligned(&self, request: &Request) -> (Bytes, Bytes) {
        let Some(Bytes(unit)) = self.selection.align else {
            return (request.offset, request.length);
        };
        let start = request.offset.0 - request.offset.0 % unit;
        if request.length.0 == 0 {
            return (Bytes(start), Bytes(0));
        }
        let end = request.end().0.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        (Bytes(start), Bytes(end - start))
    }
}

impl TraceReader for Filter {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        while batch.requests.is_empty() && !self.ended {
            self.reader.read_batch(&mut self.input)?;
            if self.input.requests.is_empty() {
                self.ended = true;
            }
            self.select(batch);
        }
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }

    fn repairs(&self) -> Vec<String> {
        let mut repairs = self.reader.repairs();
        if self.hashes_lost > 0 {
            let lost = self.hashes_lost;
            repairs.push(format!("{lost} requests lost their content hashes to the alignment"));
        }
        repairs
    }

    fn about(&self) -> Vec<(String, String)> {
        self.reader.about()
    }

    fn names_objects(&self) -> bool {
        self.reader.names_objects()
    }

    fn position(&self) -> String {
        self.reader.position()
    }

    fn bytes_read(&self) -> u64 {
        self.reader.bytes_read()
    }
}

#[cfg(test)]
mod tests;
