//! `highwater show`.

use highwater_core::config::Policy;
use highwater_report::{Layout, Table};

use super::args::{ShowArgs, ShowWhat};
use super::{CliError, Outcome, print};
use crate::experiment;
use crate::input::InputError;
use crate::input::names::unknown;
use crate::machine_file::MachineFile;
use crate::policy_file;
use crate::schema::Kind;
use crate::workload::Registry;

/// Shows one entry of `list` in full.
pub(super) fn run(registry: &Registry, args: &ShowArgs) -> Result<Outcome, CliError> {
    let text = match &args.what {
        ShowWhat::Experiment(named) => experiment::embedded_text(&named.name).map_err(nameless)?,
        ShowWhat::Machine(named) => {
            MachineFile::load(&named.name).map_err(nameless)?.definition().definition
        }
        ShowWhat::Workload(named) => {
            let name = &named.name;
            let unknown = || CliError::new(unknown("workload", name, &registry.names()));
            match (registry.find(name), crate::experiment::job_text(name)) {
                (Some(entry), _) => entry.template(),
                (None, Some(text)) => text,
                (None, None) => return Err(unknown()),
            }
        }
        ShowWhat::Schema(schema) => {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            let which = || CliError::new(format!("which schema? Say one of {}", names.join(", ")));
            schema.of.ok_or_else(which)?.text(registry)
        }
        ShowWhat::Policy(policy) => {
            let shown = policy_file::load(&policy.name).map_err(nameless)?;
            let table = match &policy.against {
                None if policy.toml => return toml(&shown),
                None => all(&shown),
                Some(other) => differences(&policy_file::load(other)?, &shown),
            };
            super::tables(policy.format, &[table])
        }
    };
    print(&text)?;
    Ok(Outcome::Done)
}

/// An unknown name; it is an argument here and not an option's value.
fn nameless(error: InputError) -> CliError {
    match error.line.is_none() && error.file.starts_with("--") {
        true => CliError::new(error.reason),
        false => error.into(),
    }
}

fn toml(policy: &Policy) -> Result<Outcome, CliError> {
    print(&policy_file::template(policy))?;
    Ok(Outcome::Done)
}

/// Every switch with its value and its meaning.
fn all(policy: &Policy) -> Table {
    let title = format!("policy {}", policy.name);
    let mut table = Table::new(title, &["key", "value", "about"], Vec::new(), Layout::Fitted);
    for (field, (path, value)) in Policy::describe().iter().zip(policy.values()) {
        table.push(&[&path, &value.to_string(), field.doc], Vec::new());
    }
    table
}

/// The switches with different values in `shown` and `other`.
fn differences(other: &Policy, shown: &Policy) -> Table {
    let title = format!("policy {} against {}", shown.name, other.name);
    let labels = ["key", &other.name, &shown.name, "about"];
    let mut table = Table::new(title, &labels, Vec::new(), Layout::Fitted);
    let fields = Policy::describe();
    for difference in other.differences(shown) {
        let field = fields.iter().find(|field| field.path == difference.path);
        let (from, to) = (difference.from.to_string(), difference.to.to_string());
        table.push(&[&difference.path, &from, &to, field.map_or("", |f| f.doc)], Vec::new());
    }
    table
}
