//! `--set` of an experiment: its seeds, the shape of native runs, variables of a job's file, parameters of its workload.

use highwater_results::setting::Scope;

use super::file::Experiment;
use super::raw::NativeShape;
use super::vars::Given;
use crate::settings::{Setting, Settings};
use highwater_files::input::InputError;
use highwater_files::input::size::{CPUS_MAX, parse_size};
use highwater_runs::workload::Bytes;

/// Prefix of the names of a job's variables.
const VAR: &str = "var.";

impl Experiment {
    /// Applies the settings of an experiment: parameters of its workload, seeds, the shape of
    /// native runs.
    ///
    /// # Errors
    /// If there is no such key, or the value is not valid for it.
    pub fn set(&mut self, settings: &Settings) -> Result<(), InputError> {
        for setting in settings.of(Scope::Experiment) {
            self.set_key(setting)?;
        }
        // Variables first, because the other settings apply to the job that they make.
        let var = |setting: &Setting| setting.key.path().strip_prefix(VAR).map(str::to_owned);
        let vars: Vec<Given> = settings
            .of(Scope::Workload)
            .filter_map(|setting| Some(Given::new(&var(setting)?, &setting.value.text)))
            .collect();
        if !vars.is_empty() {
            self.set_vars(&vars)?;
        }
        for setting in settings.of(Scope::Workload).filter(|setting| var(setting).is_none()) {
            self.set_param(setting)?;
        }
        Ok(())
    }

    /// Sets a key of the experiment itself.
    fn set_key(&mut self, setting: &Setting) -> Result<(), InputError> {
        let number = |most: u32| match setting.value.text.parse::<u32>() {
            Ok(n) if (1..=most).contains(&n) => Ok(n),
            _ => Err(setting.wrong(format!("must be a number from 1 to {most}"))),
        };
        let mut native =
            |change: &dyn Fn(&mut NativeShape)| match &mut self.native {
                Some(shape) => {
                    change(shape);
                    Ok(())
                }
                None => Err(setting
                    .wrong("the experiment has no shape for native runs; give --mem, --cpus")),
            };
        match setting.key.path() {
            "native.memory" => {
                let bytes =
                    parse_size(&setting.value.text).map_err(|reason| setting.wrong(reason))?;
                native(&|shape| shape.memory = Bytes(bytes))
            }
            "native.cpus" => {
                let cpus = number(CPUS_MAX.into())? as u16;
                native(&|shape| shape.cpus = cpus)
            }
            _ => {
                self.iterations = number(10_000)?;
                Ok(())
            }
        }
    }
}
