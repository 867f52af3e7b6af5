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
    let cache = of("all of nvme as");
    assert_eq!(cache.verdict, Verdict::Impossible);
    assert!(cache.problem.as_ref().unwrap().contains("1 MiB"), "{:?}", cache.problem);
    assert!(advice.answers.iter().all(|a| !a.what.contains("half of nvme")), "one chunk has none");
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
    assert_eq!(of(&[0.5, 2.0]), Verdict::Unclear, "a mean of 1, of which nothing is known");
    assert_eq!(of(&[0.985, 0.986, 0.985]), Verdict::Same);
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
    let names = |text: &str| Prices::parse(text, "p.toml").unwrap().check_names(&[], "p.toml");
    assert_eq!(names("[nvme]\ngib = 1\nyears = 5\n[our-array]\ngib = 9\nyears = 7\n"), Ok(()));
    let misspelt = names("[nvmee]\ngib = 1\nyears = 5\n").unwrap_err().to_string();
    assert!(misspelt.contains("[nvmee]") && misspelt.contains("`nvme`"), "{misspelt}");
}

/// `--add 15EiB`, and pools of that size, were panics of the program.
#[test]
fn sizes_that_no_device_has_are_refused_and_other_trials_run() {
    let load = load("web,requests=500,seed=1");
    let mut question = Question { more: Some(Bytes(15 << 60)), seeds: 1, ..question() };
    let advice = advise(&load, &question, &|_| ()).unwrap();
    let more = advice.answers.iter().find(|answer| answer.what.contains("more of")).unwrap();
    assert_eq!(more.verdict, Verdict::Impossible);
    assert!(more.problem.as_ref().unwrap().contains("at most 1 PiB"), "{:?}", more.problem);
    question.pools[0].size = crate::machine::PoolSize::Bytes(Bytes(u64::MAX));
    let refused = advise(&load, &question, &|_| ()).unwrap_err().to_string();
    assert!(refused.contains("at most 1 PiB"), "{refused}");
}

/// Requests that all come at once.
fn at_once() -> Load {
    let mut load = load("oltp,requests=500,seed=1");
    load.demands.iter_mut().for_each(|demand| demand.at = thermocline_units::Nanos(0));
    load
}

/// Fifty writes within a moment were told as 25 million drive writes a day, and a bucket for them
/// as 2,916 dollars a month.
#[test]
fn a_load_without_a_length_tells_nothing_of_a_day_or_of_requests_a_month() {
    let advice = advise(&at_once(), &question(), &|_| ()).unwrap();
    for answer in &advice.answers {
        let figures = answer.figures.as_ref().unwrap();
        assert_eq!(figures.writes_a_day, None, "{}", answer.what);
        assert_eq!(figures.month_cost.is_none(), answer.what.contains("bucket"), "{}", answer.what);
    }
}

/// A device that cannot keep up wrote as much in a longer run, and seemed to wear less.
#[test]
fn wear_and_requests_are_of_the_time_in_which_they_were_asked_for() {
    let mut load = load("oltp,requests=4k,seed=1");
    // 0.5 ms apart: a disk works it off for long.
    for (number, demand) in load.demands.iter_mut().enumerate() {
        demand.at = thermocline_units::Nanos(number as u64 * 500_000);
    }
    let question = Question { seeds: 1, ..question() };
    let advice = advise(&load, &question, &|_| ()).unwrap();
    let now = &advice.answers[0];
    let wear = now.figures.as_ref().unwrap().writes_a_day.unwrap();
    let trial = super::Trial::new(String::new(), question.pools.clone(), &question.policy);
    let pools = super::sized(
        &trial.pools,
        question.options.chunk,
        advice.touched_bytes / question.options.chunk.0,
    );
    let run = crate::machine::run(&load, &pools, &[spec("static")], &question.options, &|_| ());
    let run = run.unwrap().pop().unwrap();
    assert!(run.span_s > 2.0 * advice.span_s, "{} s for {} s", run.span_s, advice.span_s);
    let size = now.pools[0].size_bytes as f64;
    let by_hand = run.pools[0].flash_host_bytes as f64 / size * 86_400.0 / advice.span_s;
    assert!((wear / by_hand - 1.0).abs() < 1e-9, "{wear} and {by_hand}");
}

/// Seconds read as if they were another unit ran for hours.
#[test]
fn a_trace_of_centuries_is_refused_with_the_unit_of_time_in_mind() {
    let mut load = load("web,requests=10,seed=1");
    load.demands.last_mut().unwrap().at = thermocline_units::Nanos::from_secs(9_000_000_000);
    let refused = advise(&load, &question(), &|_| ()).unwrap_err().to_string();
    assert!(refused.contains("285 years") && refused.contains("unit of time"), "{refused}");
    cheapest(&load, &question(), 1.0, &|_| ()).unwrap_err();
}

/// All of a small hot set fits on what is bought: that it wins, and by how much, is known.
#[test]
fn an_obviously_right_purchase_wins_and_is_what_the_machine_says_of_the_same_pools() {
    let load = load("oltp,requests=6k,seed=5");
    let mut question = Question { seeds: 2, rivals: Vec::new(), ..question() };
    question.pools[0].size = crate::machine::PoolSize::Share(0.1);
    question.more = Some(load.touched(question.options.chunk).len() as u64)
        .map(|chunks| Bytes(chunks * question.options.chunk.0));
    let advice = advise(&load, &question, &|_| ()).unwrap();
    let best = advice.answers.iter().filter_map(|a| Some((a.figures.as_ref()?.mean_s.mean, a)));
    let (_, best) = best.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    assert!(best.what.contains("more of nvme"), "{}", best.what);
    assert_eq!(best.verdict, Verdict::Better);
    let mut all_fast = question.pools.clone();
    all_fast[0].size = crate::machine::PoolSize::Bytes(Bytes(best.pools[0].size_bytes));
    let means: f64 = (0..2)
        .map(|seed| {
            let options = MachineOptions { seed: 1 + seed, ..question.options.clone() };
            let run = crate::machine::run(&load, &all_fast, &[spec("static")], &options, &|_| ());
            run.unwrap()[0].all.mean_s
        })
        .sum();
    let told = best.figures.as_ref().unwrap().mean_s.mean;
    assert!((told / (means / 2.0) - 1.0).abs() < 1e-9, "{told} and {}", means / 2.0);
}
