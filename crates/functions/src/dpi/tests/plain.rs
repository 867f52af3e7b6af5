//! Rules as plain data, and a search for them over a whole stream that shares nothing with the
//! inspection: every combination of places is tried.

use super::Action;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Relation of a content to the one before.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Anywhere,
    /// Offset and depth.
    Within(usize, usize),
    /// Distance.
    Behind(usize),
    /// Distance, and how many bytes more there may be between.
    Near(usize, usize),
}

/// A rule over a small alphabet.
#[derive(Debug, Clone)]
pub(super) struct PlainRule {
    action: u8,
    contents: Vec<(Vec<u8>, bool, Place)>,
    expression: Option<&'static str>,
}

/// Expressions, with what they mean as alternatives of fixed strings.
const EXPRESSIONS: [(&str, &[&str]); 4] = [
    ("/ab|BA.x/s", &["ab", "BA?x"]),
    (
        "/x[ab]y/i",
        &[
            "xay", "xby", "XAY", "XBY", "xAy", "xBy", "Xay", "Xby", "xaY", "xbY", "XAy", "XBy",
            "XaY", "XbY", "xAY", "xBY",
        ],
    ),
    ("/y{2}a?B/", &["yyB", "yyaB"]),
    ("/xx|yA/", &["xx", "yA"]),
];

pub(super) fn rule() -> impl Strategy<Value = PlainRule> {
    let bytes = prop::collection::vec(prop::sample::select(&b"abABx"[..]), 1..4);
    let place = prop_oneof![
        2 => Just(Place::Anywhere),
        1 => (0..30usize, 3..60usize).prop_map(|(offset, depth)| Place::Within(offset, depth)),
        2 => (0..6usize).prop_map(Place::Behind),
        2 => (0..3usize, 0..4usize).prop_map(|(distance, more)| Place::Near(distance, more)),
    ];
    let contents = prop::collection::vec((bytes, any::<bool>(), place), 0..4);
    (0..6u8, contents, prop::option::weighted(0.3, 0..EXPRESSIONS.len())).prop_map(
        |(action, mut contents, expression)| {
            // What the subset has: one chain of distances, at the end; nothing near behind it.
            let (mut behind, mut first) = (false, true);
            // A far depth with a nearness behind it needs too many states.
            if contents.iter().any(|content| matches!(content.2, Place::Near(..))) {
                for content in &mut contents {
                    if let Place::Within(offset, depth) = &mut content.2 {
                        (*offset, *depth) = (*offset % 4, 3 + *depth % 6);
                    }
                }
            }
            for (_, _, place) in &mut contents {
                match place {
                    Place::Behind(_) if first => *place = Place::Anywhere,
                    Place::Near(..) if first || behind => *place = Place::Behind(0),
                    _ => {}
                }
                if matches!(place, Place::Near(..) | Place::Behind(_)) && first {
                    *place = Place::Anywhere;
                }
                if behind && !matches!(place, Place::Behind(_)) {
                    *place = Place::Behind(1);
                }
                behind |= matches!(place, Place::Behind(_));
                first = false;
            }
            let expression = expression.map(|nth| EXPRESSIONS[nth].0);
            let expression = if contents.is_empty() { Some("/ab|BA.x/s") } else { expression };
            PlainRule { action, contents, expression }
        },
    )
}

impl PlainRule {
    fn action(&self) -> Action {
        match self.action {
            0 => Action::Pass,
            1 => Action::Drop,
            _ => Action::Alert,
        }
    }

    /// The rule in the language of rule files.
    pub(super) fn text(&self, sid: u32) -> String {
        let action = ["pass", "drop", "alert"][usize::from(self.action.min(2))];
        let mut options = String::new();
        for (bytes, nocase, place) in &self.contents {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            options += &format!("content:\"|{}|\"; ", hex.join(" "));
            options += if *nocase { "nocase; " } else { "" };
            options += &match place {
                Place::Anywhere => String::new(),
                Place::Within(offset, depth) => format!("offset:{offset}; depth:{depth}; "),
                Place::Behind(distance) => format!("distance:{distance}; "),
                Place::Near(distance, more) => {
                    let within = distance + more + bytes.len();
                    format!("distance:{distance}; within:{within}; ")
                }
            };
        }
        if let Some(expression) = self.expression {
            options += &format!("pcre:\"{expression}\"; ");
        }
        format!("{action} tcp any any -> any any ({options}sid:{sid};)")
    }

    /// End of the shortest beginning of the stream in which the rule matches.
    fn first_end(&self, stream: &[u8]) -> Option<usize> {
        (1..=stream.len()).find(|&end| self.is_in(&stream[..end]))
    }

    fn is_in(&self, stream: &[u8]) -> bool {
        let expression = self.expression.is_none_or(|text| {
            let alternatives = EXPRESSIONS.iter().find(|e| e.0 == text).unwrap().1;
            alternatives.iter().any(|words| {
                let fits = |part: &[u8]| {
                    part.iter().zip(words.bytes()).all(|(byte, word)| word == b'?' || *byte == word)
                };
                stream.windows(words.len()).any(fits)
            })
        });
        expression && continues(&self.contents, stream, 0)
    }
}

/// True if the contents can be placed when the one before them ends at `before`.
fn continues(contents: &[(Vec<u8>, bool, Place)], stream: &[u8], before: usize) -> bool {
    let Some(((bytes, nocase, place), rest)) = contents.split_first() else { return true };
    let length = bytes.len();
    (0..(stream.len() + 1).saturating_sub(length)).any(|start| {
        let part = &stream[start..start + length];
        let is_same = if *nocase { part.eq_ignore_ascii_case(bytes) } else { part == bytes };
        let is_placed = match place {
            Place::Anywhere => true,
            Place::Within(offset, depth) => start >= *offset && start + length <= offset + depth,
            Place::Behind(distance) => start >= before + distance,
            Place::Near(distance, more) => {
                start >= before + distance && start <= before + distance + more
            }
        };
        is_same && is_placed && continues(rest, stream, start + length)
    })
}

/// The rules that are told and the decision, by a search over the whole stream.
pub(super) fn verdict(rules: &[PlainRule], stream: &[u8]) -> (BTreeSet<u32>, Option<Action>) {
    let ends: Vec<(Option<usize>, Action)> =
        rules.iter().map(|rule| (rule.first_end(stream), rule.action())).collect();
    let of = |action| ends.iter().filter(move |e| e.1 == action).filter_map(|e| e.0).min();
    let (pass, drop) = (of(Action::Pass), of(Action::Drop));
    let decision = match (pass, drop) {
        (Some(pass), Some(drop)) if pass <= drop => Some(Action::Pass),
        (Some(_), None) => Some(Action::Pass),
        (_, Some(_)) => Some(Action::Drop),
        (None, None) => None,
    };
    let last = match decision {
        Some(Action::Pass) => pass.unwrap() - 1,
        Some(_) => drop.unwrap(),
        None => stream.len(),
    };
    let told = (1..)
        .zip(&ends)
        .filter(|(_, (end, action))| *action != Action::Pass && end.is_some_and(|end| end <= last));
    (told.map(|(sid, _)| sid).collect(), decision)
}
