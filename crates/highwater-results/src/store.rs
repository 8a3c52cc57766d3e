//! A directory of results: documents and texts, each written whole or not at all.
//!
//! Key types: [`Store`], [`StoreError`]. A file is written under a temporary name in the same
//! directory, flushed to disk and renamed over the old one, so a reader or a crash never sees half
//! a file.
//!
//! Neighbours: `highwater compare --out DIR` writes, `highwater report DIR` and `explain DIR` read.
//! Several processes may write to one directory: the last rename wins.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::words::refusal;
use crate::{Document, DocumentError, contents, input};

/// File name of the document in a result directory.
pub const DOCUMENT_FILE: &str = "results.json";

/// A directory of results.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// Reasons why results could not be written or read; each names the file, and the place in it.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("{}: {}", path.display(), refusal(source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not the JSON of a document; the reason ends with line and column.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// The document is well-formed but not usable.
    #[error("{}: {source}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: DocumentError,
    },
    /// The name would leave the directory.
    #[error("\"{name}\" is not a plain file name")]
    Name {
        /// The name.
        name: String,
    },
}

impl Store {
    /// Opens a result directory, creating it if needed.
    pub fn create(dir: impl Into<PathBuf>) -> Result<Store, StoreError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|source| io_error(&dir, source))?;
        Ok(Store { dir })
    }

    /// Opens a result directory that must exist.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Store, StoreError> {
        let dir = dir.into();
        fs::read_dir(&dir).map_err(|source| io_error(&dir, source))?;
        Ok(Store { dir })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the document and returns its path.
    pub fn write_document(&self, document: &Document) -> Result<PathBuf, StoreError> {
        let path = self.dir.join(DOCUMENT_FILE);
        document
            .validate()
            .map_err(|source| StoreError::Document { path: path.clone(), source })?;
        let mut text = serde_json::to_string_pretty(document)
            .map_err(|source| StoreError::Json { path: path.clone(), source })?;
        text.push('\n');
        self.write_text(DOCUMENT_FILE, &text)
    }

    /// Writes one file and returns its path.
    pub fn write_text(&self, name: &str, text: &str) -> Result<PathBuf, StoreError> {
        if Path::new(name).file_name().is_none_or(|file| file != name) {
            return Err(StoreError::Name { name: name.to_owned() });
        }
        let path = self.dir.join(name);
        write_atomically(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Removes one file if it exists.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        contents::remove(&self.dir.join(name))
    }

    /// Reads the directory's document.
    pub fn read_document(&self) -> Result<Document, StoreError> {
        read_document(&self.dir)
    }
}

/// Reads and checks a document, from its file or from the directory that holds it.
pub fn read_document(path: impl AsRef<Path>) -> Result<Document, StoreError> {
    let mut path = path.as_ref().to_path_buf();
    if path.is_dir() {
        path.push(DOCUMENT_FILE);
    }
    let text = input::read_text(&path, input::DOCUMENT_BYTES_MAX)
        .map_err(|source| io_error(&path, source))?;
    parse_document(&path, &text)
}

/// Parses and checks a document from a text that was read from `path`.
///
/// # Errors
/// If the text is not a document, or the document is not valid.
pub fn parse_document(path: impl Into<PathBuf>, text: &str) -> Result<Document, StoreError> {
    let path = path.into();
    let document: Document = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(source) => return Err(StoreError::Json { path, source }),
    };
    match document.validate() {
        Ok(()) => Ok(document),
        Err(source) => Err(StoreError::Document { path, source }),
    }
}

/// Writes a file completely or not at all: temporary file beside it, flush, rename. A device or pipe
/// (`/dev/null`) is written to: a rename would put a file in its place.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let opened = File::options().write(true).open(path);
        let written = opened.and_then(|mut special| special.write_all(bytes));
        return written.map_err(|source| io_error(path, source));
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    written.map_err(|source| {
        // The temporary file is useless. If removing it fails too, the first error is the one to
        // report.
        let _ = fs::remove_file(&temporary);
        io_error(path, source)
    })
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;

    fn document() -> Document {
        let mut document = Document::new("0.1.0", "x", "sim", 7);
        let mut run = Run::new("m", "p", "6.1-p");
        run.push("64", 0, 7, 1.5);
        document.runs.push(run);
        document
    }

    #[test]
    fn a_pipe_is_written_to_and_stays_a_pipe() {
        use std::os::unix::fs::FileTypeExt;
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write_atomically(&pipe, b"text").unwrap();
        assert_eq!(reader.join().unwrap(), b"text");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }

    #[test]
    fn what_is_written_is_read_back_and_no_temporary_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path().join("a/b")).unwrap();
        store.write_document(&document()).unwrap();
        store.write_document(&document()).unwrap();
        assert_eq!(store.read_document().unwrap(), document());
        assert_eq!(fs::read_dir(store.dir()).unwrap().count(), 1);
    }

    #[test]
    fn errors_name_file_and_place() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        assert!(matches!(store.read_document(), Err(StoreError::Io { .. })));
        store.write_text(DOCUMENT_FILE, "{\n \"schema\": 3}").unwrap();
        let message = store.read_document().unwrap_err().to_string();
        assert!(message.contains(DOCUMENT_FILE) && message.contains("line 2"), "{message}");
        let mut other = document();
        other.schema = "else".into();
        assert!(matches!(store.write_document(&other), Err(StoreError::Document { .. })));
        assert!(matches!(store.write_text("../x", ""), Err(StoreError::Name { .. })));
        assert!(matches!(Store::open(dir.path().join("none")), Err(StoreError::Io { .. })));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(write_atomically(&path, b"text").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
