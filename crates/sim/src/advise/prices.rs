//! Prices of devices: a table by profile, and the cost of a month.
//!
//! A price is either of a device that is bought (for a GiB, written off over years) or of an object
//! store (for a GiB and month, and for requests). Currency is whatever the file is in.

use crate::machine::PoolPlan;
use serde::Deserialize;
use std::collections::BTreeMap;
use thermocline_ports::model::Profile;
use thermocline_units::nearest;

/// Prices when nobody names others.
const ASSUMED: &str = include_str!("prices.toml");

const GIB: f64 = (1u64 << 30) as f64;

/// A table of prices that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct PricesError {
    /// The file.
    pub origin: String,
    /// The fault, with its line where there is one, and what to do.
    pub problem: String,
}

/// Price of one kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Price {
    /// Bought.
    Device {
        /// For a GiB.
        gib: f64,
        /// Years over which it is written off.
        years: f64,
    },
    /// Rented.
    Store {
        /// For a GiB and month.
        #[serde(rename = "gib-month")]
        gib_month: f64,
        /// For 1,000 requests that read.
        #[serde(rename = "reads-1000")]
        reads: f64,
        /// For 1,000 requests that write.
        #[serde(rename = "writes-1000")]
        writes: f64,
    },
}

/// Prices by profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices(BTreeMap<String, Price>);

/// Use of a device for a month.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Month {
    pub(super) bytes: f64,
    pub(super) reads: f64,
    pub(super) writes: f64,
}

impl Prices {
    /// The assumed ones, which say where they are from in `advise/prices.toml`.
    pub fn assumed() -> Prices {
        Prices::parse(ASSUMED, "prices.toml").expect("a test reads it")
    }

    /// Reads a table: `[profile]` with `gib` and `years`, or with `gib-month`, `reads-1000` and
    /// `writes-1000`. Profiles that it leaves out have no price.
    ///
    /// # Errors
    /// When it is no TOML, a price has other keys than these, or is not positive (0 is allowed).
    pub fn parse(text: &str, origin: &str) -> Result<Prices, PricesError> {
        let wrong = |problem: String| PricesError { origin: origin.to_string(), problem };
        let shape = "a price has `gib` and `years`, or `gib-month`, `reads-1000`, `writes-1000`";
        let table: BTreeMap<String, toml::Value> = toml::from_str(text)
            .map_err(|error| wrong(error.to_string().trim_end().to_string()))?;
        let mut prices = BTreeMap::new();
        for (profile, value) in table {
            let price: Price =
                value.try_into().map_err(|_| wrong(format!("[{profile}]: {shape}")))?;
            let figures = match price {
                Price::Device { gib, years } => [gib, years - f64::MIN_POSITIVE, 0.0],
                Price::Store { gib_month, reads, writes } => [gib_month, reads, writes],
            };
            if figures.iter().any(|figure| !figure.is_finite() || *figure < 0.0) {
                let problem = "a price is a number of 0 or more, and years are more than 0";
                return Err(wrong(format!("[{profile}]: {problem}")));
            }
            prices.insert(profile, price);
        }
        Ok(Prices(prices))
    }

    /// Refuses a table whose profile is nearly, but not quite, one that is built in or that `pools`
    /// have: it would be a profile without a price. Others may be profiles of one's own.
    ///
    /// # Errors
    /// When there is such a profile; says what it may have meant.
    pub fn check_names(&self, pools: &[PoolPlan], origin: &str) -> Result<(), PricesError> {
        let caches = pools.iter().filter_map(|pool| pool.cache.as_ref());
        let caches = caches.map(|cache| cache.profile_name.as_str());
        let own = pools.iter().map(|pool| pool.profile_name.as_str()).chain(caches);
        let mut known: Vec<&str> = own.collect();
        Profile::names().for_each(|name| known.push(name));
        let unknown = self.0.keys().filter(|name| !known.contains(&name.as_str()));
        for name in unknown {
            if let Some(like) = nearest(name, known.iter().copied()) {
                let problem = format!("[{name}]: there is no such profile; did you mean `{like}`?");
                return Err(PricesError { origin: origin.to_string(), problem });
            }
        }
        Ok(())
    }

    /// Cost of a month; `None`: the profile has no price.
    pub(super) fn month(&self, profile: &str, used: Month) -> Option<f64> {
        Some(match *self.0.get(profile)? {
            Price::Device { gib, years } => used.bytes / GIB * gib / (years * 12.0),
            Price::Store { gib_month, reads, writes } => {
                used.bytes / GIB * gib_month
                    + used.reads / 1000.0 * reads
                    + used.writes / 1000.0 * writes
            }
        })
    }
}
