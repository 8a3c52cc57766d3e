//! The nodes that served requests, counted from trace events.
//!
//! The local node of a request is the node of the requesting CPU. Study 000 is about single pages
//! that come from another node after a huge page allocation failed. `after a failure` counts such
//! requests in the second after the failure, the lifetime of a [zonelist
//! cache](highwater_core::page_alloc).

use std::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};

use highwater_core::Kernel;
use highwater_core::page::Order;
use highwater_core::trace::Event;
use highwater_sim::host::{SimHost, TraceSink};
use highwater_workloads::highalloc::HUGE_ORDER;

/// Rows of the metric.
pub(super) const ROWS: [&str; 6] = [
    "huge pages local",
    "huge pages remote",
    "huge pages none",
    "single pages local",
    "single pages remote",
    "single pages remote within a second of a failure",
];
/// A second.
const MEMORY_NS: u64 = 1_000_000_000;

/// Counts so far.
#[derive(Debug, Default)]
struct Seen {
    counts: [Cell<u64>; ROWS.len()],
    /// When a huge page allocation last failed; CPUs' clocks are slightly ahead of each other.
    failed_ns: Cell<Option<u64>>,
}

impl Seen {
    fn count(&self, row: usize) {
        self.counts[row].set(self.counts[row].get() + 1);
    }

    /// A request of an order was served by the CPU's own node, by another one, or not at all.
    fn request(&self, at_ns: u64, order: Order, is_local: Option<bool>) {
        match (order, is_local) {
            (HUGE_ORDER, Some(true)) => self.count(0),
            (HUGE_ORDER, Some(false)) => self.count(1),
            (HUGE_ORDER, None) => {
                self.count(2);
                self.failed_ns.set(Some(at_ns));
            }
            (Order::ZERO, Some(true)) => self.count(3),
            (Order::ZERO, Some(false)) => {
                self.count(4);
                if self
                    .failed_ns
                    .get()
                    .is_some_and(|failed| at_ns.saturating_sub(failed) <= MEMORY_NS)
                {
                    self.count(5);
                }
            }
            _ => {}
        }
    }
}

/// Looks at a machine's allocations.
#[derive(Clone, Default)]
pub(super) struct Places {
    seen: Rc<Seen>,
    kernel: Rc<OnceCell<Weak<Kernel<SimHost>>>>,
}

impl Places {
    /// A sink for the events.
    pub(super) fn sink(&self) -> TraceSink {
        let places = self.clone();
        Box::new(move |at_ns, cpu, event| {
            let &Event::PageAlloc { pfn, order, .. } = event else { return };
            // Before the kernel exists there are no requests to count.
            let Some(kernel) = places.kernel.get().and_then(Weak::upgrade) else { return };
            let here = kernel.mem.cpu_node(cpu);
            let is_local = pfn.map(|pfn| kernel.mem.map.page(pfn).node() == here);
            places.seen.request(at_ns, order, is_local);
        })
    }

    /// The kernel whose allocations are counted.
    pub(super) fn watch(&self, kernel: &Rc<Kernel<SimHost>>) {
        // Told twice, the first stays.
        let _ = self.kernel.set(Rc::downgrade(kernel));
    }

    /// By row.
    pub(super) fn samples(&self) -> impl Iterator<Item = (String, f64)> {
        ROWS.into_iter().zip(&self.seen.counts).map(|(row, n)| (row.to_owned(), n.get() as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_pages_count_for_a_second_after_a_failure() {
        let seen = Seen::default();
        let (huge, single) = (HUGE_ORDER, Order::ZERO);
        for (at_ns, order, is_local) in [
            (0, single, Some(false)),
            (10, huge, Some(true)),
            (20, huge, None),
            (20 + MEMORY_NS, single, Some(false)),
            (21 + MEMORY_NS, single, Some(false)),
            (22 + MEMORY_NS, single, Some(true)),
            (23 + MEMORY_NS, huge, Some(false)),
            (24 + MEMORY_NS, Order(3), Some(false)),
            (25 + MEMORY_NS, single, None),
        ] {
            seen.request(at_ns, order, is_local);
        }
        assert_eq!(seen.counts.each_ref().map(Cell::get), [1, 1, 1, 1, 3, 1]);
    }
}
