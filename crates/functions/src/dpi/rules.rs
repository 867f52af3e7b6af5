//! Rules in a stated subset of Snort's and Suricata's language, as docs/formats/dpi-rules.md has
//! it.
//!
//! A file is read completely or refused with file and line: an option that is not understood is
//! refused, because a rule without it would match something else.

use super::header::{Addresses, Ports};
use std::collections::BTreeMap;

/// The longest literal of a rule, bytes.
pub(crate) const CONTENT_BYTES_MAX: usize = 128;
/// Contents and expressions that a rule may have.
pub(crate) const ELEMENTS_MAX: usize = 16;
/// The greatest number of rules of a file.
pub(crate) const RULES_MAX: usize = 65_535;
/// The greatest offset, depth, distance and within, bytes.
pub(crate) const REACH_MAX: u32 = 65_535;

/// Consequence of a rule's match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The flow goes on, and is not looked at any more.
    Pass,
    /// The packet that completes the match, and all later ones of the flow, are dropped.
    Drop,
    /// Tells, and does nothing else.
    Alert,
}

/// Protocol of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleProtocol {
    Ip,
    Tcp,
    Udp,
    Icmp,
}

/// A literal with its place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) nocase: bool,
    pub(super) offset: Option<u32>,
    pub(super) depth: Option<u32>,
    pub(super) distance: Option<u32>,
    pub(super) within: Option<u32>,
}

impl Content {
    /// True if its place is told by the end of the content before it.
    pub(super) fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }
}

/// A rule as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) line: usize,
    pub(super) action: Action,
    pub(super) protocol: RuleProtocol,
    pub(super) source: (Addresses, Ports),
    pub(super) destination: (Addresses, Ports),
    pub(super) both_ways: bool,
    pub(super) message: String,
    pub(super) sid: u32,
    pub(super) to_server: Option<bool>,
    pub(super) established: Option<bool>,
    pub(super) contents: Vec<Content>,
    pub(super) expressions: Vec<String>,
}

/// A rule file that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct RuleError {
    /// Name of the file, as the caller gave it.
    pub file: String,
    /// Line on which the rule begins, from 1.
    pub line: usize,
    /// The fault, and what to do.
    pub message: String,
}

type Parsed<T> = Result<T, String>;

/// Reads a file's text.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Rule>, RuleError> {
    let mut variables = BTreeMap::new();
    let mut rules: Vec<Rule> = Vec::new();
    let mut lines_of_sid = BTreeMap::new();
    for (line, text) in logical_lines(text) {
        let fail = |message| RuleError { file: file.to_string(), line, message };
        if let Some((name, value)) = variable(&text).map_err(fail)? {
            variables.insert(name, value);
            continue;
        }
        let rule = rule(line, &text, &variables).map_err(fail)?;
        if let Some(other) = lines_of_sid.insert(rule.sid, line) {
            let message = format!("sid {} is that of line {other}, too: give it another", rule.sid);
            return Err(fail(message));
        }
        if rules.len() == RULES_MAX {
            return Err(fail(format!("more than {RULES_MAX} rules: split the file")));
        }
        rules.push(rule);
    }
    Ok(rules)
}

/// Lines without comments and blanks; a backslash at a line's end continues it.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut open): (Vec<(usize, String)>, bool) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if !open && (line.is_empty() || line.starts_with('#')) {
            continue;
        }
        let (part, continues) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| open) {
            Some((_, whole)) => whole.push_str(part),
            None => lines.push((number, part.to_string())),
        }
        open = continues;
    }
    lines
}

fn variable(text: &str) -> Parsed<Option<(String, String)>> {
    let mut words = text.splitn(3, char::is_whitespace);
    let keyword = words.next().unwrap_or_default();
    if !["var", "ipvar", "portvar"].contains(&keyword) {
        return Ok(None);
    }
    match (words.next(), words.next()) {
        (Some(name), Some(value)) if !value.trim().is_empty() => {
            Ok(Some((name.to_string(), value.trim().to_string())))
        }
        _ => Err(format!("write it as: {keyword} NAME VALUE")),
    }
}

fn rule(line: usize, text: &str, variables: &BTreeMap<String, String>) -> Parsed<Rule> {
    let open = text.find('(').ok_or("a rule has options in parentheses: (msg:\"…\"; sid:1;)")?;
    let body = text[open + 1..].trim_end().strip_suffix(')');
    let body = body.ok_or("a rule ends with `)`")?;
    let words = header_words(&text[..open]);
    let [action, protocol, source, source_ports, arrow, destination, destination_ports] =
        &words[..]
    else {
        return Err("write the header as: ACTION PROTOCOL ADDRESS PORT -> ADDRESS PORT".into());
    };
    let address = |text: &str| Addresses::parse(&substituted(text, variables)?);
    let port = |text: &str| Ports::parse(&substituted(text, variables)?);
    let mut rule = Rule {
        line,
        action: match action.as_str() {
            "alert" => Action::Alert,
            "drop" => Action::Drop,
            "pass" => Action::Pass,
            other => return Err(format!("action `{other}`: expected alert, drop or pass")),
        },
        protocol: match protocol.as_str() {
            "ip" => RuleProtocol::Ip,
            "tcp" => RuleProtocol::Tcp,
            "udp" => RuleProtocol::Udp,
            "icmp" => RuleProtocol::Icmp,
            other => return Err(format!("protocol `{other}`: expected ip, tcp, udp or icmp")),
        },
        source: (address(source)?, port(source_ports)?),
        destination: (address(destination)?, port(destination_ports)?),
        both_ways: match arrow.as_str() {
            "->" => false,
            "<>" => true,
            other => return Err(format!("direction `{other}`: expected -> or <>")),
        },
        message: String::new(),
        sid: 0,
        to_server: None,
        established: None,
        contents: Vec::new(),
        expressions: Vec::new(),
    };
    for (key, value) in options(body)? {
        option(&mut rule, &key, value.as_deref())?;
    }
    check(&rule)?;
    Ok(rule)
}

/// Words between blanks; brackets keep their blanks.
fn header_words(text: &str) -> Vec<String> {
    let (mut words, mut depth): (Vec<String>, i32) = (vec![String::new()], 0);
    for c in text.chars() {
        depth += i32::from(c == '[') - i32::from(c == ']');
        match words.last_mut() {
            Some(word) if !c.is_whitespace() => word.push(c),
            Some(word) if depth <= 0 && !word.is_empty() => words.push(String::new()),
            _ => {}
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Text with `$NAME` replaced. Values are not looked into again, so nothing can grow.
fn substituted(text: &str, variables: &BTreeMap<String, String>) -> Parsed<String> {
    let mut parts = text.split('$');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.len());
        let value = variables.get(&part[..end]).ok_or_else(|| {
            format!("${} is not set: write `var {} VALUE` before it", &part[..end], &part[..end])
        })?;
        out.push_str(value);
        out.push_str(&part[end..]);
    }
    Ok(out)
}

/// Options as keys and values; quotes are still around the values.
fn options(body: &str) -> Parsed<Vec<(String, Option<String>)>> {
    let (mut options, mut current) = (Vec::new(), String::new());
    let (mut quoted, mut escaped) = (false, false);
    for c in body.chars() {
        match c {
            ';' if !quoted && !escaped => {
                let text = std::mem::take(&mut current);
                let (key, value) = match text.split_once(':') {
                    Some((key, value)) => (key, Some(value.trim().to_string())),
                    None => (&text[..], None),
                };
                options.push((key.trim().to_string(), value));
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        current.push(c);
    }
    if quoted || !current.trim().is_empty() {
        return Err(format!("`{}` does not end: put a quote or `;` behind it", current.trim()));
    }
    Ok(options)
}

/// The text between quotes.
fn unquoted(value: &str) -> Parsed<&str> {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    inner.ok_or_else(|| format!("`{value}`: put it into quotes"))
}

fn option(rule: &mut Rule, key: &str, value: Option<&str>) -> Parsed<()> {
    let needed = || value.ok_or_else(|| format!("`{key}` needs a value: {key}:…;"));
    match key {
        "msg" => rule.message = unquoted(needed()?)?.to_string(),
        "sid" => {
            let sid = needed()?.parse().ok().filter(|&sid| sid > 0);
            rule.sid = sid.ok_or("sid: a number from 1 to 4294967295")?;
        }
        "flow" => flow(rule, needed()?)?,
        "content" => {
            let value = needed()?;
            if value.starts_with('!') {
                let message = "content that must be absent is not in the subset: remove the rule";
                return Err(message.into());
            }
            let bytes = literal(unquoted(value)?)?;
            rule.contents.push(Content { bytes, ..Content::default() });
        }
        "pcre" => rule.expressions.push(expression(unquoted(needed()?)?)?),
        "nocase" | "offset" | "depth" | "distance" | "within" => {
            let content = rule.contents.last_mut();
            let content = content.ok_or_else(|| format!("`{key}` stands behind a content"))?;
            modifier(content, key, value)?;
        }
        // These say something to people, not to us.
        "rev" | "gid" | "classtype" | "reference" | "metadata" | "priority" => drop(needed()?),
        other => {
            return Err(format!(
                "option `{other}` is not in the subset (docs/formats/dpi-rules.md): remove the rule"
            ));
        }
    }
    Ok(())
}

fn modifier(content: &mut Content, key: &str, value: Option<&str>) -> Parsed<()> {
    if key == "nocase" {
        content.nocase = true;
        return Ok(());
    }
    let number = value.and_then(|value| value.parse::<u32>().ok()).filter(|&n| n <= REACH_MAX);
    let number = number.ok_or_else(|| format!("{key}: a number from 0 to {REACH_MAX}"))?;
    let place = match key {
        "offset" => &mut content.offset,
        "depth" => &mut content.depth,
        "distance" => &mut content.distance,
        _ => &mut content.within,
    };
    match place.replace(number) {
        None => Ok(()),
        Some(_) => Err(format!("`{key}` twice for one content")),
    }
}

fn flow(rule: &mut Rule, value: &str) -> Parsed<()> {
    for word in value.split(',').map(str::trim) {
        match word {
            "to_server" | "from_client" => rule.to_server = Some(true),
            "to_client" | "from_server" => rule.to_server = Some(false),
            "established" => rule.established = Some(true),
            "not_established" => rule.established = Some(false),
            "stateless" => {}
            other => {
                return Err(format!(
                    "flow `{other}`: expected to_server, to_client, from_server, from_client, \
                     established, not_established or stateless"
                ));
            }
        }
    }
    Ok(())
}

/// Bytes of a content: text, `|41 42|` in hexadecimal, and `\` before `"`, `;`, `:`, `|` and `\`.
fn literal(text: &str) -> Parsed<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '|' => {
                let end = rest.find('|').ok_or("a `|` without its end: write |41 42|")?;
                hexadecimal(&rest[..end], &mut bytes)?;
                rest = &rest[end + 1..];
            }
            '\\' => {
                let next = rest.chars().next().filter(|c| r#"";:|\"#.contains(*c));
                let next = next.ok_or(r#"`\` stands before `"`, `;`, `:`, `|` or `\`"#)?;
                bytes.push(next as u8);
                rest = &rest[1..];
            }
            c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    match bytes.len() {
        1..=CONTENT_BYTES_MAX => Ok(bytes),
        length => Err(format!("a content has 1 to {CONTENT_BYTES_MAX} bytes, not {length}")),
    }
}

fn hexadecimal(text: &str, bytes: &mut Vec<u8>) -> Parsed<()> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let value = |digit: u8| char::from(digit).to_digit(16);
    for pair in digits.chunks(2) {
        let byte = pair.get(1).and_then(|&low| Some(value(pair[0])? << 4 | value(low)?));
        bytes.push(byte.ok_or_else(|| format!("|{text}|: pairs of hexadecimal digits"))? as u8);
    }
    Ok(())
}

/// The expression of `/…/flags`, with its flags inside.
fn expression(text: &str) -> Parsed<String> {
    let end = text.rfind('/').filter(|&end| end > 0 && text.starts_with('/'));
    let end = end.ok_or("pcre: write it as \"/EXPRESSION/FLAGS\"")?;
    let flags = &text[end + 1..];
    if let Some(flag) = flags.chars().find(|flag| !"ismx".contains(*flag)) {
        return Err(format!("pcre flag `{flag}`: expected i, s, m or x"));
    }
    let inner = text[1..end].replace("\\/", "/").replace("\\\"", "\"");
    let flags: String = "ismx".chars().filter(|flag| flags.contains(*flag)).collect();
    // A comment of `x` must not swallow the parenthesis.
    let end = if flags.contains('x') { "\n" } else { "" };
    Ok(if flags.is_empty() { format!("(?:{inner})") } else { format!("(?{flags}:{inner}{end})") })
}

fn check(rule: &Rule) -> Parsed<()> {
    if rule.sid == 0 {
        return Err("a rule needs a sid: sid:NUMBER;".into());
    }
    if rule.contents.len() + rule.expressions.len() > ELEMENTS_MAX {
        return Err(format!("at most {ELEMENTS_MAX} contents and expressions"));
    }
    for (nth, content) in rule.contents.iter().enumerate() {
        let length = content.bytes.len() as u32;
        if content.is_relative() && (content.offset.is_some() || content.depth.is_some()) {
            return Err("a content has offset and depth, or distance and within".into());
        }
        if content.is_relative() && nth == 0 {
            return Err("distance and within need a content before".into());
        }
        if content.depth.is_some_and(|depth| depth < length) {
            return Err(format!("depth below the content's {length} bytes never matches"));
        }
        let nearest = length + content.distance.unwrap_or(0);
        if content.within.is_some_and(|within| within < nearest) {
            return Err(format!("within below {nearest} never matches: content and distance"));
        }
    }
    Ok(())
}
