//! Experiment files: TOML, embedded or given by path.

use std::path::Path;

use highwater_results::input;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::beside::{Beside, StallEntry};
use super::netperf::{NetperfQuick, NetperfSection};
use super::stutterp::{NOT_NATIVE, StutterpChange, StutterpSection};
use super::unmap::{UnmapQuick, UnmapSection};

/// The experiments that come with the program: file name and text.
const EMBEDDED: &[(&str, &str)] = &[
    (
        "001-reclaim-throttle.toml",
        include_str!("../../../../experiments/001-reclaim-throttle.toml"),
    ),
    ("002-pcp-high-order.toml", include_str!("../../../../experiments/002-pcp-high-order.toml")),
    ("003-unmap-accessed.toml", include_str!("../../../../experiments/003-unmap-accessed.toml")),
];

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Virtual time.
    Sim,
    /// Threads and memory of this computer.
    Native,
}

impl HostKind {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            HostKind::Sim => "sim",
            HostKind::Native => "native",
        }
    }
}

/// Why there is no such experiment.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// Not a known name, and no file.
    #[error("experiment \"{name}\": not one of {known}, and no such file")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's words.
        reason: std::io::Error,
    },
    /// The file is not an experiment.
    #[error("{file}:{line}: {problem}")]
    Invalid {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Field and reason.
        problem: String,
    },
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Name, starting with the study's number.
    pub name: String,
    /// One line.
    pub title: String,
    /// Seeds per policy and machine.
    pub iterations: u32,
    /// Shape of native runs; none: the user says which.
    pub native: Option<NativeShape>,
    /// Policies, the baseline first.
    pub policies: Vec<PolicyEntry>,
    /// Machines.
    pub machines: Vec<MachineEntry>,
    /// What runs, with its parameters.
    pub workload: Workload,
    /// What `--quick` changes.
    quick: ChangeSection,
    /// What `--full` changes; none: there is no larger version.
    full: Option<ChangeSection>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    name: String,
    title: String,
    workload: WorkloadName,
    iterations: u32,
    native: Option<NativeShape>,
    #[serde(rename = "policy")]
    policies: Vec<PolicyEntry>,
    #[serde(rename = "machine")]
    machines: Vec<MachineEntry>,
    netperf_tcp: Option<NetperfSection>,
    unmap: Option<UnmapSection>,
    stutterp: Option<StutterpSection>,
    quick: ChangeSection,
    full: Option<ChangeSection>,
}

/// A workload with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// [`super::netperf`].
    NetperfTcp(NetperfSection),
    /// [`super::stutterp`].
    Stutterp(StutterpSection),
    /// [`super::unmap`].
    Unmap(UnmapSection),
}

impl Workload {
    /// Which one it is.
    pub const fn name(&self) -> WorkloadName {
        match self {
            Workload::NetperfTcp(_) => WorkloadName::NetperfTcp,
            Workload::Stutterp(_) => WorkloadName::Stutterp,
            Workload::Unmap(_) => WorkloadName::Unmap,
        }
    }

    /// Why it does not run natively; none: it does.
    pub const fn native_refusal(&self) -> Option<&'static str> {
        match self {
            Workload::NetperfTcp(_) | Workload::Unmap(_) => None,
            Workload::Stutterp(_) => Some(NOT_NATIVE),
        }
    }

    /// CPUs that a machine must have.
    pub fn cpus_needed(&self) -> usize {
        match self {
            Workload::NetperfTcp(n) => usize::from(n.sender_cpu.max(n.receiver_cpu)) + 1,
            Workload::Stutterp(_) | Workload::Unmap(_) => 1,
        }
    }
}

/// Workloads that experiments can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadName {
    /// [`highwater_workloads::netperf`].
    NetperfTcp,
    /// [`highwater_workloads::stutterp`].
    Stutterp,
    /// [`highwater_workloads::unmap`].
    Unmap,
}

impl WorkloadName {
    /// Every workload.
    pub const ALL: &'static [WorkloadName] =
        &[WorkloadName::NetperfTcp, WorkloadName::Stutterp, WorkloadName::Unmap];

    /// One line about it.
    pub const fn about(self) -> &'static str {
        match self {
            WorkloadName::NetperfTcp => {
                "netperf TCP_STREAM over loopback: blocks allocated on one CPU, freed on another"
            }
            WorkloadName::Stutterp => {
                "latency of mapping memory while writers fill the page cache and hogs the rest"
            }
            WorkloadName::Unmap => {
                "processes unmap young file pages; then a stream of file data, and the pages again"
            }
        }
    }

    /// The experiment whose parameters a single run uses.
    pub const fn default_experiment(self) -> &'static str {
        match self {
            WorkloadName::NetperfTcp => "002-pcp-high-order",
            WorkloadName::Stutterp => "001-reclaim-throttle",
            WorkloadName::Unmap => "003-unmap-accessed",
        }
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            WorkloadName::NetperfTcp => "netperf-tcp",
            WorkloadName::Stutterp => "stutterp",
            WorkloadName::Unmap => "unmap",
        }
    }
}

/// A policy of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyEntry {
    /// Name or file.
    pub name: String,
    /// Heading of its column.
    pub label: String,
}

/// A machine of an experiment, with what was published of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineEntry {
    /// Name or file.
    pub name: String,
    /// Published tables to set beside ours: one, or a list.
    #[serde(default, deserialize_with = "one_or_more")]
    pub published: Vec<String>,
    /// Published histograms of hottest frames, by policy.
    #[serde(default)]
    pub hottest: Vec<String>,
    /// Published single figures to set beside ours.
    #[serde(default)]
    pub claims: Vec<ClaimEntry>,
    /// What the study is about, figure by figure.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// Published delays of throttled tasks.
    #[serde(default)]
    pub stalls: Vec<StallEntry>,
}

/// A published figure and what of ours it is about.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimEntry {
    /// The study.
    pub study: String,
    /// Line of the study's text; with the unit it names one figure.
    pub line: u32,
    /// Its unit.
    pub unit: String,
    /// The operation of ours, under the baseline policy.
    pub operation: String,
    /// What our mean is multiplied by to get the published unit.
    #[serde(default = "one")]
    pub factor: f64,
}

/// A text alone, or a list of them.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected the name of a published table, or a list of names")]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match OneOrMore::deserialize(deserializer)? {
        OneOrMore::One(name) => vec![name],
        OneOrMore::More(names) => names,
    })
}

const fn one() -> f64 {
    1.0
}

/// Size of native runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeShape {
    /// Bytes, with suffix.
    pub memory: Bytes,
    /// Logical CPUs.
    pub cpus: u16,
}

/// What `--quick` or `--full` changes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ChangeSection {
    /// Seeds per policy and machine.
    iterations: u32,
    /// Machines in the place of the others, in their order.
    #[serde(default)]
    machines: Vec<String>,
    netperf_tcp: Option<NetperfQuick>,
    unmap: Option<UnmapQuick>,
    stutterp: Option<StutterpChange>,
}

/// A number of bytes written as `256K`, `8G`, or plainly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Bytes(pub u64);

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Bytes, String> {
        crate::size::parse_size(&text).map(Bytes)
    }
}

/// Every embedded experiment.
///
/// # Errors
/// Never for the program as released: a test parses them all.
pub fn embedded() -> Result<Vec<Experiment>, ExperimentError> {
    EMBEDDED.iter().map(|(file, text)| Experiment::parse(file, text)).collect()
}

impl Experiment {
    /// The experiment of a name, of its number alone, or of a file.
    ///
    /// # Errors
    /// If there is none, or it is not valid.
    pub fn load(name: &str) -> Result<Experiment, ExperimentError> {
        for (file, text) in EMBEDDED {
            let stem = file.trim_end_matches(".toml");
            if stem == name || stem.split('-').next() == Some(name) {
                return Experiment::parse(file, text);
            }
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|e| e == "toml") || path.exists() {
            let text = input::read_text(path, input::DEFINITION_BYTES_MAX)
                .map_err(|reason| ExperimentError::Unreadable { file: name.to_owned(), reason })?;
            return Experiment::parse(name, &text);
        }
        let known: Vec<_> = EMBEDDED.iter().map(|(f, _)| f.trim_end_matches(".toml")).collect();
        Err(ExperimentError::Unknown { name: name.to_owned(), known: known.join(", ") })
    }

    fn parse(file: &str, text: &str) -> Result<Experiment, ExperimentError> {
        let invalid = |line: usize, problem: String| ExperimentError::Invalid {
            file: file.to_owned(),
            line,
            problem,
        };
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text[..at.min(text.len())].matches('\n').count();
            invalid(line, error.message().replace('\n', " "))
        })?;
        let experiment = raw.experiment().map_err(|section| {
            invalid(1, format!("[{section}]: missing; the parameters of the workload"))
        })?;
        match experiment.problem() {
            Some((section, field, reason)) => {
                Err(invalid(line_of(text, section, field), format!("{field}: {reason}")))
            }
            None => Ok(experiment),
        }
    }

    /// The first field that cannot be, the section where it may be, and why.
    fn problem(&self) -> Option<(&'static str, &'static str, &'static str)> {
        let anywhere = |(field, reason)| ("", field, reason);
        if let Some(problem) = self.shape_problem() {
            return Some(anywhere(problem));
        }
        match &self.workload {
            Workload::NetperfTcp(n) => n.problem(self.quick.netperf_tcp.as_ref()).map(anywhere),
            Workload::Unmap(u) => u.problem(self.quick.unmap.as_ref()).map(anywhere),
            Workload::Stutterp(s) => {
                let quick = self.quick.stutterp.as_ref();
                let full = self.full.as_ref().and_then(|full| full.stutterp.as_ref());
                [("[stutterp]", None), ("[quick.stutterp]", quick), ("[full.stutterp]", full)]
                    .into_iter()
                    .find_map(|(section, change)| {
                        s.problem(change).map(|(field, reason)| (section, field, reason))
                    })
            }
        }
    }

    /// The same of what all workloads have.
    fn shape_problem(&self) -> Option<(&'static str, &'static str)> {
        let changes = [Some(&self.quick), self.full.as_ref()];
        if self.iterations == 0 || changes.iter().flatten().any(|c| c.iterations == 0) {
            Some(("iterations", "must be at least 1"))
        } else if self.policies.is_empty() {
            Some(("[[policy]]", "an experiment needs at least one policy"))
        } else if self.machines.is_empty() {
            Some(("[[machine]]", "an experiment needs at least one machine"))
        } else if changes
            .iter()
            .flatten()
            .any(|c| !c.machines.is_empty() && c.machines.len() != self.machines.len())
        {
            Some(("machines", "one for each machine of the experiment"))
        } else {
            None
        }
    }

    /// The experiment as `--quick` runs it.
    #[must_use]
    pub fn quick(self) -> Experiment {
        let change = self.quick.clone();
        self.changed(change)
    }

    /// The experiment as `--full` runs it; none if it has no larger version.
    #[must_use]
    pub fn full(self) -> Option<Experiment> {
        let change = self.full.clone()?;
        Some(self.changed(change))
    }

    fn changed(mut self, change: ChangeSection) -> Experiment {
        self.iterations = change.iterations;
        for (machine, name) in self.machines.iter_mut().zip(change.machines) {
            machine.name = name;
        }
        match &mut self.workload {
            Workload::NetperfTcp(n) => change.netperf_tcp.iter().for_each(|c| n.apply(c)),
            Workload::Stutterp(s) => change.stutterp.iter().for_each(|c| s.apply(c)),
            Workload::Unmap(u) => change.unmap.iter().for_each(|c| u.apply(c)),
        }
        self
    }
}

impl Raw {
    /// The experiment, or the name of the section that its workload misses.
    fn experiment(self) -> Result<Experiment, &'static str> {
        let workload = match self.workload {
            WorkloadName::NetperfTcp => {
                Workload::NetperfTcp(self.netperf_tcp.ok_or("netperf-tcp")?)
            }
            WorkloadName::Stutterp => Workload::Stutterp(self.stutterp.ok_or("stutterp")?),
            WorkloadName::Unmap => Workload::Unmap(self.unmap.ok_or("unmap")?),
        };
        Ok(Experiment {
            name: self.name,
            title: self.title,
            iterations: self.iterations,
            native: self.native,
            policies: self.policies,
            machines: self.machines,
            workload,
            quick: self.quick,
            full: self.full,
        })
    }
}

/// The line of a field, from 1: in its section if that has it, else wherever it comes first.
fn line_of(text: &str, section: &str, field: &str) -> usize {
    let before = |line: &str, end: char| line.split(end).next().unwrap_or(line).trim().to_owned();
    let starts =
        |(_, line): &(usize, &str)| before(line, '=') == field || before(line, '#') == field;
    let lines = || text.lines().enumerate();
    let from = lines().find(|(_, line)| before(line, '#') == section).map_or(0, |(at, _)| at + 1);
    let mut of_section =
        lines().skip(from).take_while(|(_, line)| !line.trim_start().starts_with('['));
    of_section.find(starts).or_else(|| lines().find(starts)).map_or(1, |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_experiments_are_valid_and_found_by_number() {
        assert_eq!(embedded().unwrap().len(), EMBEDDED.len());
        assert_eq!(Experiment::load("002").unwrap().name, "002-pcp-high-order");
        assert_eq!(Experiment::load("002-pcp-high-order").unwrap().policies.len(), 3);
        assert!(matches!(Experiment::load("999"), Err(ExperimentError::Unknown { .. })));
    }

    #[test]
    fn mistakes_name_line_and_field() {
        let (file, good) = EMBEDDED[1];
        let error = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            Experiment::parse(file, &good.replacen(from, to, 1)).unwrap_err().to_string()
        };
        assert!(error("iterations = 5", "iterations = 0").contains("iterations: must be"));
        assert!(error("title", "titel").contains("titel"));
        assert!(error("\"256M\"", "\"256Q\"").contains("256Q"));
        let same = error("receiver-cpu = 1", "receiver-cpu = 0");
        assert!(same.contains("receiver-cpu: sender and receiver"), "{same}");
    }

    #[test]
    fn one_published_table_or_several() {
        let (file, good) = EMBEDDED[1];
        let of = |published: &str| {
            let from = good.lines().find(|line| line.starts_with("published = ")).unwrap();
            let text = good.replacen(from, &format!("published = {published}"), 1);
            Experiment::parse(file, &text).map(|e| e.machines[0].published.clone())
        };
        assert_eq!(of("\"a\"").unwrap(), ["a"]);
        assert_eq!(of("[\"a\", \"b\"]").unwrap(), ["a", "b"]);
        let error = of("7").unwrap_err().to_string();
        assert!(error.contains("name of a published table"), "{error}");
    }

    #[test]
    fn a_field_is_looked_for_in_its_own_section_first() {
        let text = "a = 1\n[one]\nb = 1\n[two]\nb = 2\na = 3\n";
        assert_eq!(line_of(text, "[two]", "b"), 5);
        assert_eq!(line_of(text, "[one]", "a"), 1);
        assert_eq!((line_of(text, "", "b"), line_of(text, "[two]", "c")), (3, 1));
    }
}
