//! From a host's ledger to the rows of an explanation.

use highwater_results::explain::{ExplainedRun, LockRow};
use highwater_sim::ledger::Ledger;

/// Rows of what was booked: the `worst` slowest operations, all operations in bands, all tasks. Machine,
/// policy, label and seed are left for the caller to fill in.
pub(crate) fn explained(ledger: &Ledger, locks: Vec<LockRow>, worst: usize) -> ExplainedRun {
    let _ = (ledger, locks, worst);
    todo!()
}
