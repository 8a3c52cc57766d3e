//! The machine that the user gives instead of the experiment's: `--machine`, `--mem`, `--cpus`,
//! `--numa`, `--disk`, `--swap`, and `--state`: the free memory with which it starts.

use super::PlanError;
use super::vary::MACHINE;
use crate::experiment::HostKind;
use highwater_files::input::InputError;
use highwater_files::machine_file::equip::Storage;
use highwater_files::machine_file::state::{OPTION as STATE, StartState};
use highwater_files::machine_file::{MachineArg, MachineFile, check_boots};
use highwater_runs::start;

/// A machine by name, file or size, and the storage that it gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineOptions {
    /// Its name, its file, or its shape.
    pub arg: MachineArg,
    /// The disk of a machine that has none, and the size of its swap.
    pub storage: Storage,
    /// The directory of the state in which the machine starts; none: as boot leaves it.
    pub state: Option<String>,
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
            state: self.state.clone(),
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

    /// The machine in the user's start state. Remarks about guesses and parts that were left out go to
    /// `say`.
    ///
    /// # Errors
    /// If a text of the state cannot be read, the machine cannot be in this state, or the host is this
    /// computer.
    pub fn start(
        &self,
        mut machine: MachineFile,
        host: HostKind,
        say: &mut dyn FnMut(String),
    ) -> Result<MachineFile, PlanError> {
        let Some(dir) = &self.state else { return Ok(machine) };
        if host == HostKind::Native {
            let reason = "changes nothing with --host native";
            return Err(PlanError::refused(format!("{STATE} {dir}"), reason));
        }
        let (texts, state, remarks) = StartState::load(dir, &machine.name, &machine.machine)?;
        start::check(&machine.machine, &state).map_err(|misfit| texts.misfit(&state, &misfit))?;
        remarks.into_iter().for_each(say);
        machine.state = Some(state);
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::experiment::unit::UnitId;
    use crate::plan::Options;
    use highwater_runs::workload::Registry;

    /// A state of a machine with 64 MiB: DMA with one large block, DMA32 with so many single pages.
    fn write(dir: &Path, singles: u32) -> String {
        let orders = |nr: u32, last: u32| format!("{nr} 0 0 0 0 0 0 0 0 0 {last}");
        let text = format!(
            "Node 0, zone DMA {}\nNode 0, zone DMA32 {}\n",
            orders(0, 1),
            orders(singles, 0)
        );
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("buddyinfo"), text).unwrap();
        dir.display().to_string()
    }

    #[test]
    fn the_content_of_a_state_is_in_the_ids_of_units_and_its_name_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [few, more, again] = [("a", 5000), ("b", 5001), ("c", 5000)]
            .map(|(name, singles)| write(&dir.path().join(name), singles));
        let options = || Options::run("pagealloc").machine_of("64M", 2).set("pagealloc.rounds=1");
        let id = |options: Options| -> UnitId {
            options.plan(&Registry::default()).unwrap().units().unwrap()[0].id
        };
        let ids = [options(), options().state(&*few), options().state(&*more)].map(id);
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
        assert_eq!(id(options().state(&*again)), ids[1]);
        // A remark says what was guessed.
        let plan = options().state(&*few).plan(&Registry::default()).unwrap();
        let guessed =
            format!("--state {few}: no pagetypeinfo: all free blocks are taken for movable ones");
        assert_eq!(plan.remarks, [guessed]);
        let machine = &plan.points[0].run.machines[0];
        // Results hold the state, so that they can be repeated.
        let text = machine.definition().definition;
        let parsed = MachineFile::parse("m.toml", &text).unwrap();
        assert_eq!(parsed.state, machine.state);
        assert_eq!(parsed.state.unwrap().free_pages(), 5000 + 1024);
        let missing = text.replacen("zone = \"DMA\"\n", "zone = \"Normal\"\n", 1);
        let error = MachineFile::parse("m.toml", &missing).unwrap_err().to_string();
        assert!(error.contains("node 0 Normal is no zone of machine "), "{error}");
    }
}
