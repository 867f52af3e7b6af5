//! The guarantees of a store, one claim a test, on a disk without faults.

#![allow(clippy::unwrap_used)]

use thermocline_content::{
    Action, BLOCK, Completed, ContentId, Domain, Mapped, OpenError, QuotaKind, Quotas, Request,
    RequestError, RequestId, Service, Settings, Store,
};
use thermocline_ports::faulty::{Faults, SimDisk, Survival};
use thermocline_ports::{Completion, Device, Geometry, Io, Payload, Ticket};
use thermocline_units::mutants::plant;
use thermocline_units::{Bytes, Nanos, Rng, VolumeId};

type Outcome = Result<Completed, RequestError>;

struct Client {
    store: Store<SimDisk>,
    now: Nanos,
    next: u64,
}

fn settings() -> Settings {
    Settings {
        segment: Bytes::from_kib(256),
        journal_blocks: 64,
        known_blocks: 1024,
        ..Settings::default()
    }
}

fn disk(size: Bytes) -> SimDisk {
    SimDisk::new(Geometry { size, discard_zeroes: false, far: false }, 1, Faults::NONE)
}

impl Client {
    fn new() -> Client {
        Client::with(settings())
    }

    fn with(settings: Settings) -> Client {
        let store = Store::format(Nanos(0), disk(Bytes::from_mib(16)), settings, 9).unwrap();
        Client { store, now: Nanos(0), next: 0 }.settled()
    }

    fn open(disk: SimDisk) -> Client {
        let store = Store::open(Nanos(1 << 50), disk, settings()).unwrap();
        Client { store, now: Nanos(1 << 50), next: 0 }.settled()
    }

    fn settled(mut self) -> Client {
        self.settle();
        self
    }

    fn settle(&mut self) {
        let mut answers = Vec::new();
        while let Some(next) = self.store.next_event() {
            self.now = self.now.max(next);
            self.store.poll(self.now, &mut answers);
        }
        assert!(answers.is_empty(), "{answers:?}");
    }

    fn ask(&mut self, action: Action) -> Outcome {
        self.next += 1;
        self.store.submit(self.now, Request { id: RequestId(self.next), action });
        let mut answers = Vec::new();
        while answers.is_empty() {
            self.now = self.now.max(self.store.next_event().expect("somebody waits"));
            self.store.poll(self.now, &mut answers);
        }
        assert_eq!(answers.len(), 1);
        answers.remove(0).result
    }

    fn create(&mut self, name: &str, size: Bytes, domain: u32, quotas: Quotas) -> VolumeId {
        let name = name.to_string();
        let action = Action::Create { name, size, domain: Domain(domain), quotas };
        match self.ask(action) {
            Ok(Completed::Created(volume)) => volume,
            other => panic!("{other:?}"),
        }
    }

    fn volume(&mut self, name: &str) -> VolumeId {
        self.create(name, Bytes::from_mib(8), 0, Quotas::default())
    }

    fn clone_of(&mut self, from: VolumeId, name: &str, read_only: bool) -> VolumeId {
        match self.ask(Action::Clone { from, name: name.to_string(), read_only }) {
            Ok(Completed::Created(volume)) => volume,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, volume: VolumeId, block: u64, bytes: Vec<u8>) -> Outcome {
        let offset = Bytes(block * u64::from(BLOCK));
        self.ask(Action::Write { volume, offset, data: Payload::from(bytes), fua: false })
    }

    fn read(&mut self, volume: VolumeId, block: u64) -> Vec<u8> {
        let offset = Bytes(block * u64::from(BLOCK));
        match self.ask(Action::Read { volume, offset, length: BLOCK }) {
            Ok(Completed::Read(data)) => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn stored(&self) -> u64 {
        self.store.status().stored.0 / u64::from(BLOCK)
    }
}

fn block(fill: u8) -> Vec<u8> {
    vec![fill; BLOCK as usize]
}

#[test]
fn equal_blocks_are_stored_once_and_zeroes_not_at_all() {
    let mut client = Client::new();
    let (one, two) = (client.volume("one"), client.volume("two"));
    for at in 0..4 {
        client.write(one, at, block(7)).unwrap();
        client.write(two, at, block(7)).unwrap();
    }
    client.write(two, 9, block(0)).unwrap();
    assert_eq!(client.stored(), 1);
    assert_eq!(client.read(two, 3), block(7));
    assert_eq!(client.read(two, 9), block(0));
    assert_eq!(client.store.volumes()[0].mapped, Bytes(4 * u64::from(BLOCK)));
    assert_eq!(client.store.check(), []);
}

#[test]
fn forty_clones_cost_one_map_and_their_differences() {
    let mut client = Client::new();
    let base = client.volume("base");
    for at in 0..8 {
        let bytes = (0..64).flat_map(|b| block(1 + (at * 64 + b) as u8 % 251)).collect();
        client.write(base, at * 64, bytes).unwrap();
    }
    let nodes = client.store.status().nodes;
    let clones: Vec<VolumeId> =
        (0..40).map(|clone| client.clone_of(base, &format!("clone-{clone}"), false)).collect();
    assert_eq!(client.store.status().nodes, nodes, "a clone costs no node");
    client.write(clones[7], 3, block(99)).unwrap();
    client.settle();
    let more = client.store.status().nodes - nodes;
    assert!(more <= 2, "a block that differs costs a path, not a map: {more}");
    assert_eq!(client.read(clones[8], 3), client.read(base, 3));
    assert_eq!(client.read(clones[7], 3), block(99));
    assert_eq!(client.store.check(), []);
}

/// One error of the device that passed was the end of volumes: a host gives a volume up whose write
/// failed, and a new block is waited for by all that write it.
#[test]
fn a_write_of_a_new_block_that_fails_once_is_tried_again() {
    let mut client = Client::new();
    let volume = client.volume("vm");
    for nth in 1..3 {
        client.store.device_mut().fail_nth(1);
        client.write(volume, nth, block(nth as u8)).unwrap();
        assert_eq!(client.read(volume, nth), block(nth as u8));
    }
    assert_eq!(client.stored(), 2);
    let faults = Faults { fail: 1.0, ..Faults::NONE };
    client.store.device_mut().set_faults(faults);
    let failed = client.write(volume, 5, block(5));
    assert!(matches!(failed, Err(RequestError::Device(_))), "{failed:?}");
}

#[test]
fn names_that_cannot_be_sent_are_refused() {
    let mut client = Client::new();
    for name in ["", "my vm", "größe", "a/b", ".hidden", "-x", "a%20b", &"x".repeat(65)] {
        let (name, size) = (name.to_string(), Bytes::from_mib(1));
        let action = Action::Create { name, size, domain: Domain(0), quotas: Quotas::default() };
        assert_eq!(client.ask(action), Err(RequestError::Name));
    }
    client.volume(&"x".repeat(64));
}

#[test]
fn domains_share_nothing_and_learn_nothing() {
    let mut client = Client::new();
    let one = client.create("one", Bytes::from_mib(1), 1, Quotas::default());
    let two = client.create("two", Bytes::from_mib(1), 2, Quotas::default());
    client.write(one, 0, block(7)).unwrap();
    let contents = vec![ContentId::of(&block(7))];
    let known = |volume| Action::WriteKnown {
        volume,
        offset: Bytes(0),
        contents: contents.clone(),
        fua: false,
    };
    assert_eq!(client.ask(known(two)), Ok(Completed::Unknown));
    assert_eq!(client.read(two, 0), block(0));
    assert!(matches!(client.ask(known(one)), Ok(Completed::Written { .. })));
    client.write(two, 0, block(7)).unwrap();
    assert_eq!(client.stored(), 2);
}

#[test]
fn a_pinned_block_stays_and_an_unpinned_one_goes_with_its_name() {
    let mut client = Client::new();
    let volume = client.volume("v");
    client.write(volume, 0, block(7)).unwrap();
    let content = ContentId::of(&block(7));
    let pinned = client.ask(Action::Pin { domain: Domain(0), content });
    let Ok(Completed::Pinned(name)) = pinned else { panic!("{pinned:?}") };
    client.write(volume, 0, block(8)).unwrap();
    client.store.sweep();
    client.settle();
    assert_eq!(client.stored(), 2);
    assert!(client.store.unpin_block(name));
    assert!(!client.store.unpin_block(name), "one pin ends once");
    client.store.sweep();
    client.settle();
    assert_eq!(client.stored(), 1);
    client.write(volume, 1, block(9)).unwrap();
    let (_, map) = client.store.map(volume, 1, 1).unwrap();
    let later = map[0].unwrap();
    assert_eq!(later.number, name.number, "the number is used again");
    assert!(later.generation > name.generation, "with another generation");
    assert_eq!(client.store.share_count(name), 0);
}

#[test]
fn quotas_bound_what_is_mapped_and_what_is_stored() {
    let mut client = Client::new();
    let bytes = |blocks: u64| Bytes(blocks * u64::from(BLOCK));
    let quotas = Quotas { logical: bytes(4), physical: bytes(2) };
    let volume = client.create("v", Bytes::from_mib(1), 0, quotas);
    client.write(volume, 0, block(1)).unwrap();
    client.write(volume, 1, block(2)).unwrap();
    let physical = Err(RequestError::Quota(QuotaKind::Physical));
    assert_eq!(client.write(volume, 2, block(3)), physical);
    client.write(volume, 2, block(1)).unwrap();
    client.write(volume, 3, block(1)).unwrap();
    let logical = Err(RequestError::Quota(QuotaKind::Logical));
    assert_eq!(client.write(volume, 4, block(1)), logical);
    let length = bytes(1);
    client.ask(Action::Zero { volume, offset: bytes(1), length, fua: false }).unwrap();
    client.write(volume, 4, block(3)).unwrap();
}

/// A write of many equal blocks brings one block.
#[test]
fn equal_blocks_of_a_write_count_once() {
    let mut client = Client::new();
    let bytes = |blocks: u64| Bytes(blocks * u64::from(BLOCK));
    let quotas = Quotas { logical: bytes(100), physical: bytes(3) };
    let volume = client.create("v", Bytes::from_mib(1), 0, quotas);
    client.write(volume, 0, [block(1), block(1), block(2), block(1)].concat()).unwrap();
    client.write(volume, 8, block(3).repeat(64)).unwrap();
    let refused = Err(RequestError::Quota(QuotaKind::Physical));
    assert_eq!(client.write(volume, 90, block(4)), refused);
    assert_eq!(client.read(volume, 71), block(3));
}

/// Number of 20 writes at once that were carried out under a quota of eight blocks.
fn written_at_once(kind: QuotaKind) -> usize {
    let mut client = Client::new();
    let bytes = |blocks: u64| Bytes(blocks * u64::from(BLOCK));
    let quotas = match kind {
        QuotaKind::Logical => Quotas { logical: bytes(8), ..Quotas::default() },
        QuotaKind::Physical => Quotas { physical: bytes(8), ..Quotas::default() },
    };
    let volume = client.create("v", Bytes::from_mib(1), 0, quotas);
    for at in 0..20 {
        let data = Payload::from(block(100 + at as u8));
        let action = Action::Write { volume, offset: bytes(at), data, fua: false };
        client.store.submit(client.now, Request { id: RequestId(1000 + at), action });
    }
    let mut answers = Vec::new();
    while answers.len() < 20 {
        client.now = client.now.max(client.store.next_event().expect("somebody waits"));
        client.store.poll(client.now, &mut answers);
    }
    let refused = Err(RequestError::Quota(kind));
    assert!(answers.iter().all(|answer| answer.result.is_ok() || answer.result == refused));
    // Nothing is claimed any more.
    client.ask(Action::Zero { volume, offset: bytes(0), length: bytes(20), fua: false }).unwrap();
    for at in 0..8 {
        client.write(volume, at, block(200 + at as u8)).unwrap();
    }
    answers.iter().filter(|answer| answer.result.is_ok()).count()
}

/// Writes at once saw each other's room as free, and went beyond a quota together.
#[test]
fn writes_at_once_stay_within_a_quota_together() {
    for kind in [QuotaKind::Logical, QuotaKind::Physical] {
        assert_eq!(written_at_once(kind), 8, "{kind:?}");
    }
    if cfg!(debug_assertions) {
        let _planted = plant("quotas_without_claims");
        assert!(written_at_once(QuotaKind::Logical) > 8, "the mutant lets more through");
    }
}

#[test]
fn what_is_told_of_blocks_is_their_hash() {
    let mut client = Client::new();
    let volume = client.volume("v");
    client.write(volume, 1, block(7)).unwrap();
    let action = Action::Identify { volume, offset: Bytes(0), blocks: 2 };
    let Ok(Completed::Identified(names)) = client.ask(action) else { panic!("no names") };
    assert_eq!(names[0], Mapped::Zeroes);
    assert!(matches!(names[1], Mapped::Block(_, content) if content == ContentId::of(&block(7))));
}

#[test]
fn a_block_is_there_by_its_number_until_it_is_swept() {
    let mut client = Client::new();
    let volume = client.volume("v");
    client.write(volume, 0, block(7)).unwrap();
    let (_, ids) = client.store.map(volume, 0, 2).unwrap();
    let [Some(number), None] = ids[..] else { panic!("{ids:?}") };
    let fetch = Action::Fetch { block: number };
    assert_eq!(client.ask(fetch.clone()), Ok(Completed::Read(Payload::from(block(7)))));
    client.write(volume, 0, block(8)).unwrap();
    client.store.sweep();
    client.settle();
    client.ask(Action::Flush).unwrap();
    client.settle();
    assert_eq!(client.ask(fetch), Ok(Completed::Unknown), "it was swept");
}

#[test]
fn tags_and_origins_survive_and_a_clone_begins_without_a_tag() {
    let mut client = Client::new();
    let volume = client.volume("v");
    client.write(volume, 0, block(7)).unwrap();
    let tag = [3; 16];
    client.ask(Action::SetTag { volume, tag }).unwrap();
    let clone = client.clone_of(volume, "c", false);
    let mut disk = client.store.into_device();
    disk.crash(&mut Rng::seeded(1), Survival::Lost);
    let mut client = Client::open(disk);
    let told = |volume| {
        let all = client.store.volumes();
        let it = all.into_iter().find(|it| it.id == volume).unwrap();
        (it.tag, it.origin)
    };
    assert_eq!((told(volume), told(clone)), ((tag, VolumeId(0)), ([0; 16], volume)));
    assert_eq!(client.read(volume, 0), block(7), "what was answered before the tag is durable");
}

#[test]
fn impossible_requests_are_refused() {
    let mut client = Client::new();
    let volume = client.volume("v");
    let snapshot = client.clone_of(volume, "s", true);
    let nobody = VolumeId(77);
    assert_eq!(client.write(nobody, 0, block(1)), Err(RequestError::NoVolume(nobody)));
    assert_eq!(client.write(snapshot, 0, block(1)), Err(RequestError::ReadOnly));
    assert_eq!(client.write(volume, 2048, block(1)), Err(RequestError::Range));
    assert_eq!(client.write(volume, u64::MAX >> 12, block(1)), Err(RequestError::Range));
    assert_eq!(client.write(volume, 0, vec![1; 100]), Err(RequestError::Range));
    assert_eq!(client.write(volume, 0, Vec::new()), Err(RequestError::Range));
    let again = Action::Clone { from: volume, name: "s".to_string(), read_only: false };
    assert_eq!(client.ask(again), Err(RequestError::NameTaken));
    let nameless = Action::Clone { from: volume, name: String::new(), read_only: false };
    assert_eq!(client.ask(nameless), Err(RequestError::Name));
    let huge = Action::Create {
        name: "huge".to_string(),
        size: Bytes(u64::MAX / 512 * 512),
        domain: Domain(0),
        quotas: Quotas::default(),
    };
    assert_eq!(client.ask(huge), Err(RequestError::Range));
    assert_eq!(client.store.check(), []);
}

#[test]
fn a_full_store_says_so_and_can_be_emptied() {
    let mut client = Client::new();
    let volume = client.create("v", Bytes::from_mib(64), 0, Quotas::default());
    let mut at = 0;
    let full = loop {
        let bytes: Vec<u8> =
            (0..16u64).flat_map(|b| (at * 16 + b + 1).to_le_bytes().repeat(512)).collect();
        match client.write(volume, at * 16, bytes) {
            Ok(_) => at += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, RequestError::NoSpace);
    let status = client.store.status();
    assert!(status.stored.0 * 16 > status.capacity.0 * 15, "too early: {status:?}");
    let length = Bytes(at * 16 * u64::from(BLOCK));
    client.ask(Action::Zero { volume, offset: Bytes(0), length, fua: false }).unwrap();
    client.write(volume, 0, block(1)).unwrap();
    client.store.sweep();
    client.settle();
    assert_eq!(client.stored(), 1);
    assert_eq!(client.store.check(), []);
}

#[test]
fn devices_without_a_store_or_with_a_damaged_one_are_refused() {
    let empty = Client::open(disk(Bytes::from_mib(16)));
    assert_eq!(*empty.store.service(), Service::Refused(OpenError::NoStore));
    let small = Store::format(Nanos(0), disk(Bytes::from_mib(1)), settings(), 9);
    assert!(matches!(small, Err(OpenError::TooSmall { .. })));
    let mut client = Client::new();
    let volume = client.volume("v");
    client.write(volume, 0, block(7)).unwrap();
    client.ask(Action::Flush).unwrap();
    let mut disk = client.store.into_device();
    disk.crash(&mut Rng::seeded(1), Survival::Lost);
    // Superblocks 0 and 1 at the start go; their copies are at the end.
    let data = Payload::from(vec![0xA5; 8192]);
    disk.submit(Nanos(1 << 49), Ticket(0), Io::Write { offset: Bytes(0), data, fua: true });
    disk.poll(Nanos(1 << 50), &mut Vec::new());
    let mut again = Client::open(disk);
    assert_eq!(*again.store.service(), Service::Ready);
    assert_eq!(again.read(volume, 0), block(7));
}

/// Disks after 200 power failures while a commit of several blocks is written.
fn torn_commits() -> Vec<SimDisk> {
    // One segment has room for all: a full one would have the journal written earlier.
    let mut client = Client::with(Settings { segment: Bytes::from_mib(1), ..settings() });
    let volume = client.volume("v");
    client.ask(Action::Flush).unwrap();
    let bytes = (1..200u64).flat_map(|number| number.to_le_bytes().repeat(512)).collect();
    client.write(volume, 0, bytes).unwrap();
    let before = client.store.device_mut().submitted();
    client.store.submit(client.now, Request { id: RequestId(0), action: Action::Flush });
    // The flush of the device, and the write of the journal.
    while client.store.device_mut().submitted() < before + 2 {
        client.now = client.now.max(client.store.next_event().unwrap());
        client.store.poll(client.now, &mut Vec::new());
    }
    let disk = client.store.into_device();
    let crashed = |seed| {
        let mut disk = disk.clone();
        disk.crash(&mut Rng::seeded(seed), Survival::Torn);
        disk
    };
    (0..200).map(crashed).collect()
}

/// Number of disks with a torn commit whose store is not ready after it was opened.
fn refusals_after_a_torn_commit() -> usize {
    let desks = torn_commits().into_iter().map(Client::open);
    desks.filter(|client| *client.store.service() != Service::Ready).count()
}

#[test]
fn a_torn_end_of_the_journal_is_no_damage() {
    assert_eq!(refusals_after_a_torn_commit(), 0);
    if cfg!(debug_assertions) {
        let _planted = plant("block_forgets_its_commit");
        assert!(refusals_after_a_torn_commit() > 0, "the plan does not reach it");
    }
}

/// Number of disks with a torn commit whose store changes, or is not ready, when it crashes again
/// after one more small commit.
fn changes_after_a_torn_commit() -> usize {
    let changed = |disk: &SimDisk| {
        let mut client = Client::open(disk.clone());
        let volume = VolumeId(1);
        let before: Vec<_> = (0..199).map(|at| client.read(volume, at)).collect();
        client.write(volume, 300, block(7)).unwrap();
        client.ask(Action::Flush).unwrap();
        let mut disk = client.store.into_device();
        disk.crash(&mut Rng::seeded(1), Survival::Lost);
        let store = Store::open(Nanos(1 << 51), disk, settings()).unwrap();
        let mut client = Client { store, now: Nanos(1 << 51), next: 0 }.settled();
        *client.store.service() != Service::Ready
            || (0..199).any(|at| client.read(volume, at) != before[at as usize])
    };
    torn_commits().iter().filter(|disk| changed(disk)).count()
}

#[test]
fn what_a_torn_commit_left_does_not_come_back_later() {
    assert_eq!(changes_after_a_torn_commit(), 0);
    if cfg!(debug_assertions) {
        let _planted = plant("journal_keeps_its_generation");
        assert!(changes_after_a_torn_commit() > 0, "the plan does not reach it");
    }
}

/// Number of flaws after the only entry that names a block moved from a leaf that a sweep has not
/// visited yet to one that it has.
fn flaws_after_a_block_moved_under_a_sweep() -> usize {
    let mut client = Client::with(Settings { fanout: 8, ..settings() });
    let volume = client.volume("v");
    for at in 0..8u64 {
        let bytes = (0..64).flat_map(|b| block((1 + (at * 64 + b) % 100) as u8)).collect();
        client.write(volume, at * 64, bytes).unwrap();
    }
    let last = 511 * u64::from(BLOCK);
    client.write(volume, 511, block(200)).unwrap();
    client.settle();
    client.store.sweep();
    for _ in 0..2 {
        client.store.poll(client.now, &mut Vec::new());
    }
    let contents = vec![ContentId::of(&block(200))];
    client.ask(Action::WriteKnown { volume, offset: Bytes(0), contents, fua: false }).unwrap();
    let (offset, length) = (Bytes(last), Bytes(u64::from(BLOCK)));
    client.ask(Action::Zero { volume, offset, length, fua: false }).unwrap();
    client.settle();
    client.store.check().len()
}

#[test]
fn a_block_that_moves_under_a_sweep_stays() {
    assert_eq!(flaws_after_a_block_moved_under_a_sweep(), 0);
    if cfg!(debug_assertions) {
        let _planted = plant("sweep_misses_what_is_mapped_meanwhile");
        // A count that does not add up may be noticed before the check.
        let flaws = std::panic::catch_unwind(flaws_after_a_block_moved_under_a_sweep);
        assert!(flaws.is_err() || flaws.unwrap() > 0, "the plan does not reach it");
    }
}

#[test]
fn structures_and_what_many_clones_share_are_worth_more() {
    use thermocline_content::Worth;
    let mut client = Client::new();
    let size = Bytes::from_mib(1);
    let (image, other) = (
        client.create("image", size, 0, Quotas::default()),
        client.create("other", size, 0, Quotas::default()),
    );
    let bytes = |seed: u64| -> Vec<u8> {
        let mut rng = Rng::seeded(seed);
        (0..BLOCK / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
    };
    // Two segments of the image's blocks, then one of others.
    for block in 0..126 {
        client.write(image, block, bytes(block)).unwrap();
    }
    for block in 0..63 {
        client.write(other, block, bytes(1000 + block)).unwrap();
    }
    let shared = |client: &Client| -> u64 {
        let parts = client.store.worth();
        assert_eq!((parts[0].0, parts[0].2), (Bytes(0), Worth::Metadata));
        assert!(parts.windows(2).all(|two| two[0].1 <= two[1].0), "{parts:?}");
        parts.iter().filter(|part| part.2 == Worth::Shared).map(|part| part.1.0 - part.0.0).sum()
    };
    for clone in 0..4 {
        assert_eq!(shared(&client), 0, "{clone} clones are few");
        let (name, read_only) = (format!("clone{clone}"), false);
        client.ask(Action::Clone { from: image, name, read_only }).unwrap();
    }
    assert_eq!(shared(&client), 2 * Bytes::from_kib(256).0);
}

/// Reading the differences of a clone looked at 65,536 entries of both maps for each part, whatever
/// it found. Now what is shared costs nothing.
#[test]
fn differences_of_a_clone_cost_what_they_are() {
    let mut client = Client::with(Settings { fanout: 64, ..settings() });
    let blocks = 65_536;
    let size = Bytes(blocks * u64::from(BLOCK));
    let image = client.create("image", size, 0, Quotas::default());
    for at in (0..blocks).step_by(256) {
        client.write(image, at, block(1).repeat(256)).unwrap();
    }
    let made = client.ask(Action::Clone { from: image, name: "vm".to_string(), read_only: false });
    let Ok(Completed::Created(vm)) = made else { panic!("{made:?}") };
    let differ = |client: &Client, first, most, steps| {
        client.store.differences((vm, image), first, most, steps).unwrap()
    };
    let none = differ(&client, 0, 4096, 1000);
    assert_eq!((none.blocks.len(), none.next, none.steps), (0, None, 0));
    let changed = [5u32, 30_000, 65_535];
    for &at in &changed {
        client.write(vm, at.into(), block(2)).unwrap();
    }
    let length = Bytes(u64::from(BLOCK));
    let offset = Bytes(40_000 * u64::from(BLOCK));
    client.ask(Action::Zero { volume: vm, offset, length, fua: false }).unwrap();
    let at = |found: &thermocline_content::Differences| {
        found.blocks.iter().map(|(at, id)| (*at, id.is_some())).collect::<Vec<_>>()
    };
    let all = differ(&client, 0, 4096, 100_000);
    assert_eq!(at(&all), [(5, true), (30_000, true), (40_000, false), (65_535, true)]);
    assert_eq!(all.next, None);
    // Three levels of 64 entries on the way to each of four blocks, and a root for all.
    assert!(all.steps <= 64 + 4 * 2 * 64, "{} steps", all.steps);
    let two = differ(&client, 0, 2, 100_000);
    assert_eq!((at(&two), two.next), (vec![(5, true), (30_000, true)], Some(30_001)));
    let rest = differ(&client, 30_001, 4096, 100_000);
    assert_eq!(at(&rest), [(40_000, false), (65_535, true)]);
    // Few steps at a time come to the same.
    let (mut found, mut next) = (Vec::new(), Some(0));
    while let Some(first) = next {
        let part = differ(&client, first, 4096, 100);
        assert!(part.steps <= 100 && part.next.is_none_or(|next| next > first));
        found.extend(at(&part));
        next = part.next;
    }
    assert_eq!(found, at(&all));
}

/// Without comparing what is read, blocks whose names are not remembered were told as zeroes.
#[test]
fn names_are_told_also_where_reads_are_not_compared() {
    let settings = Settings { verify_reads: false, known_blocks: 1, ..settings() };
    let mut client = Client::with(settings);
    let volume = client.create("vm", Bytes::from_mib(1), 0, Quotas::default());
    for at in 0..4 {
        client.write(volume, at, block(at as u8 + 1)).unwrap();
    }
    for at in 0..4 {
        let offset = Bytes(at * u64::from(BLOCK));
        let told = client.ask(Action::Identify { volume, offset, blocks: 1 });
        let Ok(Completed::Identified(names)) = told else { panic!("{told:?}") };
        let Mapped::Block(_, name) = names[0] else { panic!("{names:?}") };
        assert_eq!(name, ContentId::of(&block(at as u8 + 1)));
    }
}

/// A disk that is told of requests when it is polled, as the kernel is.
struct Keeping {
    disk: SimDisk,
    kept: Vec<(Nanos, Ticket, Io)>,
}

impl Device for Keeping {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        self.kept.push((now, ticket, io));
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        for (at, ticket, io) in self.kept.drain(..) {
            self.disk.submit(at, ticket, io);
        }
        self.disk.poll(now, done);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.disk.next_event()
    }
}

/// A flush that followed a write was kept by the device until somebody polled it again: a second
/// later. Every forced write of a guest took that long.
#[test]
fn whatever_the_device_is_sent_is_handed_over_before_a_poll_ends() {
    let device = Keeping { disk: disk(Bytes::from_mib(16)), kept: Vec::new() };
    let mut store = Store::format(Nanos(0), device, settings(), 9).unwrap();
    let (mut now, mut answers) = (Nanos(0), Vec::new());
    let mut ask = |action: Option<Action>| {
        if let Some(action) = action {
            store.submit(now, Request { id: RequestId(1), action });
        }
        loop {
            store.poll(now, &mut answers);
            assert!(store.device_mut().kept.is_empty(), "the device keeps requests");
            match answers.pop() {
                Some(answer) => return Some(answer.result.unwrap()),
                None => now = now.max(store.next_event()?),
            }
        }
    };
    assert_eq!(ask(None), None);
    let name = "vm".to_string();
    let (size, quotas) = (Bytes::from_mib(4), Quotas::default());
    let made = ask(Some(Action::Create { name, size, domain: Domain(0), quotas }));
    let Some(Completed::Created(volume)) = made else { panic!("{made:?}") };
    for at in 0..8 {
        let (offset, data) = (Bytes(at * u64::from(BLOCK)), block(at as u8 + 1).into());
        ask(Some(Action::Write { volume, offset, data, fua: at % 2 == 0 }));
        ask(Some(Action::Flush));
    }
}
