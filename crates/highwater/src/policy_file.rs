//! Policies: the core's presets, those that come with the program as files, files of users.
//!
//! ```toml
//! base = "6.1"                # a preset; everything below overrides it
//! summary = "one line"
//! name = "6.1-no-boost"       # default: the file's name
//!
//! [watermark]
//! boost = false
//! ```
//!
//! The keys are the fields of [`Policy`] in kebab case. A file never repeats its base: what it does
//! not mention follows the preset, so a before/after pair differs in nothing else.

use std::path::Path;

use highwater_core::config::{PRESETS, Policy, preset};
use serde::Deserialize;
use toml::{Table, Value};

use crate::error::{InputError, one_line};

/// Policies that come with the program, beside the presets: name and text.
const EMBEDDED: &[(&str, &str)] = &[
    ("5.18-capped", include_str!("../../../policies/5.18-capped.toml")),
    ("6.1-clock", include_str!("../../../policies/6.1-clock.toml")),
    ("6.1-no-boost", include_str!("../../../policies/6.1-no-boost.toml")),
];

/// The policy of a name or a file.
///
/// # Errors
/// If there is none, or the file is not one.
pub fn load(name: &str) -> Result<Policy, InputError> {
    if let Some(policy) = preset(name) {
        return Ok(policy);
    }
    if let Some((_, text)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
        return parse(&format!("policies/{name}.toml"), text);
    }
    let path = Path::new(name);
    if path.extension().is_some_and(|e| e == "toml") || path.exists() {
        let text = std::fs::read_to_string(path)
            .map_err(|error| InputError::whole(name, format!("cannot be read: {error}")))?;
        return parse(name, &text);
    }
    let known = all().iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>().join(", ");
    let reason = format!("unknown policy \"{name}\"; there are {known}, or give a file");
    Err(InputError::whole("--policy", reason))
}

/// Names of all policies with a line about each, presets first.
pub fn all() -> Vec<(String, String)> {
    let presets = PRESETS.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
    let files = EMBEDDED.iter().map(|(name, _)| ((*name).to_owned(), summary(name).to_owned()));
    presets.chain(files).collect()
}

/// The line about a policy that comes with the program; empty for others.
pub fn summary(name: &str) -> &'static str {
    if let Some((_, about)) = PRESETS.iter().find(|(known, _)| *known == name) {
        return about;
    }
    let embedded = EMBEDDED.iter().find(|(known, _)| *known == name);
    let line = embedded.and_then(|(_, text)| text.lines().find(|l| l.starts_with("summary")));
    line.and_then(|l| l.split('"').nth(1)).unwrap_or_default()
}

/// A policy, every switch spelled out, as a TOML text that [`parse`] reads.
pub fn to_toml(policy: &Policy) -> String {
    // Plain structs of numbers and names: nothing that TOML could not hold.
    let table = Table::try_from(policy).unwrap_or_default();
    let body = toml::to_string(&table).unwrap_or_default();
    format!("base = \"6.1\"\n{body}")
}

/// The section of a policy that has a key; none if there is no such key.
pub(crate) fn section_of(policy: &Policy, key: &str) -> Option<String> {
    let table = Table::try_from(policy).ok()?;
    let has = |value: &Value| value.as_table().is_some_and(|section| section.contains_key(key));
    table.iter().find(|(_, value)| has(value)).map(|(name, _)| name.clone())
}

/// Reads a file's text; `file` names it in errors and gives the policy its name unless the text
/// does.
///
/// # Errors
/// With the line and the field that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Policy, InputError> {
    let mut raw: Table =
        toml::from_str(text).map_err(|error| InputError::toml(file, text, &error))?;
    let at = |path: &[&str], reason: String| {
        let (field, span) = (path.join("."), span_of(text, path));
        InputError::at(file, text, span, field, reason)
    };
    let base = match raw.remove("base") {
        Some(Value::String(name)) => preset(&name).ok_or_else(|| {
            let known = PRESETS.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
            at(&["base"], format!("unknown preset \"{name}\"; there are {known}"))
        })?,
        Some(_) => return Err(at(&["base"], "must be the name of a preset".to_owned())),
        None => return Err(InputError::whole(file, "base: missing; the preset that it overrides")),
    };
    if !matches!(raw.remove("summary"), None | Some(Value::String(_))) {
        return Err(at(&["summary"], "must be a line of text".to_owned()));
    }
    let stem = Path::new(file).file_stem().map(|s| s.to_string_lossy().into_owned());
    let name = raw.entry("name").or_insert_with(|| stem.unwrap_or_default().into());
    if !name.is_str() {
        return Err(at(&["name"], "must be text".to_owned()));
    }
    let mut policy = Table::try_from(&base)
        .map_err(|error| InputError::whole(file, format!("base: {error}")))?;
    overlay(&mut policy, &raw, &mut Vec::new(), &at)?;
    Policy::deserialize(Value::Table(policy))
        .map_err(|error| InputError::whole(file, one_line(error.message())))
}

/// Replaces what `with` mentions, one value at a time, so that a wrong one can be named.
fn overlay<'k>(
    policy: &mut Table,
    with: &'k Table,
    path: &mut Vec<&'k str>,
    at: &dyn Fn(&[&str], String) -> InputError,
) -> Result<(), InputError> {
    for (key, value) in with {
        path.push(key);
        overlay_one(policy, value, path, at)?;
        path.pop();
    }
    Ok(())
}

fn overlay_one<'k>(
    policy: &mut Table,
    value: &'k Value,
    path: &mut Vec<&'k str>,
    at: &dyn Fn(&[&str], String) -> InputError,
) -> Result<(), InputError> {
    if let Value::Table(inner) = value {
        let is_section = lookup(policy, path).is_some_and(Value::is_table);
        if !is_section {
            return Err(at(path, unknown(policy, path)));
        }
        return overlay(policy, inner, path, at);
    }
    let Some(slot) = lookup_mut(policy, path) else {
        return Err(at(path, unknown(policy, path)));
    };
    if slot.is_table() {
        return Err(at(path, "is a section, not a value".to_owned()));
    }
    *slot = value.clone();
    Policy::deserialize(Value::Table(policy.clone()))
        .map(drop)
        .map_err(|error| at(path, one_line(error.message())))
}

fn unknown(policy: &Table, path: &[&str]) -> String {
    let siblings = match path.split_last() {
        Some((_, [])) | None => Some(policy),
        Some((_, parents)) => lookup(policy, parents).and_then(Value::as_table),
    };
    let known = siblings.map(|t| t.keys().map(String::as_str).collect::<Vec<_>>().join(", "));
    format!("unknown field; there are {}", known.unwrap_or_default())
}

fn lookup<'t>(table: &'t Table, path: &[&str]) -> Option<&'t Value> {
    let (first, rest) = path.split_first()?;
    let mut value = table.get(*first)?;
    for key in rest {
        value = value.as_table()?.get(*key)?;
    }
    Some(value)
}

fn lookup_mut<'t>(table: &'t mut Table, path: &[&str]) -> Option<&'t mut Value> {
    let (first, rest) = path.split_first()?;
    let mut value = table.get_mut(*first)?;
    for key in rest {
        value = value.as_table_mut()?.get_mut(*key)?;
    }
    Some(value)
}

/// Where the text sets a key: the line with its last part, below the section's heading if there is
/// one, or with all of it dotted.
fn span_of(text: &str, path: &[&str]) -> std::ops::Range<usize> {
    let (mut offset, mut section) = (0, String::new());
    let whole = path.join(".");
    let mut best = 0..0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if let Some(heading) = trimmed.strip_prefix('[') {
            section = heading.split(']').next().unwrap_or_default().trim().to_owned();
            if section == whole {
                best = offset..offset + line.len();
            }
        } else if let Some((key, _)) = trimmed.split_once('=') {
            let key = key.trim();
            let full = if section.is_empty() { key.into() } else { format!("{section}.{key}") };
            let starts_inline = whole.starts_with(&format!("{full}."));
            if full == whole || starts_inline {
                return offset..offset + line.len();
            }
        }
        offset += line.len();
    }
    best
}

#[cfg(test)]
mod tests {
    use highwater_core::config::Scheme;

    use super::*;

    #[test]
    fn embedded_policies_override_their_base() {
        let boosted = preset("6.1").unwrap();
        let mut plain = load("6.1-no-boost").unwrap();
        assert!(!plain.watermark.boost);
        plain.watermark.boost = true;
        plain.name = boosted.name.clone();
        assert_eq!(plain, boosted);
        for (name, about) in all() {
            assert_eq!(load(&name).unwrap().name, name);
            assert!(!about.is_empty(), "{name} says nothing about itself");
        }
    }

    #[test]
    fn a_policy_survives_its_text() {
        for (name, _) in PRESETS {
            let policy = preset(name).unwrap();
            assert_eq!(parse("x.toml", &to_toml(&policy)).unwrap(), policy);
        }
    }

    #[test]
    fn errors_name_line_and_field() {
        let error = |text| parse("p.toml", text).unwrap_err().to_string();
        let text = "base = \"6.1\"\n\n[pcp]\nlist = \"order0\"\n";
        assert!(error(text).starts_with("p.toml:4: pcp.list: unknown field"), "{}", error(text));
        let text = "base = \"6.1\"\npcp.lists = \"order1\"\n";
        assert!(error(text).starts_with("p.toml:2: pcp.lists: unknown variant"), "{}", error(text));
        let text = "base = \"6.1\"\npcp = { lists = 3 }\n";
        assert!(error(text).starts_with("p.toml:2: pcp.lists: "), "{}", error(text));
        assert!(error("base = \"7.0\"\n").starts_with("p.toml:1: base: unknown preset"));
        assert!(error("[pcp]\n").contains("base: missing"));
        assert!(error("base = \n").starts_with("p.toml:1: base: "), "{}", error("base = \n"));
        let text = "base = \"6.1\"\n[pcb]\nx = 1\n";
        assert!(error(text).starts_with("p.toml:2: pcb: unknown field"), "{}", error(text));
    }

    #[test]
    fn schemes_go_by_name() {
        let text = "base = \"6.1\"\n[reclaim]\nscheme = \"clock\"\n";
        let clock = parse("6.1-clock.toml", text).unwrap();
        assert_eq!(clock, load("6.1-clock").unwrap());
        assert_eq!(clock.reclaim.scheme, Scheme::Clock);
        let text = "base = \"6.1\"\n[reclaim]\nscheme = \"lottery\"\n";
        let error = parse("p.toml", text).unwrap_err().to_string();
        assert!(error.starts_with("p.toml:3: reclaim.scheme: "), "{error}");
        for known in ["two-list", "clock", "fifo"] {
            assert!(error.contains(known), "{error}");
        }
    }
}
