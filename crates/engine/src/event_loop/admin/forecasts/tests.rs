//! The latest forecasts are kept, and no more than there is room for.

use super::{FORECASTS_KEPT, Forecasts, NewForecast};

#[test]
fn the_latest_forecasts_are_kept_and_numbers_go_on() {
    let mut forecasts = Forecasts::default();
    let forecast = NewForecast {
        span_seconds: 1.0,
        requests: 1,
        touched_bytes: 1,
        from_map: false,
        measured: None,
        trials: Vec::new(),
        sentences: Vec::new(),
    };
    for at in 0..FORECASTS_KEPT as u64 + 3 {
        let published = forecasts.publish(at, "auto".to_string(), forecast.clone());
        assert_eq!((published.number, published.at_ms), (at + 1, at));
    }
    assert_eq!(forecasts.kept.len(), FORECASTS_KEPT);
    assert_eq!(forecasts.kept[0].number, 4);
}
