//! The throttle over made-up pools, the rate under made-up answers, trials.

use super::{
    Allowance, Answered, Copying, Held, Pools, RateControl, Throttle, Trial, Tried, WearBudget,
};
use crate::registry::PolicySpec;
use crate::tactics::VolumeTactics;
use thermocline_units::{Bytes, Nanos, PoolId, VolumeId};

const SECOND: Nanos = Nanos::from_secs(1);
const PIECE: u32 = 1 << 20;

#[test]
fn defaults_are_what_is_written() {
    assert_eq!(super::RATE_TEXT.parse(), Ok(super::RATE));
}

/// One pool.
#[derive(Default)]
struct One {
    copies: u32,
    clients: u32,
    allowance: Allowance,
    at_once: Option<u32>,
}

impl Pools for One {
    fn copies_in_flight(&self, _: PoolId) -> u32 {
        self.copies
    }

    fn at_once(&self, _: PoolId) -> Option<u32> {
        self.at_once
    }

    fn clients_in_flight(&self, _: PoolId) -> u32 {
        self.clients
    }

    fn allowance(&mut self, _: PoolId) -> &mut Allowance {
        &mut self.allowance
    }
}

/// The defaults, but for the tactic of this text.
fn with(tactic: &str) -> VolumeTactics {
    let mut tactics = VolumeTactics::default();
    tactics.choose(&PolicySpec::parse(tactic).unwrap()).unwrap();
    tactics
}

fn copying() -> Copying {
    Copying { rate_per_second: None, piece: Some(Bytes(PIECE.into())), ..Copying::default() }
}

fn ask(
    pool: &mut One,
    copying: &Copying,
    now: Nanos,
    since: Option<Nanos>,
) -> (Held, Option<Nanos>) {
    let mut throttle = Throttle::default();
    let yielding = &VolumeTactics::default().yielding;
    let held = throttle.hold_back(pool, copying, now, &[PoolId(0)], (PIECE, since), yielding);
    (held, throttle.wake())
}

#[test]
fn a_piece_yields_to_clients_until_its_patience_ends() {
    let mut pool = One { clients: 2, ..One::default() };
    let patient = Nanos(SECOND.0 + copying().patience.0);
    let (held, wake) = ask(&mut pool, &copying(), SECOND, None);
    assert_eq!((held, wake), (Held::Yielding(SECOND), Some(patient)));
    assert_eq!(ask(&mut pool, &copying(), patient, held.since()).0, Held::Free);
    pool.clients = 1;
    assert_eq!(ask(&mut pool, &copying(), SECOND, None).0, Held::Free, "one request is no crowd");
}

#[test]
fn more_pieces_than_may_be_outstanding_wait_for_a_completion_and_not_for_the_time() {
    let mut pool = One { copies: 2, ..One::default() };
    assert_eq!(ask(&mut pool, &copying(), SECOND, None), (Held::Throttled, None));
    pool.copies -= 1;
    assert_eq!(ask(&mut pool, &copying(), SECOND, None).0, Held::Free, "nobody knows its device");
    let mut disk = One { copies: 1, at_once: Some(1), ..One::default() };
    assert_eq!(ask(&mut disk, &copying(), SECOND, None), (Held::Throttled, None), "one at a time");
    let mut flash = One { copies: 1, at_once: Some(24), ..One::default() };
    assert_eq!(ask(&mut flash, &copying(), SECOND, None).0, Held::Free);
}

#[test]
fn copies_get_a_share_of_a_long_queue_unless_a_number_is_set() {
    let most = |copying: &Copying, at_once, clients| copying.most_in_flight(at_once, clients);
    let by_device = Copying::default();
    let of_a_disk = [0, 1, 15, 16, 50, 64, 4_096].map(|n| most(&by_device, Some(1), n));
    assert_eq!(of_a_disk, [1, 1, 1, 2, 6, 8, 8]);
    let of_flash = [0, 16, 24, 50].map(|n| most(&by_device, Some(24), n));
    assert_eq!(of_flash, [2, 2, 3, 6]);
    assert_eq!([0, 50].map(|n| most(&by_device, None, n)), [2, 6], "nobody knows its device");
    let set = Copying { outstanding: Some(32), ..Copying::default() };
    assert_eq!([0, 50].map(|n| most(&set, Some(1), n)), [32, 32]);
}

#[test]
fn a_piece_waits_behind_one_request_on_a_disk_and_behind_two_elsewhere() {
    let above = |copying: &Copying| [Some(1), Some(24), None].map(|n| copying.yields_above(n));
    assert_eq!(above(&Copying::default()), [0, 1, 1]);
    assert_eq!(above(&Copying { yield_above: Some(6), ..Copying::default() }), [6, 6, 6]);
    let mut disk = One { clients: 1, at_once: Some(1), ..One::default() };
    let (held, _) = ask(&mut disk, &copying(), SECOND, None);
    assert_eq!(held, Held::Yielding(SECOND));
}

#[test]
fn pieces_are_long_where_a_disk_is_among_the_pools_unless_a_length_is_set() {
    let by_device = Copying::default();
    let (disk, flash) = (Some(1), Some(24));
    let pieces = [[flash, flash], [flash, disk], [None, flash], [disk, None]]
        .map(|pools| by_device.piece_among(pools));
    let (short, long) = (Bytes::from_kib(128), Bytes::from_mib(1));
    assert_eq!(pieces, [short, long, short, long]);
    let set = Copying { piece: Some(Bytes::from_kib(8)), ..Copying::default() };
    assert_eq!(set.piece_among([disk, flash]), Bytes::from_kib(8));
}

#[test]
fn a_limit_lets_through_what_it_says_and_no_more_than_a_little_at_once() {
    let limited = Copying { rate_per_second: Some(Bytes::from_mib(10)), ..copying() };
    let (mut pool, mut now, mut passed) = (One::default(), SECOND, 0);
    while now < Nanos::from_secs(11) {
        match ask(&mut pool, &limited, now, None) {
            (Held::Free, _) => passed += 1,
            (_, wake) => now = wake.expect("time will do"),
        }
    }
    assert!((100..=103).contains(&passed), "{passed} pieces of 1 MiB in 10 s at 10 MiB/s");
}

#[test]
fn what_is_reserved_goes_however_busy_clients_keep_the_pool() {
    let reserved = Copying {
        reserve_per_second: Some(Bytes::from_mib(20)),
        patience: Nanos::from_secs(3600),
        ..copying()
    };
    let (mut pool, mut now, mut passed) = (One { clients: 9, ..One::default() }, SECOND, 0);
    while now < Nanos::from_secs(11) {
        match ask(&mut pool, &reserved, now, None) {
            (Held::Free, _) => passed += 1,
            (_, wake) => now = wake.expect("time will do"),
        }
    }
    assert!((199..=201).contains(&passed), "{passed} pieces of 1 MiB in 10 s at 20 MiB/s");
}

#[test]
fn a_long_piece_does_not_starve_beside_short_ones() {
    let limited = Copying { rate_per_second: Some(Bytes::from_mib(64)), ..copying() };
    let (mut pool, mut now) = (One::default(), SECOND);
    let (mut short, mut long) = (0_u64, 0_u64);
    let tactic = &VolumeTactics::default().yielding;
    // Short pieces ask all the time, a far pool's piece now and then.
    for turn in 0..20_000_u64 {
        now.0 += 100_000;
        let bytes = if turn % 50 == 0 { 8 << 20 } else { 128 << 10 };
        let mut throttle = Throttle::default();
        let asked = (bytes, None);
        let held = throttle.hold_back(&mut pool, &limited, now, &[PoolId(0)], asked, tactic);
        if held == Held::Free {
            *(if bytes > 1 << 20 { &mut long } else { &mut short }) += u64::from(bytes);
        }
    }
    assert!(long > 0 && short > 0, "{long} and {short} bytes");
    let both = Bytes(long + short);
    let most = Bytes::from_mib(2 * 64 + 7 + 8);
    assert!(both <= most, "{both} in two seconds at 64 MiB/s");
}

#[test]
fn the_rate_falls_while_answers_are_late_and_comes_back() {
    let paced = Copying { rate_per_second: Some(Bytes::from_mib(64)), ..copying() };
    let tactic = &with("aqueduct:percentile=95").copy_rate;
    let mut control = RateControl::default();
    let mut rates = Vec::new();
    let (mut answered, mut late) = (0, 0);
    for second in 1..=60 {
        answered += 100;
        late += if second <= 20 { 50 } else { 0 };
        let answers = [Answered { volume: VolumeId(0), answered, late }];
        control.set_rate(Nanos::from_secs(second), &paced, tactic, answers.into_iter());
        rates.push(control.paced(&paced).rate_per_second.unwrap().0);
    }
    assert_eq!(rates[19], Bytes::from_mib(1).0, "a 64th of the most");
    assert!(rates[20..].is_sorted() && rates[59] == Bytes::from_mib(64).0, "{:?}", &rates[19..]);
    assert_eq!(control.next(tactic, false), None, "nothing is to be kept");
    let mut fixed = VolumeTactics::default();
    fixed.follow(&VolumeTactics::parse("aqueduct").unwrap()).unwrap();
    let mut control = RateControl::default();
    assert_eq!(control.next(&fixed.copy_rate, true), Some(Nanos(0)), "the shadow is asked");
    for second in 1..=3 {
        let late = [Answered { volume: VolumeId(0), answered: 100 * second, late: 50 * second }];
        let now = Nanos::from_secs(second);
        control.set_rate(now, &paced, &fixed.copy_rate, late.into_iter());
        assert_eq!(control.paced(&paced), paced, "and not followed");
    }
    let told = &fixed.disagreements()[0];
    assert_eq!((told.asked, told.differed), (3, 3));
}

#[test]
fn a_trial_is_lost_when_the_destination_is_slower_and_waits_no_longer_than_a_second() {
    let tactic = &with("first-part").trial;
    let outcome = |destination: u64, source: u64| {
        let mut trial = Trial::default();
        assert_eq!(trial.ask(SECOND, false, tactic), Tried::GoesOn, "the share has not come");
        assert_eq!(trial.ask(SECOND, true, tactic), Tried::Waits(Nanos(2 * SECOND.0)));
        trial.note(false, Nanos(source));
        (0..16).for_each(|_| trial.note(true, Nanos(destination)));
        trial.ask(SECOND, true, tactic)
    };
    assert_eq!(outcome(9, 8), Tried::Lost);
    assert_eq!(outcome(8, 9), Tried::GoesOn);
    let mut unread = Trial::default();
    unread.ask(SECOND, true, tactic);
    assert_eq!(unread.ask(Nanos(2 * SECOND.0), true, tactic), Tried::GoesOn, "nobody read");
    assert_eq!(
        unread.ask(Nanos(3 * SECOND.0), true, tactic),
        Tried::GoesOn,
        "nobody is tried twice"
    );
}

#[test]
fn a_pool_gets_no_more_moves_in_a_day_than_its_budget_and_no_less() {
    let chunk = Bytes::from_mib(1);
    let mut budget = WearBudget::new(Nanos(0), Some(Bytes::from_mib(240)));
    let mut written_by = |hours: u64| {
        let mut count = 0;
        for second in (0..hours * 3600).step_by(10) {
            if budget.allows(Nanos::from_secs(second), chunk) {
                budget.spend(chunk);
                count += 1;
            }
        }
        count
    };
    let first_hour = written_by(1);
    assert!((18..=20).contains(&first_hour), "an hour's worth, twice: {first_hour}");
    // The same moments again bring nothing: time does not run backwards.
    let rest = written_by(48);
    assert!((470..=471).contains(&rest), "{rest} of two days' 480, the first hour's aside");
    let mut small = WearBudget::new(Nanos(0), Some(Bytes(1)));
    assert!(!small.allows(Nanos(0), chunk) && small.allows(Nanos::from_secs(86_400), chunk));
    small.spend(chunk);
    assert!(!small.allows(Nanos::from_secs(10 * 86_400), chunk), "a debt of a million days");
    assert!(WearBudget::default().allows(Nanos(0), chunk));
}
