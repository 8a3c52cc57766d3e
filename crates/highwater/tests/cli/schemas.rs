//! The published schemas: what is written is as they say, and files are judged by them as by the program.

use std::fs;

use highwater::experiment::Experiment;
use highwater::machine_file::MachineFile;
use highwater::plan::Options;
use highwater::policy_file;
use highwater::schema::Kind;
use highwater::workload::Registry;
use highwater_core::config::{Policy, Value as Setting};
use jsonschema::Validator;
use serde_json::{Value, json};

use super::{SMALL, determinism, root, stdout, stutterp};

fn schema(kind: Kind) -> Value {
    let text = stdout(&["show", "schema", kind.name()]);
    let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
    jsonschema::meta::validate(&schema).expect("a schema is one");
    schema
}

fn validator(schema: &Value) -> Validator {
    jsonschema::validator_for(schema).expect("a schema refers to nothing outside")
}

/// The same schema, but what it does not name must not be there.
fn closed(mut schema: Value) -> Value {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(object) => {
                object.values_mut().for_each(close);
                if object.get("properties").is_some_and(Value::is_object) {
                    object.entry("additionalProperties").or_insert(false.into());
                }
            }
            Value::Array(several) => several.iter_mut().for_each(close),
            _ => {}
        }
    }
    close(&mut schema);
    schema
}

fn complaints(validator: &Validator, value: &Value) -> Vec<String> {
    let line = |error: jsonschema::ValidationError<'_>| {
        format!(
            "{}: {}",
            error.instance_path(),
            error.to_string().chars().take(200).collect::<String>()
        )
    };
    validator.iter_errors(value).map(line).collect()
}

/// Checks a document against its schema and every broken version of it: a place in it, and what stands there instead
/// (null: nothing).
fn check_written(kind: Kind, document: &Value, broken: &[(&str, Value)]) {
    let schema = schema(kind);
    let validator = validator(&schema);
    assert_eq!(complaints(&validator, document), [""; 0]);
    // Nothing is written that the schema does not tell of.
    assert_eq!(complaints(&self::validator(&closed(schema)), document), [""; 0]);
    for (place, value) in broken {
        let mut wrong = document.clone();
        let (parent, key) = place.rsplit_once('/').expect("a place");
        let parent = wrong.pointer_mut(parent).unwrap_or_else(|| panic!("{place} is there"));
        match parent {
            Value::Object(object) if value.is_null() => {
                object.remove(key).unwrap_or_else(|| panic!("{place} is there"));
            }
            Value::Object(object) => {
                object.insert(key.to_owned(), value.clone());
            }
            _ => panic!("{place} is in an object"),
        }
        assert!(!validator.is_valid(&wrong), "{place} = {value}");
    }
}

#[test]
fn results_are_as_their_schema_says() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let broken = [
        ("/schema", json!("highwater.compare/1")),
        ("/seed", Value::Null),
        ("/seed", json!(-1)),
        ("/host", json!("moon")),
        ("/runs/0/samples/0/values", json!(["1"])),
        ("/runs/0/samples/0/value", json!(1)),
        ("/runs/0/counters/pgfault", json!("many")),
        ("/runs/0/per_seed/0/times", Value::Null),
        ("/runs/0/histograms", json!({})),
        ("/metrics/0/better", json!("sideways")),
        ("/sections/0/section", json!("else")),
        ("/machines/0/definition", Value::Null),
    ];
    let of_001 = stutterp::write(dir.path(), stutterp::EXPERIMENT);
    let of_002 = determinism::small(dir.path());
    let runs = [
        &[of_001.as_str(), "--quick", "--histograms"][..],
        &[&of_002, "--quick"],
        &["003", "--quick", "--machine", SMALL],
    ];
    for (at, of) in runs.iter().enumerate() {
        let out = dir.path().join(at.to_string());
        let out = out.to_str().expect("its name is text");
        let printed = stdout(&[&["compare"][..], of, &["--format", "json", "--out", out]].concat());
        let kept = fs::read_to_string(format!("{out}/results.json")).expect("results");
        let [printed, kept] = [&printed, &kept]
            .map(|text| serde_json::from_str::<Value>(text).expect("a document is JSON"));
        check_written(Kind::Results, &kept, &broken);
        check_written(Kind::Results, &printed, &broken);
        assert!(kept.get("tables").is_none() && printed["tables"].is_array());
    }
}

#[test]
fn explanations_are_as_their_schema_says() {
    let explain = ["explain", "003", "--quick", "--machine", SMALL, "--worst", "2"];
    let text = stdout(&[&explain[..], &["--format", "json"]].concat());
    let broken = [
        ("/schema", json!("highwater.compare/2")),
        ("/runs/0/locks", Value::Null),
        ("/runs/0/worst/0/causes/ns", json!("long")),
        ("/runs/0/worst/0/causes/children/0/name", Value::Null),
        ("/runs/0/bands/0/count", json!(-1)),
    ];
    let document = serde_json::from_str(&text).expect("an explanation is JSON");
    check_written(Kind::Explanation, &document, &broken);
}

#[test]
fn answers_of_bisect_are_as_their_schema_says() {
    let bisect = ["bisect", "5.4", "5.10", super::bisect::STREAM, "--machine", SMALL];
    let more =
        ["--seeds", "2", "--set", "job.seconds=0.5", "--metric", "pswpin", "--format", "json"];
    let document = serde_json::from_str(&stdout(&[&bisect[..], &more].concat()));
    let document: Value = document.expect("an answer is JSON");
    assert!(document["answer"].as_array().is_some_and(|answer| !answer.is_empty()), "{document}");
    let broken = [
        ("/schema", json!("highwater.bisect/0")),
        ("/from/mean", Value::Null),
        ("/sentence", json!(7)),
        ("/is_significant", json!("yes")),
        ("/trials/0/values", json!(["1"])),
        ("/switches/0/path", Value::Null),
    ];
    check_written(Kind::Bisect, &document, &broken);
    // A trial without a value has null.
    let mut none = document;
    for place in ["/change_limits", "/left_without", "/trials/0/values/0", "/trials/1/part"] {
        *none.pointer_mut(place).unwrap_or_else(|| panic!("{place} is there")) = Value::Null;
    }
    check_written(Kind::Bisect, &none, &[]);
}

#[test]
fn plans_of_sweeps_are_as_their_schema_says() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let out = dir.path().to_str().expect("its name is text");
    let sweep = ["sweep", "003", "--quick", "--machine", SMALL, "--vary", "unmap.rounds=1,2"];
    stdout(&[&sweep[..], &["--out", out, "--shard", "1/1000"]].concat());
    let text = fs::read_to_string(dir.path().join("sweep.json")).expect("a plan");
    let broken = [
        ("/schema", json!("highwater.sweep/0")),
        ("/keys", Value::Null),
        ("/plan", json!(7)),
        ("/units/0/id", json!("a7")),
        ("/units/0/values", json!([1])),
        ("/units/0/seed", json!(-1)),
        ("/units/0/label", Value::Null),
    ];
    check_written(Kind::Sweep, &serde_json::from_str(&text).expect("it is JSON"), &broken);
}

/// What the program says to a file.
fn accepts(kind: Kind, text: &str) -> Result<(), String> {
    let said = |error: highwater::InputError| error.to_string();
    match kind {
        Kind::Experiment => {
            Experiment::parse(&Registry::default(), "x.toml", text).map(drop).map_err(said)
        }
        Kind::Machine => MachineFile::parse("x.toml", text)
            .map_err(said)
            .and_then(|machine| machine.costs().map(drop)),
        Kind::Policy => policy_file::parse("x.toml", text).map(drop).map_err(said),
        Kind::Plan => Options::from_toml("x.toml", text).map(drop).map_err(said),
        Kind::Results | Kind::Columns | Kind::Explanation | Kind::Bisect | Kind::Sweep => {
            panic!("nobody writes them by hand")
        }
    }
}

fn files(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    files.map(|path| fs::read_to_string(path).expect("a file")).collect()
}

/// The texts that come with the program, and those that it writes.
fn good(kind: Kind) -> Vec<String> {
    match kind {
        Kind::Experiment => {
            let mut all = files("experiments");
            all.extend([stutterp::EXPERIMENT, determinism::SMALL].map(str::to_owned));
            all
        }
        Kind::Machine => {
            let all = MachineFile::embedded().expect("they are good");
            let shown = all.into_iter().map(|machine| machine.definition().definition);
            files("machines").into_iter().chain(shown).collect()
        }
        Kind::Policy => {
            let of = |(name, _): (String, String)| policy_file::load(&name).expect("it is good");
            let shown = policy_file::all().into_iter().map(of).map(|p| policy_file::to_toml(&p));
            files("policies").into_iter().chain(shown).collect()
        }
        Kind::Plan => {
            let all = Options::compare("3").full().machine_of("1G", 2).swap("0").policy("6.1");
            let all = all.ablate().iterations(9).seed(u64::MAX).jobs(2).story().set("vm.thp=never");
            let keys = [("machine.memory", ["1G", "2G"]), ("unmap.processes", ["1,2", "4"])];
            let grid =
                keys.into_iter().fold(all.clone(), |all, (key, values)| all.vary(key, values));
            let short = [Options::run("unmap").machine("laptop"), Options::compare("3").quick()];
            short
                .iter()
                .chain([&all, &grid])
                .map(Options::to_toml)
                .chain([PLAN.to_owned()])
                .collect()
        }
        Kind::Results | Kind::Columns | Kind::Explanation | Kind::Bisect | Kind::Sweep => {
            panic!("nobody writes them by hand")
        }
    }
}

fn as_json(text: &str) -> Value {
    toml::from_str(text).expect("it is TOML")
}

#[test]
fn files_that_come_with_the_program_are_as_their_schema_says() {
    for kind in [Kind::Experiment, Kind::Machine, Kind::Policy, Kind::Plan] {
        let validator = validator(&schema(kind));
        let texts = good(kind);
        assert!(texts.len() > 4, "{kind:?}");
        for text in texts {
            assert_eq!(accepts(kind, &text), Ok(()), "{text}");
            assert_eq!(complaints(&validator, &as_json(&text)), [""; 0], "{text}");
        }
    }
}

const EXPERIMENT: &str = r#"
name = "x"
title = "t"
workload = "unmap"
iterations = 2

[[policy]]
name = "6.1"
label = "6.1"

[[machine]]
name = "m"
published = "a"

[unmap]
rounds = 7

[quick]
iterations = 1

[quick.unmap]
hot = 0.5
"#;

const MACHINE: &str = r#"
costs = "server-3ghz"
distances = [[10]]

[[node]]
cpus = "0-1, 2"
memory = "1 GiB"

[tunables]
thp = "never"
percpu_pagelist_high_fraction = 8

[cache]
l1 = { bytes = 32768, source = "a guess" }
l2 = { bytes = 1048576, source = "a guess" }
llc = { bytes = 16777216, source = "a guess" }
sockets = { count = 1, source = "a guess" }

[cost]
tick = { ns = 0, source = "a guess" }

[[disk]]
model = "ssd"
size = "1G"
source = "a guess"
channels = 8
rotational = true
scheduler = "none"

[[swap]]
disk = "disk0"
priority = -7
"#;

const POLICY: &str = r#"
base = "6.1"
merge = "mergeable"

[pcp]
lists = "order0"

[reclaim]
lru-batch = 15
throttle.skip-unless-pending = true
"#;

const PLAN: &str = r#"
experiment = "003"
quick = true
numa = ["1G,cpus=0-1"]
policies = ["5.4", "6.1"]
seeds = 100
seed = 7

[set]
vm.page_cluster = 0
unmap.processes = [1, 2]

[vary]
"vm.swappiness" = [0, 60.5, "100"]
"unmap.processes" = [[1, 2], 4]
"#;

/// One change of a good text at a time, and whether it is still good.
const CHANGES: &[(Kind, &str, &str, bool)] = &[
    (Kind::Experiment, "title = ", "titel = ", false),
    (Kind::Experiment, "title = \"t\"\n", "", false),
    (Kind::Experiment, "iterations = 2", "iterations = \"2\"", false),
    (Kind::Experiment, "iterations = 2", "iterations = 0", false),
    (Kind::Experiment, "iterations = 1", "iterations = 0", false),
    (Kind::Experiment, "workload = \"unmap\"", "workload = \"else\"", false),
    (Kind::Experiment, "[[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n", "", false),
    (Kind::Experiment, "[[machine]]\nname = \"m\"\npublished = \"a\"\n", "", false),
    (Kind::Experiment, "label = ", "lable = ", false),
    (Kind::Experiment, "published = \"a\"", "published = [\"a\", \"b\"]", true),
    (Kind::Experiment, "published = \"a\"", "published = 3", false),
    (Kind::Experiment, "rounds = 7", "rounds = 7.5", false),
    (Kind::Experiment, "rounds = 7", "round = 7", false),
    (Kind::Experiment, "[unmap]\nrounds = 7\n", "", true),
    (Kind::Experiment, "[unmap]\nrounds = 7\n", "[stutterp]\nseconds = 3.0\n", false),
    (Kind::Experiment, "[quick.unmap]\nhot = 0.5\n", "[quick.stutterp]\nseconds = 3.0\n", false),
    (Kind::Experiment, "hot = 0.5", "hot = \"half\"", false),
    (Kind::Experiment, "hot = 0.5", "machines = 0.5", false),
    (Kind::Experiment, "[quick]", "native = { memory = \"1G\", cpus = 2 }\n[quick]", false),
    (Kind::Machine, "[[node]]", "[[nodes]]", false),
    (Kind::Machine, "\"1 GiB\"", "\"1 GiQ\"", false),
    (Kind::Machine, "\"1 GiB\"", "1073741824", false),
    (Kind::Machine, "\"1 GiB\"", "\"1024mb\"", true),
    (Kind::Machine, "\"0-1, 2\"", "\"0-\"", false),
    (Kind::Machine, "\"0-1, 2\"", "\"0\"", true),
    (Kind::Machine, "server-3ghz", "server-4ghz", false),
    (Kind::Machine, "thp = \"never\"", "thp = \"no\"", false),
    (Kind::Machine, "thp = \"never\"", "swappiness = 201", false),
    (Kind::Machine, "thp = \"never\"", "wbt = 1", true),
    (Kind::Machine, "thp = \"never\"", "wbt = 2", false),
    (Kind::Machine, "rotational = true", "rotational = 1", true),
    (Kind::Machine, "rotational = true", "rotational = 2", false),
    (Kind::Machine, "thp = \"never\"", "wbt = \"1\"", false),
    (Kind::Machine, "thp = \"never\"", "lowmem_reserve_ratio = [1, 2, 3]", false),
    (Kind::Machine, "thp = \"never\"", "lowmem_reserve_ratio = [1, 2, 3, 4]", true),
    (Kind::Machine, "thp = \"never\"", "vm_swappiness = 1", false),
    (Kind::Machine, "high_fraction = 8", "high_fraction = 0", true),
    (Kind::Machine, "high_fraction = 8", "high_fraction = 7", false),
    (Kind::Machine, "l1 = { bytes = 32768,", "l1 = { bytes = 0,", false),
    (Kind::Machine, "l1 = ", "l4 = ", false),
    (Kind::Machine, "{ ns = 0, source = \"a guess\" }", "{ ns = 0 }", false),
    (Kind::Machine, "{ ns = 0, source = \"a guess\" }", "{ ns = 0, source = \" \" }", false),
    (Kind::Machine, "{ ns = 0, source = \"a guess\" }", "7", false),
    (Kind::Machine, "tick = ", "tock = ", false),
    (Kind::Machine, "model = \"ssd\"", "model = \"tape\"", false),
    (Kind::Machine, "model = \"ssd\"", "model = \"hdd\"", false),
    (Kind::Machine, "channels = 8", "channels = 0", false),
    (Kind::Machine, "channels = 8", "chanels = 8", false),
    (Kind::Machine, "\"none\"", "\"cfq\"", false),
    (Kind::Machine, "priority = -7", "priority = \"low\"", false),
    (Kind::Machine, "priority = -7", "prio = 7", false),
    (Kind::Policy, "base = \"6.1\"", "base = \"7.0\"", false),
    (Kind::Policy, "base = \"6.1\"\n", "", false),
    (Kind::Policy, "mergeable", "never", false),
    (Kind::Policy, "lists = ", "list = ", false),
    (Kind::Policy, "lru-batch = 15", "lru-batch = 32", false),
    (Kind::Policy, "lru-batch = 15", "lru-batch = true", false),
    (Kind::Policy, "pending = true", "pending = 1", true),
    (Kind::Policy, "pending = true", "pending = 2", false),
    (Kind::Policy, "[pcp]\nlists = \"order0\"\n", "pcp = 1\n", false),
    (Kind::Policy, "merge = ", "summary = ", true),
    (Kind::Policy, "merge = \"mergeable\"", "name = 3", false),
    (Kind::Plan, "experiment = \"003\"\n", "", false),
    (Kind::Plan, "experiment = \"003\"", "run = \"unmap\"", true),
    (Kind::Plan, "experiment = \"003\"", "experiment = 3", false),
    (Kind::Plan, "quick = true", "quick = 1", false),
    (Kind::Plan, "quick = true", "quik = true", false),
    (Kind::Plan, "quick = true", "run = \"unmap\"", false),
    (Kind::Plan, "policies = [\"5.4\", \"6.1\"]", "policies = \"6.1\"", false),
    (Kind::Plan, "seeds = 100", "seeds = 0", false),
    (Kind::Plan, "seeds = 100", "seeds = 10001", false),
    (Kind::Plan, "seed = 7", "seed = -7", false),
    (Kind::Plan, "seed = 7", "seed = \"7\"", true),
    (Kind::Plan, "seed = 7", "host = \"moon\"", false),
    (Kind::Plan, "seed = 7", "jobs = 0", false),
    (Kind::Plan, "seed = 7", "cpus = \"2\"", false),
    (Kind::Plan, "page_cluster = 0", "page_cluster = true", true),
    (Kind::Plan, "[set]", "[sets]", false),
    (Kind::Plan, "[0, 60.5, \"100\"]", "[]", false),
    (Kind::Plan, "[0, 60.5, \"100\"]", "60", false),
    (Kind::Plan, "[[1, 2], 4]", "[[[1], 2], 4]", false),
];

#[test]
fn the_schema_and_the_program_agree_on_what_is_wrong() {
    for (kind, good) in [
        (Kind::Experiment, EXPERIMENT),
        (Kind::Machine, MACHINE),
        (Kind::Policy, POLICY),
        (Kind::Plan, PLAN),
    ] {
        let validator = validator(&schema(kind));
        let judged = |text: &str, is_good: bool| {
            let (program, schema) = (accepts(kind, text), complaints(&validator, &as_json(text)));
            assert_eq!(program.is_ok(), is_good, "{program:?}: {text}");
            assert_eq!(schema.is_empty(), is_good, "{schema:?}: {text}");
        };
        judged(good, true);
        for (_, from, to, is_good) in CHANGES.iter().filter(|change| change.0 == kind) {
            assert!(good.contains(from), "{from}");
            judged(&good.replacen(from, to, 1), *is_good);
        }
    }
}

#[test]
fn every_value_of_every_switch_is_in_the_schema_of_policies() {
    let validator = validator(&schema(Kind::Policy));
    for field in Policy::describe() {
        let with = |value: Value| {
            let mut policy = json!({ "base": "6.1" });
            let mut at = &mut policy;
            for key in field.path.split('.') {
                at = &mut at[key];
            }
            *at = value;
            validator.is_valid(&policy)
        };
        for rank in 0..field.values.nr_drawn() {
            let value = match field.values.drawn(rank) {
                Setting::Bool(on) => on.into(),
                Setting::Number(number) => number.into(),
                Setting::Choice(name) => name.into(),
            };
            assert!(with(value), "{} = {}", field.path, field.values.drawn(rank));
        }
        assert!(!with(json!("no such word")) && !with(json!(1.5)), "{}", field.path);
    }
}
