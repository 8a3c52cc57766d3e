//! Pages that a task takes and gives back, for policies that ask who makes reclaim necessary.

use core::cell::Cell;

use crate::host::TaskLocal;

/// A task's takings since somebody looked. Counted always: it is two words.
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

impl TaskLocal for Takings {
    const IS_HOT: bool = true;
}

impl Takings {
    /// The task took `pages` pages for a program or a file.
    #[inline(always)]
    pub(crate) fn take(&self, pages: u64) {
        self.taken.set(self.taken.get() + pages);
        if self.stretch.get() != 0 {
            self.end_stretch();
        }
    }

    /// The task gave some back.
    #[inline(always)]
    pub(crate) fn give(&self, pages: u64) {
        self.given.set(self.given.get() + pages);
        self.stretch.set(self.stretch.get() + pages);
    }

    pub(crate) fn end_stretch(&self) {
        self.longest.set(self.longest.get().max(self.stretch.take()));
    }
}
