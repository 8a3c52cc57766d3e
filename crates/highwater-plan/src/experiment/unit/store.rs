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

use super::{Recipe, UnitRan, Units};
use highwater_runs::workload::RunError;

/// The directory of units in a directory of results.
pub const UNITS_DIR: &str = "units";
/// Schema name and version of a file.
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
    /// It has no form in another format.
    #[error("{}: {reason}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The executable of an embedding program could not be read, so its code cannot be identified.
    #[error("the executable, whose code decides results: {}", refusal(.0))]
    Executable(io::Error),
}

impl From<UnitStoreError> for RunError {
    fn from(error: UnitStoreError) -> RunError {
        RunError::Store(Box::new(error))
    }
}

/// Counts of units that were found, and that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Wanted units that existed already.
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
    /// Held while a unit is written.
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
    /// Opens the units of a directory, which is made if it is missing.
    ///
    /// # Errors
    /// If it cannot be made, or another process has it.
    pub fn create(results: impl AsRef<Path>) -> Result<UnitStore, UnitStoreError> {
        let path = results.as_ref();
        fs::create_dir_all(path)
            .map_err(|source| UnitStoreError::Io { path: path.to_owned(), source })?;
        UnitStore::open(path)
    }

    /// Opens the units of a results directory, which must exist. Their subdirectory is created with
    /// the first unit. Units that an earlier process left half written are removed.
    ///
    /// # Errors
    /// If another process uses it, or it cannot be read.
    pub fn open(results: &Path) -> Result<UnitStore, UnitStoreError> {
        let io = |path: &Path, source| UnitStoreError::Io { path: path.to_owned(), source };
        let lock = File::open(results).map_err(|source| io(results, source))?;
        let lock = match lock.try_lock() {
            Ok(()) => Some(lock),
            Err(TryLockError::WouldBlock) => {
                return Err(UnitStoreError::Busy { path: results.to_owned() });
            }
            // A file system without locks: the user must not run two commands at once.
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

    /// The directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Units found and written so far.
    pub fn kept(&self) -> Kept {
        let [found, written] = [&self.found, &self.written].map(|nr| nr.load(Ordering::Relaxed));
        Kept { found, written }
    }

    /// Number of units in the directory, from any run.
    pub fn len(&self) -> usize {
        files(&self.dir).map_or(0, |files| files.iter().filter(|path| is_unit(path)).count())
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the unit exists; reading it may still fail.
    pub fn has(&self, recipe: &Recipe) -> bool {
        self.path(recipe).is_file()
    }

    /// The results of a unit, if its file is complete and has exactly this recipe.
    pub fn get(&self, recipe: &Recipe) -> Option<UnitRan> {
        let text = input::read_text(self.path(recipe), input::DOCUMENT_BYTES_MAX).ok()?;
        let entry: Entry = serde_json::from_str(&text).ok()?;
        let is_it = entry.schema == SCHEMA && entry.recipe == recipe.text();
        is_it.then(|| {
            self.found.fetch_add(1, Ordering::Relaxed);
            entry.ran
        })
    }

    /// Keeps the results of a unit. The file appears complete or not at all: a killed process
    /// leaves at most a temporary file. A file that a power failure cut short is detected, and its
    /// unit runs again.
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

    /// Waits for a running write and blocks further ones while the returned guard lives. For a
    /// process that is about to end.
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

impl Units for UnitStore {
    fn has(&self, recipe: &Recipe) -> bool {
        UnitStore::has(self, recipe)
    }

    fn get(&self, recipe: &Recipe) -> Option<UnitRan> {
        UnitStore::get(self, recipe)
    }

    fn put(&self, recipe: &Recipe, ran: &UnitRan) -> Result<(), UnitStoreError> {
        UnitStore::put(self, recipe, ran)
    }
}

fn is_unit(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json")
}

/// Whether a file is a half-written unit: its id, and the suffix that [`UnitStore::put`] adds.
fn is_half(path: &Path) -> bool {
    let is_temporary = path.extension().is_some_and(|end| end == TEMPORARY);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    is_temporary && stem.len() == 64 && stem.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The files of a directory; empty if it does not exist.
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
    use highwater_runs::workload::Outcome;

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
