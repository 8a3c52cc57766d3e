//! Plan files: [`Options`] as TOML.
//!
//! ```toml
//! experiment = "003"                # or run = "unmap"; a name, a number, or a file
//! quick = true
//! policies = ["5.4", "6.1"]         # the first is the baseline
//! seeds = 100
//!
//! [set]
//! vm.page_cluster = 0
//!
//! [vary]                            # a point for each combination
//! machine = ["laptop", "big.toml"]
//! vm.swappiness = [0, 60, 200]
//! ```
//!
//! A name with a slash, or that ends in `.toml`, is a file; its path is relative to the directory of the plan. Values of
//! `[set]` and `[vary]` are those of `--set` and `--vary`, in the order of the file. [`Options::to_toml`] writes what
//! [`Options::from_toml`] reads (`written`).

use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::vary::MACHINE;
use super::{Factor, MachineOptions, Options, Size};
use crate::experiment::HostKind;
use crate::settings::Said;
use highwater_files::input::catalogue::is_file;
use highwater_files::input::{InputError, Source, is_plan};
use highwater_files::machine_file::MachineArg;
use highwater_files::machine_file::equip::Storage;
use highwater_results::input;
use highwater_results::words::refusal;

/// Most seeds of a plan, simulations at a time, milliseconds between samples: as on the command line.
const SEEDS_MAX: u64 = 10_000;
const JOBS_MAX: u64 = 1024;
const SAMPLE_MS_MAX: u64 = 86_400_000;
/// Keys of which a plan has only one.
const EITHER: [[&str; 2]; 10] = [
    ["experiment", "run"],
    ["quick", "full"],
    ["machine", "mem"],
    ["machine", "cpus"],
    ["machine", "numa"],
    ["mem", "numa"],
    ["cpus", "numa"],
    ["policies", "beyond"],
    ["beyond", "ablate"],
    ["sample-every", "vary"],
];

/// A plan: what `highwater sweep` runs. Each key has the name of the option of `highwater compare`
/// that does the same.
// The file as it is written. `seed`, `set` and `vary` are read apart.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(
    rename = "Plan",
    extend("oneOf" = [{ "required": ["experiment"] }, { "required": ["run"] }])
)]
pub struct RawPlan {
    /// Experiment or job: a name, its number alone, or a file. A plan has this key or `run`.
    experiment: Option<String>,
    /// Workload or job, as `highwater run` runs it: one seed, unless `seeds` has another number, and
    /// the policy 6.1, unless `policies` has others. A workload of a study needs a machine.
    run: Option<String>,
    /// Run a short version, for a first look.
    quick: bool,
    /// Run with the experiment's own sizes and times, where it is smaller by default.
    full: bool,
    /// Machine instead of the experiment's own: a name or a file.
    machine: Option<String>,
    /// Instead of a machine's name: one node of this much memory, such as `"8G"`.
    mem: Option<String>,
    /// CPUs of that node.
    cpus: Option<u16>,
    /// Instead of a machine's name: nodes, each as `"SIZE,cpus=FIRST-LAST"`.
    numa: Vec<String>,
    /// Distances between two nodes, each as `"FROM,TO=DISTANCE"`.
    numa_distance: Vec<String>,
    /// Disk for a machine that has none: `"nvme"`, `"ssd"`, `"hdd"` or `"ram"`.
    disk: Option<String>,
    /// Swap of the machine, such as `"2G"`; `"0"`: no swap.
    swap: Option<String>,
    /// Directory with the free memory that the machine starts with: `zoneinfo`, `buddyinfo` and
    /// `pagetypeinfo`, as `highwater diagnose --state-out` writes them. Its path is relative to the
    /// plan's directory.
    state: Option<String>,
    /// Policies instead of the experiment's own, by name or file; the first is the baseline.
    policies: Vec<String>,
    /// Also run the experiment's policies that no kernel shipped.
    beyond: bool,
    /// Take the change from the first to the last policy apart.
    ablate: bool,
    /// Number of seeds of each policy on each machine (`--iterations`); default: the experiment's.
    #[schemars(range(min = 1, max = 10_000))]
    seeds: Option<u32>,
    /// The first seed; default: 1. A number above 2^63 is a text.
    #[schemars(schema_with = "seed")]
    seed: Option<u64>,
    /// Simulations at a time; default: one per CPU.
    #[schemars(range(min = 1, max = 1024))]
    jobs: Option<usize>,
    /// Where it runs: in virtual time (`"sim"`, the default), or on this computer's threads and
    /// memory (`"native"`). `highwater sweep` runs in virtual time only.
    #[schemars(schema_with = "host")]
    host: Option<String>,
    /// Milliseconds of virtual time between two samples of counters; default: no samples. Not with
    /// `vary`.
    #[schemars(range(min = 1, max = 86_400_000))]
    sample_every: Option<u64>,
    /// Also keep the story of the first seed, from which charts are drawn. A grid keeps none.
    story: bool,
    /// Also show histograms of throttled sleeps.
    histograms: bool,
    /// Keys that are set, as with `--set KEY=VALUE`: `vm.swappiness = 10`.
    #[serde(rename = "set")]
    #[schemars(schema_with = "set")]
    _set: Option<toml::Table>,
    /// Keys that take several values, as with `--vary KEY=A,B`: a point for each combination. The
    /// key `machine` has machines by name or file.
    #[serde(rename = "vary")]
    #[schemars(schema_with = "vary")]
    _vary: Option<toml::Table>,
}

fn one_value() -> Value {
    let types = ["string", "number", "boolean"].map(|kind| json!({ "type": kind }));
    let list = json!({ "type": "array", "items": { "anyOf": types } });
    json!(types.into_iter().chain([list]).collect::<Vec<_>>())
}

/// A table of keys; `format` says how a page writes one of its lines.
fn by_key(format: &str, mut values: Value) -> Schema {
    // A key with dots is a table in a table.
    if let Value::Array(values) = &mut values {
        values.push(json!({ "type": "object" }));
    }
    let each = json!({ "anyOf": values });
    json_schema!({ "type": "object", "format": format, "additionalProperties": each })
}

fn set(_: &mut SchemaGenerator) -> Schema {
    by_key("settings", one_value())
}

fn vary(_: &mut SchemaGenerator) -> Schema {
    by_key(
        "factors",
        json!([{ "type": "array", "items": { "anyOf": one_value() }, "minItems": 1 }]),
    )
}

fn seed(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }] })
}

fn host(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["sim", "native"] })
}

impl Options {
    /// The options of a plan file; none if the name is no file, or the file is none of a plan.
    ///
    /// # Errors
    /// If the plan is not valid.
    pub fn of_plan_file(name: &str) -> Result<Option<Options>, InputError> {
        if !is_file(name) {
            return Ok(None);
        }
        match input::read_text(name, input::DEFINITION_BYTES_MAX) {
            Ok(text) if is_plan(&text) => Options::from_toml(name, &text).map(Some),
            // The loader of experiments says what else it is, or why it cannot be read.
            _ => Ok(None),
        }
    }

    /// The options of a plan file.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid.
    pub fn load(file: impl AsRef<Path>) -> Result<Options, InputError> {
        let name = file.as_ref().display().to_string();
        let text = input::read_text(file, input::DEFINITION_BYTES_MAX).map_err(|error| {
            InputError::whole(&*name, format!("cannot be read: {}", refusal(&error)))
        })?;
        Options::from_toml(&name, &text)
    }

    /// Reads the text of a plan; `file` names it in errors, and files in it are relative to its
    /// directory.
    ///
    /// # Errors
    /// Names file, line and key.
    pub fn from_toml(file: &str, text: &str) -> Result<Options, InputError> {
        let source = Source { file, text };
        let parsed = DeTable::parse(text).map_err(|error| source.toml(&error))?;
        let span = parsed.span();
        let mut root = parsed.into_inner();
        check_either(&root, source)?;
        let seed = root.remove("seed").map(|value| seed_of(&value, source)).transpose()?;
        let [set, vary] = ["set", "vary"].map(|key| root.remove(key));
        let settings = pairs(set.as_ref(), "set", source)?;
        let factors = pairs(vary.as_ref(), "vary", source)?;
        let places = root.clone();
        let root = Spanned::new(span, DeValue::Table(root));
        let raw = RawPlan::deserialize(ValueDeserializer::from(root))
            .map_err(|error| source.toml(&error))?;
        let wrong = |key: &str, reason: &str| {
            let span = places.get(key).map_or(0..0, Spanned::span);
            source.at(span, key, reason)
        };
        for (key, value, most) in [
            ("seeds", raw.seeds.map(u64::from), SEEDS_MAX),
            ("jobs", raw.jobs.map(|jobs| jobs as u64), JOBS_MAX),
            ("sample-every", raw.sample_every, SAMPLE_MS_MAX),
        ] {
            if value.is_some_and(|value| !(1..=most).contains(&value)) {
                return Err(wrong(key, &format!("must be a number from 1 to {most}")));
            }
        }
        let host = match raw.host.as_deref() {
            None | Some("sim") => HostKind::Sim,
            Some("native") => HostKind::Native,
            Some(_) => return Err(wrong("host", "must be \"sim\" or \"native\"")),
        };
        let beside = |name: String| beside(file, name);
        let of = match (raw.experiment, raw.run) {
            (Some(name), _) => Options::compare(beside(name)),
            (None, Some(name)) => Options::run(beside(name)),
            (None, None) => {
                let reason =
                    "nothing is to run: a plan has experiment = \"NAME\" or run = \"NAME\"";
                return Err(InputError::whole(file, reason));
            }
        };
        let arg = MachineArg {
            name: raw.machine.map(beside),
            mem: raw.mem,
            cpus: raw.cpus,
            numa: raw.numa,
            numa_distance: raw.numa_distance,
        };
        Ok(Options {
            size: match (raw.quick, raw.full) {
                (true, _) => Size::Quick,
                (_, true) => Size::Full,
                _ => Size::AsWritten,
            },
            machine: MachineOptions {
                arg,
                storage: Storage::new(raw.disk, raw.swap),
                state: raw.state.map(|dir| beside_dir(file, dir)),
            },
            policies: raw.policies.into_iter().map(beside).collect(),
            beyond: raw.beyond,
            ablate: raw.ablate,
            settings: settings.iter().map(|pair| pair.said(source)).collect::<Result<_, _>>()?,
            vary: factors.iter().map(|pair| pair.factor(source)).collect::<Result<_, _>>()?,
            iterations: raw.seeds,
            seed: seed.unwrap_or(of.seed),
            jobs: raw.jobs,
            host,
            sample_every_ms: raw.sample_every,
            story: raw.story,
            histograms: raw.histograms,
            ..of
        })
    }
}

/// A name in a plan: of a file the path from the plan's directory.
fn beside(file: &str, name: String) -> String {
    let is_path = name.contains('/') || name.ends_with(".toml");
    match Path::new(file).parent().filter(|_| is_path) {
        Some(dir) => dir.join(name).display().to_string(),
        None => name,
    }
}

/// The path of a directory from the plan's directory.
fn beside_dir(file: &str, name: String) -> String {
    Path::new(file).parent().map_or(name.clone(), |dir| dir.join(name).display().to_string())
}

/// Refuses two keys that exclude each other.
fn check_either(root: &DeTable<'_>, source: Source<'_>) -> Result<(), InputError> {
    let is_on = |key: &str| root.get(key).filter(|value| value.get_ref().as_bool() != Some(false));
    for [one, other] in EITHER {
        if let (Some(_), Some(value)) = (is_on(one), is_on(other)) {
            return Err(source.at(
                value.span(),
                other,
                format!("there is \"{one}\", too: one or the other"),
            ));
        }
    }
    Ok(())
}

fn seed_of(value: &Spanned<DeValue<'_>>, source: Source<'_>) -> Result<u64, InputError> {
    let number = match value.get_ref() {
        DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str().parse().ok(),
        DeValue::String(text) => text.parse().ok(),
        _ => None,
    };
    let wrong = || source.at(value.span(), "seed", "must be a number, 0 or more");
    number.ok_or_else(wrong)
}

/// A key of `[set]` or `[vary]` with its value.
struct Pair<'t, 'a> {
    key: String,
    at: usize,
    value: &'t Spanned<DeValue<'a>>,
    file: &'t str,
}

/// The pairs of a table, in the order of the file.
fn pairs<'t, 'a>(
    table: Option<&'t Spanned<DeValue<'a>>>,
    name: &str,
    source: Source<'t>,
) -> Result<Vec<Pair<'t, 'a>>, InputError> {
    let Some(value) = table else { return Ok(Vec::new()) };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(source.at(value.span(), name, format!("must be a table: [{name}]")));
    };
    let mut pairs = Vec::new();
    flatten(table, "", source.file, &mut pairs);
    pairs.sort_by_key(|pair| pair.at);
    Ok(pairs)
}

/// Adds the keys of a table, and with a dot those of the tables in it.
fn flatten<'t, 'a>(
    table: &'t DeTable<'a>,
    before: &str,
    file: &'t str,
    pairs: &mut Vec<Pair<'t, 'a>>,
) {
    for (key, value) in table {
        let at = key.span().start;
        let key = format!("{before}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(below) => flatten(below, &format!("{key}."), file, pairs),
            _ => pairs.push(Pair { key, at, value, file }),
        }
    }
}

impl Pair<'_, '_> {
    /// Of `[set]`.
    fn said(&self, source: Source<'_>) -> Result<Said, InputError> {
        Ok(Said::set(format!("{}={}", self.key, self.text(self.value, source)?)))
    }

    /// Of `[vary]`.
    fn factor(&self, source: Source<'_>) -> Result<Factor, InputError> {
        let wrong = |reason: &str| source.at(self.value.span(), &*self.key, reason);
        let Some(list) = self.value.get_ref().as_array().filter(|list| !list.is_empty()) else {
            return Err(wrong("must be a list of values"));
        };
        let texts = list.iter().map(|value| self.text(value, source));
        let mut values = texts.collect::<Result<Vec<String>, _>>()?;
        if self.key == MACHINE {
            values = values.into_iter().map(|name| beside(self.file, name)).collect();
        }
        let factor = Factor { key: self.key.clone(), values };
        factor.check(&factor.to_string()).map_err(|error| {
            let reason = error.to_string();
            let (_, reason) = reason.split_once(": ").unwrap_or(("", &reason));
            wrong(reason)
        })?;
        Ok(factor)
    }

    /// A value as `--set` takes it.
    fn text(&self, value: &Spanned<DeValue<'_>>, source: Source<'_>) -> Result<String, InputError> {
        let wrong = |reason: &str| source.at(value.span(), &*self.key, reason);
        Ok(match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str().to_owned(),
            DeValue::Integer(_) => return Err(wrong("must be a decimal number")),
            DeValue::Float(digits) => digits.as_str().to_owned(),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Array(list) => {
                let item = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
                    DeValue::Array(_) => Err(wrong("is a list in a list")),
                    // In a list, a text needs its quotes.
                    DeValue::String(text) => Ok(toml::Value::String(text.to_string()).to_string()),
                    _ => self.text(value, source),
                };
                let items = list.iter().map(item).collect::<Result<Vec<_>, _>>()?;
                format!("[{}]", items.join(","))
            }
            DeValue::Datetime(_) | DeValue::Table(_) => {
                return Err(wrong("must be a number, a text, true or false, or a list of these"));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "experiment = \"jobs/my.toml\"\nquick = true\nmachine = \"laptop\"\n\
                        policies = [\"5.4\", \"own.toml\"]\nseeds = 100\nseed = 7\n\
                        [set]\nvm.swappiness = 10\nunmap.processes = [1, 2]\nvm.page_cluster = 0\n\
                        \"policy.watermark.boost\" = false\n\
                        [vary]\nb.x = [0.5, \"a b\"]\na.lists = [[1, 2], [3]]\nb.y = [\"1\", 2]\n";

    #[test]
    fn a_plan_says_what_a_command_line_says() {
        let options = Options::from_toml("some/dir/plan.toml", PLAN).unwrap();
        let words = "highwater compare some/dir/jobs/my.toml --quick --iterations 100 --seed 7 --machine laptop \
                     --policy 5.4 --policy some/dir/own.toml --set vm.swappiness=10 --set unmap.processes=[1,2] \
                     --set vm.page_cluster=0 --set policy.watermark.boost=false --vary b.x=0.5,a b \
                     --vary a.lists=[1,2],[3] --vary b.y=1,2";
        assert_eq!(options.command_line().join(" "), words);
        let plain = Options::from_toml("plan.toml", "run = \"unmap\"\nquick = false\n").unwrap();
        assert_eq!(plain, Options::run("unmap"));
        let machines =
            "experiment = \"3\"\n[vary]\nmachine = [\"laptop\", \"m.toml\", \"/m.toml\"]\n";
        let options = Options::from_toml("d/p.toml", machines).unwrap();
        assert_eq!(options.vary[0].to_string(), "machine=laptop,d/m.toml,/m.toml");
        let state = Options::from_toml("d/p.toml", "run = \"unmap\"\nstate = \"s\"\n").unwrap();
        assert_eq!(state.command_line().join(" "), "highwater run unmap --state d/s");
    }

    #[test]
    fn mistakes_name_line_and_key() {
        let error = |from: &str, to: &str| {
            assert!(PLAN.contains(from), "{from}");
            let text = PLAN.replacen(from, to, 1);
            Options::from_toml("p.toml", &text).unwrap_err().to_string()
        };
        for (from, to, said) in [
            (
                "quick = true",
                "quik = true",
                "p.toml:2: quik: unknown field `quik`; did you mean quick?",
            ),
            ("quick = true", "quick = 3", "p.toml:2: quick: must be true or false; not 3"),
            ("seeds = 100", "seeds = 0", "p.toml:5: seeds: must be a number from 1 to 10000"),
            ("seed = 7", "seed = -1", "p.toml:6: seed: must be a number, 0 or more"),
            (
                "seed = 7",
                "mem = \"1G\"",
                "p.toml:6: mem: there is \"machine\", too: one or the other",
            ),
            ("seed = 7", "run = \"x\"", "p.toml:6: run: there is \"experiment\", too"),
            ("seed = 7", "beyond = true", "p.toml:6: beyond: there is \"policies\", too"),
            ("seed = 7", "host = \"moon\"", "p.toml:6: host: must be \"sim\" or \"native\""),
            ("seed = 7", "sample-every = 5", "too: one or the other"),
            (
                "vm.swappiness = 10",
                "vm.swappiness = 1979-05-27",
                "p.toml:8: vm.swappiness: must be a number, ",
            ),
            ("[0.5, \"a b\"]", "0.5", "p.toml:13: b.x: must be a list of values"),
            ("[0.5, \"a b\"]", "[]", "p.toml:13: b.x: must be a list of values"),
            ("[0.5, \"a b\"]", "[1, 1]", "p.toml:13: b.x: 1 comes twice"),
            ("b.x = [0.5", "seed = [0.5", "p.toml:13: seed: every point runs the same seeds"),
            ("[[1, 2], [3]]", "[[[1]]]", "p.toml:14: a.lists: is a list in a list"),
            ("[set]", "[sets]", "unknown field `sets`"),
        ] {
            let error = error(from, to);
            assert!(error.contains(said), "{to}: {error}");
        }
        let table =
            Options::from_toml("p.toml", "run = \"x\"\nvary = 1\n").unwrap_err().to_string();
        assert_eq!(table, "p.toml:2: vary: must be a table: [vary]");
        let nothing = Options::from_toml("p.toml", "quick = true\n").unwrap_err().to_string();
        assert!(nothing.starts_with("p.toml: nothing is to run: "), "{nothing}");
    }

    #[test]
    fn the_keys_are_those_of_the_schema() {
        let schema = schemars::schema_for!(RawPlan);
        let keys = schema.get("properties").and_then(Value::as_object).unwrap();
        for key in EITHER.iter().flatten().chain(&["seed", "set", "vary"]) {
            assert!(keys.contains_key(*key), "{key}");
        }
    }
}
