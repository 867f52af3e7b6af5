//! `[scrub]`: how often what pools hold is read and verified.

use super::ScrubConfig;
use super::keys::{ConfigError, Keys};
use super::read::quantity_or_none;
use std::time::Duration;
use thermocline_units::Nanos;

/// Times between two scrubs of pools.
const EVERY: std::ops::RangeInclusive<Nanos> =
    Nanos::from_secs(3600)..=Nanos::from_secs(366 * 86_400);

pub(super) fn scrub(mut keys: Keys<'_>) -> Result<ScrubConfig, ConfigError> {
    let wanted = "`every` is a time from 1h to 366d, as \"30d\", or \"none\"".to_string();
    let every = quantity_or_none(&mut keys, "every", wanted, |every| EVERY.contains(every))?;
    keys.finish()?;
    Ok(match every {
        None => ScrubConfig::default(),
        Some(every) => ScrubConfig { every: every.map(|every| Duration::from_nanos(every.0)) },
    })
}
