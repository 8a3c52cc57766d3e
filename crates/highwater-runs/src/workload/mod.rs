//! Workloads: benchmarks that an experiment can name, and their common parts.
//!
//! ```text
//! experiment file: workload = "unmap", [unmap] ... ──▶ Entry (by name) ──▶ Job: parameters, checked
//!                                                                          │ units, run, metrics, sections
//!                                          runner: cell by cell, unit by unit ──▶ Outcome ──▶ Document
//! ```
//!
//! A workload is a type that implements [`Workload`]. It declares its parameters with defaults and
//! docs ([`params!`]), the number of units of work in a cell, how to run one on a host, the meaning
//! of its samples, and the tables that show them. Once it is registered ([`Entry::of`]), `compare`,
//! `run`, `explain`, `list` and `show` know it; no other code names it. [`STANDARD`] has the
//! workloads of this program; an embedding program adds its own (`highwater::cli::Program`).
//!
//! | module | holds |
//! |---|---|
//! | `highalloc`, `netperf`, `stutter`, `stutterp`, `unmap` | the workloads of the studies |
//! | `pagealloc` | the allocator alone |
//! | [`job`] | job files of users |
//! | [`params`](mod@params) | parameters, declared once |
//! | [`before`] | columns of results that an earlier version wrote |
//! | [`ends`] | results of its tasks at their end |
//! | [`harness`] | a simulated machine from boot to audit |
//! | [`storage`] | its disks and swap |
//!
//! [`params!`]: crate::params!

pub mod before;
pub mod ends;
pub mod harness;
pub mod highalloc;
pub mod job;
pub mod netperf;
pub mod pagealloc;
pub mod params;
pub mod storage;
pub mod stutter;
pub mod stutterp;
pub mod unmap;

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use highwater_core::config::KernelVersion;
use highwater_results::{Definition, Metric, Section};
use toml::de::{DeTable, ValueDeserializer};

pub use highwater_files::input::size::Bytes;
pub use params::{Param, Params, Problem};
#[doc(hidden)]
pub use {schemars, serde};

pub use crate::outcome::{self, Outcome, RunError};
pub use crate::sampling::{self, Sampling};
pub use crate::unit::{HostKind, Unit};
use highwater_files::machine_file::MachineFile;

/// The workloads that come with the program.
pub const STANDARD: &[Entry] = &[
    Entry::of::<netperf::Netperf>(),
    Entry::of::<highalloc::Highalloc>(),
    Entry::of::<pagealloc::PageAlloc>(),
    Entry::of::<stutter::Stutter>(),
    Entry::of::<stutterp::Stutterp>(),
    Entry::of::<unmap::Unmap>(),
    Entry::of::<job::Job>(),
];

/// A benchmark. The type is only a name: all differences between two runs are in the parameters.
pub trait Workload: 'static {
    /// Its parameters.
    type Params: Params;

    /// The name in experiments and reports.
    const NAME: &'static str;
    /// One line about it.
    const ABOUT: &'static str;
    /// The experiment whose machines, policies and parameters a single run uses; `None`: defaults,
    /// and the user has to name a machine.
    const STUDY: Option<&'static str> = None;
    /// Why it does not run natively; `None`: it does.
    const NOT_NATIVE: Option<&'static str> = None;
    /// Its histograms count delays: those of all seeds are added up, and `--histograms` prints
    /// each.
    const COUNTS_DELAYS: bool = false;

    /// CPUs that a machine must have.
    fn cpus_needed(_: &Self::Params) -> usize {
        1
    }

    /// Number of units of work in a cell. Units are independent and run concurrently; their results
    /// are put together in order.
    fn units(_: &Self::Params, _: &MachineFile) -> usize {
        1
    }

    /// The name of one of several units.
    fn part_name(_: &Self::Params, _: &MachineFile, part: usize) -> String {
        part.to_string()
    }

    /// CPU seconds of a unit on the simulated machine, within a factor of two; only for the
    /// estimate before a run. `None`: unknown.
    fn seconds(_: &Self::Params, _: &MachineFile, _part: usize) -> Option<f64> {
        None
    }

    /// Upper limit of a unit's virtual time in seconds, for the progress display. `None`: unknown.
    fn virtual_seconds(_: &Self::Params, _: &MachineFile, _part: usize) -> Option<f64> {
        None
    }

    /// Runs one unit.
    ///
    /// # Errors
    /// If it cannot be run, or memory is not consistent afterwards.
    fn run(params: &Self::Params, unit: &Unit<'_>) -> Result<Outcome, RunError>;

    /// The meaning of the samples of runs on some machines.
    fn metrics(params: &Self::Params, machines: &[MachineFile]) -> Vec<Metric>;

    /// Names of the operations whose time is recorded; empty: unknown before a run.
    fn operations(_: &Self::Params) -> Vec<String> {
        Vec::new()
    }

    /// Why the time of an operation is not recorded separately, and which operation to use instead;
    /// `None`: it is recorded.
    fn not_booked(_: &Self::Params, _operation: &str) -> Option<String> {
        None
    }

    /// Operations that a kernel does not count, each with the first kernel that does. A run has no
    /// samples of them.
    fn not_counted(_: &Self::Params, _: KernelVersion) -> Vec<(String, KernelVersion)> {
        Vec::new()
    }

    /// The tables that show the metrics, in order.
    fn sections(_: &Self::Params, metrics: &[Metric]) -> Vec<Section> {
        highwater_report::report::usual_sections(metrics)
    }
}

/// A workload with its parameters, ready to run.
pub trait Job: fmt::Debug + Send + Sync {
    /// The entry that made it.
    fn entry(&self) -> Entry;
    /// Name, about, and the parameters as TOML.
    fn definition(&self) -> Definition;
    /// The parameters as values.
    ///
    /// # Errors
    /// If one of them has no form in TOML.
    fn params(&self) -> Result<toml::Table, String>;
    /// See [`Workload::cpus_needed`].
    fn cpus_needed(&self) -> usize;
    /// See [`Workload::units`].
    fn units(&self, machine: &MachineFile) -> usize;
    /// See [`Workload::part_name`].
    fn part_name(&self, machine: &MachineFile, part: usize) -> String;
    /// See [`Workload::seconds`].
    fn seconds(&self, machine: &MachineFile, part: usize) -> Option<f64>;
    /// See [`Workload::virtual_seconds`].
    fn virtual_seconds(&self, machine: &MachineFile, part: usize) -> Option<f64>;
    /// Runs one unit.
    ///
    /// # Errors
    /// As [`Workload::run`].
    fn run(&self, unit: &Unit<'_>) -> Result<Outcome, RunError>;
    /// See [`Workload::metrics`].
    fn metrics(&self, machines: &[MachineFile]) -> Vec<Metric>;
    /// See [`Workload::operations`].
    fn operations(&self) -> Vec<String>;
    /// See [`Workload::not_booked`].
    fn not_booked(&self, operation: &str) -> Option<String>;
    /// See [`Workload::not_counted`].
    fn not_counted(&self, kernel: KernelVersion) -> Vec<(String, KernelVersion)>;
    /// See [`Workload::sections`].
    fn sections(&self, metrics: &[Metric]) -> Vec<Section>;
}

struct Bound<W: Workload> {
    params: W::Params,
    workload: PhantomData<fn() -> W>,
}

impl<W: Workload> fmt::Debug for Bound<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(W::NAME).field(&self.params).finish()
    }
}

impl<W: Workload> Job for Bound<W> {
    fn entry(&self) -> Entry {
        Entry::of::<W>()
    }

    fn definition(&self) -> Definition {
        Definition {
            name: W::NAME.to_owned(),
            summary: W::ABOUT.to_owned(),
            // Parameters are plain values: always valid TOML.
            definition: toml::to_string(&self.params).unwrap_or_default(),
        }
    }

    fn params(&self) -> Result<toml::Table, String> {
        toml::Table::try_from(&self.params).map_err(|error| error.to_string())
    }

    fn cpus_needed(&self) -> usize {
        W::cpus_needed(&self.params)
    }

    fn units(&self, machine: &MachineFile) -> usize {
        W::units(&self.params, machine)
    }

    fn part_name(&self, machine: &MachineFile, part: usize) -> String {
        W::part_name(&self.params, machine, part)
    }

    fn seconds(&self, machine: &MachineFile, part: usize) -> Option<f64> {
        W::seconds(&self.params, machine, part)
    }

    fn virtual_seconds(&self, machine: &MachineFile, part: usize) -> Option<f64> {
        W::virtual_seconds(&self.params, machine, part)
    }

    fn run(&self, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        match (unit.host, W::NOT_NATIVE) {
            (HostKind::Native, Some(reason)) => Err(RunError::Native(reason.to_owned())),
            _ => W::run(&self.params, unit),
        }
    }

    fn metrics(&self, machines: &[MachineFile]) -> Vec<Metric> {
        W::metrics(&self.params, machines)
    }

    fn operations(&self) -> Vec<String> {
        W::operations(&self.params)
    }

    fn not_booked(&self, operation: &str) -> Option<String> {
        W::not_booked(&self.params, operation)
    }

    fn not_counted(&self, kernel: KernelVersion) -> Vec<(String, KernelVersion)> {
        W::not_counted(&self.params, kernel)
    }

    fn sections(&self, metrics: &[Metric]) -> Vec<Section> {
        W::sections(&self.params, metrics)
    }
}

/// A registered workload.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name in experiments and reports.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// See [`Workload::STUDY`].
    pub study: Option<&'static str>,
    /// See [`Workload::NOT_NATIVE`].
    pub not_native: Option<&'static str>,
    /// See [`Workload::COUNTS_DELAYS`].
    pub counts_delays: bool,
    /// Its parameters.
    pub params: &'static [Param],
    /// The type that implements it.
    of: TypeId,
    job: fn(ValueDeserializer<'_>) -> Result<Arc<dyn Job>, JobError>,
    job_of: fn(toml::Table) -> Result<Arc<dyn Job>, JobError>,
    defaults: fn() -> Arc<dyn Job>,
    /// The JSON Schema of its parameters.
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Why parameters are invalid.
#[derive(Debug)]
pub enum JobError {
    /// They cannot be read.
    Toml(toml::de::Error),
    /// A value cannot be.
    Value(Problem),
}

impl Entry {
    /// The entry of a workload.
    pub const fn of<W: Workload>() -> Entry {
        fn bind<W: Workload>(params: W::Params) -> Arc<dyn Job> {
            Arc::new(Bound::<W> { params, workload: PhantomData })
        }
        fn job<W: Workload>(table: ValueDeserializer<'_>) -> Result<Arc<dyn Job>, JobError> {
            checked::<W>(serde::Deserialize::deserialize(table))
        }
        fn job_of<W: Workload>(table: toml::Table) -> Result<Arc<dyn Job>, JobError> {
            checked::<W>(toml::Value::Table(table).try_into())
        }
        fn checked<W: Workload>(
            params: Result<W::Params, toml::de::Error>,
        ) -> Result<Arc<dyn Job>, JobError> {
            let params = params.map_err(JobError::Toml)?;
            match params.problem() {
                Some(problem) => Err(JobError::Value(problem)),
                None => Ok(bind::<W>(params)),
            }
        }
        Entry {
            name: W::NAME,
            about: W::ABOUT,
            study: W::STUDY,
            not_native: W::NOT_NATIVE,
            counts_delays: W::COUNTS_DELAYS,
            params: W::Params::PARAMS,
            of: TypeId::of::<W>(),
            job: job::<W>,
            job_of: job_of::<W>,
            defaults: || bind::<W>(W::Params::default()),
            schema: |generator| <W::Params as schemars::JsonSchema>::json_schema(generator),
        }
    }

    /// Whether both are the same code, under any name.
    pub fn is_same(&self, other: &Entry) -> bool {
        self.of == other.of
    }

    /// The workload with its defaults.
    pub fn defaults(&self) -> Arc<dyn Job> {
        (self.defaults)()
    }

    /// The workload with parameters from a table; missing parameters have their defaults.
    pub fn job(&self, table: toml::Spanned<DeTable<'_>>) -> Result<Arc<dyn Job>, JobError> {
        let span = table.span();
        let table = toml::de::DeValue::Table(table.into_inner());
        (self.job)(toml::Spanned::new(span, table).into())
    }

    /// The workload with parameters from values; missing parameters have their defaults.
    pub fn job_of(&self, params: toml::Table) -> Result<Arc<dyn Job>, JobError> {
        (self.job_of)(params)
    }

    /// The parameters as a text to start from: docs and defaults.
    pub fn template(&self) -> String {
        let defaults = self.defaults().definition().definition;
        let mut text = format!("# {}\n[{}]\n", self.about, self.name);
        for line in defaults.lines() {
            let param = self.params.iter().find(|param| is_of(line, &param.key()));
            for doc in param.iter().flat_map(|param| param.doc.lines()) {
                text.push_str(&format!("# {}\n", doc.trim()));
            }
            text.push_str(line);
            text.push('\n');
        }
        // Keys that a file need not have are not among the defaults.
        let is_left_out = |param: &&Param| !defaults.lines().any(|line| is_of(line, &param.key()));
        for param in self.params.iter().filter(is_left_out) {
            for doc in param.doc.lines() {
                text.push_str(&format!("# {}\n", doc.trim()));
            }
            text.push_str(&format!("{} = {}\n", param.key(), param.value_left_out()));
        }
        text
    }
}

/// True if a line of a definition gives a key its value.
fn is_of(line: &str, key: &str) -> bool {
    line.split(" = ").next() == Some(key)
}

/// All workloads that a program knows.
#[derive(Clone, Debug)]
pub struct Registry {
    entries: Vec<Entry>,
}

impl Default for Registry {
    fn default() -> Self {
        Registry { entries: STANDARD.to_vec() }
    }
}

impl Registry {
    /// The workloads of this program, and more. Of two with one name the later one counts.
    pub fn with(more: &[Entry]) -> Registry {
        let mut registry = Registry::default();
        for &entry in more {
            registry.entries.retain(|known| known.name != entry.name);
            registry.entries.push(entry);
        }
        registry
    }

    /// All entries, in the order of their registration.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The workload of a name.
    pub fn find(&self, name: &str) -> Option<Entry> {
        self.entries.iter().find(|entry| entry.name == name).copied()
    }

    /// All names.
    pub fn names(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.name).collect()
    }
}
