//! Planted breaks are found, additions are none, and versions say what they permit.

use super::compare::{breaks, operations};
use super::may_break;
use serde_json::{Value, json};

fn document() -> Value {
    json!({
        "info": {"version": "0.1.0"},
        "paths": {
            "/v1/pools": {
                "get": {
                    "parameters": [{"in": "query", "name": "state", "schema": {"type": "string"}}],
                    "responses": {
                        "200": {"content": {"application/json": {
                            "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pool"}}
                        }}},
                        "404": {"description": "no such pool"}
                    }
                },
                "post": {
                    "requestBody": {"content": {"application/json": {
                        "schema": {"$ref": "#/components/schemas/NewPool"}
                    }}},
                    "responses": {"201": {"description": "made"}}
                }
            }
        },
        "components": {"schemas": {
            "Pool": {
                "type": "object",
                "required": ["name", "size", "device"],
                "properties": {
                    "name": {"type": "string"},
                    "size": {"type": "integer", "format": "int64"},
                    "state": {"type": "string", "enum": ["ok", "full"]},
                    "children": {"type": "array", "items": {"$ref": "#/components/schemas/Pool"}},
                    "device": {"oneOf": [
                        {"type": "object", "properties": {
                            "kind": {"type": "string", "enum": ["file"]}, "path": {"type": "string"}
                        }},
                        {"type": "object", "properties": {
                            "kind": {"type": "string", "enum": ["bucket"]}
                        }}
                    ]}
                }
            },
            "NewPool": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "weight": {"type": ["integer", "null"]},
                    "mode": {"type": "string", "enum": ["fast", "slow"]}
                }
            }
        }}
    })
}

/// The document with the value at `pointer` replaced; null removes it.
fn planted(pointer: &str, value: Value) -> Value {
    let mut changed = document();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    let parent = changed.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
    match (parent, value) {
        (Value::Object(map), Value::Null) => assert!(map.remove(&name).is_some(), "{pointer}"),
        (Value::Object(map), value) => drop(map.insert(name, value)),
        (Value::Array(list), Value::Null) => drop(list.remove(name.parse().unwrap())),
        (Value::Array(list), value) => list[name.parse::<usize>().unwrap()] = value,
        _ => panic!("{pointer} leads nowhere"),
    }
    changed
}

const POOL: &str = "/components/schemas/Pool";
const NEW: &str = "/components/schemas/NewPool";
const GET: &str = "/paths/~1v1~1pools/get";

#[test]
fn planted_breaks_are_found_and_named() {
    let fields = format!("{POOL}/properties");
    let taken = format!("{NEW}/properties");
    let answer = format!("{GET}/responses/200");
    let device = format!("{fields}/device/oneOf");
    let planted_at: Vec<(String, Value, &str)> = vec![
        ("/paths/~1v1~1pools".into(), Value::Null, "GET /v1/pools: the request is gone"),
        (GET.into(), Value::Null, "GET /v1/pools: the request is gone"),
        (format!("{GET}/parameters/0"), Value::Null, "parameter state: the parameter is gone"),
        (format!("{GET}/parameters/0/required"), json!(true), "parameter is required now"),
        (format!("{GET}/responses/404"), Value::Null, "answer 404: the answer is gone"),
        (format!("{answer}/content/application~1json"), Value::Null, "application/json is gone"),
        (format!("{fields}/name"), Value::Null, "answer 200[].name: the field is gone"),
        (format!("{fields}/name/type"), json!("integer"), "the type was string, now integer"),
        (format!("{fields}/name/type"), json!(["string", "null"]), "now null or string"),
        (format!("{fields}/size/format"), json!("int32"), "the format was int64, now int32"),
        (format!("{POOL}/required"), json!(["size", "device"]), ".name: the field may be missing"),
        (format!("{device}/0/properties/path"), Value::Null, "(kind file).path: the field is gone"),
        (format!("{device}/1"), Value::Null, "(kind bucket): the variant is gone"),
        (format!("{device}/1"), json!({"type": "null"}), "may be null now"),
        (format!("{fields}/children/items"), Value::Null, "elements have no schema any more"),
        (format!("{NEW}/required"), json!(["name", "mode"]), ".mode: the field is required now"),
        (format!("{taken}/weight"), Value::Null, "body.weight: the field is gone"),
        (format!("{taken}/weight/type"), json!("integer"), "was integer or null, now integer"),
        (format!("{taken}/mode/enum"), json!(["fast"]), "the value \"slow\" is gone"),
        (format!("{taken}/name/enum"), json!(["a"]), "only some values are taken now"),
        ("/paths/~1v1~1pools/post/requestBody/required".into(), json!(true), "a body is required"),
    ];
    for (pointer, value, expected) in planted_at {
        let found = breaks(&document(), &planted(&pointer, value));
        assert!(
            found.iter().any(|found| found.contains(expected)),
            "{pointer}: expected `{expected}` among {found:?}"
        );
    }
}

#[test]
fn additions_and_words_are_no_breaks() {
    let fields = format!("{POOL}/properties");
    let taken = format!("{NEW}/properties");
    let tape = json!({"type": "object", "properties": {"kind": {"enum": ["tape"]}}});
    let mut variants = document().pointer(&format!("{fields}/device/oneOf")).unwrap().clone();
    variants.as_array_mut().unwrap().push(tape.clone());
    for (pointer, value) in [
        ("/paths/~1v1~1volumes".to_string(), json!({"get": {"responses": {}}})),
        (format!("{GET}/responses/409"), json!({"description": "in use"})),
        (format!("{fields}/rank"), json!({"type": "integer"})),
        (format!("{fields}/state/enum"), json!(["ok", "full", "failed"])),
        (format!("{fields}/device/oneOf"), variants),
        (format!("{POOL}/required"), json!(["name", "size", "device", "state"])),
        (format!("{POOL}/description"), json!("a device with chunks on it")),
        (format!("{taken}/rank"), json!({"type": "integer"})),
        (format!("{taken}/name/type"), json!(["string", "integer"])),
        (format!("{taken}/mode/enum"), json!(["fast", "slow", "odd"])),
        (format!("{NEW}/required"), json!([])),
        ("/components/schemas/Unused".to_string(), tape),
    ] {
        let found = breaks(&document(), &planted(&pointer, value));
        assert_eq!(found, Vec::<String>::new(), "{pointer}");
    }
    assert_eq!(breaks(&document(), &document()), Vec::<String>::new());
    assert_eq!(operations(&document()), [("get", "/v1/pools"), ("post", "/v1/pools")]);
}

#[test]
fn a_version_says_whether_it_may_break() {
    for (old, new, expected) in [
        ("0.1.0", "0.1.0", false),
        ("0.1.0", "0.1.9", false),
        ("0.1.0", "0.2.0", true),
        ("0.9.0", "1.0.0", true),
        ("1.0.0", "1.7.0", false),
        ("1.7.0", "2.0.0", true),
        ("2.0.0", "1.9.0", false),
        ("0.2.0", "0.1.0", false),
    ] {
        assert_eq!(may_break(old, new), expected, "{old} → {new}");
    }
}
