//! Memory that a task took from the page allocator itself, as drivers and network stacks do, and
//! the time for which it keeps it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::Kernel;
use highwater_core::page_alloc::Wish;
use highwater_core::units::{Gfp, Order, Pfn};

/// The request of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Flags.
    pub gfp: Gfp,
    /// Each block has `2^order` pages.
    pub order: Order,
    /// Number of blocks.
    pub count: u32,
    /// Time for which they are kept; 0: they are freed at once.
    pub hold_ns: u64,
}

/// Blocks that a task and its helpers keep, by the time at which each is freed, then in order of
/// allocation.
#[derive(Debug, Default)]
pub(super) struct Held(RefCell<Blocks>);

#[derive(Debug, Default)]
struct Blocks {
    blocks: BTreeMap<(u64, u64), (Pfn, Order)>,
    nr_taken: u64,
}

impl Held {
    /// Allocates; returns the number of blocks that could not be allocated.
    pub(super) fn alloc<H: Devices>(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, ask: Ask) -> u64 {
        let mut nr_failed = 0;
        for _ in 0..ask.count {
            match kernel.mem.alloc_wished(cx, kernel, ask.gfp, ask.order, Wish::Task) {
                Some(pfn) => {
                    let mut held = self.0.borrow_mut();
                    held.nr_taken += 1;
                    let key = (cx.host.now_ns().saturating_add(ask.hold_ns), held.nr_taken);
                    held.blocks.insert(key, (pfn, ask.order));
                }
                None => nr_failed += 1,
            }
        }
        self.free_due(kernel, cx);
        nr_failed
    }

    /// Time at which the next block is freed; `None`: no block is kept.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.0.borrow().blocks.first_key_value().map(|((ns, _), _)| *ns)
    }

    /// Frees blocks whose time has come.
    pub(super) fn free_due<H: Devices>(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        while self.next_ns().is_some_and(|ns| ns <= cx.host.now_ns()) {
            self.free_first(kernel, cx);
        }
    }

    /// Frees all blocks: the task ends.
    pub(super) fn free_all<H: Devices>(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        while self.free_first(kernel, cx) {}
    }

    fn free_first<H: Devices>(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) -> bool {
        let first = self.0.borrow_mut().blocks.pop_first();
        let Some((_, (pfn, order))) = first else { return false };
        let freed = kernel.mem.free(cx, pfn, order);
        debug_assert!(freed.is_ok(), "a block that was allocated: {freed:?}");
        true
    }
}
