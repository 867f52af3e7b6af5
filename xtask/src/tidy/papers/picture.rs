//! The picture of README.md shows the whole system: every command, and every machine.
//!
//! In docs/thermocline.svg, `<tspan class="command">lab cache</tspan>` names a command, and
//! `<text class="crate">volume</text>` a crate of machines. Parts of a command that is named
//! already have `class="command below"`, and are not looked at. The commands are those of the
//! program's `enum Command`, the crates those that the layer table makes machines. A name that the
//! code does not have is found as well.

use super::super::{Finding, Source};

pub(super) const PATH: &str = "docs/thermocline.svg";

/// The file that lists the commands of the program.
pub(super) const PROGRAM: &str = "crates/cli/src/main.rs";

const RULE: &str = "picture";

/// Commands that the picture leaves out, each with the reason.
const LEFT_OUT: [(&str, &str); 2] =
    [("completions", "words for a shell"), ("man", "manual pages of the other commands")];

/// Compares the picture with the program's commands and with the crates of machines.
pub(super) fn check(svg: &str, program: &Source, machines: &[&str]) -> Vec<Finding> {
    let commands = commands(program);
    let mut findings = Vec::new();
    let mut found = |line, message| findings.push(Finding::new(PATH, line, RULE, message));
    if commands.is_empty() {
        found(0, format!("{PROGRAM} has no `enum Command`: say where commands are listed now"));
    }
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|(left_out, _)| *left_out == name);
    let shown_commands = named(svg, "command");
    for name in commands.iter().filter(|name| !is_left_out(name)) {
        if !shown_commands.iter().any(|(_, shown)| shown == name) {
            found(0, format!("the command `{name}` is missing: show what it brings"));
        }
    }
    for (line, shown) in &shown_commands {
        if !commands.contains(shown) {
            found(*line, format!("there is no command `{shown}`"));
        }
    }
    let shown_crates = named(svg, "crate");
    for name in machines {
        if !shown_crates.iter().any(|(_, shown)| shown == name) {
            found(0, format!("the machine `{name}` is missing: show what it does"));
        }
    }
    for (line, shown) in &shown_crates {
        if !machines.contains(&shown.as_str()) {
            found(*line, format!("`{shown}` is no crate of machines"));
        }
    }
    findings
}

/// Names of the program's commands, as a user writes them.
fn commands(program: &Source) -> Vec<String> {
    let Some((_, body)) = program.code.split_once("enum Command {\n") else { return Vec::new() };
    let variants = body.lines().take_while(|line| !line.starts_with('}'));
    let variants = variants.filter_map(|line| line.strip_prefix("    "));
    let names = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    names.map(|line| written(super::super::source::leading_word(line))).collect()
}

/// `TwoWords` as `two-words`.
fn written(variant: &str) -> String {
    let mut name = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// First words of the texts of this class, with their lines.
fn named(svg: &str, class: &str) -> Vec<(usize, String)> {
    let opening = format!("class=\"{class}\"");
    let of_line = |(index, line): (usize, &str)| {
        let texts = line.split(&opening).skip(1).filter_map(|rest| rest.split(['>', '<']).nth(1));
        let words = texts.filter_map(|text| text.split_whitespace().next());
        words.map(|word| (index + 1, word.to_string())).collect::<Vec<_>>()
    };
    svg.lines().enumerate().flat_map(of_line).collect()
}

#[cfg(test)]
mod tests;
