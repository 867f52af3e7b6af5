//! The store behind a server, compared with the one in memory that the laboratory runs on.

#![allow(clippy::unwrap_used)]

use super::{Backing, Told};
use thermocline_content::{Action, Completed, Domain, Quotas, Service, Settings, Store};
use thermocline_hostcache::{
    BLOCK_BYTES, Content, ContentId, Hash, HostId, How, MemoryStore, Outcome, Server,
    ServerSettings, Shortage, StoreAnswer, StoreItem, StoreRequest, ToAgent, ToServer, WriteItem,
};
use thermocline_ports::Geometry;
use thermocline_ports::faulty::{Faults, SimDisk};
use thermocline_units::{Bytes, Nanos, Rng, VolumeId};

const BLOCKS: u32 = 32;

struct AdminApi {
    backing: Backing<SimDisk>,
    now: Nanos,
}

impl AdminApi {
    fn new() -> AdminApi {
        let geometry = Geometry { size: Bytes::from_mib(16), discard_zeroes: false, far: false };
        let settings = Settings {
            segment: Bytes::from_kib(256),
            journal_blocks: 64,
            known_blocks: 64,
            ..Settings::default()
        };
        let disk = SimDisk::new(geometry, 1, Faults::NONE);
        let store = Store::format(Nanos(0), disk, settings, 3).unwrap();
        let mut admin = AdminApi { backing: Backing::new(store), now: Nanos(0) };
        admin.run();
        assert_eq!(*admin.backing.store().service(), Service::Ready);
        admin
    }

    fn run(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        while let Some(next) = self.backing.next_event() {
            self.now = self.now.max(next);
            self.backing.poll(self.now, &mut told);
        }
        told
    }

    fn order(&mut self, action: Action) -> Completed {
        self.backing.order(self.now, 1, action);
        match self.run().pop() {
            Some(Told::Order(1, Ok(completed))) => completed,
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, request: StoreRequest) -> StoreAnswer {
        self.backing.begin(self.now, 5, request);
        let mut told = self.run();
        assert_eq!(told.len(), 1);
        match told.pop() {
            Some(Told::Server(5, answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, name: &str, domain: u32) -> VolumeId {
        self.create_sized(name, domain, BLOCKS)
    }

    fn create_sized(&mut self, name: &str, domain: u32, blocks: u32) -> VolumeId {
        let (name, domain, quotas) = (name.to_string(), Domain(domain), Quotas::default());
        let size = Bytes(u64::from(blocks) * BLOCK_BYTES as u64);
        match self.order(Action::Create { name, size, domain, quotas }) {
            Completed::Created(volume) => volume,
            other => panic!("{other:?}"),
        }
    }
}

fn block(value: u8) -> Vec<u8> {
    vec![value; BLOCK_BYTES]
}

fn hash(value: u8) -> Hash {
    thermocline_content::ContentId::of(&block(value)).0
}

fn data(value: u8) -> StoreItem {
    StoreItem::Data(block(value).into(), hash(value))
}

/// Answers without numbers, which each store gives as it likes.
fn plain(answer: &StoreAnswer) -> String {
    let hash = |content: &Option<Content>| content.map(|content| content.hash);
    match answer {
        StoreAnswer::Contents(all) => format!("{:?}", all.iter().map(hash).collect::<Vec<_>>()),
        StoreAnswer::Written(all) => {
            let name = |one: &Outcome| match one {
                Outcome::Written(content) => format!("{:?}", content.hash),
                other => format!("{other:?}"),
            };
            format!("{:?}", all.iter().map(name).collect::<Vec<_>>())
        }
        StoreAnswer::Map(runs, next) => {
            let run = |(at, run): &(u32, Vec<Option<Content>>)| {
                (*at, run.iter().map(Option::is_some).collect::<Vec<_>>())
            };
            format!("{:?} {next:?}", runs.iter().map(run).collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn it_answers_as_the_store_in_memory_does() {
    let (mut admin, mut memory) = (AdminApi::new(), MemoryStore::default());
    let image = admin.create("image", 0);
    assert_eq!(memory.create("image", BLOCKS, 0), image.0);
    let items: Vec<_> = (0..BLOCKS as u8).map(|at| data(1 + at % 7)).collect();
    let fill = StoreRequest::Write { volume: image.0, block: 0, items };
    assert_eq!(plain(&admin.ask(fill.clone())), plain(&memory.perform(fill)));
    // A snapshot, so that it is an image; the one in memory has the same under that number.
    admin.order(Action::Clone { from: image, name: "base".to_string(), read_only: true });
    assert_eq!(memory.clone_of(image.0, "base"), 2);
    admin.order(Action::Clone { from: VolumeId(2), name: "a".to_string(), read_only: false });
    assert_eq!(memory.clone_of(2, "a"), 3);
    admin.create("b", 1);
    memory.create("b", BLOCKS, 1);
    let mut rng = Rng::seeded(7);
    let (mut number, mut compared) = (0, [0; 4]);
    for _ in 0..600 {
        let volume = 3 + rng.below(2) as u32;
        let first = rng.below(u64::from(BLOCKS)) as u32;
        let count = 1 + rng.below(u64::from(BLOCKS - first).min(6)) as u32;
        let request = match rng.below(4) {
            0 => StoreRequest::Lookup { volume, block: first, count: count as u16 },
            1 => StoreRequest::Map { volume: 3, base: rng.below(2) == 0, block: first, count },
            2 => StoreRequest::Flush { volume },
            _ => {
                let item = |rng: &mut Rng| match rng.below(5) {
                    0 => StoreItem::Zero,
                    1 => StoreItem::Unknown,
                    2 => StoreItem::Hash(hash(rng.below(12) as u8 + 1)),
                    _ => data(rng.below(12) as u8 + 1),
                };
                let mut items: Vec<_> = (0..count).map(|_| item(&mut rng)).collect();
                // A name whose bytes come with the same request may be known or not.
                let came: Vec<Hash> = items
                    .iter()
                    .filter_map(|item| match item {
                        StoreItem::Data(_, hash) => Some(*hash),
                        _ => None,
                    })
                    .collect();
                let comes =
                    |item: &StoreItem| matches!(item, StoreItem::Hash(hash) if came.contains(hash));
                items
                    .iter_mut()
                    .filter(|item| comes(item))
                    .for_each(|item| *item = StoreItem::Zero);
                StoreRequest::Write { volume, block: first, items }
            }
        };
        let kind = match request {
            StoreRequest::Lookup { .. } => 0,
            StoreRequest::Map { .. } => 1,
            StoreRequest::Flush { .. } => 2,
            _ => 3,
        };
        // The one in memory forgets nothing; no content is swept here either.
        let (ours, theirs) = (admin.ask(request.clone()), memory.perform(request.clone()));
        assert_eq!(plain(&ours), plain(&theirs), "{request:?}");
        compared[kind] += 1;
        if let StoreAnswer::Contents(contents) = &ours
            && let Some(content) = contents.iter().flatten().next()
        {
            number = content.number;
            let bytes = admin.ask(StoreRequest::Fetch { number });
            let StoreAnswer::Block(Some(bytes)) = bytes else { panic!("{bytes:?}") };
            assert_eq!(thermocline_content::ContentId::of(&bytes).0, content.hash);
        }
    }
    assert!(number != 0 && compared.iter().all(|&count| count > 80), "{compared:?}");
}

#[test]
fn a_lease_is_kept_and_a_volume_says_what_it_is_made_of() {
    let mut admin = AdminApi::new();
    let image = admin.create("image", 2);
    admin.order(Action::Clone { from: image, name: "base".to_string(), read_only: true });
    let base = VolumeId(image.0 + 1);
    admin.order(Action::Clone { from: base, name: "vm".to_string(), read_only: false });
    let lease = Nanos(1_500_000_001);
    let fence = StoreRequest::Fence { volume: base.0 + 1, fence: 9, holder: 4, lease };
    assert_eq!(admin.ask(fence), StoreAnswer::Done);
    let open = |admin: &mut AdminApi, name: &str| match admin
        .ask(StoreRequest::Open { name: name.to_string() })
    {
        StoreAnswer::Volume(info) => info,
        other => panic!("{other:?}"),
    };
    let vm = open(&mut admin, "vm").unwrap();
    assert_eq!((vm.fence, vm.holder, vm.base, vm.domain), (9, 4, base.0, 2));
    assert_eq!((vm.blocks, vm.read_only), (BLOCKS, false));
    assert_eq!(vm.lease, Nanos(1_501_000_000), "whole milliseconds, rounded up");
    assert!(open(&mut admin, "base").unwrap().read_only);
    assert_eq!(open(&mut admin, "image").unwrap().base, 0);
    assert_eq!(open(&mut admin, "nobody"), None);
    admin.order(Action::Delete { volume: base });
    assert_eq!(open(&mut admin, "vm").unwrap().base, 0, "its image is gone");
    // A host that still has the image's map must not take the clone for the same.
    let map = StoreRequest::Map { volume: base.0 + 1, base: false, block: 0, count: 64 };
    assert_eq!(admin.ask(map), StoreAnswer::Failed);
    assert_eq!(
        admin.ask(StoreRequest::Lookup { volume: base.0, block: 0, count: 1 }),
        StoreAnswer::Failed
    );
}

/// Whatever a host says that has the layout, the server and the store behind it go on, and nothing
/// is left waiting.
#[test]
fn a_host_that_says_anything_breaks_nothing() {
    let mut refused = 0;
    for seed in 0..60 {
        let mut admin = AdminApi::new();
        let image = admin.create("image", 0);
        admin.ask(StoreRequest::Write { volume: image.0, block: 0, items: vec![data(1), data(2)] });
        admin.order(Action::Clone { from: image, name: "base".to_string(), read_only: true });
        admin.order(Action::Clone { from: VolumeId(2), name: "vm".to_string(), read_only: false });
        let settings = ServerSettings::new(crate::hash_of, 1, seed);
        let mut server = Server::new(settings, admin.now).unwrap();
        server.joined(HostId(1), 1).unwrap();
        let mut rng = Rng::seeded(seed);
        for round in 0..200 {
            let message = anything(&mut rng, round);
            if server.hear(admin.now, HostId(1), message).is_err() {
                server.joined(HostId(1), 1).unwrap();
            }
            // Sometimes several are under way.
            if rng.below(3) > 0 {
                refused += serve(&mut server, &mut admin);
            }
            if rng.below(40) == 0 {
                admin.backing.store_mut().sweep();
            }
        }
        refused += serve(&mut server, &mut admin);
        assert_eq!(server.outstanding(), 0, "seed {seed}");
        assert!(admin.backing.store().check().is_empty(), "seed {seed}");
    }
    assert!(refused > 1000, "{refused}");
}

fn anything(rng: &mut Rng, round: u32) -> ToServer {
    let one = |rng: &mut Rng, of: &[u32]| of[rng.below(of.len() as u64) as usize];
    let (request, volume) = (round, one(rng, &[0, 1, 2, 3, 3, 3, 3, 4, u32::MAX]));
    let block = one(rng, &[0, 1, 5, 31, 32, 1 << 20, u32::MAX]);
    let fence = u64::from(one(rng, &[0, 1, 1, 1, 2, u32::MAX]));
    match rng.below(9) {
        0 | 1 => {
            let volume = ["vm", "vm", "base", "image", "nobody", ""][rng.below(6) as usize];
            ToServer::Attach { request, volume: volume.to_string(), fence }
        }
        2 => ToServer::Read {
            request,
            volume,
            block,
            count: 1 + rng.below(256) as u16,
            how: [How::Usual, How::Hashes, How::Bytes][rng.below(3) as usize],
        },
        3 | 4 => {
            let item = |rng: &mut Rng| match rng.below(4) {
                0 => WriteItem::Zero,
                1 => WriteItem::Id(ContentId(rng.next_u64() >> rng.below(64))),
                2 => WriteItem::Hash(hash(rng.below(5) as u8)),
                _ => WriteItem::Data(block_of_bytes(rng.below(5) as u8)),
            };
            let items = (0..1 + rng.below(6)).map(|_| item(rng)).collect();
            ToServer::Write { request, volume, fence, block, fua: rng.below(2) == 0, items }
        }
        5 => ToServer::Flush { request, volume, fence },
        6 => ToServer::Map { request, volume, base: rng.below(2) == 0, block },
        7 => ToServer::Held { hashes: (0..rng.below(6)).map(|at| hash(at as u8)).collect() },
        _ if rng.below(4) == 0 => ToServer::Release { volume, fence, to: Some(HostId(9)) },
        _ => ToServer::Evicted { ids: vec![ContentId(rng.next_u64())] },
    }
}

fn block_of_bytes(value: u8) -> bytes::Bytes {
    block(value).into()
}

/// Carries on until nothing moves; how many requests were refused.
fn serve(server: &mut Server, admin: &mut AdminApi) -> usize {
    let mut refused = 0;
    loop {
        let mut moved = false;
        while let Some((op, request)) = server.next_store_request() {
            admin.backing.begin(admin.now, op, request);
            moved = true;
        }
        for told in admin.run() {
            let Told::Server(op, answer) = told else { panic!("nobody ordered anything") };
            server.stored(admin.now, op, answer);
            moved = true;
        }
        while let Some((_, message)) = server.next_message() {
            refused += usize::from(matches!(message, ToAgent::Refused { .. }));
            moved = true;
        }
        if !moved {
            return refused;
        }
    }
}

#[test]
fn held_contents_are_found_in_their_domains_and_swept_ones_are_gone() {
    let mut admin = AdminApi::new();
    let (one, _) = (admin.create("one", 0), admin.create("other", 1));
    let items = vec![data(1), data(2)];
    let written = admin.ask(StoreRequest::Write { volume: one.0, block: 0, items });
    let StoreAnswer::Written(written) = written else { panic!("{written:?}") };
    let Outcome::Written(Content { number, .. }) = written[0] else { panic!("{written:?}") };
    let find = |domains| StoreRequest::Find { hashes: vec![hash(1), hash(5)], domains };
    let found = admin.ask(find(1));
    assert_eq!(plain(&found), format!("{:?}", [Some(hash(1)), None]));
    assert_eq!(plain(&admin.ask(find(2))), format!("{:?}", [None::<Hash>, None]));
    assert_eq!(plain(&admin.ask(find(0))), format!("{:?}", [None::<Hash>, None]));
    let sharers = |admin: &mut AdminApi| {
        admin.ask(StoreRequest::Sharers { number, volumes: vec![one.0], cap: 8 })
    };
    assert_eq!(sharers(&mut admin), StoreAnswer::Sharers(vec![(one.0, 0)]));
    admin.ask(StoreRequest::Write { volume: one.0, block: 0, items: vec![data(3)] });
    assert_eq!(sharers(&mut admin), StoreAnswer::Sharers(Vec::new()));
    admin.backing.store_mut().sweep();
    admin.run();
    admin.ask(StoreRequest::Flush { volume: one.0 });
    admin.run();
    assert_eq!(admin.ask(StoreRequest::Fetch { number }), StoreAnswer::Block(None));
    // Requests of one moment: a read behind a write sees it.
    let write = StoreRequest::Write { volume: one.0, block: 4, items: vec![data(6)] };
    admin.backing.begin(admin.now, 1, write);
    let lookup = StoreRequest::Lookup { volume: one.0, block: 4, count: 1 };
    admin.backing.begin(admin.now, 2, lookup);
    let told = admin.run();
    let seen = told.iter().find_map(|told| match told {
        Told::Server(2, answer) => Some(plain(answer)),
        _ => None,
    });
    assert_eq!(seen, Some(format!("{:?}", [Some(hash(6))])));
}

/// The numbers of the server's requests that were told, in order; all of them succeeded.
fn succeeded(told: Vec<Told>) -> Vec<u32> {
    let number = |told| match told {
        Told::Server(op, StoreAnswer::Written(_) | StoreAnswer::Done) => op,
        other => panic!("{other:?}"),
    };
    told.into_iter().map(number).collect()
}

/// The number of the next host was durable before writes of the host before it had ended: they were
/// handed out earlier, waited for others of the same blocks, and changed what the next host read.
#[test]
fn a_fence_waits_for_the_writes_of_the_former_host() {
    let mut admin = AdminApi::new();
    let volume = admin.create("vm", 0);
    let fence_now = |admin: &AdminApi| {
        let status = admin.backing.volume_named("vm").unwrap();
        admin.backing.info(&status).unwrap().fence
    };
    let write =
        |value| StoreRequest::Write { volume: volume.0, block: 2, items: vec![data(value)] };
    admin.backing.begin(admin.now, 1, write(1));
    admin.backing.begin(admin.now, 2, write(2));
    let fence = StoreRequest::Fence { volume: volume.0, fence: 1, holder: 4, lease: Nanos(0) };
    admin.backing.begin(admin.now, 3, fence);
    // What a host reads under the new number comes after both writes.
    let lookup = StoreRequest::Lookup { volume: volume.0, block: 2, count: 1 };
    admin.backing.begin(admin.now, 4, lookup);
    assert_eq!(fence_now(&admin), 0, "the second write waits for the first one");
    let mut told = admin.run();
    let at = told.iter().position(|told| matches!(told, Told::Server(4, _))).unwrap();
    let Told::Server(_, seen) = told.remove(at) else { unreachable!() };
    assert_eq!(plain(&seen), format!("{:?}", [Some(hash(2))]));
    assert_eq!(succeeded(told), [1, 2, 3]);
    assert_eq!(fence_now(&admin), 1);
}

/// An administrator's write to a volume passed the writes of hosts that waited, and a host could
/// read the block before it was written.
#[test]
fn an_administrators_write_has_its_turn() {
    let mut admin = AdminApi::new();
    let volume = admin.create("vm", 0);
    let write =
        |value| StoreRequest::Write { volume: volume.0, block: 2, items: vec![data(value)] };
    admin.backing.begin(admin.now, 1, write(1));
    admin.backing.begin(admin.now, 2, write(2));
    let offset = Bytes(2 * BLOCK_BYTES as u64);
    let action = Action::Write { volume, offset, data: block(3).into(), fua: false };
    admin.backing.order(admin.now, 9, action);
    let fence = StoreRequest::Fence { volume: volume.0, fence: 1, holder: 4, lease: Nanos(0) };
    admin.backing.begin(admin.now, 3, fence);
    let mut told = admin.run();
    let at = told.iter().position(|told| matches!(told, Told::Order(9, Ok(_)))).unwrap();
    assert_eq!(at, 2, "{told:?}");
    told.remove(at);
    assert_eq!(succeeded(told), [1, 2, 3]);
    let seen = admin.ask(StoreRequest::Lookup { volume: volume.0, block: 2, count: 1 });
    assert_eq!(plain(&seen), format!("{:?}", [Some(hash(3))]));
}

/// Each write that ended at once began the next one within itself: a host that sent thousands to
/// one block could have had the store's stack run out.
#[test]
fn thousands_of_writes_of_one_block_go_one_after_the_other() {
    const WRITES: u32 = 4_000;
    let mut admin = AdminApi::new();
    let volume = admin.create("vm", 0);
    let write = |item| StoreRequest::Write { volume: volume.0, block: 2, items: vec![item] };
    admin.backing.begin(admin.now, 0, write(data(1)));
    for op in 1..=WRITES {
        admin.backing.begin(admin.now, op, write(StoreItem::Unknown));
    }
    // A thread of this size had room for a few hundred of them.
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let told = small.spawn(move || admin.run()).unwrap().join().unwrap();
    assert_eq!(succeeded(told), (0..=WRITES).collect::<Vec<u32>>());
}

/// Writes by names that are not known are asked for one by one. The store refuses more than 4,096
/// requests at once, and a refused write cost a host its volume: it was told that the store is
/// full.
#[test]
fn no_write_is_refused_because_there_are_many() {
    const WRITES: u32 = 64;
    let mut admin = AdminApi::new();
    let volume = admin.create_sized("vm", 0, WRITES * 256);
    for at in 0..WRITES {
        let unknown = |block: u32| StoreItem::Hash([(at + block) as u8; 32]);
        let items = (0..256).map(unknown).collect();
        let write = StoreRequest::Write { volume: volume.0, block: at * 256, items };
        admin.backing.begin(admin.now, at, write);
    }
    let told = admin.run();
    assert_eq!(told.len(), WRITES as usize);
    for told in told {
        let Told::Server(_, StoreAnswer::Written(written)) = told else { panic!("{told:?}") };
        assert!(written.iter().all(|one| *one == Outcome::Unknown), "nothing is known");
    }
}

/// Writes blocks of a volume; the outcomes.
fn outcomes(
    admin: &mut AdminApi,
    volume: VolumeId,
    block: u32,
    items: Vec<StoreItem>,
) -> Vec<&'static str> {
    let answer = admin.ask(StoreRequest::Write { volume: volume.0, block, items });
    let StoreAnswer::Written(outcomes) = answer else { panic!("{answer:?}") };
    let one = |outcome: &Outcome| match outcome {
        Outcome::Unknown => "unknown",
        Outcome::Zero => "zero",
        Outcome::Written(_) => "written",
        Outcome::Refused(Shortage::Store) => "full",
        Outcome::Refused(Shortage::Logical) => "logical",
        Outcome::Refused(Shortage::Physical) => "physical",
    };
    outcomes.iter().map(one).collect()
}

/// A quota refuses block by block; the rest of the request is carried out, and what was refused is
/// as it was.
#[test]
fn what_a_quota_has_no_room_for_is_refused_and_the_rest_is_written() {
    let mut admin = AdminApi::new();
    let volume = admin.create("vm", 0);
    let set = |admin: &mut AdminApi, logical: u64, physical: u64| {
        let bytes = |blocks: u64| Bytes(blocks * BLOCK_BYTES as u64);
        let quotas = Quotas { logical: bytes(logical), physical: bytes(physical) };
        admin.order(Action::SetQuotas { volume, quotas });
    };
    assert_eq!(outcomes(&mut admin, volume, 0, vec![data(1), data(2)]), ["written"; 2]);
    set(&mut admin, 3, 100);
    // Parts that would each grow the volume by one block: all but one are too much.
    let mixed = vec![data(3), StoreItem::Zero, data(4), StoreItem::Hash(hash(1))];
    let refused = outcomes(&mut admin, volume, 2, mixed);
    assert_eq!(refused, ["written", "zero", "logical", "logical"]);
    assert_eq!(admin.backing.take_refused(), [(volume.0, 1, Shortage::Logical); 2]);
    let lookup = StoreRequest::Lookup { volume: volume.0, block: 0, count: 6 };
    let held = [Some(hash(1)), Some(hash(2)), Some(hash(3)), None, None, None];
    assert_eq!(plain(&admin.ask(lookup)), format!("{held:?}"));
    set(&mut admin, 100, 3);
    let items = vec![StoreItem::Hash(hash(1)), data(5)];
    assert_eq!(outcomes(&mut admin, volume, 4, items), ["written", "physical"]);
    assert_eq!(outcomes(&mut admin, volume, 0, vec![data(6)]), ["physical"], "over what is there");
    set(&mut admin, 100, 4);
    assert_eq!(outcomes(&mut admin, volume, 0, vec![data(6)]), ["written"]);
}

/// Contents that nothing else has: a number of a round, and one within it.
fn content_of(round: u16, at: u16) -> StoreItem {
    let bytes = [round.to_le_bytes(), at.to_le_bytes()].concat().repeat(1024);
    let hash = thermocline_content::ContentId::of(&bytes).0;
    StoreItem::Data(bytes.into(), hash)
}

#[test]
fn a_full_store_refuses_what_is_new_and_nothing_else() {
    let mut admin = AdminApi::new();
    let volume = admin.create("vm", 0);
    // A snapshot of each round keeps what was written.
    let snapshot = |admin: &mut AdminApi, name: String| {
        admin.order(Action::Clone { from: volume, name, read_only: true });
    };
    let full = (0..200).find(|&round| {
        let items = (1..=BLOCKS as u16).map(|at| content_of(round, at)).collect();
        let is_full = outcomes(&mut admin, volume, 0, items).contains(&"full");
        snapshot(&mut admin, format!("round{round}"));
        is_full
    });
    assert!(full.is_some(), "200 rounds are more than 16 MiB");
    // Single blocks may still find room where thirty-two of them did not.
    let full = (0..BLOCKS as u16).find(|&at| {
        let one = vec![content_of(1000, at)];
        let is_full = outcomes(&mut admin, volume, u32::from(at), one) == ["full"];
        snapshot(&mut admin, format!("single{at}"));
        is_full
    });
    assert!(full.is_some(), "thirty-two blocks were too many");
    let lookup = StoreRequest::Lookup { volume: volume.0, block: 0, count: 4 };
    let before = plain(&admin.ask(lookup.clone()));
    assert_eq!(outcomes(&mut admin, volume, 0, vec![data(240)]), ["full"]);
    assert_eq!(plain(&admin.ask(lookup)), before, "it is as it was");
    let zeroes = vec![StoreItem::Zero; 4];
    assert_eq!(outcomes(&mut admin, volume, 0, zeroes), ["zero"; 4], "trim needs no room");
    assert!(admin.backing.trouble().is_none());
}

/// Each part of a map cost 65,536 entries of two maps, whatever came of it.
#[test]
fn a_part_of_a_map_costs_what_it_returns() {
    let mut admin = AdminApi::new();
    let image = admin.create_sized("image", 0, 100_000);
    let items = vec![data(1); 64];
    admin.ask(StoreRequest::Write { volume: image.0, block: 50_000, items });
    admin.order(Action::Clone { from: image, name: "base".to_string(), read_only: true });
    let base = VolumeId(image.0 + 1);
    admin.order(Action::Clone { from: base, name: "vm".to_string(), read_only: false });
    let vm = base.0 + 1;
    assert_eq!(outcomes(&mut admin, VolumeId(vm), 50_010, vec![data(2)]), ["written"]);
    let (answer, steps) = admin.backing.map_part(vm, true, 50_000, 4096);
    let StoreAnswer::Map(runs, next) = answer else { panic!("{answer:?}") };
    assert_eq!((runs.len(), runs[0].1.len(), next, steps), (1, 4096, Some(54_096), 4096));
    let (answer, steps) = admin.backing.map_part(vm, false, 0, 4096);
    let StoreAnswer::Map(runs, next) = answer else { panic!("{answer:?}") };
    let found = runs.iter().map(|(at, run)| (*at, run.len())).collect::<Vec<_>>();
    assert_eq!((found, next), (vec![(50_010, 1)], None));
    // Two nodes of 1,008 entries lie on the way to the block that differs.
    assert!(steps <= 2 * 1008, "{steps} steps for one block");
}

/// A content of an image counted as one although its clones have it, so that hosts were not told
/// that other volumes have it.
#[test]
fn contents_of_clones_count_for_each_of_them() {
    let mut admin = AdminApi::new();
    let image = admin.create("image", 0);
    outcomes(&mut admin, image, 3, vec![data(1), data(2)]);
    for name in ["a", "b"] {
        admin.order(Action::Clone { from: image, name: name.to_string(), read_only: false });
    }
    let shares = |admin: &mut AdminApi, volume: u32, block: u32| {
        let lookup = StoreRequest::Lookup { volume, block, count: 1 };
        let answer = admin.ask(lookup);
        let StoreAnswer::Contents(contents) = answer else { panic!("{answer:?}") };
        contents[0].unwrap().shares
    };
    let (a, b) = (image.0 + 1, image.0 + 2);
    assert_eq!((shares(&mut admin, a, 3), shares(&mut admin, b, 4)), (3, 3));
    // One of them differs, and has a leaf of its own.
    outcomes(&mut admin, VolumeId(a), 4, vec![data(5)]);
    assert_eq!((shares(&mut admin, a, 4), shares(&mut admin, b, 4)), (1, 2));
    assert!(shares(&mut admin, b, 3) >= 2 && shares(&mut admin, a, 3) >= 2);
}

/// A host that may use one domain sent writes of guessed ids. Where another domain held the same
/// content, the answer was its own id: so it learned what the other domain holds.
#[test]
fn numbers_of_other_domains_name_nothing() {
    let mut admin = AdminApi::new();
    let (own, other) = (admin.create("own", 0), admin.create("other", 5));
    admin.ask(StoreRequest::Write { volume: own.0, block: 0, items: vec![data(7)] });
    let theirs = StoreRequest::Write { volume: other.0, block: 0, items: vec![data(7)] };
    let StoreAnswer::Written(written) = admin.ask(theirs) else { panic!() };
    let Outcome::Written(content) = &written[0] else { panic!("{written:?}") };
    let guessed = content.number;
    let by_number = || vec![StoreItem::Number(guessed)];
    assert_eq!(outcomes(&mut admin, own, 1, by_number()), ["unknown"]);
    assert_eq!(outcomes(&mut admin, other, 1, by_number()), ["written"]);
}
