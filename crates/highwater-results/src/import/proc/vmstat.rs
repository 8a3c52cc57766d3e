//! `/proc/vmstat`: one counter a line.

use std::collections::HashSet;
use std::path::Path;

use super::text::{at, for_each_line, number, read};
use crate::import::ImportError;
use crate::import::error::FieldProblem;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vmstat {
    /// Name and value, in the order of the file; at least one, no name twice.
    pub counters: Vec<(String, u64)>,
}

impl Vmstat {
    /// Reads a file, plain or gzip.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        read(path.as_ref(), Self::parse)
    }

    /// Parses a text; `file` names it in errors.
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, ImportError> {
        let mut counters = Vec::new();
        let mut seen = HashSet::new();
        let nr_lines = for_each_line(file, text, |_, line| {
            let mut words = line.split_whitespace();
            let (Some(name), value) = (words.next(), words.next()) else {
                return Ok(());
            };
            // RHEL 8 hides a counter by printing its number without a name.
            if value.is_none() && name.bytes().all(|b| b.is_ascii_digit()) {
                return Ok(());
            }
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !is_name || name.as_bytes()[0].is_ascii_digit() {
                return Err(FieldProblem::new(
                    "name",
                    format!("`{}` is not a counter's name", name),
                ));
            }
            let value = number(name, value.ok_or_else(|| FieldProblem::new(name, "no value"))?)?;
            if words.next().is_some() {
                return Err(FieldProblem::new(name, "more than one value"));
            }
            if !seen.insert(name.to_owned()) {
                return Err(FieldProblem::new(name, "given twice"));
            }
            counters.push((name.to_owned(), value));
            Ok(())
        })?;
        if counters.is_empty() {
            return Err(at(file, nr_lines, FieldProblem::new("name", "no counter in the file")));
        }
        Ok(Self { counters })
    }

    /// Value of a counter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(n, _)| n == name).map(|&(_, value)| value)
    }
}
