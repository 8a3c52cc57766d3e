//! The directory of the files: what is in it, and how a reader always finds whole files.
//!
//! With [`Keep::Each`] all files of a time are written to a hidden directory, which then gets the
//! time's name. `DIR/proc` and `DIR/sys` are links to the latest, so a reader of one of them finds
//! files of one time. With [`Keep::Latest`] they are directories whose files are replaced one by
//! one, each by a rename.
//!
//! A file [`MARK`] says that the directory is ours. A later command removes the files of an earlier
//! one there, and refuses other directories that are not empty.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use highwater_results::words::refusal;

use super::{Keep, Texts};

/// The mark of our directories. Each line of it names a directory of a unit.
const MARK: &str = ".highwater-cgroupfs";
/// Directories that tools look for.
const LINKS: [&str; 2] = ["proc", "sys"];
const NS_PER_S: u64 = 1_000_000_000;

/// The place of a unit's files.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    keep: Keep,
    /// Digits behind the point in names of times: 3, 6 or 9.
    digits: u32,
    /// The latest files.
    last: Texts,
}

impl Place {
    /// A prepared directory, or with `unit` a directory of that name in it, which is made.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(dir: &Path, unit: Option<&str>, keep: Keep, every_ns: u64) -> io::Result<Place> {
        let dir = match unit {
            None => dir.to_owned(),
            Some(unit) => dir.join(unit),
        };
        fs::create_dir_all(&dir)?;
        let digits = match every_ns {
            ns if ns % 1_000_000 == 0 => 3,
            ns if ns % 1000 == 0 => 6,
            _ => 9,
        };
        Ok(Place { dir, keep, digits, last: Texts::new() })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the files of a time.
    pub(super) fn write(&mut self, at_ns: u64, texts: Texts) -> io::Result<()> {
        match self.keep {
            Keep::Each => self.write_each(at_ns, &texts),
            Keep::Latest => self.replace(texts),
        }
    }

    fn write_each(&self, at_ns: u64, texts: &Texts) -> io::Result<()> {
        let digits = self.digits as usize;
        let parts = at_ns % NS_PER_S / 10_u64.pow(9 - self.digits);
        let name = format!("{:06}.{parts:0digits$}s", at_ns / NS_PER_S);
        let (hidden, dir) = (self.dir.join(format!(".{name}.tmp")), self.dir.join(&name));
        let mut made = None;
        for (path, text) in texts {
            let path = hidden.join(path);
            // Files of a directory stand together.
            if path.parent() != made.as_deref() {
                made = path.parent().map(Path::to_owned);
                made.iter().try_for_each(fs::create_dir_all)?;
            }
            fs::write(path, text)?;
        }
        // The run may end within the part of a second of the last state: then its end is what stays.
        let old = self.dir.join(format!(".{name}.old.tmp"));
        if dir.exists() {
            fs::rename(&dir, &old)?;
        }
        fs::rename(&hidden, &dir)?;
        if old.exists() {
            fs::remove_dir_all(&old)?;
        }
        for link in LINKS {
            let (new, at) = (self.dir.join(format!(".{link}.tmp")), self.dir.join(link));
            symlink(Path::new(&name).join(link), &new)?;
            fs::rename(new, at)?;
        }
        Ok(())
    }

    /// Replaces files that changed, and removes those of ended processes and removed groups.
    fn replace(&mut self, texts: Texts) -> io::Result<()> {
        for (path, text) in &texts {
            if self.last.get(path) == Some(text) {
                continue;
            }
            let path = self.dir.join(path);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let hidden = path.with_file_name(format!(".{name}.tmp"));
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&hidden, text)?;
            fs::rename(&hidden, &path)?;
        }
        let dirs = |texts: &Texts| -> BTreeSet<PathBuf> {
            let above = |path: &String| {
                Path::new(path).ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>()
            };
            texts.keys().flat_map(above).collect()
        };
        for gone in self.last.keys().filter(|path| !texts.contains_key(*path)) {
            fs::remove_file(self.dir.join(gone))?;
        }
        // A directory comes after the one that it is in.
        let (before, now) = (dirs(&self.last), dirs(&texts));
        for gone in before.iter().rev().filter(|dir| !now.contains(*dir)) {
            fs::remove_dir(self.dir.join(gone))?;
        }
        self.last = texts;
        Ok(())
    }
}

/// As [`super::prepare`].
pub(super) fn prepare(dir: &Path) -> Result<(), String> {
    let failed = |error: io::Error| refusal(&error);
    if dir.exists() && !dir.is_dir() {
        return Err("is not a directory".to_owned());
    }
    fs::create_dir_all(dir).map_err(failed)?;
    let entries: Vec<_> =
        fs::read_dir(dir).and_then(|entries| entries.collect()).map_err(failed)?;
    let mark = dir.join(MARK);
    if !mark.exists() && !entries.is_empty() {
        let reason = "there are files in it that are not of an earlier --cgroupfs; name an empty \
                      or a new directory";
        return Err(reason.to_owned());
    }
    let units = fs::read_to_string(&mark).unwrap_or_default();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_ours(&name) || units.lines().any(|unit| unit == name) {
            remove(&entry.path()).map_err(failed)?;
        }
    }
    fs::write(mark, "").map_err(failed)
}

/// Notes the directories of units, so that a later command can remove them.
///
/// # Errors
/// If the mark cannot be written.
pub fn note_units(dir: &Path, units: &[String]) -> io::Result<()> {
    fs::write(dir.join(MARK), units.iter().map(|unit| format!("{unit}\n")).collect::<String>())
}

/// A name that [`Place`] gives: a link, a time, or something that was not finished.
fn is_ours(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
    let name = inner.map_or(name, |inner| inner.trim_end_matches(".old"));
    let is_time = name.strip_suffix('s').and_then(|time| time.split_once('.')).is_some_and(
        |(seconds, parts)| {
            let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
            seconds.len() >= 6 && is_number(seconds) && is_number(parts)
        },
    );
    is_time || LINKS.contains(&name)
}

fn remove(path: &Path) -> io::Result<()> {
    // A link is removed, not what it leads to.
    match fs::symlink_metadata(path)?.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    }
}
