//! pagealloc: the cost of an allocation and a free, alone on the machine (mmtests;
//! rules/benchmarks#pagealloc).

use highwater_core::host::{Cx, Host};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief, PageAllocator};

/// Blocks of one order, a batch at a time.
pub struct Batches<'a, H: Host> {
    /// The memory.
    pub memory: &'a PageAllocator<H>,
    /// Order of the blocks.
    pub order: Order,
    /// Blocks that are allocated before the first is freed.
    pub batch: u32,
    /// Number of rounds.
    pub rounds: u32,
}

/// Times, nanoseconds for all blocks of all rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Allocating.
    pub alloc_ns: u64,
    /// Freeing.
    pub free_ns: u64,
    /// Blocks allocated.
    pub blocks: u64,
    /// Requests that failed.
    pub failed: u64,
}

impl<H: Host> Batches<'_, H> {
    /// Allocates and frees on the CPU's own node; nothing is reclaimed. An additional first round
    /// is not timed.
    pub fn run(&self, cx: &Cx<'_, H>) -> Taken {
        let mut held = Vec::with_capacity(self.batch as usize);
        self.round(cx, &mut held);
        let mut taken = Taken::default();
        for _ in 0..self.rounds {
            let [alloc_ns, free_ns, blocks] = self.round(cx, &mut held);
            taken.alloc_ns += alloc_ns;
            taken.free_ns += free_ns;
            taken.blocks += blocks;
            taken.failed += u64::from(self.batch) - blocks;
        }
        taken
    }

    /// One round: nanoseconds for allocating, for freeing, blocks.
    fn round(&self, cx: &Cx<'_, H>, held: &mut Vec<Pfn>) -> [u64; 3] {
        let node = self.memory.cpu_node(cx.cpu());
        let begin_ns = cx.host.now_ns();
        for _ in 0..self.batch {
            held.extend(self.memory.alloc(cx, &NoRelief, Gfp::GFP_KERNEL, self.order, node, None));
        }
        let middle_ns = cx.host.now_ns();
        let blocks = held.len() as u64;
        for pfn in held.drain(..) {
            let freed = self.memory.free(cx, pfn, self.order);
            debug_assert!(freed.is_ok(), "a block of this round: {freed:?}");
        }
        let end_ns = cx.host.now_ns();
        [middle_ns.saturating_sub(begin_ns), end_ns.saturating_sub(middle_ns), blocks]
    }
}
