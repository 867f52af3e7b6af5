//! A TCP connection on a modelled link: checked by arithmetic, by published formulas, and with
//! every byte in its place.

use super::*;
use thermocline_units::Rng;

const MBIT_100: LinkProfile = LinkProfile::new(12_500_000, Nanos::from_micros(20_000));
const ROUND_TRIP_S: f64 = 0.040;
const BOTH: [Congestion; 2] = [Congestion::Cubic, Congestion::Bbr];

fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

/// Seconds until all of it has arrived; it must be the same bytes.
fn took(link: LinkProfile, congestion: Congestion, bytes: &[u8], seed: u64) -> f64 {
    let mut connection = Connection::new(link, congestion, seed);
    let (mut now, mut given, mut taken) = (Nanos(0), 0, Vec::new());
    while taken.len() < bytes.len() {
        let room = connection.room(Side::Far).min(bytes.len() - given);
        if room > 0 {
            connection.give(now, Side::Far, &bytes[given..given + room]);
            given += room;
        }
        let next = connection.next_event().expect("something is under way");
        now = next.max(Nanos(now.0 + 1));
        connection.advance(now);
        taken.extend(connection.take(Side::Near));
    }
    assert!(taken == bytes, "other bytes arrived than were sent");
    now.as_secs_f64()
}

#[test]
fn a_window_of_ten_segments_takes_one_way() {
    for congestion in BOTH {
        // 14,480 bytes: ten packets of 1,500 at 120 us each, and 20 ms; BBR spreads them.
        let least = 0.020 + 10.0 * 0.000_12;
        let took = took(MBIT_100, congestion, &random(10 * SEGMENT_BYTES, 1), 1);
        assert!((least - 1e-6..least + 0.002).contains(&took), "{congestion:?}: {took} s");
    }
}

#[test]
fn a_link_without_losses_is_filled() {
    for congestion in BOTH {
        let bytes = random(25_000_000, 2);
        let took = took(MBIT_100, congestion, &bytes, 1);
        // 2.07 s with headers, and what slow start leaves unused.
        let least = 25.0 / 12.5 * 1500.0 / 1448.0;
        assert!((least..least + 0.5).contains(&took), "{congestion:?}: {took} s");
    }
}

#[test]
fn a_short_queue_drops_and_the_link_is_filled_all_the_same() {
    let link = LinkProfile { queue: Some(Nanos::from_micros(20_000)), ..MBIT_100 };
    for congestion in BOTH {
        let took = took(link, congestion, &random(25_000_000, 3), 1);
        assert!((2.07..2.9).contains(&took), "{congestion:?}: {took} s");
    }
}

#[test]
fn losses_slow_cubic_as_the_formula_says_and_bbr_hardly() {
    let link = LinkProfile { lost_per_million: 10_000, ..MBIT_100 };
    let bytes = random(6_000_000, 4);
    // Mathis, Semke, Mahdavi and Ott (1997), eq. 3: with losses this frequent CUBIC goes by Reno's
    // line (RFC 9438 §4.3).
    let rate = SEGMENT_BYTES as f64 / ROUND_TRIP_S * (1.5_f64 / 0.01).sqrt();
    let seconds: Vec<f64> =
        (0..5).map(|seed| took(link, Congestion::Cubic, &bytes, seed)).collect();
    let mean = seconds.iter().sum::<f64>() / 5.0;
    let ratio = bytes.len() as f64 / mean / rate;
    assert!((0.7..1.4).contains(&ratio), "{ratio} of the formula's rate");
    let bbr = took(link, Congestion::Bbr, &bytes, 1);
    assert!(bbr < 0.9, "0.48 s would be the least: {bbr} s");
}

#[test]
fn every_byte_arrives_whatever_is_lost() {
    for congestion in BOTH {
        for seed in 0..40 {
            let mut rng = Rng::seeded(seed);
            let link = LinkProfile {
                jitter: Nanos(rng.below(5_000_000)),
                queue: Some(Nanos(100_000 + rng.below(50_000_000))),
                lost_per_million: rng.below(300_000) as u32,
                ..LinkProfile::new(10_000 + rng.below(50_000_000), Nanos(rng.below(50_000_000)))
            };
            let bytes = random(1 + rng.below(200_000) as usize, seed);
            took(link, congestion, &bytes, seed);
        }
    }
}

#[test]
fn a_last_segment_that_is_lost_is_asked_for() {
    // A queue of no length keeps the first packet of a burst only.
    let link = LinkProfile { queue: Some(Nanos(0)), ..MBIT_100 };
    let mut connection = Connection::new(link, Congestion::Cubic, 1);
    connection.give(Nanos(0), Side::Far, &random(2 * SEGMENT_BYTES, 5));
    let mut now = Nanos(0);
    let mut arrivals = Vec::new();
    while arrivals.len() < 2 {
        now = connection.next_event().expect("something is under way").max(Nanos(now.0 + 1));
        connection.advance(now);
        if !connection.take(Side::Near).is_empty() {
            arrivals.push(now.as_secs_f64());
        }
    }
    assert!((arrivals[0] - 0.020_12).abs() < 1e-5);
    // Heard of the first after 40 ms; silence of two round trips, and one way.
    let wanted = 0.040 + 2.0 * 0.040 + 0.002 + 0.020;
    assert!((arrivals[1] - wanted).abs() < 0.001, "{} s", arrivals[1]);
}

#[test]
fn equal_seeds_give_equal_times() {
    let link = LinkProfile { lost_per_million: 20_000, ..MBIT_100 };
    let bytes = random(300_000, 6);
    for congestion in BOTH {
        let twice = [1, 1, 2].map(|seed| took(link, congestion, &bytes, seed));
        assert_eq!(twice[0], twice[1]);
        assert_ne!(twice[0], twice[2]);
    }
}
