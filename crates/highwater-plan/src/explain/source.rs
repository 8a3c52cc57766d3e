//! The source of an explanation: an experiment, the results of a run, or a stored explanation.
//!
//! Results hold the machines and policies with every figure, the workload with every parameter, and
//! the seed. So changes of those names since then do not matter.

use std::io;
use std::path::Path;

use highwater_results::explain::{EXPLAIN_FILE, Explanation};
use highwater_results::store::{DOCUMENT_FILE, read_document};
use highwater_results::words::refusal;
use highwater_results::{Contents, Document, input};

use crate::experiment::{self, Experiment, HostKind, RunPlan};
use highwater_files::input::{InputError, one_line};
use highwater_files::machine_file::MachineFile;
use highwater_files::policy_file;
use highwater_runs::workload::Registry;

/// The meaning of a name on the command line.
pub enum Source {
    /// Not a directory: an experiment.
    Experiment,
    /// A directory that `compare --out` or `run --out` wrote.
    Results(Box<Document>),
    /// One that `explain --out` wrote.
    Explained(Box<Explanation>),
}

/// Resolves a name. An experiment's name always means the experiment, even if a directory has the
/// same name.
///
/// # Errors
/// If it is a directory without results, or with invalid ones.
pub fn of(registry: &Registry, name: &str) -> Result<Source, InputError> {
    let path = Path::new(name);
    let is_known = |experiment: &Experiment| {
        experiment.name == name || experiment.name.split('-').next() == Some(name)
    };
    if !path.is_dir() || experiment::embedded(registry).unwrap_or_default().iter().any(is_known) {
        return Ok(Source::Experiment);
    }
    let file = path.join(EXPLAIN_FILE);
    match input::read_text(&file, input::DOCUMENT_BYTES_MAX) {
        Ok(text) => {
            let name = file.display().to_string();
            return Ok(Source::Explained(Box::new(parse(&name, &text)?)));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            let reason = format!("cannot be read: {}", refusal(&error));
            return Err(InputError::whole(file.display().to_string(), reason));
        }
    }
    if let Some(instead) = Contents::of(path).and_then(|known| known.instead_of_comparison(path)) {
        return Err(InputError::whole(path.display().to_string(), instead));
    }
    if !path.join(DOCUMENT_FILE).exists() {
        let reason = format!("neither {EXPLAIN_FILE} nor {DOCUMENT_FILE} in this directory");
        return Err(InputError::whole(path.display().to_string(), reason));
    }
    match read_document(path) {
        Ok(document) => Ok(Source::Results(Box::new(document))),
        // The error names its file.
        Err(error) => Err(InputError::whole(path.display().to_string(), error.to_string())),
    }
}

/// An explanation that adds up.
pub fn parse(file: &str, text: &str) -> Result<Explanation, InputError> {
    let explanation: Explanation = serde_json::from_str(text).map_err(|error| InputError {
        file: file.to_owned(),
        line: Some(error.line()),
        field: None,
        reason: one_line(&error.to_string()),
    })?;
    explanation.validate().map_err(|error| InputError::whole(file, error.to_string()))?;
    Ok(explanation)
}

/// The plan that repeats the run of some results.
///
/// # Errors
/// If a definition in them cannot be read, or the workload is not registered.
pub fn repeat(
    registry: &Registry,
    document: &Document,
    path: &Path,
) -> Result<RunPlan, InputError> {
    let file = path.join(DOCUMENT_FILE).display().to_string();
    let wrong = |field: &str, reason: String| InputError {
        file: file.clone(),
        line: None,
        field: Some(field.to_owned()),
        reason,
    };
    let host = match document.host.as_str() {
        "native" => HostKind::Native,
        _ => HostKind::Sim,
    };
    let experiment =
        Experiment::of_document(registry, document).map_err(|reason| wrong("workload", reason))?;
    let machines = document
        .machines
        .iter()
        .map(|known| {
            let mut machine = MachineFile::parse(&known.name, &known.definition)?;
            // A variant's name differs from the name in the machine file.
            machine.name.clone_from(&known.name);
            Ok(machine)
        })
        .collect::<Result<Vec<_>, InputError>>()?;
    let mut policies = Vec::new();
    for policy in &document.policies {
        let label = document.runs.iter().find(|run| run.policy == policy.name);
        let label = label.map_or_else(|| policy.name.clone(), |run| run.label.clone());
        policies.push((policy_file::parse(&policy.name, &policy.definition)?, label));
    }
    if machines.is_empty() || policies.is_empty() {
        return Err(wrong("machines, policies", "none to run".to_owned()));
    }
    let (seed, settings) = (document.seed, document.settings.clone());
    Ok(RunPlan { host, seed, settings, ..RunPlan::new(experiment, machines, policies) })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::experiment::{Progress, run};

    struct Nobody;

    impl Progress for Nobody {
        fn cell_done(&self, _: usize, _: usize) {}
    }

    #[test]
    fn what_results_are_of_is_run_again_also_of_a_variant() {
        let text = "name = \"x\"\ntitle = \"t\"\nworkload = \"netperf-tcp\"\niterations = 1\n\
                    [[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"m\"\nvariant = \"long\"\n\
                    set = [\"ms-per-size=2\"]\n\
                    [netperf-tcp]\nsizes = [4096]\nms-per-size = 1\nwarmup = \"1M\"\n";
        let registry = Registry::default();
        let mut experiment = Experiment::parse(&registry, "x.toml", text).unwrap();
        "m-long".clone_into(&mut experiment.machines[0].name);
        experiment.set_variants().unwrap();
        let definition = "name = \"m\"\n[[node]]\nmemory = \"64M\"\ncpus = \"0-1\"\n";
        let mut machine = MachineFile::parse("m.toml", definition).unwrap();
        "m-long".clone_into(&mut machine.name);
        let policy = (highwater_core::config::preset("6.1").unwrap(), "6.1".to_owned());
        let plan = RunPlan::new(experiment, vec![machine], vec![policy]);
        let document = run(&plan, &Nobody, &AtomicBool::new(false)).unwrap();
        let again = repeat(&registry, &document, Path::new(".")).unwrap();
        assert_eq!(again.machines[0].name, "m-long");
        let second = run(&again, &Nobody, &AtomicBool::new(false)).unwrap();
        assert_eq!(second.runs, document.runs);
    }
}
