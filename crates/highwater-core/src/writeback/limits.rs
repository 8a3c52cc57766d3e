//! Dirty limits (spec 04 §7.2): pure sums.

/// Global limits, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyLimits {
    /// Writers are throttled above this.
    pub thresh: u64,
    /// The flusher works above this.
    pub background: u64,
}

/// What a task dirtied since it was last held up (spec 04 §7.7).
#[derive(Debug)]
pub struct DirtiedPages {
    /// Pages.
    pub nr: core::cell::Cell<u64>,
    /// Checks happen at this many.
    pub pause: core::cell::Cell<u64>,
}

impl Default for DirtiedPages {
    fn default() -> Self {
        DirtiedPages { nr: core::cell::Cell::new(0), pause: core::cell::Cell::new(32) }
    }
}
