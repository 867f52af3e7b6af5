//! Requests of any length over an agent and a server in memory, compared with plain bytes.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::hash_of;
use thermocline_hostcache::{AgentSettings, HostId, MemoryStore, Server, ServerSettings};
use thermocline_units::{Bytes, Rng};

const BLOCKS: u32 = 24;
const NOW: Nanos = Nanos::from_secs(1);

struct AdminApi {
    agent: Agent,
    server: Server,
    store: MemoryStore,
    guests: Guests<u64>,
    volume: VolumeKey,
}

impl AdminApi {
    fn new() -> AdminApi {
        let mut store = MemoryStore::default();
        store.create("v", BLOCKS, 0);
        let host = HostId(1);
        let mut agent = Agent::new(AgentSettings::new(hash_of, host, 1)).unwrap();
        let mut server = Server::new(ServerSettings::new(hash_of, 1, 1), NOW).unwrap();
        server.joined(host, u64::MAX).unwrap();
        let volume = agent.attach(NOW, "v");
        agent.connected(NOW);
        let mut admin = AdminApi { agent, server, store, guests: Guests::default(), volume };
        admin.carry();
        admin
    }

    /// Messages go both ways, and the store answers, until nothing moves.
    fn carry(&mut self) -> Vec<Ended<u64>> {
        let mut ended = Vec::new();
        loop {
            let mut moved = false;
            while let Some(message) = self.agent.next_message() {
                self.server.hear(NOW, HostId(1), message).unwrap();
                moved = true;
            }
            while let Some((op, request)) = self.server.next_store_request() {
                let answer = self.store.perform(request);
                self.server.stored(NOW, op, answer);
            }
            while let Some((_, message)) = self.server.next_message() {
                self.agent.hear(NOW, message).unwrap();
                moved = true;
            }
            while let Some(event) = self.agent.next_event() {
                self.guests.hear(&mut self.agent, NOW, event);
                moved = true;
            }
            ended.extend(self.guests.take_ended());
            if !moved {
                return ended;
            }
        }
    }

    fn begin(&mut self, who: u64, action: Action) {
        self.guests.begin(&mut self.agent, NOW, who, self.volume, action);
    }
}

#[test]
fn requests_within_blocks_change_what_they_name_and_nothing_else() {
    let mut admin = AdminApi::new();
    let size = u64::from(BLOCKS) * BLOCK;
    let mut bytes = vec![0u8; size as usize];
    let mut rng = Rng::seeded(5);
    let mut partial = 0;
    for round in 0..800u64 {
        let offset = rng.below(size / 512) * 512;
        let length = 512 * (1 + rng.below(((size - offset) / 512).min(60)));
        let range = offset as usize..(offset + length) as usize;
        partial += u64::from(!offset.is_multiple_of(BLOCK) || !length.is_multiple_of(BLOCK));
        let fua = rng.below(4) == 0;
        match rng.below(5) {
            0 | 1 => {
                let data: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
                bytes[range].copy_from_slice(&data);
                let (offset, payload) = (Bytes(offset), Payload::from(data));
                admin.begin(round, Action::Write { offset, payload, fua });
            }
            2 => {
                bytes[range].fill(0);
                let (offset, length) = (Bytes(offset), Bytes(length));
                admin.begin(round, Action::WriteZeroes { offset, length, fua });
            }
            3 => {
                let within = within(offset, length);
                bytes[within.start as usize * BLOCK_BYTES..within.end as usize * BLOCK_BYTES]
                    .fill(0);
                admin
                    .begin(round, Action::Discard { offset: Bytes(offset), length: Bytes(length) });
            }
            _ => admin.begin(round, Action::Flush),
        }
        let ended = admin.carry();
        assert_eq!(ended, [Ended { who: round, result: Ok(None) }]);
        let (offset, length) = (Bytes(rng.below(size / 512) * 512), 512);
        admin.begin(round, Action::Read { offset, length });
        let ended = admin.carry().pop().unwrap();
        let want = Payload::from(bytes[offset.0 as usize..][..512].to_vec());
        assert_eq!(ended.result, Ok(Some(want)), "round {round}");
    }
    assert!(partial > 300 && admin.guests.are_idle(), "{partial}");
    admin.begin(0, Action::Read { offset: Bytes(0), length: size as u32 });
    assert_eq!(admin.carry().pop().unwrap().result, Ok(Some(Payload::from(bytes))));
}

/// Neighbours within a block, all at once: each writes its sector.
#[test]
fn writes_of_one_block_at_once_lose_nothing() {
    let mut admin = AdminApi::new();
    let mut bytes = vec![0u8; 2 * BLOCK_BYTES];
    for sector in 0..16u64 {
        let data = vec![sector as u8 + 1; 512];
        bytes[sector as usize * 512..][..512].copy_from_slice(&data);
        let (offset, payload) = (Bytes(sector * 512), Payload::from(data));
        admin.begin(sector, Action::Write { offset, payload, fua: sector % 3 == 0 });
    }
    let mut ended: Vec<u64> = admin.carry().into_iter().map(|ended| ended.who).collect();
    ended.sort_unstable();
    assert_eq!(ended, (0..16).collect::<Vec<_>>());
    admin.begin(99, Action::Read { offset: Bytes(0), length: 2 * BLOCK_BYTES as u32 });
    assert_eq!(admin.carry().pop().unwrap().result, Ok(Some(Payload::from(bytes))));
}

#[test]
fn a_volume_that_is_gone_fails_its_requests() {
    let mut admin = AdminApi::new();
    admin.begin(
        1,
        Action::Write { offset: Bytes(512), payload: Payload::from(vec![1; 512]), fua: false },
    );
    admin.agent.detach(admin.volume, None);
    admin.begin(2, Action::Flush);
    let mut ended = admin.carry();
    ended.sort_by_key(|ended| ended.who);
    let failed = |who| Ended { who, result: Err(Failure::Shutdown) };
    assert_eq!(ended, [failed(1), failed(2)]);
    assert!(admin.guests.are_idle());
}

/// The clients of a volume that could not go on came again and again, until no request of any
/// volume of the host had a place.
#[test]
fn a_volume_that_hangs_leaves_places_to_others() {
    let mut admin = AdminApi::new();
    let (stuck, other) = (admin.volume, VolumeKey(99));
    let mut begun = 0;
    while admin.guests.have_room_for(stuck) {
        begun += 1;
        let read = Action::Read { offset: Bytes(0), length: BLOCK as u32 };
        admin.guests.begin(&mut admin.agent, NOW, begun, stuck, read);
    }
    assert_eq!(begun, REQUESTS_MAX as u64 / 2);
    assert!(admin.guests.have_room() && admin.guests.have_room_for(other));
    assert_eq!(admin.carry().len() as u64, begun);
    assert!(admin.guests.of_volume.is_empty() && admin.guests.have_room_for(stuck));
}

/// A flush of a volume that is given back takes a place when there is none. The next look for room
/// then subtracted more than there was: without checks, every volume had room for ever.
#[test]
fn a_volume_is_given_back_when_all_places_are_taken() {
    let mut admin = AdminApi::new();
    for volume in 0.. {
        if !admin.guests.have_room() {
            break;
        }
        let volume = VolumeKey(volume + 100);
        while admin.guests.have_room() && admin.guests.have_room_for(volume) {
            admin.guests.insert(0, volume, Kind::Flush);
        }
    }
    admin.begin(1, Action::Flush);
    admin.guests.insert(2, admin.volume, Kind::Flush);
    assert!(!admin.guests.have_room() && !admin.guests.have_room_for(VolumeKey(99)));
}
