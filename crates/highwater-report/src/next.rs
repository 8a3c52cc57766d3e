//! The next command: what to type to look closer at some results.

use std::path::Path;

use highwater_results::{Definition, Document};

use crate::grid::MACHINE;

/// Options of `compare` and `run` that have a value and that `explain` takes, too.
pub const KEPT: [&str; 12] = [
    "--seed",
    "--host",
    "--machine",
    "--state",
    "--mem",
    "--cpus",
    "--numa",
    "--numa-distance",
    "--disk",
    "--swap",
    "--policy",
    "--set",
];
/// The same without a value.
pub const KEPT_FLAGS: [&str; 2] = ["--quick", "--full"];
/// Options with a value that are left out: `explain` does not take them, or they would run more
/// than the slowest operations need. Those of `--vary` are among a document's settings.
pub const LEFT_OUT: [&str; 4] = ["--iterations", "--vary", "--counter", "--sample-every"];

/// The command that shows causes of what these results measured: `highwater explain`, with the
/// experiment as the user named it, and his machine, policies and settings.
pub(crate) fn explain(document: &Document) -> String {
    let mut words = vec!["highwater".to_owned(), "explain".to_owned()];
    words.extend(of_command(document).unwrap_or_else(|| vec![document.experiment.clone()]));
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// The experiment and the options; none if the command is not known.
fn of_command(document: &Document) -> Option<Vec<String>> {
    let command =
        document.command_line.get(1).filter(|name| ["compare", "run"].contains(&name.as_str()))?;
    let mut words = document.command_line[2..].iter();
    let (mut named, mut options): (Vec<&String>, Vec<String>) = Default::default();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        let is_whole = name.len() == word.len();
        if KEPT.contains(&name) {
            options.push(word.clone());
            options.extend(words.next().filter(|_| is_whole).cloned());
        } else if KEPT_FLAGS.contains(&name) {
            options.push(word.clone());
        } else if LEFT_OUT.contains(&name) {
            let value = match is_whole {
                true => words.next().map(String::as_str),
                false => word.split_once('=').map(|(_, value)| value),
            };
            let machine = value.filter(|_| name == "--vary");
            options
                .extend(machine.and_then(|of| varied_machine(document, of)).into_iter().flatten());
        } else if !word.starts_with('-') {
            named.push(word);
        }
    }
    // Of several experiments, the one that the document is of.
    let is_it = |name: &&&String| {
        let stem = Path::new(name.as_str()).file_stem().map(|stem| stem.to_string_lossy());
        let experiment = document.experiment.as_str();
        let number = experiment.split('-').next();
        number == Some(name.as_str()) || stem.is_some_and(|stem| stem == experiment)
    };
    let named = match named.as_slice() {
        [only] => only.as_str(),
        several => {
            several.iter().find(is_it).map_or(document.experiment.as_str(), |name| name.as_str())
        }
    };
    // The default policy of `run`.
    if command == "run" && !options.iter().any(|option| option.starts_with("--policy")) {
        let policies = document.policies.first().into_iter();
        options.extend(
            policies.flat_map(|Definition { name, .. }| ["--policy".to_owned(), name.clone()]),
        );
    }
    // The settings of this point of a grid.
    for setting in &document.settings {
        if !options.iter().any(|option| option.strip_prefix("--set=").unwrap_or(option) == setting)
        {
            options.extend(["--set".to_owned(), setting.clone()]);
        }
    }
    Some([vec![named.to_owned()], options].concat())
}

/// The machine of a point at which machines vary, as an option; `factor` is a value of `--vary`.
fn varied_machine(document: &Document, factor: &str) -> Option<[String; 2]> {
    let names = factor.strip_prefix(MACHINE)?.strip_prefix('=')?;
    let machine = document.machines.first()?;
    let is_it = |name: &&str| {
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        // A variant has a suffix.
        let rest = machine.name.strip_prefix(stem.trim_end_matches(".toml"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let name = names.split(',').find(is_it)?;
    Some(["--machine".to_owned(), name.to_owned()])
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=./,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(experiment: &str, command: &str, settings: &[&str]) -> String {
        let mut document = Document::new("0.1.0", experiment, "sim", 1);
        document.command_line = command.split(' ').map(str::to_owned).collect();
        document.settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        document.policies = vec![Definition { name: "5.10".to_owned(), ..Definition::default() }];
        explain(&document)
    }

    #[test]
    fn a_file_and_its_options_are_named_as_the_user_did() {
        let command = "highwater compare jobs/my.toml --mem 1G --iterations 5 --policy a --policy=b --ablate --cpus=2";
        let expected = "highwater explain jobs/my.toml --mem 1G --policy a --policy=b --cpus=2";
        assert_eq!(next("my", command, &[]), expected);
        let command = "highwater compare 001 --set x=[1,2] --quick --vary k=1,2 --counter pgfault";
        let expected = "highwater explain 001 --set 'x=[1,2]' --quick --set k=1";
        assert_eq!(next("001-reclaim-throttle", command, &["x=[1,2]", "k=1"]), expected);
    }

    #[test]
    fn a_machine_that_varies_is_an_option() {
        let mut document = Document::new("0.1.0", "003-x", "sim", 1);
        let command = "highwater compare 003 --vary machine=laptop,m/big.toml --vary k=1,2";
        document.command_line = command.split(' ').map(str::to_owned).collect();
        document.settings = vec!["k=2".to_owned()];
        document.machines = vec![Definition { name: "big".to_owned(), ..Definition::default() }];
        assert_eq!(explain(&document), "highwater explain 003 --machine m/big.toml --set k=2");
        "laptop".clone_into(&mut document.machines[0].name);
        assert_eq!(explain(&document), "highwater explain 003 --machine laptop --set k=2");
        // A file may call its machine anything.
        "other".clone_into(&mut document.machines[0].name);
        assert_eq!(explain(&document), "highwater explain 003 --set k=2");
    }

    #[test]
    fn of_several_experiments_it_is_the_documents() {
        let command = "highwater compare 001 a/003.toml 004-kcompactd --quick";
        assert_eq!(next("001-reclaim", command, &[]), "highwater explain 001 --quick");
        assert_eq!(next("003", command, &[]), "highwater explain a/003.toml --quick");
        assert_eq!(next("004-kcompactd", command, &[]), "highwater explain 004-kcompactd --quick");
        assert_eq!(next("other", command, &[]), "highwater explain other --quick");
    }

    #[test]
    fn a_run_names_its_policy_and_other_commands_the_experiment() {
        let run = next("j", "highwater run j.toml --mem 1G", &[]);
        assert_eq!(run, "highwater explain j.toml --mem 1G --policy 5.10");
        assert_eq!(next("j", "highwater", &[]), "highwater explain j");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
