//! `--set KEY=VALUE`: sets any key of the experiment, its machines or its policies for this run
//! alone.
//!
//! | key | is |
//! |---|---|
//! | `WORKLOAD.KEY`, as `stutterp.seconds` | a parameter of the workload |
//! | `job.var.NAME` | a variable of a job's file |
//! | `iterations`, `native.memory`, `native.cpus` | keys of the experiment |
//! | `machine.KEY`, as `machine.disk.data.model` | a key of every machine's file; lists by number or name |
//! | `machine.memory`, `machine.cpus` | the memory of all nodes together, a size or a share of the present size (`50%`); the CPUs of the one node |
//! | `mem`, `cpus` | the same two, as the options are called |
//! | `disk`, `swap` | the same as `--disk` and `--swap`: the disk model of a machine without a disk, the size of its swap (0: none) |
//! | `vm.NAME`, as `vm.swappiness` | a sysctl: `machine.tunables.NAME` |
//! | `policy.KEY`, as `policy.watermark.boost` | a switch of every policy |
//!
//! A value is written as in TOML; text needs no quotes, lists no brackets. The results keep the
//! settings.
//!
//! Key type: [`Settings`]. Neighbours: the command parses the settings, applies them to what it
//! resolved, and puts them into the plan.

mod place;

use highwater_core::config::{
    Machine, NodeSpec, Policy, PolicyError, TunableForm, Tunables, Value as Switch,
};
use highwater_core::zone::ZoneType;
use highwater_results::Definition;
use highwater_sim::disk::FIGURES;
use toml::de::DeTable;
use toml::{Table, Value};

use self::place::{Node, names};
use crate::experiment::{Experiment, Given, NativeShape};
use highwater_files::input::catalogue::texts;
use highwater_files::input::names::{nearest, not_modelled, unknown};
use highwater_files::input::size::{CPUS_MAX, parse_size};
use highwater_files::input::{InputError, one_line, said};
use highwater_files::machine_file::MachineFile;
use highwater_files::machine_file::disks;
use highwater_files::machine_file::equip::Storage;
use highwater_files::policy_file;
use highwater_runs::workload::{Bytes, HostKind};

/// Prefix of the names of a job's variables.
const VAR: &str = "var.";
/// Keys of an experiment that can be set, besides those of its workload.
const OF_EXPERIMENT: [&str; 3] = ["iterations", "native.memory", "native.cpus"];
/// Sections of a machine that only its simulation knows.
const OF_SIMULATION: [&str; 5] = ["disk", "swap", "cache", "cost", "costs"];

/// Names of keys that options have, too.
const SHORT: [(&str, &str); 2] = [("mem", "machine.memory"), ("cpus", "machine.cpus")];
/// Equipment of a machine, by the names of the options.
const STORAGE: [&str; 2] = ["disk", "swap"];

/// Largest share of a machine's memory: of 1 GiB 64 GiB.
pub const PERCENT_MAX: f64 = 6400.0;

/// The user's settings, in their order on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(Vec<Setting>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    scope: Scope,
    /// Below the scope.
    path: String,
    value: String,
    /// As the user wrote it.
    text: String,
}

/// The part that a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Workload,
    Experiment,
    Machine,
    Storage,
    Policy,
}

/// A key in full: `mem` is `machine.memory`.
pub fn full_key(key: &str) -> &str {
    SHORT.iter().find(|(short, _)| *short == key).map_or(key, |(_, full)| full)
}

impl Setting {
    fn wrong(&self, reason: impl Into<String>) -> InputError {
        InputError::whole(format!("--set {}", self.text), reason)
    }
}

impl Settings {
    /// Parses `KEY=VALUE` texts for an experiment of a workload.
    ///
    /// # Errors
    /// If one has another form, its key belongs to nothing that runs, or it was set before.
    pub fn parse(texts: &[String], workload: &str) -> Result<Settings, InputError> {
        let mut settings: Vec<Setting> = Vec::new();
        for text in texts {
            let setting = Setting::parse(text, workload)?;
            let is_same = |s: &&Setting| (s.scope, &s.path) == (setting.scope, &setting.path);
            if let Some(first) = settings.iter().find(is_same) {
                let reason = format!("there is --set {}, too: one key has one value", first.text);
                return Err(setting.wrong(reason));
            }
            settings.push(setting);
        }
        Ok(Settings(settings))
    }

    /// The settings as written, for results.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(|setting| setting.text.clone()).collect()
    }

    /// Settings of policies, as options.
    pub fn of_policies(&self) -> String {
        let options = self.of(Scope::Policy).map(|setting| format!("--set {}", setting.text));
        options.collect::<Vec<_>>().join(" ")
    }

    /// The number of seeds, if it is set; then no option may set it too.
    pub fn iterations(&self) -> Option<&str> {
        let of_experiment = self.of(Scope::Experiment);
        of_experiment.filter(|setting| setting.path == "iterations").map(|s| s.text.as_str()).next()
    }

    /// The setting of a parameter of the workload.
    pub fn of_workload(&self, key: &str) -> Option<&str> {
        let mut of_workload = self.of(Scope::Workload);
        of_workload.find(|setting| setting.path == key).map(|setting| setting.text.as_str())
    }

    /// The last setting of a sysctl, as written.
    pub fn of_sysctl(&self, key: &str) -> Option<&str> {
        let of_machine = self.of(Scope::Machine);
        let is_it = |setting: &&Setting| setting.path.strip_prefix("tunables.") == Some(key);
        of_machine.filter(is_it).last().map(|setting| setting.text.as_str())
    }

    /// The disk and the swap that machines get.
    pub fn storage(&self) -> Storage {
        let of = |key: &str| {
            let mut of_storage = self.of(Scope::Storage);
            of_storage.find(|setting| setting.path == key).map(|setting| setting.value.clone())
        };
        let [disk, swap] = STORAGE.map(of);
        Storage { disk, swap }
    }

    fn of(&self, scope: Scope) -> impl Iterator<Item = &Setting> {
        self.0.iter().filter(move |setting| setting.scope == scope)
    }

    /// Refuses a setting that has no effect on a host.
    ///
    /// # Errors
    /// Names the first such setting.
    pub fn check_host(&self, host: HostKind) -> Result<(), InputError> {
        let is_idle = |setting: &&Setting| {
            let head = setting.path.split('.').next().unwrap_or_default();
            match (host, setting.scope) {
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

    /// Applies the settings of the experiment: parameters of its workload, seeds, the shape of
    /// native runs.
    ///
    /// # Errors
    /// If there is no such key, or the value is not valid for it.
    pub fn set_experiment(&self, experiment: &mut Experiment) -> Result<(), InputError> {
        for setting in self.of(Scope::Experiment) {
            setting.set_experiment(experiment)?;
        }
        // Variables first, because the other settings apply to the job that they make.
        let var = |setting: &Setting| setting.path.strip_prefix(VAR).map(str::to_owned);
        let vars: Vec<Given> = self
            .of(Scope::Workload)
            .filter_map(|setting| Some(Given::new(&var(setting)?, &setting.value)))
            .collect();
        if !vars.is_empty() {
            experiment.set_vars(&vars)?;
        }
        for setting in self.of(Scope::Workload).filter(|setting| var(setting).is_none()) {
            let definition = experiment.job.definition().definition;
            let wrong = |reason: &str| setting.wrong(one_line(reason));
            let mut params: Table = toml::from_str(&definition).map_err(|e| wrong(&said(&e)))?;
            let Some(old) = params.get(&setting.path) else {
                let keys: Vec<&str> = params.keys().map(String::as_str).collect();
                return Err(wrong(&unknown("parameter", &setting.path, &keys)));
            };
            let value = setting.value_like(Some(old));
            params.insert(setting.path.clone(), value);
            let text = toml::to_string(&params).map_err(|error| wrong(&error.to_string()))?;
            experiment.set_params(&text).map_err(|reason| wrong(&reason))?;
        }
        Ok(())
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
        let said = self.of(Scope::Machine).map(|setting| format!("--set {}", setting.text));
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
        if self.of(Scope::Machine).all(|setting| setting.path != "name") {
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
            let value = setting.value_like(None);
            let result = policy.set(&setting.path, policy_file::value_of(&value));
            // Choices may look like numbers or flags.
            let result =
                result.or_else(|_| policy.set(&setting.path, Switch::Choice(&setting.value)));
            result.map_err(|error| match error {
                PolicyError::MustBe(values) => setting.wrong(format!("must be {values}")),
                PolicyError::Unknown => {
                    if let Some(missing) = not_modelled("switch", &setting.path) {
                        return setting.wrong(missing);
                    }
                    let paths: Vec<String> =
                        Policy::describe().into_iter().map(|field| field.path).collect();
                    let near = nearest(&setting.path, paths.iter().map(String::as_str));
                    let near = match near.as_slice() {
                        [] => "`highwater show policy 6.1` lists them".to_owned(),
                        near => format!("did you mean {}?", near.join(" or ")),
                    };
                    setting.wrong(format!("unknown switch \"{}\"; {near}", setting.path))
                }
            })?;
        }
        Ok(())
    }
}

/// Linux writes a sysctl that is on or off as 1 or 0.
fn flag(key: &str, value: Value) -> Value {
    let mut fields = Tunables::FIELDS.iter();
    let is_flag = fields.any(|field| field.key == key && field.form == TunableForm::Bool);
    let figure = key.rsplit('.').next().unwrap_or(key);
    let is_flag = is_flag || (key.starts_with("disk.") && disks::is_flag(figure));
    match value.as_integer() {
        Some(nr @ (0 | 1)) if is_flag => Value::Boolean(nr == 1),
        _ => value,
    }
}

impl Setting {
    fn parse(text: &str, workload: &str) -> Result<Setting, InputError> {
        let wrong = |reason: String| InputError::whole(format!("--set {text}"), reason);
        let form = || wrong("is not KEY=VALUE, as in machine.memory=2G".to_owned());
        let (key, value) = text.split_once('=').ok_or_else(form)?;
        let (key, value) = (key.trim(), value.trim());
        if OF_EXPERIMENT.contains(&key) {
            return Ok(Setting::new(Scope::Experiment, key, value, text));
        }
        if STORAGE.contains(&key) {
            return Ok(Setting::new(Scope::Storage, key, value, text));
        }
        let key = full_key(key);
        let (head, path) = key.split_once('.').unwrap_or((key, ""));
        let scope = match head {
            "machine" | "vm" => Scope::Machine,
            "policy" => Scope::Policy,
            head if head == workload => Scope::Workload,
            _ => {
                let sections = ["machine.", "policy.", "vm.", &format!("{workload}.")]
                    .map(|section| format!("{section}KEY"));
                let mut known: Vec<&str> = sections.iter().map(String::as_str).collect();
                known.extend(SHORT.iter().map(|(short, _)| *short).chain(STORAGE));
                known.extend(OF_EXPERIMENT);
                if Tunables::FIELDS.iter().any(|field| field.key == key) {
                    return Err(wrong(format!("sysctls begin with vm.: --set vm.{text}")));
                }
                return Err(wrong(unknown("key", key, &known)));
            }
        };
        if path.is_empty() {
            return Err(wrong(format!("{head}: which key of it?")));
        }
        let path = match head {
            "vm" => format!("tunables.{}", path.replace('-', "_")),
            _ => path.to_owned(),
        };
        if let Some(name) = path.strip_prefix("tunables.").filter(|_| scope == Scope::Machine)
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
                    "is gone: vm.thp alone decides who gets huge pages: always, madvise or never"
                        .to_owned()
                }
                name => unknown("sysctl", name, &known),
            };
            return Err(wrong(reason));
        }
        Ok(Setting::new(scope, &path, value, text))
    }

    /// Whether it sets many figures at once: a cost table, a disk's model, or the memory of all
    /// nodes.
    fn is_wholesale(&self) -> bool {
        let is_model = self.path.starts_with("disk.") && self.path.ends_with(".model");
        is_model || ["costs", "memory"].contains(&self.path.as_str())
    }

    fn new(scope: Scope, path: &str, value: &str, text: &str) -> Setting {
        Setting { scope, path: path.to_owned(), value: value.to_owned(), text: text.to_owned() }
    }

    /// The value as TOML: text if the old value is text, a list if that is a list, otherwise what
    /// it looks like.
    fn value_like(&self, old: Option<&Value>) -> Value {
        // A literal must be the whole text: no comment or second key may follow.
        let literal = |text: &str| {
            let line = format!("x = {text}");
            let span = DeTable::parse(&line).ok()?.get_ref().get("x")?.span();
            let whole = span.end == line.len();
            let mut table: Table = toml::from_str(&line).ok().filter(|_| whole)?;
            table.remove("x")
        };
        let list = || literal(&format!("[{}]", self.value)).filter(|_| self.value.contains(','));
        let bare = || Value::String(self.value.clone());
        match old {
            Some(Value::String(_)) => match literal(&self.value) {
                Some(Value::String(text)) => Value::String(text),
                _ => bare(),
            },
            Some(Value::Array(_)) if !self.value.starts_with('[') => {
                literal(&format!("[{}]", self.value)).unwrap_or_else(bare)
            }
            _ => literal(&self.value).or_else(list).unwrap_or_else(bare),
        }
    }

    fn set_experiment(&self, experiment: &mut Experiment) -> Result<(), InputError> {
        let number = |most: u32| match self.value.parse::<u32>() {
            Ok(n) if (1..=most).contains(&n) => Ok(n),
            _ => Err(self.wrong(format!("must be a number from 1 to {most}"))),
        };
        let mut native = |change: &dyn Fn(&mut NativeShape)| match &mut experiment.native {
            Some(shape) => {
                change(shape);
                Ok(())
            }
            None => {
                Err(self.wrong("the experiment has no shape for native runs; give --mem, --cpus"))
            }
        };
        match self.path.as_str() {
            "native.memory" => {
                let bytes = parse_size(&self.value).map_err(|reason| self.wrong(reason))?;
                native(&|shape| shape.memory = Bytes(bytes))
            }
            "native.cpus" => {
                let cpus = number(CPUS_MAX.into())? as u16;
                native(&|shape| shape.cpus = cpus)
            }
            _ => {
                experiment.iterations = number(10_000)?;
                Ok(())
            }
        }
    }

    /// Sets a key in the text of a machine, which has every zone and every figure.
    fn set_machine(&self, table: &mut Table, machine: &MachineFile) -> Result<(), InputError> {
        match self.path.as_str() {
            "memory" => return self.set_memory(table, machine),
            "cpus" => return self.set_cpus(table),
            "costs" => {
                // The named table's figures replace the machine's; an unknown name is reported
                // later.
                let named = texts::COSTS.iter().find(|(name, _)| *name == self.value);
                let costs = named.and_then(|(_, text)| toml::from_str::<Table>(text).ok());
                table.extend(costs.into_iter().flatten().filter(|(section, _)| section == "cost"));
            }
            path if path.starts_with("tunables.") && !table.contains_key("tunables") => {
                table.insert("tunables".to_owned(), Table::new().into());
            }
            _ => {}
        }
        let parts: Vec<&str> = self.path.split('.').collect();
        let Some((last, above)) = parts.split_last() else { return Ok(()) };
        // If zones are listed, memory becomes a size, and then all nodes need sizes.
        if let ["node", _] = above
            && *last == "memory"
        {
            memory_by_size(table, machine).map_err(|reason| self.wrong(reason))?;
        }
        if let ["disk" | "swap", ..] = above
            && !table.contains_key(above[0])
        {
            let reason = format!("the machine has no {}; its file can give it one", above[0]);
            return Err(self.wrong(reason));
        }
        let mut at = Node::Table(table);
        for part in above {
            at = at.below(part).map_err(|reason| self.wrong(reason))?;
        }
        match at {
            Node::Table(table) => {
                if let ["node", which] = above
                    && *last == "memory"
                    && self.value.ends_with('%')
                {
                    let node =
                        which.parse().ok().and_then(|at: usize| machine.machine.nodes.get(at));
                    let pages = node.map_or(0, |node| node.zones.iter().map(|z| z.present).sum());
                    let bytes = self.bytes(pages.div_ceil(256) << 20)?;
                    table.insert((*last).to_owned(), Value::String(format!("{}K", bytes >> 10)));
                    return Ok(());
                }
                if above == ["tunables"] {
                    return self.set_sysctl(table, last);
                }
                if let ["disk", _] = above
                    && *last == "model"
                {
                    // The new model brings its own figures.
                    table.retain(|key, _| FIGURES.iter().all(|figure| figure.key != key));
                }
                // Figures of a disk as Linux writes them, too: read_ahead_kb.
                let figure = last.replace('_', "-");
                let is_figure =
                    matches!(above, ["disk", _]) && FIGURES.iter().any(|known| known.key == figure);
                let key = if is_figure { &figure } else { *last };
                let value = self.value_like(table.get(key));
                table.insert(key.to_owned(), value);
                Ok(())
            }
            Node::List(list) => {
                let list_path = above.join(".");
                let of = |which: &str| format!("machine.{list_path}.{which}.{last}");
                let named = names(list).map(|name| of(&name));
                let numbered = (0..list.len()).map(|at| of(&at.to_string()));
                let (all, nr) = (numbered.chain(named).collect::<Vec<_>>(), list.len());
                let which = format!("{list_path}: there are {nr}: which of them?");
                Err(self.wrong(format!("{which} Say {}", all.join(" or "))))
            }
        }
    }

    /// Sets a sysctl. Of two that say the same in bytes and as a share it zeroes the other, as a write does.
    fn set_sysctl(&self, table: &mut Table, key: &str) -> Result<(), InputError> {
        let value = flag(key, self.value_like(table.get(key)));
        let other = match Tunables::EITHER.iter().find(|pair| pair.contains(&key)) {
            Some([bytes, ratio]) if *bytes == key => {
                if value.as_integer() == Some(0) {
                    let reason = format!("Linux refuses 0; set vm.{ratio}=PERCENT instead");
                    return Err(self.wrong(reason));
                }
                Some(ratio)
            }
            Some([bytes, _]) => Some(bytes),
            None => None,
        };
        if let Some(other) = other {
            table.insert((*other).to_owned(), 0.into());
        }
        table.insert(key.to_owned(), value);
        Ok(())
    }

    /// A size, or a share of one that is there (`50%`), in whole pages.
    fn bytes(&self, old: u64) -> Result<u64, InputError> {
        let Some(percent) = self.value.strip_suffix('%') else {
            return parse_size(&self.value).map_err(|reason| self.wrong(reason));
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent.is_finite() && percent > 0.0 && percent <= PERCENT_MAX => {
                Ok((old as f64 * percent / 100.0) as u64 & !0xfff)
            }
            _ => {
                Err(self
                    .wrong(format!("must be a size, or a share above 0%, at most {PERCENT_MAX}%")))
            }
        }
    }

    /// Gives each node the share of memory that it has now.
    fn set_memory(&self, table: &mut Table, machine: &MachineFile) -> Result<(), InputError> {
        let old = memory_by_size(table, machine).map_err(|reason| self.wrong(reason))?;
        let total: u64 = old.iter().sum();
        let bytes = self.bytes(total << 20)?;
        let nodes = table.get_mut("node").and_then(Value::as_array_mut);
        let mut given = 0;
        let last = old.iter().rposition(|&mib| mib > 0);
        for (at, (node, mib)) in nodes.into_iter().flatten().zip(&old).enumerate() {
            let share = (u128::from(bytes) * u128::from(*mib) / u128::from(total.max(1))) as u64;
            // Round to whole pages; the last node gets the remainder.
            let share = if Some(at) == last { bytes - given } else { share & !0xfff };
            given += share;
            if let Some(node) = node.as_table_mut() {
                node.insert("memory".to_owned(), Value::String(format!("{}K", share >> 10)));
            }
        }
        Ok(())
    }

    fn set_cpus(&self, table: &mut Table) -> Result<(), InputError> {
        let n = self.value.parse::<u16>().ok().filter(|n| (1..=CPUS_MAX).contains(n));
        let n = n.ok_or_else(|| self.wrong(format!("must be a number from 1 to {CPUS_MAX}")))?;
        match table.get_mut("node").and_then(Value::as_array_mut).map(Vec::as_mut_slice) {
            Some([Value::Table(node)]) => {
                node.insert("cpus".to_owned(), Value::String(format!("0-{}", n - 1)));
                Ok(())
            }
            nodes => {
                let nr = nodes.map_or(0, |nodes| nodes.len());
                Err(self.wrong(format!("the machine has {nr} nodes: say machine.node.0.cpus=0-3")))
            }
        }
    }
}

/// Writes the memory of nodes as sizes (MiB each) instead of zones. The kernel's reserved part
/// comes out of a size, as at any boot. So a size is the installed memory.
fn memory_by_size(table: &mut Table, machine: &MachineFile) -> Result<Vec<u64>, String> {
    let nodes = &machine.machine.nodes;
    // Holes of the firmware are smaller than a MiB.
    let mib =
        |node: &NodeSpec| node.zones.iter().map(|zone| zone.present).sum::<u64>().div_ceil(256);
    let sizes: Vec<u64> = nodes.iter().map(mib).collect();
    let zones = |nodes: &[NodeSpec]| -> Vec<Vec<(ZoneType, u64)>> {
        let of_node = |node: &NodeSpec| node.zones.iter().map(|z| (z.zone, z.start_pfn)).collect();
        nodes.iter().map(of_node).collect()
    };
    let with_cpus: Vec<(u64, Vec<u16>)> =
        sizes.iter().zip(nodes).map(|(mib, node)| (mib << 20, node.cpus.clone())).collect();
    let laid_out = Machine::from_sizes(&machine.name, &with_cpus);
    if !laid_out.is_ok_and(|other| zones(&other.nodes) == zones(nodes)) {
        let reason = "the machine's zones are not those of a PC of its size: give its file others";
        return Err(reason.to_owned());
    }
    let list = table.get_mut("node").and_then(Value::as_array_mut);
    for (node, mib) in list.into_iter().flatten().zip(&sizes) {
        if let Some(node) = node.as_table_mut()
            && node.remove("zones").is_some()
        {
            node.insert("memory".to_owned(), Value::String(format!("{mib}M")));
        }
    }
    Ok(sizes)
}

/// Completes a machine's text so that two machines can be compared: every sysctl, the values behind
/// named tables, memory as a size, and zones only if they do not follow from the size. An invalid
/// text stays as it is.
pub fn in_full(definition: &mut Definition) {
    let parsed = MachineFile::parse(&definition.name, &definition.definition);
    let table = toml::from_str::<Table>(&definition.definition);
    let (Ok(machine), Ok(mut table)) = (parsed, table) else { return };
    if let Ok(tunables) = Table::try_from(&machine.machine.tunables) {
        table.insert("tunables".to_owned(), tunables.into());
    }
    let spelt_out = table.clone();
    if let Ok(sizes) = memory_by_size(&mut table, &machine) {
        let again = toml::to_string(&table).map(|text| MachineFile::parse(&machine.name, &text));
        if !again.is_ok_and(|again| again.is_ok_and(|m| m.machine.nodes == machine.machine.nodes)) {
            table = spelt_out;
        }
        // A single node's memory is the machine's.
        if let Some([Value::Table(node)]) =
            table.get_mut("node").and_then(Value::as_array_mut).map(Vec::as_mut_slice)
        {
            node.remove("memory");
        }
        table.insert("memory".to_owned(), size_of(sizes.iter().sum()).into());
    }
    if let Ok(text) = toml::to_string(&table) {
        definition.definition = text;
    }
}

/// MiB in the words of the command line.
fn size_of(mib: u64) -> String {
    match mib % 1024 {
        0 if mib > 0 => format!("{}G", mib / 1024),
        _ => format!("{mib}M"),
    }
}
