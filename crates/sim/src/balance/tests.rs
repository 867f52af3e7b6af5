//! The laboratory beside formulas, and policies beside each other.

use super::mmpp::Draw;
use super::{
    Arrivals, BalanceReport, Bursts, Estimate, Mmpp, ProbeCost, Probes, Row, Scenario, Service,
    Slowing, View, read_arrivals, run,
};
use crate::source::{Source, open_all};
use crate::synth::from_words;
use thermocline_policy::balance::Dispersion;
use thermocline_policy::registry::PolicySpec;
use thermocline_trace::ReadOptions;
use thermocline_units::Nanos;

/// The source's two burst levels, and a load close to its Table 2's.
const STRONG: Bursts = Bursts { index: 313.5, share: 0.9, length_s: 0.75 };
const WEAK: Bursts = Bursts { index: 32.25, share: 0.9, length_s: 1.3 };
const TABLE_2: Bursts = Bursts { index: 213.0, share: 0.51, length_s: 6.0 };

fn source(jobs: usize) -> Scenario {
    Scenario { jobs, ..Scenario::of_the_source(Arrivals::Process(Mmpp::poisson(10.0))) }
}

fn bursty(bursts: &Bursts, jobs: usize) -> Scenario {
    let arrivals = Arrivals::Process(Mmpp::fit(10.0, bursts).unwrap());
    Scenario { arrivals, ..source(jobs) }
}

fn rows(scenario: &Scenario, policies: &[&str], seeds: &[u64]) -> Vec<Row> {
    let specs: Vec<_> = policies.iter().map(|text| PolicySpec::parse(text).unwrap()).collect();
    run(scenario, &specs, seeds, &|_| ()).unwrap()
}

fn wait(rows: &[Row], policy: &str) -> f64 {
    rows.iter().find(|row| row.policy == policy).expect("it was run").wait_s.mean
}

/// Mean wait of M/M/c in units of the service time, by Erlang's C formula.
fn erlang_c_wait(servers: u32, load: f64) -> f64 {
    let offered = f64::from(servers) * load;
    // Erlang B by its recursion, then C.
    let blocked = (1..=servers)
        .fold(1.0, |blocked, n| offered * blocked / (f64::from(n) + offered * blocked));
    let queued = blocked / (1.0 - load * (1.0 - blocked));
    queued / (f64::from(servers) * (1.0 - load))
}

#[test]
fn the_central_queue_waits_as_erlang_says() {
    for (sites, load) in [(1, 0.5), (4, 0.8), (16, 0.8)] {
        let scenario = Scenario { speeds: vec![1.0; sites], load, ..source(60_000) };
        let seeds: Vec<u64> = (1..=8).collect();
        let row = &rows(&scenario, &[], &seeds)[0];
        let want = erlang_c_wait(sites as u32, load) * scenario.service_s();
        let Estimate { mean, ci95 } = row.wait_s;
        assert!((mean - want).abs() <= 1.5 * ci95, "{sites}: {mean} ± {ci95}, not {want}");
        assert!(ci95 < 0.1 * want, "{ci95} is not precise");
    }
}

#[test]
fn rand_makes_each_site_a_queue_of_its_own() {
    // M/M/1 and M/D/1 at one half: as long as the service, and half of it.
    let seeds: Vec<u64> = (1..=4).collect();
    let mut scenario = source(120_000);
    let exponential = wait(&rows(&scenario, &["rand"], &seeds), "rand");
    assert!((exponential / 80.0 - 1.0).abs() < 0.03, "{exponential}");
    scenario.service = Service::Deterministic;
    let deterministic = wait(&rows(&scenario, &["rand"], &seeds), "rand");
    assert!((deterministic / 40.0 - 1.0).abs() < 0.03, "{deterministic}");
}

#[test]
fn the_sources_non_bursty_column_is_met() {
    let scenario = source(120_000);
    let rows = rows(&scenario, &["rand", "qlen:ties=first"], &[1, 2, 3, 4]);
    let (rand, qlen) = (wait(&rows, "rand"), wait(&rows, "qlen:ties=first"));
    assert!((rand / 80.5 - 1.0).abs() < 0.03, "{rand}");
    assert!((qlen / 7.6 - 1.0).abs() < 0.03, "{qlen}");
}

#[test]
fn a_fitted_process_has_the_index_the_mean_and_the_share_that_were_asked_for() {
    for bursts in [STRONG, WEAK, TABLE_2] {
        let process = Mmpp::fit(10.0, &bursts).unwrap();
        assert!((process.index_of_dispersion() / bursts.index - 1.0).abs() < 1e-9);
        assert!((process.gap_s() / 10.0 - 1.0).abs() < 1e-9);
        let share = process.rates[1] * process.burst_time() * process.gap_s();
        assert!((share / bursts.share - 1.0).abs() < 1e-9, "{share}");
        assert!((process.leaving[1] * bursts.length_s - 1.0).abs() < 1e-9);
    }
    // What the fit of the strong load came to elsewhere.
    let strong = Mmpp::fit(10.0, &STRONG).unwrap();
    assert!((strong.rates[1] - 231.7).abs() < 0.1 && (strong.rates[0] - 0.01).abs() < 1e-4);
    assert!(Mmpp::fit(10.0, &Bursts { share: 1.0, ..WEAK }).is_err());
    assert_eq!(Mmpp::fit(10.0, &Bursts { index: 1.0, ..WEAK }), Ok(Mmpp::poisson(10.0)));
}

#[test]
fn arrivals_that_are_drawn_have_the_index_of_their_process() {
    // A mild process, whose index settles within few lags.
    let process = Mmpp::fit(1.0, &Bursts { index: 8.0, share: 0.5, length_s: 2.0 }).unwrap();
    let mut draw = Draw::new(process, 3);
    let mut gaps = Dispersion::new(100);
    let (mut last, mut bursts) = (0.0, 0);
    const COUNT: u32 = 400_000;
    for _ in 0..COUNT {
        let (at, burst) = draw.next();
        gaps.add(at - last);
        last = at;
        bursts += u32::from(burst);
    }
    assert!((gaps.total() / f64::from(COUNT) - 1.0).abs() < 0.02, "{}", gaps.total());
    assert!((f64::from(bursts) / f64::from(COUNT) - 0.5).abs() < 0.02, "{bursts}");
    assert!((gaps.index() / 8.0 - 1.0).abs() < 0.1, "{}", gaps.index());
}

#[test]
fn nothing_beats_the_bounds_and_fresh_knowledge_is_jsq() {
    let policies =
        ["rand", "least", "qlen", "p2c", "ara", "water-fill", "jiq", "li", "round-robin"];
    for scenario in [source(30_000), bursty(&TABLE_2, 30_000)] {
        let rows = rows(&scenario, &policies, &[1, 2]);
        let (central, jsq) = (wait(&rows, "central queue"), wait(&rows, "jsq"));
        assert!(central <= jsq);
        for row in &rows[2..] {
            assert!(row.wait_s.mean >= 0.97 * jsq, "{} beats jsq", row.policy);
            assert!(row.times_bound.mean >= 1.0, "{} beats the bound", row.policy);
        }
    }
    let fresh = Scenario { delay: Nanos(0), ..source(60_000) };
    let rows = rows(&fresh, &["qlen", "least"], &[1, 2]);
    for policy in ["qlen", "least"] {
        let times = wait(&rows, policy) / wait(&rows, "jsq");
        assert!((times - 1.0).abs() < 0.1, "{policy}: {times}");
    }
}

#[test]
fn one_candidate_is_qlen_and_all_are_rand() {
    let policies = ["ara-static:k=1", "qlen", "ara-static:k=16", "rand", "ara:low=1:high=1"];
    let rows = rows(&bursty(&WEAK, 30_000), &policies, &[5]);
    let waits: Vec<f64> = policies.iter().map(|policy| wait(&rows, policy)).collect();
    assert_eq!((waits[0], waits[2], waits[4]), (waits[1], waits[3], waits[1]));
}

#[test]
fn alone_water_filling_is_least_and_among_many_it_is_far_better() {
    let scenario = source(60_000);
    let (blind, unprobed) = ("water-fill:probes=0:learn=0", "water-fill:probes=0");
    let alone = rows(&scenario, &[blind, "water-fill", "least"], &[1]);
    assert_eq!(wait(&alone, blind), wait(&alone, "least"));
    let learning = wait(&alone, "water-fill") / wait(&alone, "least");
    assert!((0.97..1.03).contains(&learning), "equal sites are hardly told apart: {learning}");
    let many = Scenario { balancers: 16, ..scenario };
    let many = rows(&many, &["water-fill", unprobed, "least"], &[1]);
    assert!(wait(&many, unprobed) * 10.0 < wait(&many, "least"), "{many:?}");
    // Where reports are as young as this, three probes know less than they do.
    assert!(wait(&many, "water-fill") * 4.0 < wait(&many, "least"), "{many:?}");
}

#[test]
fn old_knowledge_is_worse_the_older_it_is() {
    let qlen = |delay: u64, view: View| {
        let scenario = Scenario { delay: Nanos::from_secs(delay), view, ..source(60_000) };
        wait(&rows(&scenario, &["qlen:ties=first"], &[1, 2]), "qlen:ties=first")
    };
    let (one, ten) = (qlen(1, View::Exact), qlen(10, View::Exact));
    assert!(ten > 2.0 * one, "{one} {ten}");
    // A report is half as old on average as exact knowledge, and one and a half times with transit.
    assert!(qlen(1, View::Refresh) < one && one < qlen(1, View::Transit));
}

#[test]
fn faster_sites_get_more_when_their_speed_is_known() {
    let speeds = vec![4.0, 1.0, 1.0, 1.0, 1.0];
    let known = Scenario { speeds, load: 0.7, ..source(60_000) };
    let held_equal = Scenario { weights_known: false, ..known.clone() };
    let response = |scenario: &Scenario, policy: &str| {
        let rows = rows(scenario, &[policy], &[1]);
        let busy = rows.last().unwrap().busy_range();
        (rows.last().unwrap().response_s.mean, busy.1)
    };
    for policy in ["rand", "round-robin", "least", "water-fill:learn=0", "p2c"] {
        let (knowing, busy) = response(&known, policy);
        assert!(knowing < response(&held_equal, policy).0, "{policy}");
        assert!(busy < 0.95, "{policy}: {busy:?}");
    }
    // Who learns is nearly as good without being told.
    let (told, learnt) =
        (response(&known, "water-fill:learn=0").0, response(&held_equal, "water-fill").0);
    assert!(learnt < 1.15 * told, "{learnt} {told}");
}

#[test]
fn results_do_not_depend_on_cores_or_on_who_else_runs() {
    let scenario = Scenario { balancers: 4, ..bursty(&WEAK, 20_000) };
    let together = rows(&scenario, &["rand", "prequal", "ara", "li-own"], &[1, 2]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let alone = pool.install(|| rows(&scenario, &["ara"], &[1, 2]));
    assert_eq!(wait(&together, "ara"), wait(&alone, "ara"));
    assert_eq!(wait(&together, "jsq"), wait(&alone, "jsq"));
}

#[test]
fn a_trace_gives_its_times_and_its_bytes() {
    let spec = from_words("web,requests=5000,seed=3").unwrap();
    let mut reader = open_all(&[Source::Synth(Box::new(spec))], &ReadOptions::default()).unwrap();
    let arrivals = read_arrivals(&mut *reader, 4000, &|_| ()).unwrap();
    let Arrivals::Trace(all) = &arrivals else { panic!("it is a trace") };
    assert_eq!((all.len(), all[0].at), (4000, Nanos(0)));
    let scenario = Scenario { service: Service::Bytes, arrivals, ..source(4000) };
    let rows = rows(&scenario, &["rand", "least"], &[1]);
    assert!(wait(&rows, "least") < wait(&rows, "rand"));
    // What is asked of the sites is what the load says, up to what is left at the end.
    let busy: f64 = rows[0].busy.iter().sum::<f64>() / 16.0;
    assert!((busy - 0.5).abs() < 0.05, "{busy}");
}

#[test]
fn seeds_that_are_one_run_have_no_interval() {
    let spec = from_words("web,requests=5000,seed=3").unwrap();
    let mut reader = open_all(&[Source::Synth(Box::new(spec))], &ReadOptions::default()).unwrap();
    let arrivals = read_arrivals(&mut *reader, 4000, &|_| ()).unwrap();
    let scenario = Scenario { service: Service::Bytes, arrivals, ..source(4000) };
    let told = rows(&scenario, &["rand", "round-robin"], &[1, 2, 3]);
    let ci95 = |policy: &str| told.iter().find(|row| row.policy == policy).unwrap().wait_s.ci95;
    assert!(ci95("central queue").is_nan() && ci95("round-robin").is_nan(), "nothing differs");
    assert!(ci95("rand") > 0.0, "its choices differ");
    let scenario = Scenario { service: Service::Exponential, ..scenario };
    let told = rows(&scenario, &["round-robin"], &[1, 2, 3]);
    assert!(told.iter().all(|row| row.wait_s.ci95 > 0.0), "work differs");
    let about = BalanceReport::new(&scenario, "a trace", &[1, 2, 3], told).about;
    assert!(about.last().unwrap().contains("not of other loads"), "{about:?}");
}

#[test]
fn what_cannot_be_run_says_why() {
    let message = |scenario: &Scenario, policy: &str| {
        let specs = [PolicySpec::parse(policy).unwrap()];
        run(scenario, &specs, &[1], &|_| ()).unwrap_err().to_string()
    };
    let good = source(10);
    assert!(message(&good, "lru").contains("not a balancer"));
    assert!(message(&good, "ara:gaps=x").contains("gaps"));
    let bytes = Scenario { service: Service::Bytes, ..good.clone() };
    assert!(message(&bytes, "rand").contains("needs a trace"));
    let pareto = Scenario { service: Service::Pareto(0.9), ..good.clone() };
    assert!(message(&pareto, "rand").contains("Pareto"));
    let none = Scenario { speeds: vec![], ..good.clone() };
    assert!(message(&none, "rand").contains("0 sites"));
    let trace = Arrivals::Trace(
        [(0, 1), (9, 1)].map(|(at, bytes)| super::Arrival { at: Nanos(at), bytes }).into(),
    );
    assert!(message(&Scenario { arrivals: trace, ..good }, "ara-opt").contains("leave it out"));
}

#[test]
fn the_interval_of_a_mean_is_students() {
    let Estimate { mean, ci95 } = Estimate::of(&[1.0, 2.0, 3.0]);
    // s = 1, n = 3: 4.303 / √3.
    assert!((mean - 2.0).abs() < 1e-12 && (ci95 - 2.4843).abs() < 1e-3, "{ci95}");
    assert!(Estimate::of(&[5.0]).ci95.is_nan());
}

/// Exact counts on one small run, so that no change of a decision goes unnoticed.
#[test]
fn golden_waits() {
    let policies = [
        "rand",
        "round-robin",
        "qlen",
        "qlen:ties=first",
        "ara-static",
        "ara",
        "ara-count",
        "least",
        "p2c",
        "peak-ewma",
        "jiq",
        "prequal",
        "prequal:mode=sync",
        "li",
        "li-own",
        "water-fill:probes=0:learn=0",
        "water-fill:probes=0",
        "water-fill",
        "lsq",
        "scd",
        "twf",
        "ara-opt",
    ];
    let scenario = Scenario { balancers: 3, ..bursty(&TABLE_2, 4000) };
    let rows = rows(&scenario, &policies, &[7]);
    let text: String =
        rows.iter().map(|row| format!("{} {:.3}\n", row.policy, row.wait_s.mean)).collect();
    expect_test::expect![[r#"
        central queue 327.828
        jsq 337.105
        rand 396.382
        round-robin 366.226
        qlen 382.893
        qlen:ties=first 653.826
        ara-static 346.359
        ara 344.639
        ara-count 341.816
        least 347.936
        p2c 361.311
        peak-ewma 453.510
        jiq 368.801
        prequal 399.058
        prequal:mode=sync 343.974
        li 342.999
        li-own 335.076
        water-fill:probes=0:learn=0 337.824
        water-fill:probes=0 337.824
        water-fill 341.418
        lsq 351.356
        scd 337.832
        twf 337.832
        ara-opt 341.188
    "#]]
    .assert_eq(&text);
}

#[test]
fn probes_cost_what_the_scenario_says() {
    let free = Scenario { balancers: 4, ..source(20_000) };
    let (awaited, aside) = ("prequal:mode=sync", "prequal:pool=4");
    let of = |scenario: &Scenario, policy: &str| {
        let rows = rows(scenario, &[policy], &[1]);
        rows.into_iter().find(|row| row.policy == policy).unwrap()
    };
    let service_s = free.service_s();
    let trip = Nanos((service_s * 0.5e9) as u64);
    let far = Scenario { probe_cost: ProbeCost { work: Nanos(0), trip }, ..free.clone() };
    // Who awaits answers waits for their trip; who does not, does not.
    let (near, waits) = (of(&free, awaited), of(&far, awaited));
    assert!(waits.wait_p50_s.mean >= 0.99 * trip.as_secs_f64(), "{waits:?}");
    assert!(near.wait_p50_s.mean < 0.1 * trip.as_secs_f64(), "{near:?}");
    assert!(of(&far, aside).wait_p50_s.mean < 0.1 * trip.as_secs_f64());
    assert!((near.probes, of(&free, "rand").probes) == (3.0, 0.0));
    // Three answers of a twentieth each are work.
    let work = Nanos((service_s * 0.05e9) as u64);
    let dear = Scenario { probe_cost: ProbeCost { work, trip: Nanos(0) }, ..free.clone() };
    let busy = |row: &Row| row.busy.iter().sum::<f64>() / row.busy.len() as f64;
    let more = busy(&of(&dear, aside)) / busy(&of(&free, aside));
    assert!((1.13..1.17).contains(&more), "{more}");
    let nobody = Scenario { probes: Probes::None, ..dear };
    assert_eq!(of(&nobody, "water-fill").probes, 0.0);
}

#[test]
fn sites_that_slow_down_hold_requests_up_and_who_notices_less() {
    let steady = Scenario { balancers: 4, load: 0.7, ..source(40_000) };
    let slowing =
        Slowing { every: Nanos::from_secs(10_000), lasting: Nanos::from_secs(9_000), to: 0.2 };
    let slow = Scenario { slowing: Some(slowing), ..steady.clone() };
    let policies = ["rand", "water-fill"];
    let (before, after) = (rows(&steady, &policies, &[1, 2]), rows(&slow, &policies, &[1, 2]));
    let worse = |policy: &str| wait(&after, policy) - wait(&before, policy);
    assert!(worse("rand") > 3.0 * worse("water-fill"), "{} {}", worse("rand"), worse("water-fill"));
    assert!(worse("central queue") > 0.0);
    let wrong = Slowing { to: 0.0, ..slowing };
    let specs = [PolicySpec::parse("rand").unwrap()];
    let refused = run(&Scenario { slowing: Some(wrong), ..steady }, &specs, &[1], &|_| ());
    assert!(refused.unwrap_err().to_string().contains("slow down to a share"));
}
