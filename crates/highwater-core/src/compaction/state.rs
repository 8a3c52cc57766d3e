//! What compaction keeps between runs: of each zone and of each node's kcompactd.

use alloc::boxed::Box;

use super::deferral::Deferral;
use crate::host::Tasks;
use crate::migrate::Mode;
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::units::{NodeId, Order, Pfn, ZoneId, ZoneType};
use crate::wait::WaitQueue;

/// Compaction's state.
pub struct CompactionState<H: Tasks> {
    zones: Box<[ZoneState]>,
    nodes: Box<[NodeState<H>]>,
}

/// A zone's state between runs.
#[derive(Debug, Default)]
pub(super) struct ZoneState {
    /// Where the scanner of sources goes on, for runs that wait for nothing and for others; 0 until there was one.
    pub cached_migrate: [AtomicU32; 2],
    /// Where the scanner of targets goes on.
    pub cached_free: AtomicU32,
    /// Where both began after the skip bits were last cleared.
    pub init_migrate: AtomicU32,
    pub init_free: AtomicU32,
    pub deferral: Deferral,
    /// All of the zone was scanned: before kswapd sleeps, the skip bits are to be cleared.
    pub flush_pending: AtomicBool,
}

/// The requests for a node's kcompactd.
pub(super) struct NodeState<H: Tasks> {
    pub wait: WaitQueue<H>,
    /// The largest order asked for; 0 = nothing.
    pub max_order: AtomicU8,
    /// The lowest of the highest zones asked for.
    pub highest: AtomicU8,
    /// Somebody wants it to look at once whether there is something to do unasked.
    pub is_prompted: AtomicBool,
    /// Prompts before this tick are not heard.
    pub deaf_until: AtomicU64,
}

impl<H: Tasks> CompactionState<H> {
    /// Nothing remembered.
    pub(crate) fn new(host: &H, mem: &PageAllocator<H>) -> Self {
        let nodes = (0..mem.nr_nodes()).map(|_| NodeState {
            wait: WaitQueue::new(host),
            max_order: AtomicU8::new(0),
            highest: AtomicU8::new(ZoneType::Device as u8),
            is_prompted: AtomicBool::new(false),
            deaf_until: AtomicU64::new(0),
        });
        CompactionState {
            zones: (0..ZoneId::count(mem.nr_nodes())).map(|_| ZoneState::default()).collect(),
            nodes: nodes.collect(),
        }
    }

    pub(super) fn zone(&self, zone: ZoneId) -> &ZoneState {
        &self.zones[zone.idx()]
    }

    pub(super) fn node(&self, node: NodeId) -> &NodeState<H> {
        &self.nodes[node.idx()]
    }

    pub(crate) fn wake_all(&self, cx: &crate::host::Cx<'_, H>) {
        for node in &self.nodes {
            node.wait.wake_all(cx.host, cx.cpu());
        }
    }
}

impl<H: Tasks> NodeState<H> {
    /// Records a request; a larger order or a lower zone stays.
    pub(super) fn ask(&self, order: Order, highest: ZoneType) {
        if self.max_order.load(Relaxed) < order.0 {
            self.max_order.store(order.0, Relaxed);
        }
        if self.highest.load(Relaxed) > highest as u8 {
            self.highest.store(highest as u8, Relaxed);
        }
    }

    /// The current request.
    pub(super) fn asked(&self) -> (Order, ZoneType) {
        let highest = ZoneType::ALL[usize::from(self.highest.load(Relaxed))];
        (Order(self.max_order.load(Relaxed)), highest)
    }

    /// Marks a request as served. A larger one that arrived meanwhile stays.
    pub(super) fn done(&self, order: Order, highest: ZoneType) {
        if self.max_order.load(Relaxed) <= order.0 {
            self.max_order.store(0, Relaxed);
        }
        if self.highest.load(Relaxed) >= highest as u8 {
            self.highest.store(ZoneType::Device as u8, Relaxed);
        }
    }
}

impl ZoneState {
    /// Which of the positions a mode goes by.
    pub(super) const fn slot(mode: Mode) -> usize {
        match mode {
            Mode::Async => 0,
            Mode::SyncLight | Mode::Sync => 1,
        }
    }

    /// Both scanners begin at the ends of the zone.
    pub(super) fn reset(&self, start: Pfn, last_block: Pfn) {
        self.cached_migrate.iter().for_each(|cached| cached.store(start.0, Relaxed));
        self.cached_free.store(last_block.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Solo;

    #[test]
    fn requests_of_a_daemon_add_up() {
        let host = Solo::default();
        let node: NodeState<Solo> = NodeState {
            wait: WaitQueue::new(&host),
            max_order: AtomicU8::new(0),
            highest: AtomicU8::new(ZoneType::Device as u8),
            is_prompted: AtomicBool::new(false),
            deaf_until: AtomicU64::new(0),
        };
        let top = ZoneType::Device;
        node.ask(Order(3), ZoneType::Normal);
        node.ask(Order(9), ZoneType::Dma32);
        assert_eq!(node.asked(), (Order(9), ZoneType::Dma32));
        // A smaller one that comes meanwhile is done with it.
        node.ask(Order(4), ZoneType::Normal);
        node.done(Order(9), ZoneType::Dma32);
        assert_eq!(node.asked(), (Order(0), top));
        node.ask(Order(9), ZoneType::Dma32);
        node.ask(Order(10), ZoneType::Dma32);
        node.done(Order(9), ZoneType::Dma32);
        assert_eq!(node.asked(), (Order(10), top), "the larger order survives, its zone does not");
    }
}
