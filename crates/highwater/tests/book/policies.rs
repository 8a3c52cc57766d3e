//! The parts between markers of `docs/src/policies.md`: what the core's tables of switches say.

use std::fmt::Write;

use highwater_core::config::{PRESETS, Policy, PolicyField, Values, preset, preset_base};

use super::{hold, read, with_part};

const PAGE: &str = "docs/src/policies.md";

fn of(name: &str) -> Policy {
    preset(name).expect(name)
}

/// Presets that are kernels: their names are versions. Oldest first.
fn kernels() -> Vec<&'static str> {
    let is_version = |name: &str| name.chars().all(|c| c.is_ascii_digit() || c == '.');
    PRESETS.iter().map(|(name, _)| *name).filter(|name| is_version(name)).collect()
}

/// Every preset with its line.
fn presets() -> String {
    let mut text = "| preset | is |\n|---|---|\n".to_owned();
    for (name, about) in PRESETS {
        writeln!(text, "| `{name}` | {about} |").unwrap();
    }
    text
}

/// Every preset as its differences from the one it stands on, those below before those above.
fn differences() -> String {
    fn above(base: Option<&str>, text: &mut String) {
        for (name, _) in PRESETS.iter().filter(|(name, _)| preset_base(name) == base) {
            match base {
                None => {
                    writeln!(text, "- **`{name}`**: the first value of each key below").unwrap()
                }
                Some(base) => {
                    let differences = of(base).differences(&of(name));
                    let with = if differences.is_empty() { "" } else { " with" };
                    writeln!(text, "- **`{name}`**: `{base}`{with}").unwrap();
                    for d in differences {
                        writeln!(text, "  - `{}`: `{}` → `{}`", d.path, d.from, d.to).unwrap();
                    }
                }
            }
            above(Some(name), text);
        }
    }
    let mut text = String::new();
    above(None, &mut text);
    text
}

/// What the switch was in the first kernel, and since when it is something else.
fn history(field: &PolicyField) -> String {
    let mut values = kernels().into_iter().map(|name| (name, of(name).get(&field.path)));
    let (_, mut last) = values.next().expect("there are kernels");
    let mut text = format!("`{}`", last.expect("it is a switch"));
    for (name, value) in values {
        if value != last {
            write!(text, ", {name} `{}`", value.expect("it is a switch")).unwrap();
            last = value;
        }
    }
    text
}

/// A table of switches, a column for each policy. `keeps` chooses the rows; with `thins` a cell is filled only where
/// the policy sets something else than the one before it.
fn columns(names: &[&str], keeps: impl Fn(&PolicyField, &[String]) -> bool, thins: bool) -> String {
    let heads: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let mut text =
        format!("| key | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for field in Policy::describe() {
        let value = |name: &&str| of(name).get(&field.path).expect("it is a switch").to_string();
        let values: Vec<String> = names.iter().map(value).collect();
        if !keeps(&field, &values) {
            continue;
        }
        let cell = |rank: usize| match rank > 0 && thins && values[rank] == values[rank - 1] {
            true => String::new(),
            false => format!("`{}`", values[rank]),
        };
        let cells: Vec<String> = (0..values.len()).map(cell).collect();
        writeln!(text, "| `{}` | {} |", field.path, cells.join(" | ")).unwrap();
    }
    text
}

/// What kernels do differently: every switch that one of them turned.
fn by_kernel() -> String {
    let differ = |_: &PolicyField, values: &[String]| values.iter().any(|v| *v != values[0]);
    columns(&kernels(), differ, true)
}

/// The two sides of study 004 and a kernel of today, in all that is about compaction.
fn study_004() -> String {
    let about = ["compaction.", "reclaim.kswapd.", "slow-path.", "reclaim.lru", "thp."];
    let is_about = |field: &PolicyField, values: &[String]| {
        about.iter().any(|path| field.path.starts_with(path))
            && (field.path.starts_with("compaction.") || values.iter().any(|v| *v != values[0]))
    };
    columns(&["kswapd-inline", "kcompactd", "6.1-compaction"], is_about, false)
}

fn values(field: &PolicyField) -> String {
    match field.values {
        Values::Choices(choices) => {
            let line = |c: &highwater_core::config::Choice| format!("`{}`: {}", c.name, c.doc);
            choices.iter().map(line).collect::<Vec<_>>().join("<br>")
        }
        Values::Bool | Values::Numbers { .. } => field.values.to_string(),
    }
}

/// Every key, a table for each section.
fn keys() -> String {
    let mut text = String::new();
    let mut last = None;
    for field in Policy::describe() {
        let (section, key) = field.path.rsplit_once('.').unwrap_or(("", &field.path));
        if last.as_deref() != Some(section) {
            let heading = if section.is_empty() { "Without a section" } else { section };
            let tick = if section.is_empty() { "" } else { "`" };
            let (open, close) = if section.is_empty() { ("", "") } else { ("[", "]") };
            write!(text, "\n### {tick}{open}{heading}{close}{tick}\n\n").unwrap();
            text += "| key | what it decides | values | kernels |\n|---|---|---|---|\n";
            last = Some(section.to_owned());
        }
        let (doc, values, history) = (field.doc, values(&field), history(&field));
        writeln!(text, "| `{key}` | {doc} | {values} | {history} |").unwrap();
    }
    text
}

#[test]
fn the_book_says_what_the_policy_tables_say() {
    let mut made = read(PAGE);
    for (name, part) in [
        ("presets", presets()),
        ("differences", differences()),
        ("kernels", by_kernel()),
        ("study-004", study_004()),
        ("keys", keys()),
    ] {
        made = with_part(&made, name, &part);
    }
    hold(PAGE, &made);
}
