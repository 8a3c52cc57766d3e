//! Files that people write: machines, costs, policies, experiments, jobs, plans.

use std::str;

use highwater_files::machine_file::{self, MachineFile};
use highwater_files::{InputError, policy_file};
use highwater_plan::experiment::Experiment;
use highwater_plan::plan::Options;
use highwater_runs::workload::Registry;
use toml::de::DeTable;

/// A machine: one that can be, or an error.
pub fn machine_toml(bytes: &[u8]) {
    if let Some(machine) = read(bytes, |text| MachineFile::parse("fuzz.toml", text)) {
        assert!(!machine.machine.nodes.is_empty());
        assert!(machine.cost_table().is_ok());
    }
}

/// A table of costs, alone or with caches.
pub fn costs_toml(bytes: &[u8]) {
    read(bytes, |text| machine_file::costs::parse("fuzz.toml", text));
}

/// A policy. Written with all its switches, it is the same policy.
pub fn policy_toml(bytes: &[u8]) {
    if let Some(policy) = read(bytes, |text| policy_file::parse("fuzz.toml", text)) {
        let again = policy_file::parse("fuzz.toml", &policy_file::to_toml(&policy));
        assert_eq!(again.ok(), Some(policy));
    }
}

/// An experiment with any workload.
pub fn experiment_toml(bytes: &[u8]) {
    read(bytes, |text| Experiment::parse(&Registry::default(), "fuzz.toml", text));
}

/// A job. Its definition, which results keep, is read again as the same.
pub fn job_toml(bytes: &[u8]) {
    let registry = Registry::default();
    let parse = |text: &str| Experiment::parse(&registry, "fuzz.toml", text);
    if let Some(experiment) = read(bytes, parse) {
        let written = experiment.job.definition();
        let entry = registry.find(&written.name).expect("its workload is known");
        let table = DeTable::parse(&written.definition).expect("a definition is TOML");
        let again = entry.job(table).expect("a definition is valid");
        assert_eq!(again.definition(), written);
    }
}

/// A plan of a sweep.
pub fn plan_toml(bytes: &[u8]) {
    read(bytes, |text| Options::from_toml("fuzz.toml", text));
}

/// Reads a text; other bytes are refused before. An error is one line and names a line of the text.
fn read<T>(bytes: &[u8], parse: impl FnOnce(&str) -> Result<T, InputError>) -> Option<T> {
    let text = str::from_utf8(bytes).ok()?;
    match parse(text) {
        Ok(value) => Some(value),
        Err(error) => {
            crate::is_one_line(&error.to_string());
            let nr_lines = text.split('\n').count();
            assert!(error.line.is_none_or(|line| (1..=nr_lines).contains(&line)), "{error}");
            None
        }
    }
}
