//! `[hints]`: where hints come from by themselves, and how they are sorted.

use super::HintsConfig;
use super::keys::{ConfigError, Keys};
use super::read::quantity_or_none;
use std::path::Path;
use std::time::Duration;
use thermocline_policy::hints::rules::Classes;
use thermocline_policy::hints::store::PIN_SHARE;
use thermocline_units::Nanos;

/// Times between two surveys of file systems.
const SURVEY: std::ops::RangeInclusive<Nanos> = Nanos::from_secs(1)..=Nanos::from_secs(86_400);

pub(super) fn hints(mut keys: Keys<'_>, beside: &Path) -> Result<HintsConfig, ConfigError> {
    let (low, high) = (SURVEY.start(), SURVEY.end());
    let wanted = format!("`survey` is a time from {low} to {high}, as \"1m\", or \"none\"");
    let fits = |every: &Nanos| SURVEY.contains(every);
    let survey = quantity_or_none(&mut keys, "survey", wanted, fits)?.flatten();
    let classes = keys.text("classes")?.map(|file| beside.join(file.value));
    let share = |share: f64| (0.0..=1.0).contains(&share);
    let pins = keys.number("pins", "a share of a pool, 0 to 1, as 0.5", share)?;
    keys.finish()?;
    let survey = survey.map(|every| Duration::from_nanos(every.0));
    Ok(HintsConfig { survey, classes, pins: pins.unwrap_or(PIN_SHARE) })
}

/// The text of a table of classes, which was found to be one.
///
/// # Errors
/// When the file cannot be read, or is no such table.
pub(crate) fn table_of_classes(path: &Path) -> Result<String, ConfigError> {
    let wrong = |what: String| ConfigError::new(format!("{}: {what}", path.display()));
    let table = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Classes::parse(&table).map_err(|error| wrong(error.to_string()))?;
    Ok(table)
}
