//! Texts of Linux that were given for something else.

use std::io::Read as _;
use std::path::Path;

use highwater_results::import::KernelText;
use highwater_results::input;

/// As much of a file as it takes to see what it is.
const HEAD_BYTES: u64 = 64 * 1024;

/// What a file is, if it is a text of Linux; none also if it cannot be read.
pub(crate) fn recognised(path: &Path) -> Option<KernelText> {
    // What is read from a pipe is gone.
    if !path.is_file() {
        return None;
    }
    let mut head = Vec::new();
    input::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    KernelText::of(&String::from_utf8_lossy(&head))
}
