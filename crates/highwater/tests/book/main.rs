//! What the book and the published files say is what the code says. The parts that are made from code are made here:
//!
//! ```text
//! UPDATE_BOOK=1 cargo test -p highwater --test book
//! ```
//!
//! writes them anew. Their difference then shows what a change of a declaration means for users.

mod formats;
mod linux_names;
mod markdown;
mod policies;
mod reproduced;
mod unmodelled;

use std::fs;
use std::path::Path;

/// A file of the workspace; empty if it is not there.
fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path))
        .unwrap_or_default()
}

/// Writes a file of the workspace that is not what it is made to be, or fails.
fn hold(path: &str, made: &str) {
    if read(path) == made {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_BOOK").is_some(),
        "{path} is not what the code says; to write it anew:\n  \
         UPDATE_BOOK=1 cargo test -p highwater --test book"
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
    fs::write(path, made).expect("the file can be written");
}

/// The text with a new part between the markers of a name.
fn with_part(text: &str, name: &str, part: &str) -> String {
    let marker = |word| format!("<!-- {word} {name}: made by crates/highwater/tests/book -->");
    let (begin, end) = (marker("begin"), marker("end"));
    let from = text.find(&begin).expect("the page has the marker") + begin.len();
    let to = text.find(&end).expect("the page has the marker");
    format!("{}\n\n{}\n\n{}", &text[..from], part.trim(), &text[to..])
}
