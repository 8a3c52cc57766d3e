//! How often something behind a lock changed, to be read without the lock.
//!
//! Reclaim's walks come back for page after page. While nothing changed, what they found under the
//! lock the last time still holds, and taking the lock again would say nothing new.

use alloc::sync::Arc;

use super::atomic::{AtomicU64, Ordering};

/// The count. The value behind the lock has it, and the lock's owner has a copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<AtomicU64>);

impl Changes {
    /// Counts a change; with the lock held.
    #[inline]
    pub(crate) fn count(&self) {
        // Only the holder of the lock writes. Release and Acquire order the count alone: what a
        // reader goes on with, it has read under the lock.
        self.0.store(self.get() + 1, Ordering::Release);
    }

    /// Changes so far. A reader without the lock may miss the latest change, like one that took the
    /// lock just before it.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_sees_what_is_counted() {
        let changes = Changes::default();
        let copy = changes.clone();
        changes.count();
        changes.count();
        assert_eq!((changes.get(), copy.get(), Changes::default().get()), (2, 2, 0));
    }
}
