//! The text of a TOML file, for errors that name a place in it.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::InputError;

/// A file's name and text.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name in messages.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
}

impl Source<'_> {
    /// An error of the TOML parser.
    pub fn toml(&self, error: &toml::de::Error) -> InputError {
        InputError::toml(self.file, self.text, error)
    }

    /// A problem of a field at a byte range.
    pub fn at(
        &self,
        span: Range<usize>,
        field: impl Into<String>,
        reason: impl Into<String>,
    ) -> InputError {
        InputError::at(self.file, self.text, span, field, reason)
    }

    /// A problem of a field that is named by its keys.
    pub fn at_path(&self, path: &str, reason: impl Into<String>) -> InputError {
        match self.place_of(path) {
            Some(span) => self.at(span, path, reason),
            None => InputError {
                line: None,
                field: Some(path.to_owned()),
                ..InputError::whole(self.file, reason)
            },
        }
    }

    /// The place of the value at a dotted path, or of the longest existing prefix of the path.
    /// Elements of lists have numbers. `None` if not even the first part exists.
    pub fn place_of(&self, path: &str) -> Option<Range<usize>> {
        place_in(DeTable::parse(self.text).ok()?.get_ref(), path)
    }
}

/// The same in a parsed table.
pub fn place_in(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    let mut parts = path.split('.');
    let first = table.get(parts.next()?)?;
    let (mut span, mut value) = (first.span(), first.get_ref());
    for part in parts {
        let next = match value {
            DeValue::Table(table) => table.get(part),
            DeValue::Array(list) => part.parse().ok().and_then(|at: usize| list.get(at)),
            _ => None,
        };
        let Some(next) = next else { break };
        (span, value) = (next.span(), next.get_ref());
    }
    Some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_however_they_are_written() {
        let text =
            "a = 1\nb.c = 2\n[d]\ne = { f = 3 }\n\n[d.g]\nh = [\n  4,\n  5,\n]\n[[i]]\nj = 6\n";
        let source = Source { file: "x.toml", text };
        let line = |path: &str| source.at_path(path, "wrong").line;
        for (path, expected) in [
            ("a", 1),
            ("b.c", 2),
            ("d.e.f", 4),
            ("d.g.h", 7),
            ("d.g.h.1", 9),
            ("i.0.j", 12),
            ("d.e.none", 4),
        ] {
            assert_eq!(line(path), Some(expected), "{path}");
        }
        assert_eq!(line("none"), None);
        assert_eq!(source.at_path("none", "wrong").to_string(), "x.toml: none: wrong");
    }
}
