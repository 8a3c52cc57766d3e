//! Pages that a task takes and gives back, for policies that ask who makes reclaim necessary.

use core::cell::Cell;

use crate::config::SleepShare;
use crate::host::{Cx, Devices, TaskLocal};
use crate::kernel::Kernel;

/// A task's takings since somebody looked; not counted where nobody ever does.
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
    /// True if the policy asks who takes how much. If not, nothing is counted: it would be at every page.
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
