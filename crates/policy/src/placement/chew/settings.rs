//! Settings of `chew` and `chew-pp`: thresholds, weights, a library of one's own, and how cases are
//! accepted.

use super::library::{Library, Thresholds};
use crate::registry::{Setting, Settings, SettingsError};
use thermocline_units::Bytes;

pub(super) const TOP: Setting = Setting {
    name: "top",
    default: "300",
    unit: "units of 512 B a second",
    help: "intensity, and weight, from which on a chunk is intense",
};
pub(super) const LOW: Setting = Setting {
    name: "low",
    default: "10",
    unit: "units of 512 B a second",
    help: "intensity, and weight, below which a chunk belongs on the slowest pool",
};
pub(super) const VERY: Setting = Setting {
    name: "very-intense",
    default: "500",
    unit: "weight",
    help: "weight from which on reads, too, belong on the fastest pool",
};
pub(super) const WRITE: Setting = Setting {
    name: "write",
    default: "2",
    unit: "reads, or measured",
    help: "what a write weighs; measured: as the profile of the pool in the middle says",
};
pub(super) const RANDOM: Setting = Setting {
    name: "random",
    default: "2",
    unit: "sequential accesses, or measured",
    help: "what a random access weighs; measured: as the profile of the pool in the middle says",
};
pub(super) const WEAR: Setting = Setting {
    name: "wear",
    default: "1",
    unit: "factor",
    help: "by which a measured weight of writes is raised where the pool in the middle wears (w0)",
};
pub(super) const OVERWRITE: Setting = Setting {
    name: "overwrite",
    default: "2",
    unit: "other writes",
    help: "what writing again in the same epoch weighs",
};
pub(super) const PEAK: Setting = Setting {
    name: "peak",
    default: "1",
    unit: "fraction of a pool's time",
    help: "how busy chunks may make a pool",
};
pub(super) const ACCEPT: Setting = Setting {
    name: "accept",
    default: "chunk",
    unit: "chunk or group",
    help: "whether each chunk, or only all of a pattern together, get their pool",
};
pub(super) const DEMOTE: Setting = Setting {
    name: "demote",
    default: "needed",
    unit: "needed or always",
    help: "when chunks that belong on a slower pool go there",
};

/// Size of the source's chunks (Ge 2017 §3.3.1). Where I/Os are spread evenly, a smaller chunk has
/// fewer of them in proportion.
pub(super) const OF: Setting = Setting {
    name: "of",
    default: "256MiB",
    unit: "bytes, or none",
    help: "size of the chunks that top, low and very-intense are for; they are scaled to others",
};

pub(super) const LIBRARY: Setting = Setting {
    name: "library",
    default: CASE_STUDY,
    unit: "three-pools or a TOML file",
    help: "taxonomy, thresholds and pools by pattern; top, low, weights are those of three-pools",
};
/// Value of a weight that the pools tell.
const MEASURED: &str = "measured";
/// The library whose thresholds and weights are settings.
pub(super) const CASE_STUDY: &str = "three-pools";

/// Options beside its library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The share of a pool's time that chunks may take, above 0.
    pub peak: f64,
    /// Rule by which a pattern's chunks get their pool: all together or not at all, or one by one.
    pub accept: Accept,
    /// Time at which chunks go to a slower pool.
    pub demote: Demote,
    /// Size of the chunks that the library's intensities are for; `None`: of whatever size.
    pub of: Option<Bytes>,
    /// Weights that pools tell.
    pub measured: Measured,
}

/// Weights that are read off a pool's traits in place of the library's (Ge 2017 §3.4.3, weight
/// measurement).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measured {
    /// The weight of writes, times this factor where the pool wears (w0, eq. 3.2), at least 1;
    /// `None`: it is the library's.
    pub write: Option<f64>,
    /// The weight of random accesses.
    pub random: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            peak: 1.0,
            accept: Accept::Chunk,
            demote: Demote::Needed,
            of: None,
            measured: Measured::default(),
        }
    }
}

/// Rule for the chunks that a pool accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// Each chunk that fits.
    Chunk,
    /// All chunks of a pattern, if they fit together.
    Group,
}

/// Time at which chunks go to a slower pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demote {
    /// Only once a better one needs their place.
    Needed,
    /// Always: as soon as they belong there.
    Always,
}

/// Reads the settings of an entry.
///
/// # Errors
/// When one of them does not fit.
pub(super) fn read(settings: &Settings) -> Result<(Library, Options), SettingsError> {
    let library = library_from(settings)?;
    let options = Options {
        peak: settings.number("peak", 1e-6, 100.0)?,
        accept: [Accept::Chunk, Accept::Group][settings.choice("accept", &["chunk", "group"])?],
        demote: [Demote::Needed, Demote::Always]
            [settings.choice("demote", &["needed", "always"])?],
        of: None,
        measured: measured_from(settings)?,
    };
    Ok((library, options))
}

/// Size of the chunks that the thresholds are for. A library of one's own has thresholds for the
/// chunks that it was made for.
///
/// # Errors
/// When it is no size, or stands beside a library of one's own.
pub(super) fn scaled_from(settings: &Settings) -> Result<Option<Bytes>, SettingsError> {
    let text = settings.text(OF.name);
    if settings.text(LIBRARY.name) != CASE_STUDY {
        stands_alone(settings, &[OF])?;
        return Ok(None);
    }
    if text == "none" {
        return Ok(None);
    }
    let size = text.parse::<Bytes>().ok().filter(|size| size.0 > 0);
    let wrong = || settings.wrong(OF.name, "a size above 0, such as 256MiB, or none".to_string());
    size.map(Some).ok_or_else(wrong)
}

/// Weights that are not numbers but measured.
fn measured_from(settings: &Settings) -> Result<Measured, SettingsError> {
    let measured = |setting: Setting| settings.text(setting.name) == MEASURED;
    let wear = settings.number(WEAR.name, 1.0, 1e6)?;
    if !measured(WRITE) && settings.text(WEAR.name) != WEAR.default {
        let expected = "1 where the weight of writes is not measured".to_string();
        return Err(settings.wrong(WEAR.name, expected));
    }
    Ok(Measured { write: measured(WRITE).then_some(wear), random: measured(RANDOM) })
}

/// # Errors
/// When one of these settings is given beside a library of one's own.
fn stands_alone(settings: &Settings, these: &[Setting]) -> Result<(), SettingsError> {
    let given = these.iter().find(|setting| settings.text(setting.name) != setting.default);
    let expected = "nothing beside a library of one's own, in which it stands";
    given.map_or(Ok(()), |setting| Err(settings.wrong(setting.name, expected.to_string())))
}

/// The library that the settings name, or spell out.
fn library_from(settings: &Settings) -> Result<Library, SettingsError> {
    let own = settings.text("library");
    if own != CASE_STUDY {
        stands_alone(settings, &[TOP, LOW, VERY, WRITE, RANDOM, OVERWRITE])?;
        return Library::parse(own).map_err(|error| {
            let value = own.split('{').next().unwrap_or_default().to_string();
            let expected = format!("three-pools or a library; {}", error.problem);
            SettingsError::Value { key: "library".to_string(), value, expected }
        });
    }
    let threshold = |key| settings.number(key, 0.0, 1e12);
    let case_study = Library::three_pools(Thresholds::default());
    // What is measured begins as the case study has it, until there is a pool to read.
    let weight = |setting: Setting, begins: f64| match settings.text(setting.name) {
        MEASURED => Ok(begins),
        _ => settings.number(setting.name, 1.0, 1e6),
    };
    let thresholds = Thresholds {
        low: threshold("low")?,
        top: threshold("top")?,
        very_intense: threshold("very-intense")?,
    };
    Ok(Library {
        write: weight(WRITE, case_study.write)?,
        random: weight(RANDOM, case_study.random)?,
        overwrite: settings.number(OVERWRITE.name, 1.0, 1e6)?,
        ..Library::three_pools(thresholds)
    })
}
