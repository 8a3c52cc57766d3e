//! Policies: the core's presets, files that come with the program, and the user's files.
//!
//! ```toml
//! base = "6.1"                # a policy by its name; everything below overrides it
//! summary = "one line"
//! name = "6.1-no-boost"       # default: the file's name
//!
//! [watermark]
//! boost = false
//! ```
//!
//! The keys are those of [`Policy::describe`]. Keys that a file does not mention keep the base's
//! values, so a before/after pair differs only in the mentioned keys.

use std::path::Path;
use std::sync::OnceLock;

use highwater_core::config::{
    Answers, Own, OwnAnswers, PRESETS, Policy, PolicyError, Value as Setting, preset,
};
use toml::{Table, Value};

use crate::input::catalogue::texts;
use crate::input::names::{not_modelled, unknown};
use crate::input::unmodelled::elsewhere;
use crate::input::{Catalogue, InputError, Source};

/// A policy defined in code by an embedding program (`highwater::cli::Program`): its base, the
/// switches that it changes, and its own rules.
#[derive(Clone, Copy)]
pub struct OwnPolicy {
    /// Its name, and that of its rules.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// Its base policy.
    pub base: &'static str,
    /// Changes its switches.
    pub set: fn(&mut Policy),
    /// Its own rules; `None`: switches only.
    pub answers: Option<fn() -> Box<dyn Answers>>,
}

/// Policies of the program that this is part of.
static OWN: OnceLock<Vec<OwnPolicy>> = OnceLock::new();

/// Registers policies by name, everywhere that a policy name is accepted. Call it once, before any
/// lookup.
///
/// # Errors
/// If it was called before, or a base is not known.
pub fn bring(policies: &[OwnPolicy]) -> Result<(), InputError> {
    for (at, own) in policies.iter().enumerate() {
        if policies[..at].iter().any(|other| other.name == own.name) {
            return Err(InputError::whole(own.name, "two policies have this name"));
        }
        let base = base_of(own);
        if preset(own.name).is_some() || CATALOGUE.find(own.name).is_some() {
            let reason = "a policy of this name comes with Highwater";
            return Err(InputError::whole(own.name, reason));
        }
        base?;
    }
    OWN.set(policies.to_vec())
        .map_err(|_| InputError::whole("policies", "a program brings its own once, not again"))
}

fn base_of(own: &OwnPolicy) -> Result<Policy, InputError> {
    let known = preset(own.base).map(Ok);
    known
        .or_else(|| CATALOGUE.find(own.base).map(|found| parse(&found.file, &found.text)))
        .unwrap_or_else(|| {
            let all = all();
            let known: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
            Err(InputError::whole(
                own.name,
                format!("base: {}", unknown("policy", own.base, &known)),
            ))
        })
}

fn brought() -> &'static [OwnPolicy] {
    OWN.get().map_or(&[], Vec::as_slice)
}

/// A preset, or a policy of the program's own.
fn known(name: &str) -> Option<Policy> {
    preset(name).or_else(|| {
        let own = brought().iter().find(|own| own.name == name)?;
        let mut policy = base_of(own).ok()?;
        (own.set)(&mut policy);
        own.name.clone_into(&mut policy.name);
        if let Some(make) = own.answers {
            policy.own = Own::new(OwnAnswers { name: own.name, make });
        }
        Some(policy)
    })
}

/// Policies that come with the program, beside the presets.
const CATALOGUE: Catalogue = Catalogue {
    what: "policy",
    kinds: &["policy"],
    option: "--policy",
    folder: "policies",
    texts: texts::POLICIES,
};

/// The policy with a name, or from a file.
///
/// # Errors
/// If there is none, or the file is not a policy.
pub fn load(name: &str) -> Result<Policy, InputError> {
    if let Some(policy) = known(name) {
        return Ok(policy);
    }
    let own = brought().iter().map(|own| own.name);
    let others: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).chain(own).collect();
    let found = CATALOGUE.open(name, &others)?;
    parse(&found.file, &found.text)
}

/// The policy that another file refers to, by name or by a path relative to that file's directory.
///
/// # Errors
/// As [`load`].
pub fn load_beside(file: &str, name: &str) -> Result<Policy, InputError> {
    load(&CATALOGUE.beside(file, name, known(name).is_some()))
}

/// Names of all policies with a summary line: presets first, the embedding program's own last.
pub fn all() -> Vec<(String, String)> {
    let presets = PRESETS.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
    let files = CATALOGUE.names().map(|name| (name.to_owned(), summary(name).to_owned()));
    let own = brought().iter().map(|own| (own.name.to_owned(), own.about.to_owned()));
    presets.chain(files).chain(own).collect()
}

/// The line about a policy that comes with the program; empty for others.
pub fn summary(name: &str) -> &'static str {
    if let Some((_, about)) = PRESETS.iter().find(|(known, _)| *known == name) {
        return about;
    }
    if let Some(own) = brought().iter().find(|own| own.name == name) {
        return own.about;
    }
    let embedded = CATALOGUE.texts.iter().find(|(known, _)| *known == name);
    let line = embedded.and_then(|(_, text)| text.lines().find(|l| l.starts_with("summary")));
    line.and_then(|l| l.split('"').nth(1)).unwrap_or_default()
}

/// A policy, every switch spelled out, as a TOML text that [`parse`] reads.
pub fn to_toml(policy: &Policy) -> String {
    // Plain structs of numbers and names: always valid TOML.
    let table = Table::try_from(policy).unwrap_or_default();
    let body = toml::to_string(&table).unwrap_or_default();
    format!("base = \"6.1\"\n{body}")
}

/// The same as a template for a new file, without the name, because the new file's name is the
/// default.
pub fn template(policy: &Policy) -> String {
    let unnamed = Policy { name: String::new(), ..policy.clone() };
    let body = to_toml(&unnamed).replacen("name = \"\"\n", "", 1);
    format!(
        "# Every switch of {}. In reports this policy goes by the name of its file.\n{body}",
        policy.name
    )
}

/// The path of the first switch with this key, in any section; `None` if there is none.
pub fn path_of(key: &str) -> Option<String> {
    let mut paths = Policy::describe().into_iter().map(|field| field.path);
    paths.find(|path| path.rsplit('.').next() == Some(key))
}

/// Reads a file's text; `file` names it in errors and gives the policy its name unless the text
/// does.
///
/// # Errors
/// With the line and the field that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Policy, InputError> {
    let source = Source { file, text };
    let mut raw: Table = toml::from_str(text).map_err(|error| source.toml(&error))?;
    let at = |path: &str, reason: String| source.at_path(path, reason);
    let base = match raw.remove("base") {
        Some(Value::String(name)) => match (known(&name), CATALOGUE.find(&name)) {
            (Some(base), _) => base,
            (None, Some(found)) => parse(&found.file, &found.text)?,
            (None, None) => {
                let all = all();
                let known: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
                return Err(at("base", unknown("policy", &name, &known)));
            }
        },
        Some(_) => return Err(at("base", "must be the name of a policy".to_owned())),
        None => return Err(InputError::whole(file, "base: missing; the policy that it overrides")),
    };
    if !matches!(raw.remove("summary"), None | Some(Value::String(_))) {
        return Err(at("summary", "must be a line of text".to_owned()));
    }
    let stem = Path::new(file).file_stem().map(|s| s.to_string_lossy().into_owned());
    let name = match raw.remove("name") {
        None => stem.unwrap_or_default(),
        Some(Value::String(name)) => name,
        Some(_) => return Err(at("name", "must be text".to_owned())),
    };
    let kernel = match raw.remove("kernel") {
        None => base.kernel,
        Some(Value::String(kernel)) => kernel.parse().map_err(|reason| at("kernel", reason))?,
        Some(_) => return Err(at("kernel", "must be a version as text: \"5.18\"".to_owned())),
    };
    // A text can name code; it cannot bring it.
    let own = match raw.remove("own") {
        None => base.own,
        Some(Value::String(own)) => match known(&own).map(|policy| policy.own) {
            Some(answers) if answers.name() == Some(&*own) => answers,
            _ => {
                let reason = "code of another program: run this with the program that has it";
                return Err(at("own", format!("{own}: {reason}")));
            }
        },
        Some(_) => return Err(at("own", "must be the name of a policy with code".to_owned())),
    };
    let mut policy = Policy { name, kernel, own, ..base };
    let paths: Vec<String> = Policy::describe().into_iter().map(|field| field.path).collect();
    overlay(&mut policy, &paths, "", &raw, &at)?;
    Ok(policy)
}

/// Applies a section of the file, one switch at a time, so that an error names the switch. `paths`
/// lists all switches.
fn overlay(
    policy: &mut Policy,
    paths: &[String],
    section: &str,
    with: &Table,
    at: &dyn Fn(&str, String) -> InputError,
) -> Result<(), InputError> {
    for (key, value) in with {
        let path = below(section, key);
        let is_section = keys(paths, &path).next().is_some();
        match value {
            Value::Table(inner) if is_section => overlay(policy, paths, &path, inner, at)?,
            _ if is_section => {
                let usual = "is a section, not a value";
                return Err(at(&path, elsewhere(key).unwrap_or(usual).to_owned()));
            }
            _ => policy.set(&path, value_of(value)).map_err(|error| match error {
                PolicyError::MustBe(_) => at(&path, format!("{error}; not {value}")),
                PolicyError::Unknown => {
                    let known: Vec<&str> = keys(paths, section).collect();
                    if let Some(missing) = not_modelled("field", key) {
                        return at(&path, missing);
                    }
                    match path_of(key).filter(|_| section.is_empty()) {
                        Some(meant) => {
                            at(&path, format!("unknown field \"{key}\"; did you mean {meant}?"))
                        }
                        None => at(&path, unknown("field", key, &known)),
                    }
                }
            })?,
        }
    }
    Ok(())
}

/// A value in the file as one of a switch.
pub fn value_of(value: &Value) -> Setting<'_> {
    match value {
        Value::Boolean(on) => Setting::Bool(*on),
        Value::Integer(number) if *number >= 0 => Setting::Number(number.unsigned_abs()),
        Value::String(name) => Setting::Choice(name),
        // A type that no switch has: use a choice that does not exist.
        _ => Setting::Choice(""),
    }
}

/// A key below a section; that of the whole policy is "".
fn below(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

/// The keys and sections right below a section, in the order of their declarations.
fn keys<'p>(paths: &'p [String], section: &'p str) -> impl Iterator<Item = &'p str> {
    let key = move |path: &'p String| {
        let rest = match section {
            "" => path.as_str(),
            _ => path.strip_prefix(section)?.strip_prefix('.')?,
        };
        rest.split('.').next()
    };
    let mut last = None;
    paths.iter().filter_map(key).filter(move |key| last.replace(*key) != Some(*key))
}

#[cfg(test)]
mod tests {
    use highwater_core::config::Algorithm;

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
    fn a_base_is_any_policy_that_comes_with_the_program() {
        let plain = load("6.1-no-boost").unwrap();
        let other = parse("x.toml", "base = \"6.1-no-boost\"\n").unwrap();
        assert_eq!(other, Policy { name: "x".to_owned(), ..plain });
    }

    #[test]
    fn a_template_has_the_name_of_its_file() {
        let policy = preset("5.17").unwrap();
        let started = parse("full.toml", &template(&policy)).unwrap();
        assert_eq!(started, Policy { name: "full".to_owned(), ..policy });
    }

    #[test]
    fn a_policy_survives_its_text() {
        for (name, _) in PRESETS {
            let policy = preset(name).unwrap();
            assert_eq!(parse("x.toml", &to_toml(&policy)).unwrap(), policy);
        }
    }

    /// The keys of a table as paths, with their values.
    fn flatten(section: &str, table: &Table, found: &mut Vec<(String, String)>) {
        for (key, value) in table {
            match value {
                Value::Table(inner) => flatten(&below(section, key), inner, found),
                Value::String(text) => found.push((below(section, key), text.clone())),
                _ => found.push((below(section, key), value.to_string())),
            }
        }
    }

    #[test]
    fn the_keys_of_files_are_those_that_switches_are_described_with() {
        for (name, _) in PRESETS {
            let policy = preset(name).unwrap();
            let mut found = Vec::new();
            flatten("", &Table::try_from(&policy).unwrap(), &mut found);
            found.retain(|(path, _)| !["name", "kernel"].contains(&path.as_str()));
            let mut values: Vec<_> = policy
                .values()
                .into_iter()
                .map(|(path, value)| (path, value.to_string()))
                .collect();
            values.sort();
            found.sort();
            assert_eq!(found, values, "{name}");
            let json = serde_json::to_value(&policy).unwrap();
            assert_eq!(serde_json::from_value::<Policy>(json.clone()).unwrap(), policy);
            let mut more = json;
            more["pcp"]["list"] = "order0".into();
            assert!(serde_json::from_value::<Policy>(more).is_err(), "unknown keys are errors");
        }
    }

    #[test]
    fn a_file_is_of_the_kernel_of_its_base_or_says_which() {
        let kernel = |text| parse("p.toml", text).unwrap().kernel.to_string();
        assert_eq!(kernel("base = \"6.1-no-boost\"\n"), "6.1");
        assert_eq!(kernel("base = \"4.3\"\nkernel = \"4.9\"\n"), "4.9");
        let error = parse("p.toml", "base = \"4.3\"\nkernel = \"new\"\n").unwrap_err();
        let reason = "p.toml:2: kernel: \"new\" is no version of Linux, as \"5.18\" is";
        assert_eq!(error.to_string(), reason);
    }

    #[test]
    fn errors_name_line_and_field() {
        let error = |text| parse("p.toml", text).unwrap_err().to_string();
        let text = "base = \"6.1\"\n\n[pcp]\nlist = \"order0\"\n";
        assert!(error(text).starts_with("p.toml:4: pcp.list: unknown field"), "{}", error(text));
        let text = "base = \"6.1\"\npcp.lists = \"order1\"\n";
        let known = "must be one of order0, high-order15, high-order14; not \"order1\"";
        assert_eq!(error(text), format!("p.toml:2: pcp.lists: {known}"));
        let text = "base = \"6.1\"\n[reclaim]\nlru-batch = -1\n";
        let range = "must be a number from 1 to 31; not -1";
        assert_eq!(error(text), format!("p.toml:3: reclaim.lru-batch: {range}"));
        let text = "base = \"6.1\"\n[reclaim.throttle]\nskip-unless-pending = [true]\n";
        let path = "reclaim.throttle.skip-unless-pending";
        assert_eq!(error(text), format!("p.toml:3: {path}: must be true or false; not [true]"));
        let text = "base = \"6.1\"\n[reclaim]\nthrottle = \"none\"\n";
        assert_eq!(error(text), "p.toml:3: reclaim.throttle: is a section, not a value");
        let text = "base = \"6.1\"\n[merge]\nx = 1\n";
        let known = "must be one of not-isolated, mergeable, mergeable-retype; not { x = 1 }";
        assert_eq!(error(text), format!("p.toml:2: merge: {known}"));
        let text = "base = \"6.1\"\npcp = { lists = 3 }\n";
        assert!(error(text).starts_with("p.toml:2: pcp.lists: "), "{}", error(text));
        let kernel = "p.toml:1: base: Linux 7.0 is not modelled; nearest: 6.1";
        assert!(error("base = \"7.0\"\n").starts_with(kernel));
        assert!(error("base = \"6.1-clok\"\n").starts_with("p.toml:1: base: unknown policy"));
        let mglru = "the multi-generational LRU is a reclaim algorithm: write --set ";
        let text = error("base = \"6.1\"\nlru_gen = true\n");
        assert!(text.starts_with(&format!("p.toml:2: lru_gen: {mglru}")), "{text}");
        let text = error("base = \"6.1\"\n[reclaim]\nmglru = true\n");
        assert!(text.starts_with(&format!("p.toml:3: reclaim.mglru: {mglru}")), "{text}");
        let text = error("base = \"6.1\"\n[reclaim.mglru]\nteirs = false\n");
        assert!(text.contains("did you mean tiers?"), "{text}");
        assert!(error("[pcp]\n").contains("base: missing"));
        let text = "base = \"6.1\"\nboost = false\n";
        let meant = "unknown field \"boost\"; did you mean watermark.boost?";
        assert_eq!(error(text), format!("p.toml:2: boost: {meant}"));
        assert!(error("base = \n").starts_with("p.toml:1: base: "), "{}", error("base = \n"));
        let text = "base = \"6.1\"\n[pcb]\nx = 1\n";
        assert_eq!(error(text), "p.toml:2: pcb: unknown field \"pcb\"; did you mean pcp?");
    }

    #[test]
    fn algorithms_go_by_name() {
        let text = "base = \"6.1\"\n[reclaim]\nalgorithm = \"clock\"\n";
        let clock = parse("6.1-clock.toml", text).unwrap();
        assert_eq!(clock, load("6.1-clock").unwrap());
        assert_eq!(clock.reclaim.algorithm, Algorithm::Clock);
        let text = "base = \"6.1\"\n[reclaim]\nalgorithm = \"lottery\"\n";
        let error = parse("p.toml", text).unwrap_err().to_string();
        assert!(error.starts_with("p.toml:3: reclaim.algorithm: "), "{error}");
        for known in ["two-list", "clock", "fifo"] {
            assert!(error.contains(known), "{error}");
        }
    }
}
