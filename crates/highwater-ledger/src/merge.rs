//! Copies shards from one directory to another.

use std::path::PathBuf;

use highwater_plan::experiment::unit::{UnitId, UnitStoreError};
use thiserror::Error;

use crate::ledger::{Ledger, Look};
use crate::shard::{self, ShardError};

/// Why two directories cannot be merged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The system refused.
    #[error(transparent)]
    Place(#[from] UnitStoreError),
    /// One unit has two results.
    #[error("{} and {} differ: one of them is not what the unit computes", one.display(), other.display())]
    Different {
        /// The file that is copied.
        one: PathBuf,
        /// The file that was there.
        other: PathBuf,
    },
}

/// The result of a merge.
#[derive(Debug, Default)]
pub struct Merged {
    /// Units that were copied.
    pub copied: usize,
    /// Units that were there already, with the same bytes.
    pub there: usize,
    /// Files that were left out because they are no whole shards, and why.
    pub bad: Vec<(PathBuf, ShardError)>,
}

/// Copies the shards of a directory that another one lacks, in the order of their ids.
///
/// # Errors
/// [`MergeError::Different`] if both have a unit with different bytes; shards that come before it
/// are copied. Or if a file cannot be read or written.
pub fn merge(from: &Ledger, into: &Ledger) -> Result<Merged, MergeError> {
    let mut merged = Merged::default();
    for id in from.ids()? {
        copy(from, into, id, &mut merged)?;
    }
    Ok(merged)
}

fn copy(from: &Ledger, into: &Ledger, id: UnitId, merged: &mut Merged) -> Result<(), MergeError> {
    let Some(bytes) = from.bytes(id)? else { return Ok(()) };
    let wrong = match shard::check(&bytes) {
        Ok(found) if found == id => None,
        Ok(found) => Some(ShardError::Other(found)),
        Err(error) => Some(error),
    };
    if let Some(error) = wrong {
        merged.bad.push((from.path(id), error));
        return Ok(());
    }
    // A damaged file in the target is replaced.
    let is_there = matches!(into.check(id), Look::Whole(()));
    if is_there && into.bytes(id)?.as_deref() != Some(&bytes[..]) {
        return Err(MergeError::Different { one: from.path(id), other: into.path(id) });
    }
    if is_there {
        merged.there += 1;
    } else {
        into.put_bytes(&bytes)?;
        merged.copied += 1;
    }
    Ok(())
}
