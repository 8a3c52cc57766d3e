//! A directory of shards, which any number of processes on any number of computers write at the same time.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use highwater_plan::experiment::unit::{
    Kept, Recipe, UNITS_DIR, UnitId, UnitRan, UnitStoreError, Units,
};

use crate::place::{self, entries, remove_abandoned};
use crate::shard::{self, ShardError};

/// How the name of a shard ends.
pub const SHARD_END: &str = "parquet";

/// A directory of finished units, a Parquet file for each. It holds no lock.
#[derive(Debug)]
pub struct Ledger {
    dir: PathBuf,
    units: PathBuf,
    /// Read while a unit is written; a process that is about to end takes it.
    gate: RwLock<()>,
    found: AtomicUsize,
    written: AtomicUsize,
}

/// A look at a unit's file.
#[derive(Debug)]
pub enum Look<T> {
    /// There is none.
    Missing,
    /// It is whole.
    Whole(T),
    /// It cannot be used, for this reason; its unit has to run again.
    Bad(ShardError),
}

impl Ledger {
    /// Opens a directory, which is made if it is missing.
    ///
    /// # Errors
    /// If it cannot be made or read.
    pub fn create(dir: impl Into<PathBuf>) -> Result<Ledger, UnitStoreError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|source| io_error(&dir, source))?;
        Ledger::open(dir)
    }

    /// Opens a directory that must exist. Its subdirectory `units` is made with the first unit.
    /// Files that dead processes of this computer left half written are removed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Ledger, UnitStoreError> {
        let dir = dir.into();
        fs::read_dir(&dir).map_err(|source| io_error(&dir, source))?;
        let units = dir.join(UNITS_DIR);
        for path in [&dir, &units] {
            remove_abandoned(path).map_err(|source| io_error(path, source))?;
        }
        let (found, written) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Ledger { dir, units, gate: RwLock::new(()), found, written })
    }

    /// The directory: results, and `sweep.json`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of the shards.
    pub fn units_dir(&self) -> &Path {
        &self.units
    }

    /// The file of a unit.
    pub fn path(&self, id: UnitId) -> PathBuf {
        self.units.join(name(id))
    }

    /// The units that have a file, whole or not.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn ids(&self) -> Result<BTreeSet<UnitId>, UnitStoreError> {
        let paths = entries(&self.units).map_err(|source| io_error(&self.units, source))?;
        let id = |path: &PathBuf| {
            let is_shard = path.extension().is_some_and(|end| end == SHARD_END);
            path.file_stem().filter(|_| is_shard)?.to_str()?.parse().ok()
        };
        Ok(paths.iter().filter_map(id).collect())
    }

    /// Units that were asked for and were there, and units that were written, since it was opened.
    pub fn kept(&self) -> Kept {
        let [found, written] = [&self.found, &self.written].map(|nr| nr.load(Ordering::Relaxed));
        Kept { found, written }
    }

    /// The ids among these that have no whole file, each once, in ascending order.
    pub fn missing(&self, recipes: &[Recipe]) -> Vec<UnitId> {
        let ids: BTreeSet<UnitId> = recipes.iter().map(Recipe::id).collect();
        ids.into_iter().filter(|id| !matches!(self.check(*id), Look::Whole(()))).collect()
    }

    /// Whether the file of a unit is whole, without reading its result.
    pub fn check(&self, id: UnitId) -> Look<()> {
        self.look(id, |bytes| {
            let found = shard::check(bytes)?;
            if found == id { Ok(()) } else { Err(ShardError::Other(found)) }
        })
    }

    /// The result of a unit.
    pub fn read(&self, id: UnitId) -> Look<UnitRan> {
        self.look(id, |bytes| {
            let shard = shard::decode(bytes)?;
            if shard.id == id { Ok(shard.ran) } else { Err(ShardError::Other(shard.id)) }
        })
    }

    fn look<T>(&self, id: UnitId, of: impl Fn(&[u8]) -> Result<T, ShardError>) -> Look<T> {
        match self.bytes(id) {
            Ok(Some(bytes)) => of(&bytes).map_or_else(Look::Bad, Look::Whole),
            // The unit of a file that the system does not let us read runs again, too.
            Ok(None) | Err(_) => Look::Missing,
        }
    }

    /// The bytes of a unit's file; none if there is no such file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn bytes(&self, id: UnitId) -> Result<Option<Vec<u8>>, UnitStoreError> {
        let path = self.path(id);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error(&path, source)),
        }
    }

    /// Keeps the bytes of a shard that was made elsewhere, and returns its unit. The bytes are
    /// checked first.
    ///
    /// # Errors
    /// If they are no whole shard, or cannot be written.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<UnitId, UnitStoreError> {
        let id = shard::check(bytes).map_err(|error| self.form(&self.units, &error))?;
        self.write(id, bytes)?;
        Ok(id)
    }

    /// Waits for running writes and blocks further ones while the returned guard lives. For a process
    /// that is about to end.
    pub fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, id: UnitId, bytes: &[u8]) -> Result<(), UnitStoreError> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        fs::create_dir_all(&self.units).map_err(|source| io_error(&self.units, source))?;
        place::write(&self.units, &name(id), bytes)
            .map_err(|source| io_error(&self.path(id), source))?;
        self.written.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn form(&self, path: &Path, error: &ShardError) -> UnitStoreError {
        UnitStoreError::Form { path: path.to_owned(), reason: error.to_string() }
    }
}

impl Units for Ledger {
    fn has(&self, recipe: &Recipe) -> bool {
        self.path(recipe.id()).is_file()
    }

    fn get(&self, recipe: &Recipe) -> Option<UnitRan> {
        let Look::Whole(ran) = self.read(recipe.id()) else { return None };
        self.found.fetch_add(1, Ordering::Relaxed);
        Some(ran)
    }

    fn put(&self, recipe: &Recipe, ran: &UnitRan) -> Result<(), UnitStoreError> {
        let id = recipe.id();
        let bytes =
            shard::encode(recipe, ran).map_err(|error| self.form(&self.path(id), &error))?;
        self.write(id, &bytes)
    }
}

/// The name of a unit's file.
fn name(id: UnitId) -> String {
    format!("{id}.{SHARD_END}")
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> UnitStoreError {
    UnitStoreError::Io { path: path.to_owned(), source }
}
