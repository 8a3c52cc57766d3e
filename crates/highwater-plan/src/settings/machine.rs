//! Keys of a machine: `machine.memory=2G`, `vm.swappiness=10`, `machine.disk.data.model=hdd`.

use highwater_core::config::{Machine, NodeSpec, TunableForm, Tunables};
use highwater_core::zone::ZoneType;
use highwater_results::Definition;
use highwater_sim::disk::FIGURES;
use toml::{Table, Value};

use super::place::{Node, names};
use super::{PERCENT_MAX, Setting};
use highwater_files::input::InputError;
use highwater_files::input::size::{CPUS_MAX, parse_size};
use highwater_files::machine_file::{MachineFile, costs, disks};

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
    /// Sets a key in the text of a machine, which has every zone and every figure.
    pub(super) fn set_machine(
        &self,
        table: &mut Table,
        machine: &MachineFile,
    ) -> Result<(), InputError> {
        match self.key.path() {
            "memory" => return self.set_memory(table, machine),
            "cpus" => return self.set_cpus(table),
            "costs" => {
                // The figures of a named table or a file replace the machine's.
                let costs = costs::sections("", &self.value.text).map_err(|error| {
                    match error.file.as_str() {
                        "costs" => self.wrong(error.reason),
                        _ => self.wrong(error.to_string()),
                    }
                })?;
                table.extend(costs.into_iter().filter(|(section, _)| section == "cost"));
                return Ok(());
            }
            path if path.starts_with("tunables.") && !table.contains_key("tunables") => {
                table.insert("tunables".to_owned(), Table::new().into());
            }
            _ => {}
        }
        let parts: Vec<&str> = self.key.path().split('.').collect();
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
                    && self.value.text.ends_with('%')
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
                let value = self.value.like(table.get(key));
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
    pub(super) fn set_sysctl(&self, table: &mut Table, key: &str) -> Result<(), InputError> {
        let value = flag(key, self.value.like(table.get(key)));
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
        let Some(percent) = self.value.text.strip_suffix('%') else {
            return parse_size(&self.value.text).map_err(|reason| self.wrong(reason));
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
        let n = self.value.text.parse::<u16>().ok().filter(|n| (1..=CPUS_MAX).contains(n));
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
