//! From memory to the bucket: generations on their way, and the records that name them.
//!
//! An upload round begins when somebody flushes, and one runs at a time; who comes meanwhile shares
//! the next.
//!
//! 1. Every extent that has a layer is noted: once if its layer is open or on its way, twice if one
//!    is and the other is.
//! 2. They go to the bucket, [`UPLOADS_MAX`] at once. Nobody sees their generations there.
//! 3. One record names all generations that are there and not named. It is written where no record
//!    is yet; if ours is there already, because an answer was lost, it counts, and another one
//!    follows. If somebody else's is there, the device is theirs.
//! 4. Who waited is answered; generations that no record names any more are deleted.
//!
//! A generation that a failed record may have named is deleted only after a later record is known
//! to be there. Every so many records (`ObjectSettings::map_records`), or when they are as long as
//! the map would be, the map is written, and the records in it are deleted; those that tell of
//! openings stay, for they keep the place that a program with an old state would write to next.

use super::bucket::{BucketError, Page};
use super::device::{Gathered, ObjectDevice, UPLOADS_MAX, device_error};
use super::format::{Generation, Kind, Name, Record, log_key, map_key};
use super::layer::Layer;
use super::opening::Opened;
use super::worker::{Commit, Job};
use std::collections::BTreeMap;
use std::sync::Arc;
use thermocline_ports::{DeviceError, Payload, Ticket};
use thermocline_units::mutants::mutant;

/// Share of the most records behind a map from which on one is written when it is no longer than
/// they are.
const MAP_RECORDS_SHARE: usize = 8;
/// Keys of one order to delete.
const DELETES: usize = 1000;

/// An upload round: generations on their way to the bucket, then the record that names them.
#[derive(Debug)]
pub(super) struct UploadRound {
    /// The last record that is known to be in the log.
    sequence: u64,
    running: bool,
    committing: bool,
    waiters: Vec<Ticket>,
    next: Vec<Ticket>,
    /// Layers still to be brought to the bucket, by extent.
    needs: BTreeMap<u32, u8>,
    error: Option<DeviceError>,
    /// Generations that nobody reads any more, to be deleted after the next record.
    doomed: Vec<Name>,
    /// The same, of the record on its way.
    dying: Vec<Name>,
    /// Records behind the newest map, and how many entries they have.
    written: Vec<u64>,
    entries: usize,
    maps: Vec<u64>,
    mapping: bool,
    /// Extents and generations that the record on its way names.
    pending: Vec<(u32, Generation)>,
    /// True if a record may be in the log that is not known to be.
    unsure: bool,
}

impl UploadRound {
    pub(super) fn new(opened: &Opened) -> UploadRound {
        UploadRound {
            sequence: opened.sequence,
            running: false,
            committing: false,
            waiters: Vec::new(),
            next: Vec::new(),
            needs: BTreeMap::new(),
            error: None,
            doomed: Vec::new(),
            dying: Vec::new(),
            written: opened.written.clone(),
            entries: 0,
            maps: opened.maps.clone(),
            mapping: false,
            pending: Vec::new(),
            unsure: false,
        }
    }

    /// Joins the next round.
    pub(super) fn join(&mut self, waiter: Ticket) {
        self.next.push(waiter);
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.running && self.next.is_empty()
    }
}

impl ObjectDevice {
    /// Starts what can be started.
    pub(super) fn pump(&mut self) {
        if self.lost || self.retry_at.is_some_and(|at| self.now < at) {
            return;
        }
        if self.retry_at.take().is_some() {
            self.gathered.values_mut().for_each(|gathered| gathered.sulks = false);
        }
        self.admit();
        self.start_round();
        while self.uploading < UPLOADS_MAX {
            let Some(extent) = self.next_extent() else { break };
            self.upload(extent);
            self.admit();
        }
        let stuck = self.is_pressed() && self.uploading == 0 && self.next_extent().is_none();
        if stuck && !self.holds_on() {
            self.turn_away_writers(self.round.error.unwrap_or(DeviceError::Io));
        }
        let settled = self.round.needs.is_empty() || mutant("record_before_its_objects");
        if self.round.running && !self.round.committing && settled {
            self.commit();
        }
    }

    /// Step 1.
    fn start_round(&mut self) {
        if self.round.running || self.round.next.is_empty() {
            return;
        }
        self.round.running = true;
        self.round.error = None;
        self.round.waiters = std::mem::take(&mut self.round.next);
        for (&extent, gathered) in &mut self.gathered {
            gathered.sulks = false;
            let layers = u8::from(!gathered.open.is_empty()) + u8::from(gathered.sealed.is_some());
            let layers = if mutant("flush_waits_for_one_layer") { 1 } else { layers };
            self.round.needs.insert(extent, layers);
        }
    }

    /// The extent that goes to the bucket next: for the round, then whole extents, then the oldest
    /// when room is wanted.
    fn next_extent(&self) -> Option<u32> {
        let may_go = |extent: &u32| {
            let gathered = &self.gathered[extent];
            gathered.sealed.is_none() && !gathered.open.is_empty() && !gathered.sulks
        };
        let needed = self.round.needs.keys().copied().find(may_go);
        let whole = || self.whole.iter().copied().find(may_go);
        let oldest = || {
            let all = self.gathered.keys().copied().filter(may_go);
            all.filter(|_| self.is_pressed()).min_by_key(|extent| self.gathered[extent].since)
        };
        needed.or_else(whole).or_else(oldest)
    }

    /// Sends an extent's open layer on its way.
    fn upload(&mut self, extent: u32) {
        self.whole.remove(&extent);
        let base = self.current(extent);
        let gathered = self.gathered.get_mut(&extent).expect("it was chosen among them");
        let layer = std::mem::take(&mut gathered.open);
        if layer.is_bare_drop() {
            return self.settled(extent, Generation::NONE);
        }
        self.count += 1;
        let generation = Generation::new(self.epoch, self.count);
        let generation = generation.expect("2^40 objects take a thousand years");
        let layer = Arc::new(layer);
        gathered.sealed = Some((layer.clone(), generation));
        self.uploading += 1;
        let base = if layer.is_dropped() { Generation::NONE } else { base };
        let (name, length) = (self.name(extent, generation), self.shape.length_of(extent));
        self.worker.send(Job::Write { name, layer, base, length });
    }

    /// A generation is in the bucket, or is not.
    pub(super) fn written(
        &mut self,
        extent: u32,
        generation: Generation,
        result: Result<(), BucketError>,
    ) {
        self.uploading -= 1;
        let gathered = self.gathered.get_mut(&extent).expect("it has a layer on its way");
        let (layer, sealed) = gathered.sealed.take().expect("it is on its way");
        assert_eq!(sealed, generation, "one generation of an extent is on its way at a time");
        let blocks = layer.block_count();
        let result = if mutant("failed_object_counts") { Ok(()) } else { result };
        let Err(error) = result else {
            self.failing_since = None;
            self.blocks_held -= blocks;
            return self.settled(extent, generation);
        };
        // It may be there nevertheless; nobody will name it.
        self.round.doomed.push(Name { identity: self.identity, extent, generation });
        let Gathered { open, .. } = std::mem::take(gathered);
        let before = blocks + open.block_count();
        let below = Arc::try_unwrap(layer).unwrap_or_else(|shared| Layer::clone(&shared));
        let open = open.over(below);
        self.blocks_held = self.blocks_held + open.block_count() - before;
        let since = 0;
        *gathered = Gathered { open, sealed: None, since, sulks: true };
        self.failed(&error);
        self.round.error = self.round.error.or(Some(device_error(&error)));
        self.round.needs.remove(&extent);
    }

    /// An extent's generation is one that is in the bucket, or none.
    fn settled(&mut self, extent: u32, generation: Generation) {
        let old = self.fresh.insert(extent, generation);
        if let Some(old) = old.filter(|&old| old != Generation::NONE) {
            self.round.doomed.push(self.name(extent, old));
        }
        // Nothing to be told: the log says that there is none.
        let unsure = self.round.unsure && !mutant("doubtful_record_forgotten");
        let is_blank = generation == Generation::NONE && !unsure;
        if is_blank && self.named[extent as usize] == Generation::NONE {
            self.fresh.remove(&extent);
        }
        if self.gathered[&extent].open.is_empty() {
            self.gathered.remove(&extent);
        }
        if let Some(layers) = self.round.needs.get_mut(&extent) {
            *layers -= 1;
            if *layers == 0 {
                self.round.needs.remove(&extent);
            }
        }
    }

    /// Step 3.
    fn commit(&mut self) {
        if self.round.error.is_some() || self.fresh.is_empty() {
            return self.end_round();
        }
        self.round.committing = true;
        self.round.unsure = true;
        self.round.dying = std::mem::take(&mut self.round.doomed);
        if mutant("old_objects_deleted_before_the_record") {
            self.delete(self.named_before(self.fresh.keys().copied()));
        }
        let entries = self.fresh.iter().map(|(&extent, &generation)| (extent, generation));
        let record = Record {
            kind: Kind::Written,
            identity: self.identity,
            sequence: self.round.sequence + 1,
            epoch: self.epoch,
            owner: self.owner,
            shape: self.shape,
            entries: entries.collect(),
        };
        self.round.entries += record.entries.len();
        self.round.pending = record.entries.clone();
        self.worker.send(Job::Commit { record });
    }

    /// A record is in the log, or is not.
    pub(super) fn committed(&mut self, commit: Commit) {
        self.round.committing = false;
        if self.lost {
            return;
        }
        let entries = std::mem::take(&mut self.round.pending);
        match commit {
            Commit::Done => {
                self.failing_since = None;
                self.name_generations(&entries);
                self.round.unsure = mutant("doubt_never_ends");
                let dying = std::mem::take(&mut self.round.dying);
                self.delete(dying.iter().map(Name::key).collect());
                self.end_round();
                self.write_map();
            }
            Commit::Taken(record) if record.owner == self.owner => {
                // Its answer was lost. What has happened since needs a record of its own.
                self.name_generations(&record.entries);
                self.round.doomed.append(&mut self.round.dying);
            }
            Commit::Taken(_) if mutant("another_ones_record_counts") => {
                self.name_generations(&entries);
                self.end_round();
            }
            Commit::Taken(_) => self.lose(),
            Commit::Failed(error) => {
                if mutant("old_objects_deleted_although_the_record_failed") {
                    self.delete(self.named_before(entries.iter().map(|&(extent, _)| extent)));
                }
                self.failed(&error);
                self.round.doomed.append(&mut self.round.dying);
                self.round.error = Some(device_error(&error));
                self.end_round();
            }
        }
    }

    /// The log names these now.
    fn name_generations(&mut self, entries: &[(u32, Generation)]) {
        self.round.sequence += 1;
        self.round.written.push(self.round.sequence);
        for &(extent, generation) in entries {
            let old = std::mem::replace(&mut self.named[extent as usize], generation);
            self.objects += u64::from(generation != Generation::NONE);
            self.objects -= u64::from(old != Generation::NONE);
            if old != Generation::NONE && old != generation {
                self.round.dying.push(self.name(extent, old));
            }
            if self.fresh.get(&extent) == Some(&generation) {
                self.fresh.remove(&extent);
            }
        }
    }

    /// Keys of the objects that the log names for these extents.
    fn named_before(&self, extents: impl Iterator<Item = u32>) -> Vec<String> {
        let names = extents.map(|extent| self.name(extent, self.named[extent as usize]));
        names.filter(|name| name.generation != Generation::NONE).map(|name| name.key()).collect()
    }

    fn end_round(&mut self) {
        self.round.running = false;
        if self.round.error.is_some() && self.holds_on() {
            let next = std::mem::take(&mut self.round.next);
            self.round.next = std::mem::take(&mut self.round.waiters);
            return self.round.next.extend(next);
        }
        let error = self.round.error.filter(|_| !mutant("failed_flush_succeeds"));
        let result = error.map_or(Ok(Payload::EMPTY), Err);
        for waiter in std::mem::take(&mut self.round.waiters) {
            self.answer(waiter, result.clone());
        }
    }

    /// The device is somebody else's.
    pub(super) fn round_lost(&mut self) {
        let next = std::mem::take(&mut self.round.next);
        for waiter in std::mem::take(&mut self.round.waiters).into_iter().chain(next) {
            self.answer(waiter, Err(DeviceError::Gone));
        }
        self.round.running = false;
    }

    fn delete(&self, keys: Vec<String>) {
        for keys in keys.chunks(DELETES) {
            self.worker.send(Job::Delete { keys: keys.to_vec() });
        }
    }

    /// Writes the map when the log behind the last one is long.
    fn write_map(&mut self) {
        let (records, entries) = (self.round.written.len(), self.round.entries);
        let most = self.map_records;
        let least = most.div_ceil(MAP_RECORDS_SHARE);
        let due = records >= most || records >= least && entries as u64 >= self.objects;
        if self.round.mapping || !due {
            return;
        }
        self.round.mapping = true;
        let entries = (0..).zip(self.named.iter().copied());
        let record = Record {
            kind: Kind::Map,
            identity: self.identity,
            sequence: self.round.sequence,
            epoch: self.epoch,
            owner: self.owner,
            shape: self.shape,
            entries: entries.filter(|(_, named)| *named != Generation::NONE).collect(),
        };
        self.worker.send(Job::Map { record });
    }

    /// A map is in the bucket, or is not.
    pub(super) fn mapped(&mut self, sequence: u64, done: bool) {
        self.round.mapping = false;
        if !done && !mutant("log_deleted_although_the_map_failed") || self.lost {
            return;
        }
        let old = std::mem::replace(&mut self.round.maps, vec![sequence]);
        let old = old.into_iter().filter(|&map| map < sequence).map(map_key);
        let (gone, left) = self.round.written.iter().partition(|&&written| written <= sequence);
        self.round.written = left;
        self.round.entries = 0;
        let gone: Vec<u64> = gone;
        self.delete(old.chain(gone.into_iter().map(log_key)).collect());
    }

    /// Looks for objects that no record names: what was on its way when an earlier program ended,
    /// or could not be deleted.
    pub(super) fn sweep(&mut self) {
        if !self.lost {
            self.worker.send(Job::List { digit: 0, after: None });
        }
    }

    /// A page of extents' objects. Those of this opening are left alone.
    pub(super) fn listed(&mut self, digit: u32, result: Result<Page, BucketError>) {
        // A sweep that fails is begun anew at the next opening.
        let (false, Ok(page)) = (self.lost, result) else { return };
        let is_orphan = |&(extent, generation): &(u32, Generation)| {
            (generation.epoch() < self.epoch || mutant("sweep_takes_this_openings_objects"))
                && self.named.get(extent as usize).is_none_or(|&named| named != generation)
        };
        let orphans = page.objects.into_iter().filter(is_orphan);
        let keys = orphans.map(|(extent, generation)| self.name(extent, generation).key());
        self.delete(keys.collect());
        match (page.next, digit) {
            (Some(after), _) => self.worker.send(Job::List { digit, after: Some(after) }),
            (None, 15) => {}
            (None, _) => self.worker.send(Job::List { digit: digit + 1, after: None }),
        }
    }
}
