//! A library as one line of text, so that a policy's settings can carry it: into a recording, to an
//! engine, back again.
//!
//! ```text
//! NAME{UNIT;WRITE;RANDOM;OVERWRITE|LEVEL|LEVEL…}
//! LEVEL: NAME@DIMENSION;RULE;RULE…
//! RULE:  PATTERN[QUANTITY=FROM..BELOW&…]TIER>TIER…      a bound that is missing is none
//! ```
//!
//! Numbers are written so that they are read back exactly. None of `:`, `+` and `,` occurs, which
//! separate policies and their settings. It is not for people to write: they have TOML.

use super::library::{
    Dimension, LEVELS_MAX, Level, Library, LibraryError, NAME_FORBIDDEN, Range, Rule, Tier, When,
};
use std::fmt::Write;
use thermocline_units::Bytes;

impl Library {
    /// All of it as one line that [`Library::parse`] takes.
    pub fn spelled_out(&self) -> String {
        let Library { name, unit, write, random, overwrite, levels } = self;
        let mut out = format!("{name}{{{};{write};{random};{overwrite}", unit.0);
        for level in levels {
            let _ = write!(out, "|{}@{}", level.name, level.weight.key());
            for rule in &level.rules {
                let pools: Vec<&str> = rule.pools.iter().map(|tier| tier.key()).collect();
                let ranges: Vec<String> = rule
                    .when
                    .ranges()
                    .iter()
                    .filter_map(|(key, range)| range_of(key, *range))
                    .collect();
                let _ = write!(out, ";{}[{}]{}", rule.pattern, ranges.join("&"), pools.join(">"));
            }
        }
        out.push('}');
        out
    }

    /// A library from the line that [`Library::spelled_out`] gave.
    ///
    /// # Errors
    /// When it is no such line, or the library cannot be used.
    pub fn parse(text: &str) -> Result<Library, LibraryError> {
        let library = read(text).ok_or_else(|| {
            LibraryError::whole(
                "name a TOML file, such as `thermocline policies library` prints".to_string(),
            )
        })?;
        library.check()?;
        Ok(library)
    }
}

fn range_of(key: &str, range: Range) -> Option<String> {
    let bound = |bound: f64| if bound.is_finite() { bound.to_string() } else { String::new() };
    (range != Range::ANY).then(|| format!("{key}={}..{}", bound(range.from), bound(range.to)))
}

fn read(text: &str) -> Option<Library> {
    let (name, rest) = text.split_once('{')?;
    let mut parts = rest.strip_suffix('}')?.split('|');
    let head: Vec<&str> = parts.next()?.split(';').collect();
    let [unit, write, random, overwrite] = head[..] else { return None };
    let levels = parts.map(level).take(LEVELS_MAX + 1).collect::<Option<_>>()?;
    Some(Library {
        name: named(name)?,
        unit: Bytes(unit.parse().ok()?),
        write: write.parse().ok()?,
        random: random.parse().ok()?,
        overwrite: overwrite.parse().ok()?,
        levels,
    })
}

fn level(text: &str) -> Option<Level> {
    let mut parts = text.split(';');
    let (name, weight) = parts.next()?.split_once('@')?;
    let weight = Dimension::ALL.into_iter().find(|dimension| dimension.key() == weight)?;
    Some(Level { name: named(name)?, weight, rules: parts.map(rule).collect::<Option<_>>()? })
}

fn rule(text: &str) -> Option<Rule> {
    let (pattern, rest) = text.split_once('[')?;
    let (ranges, pools) = rest.split_once(']')?;
    let mut when = When::ALWAYS;
    for part in ranges.split('&').filter(|part| !part.is_empty()) {
        let (key, bounds) = part.split_once('=')?;
        let (from, to) = bounds.split_once("..")?;
        let range = when.range_mut(key)?;
        let bound = |text: &str, none: f64| match text {
            "" => Some(none),
            text => text.parse().ok().filter(|bound: &f64| bound.is_finite()),
        };
        *range = Range { from: bound(from, Range::ANY.from)?, to: bound(to, Range::ANY.to)? };
    }
    let tier = |key: &str| Tier::ALL.into_iter().find(|tier| tier.key() == key);
    let pools = pools.split('>').filter(|key| !key.is_empty()).map(tier).collect::<Option<_>>()?;
    Some(Rule { pattern: named(pattern)?, when, pools })
}

fn named(name: &str) -> Option<String> {
    (!name.contains(NAME_FORBIDDEN)).then(|| name.to_string())
}
