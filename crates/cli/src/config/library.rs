//! ChewAnalyzer's library as a TOML file: read, printed, and put into a policy's settings.
//!
//! A policy's settings carry a library as one line (`Library::spelled_out`), so that a recording
//! and an engine need no file. Whoever takes a policy from a user calls [`policy`] first: a file
//! that it names gives way to what is in it. Nothing else in the program knows the TOML form.

use super::keys::{ConfigError, File, Keys};
use std::fmt::Write;
use std::path::Path;
use thermocline_policy::placement::chew::library::{
    Dimension, Level, Library, LibraryError, Range, Rule, Tier, WEIGHTS, When,
};
use thermocline_policy::registry::{Entry, PolicySpec, find};
use thermocline_units::Bytes;

/// The setting that names one, and the value that is none.
const SETTING: &str = "library";
const BUILT_IN: &str = "three-pools";

/// Bytes of a file, at most: a hundred times what a recording holds.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The policy that a command line names, of the registry or of a shared library; files are found
/// from where the program was started.
///
/// # Errors
/// When there is no such policy, or a library cannot be read. The message says what would do.
pub(crate) fn policy(text: &str) -> Result<PolicySpec, String> {
    if let Some(plug_in) = thermocline_plugins::policy(text) {
        return plug_in;
    }
    PolicySpec::parse(&inlined(text)?).map_err(|error| error.to_string())
}

/// The placement that a command line names, for an engine: one that it can keep, and replay.
///
/// # Errors
/// Those of [`policy`], and when it is no placement, or one of a shared library.
pub(crate) fn engine_placement(text: &str) -> Result<PolicySpec, String> {
    let spec = policy(text)?;
    if spec.is_foreign() {
        return Err(format!(
            "`{text}`: an engine takes no placements of shared libraries; `lab volume` runs them"
        ));
    }
    spec.build_placement().map_err(|error| error.to_string())?;
    Ok(spec)
}

/// A policy's text with its library, if that is a file, spelled out.
///
/// # Errors
/// When the library cannot be read.
pub(crate) fn inlined(text: &str) -> Result<String, String> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let Some(entry) = find(name.trim()) else { return Ok(text.to_string()) };
    let mut out = name.to_string();
    for part in parts {
        match part.split_once('=') {
            Some((key, given)) => {
                let given = value(entry, key.trim(), given.trim(), Path::new(""));
                let _ = write!(out, ":{key}={}", given.map_err(|error| error.to_string())?);
            }
            None => {
                let _ = write!(out, ":{part}");
            }
        }
    }
    Ok(out)
}

/// Value of a setting: the file's contents for a library, else the text as written.
///
/// # Errors
/// When the library cannot be read.
pub(super) fn value(
    entry: &Entry,
    key: &str,
    written: &str,
    beside: &Path,
) -> Result<String, ConfigError> {
    let declared = entry.settings.iter().any(|setting| setting.name == SETTING);
    if key != SETTING || !declared || written == BUILT_IN || written.contains('{') {
        return Ok(written.to_string());
    }
    Ok(load(&beside.join(written))?.spelled_out())
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, or is no library. The message names file and line.
pub(crate) fn load(path: &Path) -> Result<Library, ConfigError> {
    let name = path.display();
    let wrong = |error: std::io::Error| {
        ConfigError::new(format!(
            "{name}: {error}; `thermocline policies library` prints a library to begin with"
        ))
    };
    let bytes = std::fs::metadata(path).map_err(wrong)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(ConfigError::new(format!("{name}: {bytes} B are too many for a library")));
    }
    read(&std::fs::read_to_string(path).map_err(wrong)?, path)
}

/// Reads `text`; `path` is what messages call it.
pub(super) fn read(text: &str, path: &Path) -> Result<Library, ConfigError> {
    let file = File { text, path };
    let mut keys = Keys::parse(file, "a library")?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    let name = keys.text("name")?.map_or(stem, |name| name.value);
    let wanted = "the size of a unit of requests, such as \"512B\"";
    let unit = keys.quantity("unit", wanted, |unit: &Bytes| unit.0 > 0)?;
    let unit = unit.ok_or_else(|| keys.problem(format!("`unit` is missing: {wanted}")))?.value;
    let mut weights = keys.table("weights")?;
    let mut weight = |key| {
        let wanted = "a number from 1 to 1000000: what one of them weighs in others";
        Ok::<_, ConfigError>(
            weights.number(key, wanted, |weight| WEIGHTS.contains(&weight))?.unwrap_or(1.0),
        )
    };
    let (write, random, overwrite) = (weight("write")?, weight("random")?, weight("overwrite")?);
    weights.finish()?;
    let mut lines = Vec::new();
    let mut levels = Vec::new();
    for table in keys.tables("level")? {
        let line = table.line;
        let (level, rule_lines) = level(table)?;
        levels.push(level);
        lines.push((line, rule_lines));
    }
    keys.finish()?;
    let library = Library { name, unit, write, random, overwrite, levels };
    let line = |error: &LibraryError| {
        let (level, rules) = lines.get(error.level?)?;
        Some(error.rule.and_then(|rule| rules.get(rule)).copied().unwrap_or(*level))
    };
    library.check().map_err(|error| file.problem(line(&error).unwrap_or(1), error.problem))?;
    Ok(library)
}

/// A level, and the lines on which its rules begin.
fn level(mut keys: Keys<'_>) -> Result<(Level, Vec<usize>), ConfigError> {
    let missing = keys.problem("this level has no `name`; it is shown with its verdicts");
    let name = keys.text("name")?.ok_or(missing)?.value;
    let known = Dimension::ALL.map(Dimension::key).join(", ");
    let missing = keys.problem(format!("this level has no `weight`; it is one of {known}"));
    let weight = keys.text("weight")?.ok_or(missing)?;
    let found = Dimension::ALL.into_iter().find(|dimension| dimension.key() == weight.value);
    let weight = found.ok_or_else(|| {
        let given = &weight.value;
        keys.file.problem(weight.line, format!("`weight` is `{given}`; it is one of {known}"))
    })?;
    let (mut rules, mut lines) = (Vec::new(), Vec::new());
    for table in keys.tables("rule")? {
        lines.push(table.line);
        rules.push(rule(table)?);
    }
    keys.finish()?;
    Ok((Level { name, weight, rules }, lines))
}

fn rule(mut keys: Keys<'_>) -> Result<Rule, ConfigError> {
    let missing = keys.problem("this rule has no `pattern`: what chunks that fit it are called");
    let pattern = keys.text("pattern")?.ok_or(missing)?.value;
    let known = Tier::ALL.map(Tier::key).join(", ");
    let mut pools = Vec::new();
    for pool in keys.texts("pools")? {
        let tier = Tier::ALL.into_iter().find(|tier| tier.key() == pool.value);
        pools.push(tier.ok_or_else(|| {
            let given = &pool.value;
            keys.file.problem(pool.line, format!("a pool `{given}`; those are {known}"))
        })?);
    }
    let mut when = When::ALWAYS;
    for key in When::KEYS {
        if let Some(table) = keys.table_if_any(key)? {
            *when.range_mut(key).expect("it is one of its keys") = range(table)?;
        }
    }
    keys.finish()?;
    Ok(Rule { pattern, when, pools })
}

fn range(mut keys: Keys<'_>) -> Result<Range, ConfigError> {
    let mut bound = |key| keys.number(key, "a number", f64::is_finite);
    let (from, above, below) = (bound("from")?, bound("above")?, bound("below")?);
    let from = match (from, above) {
        (Some(_), Some(_)) => {
            return Err(keys.problem("`from` takes its number in, `above` does not; write one"));
        }
        (from, above) => from.or(above.map(f64::next_up)),
    };
    keys.finish()?;
    Ok(Range { from: from.unwrap_or(Range::ANY.from), to: below.unwrap_or(Range::ANY.to) })
}

const HEAD: &str = "\
# ChewAnalyzer's taxonomy, thresholds and pattern-to-pool library.
#
# Edit a copy and name it: thermocline lab volume … --policy chew:library=mine.toml
# On each level the first rule that a chunk fits names its pattern, and the pools for that. The
# chunk gets the first of them if it has space and time left, else the next level decides; on the
# last level the other pools are tried, too. A level ends with a rule that always fits.

# What it is called in tables; the file's name when it is not given.
";
const UNIT: &str = "
# Requests are counted in units of this size; intensity is units a second, of a chunk.
";
const WEIGHTS_HEAD: &str = "
# What a write weighs in reads, a random access in sequential ones, an overwrite in other writes.
[weights]
";
const LEVELS: &str = "
# A level's `weight` takes dimensions in up to that one: intensity, write, random, overwrite.
# A rule may ask for ranges of intensity (units a second), of the level's weight, and of the shares
# (0 to 1) of writes among bytes, of random ones among accesses, of overwritten among writes:
#   { from = 10, below = 300 }   takes 10 in, not 300
#   { above = 0.5 }              does not take 0.5 in
# Pools are fastest, slowest, and middle: those between, in order; of two pools the first.
";

/// A library as a file that [`load`] reads, with comments for who edits it.
pub(crate) fn text(library: &Library) -> String {
    let Library { name, unit, write, random, overwrite, levels } = library;
    let mut out = format!("{HEAD}name = {}\n{UNIT}unit = \"{}B\"\n", quoted(name), unit.0);
    let _ = write!(
        out,
        "{WEIGHTS_HEAD}write = {write}\nrandom = {random}\noverwrite = {overwrite}\n{LEVELS}"
    );
    for level in levels {
        let (name, weight) = (quoted(&level.name), level.weight.key());
        let _ = write!(out, "\n[[level]]\nname = {name}\nweight = \"{weight}\"\n");
        for rule in &level.rules {
            let _ = write!(out, "\n[[level.rule]]\npattern = {}\n", quoted(&rule.pattern));
            for (key, range) in rule.when.ranges() {
                if range != Range::ANY {
                    let _ = writeln!(out, "{key} = {{ {} }}", bounds(range));
                }
            }
            let pools: Vec<_> = rule.pools.iter().map(|tier| quoted(tier.key())).collect();
            let _ = writeln!(out, "pools = [{}]", pools.join(", "));
        }
    }
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn bounds(range: Range) -> String {
    let mut bounds = Vec::new();
    if range.from.is_finite() {
        let (from, above) = (range.from.to_string(), range.from.next_down().to_string());
        bounds.push(match above.len() < from.len() {
            true => format!("above = {above}"),
            false => format!("from = {from}"),
        });
    }
    if range.to.is_finite() {
        bounds.push(format!("below = {}", range.to));
    }
    bounds.join(", ")
}

#[cfg(test)]
mod tests;
