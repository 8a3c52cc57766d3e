//! Recognises files given to the wrong command, and names what they are.

use std::io::Read as _;
use std::path::Path;

use highwater_results::import::KernelText;
use highwater_results::input;
use toml::de::DeTable;

/// Bytes of a file that are enough to recognise it.
const HEAD_BYTES: u64 = 64 * 1024;

/// The kind of a file, if it is a text of Linux; `None` also if it cannot be read.
pub fn recognised(path: &Path) -> Option<KernelText> {
    // Reading a pipe would consume it.
    if !path.is_file() {
        return None;
    }
    let mut head = Vec::new();
    let file = input::unpacked(input::open(path).ok()?).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    kernel_text(&String::from_utf8_lossy(&head))
}

/// The kind of a text, if it is one of Linux.
pub fn kernel_text(text: &str) -> Option<KernelText> {
    // JSON may quote a kernel's log; no text of a kernel is JSON.
    KernelText::of(text).filter(|_| !text.trim_start().starts_with('{'))
}

/// For a text that the command `own` cannot read: its kind and the command that reads it, or a
/// message that it is none of `expected`. `None` for a text that `own` does read, and for any other
/// JSON object, about which its reader reports better errors.
pub fn misplaced(text: &str, own: &str, expected: &str) -> Option<String> {
    // A job may quote a kernel's log.
    let reads = match definition(text).or_else(|| document(text)) {
        Some(advice) => advice.to_owned(),
        None if text.trim().is_empty() => "there is nothing in it".to_owned(),
        None if text.trim_start().starts_with('{') => return None,
        None => match KernelText::of(text) {
            Some(text) => text.advice(),
            None => "not a file that this command reads".to_owned(),
        },
    };
    let is_own = reads.contains(&format!("`highwater {own} FILE`"));
    (!is_own).then(|| format!("{reads}; expected: {expected}"))
}

/// Kinds of definitions, and what to do with a file of each.
const DEFINITIONS: [(&str, &str); 6] = [
    ("job", "this is a job file: `highwater compare FILE` runs it"),
    ("experiment", "this is an experiment: `highwater compare FILE` runs it"),
    (
        "machine",
        "this is a machine file: `--machine FILE` of `highwater compare` or `highwater zoneinfo` reads it",
    ),
    ("policy", "this is a policy file: `--policy FILE` of `highwater compare` reads it"),
    ("costs", "this is a file of costs: a machine file takes it with costs = \"FILE\""),
    (PLAN, "this is a plan: `highwater sweep FILE` runs it"),
];
/// The kind of a plan.
const PLAN: &str = "plan";

/// Whether a text is a plan of runs.
pub fn is_plan(text: &str) -> bool {
    let table = DeTable::parse(text).ok();
    table.and_then(|table| kind_of(table.get_ref())).is_some_and(|(kind, _)| kind == PLAN)
}

/// Returns advice for a definition of another kind than `wanted`. None: it is of a wanted kind, or its
/// kind cannot be recognised.
pub fn other_definition(text: &str, wanted: &[&str]) -> Option<&'static str> {
    let table = DeTable::parse(text).ok()?;
    let (_, advice) = kind_of(table.get_ref()).filter(|(kind, _)| !wanted.contains(kind))?;
    Some(advice)
}

/// The kind of a definition, by its keys.
fn kind_of(table: &DeTable<'_>) -> Option<(&'static str, &'static str)> {
    let has = |key: &str| table.contains_key(key);
    let at = match () {
        () if has("task") => 0,
        () if has("workload") => 1,
        () if has("node") || has("costs") => 2,
        () if has("base") => 3,
        () if has("cost") => 4,
        () if has("experiment") || has("run") => 5,
        () => return None,
    };
    Some(DEFINITIONS[at])
}

/// A TOML file, by its keys.
fn definition(text: &str) -> Option<&'static str> {
    // A list of JSON could be the heading of a table.
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return None;
    }
    let table = DeTable::parse(text).ok().filter(|table| !table.get_ref().is_empty())?;
    Some(match kind_of(table.get_ref()) {
        Some((_, advice)) => advice,
        None => "this is a TOML file: `highwater compare FILE` reads jobs and experiments",
    })
}

/// A document that a command of this program wrote, or a captured reference.
fn document(text: &str) -> Option<&'static str> {
    let document: serde_json::Value = serde_json::from_str(text).ok()?;
    let schema = document.get("schema")?;
    if schema.is_u64() && document.get("kind").is_some() {
        return Some("this is a captured reference: `highwater check FILE` reads it");
    }
    let name = schema.as_str()?.split('/').next()?;
    Some(match name {
        "highwater.compare" => {
            "this is the results of a comparison: `highwater report FILE` shows them"
        }
        "highwater.explain" => {
            "this is an explanation: `highwater explain DIR` shows that of a directory"
        }
        name if name.starts_with("highwater.") => {
            "this is what a command of this program wrote with --format json: no command reads it"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_other_commands_are_called_by_their_name() {
        for (text, said) in [
            ("[[task]]\nname = \"a\"\n", "this is a job file: `highwater compare FILE`"),
            ("[[node]]\nmemory = \"1G\"\n", "this is a machine file: `--machine FILE`"),
            ("base = \"6.1\"\n", "this is a policy file"),
            (
                "experiment = \"003\"\n[set]\nvm.swappiness = 1\n",
                "this is a plan: `highwater sweep",
            ),
            ("workload = \"stutterp\"\n", "this is an experiment"),
            ("{\"schema\": 1, \"kind\": \"static\"}", "this is a captured reference"),
            ("{\"schema\": \"highwater.compare/2\"}", "`highwater report FILE` shows them"),
            ("{\"schema\": \"highwater.check/1\"}", "no command reads it"),
            ("MemTotal: 1 kB\n", "this is /proc/meminfo"),
            ("", "there is nothing in it"),
            ("some words\n", "not a file that this command reads; expected: x"),
        ] {
            let advice = misplaced(text, "own", "x").unwrap();
            assert!(advice.contains(said) && advice.ends_with("expected: x"), "{text}: {advice}");
        }
        assert_eq!(misplaced("{\"schema\": 1, ", "own", "x"), None, "JSON that is damaged");
        let reference = "{\"schema\": 1, \"kind\": \"static\"}";
        assert_eq!(misplaced(reference, "check", "x"), None, "what the command itself reads");
        assert!(misplaced("[1]", "own", "x").unwrap().starts_with("not a file"));
    }

    #[test]
    fn json_that_quotes_a_log_is_json() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            recognised(&path)
        };
        let log = "dd: page allocation failure: order:4, mode:0xdc0(GFP_KERNEL)\n";
        assert_eq!(of("log", log), Some(KernelText::Log));
        assert_eq!(of("x.json", &format!("\n{{\"notes\": [\n\"{}\"]}}", log.trim_end())), None);
    }
}
