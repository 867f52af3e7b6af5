//! Results of a modelled host cache, checked by arithmetic.

use super::*;

fn scene(protocol: &str, guests: u32) -> Scene {
    Scene {
        protocol: Protocol::named(protocol).unwrap(),
        guests,
        guests_per_host: 10,
        load: Load {
            image_blocks: 512,
            private: 0.0,
            repeated: 0.0,
            order: Order::Scan,
            requests: 1,
            run: 1,
            writes: 0.0,
            shared_writes: 0.0,
            pool: 0,
            skew: 0.0,
            stagger: Nanos(0),
        },
        costs: Costs::HONEST,
        lookup: "server-first".to_string(),
        cache_policy: "lru".to_string(),
        cache_blocks: 640,
        memory_blocks: 1024,
        memory_by_block: false,
        hash_first_always: true,
        seed: 1,
    }
}

fn blocks(outcome: &Outcome) -> u64 {
    (outcome.server_bytes - outcome.other_bytes) / 4096
}

#[test]
fn a_guest_alone_reads_every_block_once() {
    let outcome = play(&scene("baseline", 1)).unwrap();
    assert_eq!((blocks(&outcome), outcome.disk_reads, outcome.requests), (512, 512, 512));
    assert!((outcome.latency_s - 0.0125).abs() < 1e-9, "a round trip and the disk: {outcome:?}");
}

#[test]
fn guests_of_a_host_cost_one_with_content_and_as_many_without() {
    let of = |protocol: &str| blocks(&play(&scene(protocol, 10)).unwrap());
    assert_eq!(of("baseline"), 5120);
    for protocol in ["dedup-read", "w-tracker", "ss-push", "seacache", "manifest"] {
        assert_eq!(of(protocol), 512, "{protocol}");
    }
}

#[test]
fn peers_first_is_what_takes_hosts_out_of_the_servers_bytes() {
    let of = |lookup: &str| {
        let mut scene = scene("manifest", 40);
        // Those who read in perfect step are all answered before one of them holds anything.
        scene.load.stagger = Nanos::from_secs(1);
        scene.lookup = lookup.to_string();
        let outcome = play(&scene).unwrap();
        (blocks(&outcome), outcome.peer_bytes / 4096)
    };
    assert_eq!(of("server-first"), (4 * 512, 0));
    let (server, peers) = of("peers-first");
    assert!(server < 600 && peers >= 3 * 500, "{server} from the server, {peers} from peers");
}

#[test]
fn writes_that_others_wrote_are_not_sent() {
    let mut scene = scene("seacache", 10);
    scene.load.order = Order::Same;
    (scene.load.requests, scene.load.writes, scene.load.shared_writes) = (200, 1.0, 1.0);
    // Likewise: a content is known when it has come, not when it was asked for.
    scene.load.stagger = Nanos::from_secs(1);
    let outcome = play(&scene).unwrap();
    assert!((200..400).contains(&blocks(&outcome)), "{outcome:?}");
    scene.protocol = Protocol::named("baseline").unwrap();
    assert_eq!(blocks(&play(&scene).unwrap()), 2000);
}

#[test]
fn equal_scenes_give_equal_outcomes() {
    let mut scene = scene("seacache", 12);
    scene.load.order = Order::Own;
    (scene.load.requests, scene.load.writes, scene.load.shared_writes) = (300, 0.4, 0.5);
    (scene.load.pool, scene.load.skew, scene.lookup) = (64, 0.6, "by-load".to_string());
    assert_eq!(play(&scene).unwrap(), play(&scene).unwrap());
}
