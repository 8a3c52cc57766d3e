//! The jobs that come with the program, and the values that captured files give to their variables.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::file::Experiment;
use super::raw::job_of;
use super::vars::{self, Given};
use highwater_files::input::catalogue::texts;
use highwater_files::input::{Catalogue, InputError, Source};
use highwater_runs::workload::job::JobParams;
use highwater_runs::workload::{Params, Problem, Registry};

/// The jobs that come with the program.
pub(super) const JOBS: Catalogue = Catalogue {
    what: "job",
    kinds: &["job"],
    option: "job",
    folder: "workloads",
    texts: texts::WORKLOADS,
};

/// Every job that comes with the program.
///
/// # Errors
/// Never for the program as released: a test parses them all.
pub fn jobs(registry: &Registry) -> Result<Vec<Experiment>, InputError> {
    JOBS.all().map(|found| Experiment::parse(registry, &found.file, &found.text)).collect()
}

/// The text of an embedded job; `None` if there is none with this name.
pub fn job_text(name: &str) -> Option<String> {
    JOBS.find(name).map(|found| found.text.into_owned())
}

/// The tasks of an embedded job with these values of its variables, in the order of the file's
/// `args`. `None` if there is no such job, or it lists no `args`.
///
/// # Errors
/// If the number of values is wrong, or a value is not valid.
pub fn job_with(name: &str, values: &[f64]) -> Result<Option<JobParams>, String> {
    let Some(text) = job_text(name) else { return Ok(None) };
    let said = |error: toml::de::Error| error.message().to_owned();
    let mut root = DeTable::parse(&text).map_err(said)?.into_inner();
    let names = vars::arguments(&root);
    if names.is_empty() {
        return Ok(None);
    }
    if names.len() != values.len() {
        let (wanted, found) = (names.len(), values.len());
        return Err(format!("{name} takes {wanted} parameters, not {found}"));
    }
    for (at, value) in values.iter().enumerate() {
        // A bound on how long a bad file can keep us busy.
        if !(0.0..=ARGUMENT_MAX).contains(value) {
            return Err(format!("parameter {at} of {name}: {value} is not between 0 and 10000"));
        }
    }
    let given: Vec<Given> = names
        .iter()
        .zip(values)
        .map(|(name, value)| Given::new(name, &value.to_string()))
        .collect();
    let source = Source { file: name, text: &text };
    vars::resolve(&mut root, &given, source).map_err(|error| error.to_string())?;
    let params = job_of(&mut root, name).unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
    let params = Spanned::new(0..0, DeValue::Table(params.into_inner()));
    let params = JobParams::deserialize(ValueDeserializer::from(params)).map_err(said)?;
    match params.problem() {
        Some(Problem { path, reason }) => Err(format!("{name}: {path}: {reason}")),
        None => Ok(Some(params)),
    }
}

/// Most that a captured file may give a variable.
const ARGUMENT_MAX: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_files_give_values_to_jobs() {
        use highwater_runs::workload::job::Amount;

        let job = |name: &str, values: &[f64]| job_with(name, values);
        let cyclic = job("cyclic", &[0.8, 3.0]).unwrap().unwrap();
        assert_eq!((cyclic.file[0].size, cyclic.task[0].rounds), (Amount::Share(0.8), 3));
        // Whole numbers also serve as sizes.
        let whole = job("anon", &[1.0, 1.0]).unwrap().unwrap();
        assert_eq!(whole.task[0].phase[0].size, Some(Amount::Share(1.0)));
        assert_eq!(job("thb", &[0.3, 0.0, 0.6]), Ok(None));
        assert_eq!(job("leak", &[]), Ok(None), "no captured program");
        let wrong = |name: &str, values: &[f64]| job(name, values).unwrap_err();
        assert_eq!(wrong("mixed", &[0.5]), "mixed takes 3 parameters, not 1");
        assert_eq!(wrong("zap", &[0.3, 1.5, 1.0]), "maps=1.5: is not a whole number");
        assert!(wrong("anon", &[-1.0, 1.0]).contains("parameter 0 of anon: -1 is not between"));
        assert!(wrong("anon", &[65.0, 1.0]).contains("no share of memory"));
        assert!(wrong("numa-policy", &[0.6, 6.0]).contains("policy: is one of local, "));
        // Every captured program has a job.
        let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reference/linux-6.1");
        let mut nr = 0;
        for dir in ["scenarios", "compaction", "numa", "ab"] {
            for file in std::fs::read_dir(format!("{files}/{dir}")).unwrap() {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                let captured: serde_json::Value = serde_json::from_str(&text).unwrap();
                let Some(name) = captured["scenario"].as_str() else { continue };
                let params = captured["params"].as_array().unwrap();
                let params: Vec<f64> = params.iter().map(|p| p.as_f64().unwrap()).collect();
                assert!(job(name, &params).unwrap().is_some(), "{name} {params:?}");
                nr += 1;
            }
        }
        assert!(nr > 30, "{nr}");
    }
}
