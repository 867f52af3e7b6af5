//! Advice on loads whose answer is known beforehand, prices by hand, and what is refused.

use super::{Prices, Question, Ratio, Verdict, advise, cheapest, verdict};
use crate::machine::{Load, MachineOptions, PoolPlan};
use crate::synth::from_words;
use thermocline_policy::registry::PolicySpec;
use thermocline_trace::synth::Synth;
use thermocline_units::Bytes;

fn load(words: &str) -> Load {
    Load::read(&mut Synth::new(&from_words(words).unwrap()).unwrap(), &|_| ()).unwrap()
}

fn spec(text: &str) -> PolicySpec {
    PolicySpec::parse(text).unwrap()
}

fn question() -> Question {
    Question {
        pools: PoolPlan::assumed(),
        policy: spec("static"),
        rivals: vec![spec("static"), spec("hemem")],
        more: None,
        options: MachineOptions { own_epochs: true, ..MachineOptions::default() },
        seeds: 2,
        prices: Prices::assumed(),
    }
}

#[test]
fn more_fast_space_is_better_less_is_not_and_all_trials_have_prices() {
    let load = load("oltp,requests=20k,seed=3");
    let advice = advise(&load, &question(), &|_| ()).unwrap();
    let of = |what: &str| {
        let found = advice.answers.iter().find(|answer| answer.what.contains(what));
        found.unwrap_or_else(|| panic!("{what} was not tried"))
    };
    assert_eq!(advice.answers[0].verdict, Verdict::Now);
    assert!(advice.answers.iter().all(|answer| answer.figures.is_some()), "{advice:?}");
    assert_eq!(of("more of nvme").verdict, Verdict::Better);
    assert_eq!(of("half of nvme").verdict, Verdict::Worse);
    assert!(advice.answers.iter().all(|a| a.what != "policy static"), "it is what there is");
    assert_eq!(of("policy hemem").policy, "hemem");
    let cost = |what: &str| of(what).figures.as_ref().unwrap().month_cost.unwrap();
    let now = advice.answers[0].figures.as_ref().unwrap().month_cost.unwrap();
    assert!(cost("more of nvme") > now && cost("half of nvme") < now);
    let cached = of("all of nvme as a block cache");
    assert_eq!((cached.pools.len(), cached.policy.as_str()), (1, "static"));
    assert_eq!(cached.pools[0].cache_bytes, Some(advice.answers[0].pools[0].size_bytes));
    assert_eq!(advice.measured, None, "made loads tell no latencies");
}

#[test]
fn equal_questions_get_equal_answers_whatever_the_number_of_threads() {
    let load = load("web,requests=5k,seed=1");
    let ask = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| advise(&load, &question(), &|_| ()).unwrap())
    };
    // Intervals of ratios to oneself are 0, and of one seed not a number: compare as text.
    assert_eq!(format!("{:?}", ask(1)), format!("{:?}", ask(2)));
}

#[test]
fn a_trial_that_cannot_be_run_is_told_with_its_reason() {
    let mut question = question();
    // Smaller than any block cache.
    question.pools[0].size = crate::machine::PoolSize::Bytes(Bytes::from_mib(1));
    let advice = advise(&load("web,requests=2k,seed=1"), &question, &|_| ()).unwrap();
    let of = |what: &str| advice.answers.iter().find(|answer| answer.what.contains(what)).unwrap();
    let cache = of("half of nvme as");
    assert_eq!(cache.verdict, Verdict::Impossible);
    assert!(cache.problem.as_ref().unwrap().contains("512 KiB"), "{:?}", cache.problem);
    assert!(of("a bucket").figures.is_some(), "the trials after it are what they were");
}

#[test]
fn the_cheapest_set_that_keeps_a_bound_comes_last_and_an_impossible_bound_is_said() {
    let load = load("oltp,requests=5k,seed=2");
    let (sets, kept) = cheapest(&load, &question(), 10.0, &|_| ()).unwrap();
    assert!(kept && sets.len() == 1, "a disk alone keeps 10 s");
    let (sets, kept) = cheapest(&load, &question(), 0.005, &|_| ()).unwrap();
    let last = sets.last().unwrap();
    assert!(kept && last.figures.as_ref().unwrap().p99_s.mean <= 0.005);
    let missed = &sets[..sets.len() - 1];
    assert!(missed.iter().all(|set| set.figures.as_ref().unwrap().p99_s.mean > 0.004));
    let costs: Vec<f64> =
        sets.iter().map(|set| set.figures.as_ref().unwrap().month_cost.unwrap()).collect();
    assert!(costs.is_sorted(), "{costs:?}");
    let (sets, kept) = cheapest(&load, &question(), 1e-6, &|_| ()).unwrap();
    assert!(!kept && sets.len() > 10);
}

#[test]
fn small_differences_are_none_and_uncertain_ones_are_called_so() {
    let of = |ratios: &[f64]| verdict(Ratio::of(ratios));
    assert_eq!(of(&[0.88, 0.9, 0.91]), Verdict::Better);
    assert_eq!(of(&[0.5, 0.9, 1.3]), Verdict::Unclear, "the interval has 1 in it");
    assert_eq!(of(&[0.99, 0.991, 0.99]), Verdict::Same, "certain, and not worth telling");
    assert_eq!(of(&[1.1, 1.12, 1.1]), Verdict::Worse);
    assert_eq!(of(&[0.9]), Verdict::Better, "one run has no interval");
}

#[test]
fn prices_are_of_a_month_and_wrong_ones_are_refused_with_their_table() {
    let prices = Prices::parse("[nvme]\ngib = 1.2\nyears = 5\n", "p.toml").unwrap();
    let month = super::Month { bytes: (100u64 << 30) as f64, reads: 0.0, writes: 0.0 };
    assert!((prices.month("nvme", month).unwrap() - 2.0).abs() < 1e-9, "120 over 60 months");
    assert_eq!(prices.month("hdd-7200", month), None);
    let bucket = super::Month { reads: 1e6, writes: 1e5, ..month };
    let cost = Prices::assumed().month("s3", bucket).unwrap();
    assert!((cost - (2.3 + 0.4 + 0.5)).abs() < 1e-9, "{cost}");
    let wrong = |text: &str| Prices::parse(text, "p.toml").unwrap_err().to_string();
    assert!(wrong("[nvme]\ngib = 1\n").contains("[nvme]"));
    assert!(wrong("[nvme]\ngib = -1.0\nyears = 5\n").contains("0 or more"));
    assert!(wrong("[nvme]\ngib = 1.0\nyears = 0\n").contains("more than 0"));
    assert!(wrong("nonsense").contains("p.toml"));
}
