//! Texts in the kernel's own form about a run: pressure at its end, and its log.
//!
//! Texts are kept for the first seed. The document does not contain them; they are stored beside
//! it, one file of each kind for all runs.

use std::fmt::Write;

use serde::{Deserialize, Deserializer, Serialize, de};

/// File name of the texts of `/proc/pressure` at the ends of runs.
pub const PRESSURE_FILE: &str = "pressure.txt";
/// File name of the kernel logs: the OOM killer's victims, and the memory state at that time.
pub const KERNEL_LOG_FILE: &str = "kernel.log";
/// All files of this kind.
pub const TEXT_FILES: [&str; 2] = [PRESSURE_FILE, KERNEL_LOG_FILE];

/// A text of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunText {
    /// Name of the machine.
    pub machine: String,
    /// The heading of the run's column.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// The file that contains it, one of [`TEXT_FILES`].
    pub file: &'static str,
    /// The text; its last line has a line end.
    pub text: String,
}

/// The name of a file of texts; `None` if it is none of [`TEXT_FILES`].
pub fn known(name: &str) -> Option<&'static str> {
    TEXT_FILES.into_iter().find(|file| *file == name)
}

impl<'de> Deserialize<'de> for RunText {
    /// Refuses names of files that no text has.
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<RunText, D::Error> {
        #[derive(Deserialize)]
        struct Read {
            machine: String,
            label: String,
            seed: u64,
            file: String,
            text: String,
        }
        let Read { machine, label, seed, file, text } = Read::deserialize(reader)?;
        let unknown = || de::Error::custom(format!("no text has the name {file}"));
        let file = known(&file).ok_or_else(unknown)?;
        Ok(RunText { machine, label, seed, file, text })
    }
}

/// The contents of a file: each text under a line that names its run. None if there are no texts.
pub fn file_of(texts: &[RunText], file: &str) -> Option<String> {
    let mut all = String::new();
    for run in texts.iter().filter(|run| run.file == file) {
        let between = if all.is_empty() { "" } else { "\n" };
        let RunText { machine, label, seed, text, .. } = run;
        // Writing to a string does not fail.
        let _ = write!(all, "{between}== {label} on {machine}, seed {seed}\n{text}");
    }
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_texts_of_its_kind() {
        let run = |label: &str, file, text: &str| {
            let (machine, label, text) = ("m".to_owned(), label.to_owned(), text.to_owned());
            RunText { machine, label, seed: 1, file, text }
        };
        let texts = [
            run("a", PRESSURE_FILE, "x\n"),
            run("a", KERNEL_LOG_FILE, "y\n"),
            run("b", PRESSURE_FILE, "z\n"),
        ];
        let all = "== a on m, seed 1\nx\n\n== b on m, seed 1\nz\n";
        assert_eq!(file_of(&texts, PRESSURE_FILE).as_deref(), Some(all));
        assert_eq!(file_of(&texts[..1], KERNEL_LOG_FILE), None);
    }
}
