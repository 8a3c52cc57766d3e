//! A directory of finished units, a file each.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use highwater_results::input;
use highwater_results::words::refusal;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Recipe, UnitRan};

/// The directory of units in a directory of results.
pub const UNITS_DIR: &str = "units";
/// What a file is, and of which version.
const SCHEMA: &str = "highwater.unit/1";
/// How the name of a file ends that is being written.
const TEMPORARY: &str = "tmp";

/// Why units cannot be kept.
#[derive(Debug, Error)]
pub enum UnitStoreError {
    /// The operating system said no.
    #[error("{}: {}", path.display(), refusal(source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process keeps its units there.
    #[error("{}: another run keeps its results there; wait for it, or name another directory", path.display())]
    Busy {
        /// The directory of results.
        path: PathBuf,
    },
    /// It has no form in JSON.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// The program that runs code of its own cannot be told from another one.
    #[error("the executable, whose code decides results: {}", refusal(.0))]
    Executable(io::Error),
}

/// How many units there were, and how many came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Units that were there already, and were asked for.
    pub found: usize,
    /// Units that were finished and written.
    pub written: usize,
}

/// A directory of finished units. One process at a time has it.
#[derive(Debug)]
pub struct UnitStore {
    dir: PathBuf,
    /// Held as long as the store is there.
    _lock: Option<File>,
    /// Held by whoever writes.
    gate: Mutex<()>,
    found: AtomicUsize,
    written: AtomicUsize,
}

/// A unit as its file has it.
#[derive(Deserialize)]
struct Entry {
    schema: String,
    recipe: String,
    ran: UnitRan,
}

/// The same to write.
#[derive(Serialize)]
struct EntryOf<'a> {
    schema: &'a str,
    recipe: &'a str,
    ran: &'a UnitRan,
}

impl UnitStore {
    /// Opens the units of a directory of results, which must exist; their own directory is made with the first one. Units
    /// that an earlier process left half written are removed.
    ///
    /// # Errors
    /// If another process has it, or it cannot be looked at.
    pub fn open(results: &Path) -> Result<UnitStore, UnitStoreError> {
        let io = |path: &Path, source| UnitStoreError::Io { path: path.to_owned(), source };
        let lock = File::open(results).map_err(|source| io(results, source))?;
        let lock = match lock.try_lock() {
            Ok(()) => Some(lock),
            Err(TryLockError::WouldBlock) => {
                return Err(UnitStoreError::Busy { path: results.to_owned() });
            }
            // A file system without locks: two commands at once are the user's care.
            Err(TryLockError::Error(_)) => None,
        };
        let dir = results.join(UNITS_DIR);
        for path in files(&dir).map_err(|source| io(&dir, source))? {
            if is_half(&path) {
                fs::remove_file(&path).map_err(|source| io(&path, source))?;
            }
        }
        Ok(UnitStore {
            dir,
            _lock: lock,
            gate: Mutex::new(()),
            found: AtomicUsize::new(0),
            written: AtomicUsize::new(0),
        })
    }

    /// Where the files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was found and written so far.
    pub fn kept(&self) -> Kept {
        let [found, written] = [&self.found, &self.written].map(|nr| nr.load(Ordering::Relaxed));
        Kept { found, written }
    }

    /// How many units are there, of whatever run.
    pub fn len(&self) -> usize {
        files(&self.dir).map_or(0, |files| files.iter().filter(|path| is_unit(path)).count())
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the unit is there; whether its file can be read shows when it is.
    pub fn has(&self, recipe: &Recipe) -> bool {
        self.path(recipe).is_file()
    }

    /// What a unit left, if it is there: its file is whole, and of exactly this recipe.
    pub fn get(&self, recipe: &Recipe) -> Option<UnitRan> {
        let text = input::read_text(self.path(recipe), input::DOCUMENT_BYTES_MAX).ok()?;
        let entry: Entry = serde_json::from_str(&text).ok()?;
        let is_it = entry.schema == SCHEMA && Recipe::from_text(entry.recipe) == *recipe;
        is_it.then(|| {
            self.found.fetch_add(1, Ordering::Relaxed);
            entry.ran
        })
    }

    /// Keeps what a unit left. Its file is there whole or not at all: a process that is killed leaves a temporary file at
    /// most. (What a computer loses with its power is found to be cut short, and runs again.)
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn put(&self, recipe: &Recipe, ran: &UnitRan) -> Result<(), UnitStoreError> {
        let path = self.path(recipe);
        let entry = EntryOf { schema: SCHEMA, recipe: recipe.text(), ran };
        let mut bytes = serde_json::to_vec(&entry)
            .map_err(|source| UnitStoreError::Json { path: path.clone(), source })?;
        bytes.push(b'\n');
        let temporary = path.with_extension(TEMPORARY);
        let _gate = self.pause();
        let written = (|| {
            fs::create_dir_all(&self.dir)?;
            File::create(&temporary)?.write_all(&bytes)?;
            fs::rename(&temporary, &path)
        })();
        if let Err(source) = written {
            // It is of no use; that it cannot be removed either would not be news.
            let _ = fs::remove_file(&temporary);
            return Err(UnitStoreError::Io { path, source });
        }
        self.written.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for whoever writes; nobody writes as long as what is returned lives. For a process that is about to end.
    pub fn pause(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all units.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn clear(&self) -> Result<(), UnitStoreError> {
        let io = |path: &Path, source| UnitStoreError::Io { path: path.to_owned(), source };
        for path in files(&self.dir).map_err(|source| io(&self.dir, source))? {
            if is_unit(&path) {
                fs::remove_file(&path).map_err(|source| io(&path, source))?;
            }
        }
        Ok(())
    }

    fn path(&self, recipe: &Recipe) -> PathBuf {
        self.dir.join(format!("{}.json", recipe.id()))
    }
}

fn is_unit(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json")
}

/// A unit that is half written: its id, and what [`UnitStore::put`] puts behind it.
fn is_half(path: &Path) -> bool {
    let is_temporary = path.extension().is_some_and(|end| end == TEMPORARY);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    is_temporary && stem.len() == 64 && stem.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The files of a directory; none if there is no such directory.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            let all = paths.collect::<io::Result<Vec<_>>>()?;
            Ok(all.into_iter().filter(|path| path.is_file()).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Outcome;

    fn recipe(of: &str) -> Recipe {
        Recipe::from_text(format!("{of}\n"))
    }

    fn ran(value: f64) -> UnitRan {
        let samples = vec![("x".to_owned(), value)];
        UnitRan { outcome: Outcome { samples, ..Outcome::default() }, over_time: None }
    }

    fn value(ran: Option<UnitRan>) -> Option<f64> {
        ran.map(|ran| ran.outcome.samples[0].1)
    }

    #[test]
    fn what_is_kept_comes_back_to_the_last_bit() {
        let dir = tempfile::tempdir().unwrap();
        let store = UnitStore::open(dir.path()).unwrap();
        assert!(store.is_empty() && store.get(&recipe("a")).is_none());
        let odd = f64::from_bits(0x3ff5_5555_5555_5557);
        store.put(&recipe("a"), &ran(odd)).unwrap();
        store.put(&recipe("b"), &ran(2.0)).unwrap();
        assert_eq!(value(store.get(&recipe("a"))), Some(odd));
        assert_eq!((store.len(), store.kept()), (2, Kept { found: 1, written: 2 }));
        store.clear().unwrap();
        assert!(store.is_empty() && !store.has(&recipe("a")));
    }

    #[test]
    fn a_file_that_is_cut_short_or_of_another_unit_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let store = UnitStore::open(dir.path()).unwrap();
        store.put(&recipe("a"), &ran(1.0)).unwrap();
        let path = store.path(&recipe("a"));
        fs::copy(&path, store.path(&recipe("b"))).unwrap();
        assert!(store.has(&recipe("b")) && store.get(&recipe("b")).is_none());
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert!(store.get(&recipe("a")).is_none());
        store.put(&recipe("a"), &ran(3.0)).unwrap();
        assert_eq!(value(store.get(&recipe("a"))), Some(3.0));
    }

    #[test]
    fn one_process_at_a_time_has_a_store_and_half_written_units_go() {
        let dir = tempfile::tempdir().unwrap();
        let units = dir.path().join(UNITS_DIR);
        fs::create_dir(&units).unwrap();
        let half = units.join(format!("{}.tmp", recipe("a").id()));
        let others = [
            units.join("x.4711.tmp"),
            dir.path().join("x.4711.tmp"),
            dir.path().join(format!("{}.tmp", recipe("a").id())),
            dir.path().join("below/report.txt.4711.tmp"),
        ];
        fs::create_dir(dir.path().join("below")).unwrap();
        others.iter().chain([&half]).for_each(|path| fs::write(path, "x").unwrap());
        let store = UnitStore::open(dir.path()).unwrap();
        assert!(!half.exists() && others.iter().all(|path| path.exists()));
        assert!(matches!(UnitStore::open(dir.path()), Err(UnitStoreError::Busy { .. })));
        drop(store);
        assert!(UnitStore::open(dir.path()).is_ok());
    }
}
