//! The source itself: layers, sizes of files, citations, and examples that stand alone.

mod citations;
mod embedding;
mod floors;
mod tidy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use regex::Regex;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A regular expression, compiled once: the tests' profile leaves the compiler of expressions as it is, which takes
/// milliseconds for each.
fn pattern(text: &str) -> &'static Regex {
    static COMPILED: Mutex<BTreeMap<String, &'static Regex>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = compiled.get(text) {
        return known;
    }
    let new: &'static Regex = Box::leak(Box::new(Regex::new(text).expect("a pattern")));
    compiled.insert(text.to_owned(), new);
    new
}
