//! Pages that a task allocates and frees, for policies that throttle tasks by their demand.

use core::cell::Cell;

use crate::config::SleepShare;
use crate::host::{Cx, Devices, TaskLocal};
use crate::kernel::Kernel;

/// A task's allocations since the last check; not counted if the policy never checks.
#[derive(Debug, Default)]
pub struct Takings {
    /// Pages taken.
    pub(crate) taken: Cell<u64>,
    /// Pages given back.
    pub(crate) given: Cell<u64>,
    /// Pages given back since it took one.
    pub(crate) stretch: Cell<u64>,
    /// Longest such stretch.
    pub(crate) longest: Cell<u64>,
}

impl TaskLocal for Takings {}

impl<H: Devices> Kernel<H> {
    /// True if the policy uses the tasks' demand. If not, nothing is counted, because it would be
    /// for every page.
    #[inline(always)]
    pub(crate) fn counts_takings(&self) -> bool {
        self.mem.policy.reclaim.throttle.sleep_share == SleepShare::Demand
    }

    /// The task took pages for a program or a file.
    #[inline(always)]
    pub(super) fn note_taken(&self, cx: &Cx<'_, H>, pages: u64) {
        if self.counts_takings() {
            cx.local::<Takings>().take(pages);
        }
    }

    /// The task gave pages back.
    #[inline(always)]
    pub(super) fn note_given(&self, cx: &Cx<'_, H>, pages: u64) {
        if self.counts_takings() {
            cx.local::<Takings>().give(pages);
        }
    }
}

impl Takings {
    /// It took some.
    pub(crate) fn take(&self, pages: u64) {
        self.taken.set(self.taken.get() + pages);
        if self.stretch.get() != 0 {
            self.end_stretch();
        }
    }

    /// It gave some back.
    pub(crate) fn give(&self, pages: u64) {
        self.given.set(self.given.get() + pages);
        self.stretch.set(self.stretch.get() + pages);
    }

    pub(crate) fn end_stretch(&self) {
        self.longest.set(self.longest.get().max(self.stretch.take()));
    }
}
