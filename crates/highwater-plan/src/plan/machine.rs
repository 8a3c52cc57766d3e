//! The machine that the user gives instead of the experiment's: `--machine`, `--mem`, `--cpus`,
//! `--numa`, `--disk`, `--swap`.

use super::PlanError;
use crate::experiment::HostKind;
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
