//! The groups as a table: what each is charged for, and what of that the captured processes
//! explain.

use highwater_report::table::Cell;
use highwater_report::{Layout, Table};

use super::{Group, Groups};

const MIB: f64 = (1 << 20) as f64;

impl Groups {
    /// A row for each group, by the names that the groups have in the job; `None` without any
    /// group.
    pub fn table(&self, names: &[String]) -> Option<Table> {
        if self.all.is_empty() {
            return None;
        }
        let heads = ["charged", "captured", "others'", "cache", "kernel", "rest", "processes"];
        let heads = heads.map(str::to_owned).to_vec();
        let title = "Memory cgroups of the captured processes, MiB";
        let mut table = Table::new(title, &["group", "in the job"], heads, Layout::Fitted);
        for (group, name) in self.all.iter().zip(names) {
            table.push(&[&group.path, name], cells(group));
        }
        let legend = [
            "charged: all memory of the group and those below it; captured: private and mapped memory of the captured processes",
            "not explained by them: others' (private memory of other processes), cache (page cache that they do not map), \
             kernel (its own memory), rest (sockets, pages charged ahead)",
            "processes: the captured ones, of all; what the others take is not in the job",
        ];
        table.notes.extend(legend.map(str::to_owned));
        table.notes.extend(self.notes.iter().cloned());
        Some(table)
    }
}

fn cells(group: &Group) -> Vec<Cell> {
    let mib = |bytes: u64| Cell::number(bytes as f64 / MIB, 1);
    let parts = &group.parts;
    let mut cells = match &group.usage {
        Some(usage) => {
            [usage.charged, parts.captured, parts.others, parts.cache, parts.kernel, parts.rest]
                .map(mib)
                .to_vec()
        }
        None => vec![Cell::Missing; 6],
    };
    let (captured, others) = (group.nr_captured, group.nr_others);
    cells.push(Cell::text(format!("{captured} of {}", captured + others)));
    cells
}
