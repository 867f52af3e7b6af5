//! A tunnel on a modelled link, checked by arithmetic.

use super::*;
use thermocline_units::Rng;

const FREE: Costs = Costs {
    relay_per_byte: 0.0,
    cut_per_byte: 0.0,
    per_chunk: 0.0,
    compress_per_byte: 0.0,
    shadow_per_byte: 0.0,
};

fn scene(controller: &str, bytes_per_s: u64) -> Scene {
    Scene {
        link: LinkProfile::new(bytes_per_s, Nanos::from_micros(20_000)),
        tcp: None,
        cache: Size::from_mib(64),
        controller: controller.to_string(),
        sharing: Sharing::All,
        costs: FREE,
        parallel: 1,
        seed: 1,
    }
}

fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

fn flow(class: u16, bytes: Vec<u8>) -> Offered {
    Offered { name: "a flow".to_string(), class, bytes: Box::new(io::Cursor::new(bytes)) }
}

#[test]
fn what_does_not_repeat_takes_as_long_as_the_link_needs() {
    let played = play(&scene("none", 2_000_000), [flow(80, random(10_000_000, 1))]).unwrap();
    // Five seconds, less than a percent of frames, and the round trips in which the flow's window
    // grows from 32 KiB to what is under way (80 KB).
    let took = played.took.as_secs_f64();
    assert!((5.02..5.15).contains(&took), "{took} s");
    assert_eq!(played.bytes, Size(10_000_000));
}

#[test]
fn what_was_sent_before_costs_next_to_nothing() {
    let same = || flow(80, random(5_000_000, 2));
    let once = play(&scene("content:size=2KiB", 1_000_000), [same()]).unwrap();
    let twice = play(&scene("content:size=2KiB", 1_000_000), [same(), same()]).unwrap();
    let again = twice.took.as_secs_f64() - once.took.as_secs_f64();
    assert!(again < 0.2, "the second time took {again} s");
    assert_eq!(twice.totals().references, once.totals().chunks);
}

#[test]
fn a_slow_processor_is_what_bounds_a_fast_link() {
    let mut scene = scene("content:size=2KiB", 1_000_000_000);
    scene.costs = Costs { relay_per_byte: 500.0, ..FREE };
    let played = play(&scene, [flow(80, random(4_000_000, 3))]).unwrap();
    let took = played.took.as_secs_f64();
    assert!((2.0..2.2).contains(&took), "2 s of processor, 40 ms there and back: {took} s");
    assert_eq!(played.spent, Nanos::from_secs(2));
}

#[test]
fn equal_scenes_give_equal_outcomes() {
    let played = || {
        let flows = (0..6).map(|n| flow(80 + n % 2, random(300_000, u64::from(n % 3))));
        let scene = Scene { parallel: 3, ..scene("goodput", 5_000_000) };
        play(&scene, flows).unwrap()
    };
    assert_eq!(played(), played());
}

#[test]
fn flows_one_after_the_other_on_a_link_that_is_never_the_limit_all_end() {
    for bytes_per_s in [125_000_000, 1_250_000_000, 125_000_000_000] {
        let flows = (0..40).map(|n| flow(80, random(200_000 + n * 7919, n as u64 % 5)));
        let played = play(&scene("content:size=512B", bytes_per_s), flows).unwrap();
        assert_eq!(played.bytes, Size((0..40).map(|n| 200_000 + n * 7919).sum()));
    }
}

#[test]
fn over_tcp_the_same_takes_headers_records_and_slow_start_more() {
    let of = |tcp| {
        let scene = Scene { tcp, ..scene("none", 12_500_000) };
        play(&scene, [flow(80, random(10_000_000, 4))]).unwrap()
    };
    let queue = of(None);
    for congestion in [Congestion::Cubic, Congestion::Bbr] {
        let tcp = of(Some(congestion));
        let added = tcp.carried.0 as f64 / queue.carried.0 as f64;
        let wanted = 1500.0 / 1448.0 * (1.0 + 22.0 / 16_384.0);
        assert!((wanted - 0.001..wanted + 0.006).contains(&added), "{added}");
        // Headers take 0.03 s. The window doubles while the flow's own does, within a dozen round
        // trips; BBR then waits for three without growth, and drains the queue that it made.
        let slower = tcp.took.as_secs_f64() - queue.took.as_secs_f64();
        assert!((0.03..0.6).contains(&slower), "{congestion:?}: {slower} s more");
    }
}

#[test]
fn a_link_that_loses_packets_delivers_every_flow() {
    let mut scene = scene("content:size=2KiB", 12_500_000);
    scene.link.lost_per_million = 20_000;
    scene.link.queue = Some(Nanos::from_micros(30_000));
    for congestion in [Congestion::Cubic, Congestion::Bbr] {
        scene.tcp = Some(congestion);
        let flows = (0..4).map(|n| flow(80, random(400_000, n % 2)));
        let played = play(&scene, flows).unwrap();
        assert_eq!(played.bytes, Size(1_600_000));
        assert!(played.totals().references > 300, "the third and the fourth were sent before");
    }
}

#[test]
fn plain_tcp_takes_a_handshake_a_request_and_its_bytes() {
    let link = LinkProfile::new(12_500_000, Nanos::from_micros(20_000));
    let one = plain(link, Congestion::Cubic, [1000], 1).as_secs_f64();
    // A round trip, the request's way, the answer's.
    assert!((one - 0.080).abs() < 0.001, "{one} s");
    let three = plain(link, Congestion::Cubic, [1000, 1000, 1000], 1).as_secs_f64();
    assert!((three - 0.240).abs() < 0.001, "{three} s");
}
