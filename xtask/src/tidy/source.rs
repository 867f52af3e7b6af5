//! A Rust file as tidy sees it: its text, and its code with comments and literals blanked out.
//!
//! Not a parser. The blanked code keeps every line and column, so that a word found in it is a word
//! of the program and a brace is a brace. Macros are seen as they are written, not expanded.

/// A Rust file.
pub(super) struct Source<'a> {
    /// Relative to the root, with `/`.
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    /// `text` with comments, strings and characters blanked; same length in bytes.
    pub(super) code: String,
    /// For each line, whether it begins inside a string literal.
    pub(super) begins_in_string: Vec<bool>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    /// Line of its `fn`, from 1.
    pub(super) line: usize,
    /// Lines from `fn` to the closing brace, both counted.
    pub(super) lines: usize,
    /// Byte of its `fn` in the code.
    pub(super) start: usize,
}

impl<'a> Source<'a> {
    pub(super) fn read(path: &'a str, text: &'a str) -> Source<'a> {
        let (code, begins_in_string) = blank(text);
        Source { path, text, code, begins_in_string }
    }

    /// The line of a byte, from 1.
    pub(super) fn line_of(&self, byte: usize) -> usize {
        self.code.as_bytes()[..byte].iter().filter(|b| **b == b'\n').count() + 1
    }

    /// True if the file holds tests: `tests.rs`, or anything below a `tests` folder.
    pub(super) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// True if the file is a program beside a library: an example or a benchmark.
    pub(super) fn is_program(&self) -> bool {
        self.path.contains("/examples/") || self.path.contains("/benches/")
    }

    /// The workspace crate it belongs to: `policy` for `crates/policy/…`, else its first folder.
    pub(super) fn room(&self) -> &'a str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            first => first.unwrap_or_default(),
        }
    }

    /// Bytes at which `word` stands in the code as a whole word.
    pub(super) fn words(&self, word: &str) -> impl Iterator<Item = usize> {
        let ends = |b: Option<&u8>| !b.is_some_and(|b| is_word(*b));
        let bytes = self.code.as_bytes();
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            ends(at.checked_sub(1).map(|before| &bytes[before])) && ends(bytes.get(at + word.len()))
        })
    }

    /// Every function with a body, in order; functions within functions too.
    pub(super) fn functions(&self) -> Vec<Function<'_>> {
        self.words("fn").filter_map(|start| self.function(start)).collect()
    }

    fn function(&self, start: usize) -> Option<Function<'_>> {
        let after = &self.code[start + 2..];
        let name_at = start + 2 + (after.len() - after.trim_start().len());
        let name = leading_word(&self.code[name_at..]);
        if name.is_empty() {
            return None; // `fn(u32) -> u32`, a type.
        }
        let open = body(self.code.as_bytes(), name_at)?;
        let close = closing(self.code.as_bytes(), open)?;
        let line = self.line_of(start);
        Some(Function { name, line, lines: self.line_of(close) - line + 1, start })
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The identifier that `text` begins with; may be empty.
pub(super) fn leading_word(text: &str) -> &str {
    &text[..text.bytes().position(|b| !is_word(b)).unwrap_or(text.len())]
}

/// The brace that opens a function's body; `None` for a declaration without one.
fn body(code: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The bracket that closes the one at `open`; counts round, square and curly ones alike.
pub(super) fn closing(code: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Blanks comments and literals; says for each line whether it begins inside a string.
fn blank(text: &str) -> (String, Vec<bool>) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut begins_in_string = vec![false];
    let mut at = 0;
    while at < bytes.len() {
        let (end, is_string) = literal_or_comment(bytes, at);
        for (byte, blanked) in bytes[at..end].iter().zip(&mut code[at..end]) {
            if *byte == b'\n' {
                begins_in_string.push(is_string);
            } else {
                *blanked = b' ';
            }
        }
        if end == at {
            if bytes[at] == b'\n' {
                begins_in_string.push(false);
            }
            at += 1;
        } else {
            at = end;
        }
    }
    let code = String::from_utf8(code).expect("whole literals and comments were blanked");
    (code, begins_in_string)
}

/// End of the literal or comment that starts at `at`, and true if it is a string; `at` itself when
/// none starts there.
fn literal_or_comment(bytes: &[u8], at: usize) -> (usize, bool) {
    let rest = &bytes[at..];
    let within_word = at > 0 && is_word(bytes[at - 1]);
    match rest[0] {
        b'/' if rest.starts_with(b"//") => (line_end(bytes, at), false),
        b'/' if rest.starts_with(b"/*") => (block_comment_end(bytes, at), false),
        b'"' => (string_end(bytes, at + 1), true),
        b'\'' => (character_end(bytes, at), false),
        b'r' | b'b' | b'c' if !within_word => match raw_string_hashes(rest) {
            Some((prefix, hashes)) => (raw_string_end(bytes, at + prefix, hashes), true),
            None => (at, false),
        },
        _ => (at, false),
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| from + n)
}

fn block_comment_end(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A quote opens a character when one character (or an escape) and a quote follow; else a lifetime.
fn character_end(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        let after_escaped = (at + 3).min(bytes.len());
        let quote = bytes[after_escaped..].iter().position(|b| *b == b'\'');
        return quote.map_or(bytes.len(), |n| after_escaped + n + 1);
    }
    let width = match bytes.get(at + 1) {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        _ => 1,
    };
    if bytes.get(at + 1 + width) == Some(&b'\'') { at + width + 2 } else { at }
}

/// For `r"`, `br##"` and the like: bytes up to and with the opening quote, and how many hashes.
fn raw_string_hashes(rest: &[u8]) -> Option<(usize, usize)> {
    let r = rest.iter().take(2).position(|b| *b == b'r')?;
    let hashes = rest[r + 1..].iter().take_while(|b| **b == b'#').count();
    let quote = r + 1 + hashes;
    (rest.get(quote) == Some(&b'"')).then_some((quote + 1, hashes))
}

fn raw_string_end(bytes: &[u8], from: usize, hashes: usize) -> usize {
    let mut closing = vec![b'"'];
    closing.resize(1 + hashes, b'#');
    let found = bytes[from..].windows(closing.len()).position(|w| w == closing);
    found.map_or(bytes.len(), |n| from + n + closing.len())
}

#[cfg(test)]
mod tests;
