//! The components of the program as CycloneDX 1.5 (ECMA-424), from `cargo metadata`.
//!
//! No time and no serial number: equal inputs give equal bytes. Development and build dependencies
//! are not part of the program, and are left out.

use super::output;
use crate::{Failure, workspace};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PROGRAM: &str = "thermocline-cli";
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The document, as text.
pub(super) fn document() -> Result<String, Failure> {
    let mut cargo = workspace::cargo();
    cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform", PLATFORM]);
    let metadata: Value = serde_json::from_slice(&output(&mut cargo)?)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let document = of(&metadata).ok_or("cargo metadata does not name the program")?;
    Ok(serde_json::to_string_pretty(&document).expect("plain values") + "\n")
}

/// The document of what `cargo metadata` says; `None` when it knows no such program.
pub(super) fn of(metadata: &Value) -> Option<Value> {
    let packages = metadata["packages"].as_array()?;
    let by_id: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let root = *by_id.values().find(|package| package["name"] == PROGRAM)?;
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut part = BTreeSet::new();
    let mut next = vec![root["id"].as_str()?];
    while let Some(id) = next.pop() {
        if part.insert(id) {
            next.extend(linked(nodes.get(id)?));
        }
    }
    let components: Vec<Value> = part
        .iter()
        .filter(|id| **id != root["id"])
        .filter_map(|id| by_id.get(id))
        .map(|package| component(package, "library"))
        .collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(root, "application") },
        "components": components,
    }))
}

/// Packages that a package links, without what only builds or tests it.
fn linked(node: &Value) -> Vec<&str> {
    let is_normal = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let dependencies = node["deps"].as_array().map_or(&[][..], Vec::as_slice);
    dependencies.iter().filter(is_normal).filter_map(|found| found["pkg"].as_str()).collect()
}

fn component(package: &Value, kind: &str) -> Value {
    let (name, version) = (&package["name"], &package["version"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let mut component = json!({ "type": kind, "name": name, "version": version });
    if !package["source"].is_null() {
        component["purl"] = json!(format!("pkg:cargo/{}@{}", text(name), text(version)));
    }
    if let Some(licence) = package["license"].as_str() {
        // The old way of writing OR.
        let expression = licence.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    component
}
