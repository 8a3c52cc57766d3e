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
    let head = String::from_utf8_lossy(&head);
    // JSON may quote a kernel's log; no text of a kernel is JSON.
    KernelText::of(&head).filter(|_| !head.trim_start().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_quotes_a_log_is_json() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            recognised(&path)
        };
        let log = "dd: page allocation failure: order:4, mode:0xdc0(GFP_KERNEL)\n";
        assert_eq!(of("log", log), Some(KernelText::Log));
        assert_eq!(of("x.json", &format!("\n{{\"notes\": [\n\"{}\"]}}", log.trim_end())), None);
    }
}
