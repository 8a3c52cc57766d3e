//! Who takes how much memory.

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;

/// A task's account.
#[derive(Debug, Default)]
pub struct Demand {}

/// What all tasks' accounts add up to.
#[derive(Debug, Default)]
pub struct DemandDomain {}

impl<H: Devices> Kernel<H> {
    /// How long the caller may be made to wait at most, of `longest` ticks.
    pub(super) fn prioritised_timeout(&self, _: &Cx<'_, H>, longest: u64) -> u64 {
        longest
    }
}
