//! The file of an experiment as it is written: its keys, and what of their values cannot be.
//!
//! [`file`](super::file) makes an experiment of it.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;

use highwater_results::MachineFigures;

use highwater_files::input::names::unknown;
use highwater_files::input::source::place_in;
use highwater_files::input::{InputError, Source};
use highwater_runs::workload::job::{Job as JobFile, JobParams};
use highwater_runs::workload::{
    Bytes, Entry, Job, JobError, Param, Params, Problem, Registry, Workload,
};

/// Tables of a file that change the experiment for `--quick` and `--full`.
pub(super) const SIZES: [&str; 2] = ["quick", "full"];

/// Keys of a file, and of its tables `quick` and `full`; beside them each has a table of the workload's name.
pub(super) const KEYS: [&str; 10] = [
    "name",
    "title",
    "workload",
    "iterations",
    "native",
    "policy",
    "machine",
    "quick",
    "full",
    "beyond",
];
pub(super) const KEYS_OF_SIZE: [&str; 2] = ["iterations", "machines"];

/// An experiment: a workload with its parameters, on machines, under policies. Each policy runs on
/// each machine with the same seeds.
// The file as it is written, without the tables of parameters.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Experiment")]
pub struct Raw {
    /// Name in reports, and name of the experiment in results.
    pub(super) name: String,
    /// One line about it, for lists and the verdict of a report.
    pub(super) title: String,
    /// Name of the workload. Its parameters are in the table with that name; parameters that are
    /// not there have their defaults.
    #[serde(rename = "workload")]
    pub(super) _workload: String,
    /// Seeds of each policy on each machine; `--iterations` overrides it.
    #[schemars(with = "u32", range(min = 1))]
    pub(super) iterations: Spanned<u32>,
    /// Shape of runs with `--host native`; without it the user must give `--mem` and `--cpus`.
    pub(super) native: Option<NativeShape>,
    /// Policies, the baseline first.
    #[serde(rename = "policy", default)]
    #[schemars(length(min = 1))]
    pub(super) policies: Vec<PolicyEntry>,
    /// Machines, with the published figures of each.
    #[serde(rename = "machine", default)]
    #[schemars(length(min = 1))]
    pub(super) machines: Vec<MachineFigures>,
    /// Changes that `--quick` makes; without it `--quick` is refused.
    pub(super) quick: Option<Change>,
    /// Changes that `--full` makes; without it `--full` is refused.
    pub(super) full: Option<Change>,
    /// Policies that `--beyond` adds; without it `--beyond` is refused.
    pub(super) beyond: Option<Beyond>,
}

/// Changes that `--quick` or `--full` makes. A table with the workload's name overrides its
/// parameters, key by key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// Seeds of each policy on each machine.
    #[schemars(with = "u32", range(min = 1))]
    pub(super) iterations: Spanned<u32>,
    /// Machines that replace the experiment's, in order, one for each; default: no change.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) machines: Option<Spanned<Vec<String>>>,
}

/// Policies that `--beyond` adds: no kernel shipped them. They run after the experiment's own and
/// are compared with the first and the last of those.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Beyond {
    /// The policies.
    #[serde(rename = "policy", default)]
    #[schemars(length(min = 1))]
    pub policies: Vec<BeyondPolicy>,
    /// `KEY=VALUE` as for `--set`, for all policies of the comparison: settings that the added
    /// policies need.
    #[serde(default)]
    pub set: Vec<String>,
}

/// A policy that no kernel shipped.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeyondPolicy {
    /// Name of the policy, or path of its file relative to this file's directory.
    pub name: String,
    /// Column heading in reports; each policy has a different one.
    pub label: String,
    /// Its difference from the shipped policies, in one sentence; reports print it as a note.
    pub why: String,
}

/// A policy of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyEntry {
    /// Name of the policy, or path of its file relative to this file's directory.
    pub name: String,
    /// Column heading in reports; each policy has a different one.
    pub label: String,
}

/// Size of native runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeShape {
    /// Memory that the allocator manages.
    pub memory: Bytes,
    /// Logical CPUs.
    pub cpus: u16,
}

/// Takes a table out of another one. A value that is no table stays, and is reported as unknown.
pub(super) fn take_table<'a>(from: &mut DeTable<'a>, name: &str) -> Option<Spanned<DeTable<'a>>> {
    let is_table = from.get(name).is_some_and(|value| value.get_ref().is_table());
    let value = is_table.then(|| from.remove(name)).flatten()?;
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Some(Spanned::new(span, table)),
        _ => None,
    }
}

/// A table with the values of another one over its own. Each keeps the place that it was written at.
pub(super) fn overlaid<'a>(
    mut table: Spanned<DeTable<'a>>,
    overlay: Spanned<DeTable<'a>>,
) -> Spanned<DeTable<'a>> {
    for (key, value) in overlay.into_inner() {
        // The key too: it says where.
        table.get_mut().remove(key.get_ref().as_ref());
        table.get_mut().insert(key, value);
    }
    table
}

/// Keys of a job file that are the job's own; the others are those of any experiment.
const JOB_KEYS: &[Param] = JobParams::PARAMS;
/// What a job file need not say.
const JOB_DEFAULTS: &str = "iterations = 1\n[[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"small-vm\"\n";

/// A file with tasks and without a workload is a job.
pub(super) fn is_job(root: &DeTable<'_>) -> bool {
    !root.contains_key("workload") && root.contains_key("task")
}

/// Of a job: its own keys become the workload's parameters, and what it does
/// not say is filled in.
pub(super) fn job_of<'a>(root: &mut DeTable<'a>, file: &str) -> Option<Spanned<DeTable<'a>>> {
    if !is_job(root) {
        return None;
    }
    let mut params = DeTable::new();
    for key in JOB_KEYS.iter().map(Param::key) {
        if let Some((key, value)) = root.remove_entry(key.as_str()) {
            params.insert(key, value);
        }
    }
    let stem = Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.unwrap_or_default();
    let texts = [("workload", JobFile::NAME.to_owned()), ("name", stem), ("title", String::new())];
    for (key, text) in texts {
        let value = Spanned::new(0..0, DeValue::String(text.into()));
        root.entry(Spanned::new(0..0, key.into())).or_insert(value);
    }
    // Ours: it can be read.
    for (key, value) in DeTable::parse(JOB_DEFAULTS).into_iter().flat_map(Spanned::into_inner) {
        root.entry(key).or_insert(value);
    }
    Some(Spanned::new(0..0, params))
}

/// A file as it is read.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) Source<'a>);

impl Reader<'_> {
    /// The workload that an experiment names.
    pub(super) fn entry(
        &self,
        registry: &Registry,
        root: &DeTable<'_>,
    ) -> Result<Entry, InputError> {
        let Some(name) = root.get("workload") else {
            return Err(self.nothing_to_run(root));
        };
        let wrong = |reason: String| self.0.at(name.span(), "workload", reason);
        let text = name.get_ref().as_str().ok_or_else(|| wrong("expected a name".to_owned()))?;
        registry.find(text).ok_or_else(|| wrong(unknown("workload", text, &registry.names())))
    }

    /// A file without a workload and without a task at its top.
    fn nothing_to_run(&self, root: &DeTable<'_>) -> InputError {
        const TASK: &str = "a job needs a [[task]] with a [[task.phase]], an experiment a workload";
        let name = JobFile::NAME;
        let Some(job) = root.get(name) else {
            return InputError::whole(self.0.file, format!("nothing is to run: {TASK}"));
        };
        let has_tasks = job.get_ref().as_table().is_some_and(|job| job.contains_key("task"));
        let reason = match has_tasks {
            true => format!(
                "tasks of a job file are [[task]], not [[{name}.task]]; or say workload = \"{name}\""
            ),
            false => format!("there is no task in it: {TASK}"),
        };
        self.0.at(job.span(), name, reason)
    }

    /// A job whose file names the workload and lists no task.
    pub(super) fn check_tasks(
        &self,
        entry: Entry,
        params: &Spanned<DeTable<'_>>,
    ) -> Result<(), InputError> {
        let tasks = params.get_ref().get("task").map(Spanned::get_ref);
        let is_empty =
            tasks.is_none_or(|tasks| tasks.as_array().is_some_and(|list| list.is_empty()));
        if entry.name != JobFile::NAME || !is_empty {
            return Ok(());
        }
        let reason = "there is no task in it: a job needs a [[task]] with a [[task.phase]]";
        match params.get_ref().is_empty() {
            true => Err(InputError::whole(self.0.file, reason)),
            false => Err(self.0.at(params.span(), entry.name, reason)),
        }
    }

    /// Refuses keys that a table does not have, `own` being one that it has had.
    pub(super) fn check_keys(
        &self,
        table: &DeTable<'_>,
        known: &[&str],
        own: &str,
    ) -> Result<(), InputError> {
        let is_unknown = |key: &str| key != own && !known.contains(&key);
        let Some((key, _)) = table.iter().find(|(key, _)| is_unknown(key.get_ref())) else {
            return Ok(());
        };
        let name: &str = key.get_ref();
        let known: Vec<&str> = known.iter().copied().chain([own]).collect();
        Err(self.0.at(key.span(), name, unknown("key", name, &known)))
    }

    /// What of the values cannot be.
    pub(super) fn check(&self, raw: &Raw) -> Result<(), InputError> {
        let changes = [&raw.quick, &raw.full];
        let of_sizes = changes.iter().copied().flatten().map(|change| &change.iterations);
        for iterations in [&raw.iterations].into_iter().chain(of_sizes) {
            if *iterations.get_ref() == 0 {
                return Err(self.0.at(iterations.span(), "iterations", "must be at least 1"));
            }
        }
        if raw.policies.is_empty() {
            return Err(self.0.at(0..0, "[[policy]]", "an experiment needs at least one policy"));
        }
        if raw.machines.is_empty() {
            return Err(self.0.at(0..0, "[[machine]]", "an experiment needs at least one machine"));
        }
        if raw.beyond.as_ref().is_some_and(|beyond| beyond.policies.is_empty()) {
            let reason = "what is beyond needs at least one policy";
            return Err(self.0.at(0..0, "[[beyond.policy]]", reason));
        }
        for machines in changes.iter().filter_map(|change| change.as_ref()?.machines.as_ref()) {
            if machines.get_ref().len() != raw.machines.len() {
                let reason = "one for each machine of the experiment";
                return Err(self.0.at(machines.span(), "machines", reason));
            }
        }
        Ok(())
    }

    /// The workload with parameters that were written in this file.
    pub(super) fn job(
        &self,
        entry: Entry,
        table: Spanned<DeTable<'_>>,
    ) -> Result<Arc<dyn Job>, InputError> {
        let places = table.clone();
        entry.job(table).map_err(|error| match error {
            JobError::Toml(error) => self.0.toml(&error),
            JobError::Value(Problem { path, reason }) => {
                let key = places.get_ref().get_key_value(path.as_str());
                let value = || place_in(places.get_ref(), &path);
                let span = key.map(|(key, _)| key.span()).or_else(value);
                // Elements of lists go by number, which says less than their line.
                let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
                let field = path.rsplit('.').find(|part| !is_number(part)).unwrap_or(&path);
                self.0.at(span.unwrap_or_else(|| places.span()), field, reason)
            }
        })
    }
}
