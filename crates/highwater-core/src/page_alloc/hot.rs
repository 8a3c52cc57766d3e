//! The common case of allocation, and nothing else (rules/allocation#scan, rules/allocation#take).
//!
//! The preferred zone is above its low mark and this CPU's list gives a page. Everything else (task
//! scopes, cpusets, fair shares, dirty spreading, node masks, a low zone, busy or empty lists) goes
//! to [`super::fast`], which does the same steps in general form. Values are in registers here, and
//! in a [`super::Request`] there. The two give the same pages, counts, events and charges.
//!
//! Why two paths for the same rules? A pass decodes the request into a structure, walks the
//! zonelist and checks half a dozen rules, none of which applies on most machines. Whether they
//! apply depends on the request, the task and the settings, not on memory. So one combined check
//! comes first, and the rest is a comparison and a list.
//!
//! This path must leave no side effects when it hands over, so it counts nothing until it has a
//! page. The per-CPU lists are the exception: trying them halves their free factor and tries a
//! refill. So their result is handed over too, and [`super::fast`] continues from there.
//!
//! The hot path has made the same tests up to there: preferred zone, order, low mark. NOFRAGMENT
//! matters only for a refill, so the allocation flags are computed only then.

use super::fast::REQUEST_GFP_GENERAL;
use super::pcp::{PcpTaken, pcp_event_unit};
use super::{AllocFlags, Gfp, PageAllocator, Relief};
use crate::host::{Cx, Host};
use crate::page::{MigrateType, Order, Pfn};
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::zone::{NodeId, NodeMask};

impl<H: Host> PageAllocator<H> {
    /// A page by the common path, or the result of the preferred zone's per-CPU lists (`None` if
    /// they were not tried; then nothing has happened).
    #[inline(always)]
    pub(super) fn alloc_hot<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        gfp: Gfp,
        order: Order,
        node: NodeId,
        nodes: Option<NodeMask>,
    ) -> Result<Pfn, Option<PcpTaken>> {
        // Each of these changes the zones or the rights of the request. None depends on the state
        // of a zone, so nothing shared was touched before leaving here.
        let general = gfp.intersects(REQUEST_GFP_GENERAL)
            || nodes.is_some()
            || !cx.flags().is_empty()
            || self.tunables.cpusets.get()
            || self.policy.zonelist.fair;
        if general {
            return Err(None);
        }
        // Single pages have separate code, in which the order is a constant.
        match order {
            Order::ZERO => self.alloc_hot_of(cx, relief, gfp, Order::ZERO, node),
            order if order <= Order::MAX => self.alloc_hot_of(cx, relief, gfp, order, node),
            _ => Err(None),
        }
    }

    #[inline(always)]
    fn alloc_hot_of<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        gfp: Gfp,
        order: Order,
        node: NodeId,
    ) -> Result<Pfn, Option<PcpTaken>> {
        let (Some(highest), Some(migratetype)) = (gfp.highest_zone(), gfp.migratetype()) else {
            return Err(None);
        };
        let migratetype = if self.grouping { migratetype } else { MigrateType::Unmovable };
        let lists = self.zonelists.get(node.idx());
        let Some(preferred) = lists.and_then(|lists| lists.fallback.first(highest)) else {
            return Err(None);
        };
        if self.skips_busy_nodes && relief.kswapd_is_awake(preferred.node) {
            return Err(None);
        }
        let zone = self.zone_at(preferred);
        // An order without lists needs the zone lock, which is slow enough for the general path. A
        // zone below its low mark means other zones, other rights or a wake-up, which are not the
        // common case.
        if !self.pcp_shape.serves(order)
            || !self.watermark_fast(zone, order, gfp, highest, AllocFlags::MARK_LOW)
        {
            return Err(None);
        }
        // A task stays on its CPU while it takes, holds and releases a per-CPU lock.
        let cpu = cx.cpu();
        let mine = &zone.cpus[cpu.idx()];
        let flags = || self.plain_flags(gfp, Some(preferred));
        let pfn = match self.pcp_alloc(cx, zone, mine, order, migratetype, flags) {
            Ok(Some(pfn)) => pfn,
            nothing => return Err(Some(nothing)),
        };
        let events = pcp_event_unit(self.policy.pcp.event_unit, order);
        self.events.add_zoned(cpu, VmEvent::PgallocDma, zone.zone, events);
        // The preferred zone it is.
        mine.count_hit();
        // With the per-CPU lock released: relief is asked without locks.
        self.report_boost(cx, relief, zone, flags);
        self.prepare_page(cx, pfn, order, gfp, migratetype, AllocFlags::MARK_LOW);
        cx.host.trace(cpu, &Event::PageAlloc { pfn: Some(pfn), order, gfp, migratetype });
        Ok(pfn)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::cell::RefCell;

    use proptest::prelude::*;

    use super::*;
    use crate::config::{FreeFactor, HighOrderFree, Machine, PRESETS, PcpSizing, Policy, preset};
    use crate::host::{CpuId, Solo};
    use crate::page_alloc::NoRelief;
    use crate::page_alloc::boot;
    use crate::sync::order::LockClass;
    use crate::vmstat::NumaStat;

    /// Everything that can be seen from outside after a run.
    type Seen = (Vec<Option<Pfn>>, Vec<(CpuId, Event)>, Vec<u64>, Vec<u64>, Vec<u64>);

    /// One step: allocate (order, kind) or free one of the held blocks, on a CPU.
    type Step = (bool, u8, u8, u16, usize);

    const KINDS: [Gfp; 6] = [
        Gfp::GFP_KERNEL,
        Gfp::GFP_HIGHUSER_MOVABLE,
        Gfp::GFP_ATOMIC,
        Gfp::GFP_NOWAIT.union(Gfp::RECLAIMABLE),
        Gfp::GFP_KERNEL.union(Gfp::COMP),
        Gfp::GFP_KERNEL.union(Gfp::DMA),
    ];

    fn run(policy: &Policy, steps: &[Step], nodes: Option<NodeMask>) -> Seen {
        let events = RefCell::new(Vec::new());
        let host = Solo::new(|cpu: CpuId, event: &Event| events.borrow_mut().push((cpu, *event)));
        let sizes = [(40 << 20, Vec::from([0, 1])), (24 << 20, Vec::from([2]))];
        let machine = Machine::from_sizes("m", &sizes).unwrap();
        let memory = boot(&host, &machine, policy).unwrap();
        let (mut got, mut held) = (Vec::new(), Vec::new());
        for &(take, order, kind, cpu, pick) in steps {
            let cx = Cx::new(&host, CpuId(cpu));
            if take || held.is_empty() {
                let (order, gfp) = (Order(order), KINDS[kind as usize]);
                let node = memory.cpu_node(CpuId(cpu));
                let page = memory.alloc(&cx, &NoRelief, gfp, order, node, nodes);
                held.extend(page.map(|pfn| (pfn, order)));
                got.push(page);
            } else {
                let (pfn, order) = held.swap_remove(pick % held.len());
                memory.free(&cx, pfn, order).unwrap();
            }
        }
        let vm = VmEvent::ALL.iter().map(|&e| memory.events.read(e)).collect();
        let numa = memory
            .populated_zones()
            .flat_map(|z| NumaStat::ALL.iter().map(|&i| z.numa_stat(i)))
            .collect();
        let takings = LockClass::ALL.map(|class| host.takings(class)).to_vec();
        drop(memory);
        (got, events.take(), vm, numa, takings)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A mask of all nodes changes nothing but the way through the code.
        #[test]
        fn the_hot_path_does_what_the_general_one_does(
            steps in prop::collection::vec(
                (prop::bool::weighted(0.6), prop_oneof![4 => Just(0u8), 1 => 0u8..11],
                 0u8..6, 0u16..3, any::<usize>()),
                1..1500,
            ),
            policy in 0..PRESETS.len(),
            tunes in any::<bool>(),
        ) {
            let name = PRESETS[policy].0;
            let mut policy = preset(name).unwrap();
            if tunes {
                policy.pcp.sizing = PcpSizing::Auto;
                policy.pcp.free_factor = FreeFactor::FreeCount;
                policy.pcp.high_order_free = HighOrderFree::LimitedBatch;
            }
            let hot = run(&policy, &steps, None);
            let general = run(&policy, &steps, Some(NodeMask::ALL));
            prop_assert!(hot == general, "{name}, tuned: {tunes}");
        }
    }
}
