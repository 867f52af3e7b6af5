//! Sampled curves of LRU against exact ones on real traces. Every curve used to be adjusted, which
//! made the mean error at 1 % several times that of plain SHARDS on two of three traces.

use crate::fixtures::shared;
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::lab::{
    Adjustment, CacheSize, Curve, CurveMethod, LabOptions, exact_curve, sampled_curves,
};
use thermocline_sim::replay::ReplayOptions;
use thermocline_sim::replay::cost::Profile;
use thermocline_sim::workload::{Cut, Sample, SampleSize, Unit};
use thermocline_trace::{ReadOptions, TraceReader, open};
use thermocline_units::Bytes;

const CUT: Cut = Cut { unit: Unit::Lines(Bytes::from_kib(4)), chunk: None };
const TRACES: [&str; 4] = [
    "cloudphysics_2h.csv.gz",
    "capA_srv_pg_ext4.csv.gz",
    "capC_mail_btrfs.csv.gz",
    "tencent_cbs_50k.csv.gz",
];
const SEEDS: u64 = 5;

fn reader(trace: &str) -> Option<Box<dyn TraceReader>> {
    let bytes = shared(&format!("traces/{trace}"))?;
    let input = Box::new(std::io::Cursor::new(bytes));
    Some(open(input, trace, &ReadOptions::default()).expect("a shared trace is readable"))
}

fn options() -> LabOptions {
    LabOptions { replay: ReplayOptions::default(), profile: Profile::source(), seed: 1 }
}

/// Mean absolute error, and the points whose error bar holds the truth.
fn judged(curve: &Curve, exact: &Curve) -> (f64, usize) {
    assert_eq!(curve.points.len(), exact.points.len());
    let off = |(a, b): (&thermocline_sim::lab::Point, &thermocline_sim::lab::Point)| {
        ((a.miss_ratio - b.miss_ratio).abs(), a.error)
    };
    let all: Vec<(f64, f64)> = curve.points.iter().zip(&exact.points).map(off).collect();
    let mean = all.iter().map(|(off, _)| off).sum::<f64>() / all.len() as f64;
    (mean, all.iter().filter(|(off, error)| off <= error).count())
}

#[test]
fn an_adjusted_curve_is_chosen_where_it_helps_and_error_bars_hold_the_truth() {
    let sizes: Vec<CacheSize> = ["1%", "3%", "10%", "20%", "40%", "70%"]
        .map(|text| text.parse().expect("a share"))
        .to_vec();
    let lru = [PolicySpec::parse("lru").expect("a policy")];
    let (mut held, mut points) = (0, 0);
    let (mut chosen, mut always, mut never) = (0.0, 0.0, 0.0);
    for trace in TRACES {
        let Some(mut whole) = reader(trace) else { return };
        let exact = exact_curve(&mut *whole, CUT, Some(&sizes), &options(), &|_| ());
        let exact = exact.expect("a curve").curves.remove(0);
        for seed in 1..=SEEDS {
            let mut again = reader(trace).expect("it was there before");
            let size = SampleSize { rate: 0.01, lines_min: CurveMethod::LINES_MIN };
            let sample = Sample::read(&mut *again, CUT.unit, size, seed, &|_| ());
            let sample = sample.expect("a sample");
            let curve = |adjustment| {
                let how = (CurveMethod::Rate(0.01), adjustment);
                let made = sampled_curves(&sample, CUT.unit, &lru, Some(&sizes), how, &options());
                made.expect("a curve").curves.remove(0)
            };
            let (error, inside) = judged(&curve(Adjustment::WhereItHelps), &exact);
            let (with, _) = judged(&curve(Adjustment::Always), &exact);
            let (without, _) = judged(&curve(Adjustment::Never), &exact);
            eprintln!("{trace} seed {seed}: {error:.4}, always {with:.4}, never {without:.4}");
            (chosen, always, never) = (chosen + error, always + with, never + without);
            held += inside;
            points += exact.points.len();
        }
    }
    assert!(chosen <= 1.1 * always.min(never), "{chosen}, always {always}, never {never}");
    assert!(held * 100 >= points * 85, "{held} of {points} points inside their error bars");
}
