//! Where the kernel's files are: under `/`, or under a recorded directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use highwater_results::input;
use highwater_results::words::refusal;

use highwater_files::input::{InputError, one_line, recognised};

/// Larger than any text of a kernel that is read here.
const BYTES_MAX: u64 = 64 << 20;

/// A tree with `proc` and `sys` in it.
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
    form: Form,
    /// A recording: its contents do not change.
    is_recorded: bool,
    /// The text of `proc/zoneinfo`, if it came through a pipe.
    zoneinfo: Option<String>,
}

/// The form of a recorded tree's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A directory with `proc` and `sys`.
    Tree,
    /// The contents of `proc`, without the directory itself.
    Proc,
    /// `zoneinfo` alone, or `X.zoneinfo` with `X.buddyinfo` and `X.pagetypeinfo` beside it.
    Zoneinfo,
}

impl Source {
    /// The running kernel.
    ///
    /// # Errors
    /// If that is no Linux.
    pub fn running() -> Result<Source, InputError> {
        match cfg!(target_os = "linux") {
            true => Ok(Source {
                root: PathBuf::from("/"),
                form: Form::Tree,
                is_recorded: false,
                zoneinfo: None,
            }),
            false => {
                let reason = "this computer does not run Linux; --root reads what was recorded on one that does";
                Err(InputError::whole("capture", reason))
            }
        }
    }

    /// A recorded tree; the contents of `proc` may lie in it directly.
    pub fn recorded(root: impl Into<PathBuf>) -> Source {
        let root = root.into();
        let has = |file: &str| {
            [file.to_owned(), format!("{file}.gz")].iter().any(|file| root.join(file).exists())
        };
        let form = if !has("proc/zoneinfo") && has("zoneinfo") { Form::Proc } else { Form::Tree };
        Source { root, form, is_recorded: true, zoneinfo: None }
    }

    /// A copy of `/proc/zoneinfo`, with copies of other files beside it under the same stem.
    pub fn zoneinfo(file: impl Into<PathBuf>) -> Source {
        Source { root: file.into(), form: Form::Zoneinfo, is_recorded: true, zoneinfo: None }
    }

    /// The text of one that cannot be read again.
    pub fn zoneinfo_text(file: impl Into<PathBuf>, text: String) -> Source {
        Source { zoneinfo: Some(text), ..Source::zoneinfo(file) }
    }

    /// Whether this is a recording, whose contents do not change.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// The file of a path from the tree's root, as messages name it.
    pub fn name(&self, path: &str) -> String {
        self.path(path).display().to_string()
    }

    fn path(&self, path: &str) -> PathBuf {
        match (self.form, path.strip_prefix("proc/")) {
            (Form::Proc, Some(of_proc)) => self.root.join(of_proc),
            (Form::Zoneinfo, Some("zoneinfo")) => self.root.clone(),
            (Form::Zoneinfo, Some(of_proc @ ("buddyinfo" | "pagetypeinfo"))) => {
                let is_packed = self.root.extension().is_some_and(|e| e == "gz");
                let plain =
                    if is_packed { self.root.with_extension("") } else { self.root.clone() };
                match plain.extension() {
                    Some(_) => plain.with_extension(of_proc),
                    None => plain.with_file_name(of_proc),
                }
            }
            _ => self.root.join(path),
        }
    }

    /// The text of a file, or of one with `.gz` behind its name where there is no other.
    ///
    /// # Errors
    /// As [`input::read_text`].
    pub fn text(&self, path: &str) -> io::Result<String> {
        let text = self.as_is(path)?;
        Ok(match self.is_recorded && text.starts_with('>') {
            true => text
                .lines()
                .map(|line| line.trim_start_matches(['>', ' ']).to_owned() + "\n")
                .collect(),
            false => text,
        })
    }

    /// The same, including the indentation or quoting that a mail put before its lines.
    fn as_is(&self, path: &str) -> io::Result<String> {
        if let (Some(text), "proc/zoneinfo") = (&self.zoneinfo, path) {
            return Ok(text.clone());
        }
        let path = self.path(path);
        input::read_text(&path, BYTES_MAX).or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound || !self.is_recorded {
                return Err(error);
            }
            let mut packed = path.into_os_string();
            packed.push(".gz");
            input::read_text(packed, BYTES_MAX).map_err(|_| error)
        })
    }

    /// The text of a required file, unchanged except that foreign lines are reported.
    ///
    /// # Errors
    /// If the file is missing or unreadable; the error names it.
    pub fn needed(&self, path: &str) -> Result<String, InputError> {
        let unreadable = |error: io::Error| match recognised(&self.root) {
            // A file instead of a directory.
            Some(text) if self.form == Form::Tree => {
                InputError::whole(self.root.display().to_string(), text.advice())
            }
            _ => InputError::whole(self.name(path), format!("cannot be read: {}", refusal(&error))),
        };
        self.as_is(path).map_err(unreadable)
    }

    /// The text of a file that may be missing, without the blanks around it.
    pub fn word(&self, path: &str) -> Option<String> {
        self.text(path).ok().map(|text| text.trim().to_owned())
    }

    /// The number in a file that may be missing.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.word(path)?.parse().ok()
    }

    /// The text of an optional file; if it is missing, a note says what is unknown because of that.
    pub fn text_or_note(&self, path: &str, lost: &str, notes: &mut Vec<String>) -> Option<String> {
        match self.text(path) {
            Ok(text) => Some(text),
            // A single copy of zoneinfo has no other files, so there is nothing to note.
            Err(_) if self.form == Form::Zoneinfo => None,
            Err(error) => {
                let reason = one_line(&error.to_string()).to_owned();
                notes.push(format!("{}: {reason}: {lost}", self.name(path)));
                None
            }
        }
    }

    /// The names in a directory, sorted; none if it is unreadable.
    pub fn names(&self, path: &str) -> Vec<String> {
        self.entries(path, |_| true)
    }

    /// The names of the directories in a directory, sorted; none if it is unreadable. Links are left
    /// out.
    pub fn dirs(&self, path: &str) -> Vec<String> {
        self.entries(path, |entry| entry.file_type().is_ok_and(|it| it.is_dir()))
    }

    fn entries(&self, path: &str, keep: impl Fn(&fs::DirEntry) -> bool) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.ok().filter(|entry| keep(entry))?.file_name().into_string().ok()
        };
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        names
    }

    /// The target of a symbolic link, as written.
    pub fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok().map(|target| target.display().to_string())
    }

    /// The numeric names in a directory, ascending; `None` if it is missing or unreadable.
    pub fn numbered_or_none(&self, path: &str) -> Option<Vec<u32>> {
        fs::read_dir(self.path(path)).ok()?;
        Some(self.numbered(path, ""))
    }

    /// Whether a descriptor's target is a regular file, and its size. For a recorded tree both are
    /// unknown: its paths belong to another computer.
    pub fn file_behind(&self, path: &str) -> (Option<bool>, Option<u64>) {
        match fs::metadata(self.path(path)) {
            Ok(metadata) if !self.is_recorded => {
                (Some(metadata.is_file()), metadata.is_file().then_some(metadata.len()))
            }
            _ => (None, None),
        }
    }

    /// Writes a word to a file of the running kernel.
    ///
    /// # Errors
    /// As [`fs::write`].
    pub fn tell(&self, path: &str, word: &str) -> io::Result<()> {
        fs::write(self.path(path), word)
    }

    /// The numbers behind a prefix among the names in a directory (`cpu12`, or a process's `12`), in order.
    pub fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = self.names(path).iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Something is there.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Where the tree begins.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
