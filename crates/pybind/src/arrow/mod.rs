//! Columns for Python by the Arrow PyCapsule interface (Apache Arrow, The Arrow C data interface
//! and The Arrow C stream interface, 2020 to 2023): what fills them, and how they are named.
//!
//! Buffers are filled once and then belong to whoever takes them: nothing is copied on the way.
//! Does not read what others hand over.

mod ffi;

pub(crate) use ffi::Stream;

use thermocline_sim::table::Column;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 64-bit integers.
    Integer,
    /// 64-bit floating-point numbers.
    Number,
    /// Booleans.
    Flag,
    /// UTF-8, with 32-bit offsets.
    Text,
}

/// A column's name and type.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
}

/// Bits, the lowest of a byte first.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    bytes: Vec<u8>,
    length: usize,
    zeroes: usize,
}

impl Bits {
    pub(crate) fn push(&mut self, bit: bool) {
        if self.length.is_multiple_of(8) {
            self.bytes.push(0);
        }
        let last = self.bytes.last_mut().expect("a byte was just made sure of");
        *last |= u8::from(bit) << (self.length % 8);
        self.length += 1;
        self.zeroes += usize::from(!bit);
    }
}

/// Texts, end to end.
#[derive(Debug)]
pub(crate) struct Texts {
    /// Beginning of each, and the end of the last.
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts { ends: vec![0], bytes: Vec::new() }
    }
}

impl Texts {
    /// Adds a text; `None` when more than 2 GiB would be in one column.
    pub(crate) fn push(&mut self, text: &str) -> Option<()> {
        let end = i32::try_from(self.bytes.len() + text.len()).ok()?;
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(end);
        Some(())
    }
}

/// Values of one column.
#[derive(Debug)]
pub(crate) enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Flags(Bits),
    Texts(Texts),
}

/// Values of one column of a batch, and which of them are known.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) values: Values,
    /// `None` where all are.
    pub(crate) known: Option<Bits>,
}

impl Filled {
    /// Values that are all known.
    pub(crate) fn all(values: Values) -> Filled {
        Filled { values, known: None }
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::Integers(values) => values.len(),
            Values::Numbers(values) => values.len(),
            Values::Flags(bits) => bits.length,
            Values::Texts(texts) => texts.ends.len() - 1,
        }
    }

    fn unknown(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.zeroes)
    }
}

/// A source of batches with the same columns.
pub(crate) trait Batches: Send {
    /// The columns.
    fn fields(&self) -> Vec<Field>;

    /// The next batch, a [`Filled`] a field; `None` at the end.
    ///
    /// # Errors
    /// A message; nothing more is asked for after it.
    fn next_batch(&mut self) -> Result<Option<Vec<Filled>>, String>;
}

/// A table of results, which is one batch.
pub(crate) struct Once {
    fields: Vec<Field>,
    filled: Option<Vec<Filled>>,
}

impl Once {
    pub(crate) fn new(columns: &[(String, Column)]) -> Once {
        let (mut fields, mut all) = (Vec::new(), Vec::new());
        for (name, column) in columns {
            let (kind, filled) = filled(column);
            fields.push(Field { name: name.clone(), kind, nullable: filled.known.is_some() });
            all.push(filled);
        }
        Once { fields, filled: Some(all) }
    }
}

impl Batches for Once {
    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn next_batch(&mut self) -> Result<Option<Vec<Filled>>, String> {
        Ok(self.filled.take())
    }
}

fn filled(column: &Column) -> (Kind, Filled) {
    match column {
        Column::Text(texts) => {
            let mut filled = Texts::default();
            for text in texts {
                filled.push(text).expect("results are far below 2 GiB");
            }
            (Kind::Text, Filled::all(Values::Texts(filled)))
        }
        Column::Count(counts) => {
            let integer = |count: &u64| i64::try_from(*count).unwrap_or(i64::MAX);
            let integers = counts.iter().map(integer).collect();
            (Kind::Integer, Filled::all(Values::Integers(integers)))
        }
        Column::Number(numbers) => {
            let mut known = Bits::default();
            numbers.iter().for_each(|number| known.push(number.is_some()));
            let values = numbers.iter().map(|number| number.unwrap_or(0.0)).collect();
            (Kind::Number, Filled { values: Values::Numbers(values), known: Some(known) })
        }
        Column::Flag(flags) => {
            let mut bits = Bits::default();
            flags.iter().for_each(|flag| bits.push(*flag));
            (Kind::Flag, Filled::all(Values::Flags(bits)))
        }
    }
}
