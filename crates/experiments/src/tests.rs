//! Experiments: what the descriptions in the tree say, how shapes are judged, which traces are
//! used.

use super::{Config, Expectation, ExperimentError, Folders, run};
use std::path::PathBuf;
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::lab::{CacheSize, LabOptions, Row};
use thermocline_sim::replay::ReplayOptions;
use thermocline_sim::replay::cost::Profile;
use thermocline_sim::workload::{Cut, Unit, Workload};
use thermocline_trace::{Batch, HashRange, Op, Request, TraceError, TraceReader};
use thermocline_units::{Bytes, Nanos, VolumeId};

const VFRM: &str = include_str!("../../../experiments/vfrm/experiment.toml");
const GVFRM: &str = include_str!("../../../experiments/gvfrm/experiment.toml");

#[test]
fn the_experiments_of_the_tree_are_well_formed_and_name_known_policies() {
    for text in [VFRM, GVFRM] {
        let config = Config::parse(text, "experiment.toml").unwrap();
        for policy in &config.policies {
            PolicySpec::parse(policy).unwrap();
        }
        assert!(!config.published.is_empty() && !config.stand_ins.is_empty());
        assert!(config.expect.len() >= 3, "a shape is more than one feature");
    }
}

#[test]
fn an_unknown_key_or_a_wrong_quantity_names_its_line() {
    let error = |text: &str| Config::parse(text, "e.toml").unwrap_err().to_string();
    let unknown = error(&VFRM.replacen("epoch =", "epok =", 1));
    assert!(unknown.contains("e.toml") && unknown.contains("epok"), "{unknown}");
    let wrong = error(&VFRM.replacen("\"5m\"", "\"5 parsecs\"", 1));
    assert!(wrong.contains("5 parsecs") && wrong.contains("line"), "{wrong}");
}

#[test]
fn what_is_expected_of_nobody_is_refused() {
    let error = |from: &str, to: &str| {
        let text = GVFRM.replacen(from, to, 1);
        assert_ne!(text, GVFRM, "{from}");
        Config::parse(&text, "e.toml").unwrap_err().to_string()
    };
    let policy = error("against = [\"", "against = [\"lrv\", \"");
    assert!(policy.contains("`lrv`") && policy.contains("`policies` are"), "{policy}");
    let nobody = error("against = [\"lru\", \"arc\", \"car\"]", "against = []");
    assert!(nobody.contains("nobody to compare with"), "{nobody}");
}

#[test]
fn without_any_trace_the_error_says_what_was_looked_for() {
    let config = Config::parse(VFRM, "e.toml").unwrap();
    let nowhere = PathBuf::from("no/such/folder");
    let folders = Folders { published: vec![nowhere.clone()], stand_ins: vec![nowhere] };
    let error = run(&config, &folders, &mut |_| ()).unwrap_err();
    assert!(matches!(error, ExperimentError::NoTraces { .. }));
    assert!(error.to_string().contains("mds_0"), "{error}");
}

/// Reads of one volume, one a second, over 30 blocks again and again.
struct Rounds {
    left: std::ops::Range<u64>,
    volumes: [String; 1],
}

impl TraceReader for Rounds {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        batch.requests.extend(self.left.by_ref().take(100).map(|i| Request {
            time: Nanos::from_secs(i),
            volume: VolumeId(0),
            op: Op::Read,
            offset: Bytes(i % 30 * 4096),
            length: Bytes(4096),
            response: None,
            hashes: HashRange::default(),
        }));
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }
}

/// Rows of LRU at three sizes, of which the two larger ones hold everything.
fn rows() -> Vec<Row> {
    let mut rounds = Rounds { left: 0..300, volumes: ["a".to_string()] };
    let cut = Cut { unit: Unit::Lines(Bytes::from_kib(4)), chunk: None };
    let workload = Workload::read(&mut rounds, cut, &|_| ()).unwrap();
    let specs = [PolicySpec::parse("lru").unwrap(), PolicySpec::parse("sieve").unwrap()];
    let sizes = [10, 30, 60].map(CacheSize::Lines);
    let replay = ReplayOptions::default();
    let options = LabOptions { replay, profile: Profile::source(), seed: 1 };
    thermocline_sim::lab::run(&workload, &specs, &sizes, &options, &|_| ()).unwrap()
}

#[test]
fn verdicts_follow_the_figures() {
    let mut rows = rows();
    let lru = || "lru".to_string();
    let against = || vec!["sieve".to_string()];
    let reaches =
        Expectation::HitRatioReaches { policy: lru(), against: against(), within_points: 0.0 };
    let catches = Expectation::CatchesUp { policy: lru(), against: against() };
    let cheaper =
        Expectation::CostAtMost { policy: lru(), against: "sieve".to_string(), percent: 99.0 };
    let holds = |expectation: &Expectation, rows: &[Row]| {
        expectation.judge("one", &[rows.to_vec()]).unwrap().holds
    };
    assert!(holds(&reaches, &rows), "both hold everything at 60 lines");
    assert!(holds(&catches, &rows));
    assert!(!holds(&cheaper, &rows), "they cost the same");
    rows[2].request_hit_ratio -= 0.5;
    assert!(!holds(&reaches, &rows));
    let missing = Expectation::CatchesUp { policy: "arc".to_string(), against: against() };
    assert_eq!(missing.judge("one", &[rows.clone()]), None, "no verdict on what did not run");
    let printed = |workload: &str, percent: f64| Expectation::HitRatioNear {
        workload: workload.to_string(),
        policy: lru(),
        percent,
        within_points: 1.0,
    };
    let ratio = rows[2].request_hit_ratio * 100.0;
    let own = |off: f64| printed("one", ratio + off).judge("one", &[rows.clone()]);
    assert!(own(0.9).unwrap().holds && own(-0.9).unwrap().holds);
    assert!(!own(1.1).unwrap().holds && !own(-1.1).unwrap().holds);
    assert_eq!(printed("another", ratio).judge("one", &[rows]), None, "another workload is meant");
}

#[test]
fn draws_that_disagree_leave_no_doubt_out() {
    let expect = Expectation::CostAtMost {
        policy: "lru".to_string(),
        against: "sieve".to_string(),
        percent: 100.0,
    };
    let draw = |times: f64| {
        let mut rows = rows();
        rows.iter_mut()
            .filter(|row| row.policy == "lru")
            .for_each(|row| row.cost_source_s *= times);
        rows
    };
    assert!(expect.judge("one", &[draw(0.9), draw(0.9), draw(0.9)]).unwrap().holds);
    let unsure = expect.judge("one", &[draw(0.7), draw(0.9), draw(1.08)]).unwrap();
    assert!(!unsure.holds && unsure.claim.contains('±'), "{}", unsure.claim);
}

#[test]
fn published_figures_stand_beside_ours() {
    let figure = |text: &str| toml::from_str::<super::Published>(text).unwrap();
    let hits =
        figure("measure = \"hit-ratio\"\npolicies = [\"lru\", \"sieve\"]\nat = \"x\"\npercent = 9");
    let cost = figure(
        "measure = \"cost\"\npolicies = [\"sieve\"]\nagainst = \"lru\"\nat = \"x\"\npercent = 9",
    );
    let rows = rows();
    let most = rows.iter().map(|row| row.request_hit_ratio).fold(0.0, f64::max);
    assert_eq!(hits.ours(std::slice::from_ref(&rows)).unwrap().mean, most * 100.0);
    assert_eq!(cost.ours(&[rows]).unwrap().mean, 100.0, "both hold everything at 60 lines");
    assert_eq!(
        figure("measure = \"cost\"\npolicies = [\"arc\"]\nat = \"x\"\npercent = 9")
            .ours(&[self::rows()])
            .map(|ours| ours.mean),
        None
    );
}
