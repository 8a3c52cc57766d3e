//! `highwater man` and `highwater completions`: files that a distribution package needs besides the
//! program.

use std::path::Path;

use clap::{Command, CommandFactory};
use highwater_results::store::write_atomically;
use highwater_results::words::refusal;

use super::args::{Cli, CompletionsArgs, ManArgs};
use super::{CliError, Outcome, print};

/// Prints the manual page, or writes those of all subcommands to a directory.
pub(super) fn man(args: &ManArgs) -> Result<Outcome, CliError> {
    let command = Cli::command();
    let Some(dir) = &args.out else {
        print(&page(command)?)?;
        return Ok(Outcome::Done);
    };
    let failed = |error: &dyn std::fmt::Display| CliError::new(format!("--out {error}"));
    std::fs::create_dir_all(dir)
        .map_err(|error| failed(&format!("{}: {}", dir.display(), refusal(&error))))?;
    let mut names = String::new();
    let mut write = |name: &str, command: Command| -> Result<(), CliError> {
        let file: &Path = &dir.join(format!("{name}.1"));
        write_atomically(file, page(command)?.as_bytes()).map_err(|error| failed(&error))?;
        names += &format!("{}\n", file.display());
        Ok(())
    };
    let name = command.get_name().to_owned();
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let full = format!("{name}-{}", subcommand.get_name());
        let leaked: &'static str = Box::leak(full.clone().into_boxed_str());
        write(&full, subcommand.clone().name(leaked))?;
    }
    write(&name, command)?;
    print(&names)?;
    Ok(Outcome::Done)
}

/// A manual page as troff reads it.
fn page(command: Command) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut bytes);
    rendered.map_err(|error| CliError::new(format!("the manual page: {error}")))?;
    String::from_utf8(bytes).map_err(|error| CliError::new(format!("the manual page: {error}")))
}

/// Prints a shell's completion script.
pub(super) fn completions(args: &CompletionsArgs) -> Result<Outcome, CliError> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut bytes);
    let text = String::from_utf8(bytes).map_err(|error| CliError::new(error.to_string()))?;
    print(&text)?;
    Ok(Outcome::Done)
}
