//! The machine that the user gives instead of the experiment's: `--machine`, `--mem`, `--cpus`,
//! `--numa`, `--disk`, `--swap`.

use super::PlanError;
use super::vary::MACHINE;
use crate::experiment::HostKind;
use highwater_files::input::InputError;
use highwater_files::machine_file::equip::Storage;
use highwater_files::machine_file::{MachineArg, MachineFile, check_boots};

/// A machine by name, file or size, and the storage that it gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineOptions {
    /// Its name, its file, or its shape.
    pub arg: MachineArg,
    /// The disk of a machine that has none, and the size of its swap.
    pub storage: Storage,
}

impl MachineOptions {
    /// The user's machine; none without one of these options.
    ///
    /// # Errors
    /// If it does not exist, or is too small to boot.
    pub fn resolve(&self) -> Result<Option<MachineFile>, PlanError> {
        let machine = self.arg.resolve()?;
        if let Some(machine) = &machine {
            let option = match (&self.arg.name, &self.arg.mem) {
                (Some(name), _) => format!("--machine {name}"),
                (None, Some(mem)) => format!("--mem {mem}"),
                (None, None) => "--numa".to_owned(),
            };
            check_boots(&machine.machine).map_err(|reason| PlanError::refused(option, reason))?;
        }
        Ok(machine)
    }

    /// The machine of a point at which `keys` have these `values`: that of the key [`MACHINE`], if it
    /// varies.
    pub(super) fn at(&self, keys: &[String], values: &[String]) -> MachineOptions {
        let named = keys.iter().zip(values).find(|(key, _)| *key == MACHINE);
        let arg =
            named.map(|(_, name)| MachineArg { name: Some(name.clone()), ..MachineArg::default() });
        MachineOptions {
            arg: arg.unwrap_or_else(|| self.arg.clone()),
            storage: self.storage.clone(),
        }
    }

    /// Refuses machines that cannot vary: that do not exist, that have one name, or where an option
    /// names a machine, too.
    pub(super) fn check_varied(&self, names: &[String]) -> Result<(), PlanError> {
        let MachineArg { name, mem, cpus, numa, numa_distance } = &self.arg;
        let given = [
            ("--machine", name.is_some()),
            ("--mem", mem.is_some()),
            ("--cpus", cpus.is_some()),
            ("--numa", !numa.is_empty()),
            ("--numa-distance", !numa_distance.is_empty()),
        ];
        if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
            let reason = format!("there is {option}, too: a point has one machine");
            return Err(PlanError::refused(format!("--vary {MACHINE}"), reason));
        }
        let mut known: Vec<(String, &String)> = Vec::new();
        for value in names {
            let option = format!("--vary {MACHINE}={value}");
            let machine = MachineFile::load(value).map_err(|error| match error.file.as_str() {
                "--machine" => InputError { file: option.clone(), ..error },
                _ => error,
            })?;
            check_boots(&machine.machine).map_err(|reason| PlanError::refused(&option, reason))?;
            if let Some((name, other)) = known.iter().find(|(name, _)| *name == machine.name) {
                let reason =
                    format!("is called {name}, as {other} is; give one of them another name");
                return Err(PlanError::refused(option, reason));
            }
            known.push((machine.name, value));
        }
        Ok(())
    }

    /// The user's machine, which is required.
    ///
    /// # Errors
    /// If the user gave none, or it does not exist.
    pub fn require(&self) -> Result<MachineFile, PlanError> {
        self.resolve()?.ok_or_else(|| {
            let reason = "Give --machine, --mem and --cpus, or --numa";
            PlanError::Unknown(format!("which machine? {reason}"))
        })
    }

    /// A machine with the user's disk and swap, from options or settings (`set`). The second value
    /// says what was added without being named.
    ///
    /// # Errors
    /// If it cannot have them, or nothing would use them.
    pub fn equip(
        &self,
        machine: &MachineFile,
        set: &Storage,
        host: HostKind,
    ) -> Result<(MachineFile, Option<String>), PlanError> {
        let storage = self.storage.clone().with(set)?;
        if host == HostKind::Native && !storage.is_empty() {
            let reason = "changes nothing with --host native";
            return Err(PlanError::refused(storage.options(), reason));
        }
        Ok(storage.equip(machine)?)
    }
}
