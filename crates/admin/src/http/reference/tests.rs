//! A page from a small document.

use super::reference;
use utoipa::openapi::OpenApi;

const DOCUMENT: &str = r##"{
  "openapi": "3.1.0",
  "info": { "title": "clock", "description": "Tells the time.", "version": "1" },
  "paths": {
    "/v1/alarms/{name}": {
      "delete": {
        "summary": "Forgets an alarm.",
        "parameters": [{ "name": "name", "in": "path", "required": true,
                         "schema": { "type": "string" } }],
        "responses": { "204": { "description": "it is | was gone" },
                       "404": { "description": "there is none",
                                "content": { "application/json":
                                             { "schema": { "$ref": "#/components/schemas/Refused" } } } } }
      },
      "put": {
        "requestBody": { "content": { "application/json":
          { "schema": { "type": "array", "items": { "$ref": "#/components/schemas/Alarm" } } } } },
        "responses": {}
      }
    }
  },
  "components": { "schemas": {
    "Alarm": { "type": "object", "description": "When to ring.", "required": ["at"],
               "properties": { "at": { "type": "integer", "description": "Seconds." },
                               "loud": { "type": ["boolean", "null"] } } },
    "Refused": { "type": "string", "enum": ["late", "early"] }
  } }
}"##;

#[test]
fn requests_have_parameters_bodies_and_answers_and_types_have_fields() {
    let document: OpenApi = serde_json::from_str(DOCUMENT).expect("a document");
    let page = reference(&document);
    for part in [
        "# API: clock\n\nTells the time.\n",
        "### `DELETE /v1/alarms/{name}`\n\nForgets an alarm.\n",
        "| `name` | path, required | string |  |",
        "| 204 | none | it is \\| was gone |",
        "| 404 | [Refused](#refused) | there is none |",
        "### `PUT /v1/alarms/{name}`\n\nBody: list of [Alarm](#alarm).\n",
        "### Alarm\n\nWhen to ring.\n",
        "| `at` | integer | Seconds. |",
        "| `loud` | boolean or null, may be missing |  |",
        "### Refused\n\n`\"late\"`, `\"early\"`\n",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
}
