//! The one error type of all importers.

use std::fmt::Write as _;
use std::io;

/// Reasons why a file could not be imported. Each prints as one line: `file:line: field: problem`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file could not be opened, or is a directory.
    #[error("{file}: cannot be read: {problem}")]
    Open {
        /// The file as the caller named it.
        file: String,
        /// The system's message.
        problem: String,
        /// The system's error class, to tell a missing file from a forbidden one.
        kind: io::ErrorKind,
    },
    /// Reading failed after the file had been opened.
    #[error("{file}:{line}: reading failed: {problem}")]
    Read {
        /// The file as the caller named it.
        file: String,
        /// Line being read, from 1.
        line: u64,
        /// The system's message.
        problem: String,
    },
    /// The file starts like gzip data but is damaged further on.
    #[error("{file}:{line}: bad gzip data: {problem}")]
    Gzip {
        /// The file as the caller named it.
        file: String,
        /// Line of the unpacked text being read, from 1.
        line: u64,
        /// The unpacker's message.
        problem: String,
    },
    /// The file starts like gzip data but ends in the middle of it.
    #[error("{file}:{line}: bad gzip data: the file ends in the middle{}", whole(*.line, *.nr_events))]
    Cut {
        /// The file as the caller named it.
        file: String,
        /// Line of the unpacked text being read, from 1; the lines before it are complete.
        line: u64,
        /// Events in the complete lines, if the file is a trace.
        nr_events: u64,
    },
    /// The file is of another kind altogether (a binary recording, another compression).
    #[error("{file}: {problem}")]
    Format {
        /// The file as the caller named it.
        file: String,
        /// Its kind, and advice.
        problem: String,
    },
    /// A trace without a single page-allocator event.
    #[error("{file}: no kmem page-allocator event in {nr_lines} lines{hint}")]
    NoEvents {
        /// The file as the caller named it.
        file: String,
        /// Lines read.
        nr_lines: u64,
        /// Further advice, or empty.
        hint: &'static str,
    },
    /// A field is missing, is not a number, or has an impossible value.
    #[error("{file}:{line}: {field}: {problem}")]
    Field {
        /// The file as the caller named it.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The field's name in the file; a path such as `zones[0].present` in JSON.
        field: String,
        /// The problem.
        problem: String,
    },
    /// JSON that does not have the expected shape.
    #[error("{file}:{line}:{column}: {field}: {problem}")]
    Json {
        /// The file as the caller named it.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1 (0 when the document ends too early).
        column: usize,
        /// Path of the value, such as `zones[0].present`; `document` at the top.
        field: String,
        /// The problem.
        problem: String,
    },
}

impl ImportError {
    /// The file, as the caller named it.
    #[must_use]
    pub fn file(&self) -> &str {
        match self {
            Self::Open { file, .. }
            | Self::Read { file, .. }
            | Self::Gzip { file, .. }
            | Self::Cut { file, .. }
            | Self::Format { file, .. }
            | Self::NoEvents { file, .. }
            | Self::Field { file, .. }
            | Self::Json { file, .. } => file,
        }
    }

    /// The line, from 1, if the problem has a place in the text.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Read { line, .. }
            | Self::Gzip { line, .. }
            | Self::Cut { line, .. }
            | Self::Field { line, .. } => Some(*line),
            Self::Json { line, .. } => Some(*line as u64),
            Self::Open { .. } | Self::Format { .. } | Self::NoEvents { .. } => None,
        }
    }

    /// The field, if the problem concerns a single value.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Field { field, .. } | Self::Json { field, .. } => Some(field),
            _ => None,
        }
    }

    pub(crate) fn in_field(file: &str, line: u64, problem: FieldProblem) -> Self {
        let (field, problem) = (printable(&problem.field), printable(&problem.problem));
        Self::Field { file: file.to_owned(), line, field, problem }
    }
}

/// The usable part of a trace that was cut at a line.
fn whole(line: u64, nr_events: u64) -> String {
    match nr_events {
        0 => String::new(),
        n => format!("; the {} lines before it are whole, with {n} events", line - 1),
    }
}

/// Problem text of a missing field.
const MISSING: &str = "missing";

/// A problem whose file and line the caller adds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldProblem {
    pub(crate) field: String,
    pub(crate) problem: String,
}

impl FieldProblem {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    pub(crate) fn missing(field: &str) -> Self {
        Self::new(field, MISSING)
    }
}

/// Foreign bytes made safe for a message: printable, on one line, of bounded length.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 40;
    let mut out = String::from("`");
    let _ = write!(out, "{}", bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii());
    if bytes.len() > SHOWN_MAX {
        out.push_str("...");
    }
    out.push('`');
    out
}

/// A foreign name made safe for a message: without control characters and of bounded length, so
/// that the message stays one line.
pub(crate) fn printable(name: &str) -> String {
    const NAME_CHARS_MAX: usize = 4096;
    let mut out = String::with_capacity(name.len().min(NAME_CHARS_MAX));
    for c in name.chars().take(NAME_CHARS_MAX) {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// An unsigned number, decimal or with `0x`; the error is the problem text.
#[inline]
pub(crate) fn parse_u64(text: &[u8]) -> Result<u64, String> {
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        _ => (text, 10),
    };
    if digits.is_empty() {
        return Err(if text.is_empty() {
            "empty".to_owned()
        } else {
            format!("{} is not a number", shown(text))
        });
    }
    let mut value: u64 = 0;
    for &byte in digits {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' if radix == 16 => byte - b'a' + 10,
            b'A'..=b'F' if radix == 16 => byte - b'A' + 10,
            _ => return Err(not_a_number(text)),
        };
        value = value
            .checked_mul(radix)
            .and_then(|v| v.checked_add(u64::from(digit)))
            .ok_or_else(|| format!("{} does not fit into 64 bits", shown(text)))?;
    }
    Ok(value)
}

#[cold]
fn not_a_number(text: &[u8]) -> String {
    let negative = text.len() > 1 && text[0] == b'-' && text[1..].iter().all(u8::is_ascii_digit);
    if negative {
        format!("{} is negative", shown(text))
    } else {
        format!("{} is not a number", shown(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_decimal_and_hex() {
        assert_eq!(parse_u64(b"0"), Ok(0));
        assert_eq!(parse_u64(b"0x1bB59"), Ok(0x1bb59));
        assert_eq!(parse_u64(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_u64(b""), Err("empty".into()));
        assert_eq!(parse_u64(b"-1"), Err("`-1` is negative".into()));
        for bad in [&b"0x"[..], b"1bb59", b"12 ", b"+1", b"0xg", b"-", b"1.5", b"\xff"] {
            assert!(parse_u64(bad).unwrap_err().ends_with("is not a number"), "{}", shown(bad));
        }
        assert!(parse_u64(b"18446744073709551616").unwrap_err().contains("64 bits"));
        assert!(parse_u64(b"0x1ffffffffffffffff").unwrap_err().contains("64 bits"));
    }

    #[test]
    fn messages_stay_on_one_line() {
        assert_eq!(shown(b"a\nb\xff"), "`a\\nb\\xff`");
        assert!(shown(&[b'x'; 500]).len() < 60);
        assert_eq!(printable("a\n\u{7f}b\u{e9}"), "a\\n\\u{7f}b\u{e9}");
        assert!(printable(&"x".repeat(1 << 20)).len() < 5000);
    }
}
