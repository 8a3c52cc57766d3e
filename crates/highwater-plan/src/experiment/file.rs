//! Experiment files: TOML, embedded or given by path.

use std::sync::Arc;

use highwater_core::config::Policy;
use highwater_results::{Definition, Document, MachineFigures};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::jobs::JOBS;
use super::raw::{
    Beyond, BeyondPolicy, Change, KEYS, KEYS_OF_SIZE, NativeShape, PolicyEntry, Raw, Reader, SIZES,
    is_job, job_of, overlaid, take_table,
};
use super::vars::{self, Given};
use highwater_files::input::catalogue::{is_file, texts};
use highwater_files::input::names::unknown;
use highwater_files::input::{Catalogue, InputError, Source, read_flag};
use highwater_files::machine_file::{MachineFile, disks};
use highwater_files::policy_file;
use highwater_runs::workload::job::{self, Job as JobFile};
use highwater_runs::workload::{Entry, Job, Registry, Workload};

/// The experiments that come with the program.
const CATALOGUE: Catalogue = Catalogue {
    what: "experiment",
    kinds: &["experiment", "job"],
    option: "experiment",
    folder: "experiments",
    texts: texts::EXPERIMENTS,
};

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Name; a study's starts with its number.
    pub name: String,
    /// One line.
    pub title: String,
    /// Seeds per policy and machine.
    pub iterations: u32,
    /// Shape of native runs; `None`: the user has to give it.
    pub native: Option<NativeShape>,
    /// Policies, the baseline first.
    pub policies: Vec<PolicyEntry>,
    /// Machines, with the published figures of each.
    pub machines: Vec<MachineFigures>,
    /// The workload, with its parameters.
    pub job: Arc<dyn Job>,
    /// Jobs of machines that set parameters of their own, by the machine's name in reports.
    pub(super) variants: Vec<(String, Arc<dyn Job>)>,
    /// The policies and settings that `--beyond` adds.
    pub beyond: Option<Beyond>,
    /// Whether `--beyond` was applied.
    pub(super) is_beyond: bool,
    /// The sizes of `--quick` and `--full`; `None`: there is no such size.
    pub(super) sizes: [Option<Size>; SIZES.len()],
    /// The present size, if not the default one.
    pub(super) size: Option<&'static str>,
    /// Where the experiment was written; `None` if it is not from a file.
    pub(super) origin: Option<Origin>,
    /// Parameters that the user set: the path of each, and the setting as errors name it.
    pub(super) said: Vec<(String, String)>,
}

/// The file of an experiment, for errors that appear when names are looked up.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) file: String,
    pub(super) text: String,
    /// The size whose machines replace the default ones.
    machines_of: Option<&'static str>,
}

/// A job's flags may be 1 or 0.
fn read_flags_of(entry: Entry, params: &mut Spanned<DeTable<'_>>) {
    if entry.name != JobFile::NAME {
        return;
    }
    for key in ["file", "task"] {
        if let Some(lists) = params.get_mut().get_mut(key) {
            read_flag(lists, false, &|key| job::FLAGS.contains(&key));
        }
    }
    if let Some(disks) = params.get_mut().get_mut("disk") {
        read_flag(disks, false, &disks::is_flag);
    }
}

/// The differences of another size of an experiment.
#[derive(Clone, Debug)]
pub(super) struct Size {
    iterations: u32,
    /// Machines that replace the default ones, in order; `None`: the same machines.
    machines: Vec<String>,
    pub(super) job: Arc<dyn Job>,
}

/// Parses every embedded experiment.
///
/// # Errors
/// If one is not valid, or its workload is not in `registry`. Neither happens in the released
/// program: a test parses all of them.
pub fn embedded(registry: &Registry) -> Result<Vec<Experiment>, InputError> {
    CATALOGUE.all().map(|found| Experiment::parse(registry, &found.file, &found.text)).collect()
}

/// The text of an embedded experiment, by its name or its number.
///
/// # Errors
/// If there is none.
pub fn embedded_text(name: &str) -> Result<String, InputError> {
    let known: Vec<&str> = CATALOGUE.names().collect();
    let none = || InputError::whole("experiment", unknown("experiment", name, &known));
    CATALOGUE.find(name).map(|found| found.text.into_owned()).ok_or_else(none)
}

impl Experiment {
    /// The experiment with a name or a number, or from a file; or the job with a name.
    ///
    /// # Errors
    /// If there is none, or it is not valid.
    pub fn load(registry: &Registry, name: &str) -> Result<Experiment, InputError> {
        let jobs: Vec<&str> = JOBS.names().collect();
        let found = JOBS.find(name).map_or_else(|| CATALOGUE.open(name, &jobs), Ok)?;
        Experiment::parse(registry, &found.file, &found.text)
    }

    /// Loads an embedded job by name, or a job or experiment from a path; `None` if `name` is
    /// neither.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn load_job(registry: &Registry, name: &str) -> Result<Option<Experiment>, InputError> {
        match is_file(name) || JOBS.find(name).is_some() {
            true => Experiment::load(registry, name).map(Some),
            false => Ok(None),
        }
    }

    /// An experiment of one workload alone, with its defaults.
    pub fn of_job(job: Arc<dyn Job>) -> Experiment {
        let entry = job.entry();
        Experiment {
            name: entry.name.to_owned(),
            title: entry.about.to_owned(),
            iterations: 1,
            native: None,
            policies: Vec::new(),
            machines: Vec::new(),
            job,
            variants: Vec::new(),
            beyond: None,
            is_beyond: false,
            sizes: [None, None],
            size: None,
            origin: None,
            said: Vec::new(),
        }
    }

    /// The experiment of a results document, with its policies and machines.
    ///
    /// # Errors
    /// Names the invalid part of the workload's definition.
    pub(crate) fn of_document(
        registry: &Registry,
        document: &Document,
    ) -> Result<Experiment, String> {
        let Definition { name, definition, .. } = &document.workload;
        let entry = registry.find(name).ok_or_else(|| {
            let unknown = unknown("workload", name, &registry.names());
            format!("{unknown}; run `explain` with the program that defines this workload")
        })?;
        let reader = Reader(Source { file: name, text: definition });
        let table =
            DeTable::parse(definition).map_err(|error| reader.0.toml(&error).to_string())?;
        let job = reader.job(entry, table).map_err(|error| error.to_string())?;
        let mut experiment = Experiment {
            name: document.experiment.clone(),
            title: document.title.clone(),
            iterations: document.iterations,
            machines: document.published.clone(),
            ..Experiment::of_job(job)
        };
        experiment.set_variants().map_err(|error| error.to_string())?;
        Ok(experiment)
    }

    /// The job on a machine, by the machine's name in reports.
    pub fn job_on(&self, machine: &str) -> &Arc<dyn Job> {
        let of_machine = self.variants.iter().find(|(name, _)| name == machine);
        of_machine.map_or(&self.job, |(_, job)| job)
    }

    /// Reads an experiment from the text of a file.
    ///
    /// # Errors
    /// Names file, line and field.
    pub fn parse(registry: &Registry, file: &str, text: &str) -> Result<Experiment, InputError> {
        Experiment::parse_given(registry, file, text, &[])
    }

    /// Like [`parse`](Self::parse), with values for the file's variables.
    pub(super) fn parse_given(
        registry: &Registry,
        file: &str,
        text: &str,
        given: &[Given],
    ) -> Result<Experiment, InputError> {
        let source = Source { file, text };
        let reader = Reader(source);
        let parsed = DeTable::parse(text).map_err(|error| source.toml(&error))?;
        let span = parsed.span();
        let mut root = parsed.into_inner();
        if is_job(&root) {
            vars::resolve(&mut root, given, source)?;
        }
        let params = job_of(&mut root, file);
        let entry = reader.entry(registry, &root)?;
        // The workload parses its own parameters. A size's parameters override the experiment's.
        let mut params = params.or_else(|| take_table(&mut root, entry.name));
        if let Some(params) = &mut params {
            read_flags_of(entry, params);
        }
        let overlays = SIZES.map(|size| match root.get_mut(size).map(Spanned::get_mut) {
            Some(DeValue::Table(change)) => {
                let mut overlay = take_table(change, entry.name)?;
                read_flags_of(entry, &mut overlay);
                Some(overlay)
            }
            _ => None,
        });
        reader.check_keys(&root, &KEYS, entry.name)?;
        for size in SIZES {
            if let Some(DeValue::Table(change)) = root.get(size).map(Spanned::get_ref) {
                reader.check_keys(change, &KEYS_OF_SIZE, entry.name)?;
            }
        }
        let root = Spanned::new(span, DeValue::Table(root));
        let raw = Raw::deserialize(ValueDeserializer::from(root)).map_err(|e| source.toml(&e))?;
        reader.check(&raw)?;
        if let (Some(_), Some(reason)) = (&raw.native, entry.not_native) {
            let place = source.place_of("native").unwrap_or_default();
            return Err(source.at(place, "native", reason));
        }

        let params = params.unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
        reader.check_tasks(entry, &params)?;
        let job = reader.job(entry, params.clone())?;
        let [quick, full] = overlays;
        let size = |change: Option<Change>,
                    overlay: Option<Spanned<DeTable<'_>>>|
         -> Result<_, InputError> {
            let Some(change) = change else { return Ok(None) };
            let job = match overlay {
                Some(overlay) => reader.job(entry, overlaid(params.clone(), overlay))?,
                None => Arc::clone(&job),
            };
            let machines = change.machines.map(Spanned::into_inner).unwrap_or_default();
            Ok(Some(Size { iterations: change.iterations.into_inner(), machines, job }))
        };
        let sizes = [size(raw.quick, quick)?, size(raw.full, full)?];
        let experiment = Experiment {
            name: raw.name,
            title: raw.title,
            iterations: raw.iterations.into_inner(),
            native: raw.native,
            policies: raw.policies,
            machines: raw.machines,
            job,
            variants: Vec::new(),
            beyond: raw.beyond,
            is_beyond: false,
            sizes,
            size: None,
            origin: Some(Origin {
                file: file.to_owned(),
                text: text.to_owned(),
                machines_of: None,
            }),
            said: Vec::new(),
        };
        // Check the variants' parameters now, while their place in the file is known.
        let mut variants = experiment.clone();
        for (at, machine) in experiment.machines.iter().enumerate() {
            variants.machines = vec![machine.clone()];
            variants.set_variants().map_err(|error| {
                experiment.wrong(&format!("machine.{at}.set"), "set", error.to_string())
            })?;
        }
        Ok(experiment)
    }

    /// The experiment in its `--quick` size; `None` if it has none.
    #[must_use]
    pub fn quick(self) -> Option<Experiment> {
        let [quick, _] = self.sizes.clone();
        Some(self.changed(quick?, SIZES[0]))
    }

    /// The experiment in its `--full` size; `None` if it has none.
    #[must_use]
    pub fn full(self) -> Option<Experiment> {
        let [_, full] = self.sizes.clone();
        Some(self.changed(full?, SIZES[1]))
    }

    fn changed(mut self, size: Size, name: &'static str) -> Experiment {
        self.iterations = size.iterations;
        if let Some(origin) = self.origin.as_mut().filter(|_| !size.machines.is_empty()) {
            origin.machines_of = Some(name);
        }
        for (machine, name) in self.machines.iter_mut().zip(size.machines) {
            machine.name = name;
        }
        self.job = size.job;
        self.size = Some(name);
        self
    }

    /// Loads machine number `at`. A path is relative to the experiment's file.
    ///
    /// # Errors
    /// If the name cannot be resolved, with its place in the file.
    ///
    /// # Panics
    /// If `at` is out of range.
    pub fn load_machine(&self, at: usize) -> Result<MachineFile, InputError> {
        let path = match self.origin.as_ref().and_then(|origin| origin.machines_of) {
            Some(size) => format!("{size}.machines.{at}"),
            None => format!("machine.{at}.name"),
        };
        let loaded = MachineFile::load_beside(self.file(), &self.machines[at].name);
        loaded.map_err(|error| self.at_name(&path, "machine", error))
    }

    /// Number of policies that run by default.
    pub fn nr_policies(&self) -> usize {
        self.policies.len() + self.added().len()
    }

    /// The policies after the shipped ones.
    fn added(&self) -> &[BeyondPolicy] {
        let added = self.beyond.as_ref().filter(|_| self.is_beyond);
        added.map_or(&[], |beyond| &beyond.policies)
    }

    /// The experiment's reason for adding the policy with this heading; `None` for a shipped
    /// policy.
    pub fn why(&self, label: &str) -> Option<&str> {
        let mut added = self.added().iter();
        added.find(|policy| policy.label == label).map(|policy| policy.why.as_str())
    }

    /// The heading of the last shipped policy, with which added policies are compared; `None` if
    /// none was added.
    pub fn shipped(&self) -> Option<&str> {
        let shipped = self.policies.last().filter(|_| !self.added().is_empty());
        shipped.map(|policy| policy.label.as_str())
    }

    /// Where a key of a policy is written.
    pub fn policy_path(&self, at: usize, key: &str) -> String {
        match at.checked_sub(self.policies.len()) {
            None => format!("policy.{at}.{key}"),
            Some(at) => format!("beyond.policy.{at}.{key}"),
        }
    }

    /// Loads policy number `at`, and returns it with its heading. A path is relative to the
    /// experiment's file.
    ///
    /// # Errors
    /// If the name cannot be resolved, with its place in the file.
    ///
    /// # Panics
    /// If `at` is out of range.
    pub fn load_policy(&self, at: usize) -> Result<(Policy, String), InputError> {
        let (name, label) = match at.checked_sub(self.policies.len()) {
            None => (&self.policies[at].name, &self.policies[at].label),
            Some(at) => (&self.added()[at].name, &self.added()[at].label),
        };
        let loaded = policy_file::load_beside(self.file(), name);
        let at_name = |error| self.at_name(&self.policy_path(at, "name"), "policy", error);
        Ok((loaded.map_err(at_name)?, label.clone()))
    }

    /// Its file; "" if it has none.
    fn file(&self) -> &str {
        self.origin.as_ref().map_or("", |origin| origin.file.as_str())
    }

    /// Adds the place of a name that cannot be resolved. Errors inside the named file keep theirs.
    fn at_name(&self, path: &str, what: &str, error: InputError) -> InputError {
        if error.line.is_some() || error.field.is_some() {
            return error;
        }
        // The error names an option that the user did not give; report only its reason.
        let is_option = error.file.starts_with("--");
        self.wrong(path, what, if is_option { error.reason } else { error.to_string() })
    }

    /// An error about a value, at its place in the file.
    pub fn wrong(&self, path: &str, what: &str, reason: String) -> InputError {
        let placed = self.origin.as_ref().and_then(|origin| {
            let source = Source { file: &origin.file, text: &origin.text };
            let key = path.rsplit('.').find(|part| part.parse::<usize>().is_err())?;
            Some(source.at(source.place_of(path)?, key, &*reason))
        });
        placed.unwrap_or_else(|| {
            InputError::whole(format!("experiment {}: {what}", self.name), reason)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use highwater_runs::workload::Workload;
    use highwater_runs::workload::job::Job;

    fn parse(text: &str) -> Result<Experiment, InputError> {
        Experiment::parse(&Registry::default(), "e.toml", text)
    }

    /// A file to make mistakes in.
    fn study_002() -> &'static str {
        CATALOGUE.texts.iter().find(|(name, _)| *name == "002-pcp-high-order").unwrap().1
    }

    #[test]
    fn embedded_experiments_are_valid_and_found_by_number() {
        let registry = Registry::default();
        assert_eq!(embedded(&registry).unwrap().len(), CATALOGUE.texts.len());
        let load = |name| Experiment::load(&registry, name);
        assert_eq!(load("002").unwrap().name, "002-pcp-high-order");
        assert_eq!(load("002-pcp-high-order").unwrap().policies.len(), 3);
        let unknown = load("999").unwrap_err().to_string();
        assert!(
            unknown.starts_with("experiment: unknown experiment \"999\"; there are "),
            "{unknown}"
        );
        assert!(unknown.contains("`highwater list experiments` lists them"), "{unknown}");
    }

    #[test]
    fn mistakes_name_line_and_field() {
        let good = study_002();
        let error = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            parse(&good.replacen(from, to, 1)).unwrap_err().to_string()
        };
        let line = |of: &str| 1 + good[..good.find(of).unwrap()].matches('\n').count();
        let wrong = error("iterations = 5", "iterations = 0");
        let at = line("iterations = 5");
        assert_eq!(wrong, format!("e.toml:{at}: iterations: must be at least 1"));
        assert!(error("title", "titel").contains("titel"));
        assert!(error("\"256M\"", "\"256Q\"").contains("256Q"));
        let same = error("receiver-cpu = 1", "receiver-cpu = 0");
        let at = line("receiver-cpu = 1");
        assert_eq!(
            same,
            format!("e.toml:{at}: receiver-cpu: sender and receiver run on different CPUs")
        );
        let other = error("workload = \"netperf-tcp\"", "workload = \"netprf\"");
        assert!(
            other.contains(
                "unknown workload \"netprf\"; did you mean netperf-tcp? (there are netperf-tcp, "
            ),
            "{other}"
        );
    }

    #[test]
    fn sizes_are_overlays_and_their_mistakes_have_their_own_lines() {
        let text = "name = \"x\"\ntitle = \"t\"\nworkload = \"unmap\"\niterations = 2\n\
                    [[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"m\"\n\
                    [unmap]\nrounds = 7\nhot = 0.2\n\
                    [quick]\niterations = 1\n[quick.unmap]\nrounds = 3\n";
        let experiment = parse(text).unwrap();
        let params = |e: &Experiment| e.job.definition().definition;
        assert!(params(&experiment).contains("rounds = 7\nhot = 0.2\ncold = 1.2\n"));
        assert!(experiment.clone().full().is_none());
        let quick = experiment.quick().unwrap();
        assert_eq!(quick.iterations, 1);
        assert!(params(&quick).contains("rounds = 3\nhot = 0.2\n"), "{}", params(&quick));
        let wrong = |from: &str, to: &str| parse(&text.replace(from, to)).unwrap_err().to_string();
        assert_eq!(wrong("rounds = 3", "rounds = 0"), "e.toml:16: rounds: must be at least 1");
        assert_eq!(wrong("rounds = 7", "rounds = 0"), "e.toml:11: rounds: must be at least 1");
        assert!(wrong("rounds = 3", "rouns = 3").starts_with("e.toml:16: rouns: unknown field"));
        assert!(wrong("[quick.unmap]", "[quick.stutterp]").starts_with("e.toml:15: "));
        // Neither size nor parameters have to be there.
        let (short, _) = text.split_once("[unmap]").unwrap();
        let defaults = parse(short).unwrap();
        assert!(params(&defaults).contains("rounds = 20\n"));
        assert!(defaults.quick().is_none());
    }

    #[test]
    fn beyond_policies_come_after_shipped_ones() {
        for mut experiment in embedded(&Registry::default()).unwrap() {
            let shipped = experiment.policies.len();
            if experiment.beyond.is_none() {
                assert!(experiment.go_beyond(true, &[]).is_err(), "{}", experiment.name);
                continue;
            }
            assert_eq!(experiment.go_beyond(false, &[]).unwrap(), Vec::<String>::new());
            assert_eq!((experiment.nr_policies(), experiment.shipped()), (shipped, None));
            let set = experiment.go_beyond(true, &[]).unwrap();
            Settings::parse(&set, experiment.job.entry().name).unwrap();
            assert!(experiment.nr_policies() > shipped);
            assert_eq!(experiment.shipped(), Some(experiment.policies[shipped - 1].label.as_str()));
            let loaded =
                (0..experiment.nr_policies()).map(|at| experiment.load_policy(at).unwrap());
            let labels: Vec<String> = loaded.map(|(_, label)| label).collect();
            for (at, label) in labels.iter().enumerate() {
                assert!(!labels[..at].contains(label), "{label} twice");
                assert_eq!(experiment.why(label).is_some(), at >= shipped, "{label}");
            }
            assert_eq!(experiment.policy_path(shipped, "name"), "beyond.policy.0.name");
        }
    }

    #[test]
    fn a_shape_of_native_runs_is_refused_where_there_are_none() {
        let text = "[native]\nmemory = \"1G\"\ncpus = 2\n[[task]]\nname = \"t\"\n\
                    [[task.phase]]\ndo = \"compute\"\nus = 1.0\n";
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with("e.toml:1: native: jobs run in virtual time only"), "{error}");
    }

    #[test]
    fn mistakes_in_what_is_beyond_have_their_own_lines() {
        let text = "name = \"x\"\ntitle = \"t\"\nworkload = \"unmap\"\niterations = 1\n\
                    [[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"m\"\n\
                    [beyond]\nset = [\"vm.swappiness=7\", \"vm.page_cluster=0\"]\n\
                    [[beyond.policy]]\nname = \"no-such\"\nlabel = \"mine\"\nwhy = \"w\"\n";
        let mut experiment = parse(text).unwrap();
        // The user's settings take precedence.
        let given = ["machine.tunables.swappiness=60".into()];
        assert_eq!(experiment.go_beyond(true, &given).unwrap(), ["vm.page_cluster=0"]);
        let error = experiment.load_policy(1).unwrap_err().to_string();
        assert!(error.starts_with("e.toml:13: name: unknown policy \"no-such\""), "{error}");
        let wrong = |from: &str, to: &str| parse(&text.replace(from, to)).unwrap_err().to_string();
        assert!(wrong("why =", "because =").starts_with("e.toml:15: because: unknown field"));
        let (nothing, _) = text.split_once("[[beyond.policy]]").unwrap();
        assert!(parse(nothing).unwrap_err().to_string().contains("at least one policy"));
    }

    #[test]
    fn variants_have_parameters_of_their_own() {
        let text = "name = \"x\"\ntitle = \"t\"\nworkload = \"unmap\"\niterations = 1\n\
                    [[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n\
                    [[machine]]\nname = \"m\"\nvariant = \"short\"\nset = [\"rounds=7\"]\n";
        let mut experiment = parse(text).unwrap();
        experiment.machines[0].name = "m-short".to_owned();
        experiment.set_variants().unwrap();
        let rounds = |machine: &str| {
            let definition = experiment.job_on(machine).definition().definition;
            definition.lines().find(|line| line.starts_with("rounds")).map(str::to_owned)
        };
        assert_eq!(rounds("m-short").as_deref(), Some("rounds = 7"));
        assert_eq!(rounds("m").as_deref(), Some("rounds = 20"), "others are as they were");
        let wrong = parse(&text.replace("rounds=7", "rouns=7")).unwrap_err().to_string();
        assert!(wrong.starts_with("e.toml:11: set: ") && wrong.contains("rouns"), "{wrong}");
    }

    #[test]
    fn the_keys_are_those_that_are_read() {
        let keys = |schema: schemars::Schema| -> Vec<String> {
            schema.get("properties").unwrap().as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(schemars::schema_for!(Raw)), KEYS);
        assert_eq!(keys(schemars::schema_for!(Change)), KEYS_OF_SIZE);
    }

    #[test]
    fn a_mistyped_table_of_parameters_finds_the_right_one() {
        let good = study_002();
        for (from, to) in
            [("\n[netperf-tcp]", "\n[netperf]"), ("[quick.netperf-tcp]", "[quick.netperf]")]
        {
            assert!(good.contains(from), "{from}");
            let error = parse(&good.replacen(from, to, 1)).unwrap_err().to_string();
            let meant = "netperf: unknown key \"netperf\"; did you mean netperf-tcp? (there are ";
            assert!(error.contains(meant), "{error}");
        }
    }

    #[test]
    fn one_published_table_or_several() {
        let good = study_002();
        let of = |published: &str| {
            let from = good.lines().find(|line| line.starts_with("published = ")).unwrap();
            let text = good.replacen(from, &format!("published = {published}"), 1);
            parse(&text).map(|e| e.machines[0].published.clone())
        };
        assert_eq!(of("\"a\"").unwrap(), ["a"]);
        assert_eq!(of("[\"a\", \"b\"]").unwrap(), ["a", "b"]);
        let error = of("7").unwrap_err().to_string();
        assert!(error.contains("name of a published table"), "{error}");
    }

    /// A workload's defaults are those of its study.
    #[test]
    fn defaults_are_the_studies() {
        let registry = Registry::default();
        for entry in registry.entries() {
            let Some(study) = entry.study else {
                assert_eq!(entry.name, Job::NAME, "what users write has no study");
                continue;
            };
            let study = Experiment::load(&registry, study).unwrap();
            assert_eq!(study.job.definition(), entry.defaults().definition());
        }
    }
}
