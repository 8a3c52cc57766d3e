//! JSON files with the behaviour of a real Linux (`reference/linux-6.1/`, and some of 5.10 and
//! 6.12).
//!
//! [`Reference::read`] looks at a file's `kind`, reads the matching struct of `model`, `throttling`
//! or `memcg` and then checks it (`validate`). A machine that cannot exist is an error here, with
//! its place in the file, not a wrong result later. Unlisted fields are ignored, so a capture may
//! contain more than is read.

mod locate;
mod memcg;
mod model;
mod script;
mod throttling;
mod validate;

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ImportError;
use super::error::printable;
use super::source::Source;

pub use memcg::{GroupReading, Memcg, MemcgRun, MemcgStep, OpResult, OpTime};
pub use model::{
    AbKernel, AbTrace, Counters, HotBlock, Node, NodeLevels, NodeStep, Pageset, Run, RunZone,
    Scenario, Static, Step, Zone, ZoneBlocks, ZoneName,
};
pub use script::{Line, Op, Setting, Work};
pub use throttling::{After, Bar, Throttling, ThrottlingRun, Waits};

/// Largest file read; the captures have some tens of kilobytes.
const JSON_BYTES_MAX: u64 = 64 << 20;
const KINDS: &str = "static, scenario, ab-trace, stutterp, storm, memcg";

/// One reference file.
#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    /// A freshly booted machine and the values that Linux computed for it.
    Static(Static),
    /// A small program's effect on the counters.
    Scenario(Scenario),
    /// The same work on kernels that differ in one rule, as trace events.
    AbTrace(AbTrace),
    /// A scaled stutterp.
    Stutterp(Throttling),
    /// Reclaim that finds only pages under writeback.
    Storm(Throttling),
    /// A script of operations in memory cgroups.
    Memcg(Memcg),
}

impl Reference {
    /// Reads and checks a file, plain or gzip.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        let source = Source::open(path.as_ref())?;
        let name = source.name().to_owned();
        Self::parse(&name, &source.read_to_end(JSON_BYTES_MAX)?)
    }

    /// Reads and checks a text; `file` names it in errors.
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, ImportError> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let document = Document { file: printable(file), text };
        let head: Head = document.read()?;
        if head.schema != 1 {
            return Err(document
                .error("schema", format!("{} is not 1, the one that is understood", head.schema)));
        }
        match head.kind.as_str() {
            "static" => document
                .read()
                .and_then(|r: Static| r.validate(&document).map(|()| Self::Static(r))),
            "scenario" => document
                .read()
                .and_then(|r: Scenario| r.validate(&document).map(|()| Self::Scenario(r))),
            "ab-trace" => document
                .read()
                .and_then(|r: AbTrace| r.validate(&document).map(|()| Self::AbTrace(r))),
            "stutterp" => Throttling::read(&document).map(Self::Stutterp),
            "storm" => Throttling::read(&document).map(Self::Storm),
            "memcg" => {
                document.read().and_then(|r: Memcg| r.validate(&document).map(|()| Self::Memcg(r)))
            }
            other => {
                let other = super::error::shown(other.as_bytes());
                Err(document.error("kind", format!("{other} is not one of {KINDS}")))
            }
        }
    }

    /// The `kind` in the file.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Static(_) => "static",
            Self::Scenario(_) => "scenario",
            Self::AbTrace(_) => "ab-trace",
            Self::Stutterp(_) => "stutterp",
            Self::Storm(_) => "storm",
            Self::Memcg(_) => "memcg",
        }
    }
}

/// Fields at the start of every file.
#[derive(Deserialize)]
struct Head {
    schema: u64,
    kind: String,
}

/// A text with its name: reads it as a type, and finds the line of a value for an error.
struct Document<'t> {
    file: String,
    text: &'t [u8],
}

impl Document<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, ImportError> {
        let mut json = serde_json::Deserializer::from_slice(self.text);
        let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let field = error.path().to_string();
            self.json_error(field, error.inner())
        })?;
        json.end().map_err(|error| self.json_error(".".to_owned(), &error))?;
        Ok(value)
    }

    fn json_error(&self, field: String, error: &serde_json::Error) -> ImportError {
        let whole = error.to_string();
        // serde_json appends the place, which has separate fields here.
        let problem = whole.rfind(" at line ").map_or(whole.as_str(), |at| &whole[..at]);
        ImportError::Json {
            file: self.file.clone(),
            line: error.line(),
            column: error.column(),
            field: if field == "." { "document".to_owned() } else { printable(&field) },
            problem: printable(problem),
        }
    }

    /// An error about the value at `path` (`zones[0].present`).
    fn error(&self, path: impl Into<String>, problem: impl Into<String>) -> ImportError {
        let field = path.into();
        let line = locate::line_of(self.text, &field);
        ImportError::Field {
            file: self.file.clone(),
            line,
            field: printable(&field),
            problem: printable(&problem.into()),
        }
    }
}
