//! Forecasts: published, and told.

use super::AdminApi;
use crate::api::{Forecast, NewForecast};
use std::collections::VecDeque;
use thermocline_admin::api::{Refused, Severity};
use thermocline_admin::past::wall_clock;

/// Forecasts that are kept; the oldest goes first.
const FORECASTS_KEPT: usize = 32;

/// Forecasts that were published since the start, the oldest first.
#[derive(Debug, Default)]
pub(in crate::event_loop) struct Forecasts {
    published: u64,
    kept: VecDeque<Forecast>,
}

impl Forecasts {
    fn publish(&mut self, at_ms: u64, policy: String, forecast: NewForecast) -> &Forecast {
        self.published += 1;
        if self.kept.len() == FORECASTS_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Forecast { number: self.published, at_ms, policy, forecast });
        assert!(self.kept.len() <= FORECASTS_KEPT, "forecasts are bounded");
        self.kept.back().expect("just put there")
    }
}

impl AdminApi<'_> {
    /// Takes a forecast, to be shown to people.
    ///
    /// # Errors
    /// When it makes no sense.
    pub(crate) fn publish_forecast(&mut self, forecast: NewForecast) -> Result<Forecast, Refused> {
        forecast.check().map_err(Refused::invalid)?;
        let (at_ms, policy) = (wall_clock(), self.policy().spec);
        let published = self.engine.forecasts.publish(at_ms, policy, forecast).clone();
        let text = format!("forecast {} is published", published.number);
        self.engine.event(Severity::Info, "forecast", text);
        Ok(published)
    }

    /// Forecasts that are kept, of numbers above `after`, the latest first.
    pub fn forecasts(&self, after: u64) -> Vec<Forecast> {
        let kept = self.engine.forecasts.kept.iter().rev();
        kept.take_while(|forecast| forecast.number > after).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
