//! Forecasts are checked: bounds, and numbers that make sense.

use super::{
    ForecastFigures, ForecastMeasured, ForecastTrial, ForecastVerdict, NewForecast, TRIALS_MAX,
};

fn forecast() -> NewForecast {
    let figures = ForecastFigures {
        mean_us: 900.0,
        p99_us: 9_000.0,
        mean_ratio: [1.0; 3],
        p99_ratio: [1.0; 3],
        writes_a_day: Some(0.5),
        month_cost: None,
    };
    let now = ForecastTrial {
        what: "as it is".to_string(),
        policy: "auto".to_string(),
        devices: "1 GiB on nvme".to_string(),
        verdict: ForecastVerdict::Now,
        figures: Some(figures),
        problem: None,
    };
    NewForecast {
        span_seconds: 60.0,
        requests: 1000,
        touched_bytes: 1 << 30,
        from_map: true,
        measured: Some(ForecastMeasured { requests: 1000, mean_us: 1000.0, p99_us: 8000.0 }),
        trials: vec![now],
        sentences: vec!["Nothing that was tried is better than what there is.".to_string()],
    }
}

#[test]
fn a_forecast_is_taken_and_reads_as_it_was_written() {
    assert_eq!(forecast().check(), Ok(()));
    let text = serde_json::to_string(&forecast()).expect("it is plain");
    assert_eq!(serde_json::from_str::<NewForecast>(&text).expect("it is one"), forecast());
    let other = text.replacen("span_seconds", "span", 1);
    assert!(serde_json::from_str::<NewForecast>(&other).is_err());
}

#[test]
fn what_is_no_forecast_is_refused() {
    let refused = |change: &dyn Fn(&mut NewForecast)| {
        let mut forecast = forecast();
        change(&mut forecast);
        forecast.check().expect_err("it is no forecast")
    };
    assert!(refused(&|one| one.trials.clear()).contains("1 to 64 trials, not 0"));
    let many = |one: &mut NewForecast| {
        one.trials = vec![one.trials[0].clone(); TRIALS_MAX + 1];
    };
    assert!(refused(&many).contains("not 65"));
    let better = |one: &mut NewForecast| one.trials[0].verdict = ForecastVerdict::Better;
    assert!(refused(&better).contains("the first trial"));
    let long = |one: &mut NewForecast| one.trials[0].devices = "x".repeat(2049);
    assert!(refused(&long).contains("2049 bytes"));
    let much = |one: &mut NewForecast| one.sentences = vec![String::new(); 65];
    assert!(refused(&much).contains("64 sentences"));
    for number in [f64::NAN, -1.0, f64::INFINITY] {
        let figure = |one: &mut NewForecast| {
            one.trials[0].figures.as_mut().expect("it has").p99_ratio[2] = number;
        };
        assert!(refused(&figure).contains("finite"));
        assert!(refused(&|one| one.span_seconds = number).contains("finite"));
    }
}
