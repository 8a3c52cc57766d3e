//! Counts of events by tracepoint.

use super::{Event, Kind};

/// How often each tracepoint was passed.
///
/// ```
/// use highwater_core::page::{Order, Pfn};
/// use highwater_core::trace::{Counts, Event, Kind};
///
/// let mut counts = Counts::default();
/// counts.count(&Event::PageFree { pfn: Pfn(1), order: Order(0) });
/// assert_eq!((counts.of(Kind::PageFree), counts.of(Kind::PageAlloc)), (1, 0));
/// assert!(counts.iter().map(|(kind, n)| (kind.tracepoint().name, n)).eq([("mm_page_free", 1)]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts([u64; Kind::COUNT]);

impl Default for Counts {
    fn default() -> Self {
        Counts([0; Kind::COUNT])
    }
}

impl Counts {
    /// Counts an event.
    #[inline]
    pub fn count(&mut self, event: &Event) {
        self.0[event.kind() as usize] += 1;
    }

    /// Events of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// Every kind that occurred, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.iter().copied().zip(self.0).filter(|&(_, count)| count > 0)
    }
}
