//! Experiment files: the schema of the types, and the table of parameters of each workload.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{choice, properties};
use crate::experiment::RawExperiment;
use crate::workload::{Entry, Registry};

/// The schema, for the workloads of a registry.
pub(super) fn schema(mut generator: SchemaGenerator, registry: &Registry) -> Schema {
    let entries = registry.entries();
    let params: Vec<Value> =
        entries.iter().map(|entry| parameters(entry, &mut generator)).collect();
    let mut schema = generator.into_root_schema_for::<RawExperiment>();
    let table = |entry: &Entry, about: String| json!({ "description": about, "$ref": format!("#/$defs/{}", entry.name) });

    let root = properties(&mut schema);
    root["workload"]["oneOf"] = choice(entries.iter().map(|e| (e.name, e.about))).into();
    for entry in entries {
        let about = format!("Parameters of the workload `{}`.", entry.name);
        root.insert(entry.name.to_owned(), table(entry, about));
    }
    // Missing lists are read as empty ones, which are errors.
    for list in ["policy", "machine"] {
        if let Some(Value::Object(list)) = properties(&mut schema).get_mut(list) {
            list.shift_remove("default");
        }
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.extend(["policy", "machine"].map(Value::from));
    }
    if let Some(defs) = schema.ensure_object().get_mut("$defs") {
        for entry in entries {
            let about = format!("Keys of the table `[{}]` that it overrides.", entry.name);
            defs["Change"]["properties"][entry.name] = table(entry, about);
        }
        for (entry, params) in entries.iter().zip(params) {
            defs[entry.name] = params;
        }
    }
    let rules: Vec<Value> = entries.iter().map(|entry| alone(entry, entries)).collect();
    schema.insert("allOf".to_owned(), rules.into());
    schema
}

/// The parameters of a workload, with their conditions.
fn parameters(entry: &Entry, generator: &mut SchemaGenerator) -> Value {
    let mut schema = (entry.schema)(generator);
    let all = properties(&mut schema);
    for param in entry.params {
        let Some(Value::Object(property)) = all.get_mut(&param.key()) else { continue };
        let mut text = param.doc.trim().to_owned();
        for rule in param.rules {
            text += &format!(" {}.", capitalised(rule));
        }
        property.insert("description".to_owned(), text.into());
    }
    schema.insert("description".to_owned(), format!("{}.", capitalised(entry.about)).into());
    schema.to_value()
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// Tables of other workloads are errors.
fn alone(entry: &Entry, all: &[Entry]) -> Value {
    let mut others = Map::new();
    for other in all.iter().filter(|other| other.name != entry.name) {
        others.insert(other.name.to_owned(), false.into());
    }
    let mut then = others.clone();
    for size in ["quick", "full"] {
        then.insert(size.to_owned(), json!({ "properties": others }));
    }
    json!({
        "if": { "properties": { "workload": { "const": entry.name } } },
        "then": { "properties": then },
    })
}
