//! `highwater list`.

use highwater_report::{Layout, Table};

use super::args::{ListArgs, ListKind};
use super::{CliError, Outcome, print};
use crate::experiment;
use crate::machine_file::MachineFile;
use crate::policy_file;
use crate::workload::Registry;

/// Lists everything that has a name.
pub(super) fn run(registry: &Registry, args: &ListArgs) -> Result<Outcome, CliError> {
    let all = [ListKind::Experiments, ListKind::Machines, ListKind::Policies, ListKind::Workloads];
    let wanted = all.into_iter().filter(|kind| args.what.is_none_or(|what| what == *kind));
    let tables: Vec<_> = wanted.map(|kind| table(registry, kind)).collect::<Result<_, _>>()?;
    print(&super::tables(args.format, &tables))?;
    Ok(Outcome::Done)
}

fn table(registry: &Registry, kind: ListKind) -> Result<Table, CliError> {
    let (title, rows) = match kind {
        ListKind::Experiments => ("experiments", experiments(registry)?),
        ListKind::Machines => ("machines", machines()?),
        ListKind::Policies => ("policies", policy_file::all()),
        ListKind::Workloads => ("workloads", workloads(registry)?),
    };
    let mut table = Table::new(title, &["name", "about"], Vec::new(), Layout::Fitted);
    for (name, about) in &rows {
        table.push(&[name, about], Vec::new());
    }
    Ok(table)
}

fn experiments(registry: &Registry) -> Result<Vec<(String, String)>, CliError> {
    Ok(experiment::embedded(registry)?.into_iter().map(|e| (e.name, e.title)).collect())
}

fn workloads(registry: &Registry) -> Result<Vec<(String, String)>, CliError> {
    let about = |entry: &crate::workload::Entry| (entry.name.to_owned(), entry.about.to_owned());
    let jobs = experiment::jobs(registry)?.into_iter().map(|job| (job.name, job.title));
    Ok(registry.entries().iter().map(about).chain(jobs).collect())
}

fn machines() -> Result<Vec<(String, String)>, CliError> {
    Ok(MachineFile::embedded()?.into_iter().map(|m| (m.name, m.summary)).collect())
}
