//! README and book do not promise what the program does not do: every command on their pages runs here, what
//! they quote is what it prints, and their figures are what it computes.
//!
//! | room | what it holds pages to |
//! |---|---|
//! | [`commands`] | commands run, as written or in a short form; those that cannot are listed with the reason |
//! | [`quoted`] | quoted output is what the command before it, or the one named in a comment, prints |
//! | [`claims`] | the claims of the studies on record are what the studies compute |
//! | [`computed`] | figures are what the program computes; the others are listed with what they are |
//!
//! [`formula`] and [`values`] are what figures are made of. [`pages`] reads the pages, [`runs`] runs the program: each command once, at most two at a time. The program is
//! the test's own; `HIGHWATER` names another, such as a released one.

mod claims;
mod commands;
mod computed;
mod formula;
mod pages;
mod quoted;
mod runs;
mod values;

use std::path::{Path, PathBuf};

/// The root of the workspace: pages name files from there.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
