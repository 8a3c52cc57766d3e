//! Runs some finished units again: their shards must have the same bytes.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use highwater_plan::experiment::Progress;
use highwater_plan::experiment::unit::{Recipe, UnitId, UnitRan, UnitStoreError, Units};
use highwater_plan::plan::{Plan, PlanError};

use crate::ledger::Ledger;
use crate::shard;

/// Digits of an id that say whether it is chosen.
const CHOOSING: usize = 8;

/// The share of some units that is verified, at least one: those whose ids begin lowest. A fraction
/// of 0 chooses none.
pub fn chosen(ids: &[UnitId], fraction: f64) -> Vec<UnitId> {
    if fraction <= 0.0 || ids.is_empty() {
        return Vec::new();
    }
    // An id is a hash, so its first bytes are a fair draw, and the same on every computer.
    let drawn = |id: &UnitId| {
        let mut first = [0; CHOOSING];
        first.copy_from_slice(&id.bytes()[..CHOOSING]);
        u64::from_be_bytes(first) as f64 / u64::MAX as f64
    };
    let chosen: Vec<UnitId> = ids.iter().copied().filter(|id| drawn(id) < fraction).collect();
    match chosen.is_empty() {
        true => ids.iter().min().copied().into_iter().collect(),
        false => chosen,
    }
}

/// Runs units of a plan again and compares each with its shard. Returns those that differ, in
/// ascending order, with their files, which stay as they are.
///
/// # Errors
/// As [`Plan::run_units`].
pub fn verify(
    plan: &Plan,
    ledger: &Ledger,
    ids: &[UnitId],
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Vec<(UnitId, PathBuf)>, PlanError> {
    let again = Again { ledger, different: Mutex::default() };
    plan.run_units(ids, &again, progress, stop)?;
    let mut different = again.different.into_inner().unwrap_or_else(PoisonError::into_inner);
    different.sort();
    Ok(different.into_iter().map(|id| (id, ledger.path(id))).collect())
}

/// A place in which no unit is, and which compares what is put there.
struct Again<'l> {
    ledger: &'l Ledger,
    different: Mutex<Vec<UnitId>>,
}

impl Units for Again<'_> {
    fn has(&self, _: &Recipe) -> bool {
        false
    }

    fn get(&self, _: &Recipe) -> Option<UnitRan> {
        None
    }

    fn put(&self, recipe: &Recipe, ran: &UnitRan) -> Result<(), UnitStoreError> {
        let id = recipe.id();
        let made = shard::encode(recipe, ran).map_err(|error| UnitStoreError::Form {
            path: self.ledger.path(id),
            reason: error.to_string(),
        })?;
        if self.ledger.bytes(id)?.as_deref() != Some(&made[..]) {
            self.different.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_units_is_chosen_by_id() {
        let ids: Vec<UnitId> = (0..1000).map(|nr| UnitId::of(&nr.to_string())).collect();
        assert_eq!(chosen(&ids, 0.0), []);
        assert_eq!(chosen(&[], 1.0), []);
        assert_eq!(chosen(&ids, 1.0), ids);
        let some = chosen(&ids, 0.1).len();
        assert!((60..140).contains(&some), "{some}");
        assert_eq!(chosen(&ids[..3], 1e-9), [*ids[..3].iter().min().unwrap()]);
    }
}
