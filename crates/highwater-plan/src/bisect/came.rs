//! The kernel version that introduced a switch.

use std::fmt;

use highwater_core::config::{Difference, PRESETS, Policy, Value, Values, preset};

/// Kernels among the presets, oldest first.
fn kernels() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).filter(|name| version(name).is_some()).collect()
}

/// When Linux got the newer of two values of a switch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Came {
    /// In this version.
    With(String),
    /// In a version after this one.
    After(String),
    /// In a version after the first, and in the second at the latest.
    Between(String, String),
    /// No preset kernel has it.
    Nowhere,
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Came::With(kernel) => write!(f, "came with {kernel}"),
            Came::After(kernel) => write!(f, "came after {kernel}"),
            Came::Between(old, new) => write!(f, "came between {old} and {new}"),
            Came::Nowhere => f.write_str("is in no kernel"),
        }
    }
}

/// When Linux got the newer of the two values. The switch's declaration says it, or else the
/// presets bound it.
pub fn came(difference: &Difference) -> Came {
    let kernels = kernels();
    let of_kernels: Vec<Option<Value<'static>>> =
        kernels.iter().map(|kernel| preset(kernel)?.get(&difference.path)).collect();
    let (from, to) = (difference.from, difference.to);
    let is_at = |at: usize, value: Value<'static>| of_kernels[at] == Some(value);
    let step = |from, to| (1..kernels.len()).find(|&at| is_at(at - 1, from) && is_at(at, to));
    let first = |value| (0..kernels.len()).find(|&at| is_at(at, value));
    // Try the caller's direction, then the other one. If no kernel changed one value into the
    // other, the value that came later counts.
    let (newer, older, at) = match (step(from, to), step(to, from), first(from), first(to)) {
        (Some(at), ..) => (to, from, at),
        (_, Some(at), ..) => (from, to, at),
        (.., Some(old), Some(new)) if old > new => (from, to, old),
        (.., Some(_), Some(at)) => (to, from, at),
        _ => return Came::Nowhere,
    };
    let field = Policy::describe().into_iter().find(|field| field.path == difference.path);
    if let Some(field) = field {
        let doc = |value: Value<'static>| match (field.values, value) {
            (Values::Choices(choices), Value::Choice(name)) => {
                choices.iter().find(|choice| choice.name == name).map_or("", |choice| choice.doc)
            }
            (_, Value::Bool(false)) => "",
            _ => field.doc,
        };
        if let Some(kernel) = [" on)", " and later)"].iter().find_map(|end| before(doc(newer), end))
        {
            return Came::With(kernel);
        }
        if let Some(kernel) = behind(doc(older), "(up to ") {
            return Came::After(kernel);
        }
    }
    match at.checked_sub(1) {
        Some(old) => Came::Between(kernels[old].to_owned(), kernels[at].to_owned()),
        None => Came::With(kernels[at].to_owned()),
    }
}

/// The version before some words: `5.9` of "(5.9 on)".
fn before(doc: &str, words: &str) -> Option<String> {
    let text = &doc[..doc.find(words)?];
    version(text.rsplit(|c: char| c == '(' || c.is_whitespace()).next()?)
}

/// The version after some words.
fn behind(doc: &str, words: &str) -> Option<String> {
    let text = &doc[doc.find(words)? + words.len()..];
    version(text.split([')', ',', ' ']).next()?)
}

fn version(text: &str) -> Option<String> {
    let (major, minor) = text.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came_of(from: &str, to: &str, path: &str) -> String {
        let [from, to] = [from, to].map(|name| preset(name).unwrap());
        let differences = from.differences(&to);
        let difference = differences.iter().find(|difference| difference.path == path);
        came(difference.unwrap_or_else(|| panic!("{path}"))).to_string()
    }

    #[test]
    fn switches_came_with_kernels() {
        assert_eq!(came_of("5.4", "6.1", "reclaim.balance"), "came with 5.8");
        assert_eq!(came_of("5.4", "6.1", "reclaim.anon-workingset"), "came with 5.9");
        assert_eq!(came_of("5.4", "6.1", "compaction.proactive"), "came with 5.9");
        assert_eq!(came_of("5.4", "6.1", "reclaim.anon-new"), "came after 5.8");
        assert_eq!(came_of("5.17", "5.18", "merge"), "came with 5.18");
        // The other direction is the same switch.
        assert_eq!(came_of("6.1", "5.4", "reclaim.balance"), "came with 5.8");
        assert_eq!(came_of("4.3", "6.1", "fallback"), "came between 4.6 and 5.4");
        // This rule came back in a later kernel.
        assert_eq!(came_of("5.4", "5.10", "zonelist.node-load"), "came between 5.4 and 5.10");
        assert_eq!(came_of("5.18", "pcp-blocks", "pcp.own-blocks"), "is in no kernel");
    }

    /// The presets are listed with the oldest kernel first.
    #[test]
    fn kernels_are_the_presets_with_the_name_of_a_version() {
        let of = |name: &str| preset(name).unwrap().kernel;
        assert!(kernels().is_sorted_by_key(|name| of(name)), "{:?}", kernels());
        assert!(kernels().starts_with(&["4.3", "4.5"]) && kernels().ends_with(&["6.12", "7.2"]));
    }
}
