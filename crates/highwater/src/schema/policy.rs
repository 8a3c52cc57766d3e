//! Policy files: the core's switches, as it describes them.

use highwater_core::config::{PRESETS, Policy, PolicyField, Values};
use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use super::choice;

/// The schema.
pub(super) fn schema() -> Schema {
    let mut schema = json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "A policy: a preset, and the switches that are set otherwise. What a file does not name is as \
                        in the preset.",
    });
    let object = schema.ensure_object();
    let mut root = section();
    root["required"] = json!(["base"]);
    let own = &mut root["properties"];
    own["base"] = json!({
        "description": "The preset that the rest of the file overrides.",
        "type": "string",
        "oneOf": choice(PRESETS.iter().copied()),
    });
    own["name"] = json!({
        "description": "The name in reports; without it the file's.",
        "type": "string",
    });
    own["summary"] = json!({ "description": "One line about it, for lists.", "type": "string" });
    for field in Policy::describe() {
        let mut at = &mut root;
        let mut keys = field.path.split('.').peekable();
        while let Some(key) = keys.next() {
            at = &mut at["properties"][key];
            match keys.peek() {
                Some(_) if at.is_null() => *at = section(),
                Some(_) => {}
                None => *at = switch(&field),
            }
        }
    }
    if let Value::Object(root) = root {
        object.extend(root);
    }
    schema
}

fn section() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {} })
}

fn switch(field: &PolicyField) -> Value {
    let mut schema = match field.values {
        Values::Bool => json!({ "type": "boolean" }),
        Values::Numbers { min, max, .. } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        Values::Choices(choices) => {
            json!({ "type": "string", "oneOf": choice(choices.iter().map(|c| (c.name, c.doc))) })
        }
    };
    schema["description"] = field.doc.into();
    schema
}
