//! Policy files: the core's switches, as it describes them.

use highwater_core::config::{Policy, PolicyField, Values};
use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use super::{choice, flag};
use crate::policy_file;

/// The schema.
pub(super) fn schema() -> Schema {
    let mut schema = json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "A policy: its base and the switches that it changes. All other switches are as in the base.",
    });
    let object = schema.ensure_object();
    let mut root = section();
    root["required"] = json!(["base"]);
    let bases = policy_file::all();
    let own = &mut root["properties"];
    own["base"] = json!({
        "description": "Policy that the file changes: one of those that `list policies` shows.",
        "type": "string",
        "oneOf": choice(bases.iter().map(|(name, about)| (name.as_str(), about.as_str()))),
    });
    own["name"] = json!({
        "description": "Name in reports; default: the file's name.",
        "type": "string",
    });
    own["kernel"] = json!({
        "description": "Linux version (`\"5.18\"`), which decides the sysctls that exist; default: that of `base`.",
        "type": "string",
        "pattern": r"^[0-9]+\.[0-9]+",
    });
    own["own"] = json!({
        "description": "Policy whose custom code this one uses, in a program that has that code.",
        "type": "string",
    });
    own["summary"] = json!({ "description": "One line about it, for lists.", "type": "string" });
    let (without_section, within): (Vec<_>, Vec<_>) =
        Policy::describe().into_iter().partition(|field| !field.path.contains('.'));
    for field in without_section {
        *place(&mut root, &field.path) = switch(&field);
    }
    // Create the outer sections first.
    for (path, about) in Policy::sections() {
        let at = place(&mut root, &path);
        *at = section();
        at["description"] = about.into();
    }
    for field in within {
        *place(&mut root, &field.path) = switch(&field);
    }
    if let Value::Object(root) = root {
        object.extend(root);
    }
    schema
}

/// Where the schema of a path belongs.
fn place<'s>(root: &'s mut Value, path: &str) -> &'s mut Value {
    path.split('.').fold(root, |at, key| &mut at["properties"][key])
}

fn section() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {} })
}

fn switch(field: &PolicyField) -> Value {
    let mut schema = match field.values {
        Values::Bool => flag(),
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
