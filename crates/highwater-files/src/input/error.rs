//! Errors of input files: one line with the file, the line and the field.

use std::fmt::{self, Write as _};
use std::ops::Range;

use highwater_results::import::ImportError;

use super::names::{LISTED_MAX, nearest, not_modelled, there};

/// An input that cannot be used.
///
/// Prints as `FILE:LINE: FIELD: reason`, without the parts that do not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InputError {
    /// The file or option as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: Option<usize>,
    /// The field.
    pub field: Option<String>,
    /// What is wrong.
    pub reason: String,
}

impl InputError {
    /// A problem with a file or option as a whole.
    pub fn whole(file: impl Into<String>, reason: impl Into<String>) -> InputError {
        InputError { file: file.into(), line: None, field: None, reason: reason.into() }
    }

    /// An error about a field, at a byte range of the text.
    pub fn at(
        file: &str,
        text: &str,
        span: Range<usize>,
        field: impl Into<String>,
        reason: impl Into<String>,
    ) -> InputError {
        InputError {
            file: file.to_owned(),
            line: Some(line_of(text, span.start)),
            field: Some(field.into()),
            reason: reason.into(),
        }
    }

    /// An error of the TOML parser, with the key of its line as the field.
    pub fn toml(file: &str, text: &str, error: &toml::de::Error) -> InputError {
        let at = error.span().map_or(text.len(), |span| span.start);
        let reason = said(error);
        // A key missing from the file itself has no line; a key missing from a table at its start
        // has one.
        let is_of_file = at == 0 && !text.starts_with('[');
        if let (true, Some(key)) = (is_of_file, missing(&reason)) {
            let field = Some(key.to_owned());
            return InputError { field, ..InputError::whole(file, "missing") };
        }
        let line = line_of(text, at);
        let source = text.lines().nth(line - 1).unwrap_or_default().trim();
        let key = source.split('=').next().unwrap_or_default().trim();
        let field = Some(key.to_owned()).filter(|k| !k.is_empty() && !k.starts_with('#'));
        // `memory.high` is unknown as `memory`; Linux knows the whole name.
        let whole = || not_modelled("key", key).filter(|_| key.contains('.'));
        let reason = match error.message().starts_with("unknown field") {
            true => whole().unwrap_or(reason),
            false => reason,
        };
        InputError { file: file.to_owned(), line: Some(line), field, reason }
    }
}

/// The TOML parser's message about a value or key, in the style of our other errors.
pub fn said(error: &toml::de::Error) -> String {
    let message = one_line(error.message());
    must_be(&message).unwrap_or_else(|| with_nearest(&message))
}

/// The key in a message of the parser that says the key is missing.
fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// A reader's sentence about a value of another type, without the names of Rust's types.
fn must_be(message: &str) -> Option<String> {
    let rest = message.strip_prefix("invalid value: ");
    let rest = rest.or_else(|| message.strip_prefix("invalid type: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let wanted = match expected {
        "u8" => format!("a number from 0 to {}", u8::MAX),
        "u16" => format!("a number from 0 to {}", u16::MAX),
        "u32" => format!("a number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a number, 0 or more".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        _ => return None,
    };
    let found = match found {
        "map" => "a table",
        "sequence" => "a list",
        // Remove the kind of value before it.
        other => match other.find(['`', '"']) {
            Some(at) => other[at..].trim_matches('`'),
            None => other,
        },
    };
    Some(format!("must be {wanted}; not {found}"))
}

/// A message of the parser about an unknown key or value, with the nearest known ones first. If
/// Linux has something of that name, it says what is not modelled.
fn with_nearest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(name) = quoted.next().filter(|_| message.starts_with("unknown ")) else {
        return message.to_owned();
    };
    let known: Vec<&str> = quoted.collect();
    if let Some(missing) = not_modelled("key", name) {
        return missing;
    }
    let message = message.replacen("unknown variant `", "unknown value `", 1);
    let Some((what, expected)) = message.split_once(", expected") else {
        return message;
    };
    let is_long = known.len() > LISTED_MAX;
    match nearest(name, known.iter().copied()).as_slice() {
        [] if is_long => format!("{what}; {}", there(name, &known)),
        [] => message,
        near => {
            let near = near.join(" or ");
            match is_long {
                true => format!("{what}; did you mean {near}?"),
                false => format!("{what}; did you mean {near}? (expected{expected})"),
            }
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Printable(f);
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Escapes control characters: keys and values are quoted from files, and none may control a
/// terminal.
struct Printable<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Printable<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|char| match char.is_control() {
            true => write!(self.0, "{}", char.escape_default()),
            false => self.0.write_char(char),
        })
    }
}

impl From<ImportError> for InputError {
    fn from(error: ImportError) -> InputError {
        let whole = error.to_string();
        let reason = whole.strip_prefix(error.file()).unwrap_or(&whole);
        // The importer's text has place and field in it already.
        InputError::whole(error.file(), reason.trim_start_matches([':', ' ']))
            .with_place(&error, &whole)
    }
}

impl InputError {
    fn with_place(mut self, error: &ImportError, whole: &str) -> InputError {
        let Some(line) = error.line() else { return self };
        self.line = Some(line as usize);
        let place = match error.field() {
            Some(field) => format!("{field}: "),
            None => format!(":{line}: "),
        };
        if let Some((_, reason)) = whole.split_once(&place) {
            self.field = error.field().map(str::to_owned);
            self.reason = reason.to_owned();
        }
        self
    }
}

/// Text without line breaks, for messages.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line_of(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    1 + text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::import::kmem::KmemReader;

    #[test]
    fn mistyped_keys_get_the_nearest() {
        let message = "unknown field `memry`, expected one of `memory`, `cpus`, `zones`";
        let meant = "unknown field `memry`; did you mean memory? (expected one of `memory`, `cpus`, `zones`)";
        assert_eq!(with_nearest(message), meant);
        for plain in ["unknown field `x`, expected `memory`", "missing field `memory`"] {
            assert_eq!(with_nearest(plain), plain);
        }
    }

    #[test]
    fn a_quoted_key_controls_no_terminal() {
        let text = "[\u{1b}[2Jtask]\n";
        let error = toml::from_str::<toml::Table>(text).unwrap_err();
        let error = InputError::toml("job.toml", text, &error).to_string();
        assert!(error.starts_with("job.toml:1: [\\u{1b}[2Jtask]: "), "{error}");
    }

    #[test]
    fn types_are_told_in_plain_words() {
        for (message, plain) in [
            ("invalid value: integer `-1`, expected u32", "a number from 0 to 4294967295; not -1"),
            (
                "invalid type: string \"many\", expected u16",
                "a number from 0 to 65535; not \"many\"",
            ),
            ("invalid type: floating point `1.5`, expected u64", "a number, 0 or more; not 1.5"),
            ("invalid type: integer `1`, expected a boolean", "true or false; not 1"),
            ("invalid type: map, expected a string", "text; not a table"),
        ] {
            assert_eq!(must_be(message).unwrap(), format!("must be {plain}"));
        }
        assert_eq!(must_be("invalid type: map, expected something else"), None);
    }

    #[test]
    fn a_key_that_is_missing_is_named_and_no_comment_is() {
        #[derive(Debug, serde::Deserialize)]
        struct Inner {
            _x: u8,
        }
        #[derive(Debug, serde::Deserialize)]
        struct File {
            #[serde(rename = "name")]
            _name: String,
            #[serde(rename = "list")]
            _list: Vec<Inner>,
        }
        let error = |text: &str| {
            InputError::toml("f", text, &toml::from_str::<File>(text).unwrap_err()).to_string()
        };
        assert_eq!(error("# Does it matter?\nlist = []\n"), "f: name: missing");
        let first = error("[[list]]\ny = 1\n[more]\n");
        assert!(first.starts_with("f:1: [[list]]: missing field"), "{first}");
        let of_list = error("# Does it = matter?\nname = \"n\"\n[[list]]\ny = 1\n");
        assert!(of_list.starts_with("f:3: [[list]]: missing field"), "{of_list}");
    }

    #[test]
    fn importers_errors_keep_their_place() {
        let text = b"a-1 [000] .. 1.0: mm_page_free: page=0 pfn=0x10 order=-1\n";
        let mut reader = KmemReader::from_reader("t", &text[..]).unwrap();
        let error = InputError::from(reader.next().unwrap().unwrap_err());
        assert_eq!((error.line, error.field.as_deref()), (Some(1), Some("order")));
        assert!(error.to_string().starts_with("t:1: order: "), "{error}");
        assert!(!error.reason.contains("t:1"), "{error}");
    }
}
