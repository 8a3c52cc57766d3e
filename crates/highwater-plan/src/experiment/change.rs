//! Changes of an experiment after it was read: variables and parameters that are set from outside, parameters of single
//! machines, policies beyond those that were shipped. Errors about a value name who set it.

use std::sync::Arc;

use highwater_results::setting::{self, Key};
use toml::Table;

use super::file::{Experiment, Origin};
use super::raw::SIZES;
use super::vars::Given;
use crate::settings::{Said, SaidBy, Settings};
use highwater_files::input::{InputError, Source, said};
use highwater_runs::workload::{JobError, Problem, Registry, RunError};

impl Experiment {
    /// Sets variables of a job file. Parameters that were set separately are lost.
    ///
    /// # Errors
    /// If there is no such variable, or the value is not valid for it.
    pub(crate) fn set_vars(&mut self, given: &[Given]) -> Result<(), InputError> {
        let Some(Origin { file, text, .. }) = &self.origin else {
            let reason = "variables are those of a job's file";
            return Err(InputError::whole(&self.name, reason));
        };
        let new = Experiment::parse_given(&Registry::default(), file, text, given)?;
        let of_size = self.size.and_then(|name| SIZES.iter().position(|size| *size == name));
        let sized = of_size.and_then(|at| new.sizes[at].as_ref().map(|size| Arc::clone(&size.job)));
        self.job = sized.unwrap_or(new.job);
        Ok(())
    }

    /// Sets all parameters of the workload, from TOML.
    ///
    /// # Errors
    /// Names the invalid parameter.
    pub fn set_params(&mut self, params: Table) -> Result<(), String> {
        self.job = self.job.entry().job_of(params).map_err(|error| match error {
            JobError::Toml(error) => said(&error),
            JobError::Value(Problem { path, reason }) => format!("{path}: {reason}"),
        })?;
        Ok(())
    }

    /// Remembers who set the parameter at a path, for errors about its value.
    pub(crate) fn keep_said(&mut self, path: String, said: String) {
        self.said.push((path, said));
    }

    /// Its name in errors: its file, or its name.
    pub(crate) fn called(&self) -> String {
        self.origin.as_ref().map_or_else(|| self.name.clone(), |origin| origin.file.clone())
    }

    /// Computes the jobs of machines with parameters. Machines have their report names by now.
    ///
    /// # Errors
    /// If a parameter does not exist, or the value is not valid for it.
    pub(crate) fn set_variants(&mut self) -> Result<(), InputError> {
        self.variants.clear();
        for machine in self.machines.iter().filter(|machine| !machine.set.is_empty()) {
            let mut variant = Experiment::of_job(Arc::clone(&self.job));
            let workload = self.job.entry().name;
            let of = |text: &String| Said {
                text: format!("{workload}.{text}"),
                by: SaidBy::Variant(machine.name.clone()),
            };
            let texts: Vec<Said> = machine.set.iter().map(of).collect();
            variant.set(&Settings::parse(&texts, workload)?)?;
            self.variants.push((machine.name.clone(), variant.job));
        }
        Ok(())
    }

    /// Adds the policies of `--beyond` if wanted, and its settings, except for `given` keys.
    ///
    /// # Errors
    /// If it is wanted and the experiment has none.
    pub fn go_beyond(
        &mut self,
        is_wanted: bool,
        given: &[Said],
    ) -> Result<Vec<String>, InputError> {
        if !is_wanted {
            return Ok(Vec::new());
        }
        let Some(beyond) = &self.beyond else {
            let reason = format!("{} has no policies beyond those that were shipped", self.name);
            return Err(InputError::whole("--beyond", reason));
        };
        self.is_beyond = true;
        let key = |text: &str| setting::split(text).map(|(key, _)| Key::parse(key));
        let is_given = |text: &str| {
            let wanted = key(text);
            given.iter().any(|said| {
                key(&said.text)
                    .zip(wanted.as_ref())
                    .is_some_and(|(key, wanted)| key.is_same(wanted))
            })
        };
        Ok(beyond.set.iter().filter(|text| !is_given(text)).cloned().collect())
    }

    /// An error of a run, with file and line if it is about a value in the file.
    pub(crate) fn at_place(&self, error: RunError) -> RunError {
        let RunError::At { path, reason, place: None } = error else { return error };
        let is_below = |path: &str, other: &str| {
            let rest = path.strip_prefix(other);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut set = self.said.iter().rev();
        if let Some((_, said)) = set.clone().find(|(set, _)| is_below(&path, set)) {
            return RunError::At { path, reason, place: Some(said.clone()) };
        }
        let placed = self.origin.as_ref().and_then(|Origin { file, text, .. }| {
            let source = Source { file, text };
            // A job's file has the parameters of its workload at the top.
            let inner = format!("{}.{path}", self.job.entry().name);
            let span = source.place_of(&path).or_else(|| source.place_of(&inner))?;
            let line = source.at(span, "", "").line?;
            // A part of it was set, so the file does not say all. An error about a phase has
            // the path of what the phase does.
            let around = path.strip_suffix(".do").unwrap_or(&path);
            let with = set.find(|(set, _)| is_below(set, around));
            let with = with.map(|(_, said)| format!(", with {said}")).unwrap_or_default();
            Some(format!("{file}:{line}{with}"))
        });
        RunError::At { path, reason, place: placed }
    }
}
