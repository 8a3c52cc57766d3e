//! `highwater list`.

use highwater_report::{Layout, Table};

use super::args::{ListArgs, ListKind};
use super::{CliError, Outcome, compare, print};
use crate::machine_file::MachineFile;
use crate::policy_file;

/// Lists what can be named.
pub(super) fn run(args: &ListArgs) -> Result<Outcome, CliError> {
    let all = [ListKind::Experiments, ListKind::Machines, ListKind::Policies, ListKind::Workloads];
    let wanted = all.into_iter().filter(|kind| args.what.is_none_or(|what| what == *kind));
    let tables: Vec<_> = wanted.map(table).collect::<Result<_, _>>()?;
    print(&args.format.renderer().tables(&tables))?;
    Ok(Outcome::Done)
}

fn table(kind: ListKind) -> Result<Table, CliError> {
    let (title, rows) = match kind {
        ListKind::Experiments => ("experiments", compare::experiments()),
        ListKind::Machines => ("machines", machines()?),
        ListKind::Policies => ("policies", policy_file::all()),
        ListKind::Workloads => ("workloads", compare::workloads()),
    };
    let mut table = Table::new(title, &["name", "about"], Vec::new(), Layout::Fitted);
    for (name, about) in &rows {
        table.push(&[name, about], Vec::new());
    }
    Ok(table)
}

fn machines() -> Result<Vec<(String, String)>, CliError> {
    Ok(MachineFile::embedded()?.into_iter().map(|m| (m.name, m.summary)).collect())
}
