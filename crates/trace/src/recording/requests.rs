//! A recording as a block trace: its requests, with the latencies that were answered.
//!
//! 1. Requests are held back, in order, until they are answered: an answer stands behind them.
//! 2. The first is given out when it is answered, when [`HELD_MAX`] stand behind it, or at the end.
//!
//! Zeroes on request are told as trims, which is what the volume does with them: whole chunks are
//! freed, no data is carried.

use super::events::EventReader;
use super::{Ask, Asked, Event, VOLUMES_MAX};
use crate::TraceReader;
use crate::error::TraceError;
use crate::formats::ReaderState;
use crate::order::Steady;
use crate::request::{Batch, HashRange, Op, Request};
use crate::volumes::Volumes;
use std::collections::VecDeque;
use thermocline_units::{Nanos, VolumeId};

/// Requests held back; a group has 4,096 under way at most.
const HELD_MAX: usize = 8192;
/// Greatest step back of a time that is lifted: an engine's clock does not go back.
const TOLERANCE: Nanos = Nanos::from_secs(1);

/// Reader of a recording's requests.
pub(crate) struct RequestReader {
    events: EventReader,
    held: VecDeque<(Asked, Option<Nanos>)>,
    /// Requests that came before the first held.
    given: u64,
    ended: bool,
    volumes: Volumes,
    /// Volumes by the machine's ids; our own ids are in the order of first sight.
    known: Vec<Option<VolumeId>>,
    steady: Steady,
    state: ReaderState,
}

impl RequestReader {
    pub(crate) fn new(events: EventReader) -> RequestReader {
        RequestReader {
            events,
            held: VecDeque::new(),
            given: 0,
            ended: false,
            volumes: Volumes::default(),
            known: vec![None; VOLUMES_MAX as usize],
            steady: Steady::new(TOLERANCE),
            state: ReaderState::default(),
        }
    }

    /// Reads on until the first request can be given out, or all is read.
    fn advance(&mut self) -> Result<(), TraceError> {
        while !self.ended
            && self.held.len() < HELD_MAX
            && self.held.front().is_none_or(|(_, took)| took.is_none())
        {
            match self.events.next_event()? {
                None => self.ended = true,
                Some(Event::Asked(asked)) => self.held.push_back((asked, None)),
                Some(Event::Answered { request, took, .. }) => {
                    let index = request.checked_sub(self.given);
                    let index = index.and_then(|index| usize::try_from(index).ok());
                    if let Some(held) = index.and_then(|index| self.held.get_mut(index)) {
                        held.1 = Some(took);
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        while batch.requests.len() < Batch::CAPACITY {
            self.advance()?;
            let Some((asked, took)) = self.held.pop_front() else { break };
            let number = self.given;
            self.given += 1;
            let request = self.request(&asked, took, number);
            batch.requests.push(request.map_err(|problem| self.events.malformed(problem))?);
        }
        self.state.requests += batch.requests.len() as u64;
        if self.state.requests == 0 {
            let torn = self.events.torn().map(|torn| format!(": {torn}")).unwrap_or_default();
            return Err(self.events.malformed(format!("there is no request in it{torn}")));
        }
        Ok(())
    }

    fn volume(&mut self, id: VolumeId) -> Result<VolumeId, String> {
        let Some(known) = self.known.get_mut(id.0 as usize) else {
            return Err(format!("volume {}; at most {}", id.0, VOLUMES_MAX - 1));
        };
        match *known {
            Some(ours) => Ok(ours),
            None => {
                let ours = self.volumes.id_of(id.to_string().as_bytes());
                Ok(*known.insert(ours.map_err(|problem| problem.to_string())?))
            }
        }
    }

    fn request(
        &mut self,
        asked: &Asked,
        response: Option<Nanos>,
        number: u64,
    ) -> Result<Request, String> {
        let volume = self.volume(asked.volume)?;
        let mut request = Request {
            time: asked.at,
            volume,
            op: match asked.ask {
                Ask::Read => Op::Read,
                Ask::Write => Op::Write,
                Ask::Flush => Op::Flush,
                Ask::Trim | Ask::Zero => Op::Trim,
            },
            offset: asked.offset,
            length: asked.length,
            response,
            hashes: HashRange::default(),
        };
        let place = || format!("request {}", number + 1);
        self.steady.admit(&mut request, place).map_err(|problem| problem.to_string())?;
        Ok(request)
    }
}

impl TraceReader for RequestReader {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        if self.state.failed {
            return Err(self.events.malformed(crate::formats::FAILED_BEFORE.to_string()));
        }
        let filled = self.fill(batch);
        if filled.is_err() {
            batch.clear();
            self.state.failed = true;
        }
        filled
    }

    fn volumes(&self) -> &[String] {
        self.volumes.names()
    }

    fn repairs(&self) -> Vec<String> {
        let mut repairs = Vec::new();
        self.steady.repairs(&mut repairs);
        self.state.repairs(&mut repairs);
        repairs.extend(self.events.torn());
        repairs
    }

    fn about(&self) -> Vec<(String, String)> {
        self.events.about().to_vec()
    }

    fn bytes_read(&self) -> u64 {
        self.events.bytes_read()
    }
}
