//! JSON Schemas (draft 2020-12) of the files that the program reads and writes.
//!
//! ```text
//! types of highwater-results ────────────derive──▶ results, columns,       written files
//!                                                  explanation
//! claims::Claim ────────────────────────derive──▶ results (claims)
//! bisect::Report ───────────────────────derive──▶ bisect
//! ledger::Sweep ────────────────────────derive──▶ sweep
//! Raw types of files, params! ───────────derive──▶ experiment, machine,    accepted files
//!                                                  plan
//! Tunables::FIELDS, FIGURES, cost keys ──by hand─▶ machine
//! Policy::describe ──────────────────────by hand─▶ policy
//! ```
//!
//! TOML files are validated as the equivalent JSON. A schema accepts every file that the program
//! accepts. It refuses unknown keys if the program does. Only the program finds errors that involve
//! several values (a label used twice, a swap area larger than its disk). `highwater show schema`
//! prints one schema, `docs/schemas` has them as files, and the book's pages about formats are made
//! from them.

mod experiment;
mod policy;

use highwater_report::claims::Claim;
use highwater_results::explain::Explanation;
use highwater_results::{Columns, Document};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

pub(crate) use highwater_files::schema::{choice, flag};

use crate::bisect::Report;
use crate::ledger::Sweep;
use crate::machine_file::Raw as RawMachine;
use crate::plan::RawPlan;
use crate::workload::Registry;
use crate::workload::job::FLAGS;

/// What there are schemas of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What `compare` and `run` write.
    Results,
    /// Units of the columns of tables over time.
    Columns,
    /// What `explain` writes.
    Explanation,
    /// The answer of `bisect`.
    Bisect,
    /// The plan in the directory of `sweep`.
    Sweep,
    /// The file of an experiment.
    Experiment,
    /// The file of a plan.
    Plan,
    /// The file of a machine.
    Machine,
    /// The file of a policy.
    Policy,
}

impl Kind {
    /// All.
    pub const ALL: &'static [Kind] = &[
        Kind::Results,
        Kind::Columns,
        Kind::Explanation,
        Kind::Bisect,
        Kind::Sweep,
        Kind::Experiment,
        Kind::Plan,
        Kind::Machine,
        Kind::Policy,
    ];

    /// The name on the command line, and of the published file.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Results => "results",
            Kind::Columns => "columns",
            Kind::Explanation => "explanation",
            Kind::Bisect => "bisect",
            Kind::Sweep => "sweep",
            Kind::Experiment => "experiment",
            Kind::Plan => "plan",
            Kind::Machine => "machine",
            Kind::Policy => "policy",
        }
    }

    /// The schema. That of experiments knows the workloads of the registry.
    pub fn schema(self, registry: &Registry) -> Schema {
        let written = || SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut schema = match self {
            Kind::Results => results(written()),
            Kind::Columns => written().into_root_schema_for::<Columns>(),
            Kind::Explanation => written().into_root_schema_for::<Explanation>(),
            Kind::Bisect => written().into_root_schema_for::<Report>(),
            Kind::Sweep => written().into_root_schema_for::<Sweep>(),
            Kind::Experiment => experiment::schema(read(), registry),
            Kind::Plan => read().into_root_schema_for::<RawPlan>(),
            Kind::Machine => read().into_root_schema_for::<RawMachine>(),
            Kind::Policy => policy::schema(),
        };
        let title = match self {
            Kind::Results => "Results of highwater compare and highwater run",
            Kind::Columns => "Units of the columns of tables over time",
            Kind::Explanation => "What highwater explain writes",
            Kind::Bisect => "What highwater bisect writes",
            Kind::Sweep => "The plan of a directory of highwater sweep",
            Kind::Experiment => "An experiment of Highwater",
            Kind::Plan => "A plan of highwater sweep",
            Kind::Machine => "A machine of Highwater",
            Kind::Policy => "A policy of Highwater",
        };
        schema.insert("title".to_owned(), title.into());
        // A trial without a value has null; everywhere else a key is missing.
        if self != Kind::Bisect {
            RecursiveTransform(without_null).transform(&mut schema);
        }
        if self == Kind::Experiment {
            RecursiveTransform(job_flags).transform(&mut schema);
        }
        RecursiveTransform(tidy).transform(&mut schema);
        schema
    }

    /// The schema as a text.
    pub fn text(self, registry: &Registry) -> String {
        // Plain JSON: it cannot fail.
        serde_json::to_string_pretty(&self.schema(registry)).unwrap_or_default() + "\n"
    }
}

/// For files that are read.
fn read() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

/// A document, with the tables and claims that `--format json` prints below it.
fn results(mut generator: SchemaGenerator) -> Schema {
    let mut claims = generator.subschema_for::<Vec<Claim>>();
    let about = "The published claims, made from all the rest: what was published, what came out here, and how far the \
                 author's other postings repeat it. What `--format json` prints has them; `--out` keeps them as \
                 `claims.csv`.";
    claims.insert("description".to_owned(), about.into());
    let mut schema = generator.into_root_schema_for::<Document>();
    let tables = json!({
        "description": "The tables of the report, made from all the rest. What `--format json` prints has them; \
                        what `--out` keeps does not.",
        "type": "array",
        "items": { "type": "object" },
    });
    let all = properties(&mut schema);
    all.insert("tables".to_owned(), tables);
    all.insert("claims".to_owned(), claims.to_value());
    schema
}

/// The properties of an object's schema.
fn properties(schema: &mut Schema) -> &mut Map<String, Value> {
    let properties = schema.ensure_object().entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    match properties {
        Value::Object(map) => map,
        _ => unreachable!("it was made one"),
    }
}

/// Gives the flags of a job's tables the schema of [`flag`].
fn job_flags(schema: &mut Schema) {
    let Some(Value::Object(keys)) = schema.get_mut("properties") else { return };
    for (key, value) in keys {
        if value["type"] == "boolean" && FLAGS.contains(&key.as_str()) {
            let Value::Object(value) = value else { continue };
            value.shift_remove("type");
            value.insert("enum".to_owned(), flag()["enum"].clone());
        }
    }
}

/// TOML has no null, and results leave out a key that has no value.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(variants)) = object.get_mut("anyOf") {
        variants.retain(|variant| variant["type"] != "null");
        if let [Value::Object(only)] = &variants[..] {
            let only = only.clone();
            object.shift_remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
}

/// Cleans one schema up for readers: no meaningless defaults, and no line breaks inside paragraphs.
fn tidy(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    // A table's default is that of its keys.
    if matches!(object.get("default"), Some(Value::Null | Value::Object(_))) {
        object.shift_remove("default");
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_missing_is_not_null() {
        #[derive(schemars::JsonSchema, serde::Deserialize)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Inner {
            text: Option<String>,
        }
        /// Of two
        /// lines.
        #[derive(schemars::JsonSchema, serde::Deserialize)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Outer {
            /// What is inside.
            inner: Option<Inner>,
        }
        let mut schema = read().into_root_schema_for::<Outer>();
        RecursiveTransform(without_null).transform(&mut schema);
        RecursiveTransform(tidy).transform(&mut schema);
        let value = schema.to_value();
        assert!(!value.to_string().contains("null"), "{value}");
        assert_eq!(value["description"], "Of two lines.");
        assert_eq!(value["properties"]["inner"]["$ref"], "#/$defs/Inner");
        assert_eq!(value["properties"]["inner"]["description"], "What is inside.");
        assert_eq!(value["$defs"]["Inner"]["properties"]["text"]["type"], "string");
    }
}
