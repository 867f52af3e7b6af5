//! Breaks between two OpenAPI documents: what a client of the old one relies on and cannot any
//! more.
//!
//! 1. Every request of the old document must be in the new one: its path, method, parameters, body
//!    and answers.
//! 2. A request may be given what it could be given before. So no field or value goes away, no
//!    type becomes narrower, and nothing becomes required.
//! 3. An answer has what it had before. So no field goes away, none that was always there becomes
//!    optional, and no type becomes wider. New fields, new values of an enumeration and new
//!    variants are additions.
//! 4. Schemas are followed through `$ref` from the requests that use them: a schema that nobody
//!    uses promises nothing. A pair of schemas that is met again on the way is not followed again.
//!
//! Formats count as types (`int32` is not `int64`). Descriptions, examples and bounds do not count.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];

/// Pointer prefix of schemas that others name.
const SCHEMAS: &str = "#/components/schemas/";

/// Writer of a value: a client in a request, or the program in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Request,
    Answer,
}

/// Requests of a document: method and path.
pub(super) fn operations(document: &Value) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (path, item) in entries(&document["paths"]) {
        found.extend(METHODS.iter().filter(|m| item.get(**m).is_some()).map(|m| (*m, path)));
    }
    found
}

/// Breaks from `old` to `new`, a sentence each, in the order of the paths.
pub(super) fn breaks(old: &Value, new: &Value) -> Vec<String> {
    let mut compared =
        Compared { old, new, found: BTreeSet::new(), met: BTreeSet::new(), side: Side::Request };
    for (method, path) in operations(old) {
        let place = format!("{} {path}", method.to_uppercase());
        match &new["paths"][path][method] {
            Value::Null => compared.say(&place, "the request is gone"),
            now => compared.operation(&place, &old["paths"][path][method], now),
        }
    }
    compared.found.into_iter().map(|(place, what)| format!("{place}: {what}")).collect()
}

struct Compared<'a> {
    old: &'a Value,
    new: &'a Value,
    found: BTreeSet<(String, String)>,
    /// Pairs of named schemas that were compared, on each side.
    met: BTreeSet<(Side, String, String)>,
    side: Side,
}

impl<'a> Compared<'a> {
    fn say(&mut self, place: &str, what: impl Into<String>) {
        self.found.insert((place.to_string(), what.into()));
    }

    fn operation(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        self.side = Side::Request;
        self.parameters(place, &old["parameters"], &new["parameters"]);
        let (body, now) = (&old["requestBody"], &new["requestBody"]);
        if now["required"] == true && body["required"] != true {
            self.say(place, "a body is required now");
        }
        if !body.is_null() {
            self.contents(&format!("{place}, body"), &body["content"], &now["content"]);
        }
        self.side = Side::Answer;
        for (status, answer) in entries(&old["responses"]) {
            let place = format!("{place}, answer {status}");
            match &new["responses"][status] {
                Value::Null => self.say(&place, "the answer is gone"),
                now => self.contents(&place, &answer["content"], &now["content"]),
            }
        }
    }

    fn parameters(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        let same = |a: &Value, b: &Value| a["in"] == b["in"] && a["name"] == b["name"];
        let find = |all: &'a Value, wanted: &Value| {
            items(all).iter().find(|parameter| same(parameter, wanted))
        };
        for parameter in items(old) {
            let place = format!("{place}, parameter {}", text(&parameter["name"]));
            match find(new, parameter) {
                None => self.say(&place, "the parameter is gone"),
                Some(now) => self.schema(&place, &parameter["schema"], &now["schema"]),
            }
        }
        for now in items(new).iter().filter(|parameter| parameter["required"] == true) {
            if find(old, now).is_none_or(|before| before["required"] != true) {
                let place = format!("{place}, parameter {}", text(&now["name"]));
                self.say(&place, "the parameter is required now");
            }
        }
    }

    fn contents(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        for (kind, content) in entries(old) {
            match new.get(kind) {
                None => self.say(place, format!("the form {kind} is gone")),
                Some(now) => self.schema(place, &content["schema"], &now["schema"]),
            }
        }
    }

    fn schema(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        if let (Some(before), Some(now)) = (old["$ref"].as_str(), new["$ref"].as_str()) {
            let pair = (self.side, before.to_string(), now.to_string());
            if !self.met.insert(pair) {
                return;
            }
        }
        let (old, new) = (resolved(self.old, old), resolved(self.new, new));
        if old.is_null() {
            return; // It promised nothing.
        }
        self.types(place, old, new);
        self.values(place, old, new);
        self.fields(place, old, new);
        for (word, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if old[word].is_object() {
                match &new[word] {
                    now if now.is_object() => {
                        self.schema(&format!("{place}{mark}"), &old[word], now)
                    }
                    _ => {
                        self.say(&format!("{place}{mark}"), "its elements have no schema any more")
                    }
                }
            }
        }
        self.variants(place, old, new);
    }

    fn types(&mut self, place: &str, old: &Value, new: &Value) {
        let (before, now) = (types(old), types(new));
        let fits = match self.side {
            // No type is any type.
            Side::Request => now.is_empty() || (!before.is_empty() && before.is_subset(&now)),
            Side::Answer => now.is_subset(&before) && (!now.is_empty() || before.is_empty()),
        };
        if !fits {
            self.say(place, format!("the type was {}, now {}", listed(&before), listed(&now)));
        }
        let (before, now) = (text(&old["format"]), text(&new["format"]));
        if before != now {
            let named = |format: &str| if format.is_empty() { "none" } else { format }.to_string();
            self.say(place, format!("the format was {}, now {}", named(before), named(now)));
        }
    }

    /// Values of an enumeration: a client may not be refused one that it could give.
    fn values(&mut self, place: &str, old: &Value, new: &Value) {
        if self.side == Side::Answer || !new["enum"].is_array() {
            return;
        }
        if !old["enum"].is_array() {
            return self.say(place, "only some values are taken now");
        }
        for value in items(&old["enum"]).iter().filter(|value| !items(&new["enum"]).contains(value))
        {
            self.say(place, format!("the value {value} is gone"));
        }
    }

    fn fields(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        for (name, field) in entries(&old["properties"]) {
            let place = format!("{place}.{name}");
            match new["properties"].get(name) {
                None => self.say(&place, "the field is gone"),
                Some(now) => self.schema(&place, field, now),
            }
        }
        let required = |schema: &'a Value| -> BTreeSet<&'a str> {
            items(&schema["required"]).iter().map(text).collect()
        };
        let (before, now) = (required(old), required(new));
        match self.side {
            Side::Request => {
                for name in now.difference(&before) {
                    self.say(&format!("{place}.{name}"), "the field is required now");
                }
            }
            Side::Answer => {
                for name in before.difference(&now) {
                    if new["properties"].get(*name).is_some() {
                        self.say(&format!("{place}.{name}"), "the field may be missing now");
                    }
                }
            }
        }
    }

    /// Alternatives, each with the one that is most like it: by name, by tag, by its fields.
    fn variants(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        for word in ["oneOf", "anyOf", "allOf"] {
            let (before, now) = (items(&old[word]), items(&new[word]));
            for variant in before {
                let known_by = mark(self.old, variant);
                let place = format!("{place}({known_by})");
                let like = now.iter().find(|other| mark(self.new, other) == known_by);
                match like {
                    None => self.say(&place, "the variant is gone"),
                    Some(other) => self.schema(&place, variant, other),
                }
            }
            let has_null = |all: &[Value]| all.iter().any(|variant| variant["type"] == "null");
            if self.side == Side::Answer && has_null(now) && !has_null(before) {
                self.say(place, "it may be null now");
            }
        }
    }
}

/// Mark by which a variant is known: its schema's name, the one value of its tag, or its fields.
fn mark(document: &Value, variant: &Value) -> String {
    if let Some(name) = variant["$ref"].as_str() {
        return name.trim_start_matches(SCHEMAS).to_string();
    }
    let schema = resolved(document, variant);
    let one_value = |schema: &Value| match items(&schema["enum"]) {
        [value] => value.as_str().map(str::to_string),
        _ => schema["const"].as_str().map(str::to_string),
    };
    let tag = entries(&schema["properties"])
        .find_map(|(name, field)| one_value(field).map(|value| format!("{name} {value}")));
    let fields = || entries(&schema["properties"]).map(|(n, _)| n).collect::<Vec<_>>().join(" ");
    one_value(schema).or(tag).unwrap_or_else(|| match schema["properties"].is_object() {
        true => fields(),
        false => listed(&types(schema)),
    })
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        None => schema,
        Some(name) => &document["components"]["schemas"][name.trim_start_matches(SCHEMAS)],
    }
}

fn types(schema: &Value) -> BTreeSet<&str> {
    match &schema["type"] {
        Value::String(one) => BTreeSet::from([one.as_str()]),
        several => items(several).iter().map(text).collect(),
    }
}

fn listed(types: &BTreeSet<&str>) -> String {
    match types.is_empty() {
        true => "any".to_string(),
        false => types.iter().copied().collect::<Vec<_>>().join(" or "),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(name, value)| (name.as_str(), value))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
