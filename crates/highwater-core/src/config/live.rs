//! A setting of a running kernel: read by every task, written by one.
//!
//! [`Live`] holds one value of [`Tunables`](super::Tunables), `LiveTunables` all of them. Reads and
//! writes are relaxed: a write reaches every task sooner or later, and no task sees half of a value
//! (of a list, half of the list). Rules that need more are in
//! [`PageAllocator::write_sysctls`](crate::page_alloc::PageAllocator::write_sysctls).

use core::array;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

/// A type that a setting may have, and the atomic that holds it.
pub trait Value: Sized {
    /// Holds a value.
    type Cell: Send + Sync;

    /// A cell with this value.
    fn cell(&self) -> Self::Cell;

    /// Reads a cell.
    fn load(cell: &Self::Cell) -> Self;

    /// Writes a cell.
    fn store(&self, cell: &Self::Cell);
}

/// A setting that can be read and written at any time.
pub struct Live<T: Value>(T::Cell);

impl<T: Value> Live<T> {
    pub(super) fn new(value: &T) -> Live<T> {
        Live(value.cell())
    }

    /// The value in force.
    #[inline]
    pub fn get(&self) -> T {
        T::load(&self.0)
    }

    pub(crate) fn set(&self, value: &T) {
        value.store(&self.0);
    }
}

impl<T: Value + fmt::Debug> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Types with an atomic of their own.
macro_rules! plain {
    ($($type:ty: $atomic:ty,)*) => {$(
        impl Value for $type {
            type Cell = $atomic;

            fn cell(&self) -> $atomic {
                <$atomic>::new(*self)
            }

            #[inline]
            fn load(cell: &$atomic) -> $type {
                cell.load(Relaxed)
            }

            fn store(&self, cell: &$atomic) {
                cell.store(*self, Relaxed);
            }
        }
    )*};
}

plain! {
    u64: AtomicU64,
    u8: AtomicU8,
    bool: AtomicBool,
}

/// No setting has this number, so it stands for none.
const NONE: u64 = u64::MAX;

impl Value for Option<u64> {
    type Cell = AtomicU64;

    fn cell(&self) -> AtomicU64 {
        AtomicU64::new(self.unwrap_or(NONE))
    }

    #[inline]
    fn load(cell: &AtomicU64) -> Option<u64> {
        Some(cell.load(Relaxed)).filter(|value| *value != NONE)
    }

    fn store(&self, cell: &AtomicU64) {
        cell.store(self.unwrap_or(NONE), Relaxed);
    }
}

impl<const N: usize> Value for [u64; N] {
    type Cell = [AtomicU64; N];

    fn cell(&self) -> [AtomicU64; N] {
        self.map(AtomicU64::new)
    }

    fn load(cells: &[AtomicU64; N]) -> [u64; N] {
        array::from_fn(|at| cells[at].load(Relaxed))
    }

    fn store(&self, cells: &[AtomicU64; N]) {
        self.iter().zip(cells).for_each(|(value, cell)| cell.store(*value, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LiveTunables, Thp, ThpDefrag, Tunables};

    #[test]
    fn a_setting_keeps_what_was_written() {
        fn kept<T: Value + PartialEq + fmt::Debug>(first: T, second: T) {
            let live = Live::new(&first);
            assert_eq!(live.get(), first);
            live.set(&second);
            assert_eq!(live.get(), second);
        }
        kept(60_u64, 0);
        kept(7_u8, 0);
        kept(false, true);
        kept(Some(0_u64), None);
        kept([256_u64, 256, 32, 0], [1, 2, 3, 4]);
        kept(Thp::Never, Thp::Always);
        kept(ThpDefrag::Kernel, ThpDefrag::DeferMadvise);
    }

    #[test]
    fn all_settings_are_there_and_come_back() {
        let set = Tunables {
            thp_defrag: ThpDefrag::Defer,
            min_free_kbytes: Some(4096),
            lowmem_reserve_ratio: [9, 8, 7, 6],
            swappiness: 1,
            cpusets: true,
            ..Tunables::default()
        };
        let live = LiveTunables::new(&Tunables::default());
        assert_eq!(live.now(), Tunables::default());
        live.set(&set);
        assert_eq!(live.now(), set);
    }
}
