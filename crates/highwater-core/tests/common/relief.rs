//! A relief that records who asks for what and answers as told.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use highwater_core::host::{Cx, TaskFlags};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::{
    AllocFlags, CompactPriority, CompactResult, Gfp, NodeReclaim, PageAllocator, Relief, Request,
};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::{NodeId, NodeMask, Zone, ZoneId, ZoneType};

use super::{Alloc, Host};

/// A question the allocator asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// kswapd of a node, for an order.
    Wake(u16, u8),
    Reclaim,
    Compact(CompactPriority),
    Succeeded(usize),
    NodeReclaim(u16),
    Kill,
}

type Action = Box<dyn Fn(&Alloc)>;

/// Answers; calls are recorded.
pub struct Fake {
    calls: RefCell<Vec<Call>>,
    /// Pages that each reclaim reports.
    pub reclaimed: Cell<u64>,
    /// Reports of the first reclaims, before `reclaimed` applies.
    pub plan: RefCell<VecDeque<u64>>,
    /// What each reclaim and each kill does.
    pub frees: RefCell<Option<Action>>,
    /// What each compaction reports.
    pub compaction: Cell<CompactResult>,
    /// A block that a compaction captures.
    pub captured: Cell<Option<Pfn>>,
    /// What node_reclaim reports.
    pub node_reclaim: Cell<NodeReclaim>,
    /// What the OOM killer reports.
    pub kills: Cell<bool>,
    /// Task flags to set when the killer runs.
    pub victim: Cell<bool>,
    /// Nodes whose kswapd is awake.
    pub awake: Cell<NodeMask>,
    /// Anonymous pages count as reclaimable.
    pub swap: Cell<bool>,
    /// Waits for devices: ticks, and whether only if the zone is congested.
    pub waits: RefCell<Vec<(u64, bool)>>,
    /// So many calls mean that the request loops for ever.
    pub limit: Cell<usize>,
}

impl Default for Fake {
    fn default() -> Self {
        Fake {
            calls: RefCell::default(),
            reclaimed: Cell::new(0),
            plan: RefCell::default(),
            frees: RefCell::new(None),
            compaction: Cell::new(CompactResult::Skipped),
            captured: Cell::new(None),
            node_reclaim: Cell::new(NodeReclaim::Full),
            kills: Cell::new(false),
            victim: Cell::new(false),
            awake: Cell::new(NodeMask::EMPTY),
            swap: Cell::new(false),
            waits: RefCell::default(),
            limit: Cell::new(1000),
        }
    }
}

impl Fake {
    /// Takes the calls made so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.take()
    }

    /// Takes the calls made so far except wakeups.
    pub fn hard_calls(&self) -> Vec<Call> {
        self.calls().into_iter().filter(|c| !matches!(c, Call::Wake(..))).collect()
    }

    /// Lets every reclaim and kill run `action`.
    pub fn on_relief(&self, action: impl Fn(&Alloc) + 'static) {
        *self.frees.borrow_mut() = Some(Box::new(action));
    }

    fn note(&self, call: Call) {
        let mut calls = self.calls.borrow_mut();
        calls.push(call);
        assert!(calls.len() < self.limit.get(), "the request loops: {:?}", &calls[..40]);
    }

    fn act(&self, alloc: &Alloc) {
        if let Some(action) = &*self.frees.borrow() {
            action(alloc);
        }
    }
}

impl Relief<Host> for Fake {
    fn wake_kswapd(
        &self,
        _: &PageAllocator<Host>,
        _: &Cx<'_, Host>,
        node: NodeId,
        _: Gfp,
        order: Order,
        _: ZoneType,
    ) {
        self.note(Call::Wake(node.0, order.0));
    }

    fn kswapd_is_awake(&self, node: NodeId) -> bool {
        self.awake.get().contains(node)
    }

    fn reclaim(&self, alloc: &PageAllocator<Host>, cx: &Cx<'_, Host>, req: &Request<'_>) -> u64 {
        assert!(cx.flags().contains(TaskFlags::MEMALLOC), "reclaim must not recurse");
        assert!(req.gfp.contains(Gfp::DIRECT_RECLAIM));
        self.note(Call::Reclaim);
        let stall = VmEvent::of_zone(VmEvent::AllocstallDma, req.highest);
        alloc.events.add(cx.cpu(), stall, 1);
        self.act(alloc);
        self.plan.borrow_mut().pop_front().unwrap_or(self.reclaimed.get())
    }

    fn compact(
        &self,
        _: &PageAllocator<Host>,
        cx: &Cx<'_, Host>,
        _: &Request<'_>,
        _: AllocFlags,
        priority: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        assert!(cx.flags().contains(TaskFlags::MEMALLOC), "compaction must not recurse");
        self.note(Call::Compact(priority));
        (self.compaction.get(), self.captured.take())
    }

    fn compaction_succeeded(
        &self,
        _: &PageAllocator<Host>,
        _: &Cx<'_, Host>,
        zone: ZoneId,
        _: Order,
    ) {
        self.note(Call::Succeeded(zone.idx()));
    }

    fn node_reclaim(
        &self,
        alloc: &PageAllocator<Host>,
        _: &Cx<'_, Host>,
        node: NodeId,
        _: &Request<'_>,
    ) -> NodeReclaim {
        self.note(Call::NodeReclaim(node.0));
        self.act(alloc);
        self.node_reclaim.get()
    }

    fn can_swap(&self) -> bool {
        self.swap.get()
    }

    fn wait_for_devices(
        &self,
        _: &PageAllocator<Host>,
        _: &Cx<'_, Host>,
        jiffies: u64,
        zone: Option<&Zone<Host>>,
    ) {
        self.waits.borrow_mut().push((jiffies, zone.is_some()));
    }

    fn out_of_memory(
        &self,
        alloc: &PageAllocator<Host>,
        cx: &Cx<'_, Host>,
        _: &Request<'_>,
    ) -> bool {
        self.note(Call::Kill);
        self.act(alloc);
        if self.victim.get() {
            cx.set_flags(cx.flags() | TaskFlags::OOM_VICTIM);
        }
        self.kills.get()
    }
}
