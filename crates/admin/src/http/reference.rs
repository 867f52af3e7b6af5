//! An API's OpenAPI document as a page to read, in Markdown.
//!
//! 1. Each request has a heading, its description, its parameters, its body and its answers.
//! 2. Each type that they name has a table of its fields.
//!
//! The document is walked as JSON: what it may contain is stated by OpenAPI 3.1, and this page
//! shows the part that our programs use.

use serde_json::Value;
use std::fmt::Write;
use utoipa::openapi::OpenApi;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page.
///
/// ```
/// #[derive(utoipa::OpenApi)]
/// #[openapi(info(title = "clock", description = "Tells the time."))]
/// struct Document;
///
/// let page = thermocline_admin::http::reference(&<Document as utoipa::OpenApi>::openapi());
/// assert!(page.starts_with("# API: clock\n\nTells the time.\n"));
/// ```
///
/// # Panics
/// When the document is no JSON, which it always is.
pub fn reference(document: &OpenApi) -> String {
    let document = serde_json::to_value(document).expect("a document is JSON");
    let mut out = String::new();
    write(&document, &mut out).expect("a String takes every text");
    out
}

fn write(document: &Value, out: &mut String) -> std::fmt::Result {
    let info = &document["info"];
    writeln!(out, "# API: {}\n", text(&info["title"]))?;
    writeln!(out, "{}\n", text(&info["description"]))?;
    writeln!(out, "## Requests\n")?;
    for (path, item) in entries(&document["paths"]) {
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                request(method, path, operation, out)?;
            }
        }
    }
    writeln!(out, "## Types\n")?;
    for (name, schema) in entries(&document["components"]["schemas"]) {
        kind(name, schema, out)?;
    }
    Ok(())
}

fn request(method: &str, path: &str, operation: &Value, out: &mut String) -> std::fmt::Result {
    writeln!(out, "### `{} {path}`\n", method.to_uppercase())?;
    for said in [text(&operation["summary"]), text(&operation["description"])] {
        if !said.is_empty() {
            writeln!(out, "{said}\n")?;
        }
    }
    let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if !parameters.is_empty() {
        writeln!(out, "| parameter | where | type | meaning |\n|---|---|---|---|")?;
    }
    for parameter in parameters {
        let needed = if parameter["required"] == true { ", required" } else { "" };
        let place = format!("{}{needed}", text(&parameter["in"]));
        row(
            out,
            &[
                &code(text(&parameter["name"])),
                &place,
                &named(&parameter["schema"]),
                text(&parameter["description"]),
            ],
        )?;
    }
    if !parameters.is_empty() {
        writeln!(out)?;
    }
    if let Some(body) = content(&operation["requestBody"]) {
        writeln!(out, "Body: {body}.\n")?;
    }
    writeln!(out, "| answer | body | meaning |\n|---|---|---|")?;
    for (status, answer) in entries(&operation["responses"]) {
        let body = content(answer).unwrap_or_else(|| "none".to_string());
        row(out, &[status, &body, text(&answer["description"])])?;
    }
    writeln!(out)
}

/// A type: its fields, or the values that it may have.
fn kind(name: &str, schema: &Value, out: &mut String) -> std::fmt::Result {
    writeln!(out, "### {name}\n")?;
    let said = text(&schema["description"]);
    if !said.is_empty() {
        writeln!(out, "{said}\n")?;
    }
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(fields) = schema["properties"].as_object() else {
        return writeln!(out, "{}\n", named(schema));
    };
    writeln!(out, "| field | type | meaning |\n|---|---|---|")?;
    for (field, schema) in fields {
        let optional =
            if required.iter().any(|name| name == field) { "" } else { ", may be missing" };
        let kind = format!("{}{optional}", named(schema));
        row(out, &[&code(field), &kind, text(&schema["description"])])?;
    }
    writeln!(out)
}

/// The name of a schema: of a type with a link, of a list, of plain values.
fn named(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for (key, between) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let Some(schemas) = schema[key].as_array() {
            return schemas.iter().map(named).collect::<Vec<_>>().join(between);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| code(&value.to_string())).collect::<Vec<_>>().join(", ");
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
        kind => text(kind).to_string(),
    };
    match schema.get("items") {
        Some(items) => format!("list of {}", named(items)),
        None if schema["additionalProperties"].is_object() => {
            format!("object of {}", named(&schema["additionalProperties"]))
        }
        None if kind.is_empty() => "any value".to_string(),
        None => kind,
    }
}

/// The name of what a body or an answer contains.
fn content(of: &Value) -> Option<String> {
    let (media, content) = entries(&of["content"]).next()?;
    let name = content.get("schema").map_or_else(|| "bytes".to_string(), named);
    Some(if media == "application/json" { name } else { format!("{name} ({media})") })
}

fn row(out: &mut String, cells: &[&str]) -> std::fmt::Result {
    let cell =
        |text: &&str| text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ");
    writeln!(out, "| {} |", cells.iter().map(cell).collect::<Vec<_>>().join(" | "))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default().trim()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests;
