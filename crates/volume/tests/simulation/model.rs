//! The plain model of a volume group: which volumes exist, what each sector may hold, and what is
//! in flight.
//!
//! It knows nothing of pools, chunks or journals. Everything in flight and every change carries the
//! number of the event at which it happened; `sectors` says what follows from that for contents.
//! For volumes: creating, growing and deleting are effective at once, become certain with the next
//! flush, and until then a crash may or may not undo them. What recovery shows is certain.

use crate::sectors::{Ending, Issue, Sectors};
use crate::stamp::{self, Place, Seen};
use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_ports::{Payload, SECTOR};
use thermocline_units::VolumeId;
use thermocline_volume::Fragment;

/// Action of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Read,
    Write { fua: bool },
    WriteZeroes { fua: bool },
    Discard,
    Flush,
}

/// A request in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) deed: Deed,
    pub(crate) birth: u32,
    pub(crate) volume: VolumeId,
    /// Sectors; empty for a flush.
    pub(crate) range: Range<u64>,
    pub(crate) submitted: u64,
    /// The world's event before which it was submitted.
    pub(crate) event: u64,
}

/// A volume, or one that may come back.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    /// Unlike ids, never used twice.
    pub(crate) birth: u32,
    pub(crate) id: VolumeId,
    pub(crate) sectors: Sectors,
    /// Event of its creation, unless that is certain.
    created: Option<u64>,
    deleted: Option<u64>,
    /// Sizes it may have after a crash, with their moments; the last is the present one.
    sizes: Vec<(u64, u64)>,
}

/// Everything the model knows.
#[derive(Debug)]
pub(crate) struct Model {
    now: u64,
    births: u32,
    volumes: Vec<Volume>,
    /// Requests by number.
    flights: BTreeMap<u64, Flight>,
    sectors_per_chunk: u64,
}

impl Model {
    pub(crate) fn new(sectors_per_chunk: u64) -> Model {
        Model {
            now: 1,
            births: 0,
            volumes: Vec::new(),
            flights: BTreeMap::new(),
            sectors_per_chunk,
        }
    }

    /// The number of the next event.
    pub(crate) fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Volumes that exist, oldest first.
    pub(crate) fn volumes(&self) -> Vec<&Volume> {
        self.volumes.iter().filter(|volume| volume.deleted.is_none()).collect()
    }

    pub(crate) fn flights(&self) -> &BTreeMap<u64, Flight> {
        &self.flights
    }

    /// A volume was created.
    ///
    /// # Errors
    /// When a volume of this id exists.
    pub(crate) fn create(&mut self, id: VolumeId, sectors: u64) -> Result<(), String> {
        if self.volumes().iter().any(|volume| volume.id == id) {
            return Err(format!("{id} was given to a second volume"));
        }
        let now = self.tick();
        self.births += 1;
        self.volumes.push(Volume {
            birth: self.births,
            id,
            sectors: Sectors::new(sectors),
            created: Some(now),
            deleted: None,
            sizes: vec![(now, sectors)],
        });
        Ok(())
    }

    pub(crate) fn grow(&mut self, birth: u32, sectors: u64) {
        let now = self.tick();
        let volume = self.volume_mut(birth).expect("only volumes that exist grow");
        volume.sectors.resize(sectors);
        volume.sizes.push((now, sectors));
    }

    pub(crate) fn delete(&mut self, birth: u32) {
        let now = self.tick();
        self.volume_mut(birth).expect("only volumes that exist are deleted").deleted = Some(now);
    }

    /// Request `number` was accepted.
    pub(crate) fn submit(&mut self, number: u64, mut flight: Flight) {
        flight.submitted = self.tick();
        let seen = match flight.deed {
            Deed::Read | Deed::Flush => None,
            Deed::Write { .. } => Some(Seen::Write(number)),
            Deed::WriteZeroes { .. } | Deed::Discard => Some(Seen::Zeroes),
        };
        if let Some(seen) = seen {
            let volume = self.volume_mut(flight.birth).expect("requests go to volumes that exist");
            volume.sectors.begin(flight.range.clone(), number, seen);
        }
        let replaced = self.flights.insert(number, flight);
        assert!(replaced.is_none(), "request {number} is in flight already");
    }

    /// Takes a request out of flight that was answered.
    ///
    /// # Errors
    /// When it was not in flight.
    pub(crate) fn land(&mut self, number: u64) -> Result<Flight, String> {
        self.flights
            .remove(&number)
            .ok_or_else(|| format!("request {number} was answered twice, or was never submitted"))
    }

    /// A request other than a read was answered.
    pub(crate) fn answered(&mut self, number: u64, flight: &Flight, well: bool) {
        let now = self.tick();
        let oldest = self.oldest_read();
        let issue = Issue { write: number, submitted: flight.submitted };
        let ending = |fua: bool| match (well, fua) {
            (false, _) => Ending::Either,
            (true, false) => Ending::Written,
            (true, true) => Ending::Forced,
        };
        match flight.deed {
            Deed::Read => unreachable!("reads are observed"),
            Deed::Flush if well => self.flushed(flight.submitted, oldest),
            Deed::Flush => {}
            Deed::Write { fua } | Deed::WriteZeroes { fua } => {
                let Some(volume) = self.volume_mut(flight.birth) else { return };
                volume.sectors.end(flight.range.clone(), issue, ending(fua), now, oldest);
                if well && fua {
                    volume.created = None;
                    volume.needs(flight.range.end);
                }
            }
            Deed::Discard => {
                let per_chunk = self.sectors_per_chunk;
                let Some(volume) = self.volume_mut(flight.birth) else { return };
                for (range, whole) in by_chunks(&flight.range, per_chunk) {
                    let ending = ending(false);
                    let ending = if whole { ending } else { Ending::Either };
                    volume.sectors.end(range, issue, ending, now, oldest);
                }
            }
        }
    }

    /// A read was answered with contents.
    ///
    /// # Errors
    /// When they are not what may be there.
    pub(crate) fn observed(&mut self, flight: &Flight, pieces: &[Fragment]) -> Result<(), String> {
        let now = self.tick();
        let Some(volume) = self.volume_mut(flight.birth) else { return Ok(()) };
        if volume.deleted.is_some() {
            return Ok(()); // Its chunks are on their way out.
        }
        let seen = identify(pieces, flight, volume.birth)?;
        let name = format!("{} (#{})", volume.id, volume.birth);
        let observed = volume.sectors.observe(flight.range.start, &seen, flight.submitted, now);
        observed.map_err(|mismatch| format!("{name}: {mismatch}"))
    }

    /// Power fails, or an orderly end: everything in flight is cut off.
    pub(crate) fn crash(&mut self) {
        let now = self.tick();
        self.flights.clear();
        for volume in &mut self.volumes {
            volume.sectors.crash(now);
        }
    }

    /// Everything answered so far is durable.
    pub(crate) fn all_durable(&mut self) {
        let now = self.tick();
        self.flushed(now, now);
    }

    /// Recovery found these volumes, with their sizes in sectors. Those of which it cannot be said
    /// which of two that had the id they are, keep both: see `choose`.
    ///
    /// # Errors
    /// When a volume is missing, of another size, or unknown.
    pub(crate) fn adopt(&mut self, found: &[(VolumeId, u64)]) -> Result<(), String> {
        for volume in &self.volumes {
            let certain = volume.created.is_none() && volume.deleted.is_none();
            if certain && !found.iter().any(|(id, _)| *id == volume.id) {
                return Err(format!("{} is gone", volume.id));
            }
        }
        self.volumes.retain(|volume| found.iter().any(|(id, _)| *id == volume.id));
        for &(id, size) in found {
            let fits = |v: &Volume| v.id != id || v.sizes.iter().any(|(_, s)| *s == size);
            self.volumes.retain(fits);
            if !self.volumes.iter().any(|volume| volume.id == id) {
                return Err(format!("{id} exists with {size} sectors, which it never should"));
            }
        }
        for volume in &mut self.volumes {
            let (_, size) = found.iter().find(|(id, _)| *id == volume.id).expect("just retained");
            volume.sectors.resize(*size);
            volume.sizes = vec![(0, *size)];
            volume.created = None;
            volume.deleted = None;
        }
        Ok(())
    }

    /// Ids under which more than one volume may have come back.
    pub(crate) fn doubtful(&self) -> Vec<VolumeId> {
        let mut ids: Vec<VolumeId> = self.volumes.iter().map(|volume| volume.id).collect();
        ids.sort_unstable();
        let doubtful = ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        doubtful.collect()
    }

    /// Settles which of several volumes of id `id` came back by what was read of it, in runs; of
    /// those that it may be the youngest, as a dead pool may keep some contents from us.
    ///
    /// # Errors
    /// When it is none of them.
    pub(crate) fn choose(
        &mut self,
        id: VolumeId,
        read: &[(Range<u64>, Vec<Fragment>)],
    ) -> Result<(), String> {
        let now = self.tick();
        let fits = |volume: &Volume| {
            read.iter().try_for_each(|(range, pieces)| {
                let (deed, birth, range) = (Deed::Read, volume.birth, range.clone());
                let start = range.start;
                let flight = Flight { deed, birth, volume: id, range, submitted: now, event: 0 };
                let seen = identify(pieces, &flight, volume.birth).ok()?;
                volume.sectors.clone().observe(start, &seen, now, now).ok()
            })
        };
        let births: Vec<u32> = self
            .volumes
            .iter()
            .filter(|v| v.id == id && fits(v).is_some())
            .map(|v| v.birth)
            .collect();
        let chosen = *births.last().ok_or_else(|| format!("{id} is none of those it may be"))?;
        self.volumes.retain(|volume| volume.id != id || volume.birth == chosen);
        Ok(())
    }

    fn flushed(&mut self, submitted: u64, oldest_read: u64) {
        self.volumes.retain(|volume| volume.deleted.is_none_or(|at| at >= submitted));
        for volume in &mut self.volumes {
            volume.sectors.flushed(submitted, oldest_read);
            volume.created = volume.created.filter(|&at| at >= submitted);
            let kept = volume.sizes.iter().rposition(|(at, _)| *at < submitted).unwrap_or(0);
            volume.sizes.drain(..kept);
        }
    }

    fn oldest_read(&self) -> u64 {
        let reads = self.flights.values().filter(|flight| flight.deed == Deed::Read);
        reads.map(|flight| flight.submitted).min().unwrap_or(u64::MAX)
    }

    fn volume_mut(&mut self, birth: u32) -> Option<&mut Volume> {
        self.volumes.iter_mut().find(|volume| volume.birth == birth)
    }
}

impl Volume {
    /// A forced write up to sector `end` was answered: no smaller size can come back.
    fn needs(&mut self, end: u64) {
        self.sizes.retain(|(_, size)| *size >= end);
    }
}

/// Cuts a range into what covers whole chunks and what does not.
fn by_chunks(range: &Range<u64>, per_chunk: u64) -> Vec<(Range<u64>, bool)> {
    let first = range.start.next_multiple_of(per_chunk).min(range.end);
    let last = (range.end / per_chunk * per_chunk).max(first);
    let sub_requests = [(range.start..first, false), (first..last, true), (last..range.end, false)];
    sub_requests.into_iter().filter(|(sub_request, _)| !sub_request.is_empty()).collect()
}

/// Write that each sector of a read comes from.
fn identify(pieces: &[Fragment], flight: &Flight, birth: u32) -> Result<Vec<Seen>, String> {
    let sectors = flight.range.end - flight.range.start;
    let mut seen = Vec::with_capacity(sectors as usize);
    for piece in pieces {
        let at = seen.len() as u64 * u64::from(SECTOR);
        let whole = piece.payload.len().is_multiple_of(SECTOR) && !piece.payload.is_empty();
        if u64::from(piece.at) != at || !whole {
            return Err(format!("a read's pieces have gaps: {} is followed by {}", at, piece.at));
        }
        match &piece.payload {
            Payload::Zeroes(length) => {
                seen.resize(seen.len() + (length / SECTOR) as usize, Seen::Zeroes);
            }
            Payload::Bytes(bytes) => {
                for sector in bytes.chunks_exact(SECTOR as usize) {
                    let sector_number = (flight.range.start + seen.len() as u64) as u32;
                    seen.push(stamp::identify(sector, Place { birth, sector: sector_number }));
                }
            }
        }
    }
    match seen.len() as u64 == sectors {
        true => Ok(seen),
        false => Err(format!("a read of {sectors} sectors was answered with {}", seen.len())),
    }
}
