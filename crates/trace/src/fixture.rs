//! Traces for tests: requests written down by hand, read like any other.

use crate::{Batch, ContentHash, Op, Request, TraceError, TraceReader};
use thermocline_units::{Bytes, Nanos, VolumeId};

/// A trace in memory, given out in batches of `batch` requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Recorded {
    /// Requests with their hashes.
    pub(crate) requests: Vec<(Request, Vec<ContentHash>)>,
    pub(crate) volumes: Vec<String>,
    pub(crate) batch: usize,
    given: usize,
}

/// A read of 4 KiB on volume 0.
pub(crate) fn read_at(time: u64, offset: u64) -> Request {
    Request {
        time: Nanos(time),
        volume: VolumeId(0),
        op: Op::Read,
        offset: Bytes(offset),
        length: Bytes(4096),
        response: None,
        hashes: Default::default(),
    }
}

impl Recorded {
    pub(crate) fn new(requests: &[Request], volumes: &[&str]) -> Recorded {
        Recorded {
            requests: requests.iter().map(|request| (*request, Vec::new())).collect(),
            volumes: volumes.iter().map(|name| name.to_string()).collect(),
            batch: 2,
            given: 0,
        }
    }

    /// Everything a reader gives.
    pub(crate) fn of(reader: &mut dyn TraceReader) -> Result<Recorded, TraceError> {
        let (mut recorded, mut batch) = (Recorded::new(&[], &[]), Batch::default());
        loop {
            reader.read_batch(&mut batch)?;
            if batch.requests.is_empty() {
                recorded.volumes = reader.volumes().to_vec();
                return Ok(recorded);
            }
            for request in &batch.requests {
                let hashes = batch.hashes_of(request).to_vec();
                let request = Request { hashes: Default::default(), ..*request };
                recorded.requests.push((request, hashes));
            }
        }
    }

    pub(crate) fn times(&self) -> Vec<u64> {
        self.requests.iter().map(|(request, _)| request.time.0).collect()
    }
}

impl TraceReader for Recorded {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        let end = (self.given + self.batch).min(self.requests.len());
        for (request, hashes) in &self.requests[self.given..end] {
            let hashes = batch.push_hashes(hashes);
            batch.requests.push(Request { hashes, ..*request });
        }
        self.given = end;
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }
}
