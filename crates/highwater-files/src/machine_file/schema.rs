//! Parts of machine files whose keys are declared elsewhere: sysctls in the core; figures of disks,
//! costs and caches in the simulator.

use std::ops::RangeInclusive;

use highwater_core::config::{TunableField, TunableForm, Tunables};
use highwater_core::page::{MAX_ORDER, MigrateType};
use highwater_core::zone::ZoneType;
use highwater_sim::cost::table::{CACHE_KEYS, described_keys};
use highwater_sim::cpu::SchedPolicy;
use highwater_sim::disk::{DiskSpec, FIGURES, Figure, FigureValue};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::disks::MODELS;
use crate::input::catalogue::texts::COSTS;
use crate::schema::{choice, flag, size};

/// `[tunables]`.
pub(crate) fn tunables(_: &mut SchemaGenerator) -> Schema {
    // Plain settings: they all have a form in JSON.
    let defaults = serde_json::to_value(Tunables::default()).unwrap_or_default();
    let settings: Map<String, Value> = Tunables::FIELDS
        .iter()
        .map(|field| (field.key.to_owned(), tunable(field, &defaults[field.key])))
        .collect();
    json_schema!({ "type": "object", "additionalProperties": false, "properties": settings })
}

fn tunable(field: &TunableField, default: &Value) -> Value {
    let mut schema = match field.form {
        TunableForm::Number => numbers(field.ranges),
        TunableForm::Numbers(count) => json!({
            "type": "array",
            "items": { "type": "integer", "minimum": 0 },
            "minItems": count,
            "maxItems": count,
        }),
        TunableForm::Bool => flag(),
        TunableForm::Word(words) => {
            json!({ "type": "string", "oneOf": choice(words.iter().map(|w| (w.name, w.doc))) })
        }
    };
    let about = [field.doc, &field.history()].join(" ");
    schema["description"] = about.trim_end().into();
    if !default.is_null() {
        schema["default"] = default.clone();
    }
    schema
}

/// A number in one of these ranges.
fn numbers(ranges: &[RangeInclusive<u64>]) -> Value {
    let range = |range: &RangeInclusive<u64>| {
        let (least, most) = (*range.start(), *range.end());
        match least == most {
            true => json!({ "const": least }),
            false if most == u64::MAX => json!({ "minimum": least }),
            false => json!({ "minimum": least, "maximum": most }),
        }
    };
    let mut schema = json!({ "type": "integer" });
    match ranges {
        [] => schema["minimum"] = 0.into(),
        [one] => {
            for (key, bound) in range(one).as_object().into_iter().flatten() {
                schema[key] = bound.clone();
            }
        }
        several => schema["anyOf"] = several.iter().map(range).collect::<Vec<_>>().into(),
    }
    schema
}

/// `costs`.
pub(crate) fn cost_tables(_: &mut SchemaGenerator) -> Schema {
    let mut examples: Vec<&str> = COSTS.iter().map(|(name, _)| *name).collect();
    // A table by its name, or the path of a file.
    let names = examples.join("|");
    examples.push("costs.toml");
    json_schema!({
        "type": "string",
        "format": "costs",
        "pattern": format!(r"^({names})$|/|\.toml$"),
        "examples": examples,
    })
}

/// `sched`.
pub(crate) fn sched(_: &mut SchemaGenerator) -> Schema {
    let all = SchedPolicy::ALL.iter().map(|policy| (policy.name(), policy.about()));
    json_schema!({ "type": "string", "oneOf": choice(all) })
}

/// `[cache]`.
pub(crate) fn cache(_: &mut SchemaGenerator) -> Schema {
    let properties: Map<String, Value> = CACHE_KEYS
        .into_iter()
        .map(|(key, unit, about)| (key.to_owned(), sourced(unit, 1, about)))
        .collect();
    json_schema!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": CACHE_KEYS.map(|(key, ..)| key),
    })
}

/// `[cost]`.
pub(crate) fn cost(_: &mut SchemaGenerator) -> Schema {
    let properties: Map<String, Value> =
        described_keys().map(|(key, about)| (key.to_owned(), sourced("ns", 0, about))).collect();
    json_schema!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// A figure and its source.
fn sourced(unit: &str, least: u64, about: &str) -> Value {
    json!({
        "description": about,
        "type": "object",
        "additionalProperties": false,
        "properties": {
            unit: { "type": "integer", "minimum": least },
            "source": { "description": "Source of the figure.", "type": "string", "pattern": r"\S" },
        },
        "required": [unit, "source"],
    })
}

/// `cpus` of a node, as [`crate::input::size::parse_ranges`] reads them.
pub(crate) fn cpus(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "format": "ranges",
        "pattern": r"^\s*([0-9]+\s*(-\s*[0-9]+\s*)?(,\s*[0-9]+\s*(-\s*[0-9]+\s*)?)*)?$",
        "examples": ["0-3,8"],
    })
}

/// `zone` of a zone.
pub(crate) fn zone_type(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = ZoneType::ALL.iter().map(|zone| zone.name()).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// `free` of a `[[state]]`.
pub(crate) fn blocks_by_type(_: &mut SchemaGenerator) -> Schema {
    let blocks = json!({
        "type": "array",
        "items": { "type": "integer", "minimum": 0 },
        "maxItems": MAX_ORDER,
    });
    by_type("Free blocks of each order.", &blocks)
}

/// `pageblocks` of a `[[state]]`.
pub(crate) fn pageblocks_by_type(_: &mut SchemaGenerator) -> Schema {
    by_type("Number of pageblocks.", &json!({ "type": "integer", "minimum": 0 }))
}

/// A value for each migratetype.
fn by_type(about: &str, value: &Value) -> Schema {
    let of = |migratetype: MigrateType| {
        let mut value = value.clone();
        value["description"] = about.into();
        (migratetype.name().to_owned(), value)
    };
    let properties: Map<String, Value> = MigrateType::ALL.into_iter().map(of).collect();
    json_schema!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// `[[disk]]`.
pub(crate) fn disks(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 256, "items": disk(generator) })
}

/// A disk.
pub fn disk(_: &mut SchemaGenerator) -> Schema {
    let models: Vec<(&str, DiskSpec)> =
        MODELS.iter().map(|(name, kind, _)| (*name, DiskSpec::new(*name, *kind, 1))).collect();
    let mut properties = Map::from_iter([
        (
            "name".to_owned(),
            json!({
                "description": "Name in reports and for swap; default: `disk` and its number.",
                "type": "string",
            }),
        ),
        (
            "model".to_owned(),
            json!({
                "description": "Disk model; figures that the file does not name are those of the model.",
                "type": "string",
                "oneOf": choice(MODELS.iter().map(|(name, _, about)| (*name, *about))),
            }),
        ),
        ("size".to_owned(), {
            let mut size = size().to_value();
            size["description"] = "Size, a whole number of 4 KiB pages.".into();
            size
        }),
        (
            "source".to_owned(),
            json!({
                "description": "Source of model and figures.",
                "type": "string",
                "pattern": r"\S",
            }),
        ),
    ]);
    for figure in FIGURES {
        properties.insert(figure.key.to_owned(), disk_figure(figure, &models));
    }
    let rules: Vec<Value> = models.iter().map(|(name, disk)| not_of(name, disk)).collect();
    json_schema!({
        "type": "object",
        "description": "A disk.",
        "additionalProperties": false,
        "properties": properties,
        "required": ["model", "size", "source"],
        "allOf": rules,
    })
}

/// A figure, with its value on each model that has it.
fn disk_figure(figure: &Figure, models: &[(&str, DiskSpec)]) -> Value {
    let mut schema = json!({});
    let mut usual = Vec::new();
    for (name, disk) in models {
        let Some(value) = figure.get(disk) else { continue };
        schema = match value {
            FigureValue::Number(_) => numbers(std::slice::from_ref(&figure.range)),
            FigureValue::Flag(_) => flag(),
            FigureValue::Word(_) => json!({ "type": "string", "enum": figure.words(disk) }),
        };
        usual.push(format!("`{name}` {}", value.to_string().trim_matches('"')));
    }
    schema["description"] = format!("{} Usually: {}.", figure.doc, usual.join(", ")).into();
    schema
}

/// Figures that a model does not have are errors.
fn not_of(model: &str, disk: &DiskSpec) -> Value {
    let strange: Map<String, Value> = FIGURES
        .iter()
        .filter(|figure| figure.get(disk).is_none())
        .map(|figure| (figure.key.to_owned(), false.into()))
        .collect();
    json!({
        "if": { "properties": { "model": { "const": model } } },
        "then": { "properties": strange },
    })
}
