//! Manual pages, completions, and options that all commands have.

use std::fs;
use std::process::Command;

use super::{highwater, root, stdout};

#[test]
fn every_command_has_a_manual_page() {
    let page = stdout(&["man"]);
    assert!(page.contains(".TH highwater 1") && page.contains("highwater\\-compare(1)"), "{page}");
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("man1");
    let said = stdout(&["man", "--out", dir.to_str().unwrap()]);
    let mut names: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(said.lines().count(), names.len());
    for name in ["highwater.1", "highwater-compare.1", "highwater-trace.1", "highwater-watch.1"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    let trace = fs::read_to_string(dir.join("highwater-trace.1")).unwrap();
    assert!(trace.contains("\\-\\-around\\-worst"), "{trace}");
}

#[test]
fn shells_complete_the_command_line() {
    for (shell, words) in [
        ("bash", ["_highwater()", "--around-worst"]),
        ("zsh", ["#compdef highwater", "--around-worst"]),
        ("fish", ["complete -c highwater", "around-worst"]),
    ] {
        let text = stdout(&["completions", shell]);
        words.iter().for_each(|word| assert!(text.contains(word), "{shell}: {word}"));
    }
    let output = highwater(&["completions", "tcsh"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn quiet_is_quiet_and_colours_are_asked_for() {
    let compare = ["compare", "002", "--quick", "--machine", "netperf-1-socket"];
    let said = highwater(&compare);
    assert!(!said.stderr.is_empty());
    let quiet = highwater(&[&compare[..], &["--quiet"]].concat());
    assert_eq!((quiet.stdout == said.stdout, quiet.stderr.is_empty()), (true, true));
    // Errors are told all the same.
    let wrong = highwater(&["-q", "compare", "nothing"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).starts_with("error: "));
    let coloured = highwater(&[&compare[..], &["--color", "always"]].concat());
    let text = String::from_utf8(coloured.stdout).unwrap();
    assert!(text.contains("\u{1b}[1mVerdict: ") && text.contains("\u{1b}[32m*"), "{text}");
    let json = [&compare[..], &["--color", "always", "--format", "json"]].concat();
    assert!(!stdout(&json).contains('\u{1b}'), "data have no colours");
    let forced = |name: &str, value: &str| {
        let mut command = Command::new(crate::program());
        command.current_dir(root()).args(compare).env("CLICOLOR_FORCE", "1").env(name, value);
        String::from_utf8(command.output().unwrap().stdout).unwrap().contains('\u{1b}')
    };
    assert!(forced("CLICOLOR_FORCE", "1") && !forced("NO_COLOR", "1"));
}
