//! Reads a profile's TOML key by key: units in the values, ranges checked, unknown keys refused.
//!
//! Every key that is asked for becomes a known key; what is left when a table is finished is an
//! error that names the nearest known one. Messages name the line.

use super::spread::Spread;
use std::fmt::Display;
use std::ops::RangeInclusive;
use thermocline_units::{Bytes, Nanos, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Rates, in 10⁶ bytes per second.
const MB_PER_S: RangeInclusive<f64> = 0.001..=1e6;

/// A profile that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct ProfileError {
    /// The file's or the profile's name, with the line where there is one.
    pub origin: String,
    /// The fault, and what to do.
    pub problem: String,
}

impl ProfileError {
    pub(super) fn unknown(name: &str, like: Option<&str>) -> ProfileError {
        let hint = like.map_or_else(String::new, |like| format!("; did you mean `{like}`?"));
        ProfileError {
            origin: format!("device profile `{name}`"),
            problem: format!("there is no such built-in profile{hint}"),
        }
    }
}

/// Longest time a field may give.
const TIME_MAX: Nanos = Nanos::from_secs(3600);

/// A table of a profile, and which of its keys were asked for.
pub(super) struct Keys<'a> {
    text: &'a str,
    origin: &'a str,
    line: usize,
    table: DeTable<'a>,
    asked: Vec<String>,
}

impl<'a> Keys<'a> {
    /// The top level of `text`.
    pub(super) fn parse(text: &'a str, origin: &'a str) -> Result<Keys<'a>, ProfileError> {
        match DeTable::parse(text) {
            Ok(table) => {
                Ok(Keys { text, origin, line: 1, table: table.into_inner(), asked: Vec::new() })
            }
            Err(error) => Err(ProfileError {
                origin: origin.to_string(),
                problem: error.to_string().trim_end().to_string(),
            }),
        }
    }

    /// Something wrong with this table as a whole.
    pub(super) fn problem(&self, problem: impl Display) -> ProfileError {
        self.problem_in(self.line, problem)
    }

    fn problem_in(&self, line: usize, problem: impl Display) -> ProfileError {
        let origin = format!("{}, line {line}", self.origin);
        ProfileError { origin, problem: problem.to_string() }
    }

    /// # Errors
    /// When a key was not asked for.
    pub(super) fn finish(&self) -> Result<(), ProfileError> {
        let Some(key) = self.table.keys().next() else { return Ok(()) };
        let line = self.line_of(key.span().start);
        let name = key.get_ref();
        let like = nearest(name, self.asked.iter().map(String::as_str));
        Err(match like {
            Some(like) => {
                self.problem_in(line, format!("unknown key `{name}`; did you mean `{like}`?"))
            }
            None => {
                let known = self.asked.join(", ");
                self.problem_in(line, format!("unknown key `{name}`; known here are {known}"))
            }
        })
    }

    pub(super) fn table_if_any(&mut self, key: &str) -> Result<Option<Keys<'a>>, ProfileError> {
        let Some(value) = self.take_if_any(key) else { return Ok(None) };
        let line = self.line_of(value.span().start);
        match value.into_inner() {
            DeValue::Table(table) => Ok(Some(Keys {
                text: self.text,
                origin: self.origin,
                line,
                table,
                asked: Vec::new(),
            })),
            _ => Err(self.problem_in(line, format!("`{key}` must be a table: [{key}]"))),
        }
    }

    pub(super) fn table(&mut self, key: &str) -> Result<Keys<'a>, ProfileError> {
        let missing = self.problem(format!("the table `{key}` is missing"));
        self.table_if_any(key)?.ok_or(missing)
    }

    pub(super) fn text(&mut self, key: &str) -> Result<String, ProfileError> {
        self.value(key, "a text in quotes", |value| value.as_str().map(str::to_string))
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<bool, ProfileError> {
        self.value(key, "true or false", |value| value.as_bool())
    }

    pub(super) fn count(
        &mut self,
        key: &str,
        range: RangeInclusive<u32>,
    ) -> Result<u32, ProfileError> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        self.value(key, &wanted, |value| {
            value.as_integer()?.as_str().parse().ok().filter(|count| range.contains(count))
        })
    }

    pub(super) fn number(
        &mut self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<f64, ProfileError> {
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        self.value(key, &wanted, |value| as_number(value).filter(|n| range.contains(n)))
    }

    /// A number that may be left out.
    pub(super) fn number_if_any(
        &mut self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ProfileError> {
        if self.table.contains_key(key) {
            return self.number(key, range).map(Some);
        }
        self.asked.push(key.to_string());
        Ok(None)
    }

    /// 10⁶ bytes per second, as data sheets say; at most 10⁶ of them.
    pub(super) fn rate(&mut self, key: &str) -> Result<u64, ProfileError> {
        self.number(key, MB_PER_S).map(to_bytes_per_s)
    }

    /// The same, where it may be left out.
    pub(super) fn rate_if_any(&mut self, key: &str) -> Result<Option<u64>, ProfileError> {
        let mb_per_s = self.number_if_any(key, MB_PER_S)?;
        Ok(mb_per_s.map(to_bytes_per_s))
    }

    pub(super) fn bytes(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Bytes, ProfileError> {
        let (low, high) = (Bytes(*range.start()), Bytes(*range.end()));
        let wanted = format!("whole sectors, written like \"64KiB\", from {low} to {high}");
        self.value(key, &wanted, |value| {
            let bytes: Bytes = value.as_str()?.parse().ok()?;
            (range.contains(&bytes.0) && bytes.0.is_multiple_of(512)).then_some(bytes)
        })
    }

    pub(super) fn time(&mut self, key: &str) -> Result<Nanos, ProfileError> {
        let wanted = format!("a time, written like \"8.9us\" or \"4ms\", up to {TIME_MAX}");
        self.value(key, &wanted, |value| {
            value.as_str()?.parse().ok().filter(|&time| time <= TIME_MAX)
        })
    }

    /// `[[share, factor], …]`: shares rise from 0 to 1, factors do not fall.
    pub(super) fn spread(&mut self, key: &str) -> Result<Spread, ProfileError> {
        let wanted = "pairs [share, factor]: shares rise from 0 to 1, factors, from 0.01 to \
                      1000, do not fall";
        self.value(key, wanted, |value| {
            let pairs = value.as_array()?.iter().map(|pair| {
                let pair = pair.get_ref().as_array()?;
                let number =
                    |i| pair.get(i).and_then(|v: &Spanned<DeValue>| as_number(v.get_ref()));
                (pair.len() == 2).then_some((number(0)?, number(1)?))
            });
            Spread::new(pairs.collect::<Option<Vec<_>>>()?)
        })
    }

    fn value<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&DeValue) -> Option<T>,
    ) -> Result<T, ProfileError> {
        let Some(value) = self.take_if_any(key) else {
            return Err(self.problem(format!("`{key}` is missing; it is {wanted}")));
        };
        let line = self.line_of(value.span().start);
        let wrong = || self.problem_in(line, format!("`{key}` must be {wanted}"));
        read(value.get_ref()).ok_or_else(wrong)
    }

    fn take_if_any(&mut self, key: &str) -> Option<Spanned<DeValue<'a>>> {
        self.asked.push(key.to_string());
        self.table.remove(key)
    }

    fn line_of(&self, byte: usize) -> usize {
        1 + self.text.as_bytes()[..byte].iter().filter(|&&b| b == b'\n').count()
    }
}

fn to_bytes_per_s(mb_per_s: f64) -> u64 {
    (mb_per_s * 1e6).round() as u64
}

fn as_number(value: &DeValue) -> Option<f64> {
    let text = match value {
        DeValue::Float(float) => float.as_str(),
        DeValue::Integer(integer) => integer.as_str(),
        _ => return None,
    };
    text.parse().ok()
}
