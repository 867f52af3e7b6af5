//! Reads TOML key by key: every key that is asked for becomes a known one; what is left when a
//! table is finished is an error that names the nearest. Every message names file and line.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use thermocline_units::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A configuration that cannot be used: where, what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError(String);

impl ConfigError {
    pub(super) fn new(message: impl Into<String>) -> ConfigError {
        ConfigError(message.into())
    }
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value, and the line it stands on.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) line: usize,
}

/// The text that is being read.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
}

impl File<'_> {
    fn line_of(&self, byte: usize) -> usize {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    pub(super) fn problem(&self, line: usize, problem: impl Display) -> ConfigError {
        ConfigError(format!("{}, line {line}: {problem}", self.path.display()))
    }
}

/// A table, and which of its keys were asked for.
pub(super) struct Keys<'a> {
    pub(super) file: File<'a>,
    /// Number of the line on which it begins.
    pub(super) line: usize,
    /// Name of the table, as it is written: `[nbd]`.
    name: String,
    table: DeTable<'a>,
    asked: Vec<&'static str>,
}

impl<'a> Keys<'a> {
    /// The top level, which messages call `name`.
    pub(super) fn parse(file: File<'a>, name: &str) -> Result<Keys<'a>, ConfigError> {
        match DeTable::parse(file.text) {
            Ok(table) => Ok(Keys {
                file,
                line: 1,
                name: name.to_string(),
                table: table.into_inner(),
                asked: Vec::new(),
            }),
            Err(error) => {
                let line = error.span().map_or(1, |span| file.line_of(span.start));
                Err(file.problem(line, error.message()))
            }
        }
    }

    /// Something wrong with this table as a whole.
    pub(super) fn problem(&self, problem: impl Display) -> ConfigError {
        self.file.problem(self.line, problem)
    }

    /// # Errors
    /// When a key was not asked for.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        let Some(key) = self.table.keys().next() else { return Ok(()) };
        let (name, known) = (key.get_ref(), self.asked.join(", "));
        let hint = match nearest(name, self.asked.iter().copied()) {
            Some(like) => format!("did you mean `{like}`?"),
            None => format!("known in {} are {known}", self.name),
        };
        let line = self.file.line_of(key.span().start);
        Err(self.file.problem(line, format!("unknown key `{name}`; {hint}")))
    }

    /// The table under `key`; an empty one when there is none.
    pub(super) fn table(&mut self, key: &'static str) -> Result<Keys<'a>, ConfigError> {
        let (file, line, name) = (self.file, self.line, format!("[{key}]"));
        let empty = || Keys { file, line, name, table: DeTable::new(), asked: Vec::new() };
        Ok(self.table_if_any(key)?.unwrap_or_else(empty))
    }

    /// The table under `key`, when there is one.
    pub(super) fn table_if_any(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Keys<'a>>, ConfigError> {
        let name = format!("[{key}]");
        let Some(value) = self.take(key) else { return Ok(None) };
        let line = self.line_of(&value);
        let DeValue::Table(table) = value.into_inner() else {
            return Err(self.file.problem(line, format!("`{key}` is a table: {name}")));
        };
        Ok(Some(Keys { file: self.file, line, name, table, asked: Vec::new() }))
    }

    /// The tables `[[key]]`, at least one.
    pub(super) fn tables(&mut self, key: &'static str) -> Result<Vec<Keys<'a>>, ConfigError> {
        let missing = self.problem(format!("there is no {key}; add a table [[{key}]]"));
        let tables = self.tables_if_any(key)?;
        if tables.is_empty() { Err(missing) } else { Ok(tables) }
    }

    /// The tables `[[key]]`; there may be none.
    pub(super) fn tables_if_any(
        &mut self,
        key: &'static str,
    ) -> Result<Vec<Keys<'a>>, ConfigError> {
        let name = format!("[[{key}]]");
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let line = self.line_of(&value);
        let wrong = |line| self.file.problem(line, format!("write {name}, in double brackets"));
        let DeValue::Array(items) = value.into_inner() else { return Err(wrong(line)) };
        let mut tables = Vec::new();
        for item in items {
            let line = self.line_of(&item);
            let DeValue::Table(table) = item.into_inner() else { return Err(wrong(line)) };
            let name = name.clone();
            tables.push(Keys { file: self.file, line, name, table, asked: Vec::new() });
        }
        Ok(tables)
    }

    /// Refuses a key that there was; `instead` says what to write for its value.
    pub(super) fn retired(
        &mut self,
        key: &'static str,
        instead: impl Fn(&str) -> String,
    ) -> Result<(), ConfigError> {
        let Some(value) = self.table.remove(key) else { return Ok(()) };
        let text = match value.get_ref() {
            DeValue::Integer(integer) => integer.as_str(),
            DeValue::String(text) => text,
            _ => "…",
        };
        let problem = format!("there is no key `{key}` any more; write {}", instead(text));
        Err(self.file.problem(self.line_of(&value), problem))
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<At<String>>, ConfigError> {
        self.value(key, "a text in quotes", |value| value.as_str().map(str::to_string))
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        let flag = self.value(key, "true or false", |value| value.as_bool())?;
        Ok(flag.map(|flag| flag.value))
    }

    pub(super) fn count(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ConfigError> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let count = self.value(key, &wanted, |value| {
            value.as_integer()?.as_str().parse().ok().filter(|count| range.contains(count))
        })?;
        Ok(count.map(|count| count.value))
    }

    /// A number, with or without a fraction.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        wanted: &str,
        fits: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, ConfigError> {
        let number = self.value(key, wanted, |value| {
            let text = match value {
                DeValue::Integer(integer) => integer.as_str(),
                DeValue::Float(float) => float.as_str(),
                _ => return None,
            };
            text.parse().ok().filter(|number| fits(*number))
        })?;
        Ok(number.map(|number| number.value))
    }

    /// A quantity written as a text: `"64KiB"`, `"5m"`.
    pub(super) fn quantity<T: FromStr>(
        &mut self,
        key: &'static str,
        wanted: &str,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Option<At<T>>, ConfigError> {
        self.value(key, wanted, |value| value.as_str()?.parse().ok().filter(|value| fits(value)))
    }

    /// A bandwidth, as bytes a second.
    pub(super) fn bandwidth(&mut self, key: &'static str) -> Result<Option<At<u64>>, ConfigError> {
        let wanted = "a bandwidth from 1kbps to 1000Gbps, such as \"1Gbps\"";
        self.value(key, wanted, |value| bandwidth(value.as_str()?))
    }

    /// A list of texts; empty when there is none.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Vec<At<String>>, ConfigError> {
        let Some(list) = self.take(key) else { return Ok(Vec::new()) };
        let wrong = |line| self.file.problem(line, format!("`{key}` is a list of texts: [\"…\"]"));
        let line = self.line_of(&list);
        let DeValue::Array(items) = list.into_inner() else { return Err(wrong(line)) };
        let texts = items.iter().map(|item| {
            let line = self.line_of(item);
            let text = item.get_ref().as_str().ok_or_else(|| wrong(line))?;
            Ok(At { value: text.to_string(), line })
        });
        texts.collect()
    }

    /// A list of whole numbers; empty when there is none.
    pub(super) fn counts(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u32>,
    ) -> Result<Vec<u32>, ConfigError> {
        let wanted = format!("a list of whole numbers from {} to {}", range.start(), range.end());
        let counts = self.value(key, &wanted, |value| {
            let items = value.as_array()?.iter();
            let count = |item: &Spanned<DeValue<'_>>| {
                let count = item.get_ref().as_integer()?.as_str().parse().ok();
                count.filter(|count| range.contains(count))
            };
            items.map(count).collect::<Option<Vec<u32>>>()
        })?;
        Ok(counts.map_or(Vec::new(), |counts| counts.value))
    }

    /// Keys that are left, as text whatever their kind: settings that somebody else declares.
    pub(super) fn rest(self) -> Result<Vec<(String, At<String>)>, ConfigError> {
        let mut rest = Vec::new();
        for (key, value) in &self.table {
            let line = self.file.line_of(key.span().start);
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(integer) => integer.as_str().to_string(),
                DeValue::Float(float) => float.as_str().to_string(),
                DeValue::Boolean(flag) => flag.to_string(),
                _ => {
                    let name = key.get_ref();
                    let wanted = format!("`{name}` is a number or a text in quotes");
                    return Err(self.file.problem(line, wanted));
                }
            };
            rest.push((key.get_ref().to_string(), At { value: text, line }));
        }
        Ok(rest)
    }

    fn value<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Result<Option<At<T>>, ConfigError> {
        let Some(found) = self.take(key) else { return Ok(None) };
        let line = self.line_of(&found);
        let wrong = || self.file.problem(line, format!("`{key}` must be {wanted}"));
        let value = read(found.get_ref()).ok_or_else(wrong)?;
        Ok(Some(At { value, line }))
    }

    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'a>>> {
        self.asked.push(key);
        self.table.remove(key)
    }

    fn line_of(&self, value: &Spanned<DeValue<'_>>) -> usize {
        self.file.line_of(value.span().start)
    }
}

/// Bytes a second of a text such as `200Mbps`.
fn bandwidth(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|sign: char| sign.is_ascii_alphabetic())?);
    let bits = match unit {
        "kbps" => 1e3,
        "Mbps" => 1e6,
        "Gbps" => 1e9,
        _ => return None,
    };
    let bits = number.trim().parse::<f64>().ok()? * bits;
    (1e3..=1e12).contains(&bits).then_some((bits / 8.0) as u64)
}
