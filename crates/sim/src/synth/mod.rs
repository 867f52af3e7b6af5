//! Synthetic workloads as text: the TOML of `--spec`, and the short form `mixed,vms=4,seed=1`.
//!
//! The TOML goes into the file of every trace that is made, so that the file says how it was made
//! and can be made again. Keys are those of [`thermocline_trace::synth::SynthSpec`], units stand in
//! the values; unknown keys are errors. Knows no command line.

mod written;

use std::str::FromStr;
use thermocline_trace::synth::presets::{PRESETS, Preset};
use thermocline_trace::synth::{SpecError, SynthSpec, check_vms};
use written::Written;

/// Requests made when nobody says how many.
pub const REQUESTS_DEFAULT: u64 = 1_000_000;
/// VMs made when nobody says how many.
pub const VMS_DEFAULT: usize = 4;
/// The seed when nobody gives one.
pub const SEED_DEFAULT: u64 = 1;

/// A text that describes no workload, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SynthTextError {
    /// Not the TOML of a workload.
    #[error("{0}")]
    Toml(String),
    /// No such preset.
    #[error("there is no preset `{word}`; there are {}", preset_names())]
    Preset {
        /// The word as written.
        word: String,
    },
    /// A setting of the short form that is none.
    #[error("`{0}` is not a setting of a made workload; write `mixed,requests=1M,vms=4,seed=1`")]
    Setting(String),
    /// The workload is impossible.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

fn preset_names() -> String {
    PRESETS.map(|preset| preset.name).join(", ")
}

/// A number of things: `250000`, `250k`, `1M`, `2.5G`; k, M and G are thousands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Count, String> {
        let wrong = || format!("`{text}` is not a number of things; write 250000, 250k or 1M");
        let number = text.trim_end_matches(['k', 'K', 'M', 'G']);
        let factor = match &text[number.len()..] {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            _ => return Err(wrong()),
        };
        let number = number.replace('_', "");
        if let (Ok(whole), 1.0) = (number.parse(), factor) {
            return Ok(Count(whole));
        }
        let value = number.parse::<f64>().map_err(|_| wrong())? * factor;
        // Beyond 2^53 a fraction of a million is no longer exact.
        if !(0.0..9e15).contains(&value) || value.fract() != 0.0 {
            return Err(wrong());
        }
        Ok(Count(value as u64))
    }
}

/// The workload of `preset`, of so many VMs and requests.
///
/// # Errors
/// When there is no such preset.
pub fn from_preset(
    preset: &str,
    vms: usize,
    requests: u64,
    seed: u64,
) -> Result<SynthSpec, SynthTextError> {
    let found =
        Preset::find(preset).ok_or_else(|| SynthTextError::Preset { word: preset.to_string() })?;
    // Before they are made: a number may be anything.
    check_vms(vms)?;
    let spec = SynthSpec { seed, requests, vms: found.vms(vms) };
    spec.check()?;
    Ok(spec)
}

/// Reads the short form: a preset's name and settings, `mixed,requests=1M,vms=4,seed=1`.
///
/// # Errors
/// Names the word that is not understood.
pub fn from_words(text: &str) -> Result<SynthSpec, SynthTextError> {
    let mut words = text.split(',');
    let preset = words.next().unwrap_or_default();
    let (mut requests, mut vms, mut seed) =
        (Count(REQUESTS_DEFAULT), Count(VMS_DEFAULT as u64), SEED_DEFAULT);
    for word in words {
        let wrong = || SynthTextError::Setting(word.to_string());
        let (key, value) = word.split_once('=').ok_or_else(wrong)?;
        match key {
            "requests" => requests = value.parse().map_err(|_| wrong())?,
            "vms" => vms = value.parse().map_err(|_| wrong())?,
            "seed" => seed = value.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        }
    }
    let vms = usize::try_from(vms.0).unwrap_or(usize::MAX);
    from_preset(preset, vms, requests.0, seed)
}

/// Reads a workload from TOML.
///
/// # Errors
/// Names the line and the key that is wrong, and what was expected.
pub fn from_toml(text: &str) -> Result<SynthSpec, SynthTextError> {
    let written: Written =
        toml::from_str(text).map_err(|error| SynthTextError::Toml(error.to_string()))?;
    let spec = written.read()?;
    spec.check()?;
    Ok(spec)
}

/// Writes a workload as TOML that [`from_toml`] reads back to the same requests.
///
/// # Panics
/// When the workload breaks a bound of [`SynthSpec::check`].
pub fn to_toml(spec: &SynthSpec) -> String {
    toml::to_string(&Written::of(spec)).expect("a checked workload is tables, texts and numbers")
}

#[cfg(test)]
mod tests;
