//! `--set KEY=VALUE`: sets any key of the experiment, its machines or its policies for this run
//! alone.
//!
//! | key | is |
//! |---|---|
//! | `WORKLOAD.KEY`, as `stutterp.seconds` | a parameter of the workload |
//! | `job.var.NAME` | a variable of a job's file |
//! | `group.NAME.KEY`, as `group.db.max` | a setting of a job's memory cgroup: `job.group.NAME.KEY` |
//! | `iterations`, `native.memory`, `native.cpus` | keys of the experiment |
//! | `machine.KEY`, as `machine.disk.data.model` | a key of every machine's file; lists by number or name |
//! | `machine.memory`, `machine.cpus` | the memory of all nodes together, a size or a share of the present size (`50%`); the CPUs of the one node |
//! | `mem`, `cpus` | the same two, as the options are called |
//! | `disk`, `swap` | the same as `--disk` and `--swap`: the disk model of a machine without a disk, the size of its swap (0: none) |
//! | `vm.NAME`, as `vm.swappiness` | a sysctl: `machine.tunables.NAME` |
//! | `policy.KEY`, as `policy.watermark.boost` | a switch of every policy |
//!
//! The path of a workload's key may lead further down, as `job.task.0.count` or `job.task.db.count`.
//! A value is written as in TOML; text needs no quotes, lists no brackets. The results keep the
//! settings.
//!
//! [`highwater_results::setting`] has the grammar of keys. A setting is read once, to a key and a
//! value with its type ([`Settings::parse`]), and goes as that to where it applies.
//!
//! | file | holds |
//! |---|---|
//! | `said` | [`Said`]: the text, and the option that gave it |
//! | `value` | values, in the forms that their places want |
//! | `machine`, `place` | keys of machines |
//!
//! Key type: [`Settings`]. Neighbours: [`crate::plan`] parses the settings, applies them to the machines and policies
//! that it resolved, and puts them into the plan. An experiment takes its own
//! ([`Experiment::set`](crate::experiment::Experiment::set)).

mod machine;
pub(crate) mod place;
mod said;
mod value;

use highwater_core::config::{Policy, PolicyError, Tunables, Value as Switch};
use highwater_results::setting::{Key, OF_EXPERIMENT, SHORT, STORAGE, Scope, split};
use toml::Table;

pub use self::machine::in_full;
pub use self::said::{Said, SaidBy};
pub(crate) use self::value::Written;
use highwater_files::input::names::{nearest, not_modelled, unknown};
use highwater_files::input::{InputError, one_line};
use highwater_files::machine_file::MachineFile;
use highwater_files::machine_file::equip::Storage;
use highwater_files::policy_file;
use highwater_runs::watching::Writes;
use highwater_runs::workload::HostKind;
use highwater_runs::workload::job::SettingName;

/// Sections of a machine that only its simulation knows.
const OF_SIMULATION: [&str; 6] = ["disk", "swap", "cache", "cost", "costs", "sched"];

/// Largest share of a machine's memory: of 1 GiB 64 GiB.
pub const PERCENT_MAX: f64 = 6400.0;

/// The user's settings, in their order on the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(Vec<Setting>);

/// A setting: read once, applied as it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// The key.
    pub(crate) key: Key,
    /// The value.
    pub(crate) value: Written,
    /// As the user gave it.
    pub(crate) said: Said,
}

impl Setting {
    /// The group and the key of a group's setting (`group.NAME.KEY`).
    fn group(&self) -> Option<(&str, &str)> {
        let path = self.key.path().strip_prefix("group.")?;
        (self.key.scope() == Scope::Workload).then(|| path.rsplit_once('.')).flatten()
    }

    /// An error about it.
    pub(crate) fn wrong(&self, reason: impl Into<String>) -> InputError {
        InputError::whole(self.said.to_string(), reason)
    }
}

impl Settings {
    /// Parses settings for an experiment of a workload.
    ///
    /// # Errors
    /// If one has another form, its key belongs to nothing that runs, or it was set before.
    pub fn parse<S>(said: &[S], workload: &str) -> Result<Settings, InputError>
    where
        S: Clone + Into<Said>,
    {
        let mut settings: Vec<Setting> = Vec::new();
        for said in said {
            let setting = Setting::parse(&said.clone().into(), workload)?;
            if let Some(first) = settings.iter().find(|other| other.key.is_same(&setting.key)) {
                let reason = format!("there is {}, too: one key has one value", first.said);
                return Err(setting.wrong(reason));
            }
            settings.push(setting);
        }
        Ok(Settings(settings))
    }

    /// The settings as written, for results.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(|setting| setting.said.text.clone()).collect()
    }

    /// Settings of policies, as options.
    pub fn of_policies(&self) -> String {
        let options = self.of(Scope::Policy).map(|setting| setting.said.to_string());
        options.collect::<Vec<_>>().join(" ")
    }

    /// The number of seeds, if it is set; then no option may set it too.
    pub fn iterations(&self) -> Option<&Said> {
        let mut of_experiment = self.of(Scope::Experiment);
        of_experiment.find(|setting| setting.key.path() == "iterations").map(|one| &one.said)
    }

    /// The setting of a parameter of the workload, or of a part of it.
    pub fn of_workload(&self, key: &str) -> Option<&Said> {
        let is_it = |path: &str| {
            let rest = path.strip_prefix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut of_workload = self.of(Scope::Workload);
        of_workload.find(|setting| is_it(setting.key.path())).map(|setting| &setting.said)
    }

    /// The last setting of a sysctl.
    pub fn of_sysctl(&self, key: &str) -> Option<&Said> {
        let of_machine = self.of(Scope::Machine);
        of_machine.filter(|setting| setting.key.sysctl() == Some(key)).last().map(|one| &one.said)
    }

    /// The disk and the swap that machines get.
    pub fn storage(&self) -> Storage {
        let mut storage = Storage::default();
        for Setting { key, value, said } in self.of(Scope::Storage) {
            storage.set(key.path(), &value.text, said.to_string(), said.option());
        }
        storage
    }

    /// The settings of a scope.
    pub(crate) fn of(&self, scope: Scope) -> impl Iterator<Item = &Setting> {
        self.0.iter().filter(move |setting| setting.key.scope() == scope)
    }

    /// Refuses a setting that has no effect on a host.
    ///
    /// # Errors
    /// Names the first such setting.
    pub fn check_host(&self, host: HostKind) -> Result<(), InputError> {
        let is_idle = |setting: &&Setting| {
            let head = setting.key.path().split('.').next().unwrap_or_default();
            match (host, setting.key.scope()) {
                (HostKind::Sim, Scope::Experiment) => head == "native",
                // Costs and storage are those of this computer.
                (HostKind::Native, Scope::Storage) => true,
                (HostKind::Native, Scope::Machine) => OF_SIMULATION.contains(&head),
                _ => false,
            }
        };
        match self.0.iter().find(is_idle) {
            None => Ok(()),
            Some(setting) => {
                let reason = format!("changes nothing with --host {}", host.name());
                Err(setting.wrong(reason))
            }
        }
    }

    /// The writes of an observer to a running kernel: sysctls (`vm.NAME`) and settings of groups
    /// (`group.NAME.KEY`). `now`: the sysctls in force; one that is not named stays as it is.
    ///
    /// # Errors
    /// If another key is among them, or a value has another form.
    pub fn writes(&self, now: &Tunables) -> Result<Writes, InputError> {
        let mut writes = Writes::default();
        for setting in &self.0 {
            let wrong = |error: &dyn std::fmt::Display| setting.wrong(one_line(&error.to_string()));
            if let Some((name, key)) = setting.group() {
                let group = SettingName::read(key, &setting.value.text);
                writes.groups.push((name.to_owned(), group.map_err(|error| wrong(&error))?));
                continue;
            }
            let Some(key) = setting.key.sysctl() else {
                let reason = "only sysctls (vm.NAME) and settings of groups (group.NAME.KEY) can \
                              change while a run goes on";
                return Err(setting.wrong(reason));
            };
            let wanted = writes.sysctls.get_or_insert_with(|| now.clone());
            let mut table = Table::try_from(&*wanted).map_err(|error| wrong(&error))?;
            setting.set_sysctl(&mut table, key)?;
            *wanted = table.try_into().map_err(|error: toml::de::Error| wrong(&error.message()))?;
        }
        Ok(writes)
    }

    /// A machine with its settings applied.
    ///
    /// # Errors
    /// If there is no such key, or no such machine.
    pub fn set_machine(&self, machine: MachineFile) -> Result<MachineFile, InputError> {
        let mut table: Option<Table> = None;
        let mut settings: Vec<&Setting> = self.of(Scope::Machine).collect();
        // Settings that bring many figures go first, so single figures win in any order.
        settings.sort_by_key(|setting| !setting.is_wholesale());
        for setting in settings {
            let table = match &mut table {
                Some(table) => table,
                None => table.insert(
                    toml::from_str(&machine.definition().definition)
                        .map_err(|error| setting.wrong(one_line(error.message())))?,
                ),
            };
            setting.set_machine(table, &machine)?;
        }
        let Some(table) = table else { return Ok(machine) };
        let said = self.of(Scope::Machine).map(|setting| setting.said.to_string());
        let said = said.collect::<Vec<_>>().join(" ");
        let wrong = |reason: String| InputError::whole(said.as_str(), one_line(&reason));
        let text = toml::to_string(&table).map_err(|error| wrong(error.to_string()))?;
        let mut changed = MachineFile::parse(&machine.name, &text).map_err(|error| {
            // The line number would be that of a generated text, which the user has not seen.
            let field = error.field.map(|field| format!("{field}: ")).unwrap_or_default();
            wrong(format!("{field}{}", error.reason))
        })?;
        changed.costs().map_err(wrong)?;
        // That of a machine made from a shape is not in its text.
        if self.of(Scope::Machine).all(|setting| setting.key.path() != "name") {
            changed.name.clone_from(&machine.name);
        }
        Ok(changed)
    }

    /// Applies the settings of a policy.
    ///
    /// # Errors
    /// If there is no such switch, or the value is not valid for it.
    pub fn set_policy(&self, policy: &mut Policy) -> Result<(), InputError> {
        for setting in self.of(Scope::Policy) {
            let value = setting.value.like(None);
            let result = policy.set(setting.key.path(), policy_file::value_of(&value));
            // Choices may look like numbers or flags.
            let result = result
                .or_else(|_| policy.set(setting.key.path(), Switch::Choice(&setting.value.text)));
            result.map_err(|error| match error {
                PolicyError::MustBe(values) => setting.wrong(format!("must be {values}")),
                PolicyError::Unknown => {
                    if let Some(missing) = not_modelled("switch", setting.key.path()) {
                        return setting.wrong(missing);
                    }
                    let paths: Vec<String> =
                        Policy::describe().into_iter().map(|field| field.path).collect();
                    let near = nearest(setting.key.path(), paths.iter().map(String::as_str));
                    let near = match near.as_slice() {
                        [] => "`highwater show policy 6.1` lists them".to_owned(),
                        near => format!("did you mean {}?", near.join(" or ")),
                    };
                    setting.wrong(format!("unknown switch \"{}\"; {near}", setting.key.path()))
                }
            })?;
        }
        Ok(())
    }
}

impl Setting {
    fn parse(said: &Said, workload: &str) -> Result<Setting, InputError> {
        let wrong = |reason: String| InputError::whole(said.to_string(), reason);
        let form = || wrong("is not KEY=VALUE, as in machine.memory=2G".to_owned());
        let (text, value) = split(&said.text).ok_or_else(form)?;
        let key = Key::parse(text);
        if key.scope() == Scope::Workload && key.head() != workload {
            let sections = ["machine.", "policy.", "vm.", &format!("{workload}.")]
                .map(|section| format!("{section}KEY"));
            let mut known: Vec<&str> = sections.iter().map(String::as_str).collect();
            known.extend(SHORT.iter().map(|(short, _)| *short).chain(STORAGE));
            known.extend(OF_EXPERIMENT);
            if Tunables::FIELDS.iter().any(|field| field.key == text) {
                let said = Said { text: format!("vm.{}", said.text), by: said.by.clone() };
                return Err(wrong(format!("sysctls begin with vm.: {said}")));
            }
            return Err(wrong(unknown("key", text, &known)));
        }
        if key.path().is_empty() {
            return Err(wrong(format!("{}: which key of it?", key.head())));
        }
        if let Some(name) = key.sysctl()
            && Tunables::FIELDS.iter().all(|field| field.key != name)
        {
            let known: Vec<&str> = Tunables::FIELDS.iter().map(|field| field.key).collect();
            let reason = match name {
                "drop_caches" => {
                    "cannot be set for a run; a phase of a job drops caches: do = \"drop-caches\", value = 1, 2 or 3"
                        .to_owned()
                }
                "compact_memory" => {
                    "cannot be set for a run; a phase of a job compacts: do = \"compact\"".to_owned()
                }
                "thp_faults" => {
                    "is gone: vm.thp alone decides which tasks get huge pages: always, madvise or never"
                        .to_owned()
                }
                name => unknown("sysctl", name, &known),
            };
            return Err(wrong(reason));
        }
        Ok(Setting { key, value: Written::new(value), said: said.clone() })
    }

    /// Whether it sets many figures at once: a cost table, a disk's model, or the memory of all
    /// nodes.
    fn is_wholesale(&self) -> bool {
        let is_model = self.key.path().starts_with("disk.") && self.key.path().ends_with(".model");
        is_model || ["costs", "memory"].contains(&self.key.path())
    }
}
