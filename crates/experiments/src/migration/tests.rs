//! The disks by hand, the workload against its own rates, contenders against what must hold, and
//! the description in the tree.

use super::config::Class;
use super::contender::{Plan, Site};
use super::disks::{Answer, Copier, Disks, Order};
use super::workload::{Request, Workload};
use super::{Config, Runs, Task, run};
use crate::Experiment;

const TREE: &str = include_str!("../../../../experiments/lmst/experiment.toml");

fn tree() -> Config {
    Config::parse(TREE, "experiment.toml").unwrap()
}

/// The tree's experiment, made so small that it runs in a moment.
fn small() -> Config {
    let mut config = tree();
    (config.slots, config.squeeze, config.seeds) = (4, 256, vec![1, 2]);
    config.sensitivity.alpha.truncate(2);
    config.sensitivity.e.truncate(2);
    config
}

fn request(at: f64, unit: u32, kib: f32) -> Request {
    Request { at, unit, kib, place: 0.0 }
}

/// A fast disk of 100 KiB a ms with the strict unit 0, a slow one of 10 with the loose units 1 and
/// 2.
fn disks(outranks: bool) -> Disks {
    let copier = Copier { pieces: 10, piece_kib: 100.0, outranks };
    Disks::new(&[100.0, 10.0], vec![0, 1, 1], vec![true, false, false], copier)
}

fn served(disks: &mut Disks, requests: &[Request]) -> Vec<(u32, f64)> {
    let mut answers = Vec::new();
    disks.serve(requests, f64::INFINITY, &mut |answer: Answer| {
        answers.push((answer.unit, (answer.response * 1e6).round() / 1e6));
    });
    answers
}

#[test]
fn a_request_waits_for_those_before_it_and_takes_its_size_by_the_disks_rate() {
    let requests = [request(0.0, 1, 100.0), request(2.0, 2, 50.0), request(40.0, 1, 10.0)];
    assert_eq!(served(&mut disks(false), &requests), [(1, 10.0), (2, 13.0), (1, 1.0)]);
}

#[test]
fn strict_requests_overtake_loose_ones_that_wait_and_interrupt_none() {
    let mut disks = disks(false);
    disks.order([Order { unit: 1, to: 0, kib_per_ms: 1e9 }].into_iter(), 0.0);
    assert_eq!(served(&mut disks, &[]), [], "copying is nobody's answer");
    assert_eq!(disks.homes(), [0, 0, 1]);
    let requests = [request(1e6, 1, 400.0), request(1e6, 1, 400.0), request(1e6 + 1.0, 0, 100.0)];
    assert_eq!(served(&mut disks, &requests), [(1, 4.0), (0, 4.0), (1, 9.0)]);
}

#[test]
fn a_copy_takes_what_both_disks_have_left_and_the_unit_answers_at_its_source_meanwhile() {
    let mut disks = disks(false);
    // A piece every 20 ms, of which the slow disk reads 10 and the fast one writes 1.
    disks.order([Order { unit: 1, to: 0, kib_per_ms: 5.0 }].into_iter(), 0.0);
    assert_eq!(disks.destination(1), Some(0));
    let mut moving = Vec::new();
    let requests = [request(15.0, 1, 100.0), request(195.0, 1, 100.0)];
    disks.serve(&requests, f64::INFINITY, &mut |answer| {
        moving.push((answer.response, answer.moving))
    });
    // The last piece is written at 180 + 10 + 1 ms: by then the first request was long answered, at
    // 10 KiB a ms, and the second is at 100.
    assert_eq!(moving, [(10.0, true), (1.0, false)]);
    assert_eq!((disks.homes(), disks.destination(1)), (&[0, 0, 1][..], None));
    let busy: Vec<f64> = disks.busy_ms().collect();
    assert_eq!(busy, [10.0 + 1.0, 100.0 + 10.0]);
}

#[test]
fn where_copying_outranks_the_moving_unit_its_requests_wait_and_no_others_do() {
    let waits = |outranks: bool| {
        let mut disks = disks(outranks);
        disks.order([Order { unit: 1, to: 0, kib_per_ms: 1e9 }].into_iter(), 0.0);
        // All pieces wait at once: 100 ms of reading.
        served(&mut disks, &[request(5.0, 1, 10.0), request(5.0, 2, 10.0)])
    };
    assert_eq!(waits(false), [(1, 6.0), (2, 7.0)]);
    // The other unit is answered after the piece that is being read, this one after the last.
    assert_eq!(waits(true), [(2, 6.0), (1, 97.0)]);
}

#[test]
fn a_disk_is_part_of_one_copy_at_a_time_and_the_order_of_moves_is_kept() {
    let mut disks = disks(false);
    let order = |unit, to| Order { unit, to, kib_per_ms: 5.0 };
    disks.order([order(1, 0), order(0, 1), order(2, 0)].into_iter(), 0.0);
    assert_eq!([0, 1, 2].map(|unit| disks.destination(unit)), [None, Some(0), None]);
    disks.serve(&[], 192.0, &mut |_| ());
    assert_eq!([0, 1, 2].map(|unit| disks.destination(unit)), [Some(1), None, None]);
    // What has not begun is dropped with the next slot's orders; what has goes on.
    disks.order(std::iter::empty(), 200.0);
    disks.serve(&[], f64::INFINITY, &mut |_| ());
    assert_eq!(disks.homes(), [1, 0, 1]);
}

#[test]
fn idle_and_bursty_slots_ask_at_their_published_rates() {
    let config = tree();
    for class in [Class::Strict, Class::Loose] {
        for share in [1e-9, 1.0 - 1e-9] {
            let classes = std::iter::repeat_n(class, 20);
            let mut workload = Workload::new(classes, &config.rates, config.burst, share, 7);
            let mut requests = Vec::new();
            let ms = 400_000.0;
            workload.fill(0.0, ms, &mut requests);
            assert!(requests.is_sorted_by(|a, b| a.at <= b.at));
            let kib: f64 = requests.iter().map(|request| f64::from(request.kib)).sum();
            let pace = config.rates.of(class);
            let wanted = if share < 0.5 { pace.idle } else { pace.bursty };
            let got = kib / ms / 20.0;
            // 400 peaks and more: 5 % is their deviation.
            assert!((got / wanted - 1.0).abs() < 0.15, "{class:?} {share}: {got} for {wanted}");
        }
    }
}

#[test]
fn a_static_placement_leaves_every_queue_an_m_m_1() {
    // Without bursts, units of one class on a disk of its own are M/M/1: s / (µ − λ).
    let mut config = small();
    (config.slots, config.squeeze) = (8, 64);
    config.bursts[0] = 1e-9;
    let plans = vec![Plan { policy: "static".to_string(), outranks: false }];
    let done = Task { size: 1, burst: 0, seed: 3, plans }.run(&config).unwrap();
    let measures = &done.measures[0];
    assert_eq!(done.bursty_slots, 0);
    for application in &measures.applications[2..] {
        let expected = 100.0 / (160.0 - 50.0);
        assert!((application.response_ms / expected - 1.0).abs() < 0.05, "{application:?}");
    }
    assert!((measures.strict.response_ms / (100.0 / 400.0) - 1.0).abs() < 0.05);
    assert!(measures.busy[2..].iter().all(|busy| (busy / (50.0 / 160.0) - 1.0).abs() < 0.05));
    assert_eq!((measures.moving_response_ms, measures.migrated_percent), (0.0, 0.0));
}

#[test]
fn the_tables_name_every_published_figure_and_a_run_repeats_itself() {
    let config = small();
    let outcome = run(&config, &mut |_| ()).unwrap();
    let text = outcome.to_markdown();
    for figure in ["382.29", "1675.73 ", "1324.17 (21.0 %)", "495.15", "12.98", "Figure 16 (b)"] {
        assert!(text.contains(figure), "{figure} in {text}");
    }
    assert_eq!(outcome.verdicts.len(), config.expect.len());
    assert!(outcome.to_html("0", "thermocline").contains("Figure 16, drawn"));
    assert_eq!(run(&config, &mut |_| ()).unwrap().to_markdown(), text);
}

#[test]
fn lmst_relieves_the_slow_tier_without_outgrowing_the_fast_one() {
    let mut config = small();
    (config.slots, config.squeeze) = (10, 64);
    let site = Site::new(&config, &config.sizes[1]);
    assert_eq!(site.units().count(), 70);
    let of = |policy: &str| Plan { policy: policy.to_string(), outranks: false };
    let plans = vec![of("static"), super::lmst(&config, "")];
    let done = Task { size: 1, burst: 1, seed: 1, plans }.run(&config).unwrap();
    let [without, with] = &done.measures[..] else { panic!("two plans were run") };
    assert!(with.all.response_ms < without.all.response_ms);
    let slow = |run: &super::Measures| run.busy[2..].iter().sum::<f64>();
    assert!(slow(with) < slow(without));
    // Twenty of forty places are left for loose units.
    assert!(with.migrated_percent > 20.0 && with.migrated_percent < 95.0);
}

#[test]
fn figures_that_do_not_fit_are_refused_and_said() {
    let error = |from: &str, to: &str| {
        assert!(TREE.contains(from), "{from}");
        let text = TREE.replacen(from, to, 1);
        Experiment::parse(&text, "e.toml").unwrap_err().to_string()
    };
    assert!(error("slots = 30", "slotz = 30").contains("slotz"));
    assert!(error("kind = \"migration\"", "kind = \"migraine\"").contains("migraine"));
    assert!(error("strict = 3, loose = 7", "strict = 5, loose = 7").contains("fit their tier"));
    assert!(error("squeeze = 8", "squeeze = 7").contains("power of two"));
    assert!(error("[267, 428, 591]", "[267, 428]").contains("rows of 3"));
    assert!(error("rate = 10, share = 0.1", "rate = 11, share = 0.1").contains("at most 1"));
    assert!(error("size = \"70 GB\"", "size = \"71 GB\"").contains("sensitivity"));
    let mut config = tree();
    config.nmst = "lru".to_string();
    assert!(run(&config, &mut |_| ()).unwrap_err().to_string().contains("not a placement"));
}

#[test]
fn a_spread_is_mean_and_sample_deviation() {
    let config = small();
    let plans = vec![Plan { policy: "static".to_string(), outranks: false }];
    let run = |seed| {
        let task = Task { size: 0, burst: 0, seed, plans: plans.clone() };
        task.run(&config).unwrap().measures.remove(0)
    };
    let (mut one, mut other) = (run(1), run(2));
    (one.moving_response_ms, other.moving_response_ms) = (1.0, 4.0);
    let spread = Runs(vec![one, other]).spread(|run| run.moving_response_ms);
    assert_eq!(spread.mean, 2.5);
    assert!((spread.deviation - 4.5f64.sqrt()).abs() < 1e-12);
}
