//! Slabs from the allocator, and back to it.

use core::hint::cold_path;

use super::cache::SlabCache;
use super::{CacheKind, ObjectId};
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Order, PageFlags, Pfn};
use crate::page_alloc::{Gfp, Wish};
use crate::units::GroupId;
use crate::zone::NodeId;

impl<H: Devices> Kernel<H> {
    /// A cache.
    pub(crate) fn slab(&self, kind: CacheKind) -> &H::Lock<SlabCache> {
        &self.slabs[kind as usize]
    }

    /// Allocates an object of a slab cache, on the CPU's node if a slab there has one; none if
    /// there is no memory. May reclaim as far as `gfp` allows. No lock is held.
    /// The running task's memory cgroup pays for it.
    #[doc(alias = "kmem_cache_alloc")]
    pub(crate) fn slab_take(&self, cx: &Cx<'_, H>, kind: CacheKind, gfp: Gfp) -> Option<ObjectId> {
        self.slab_take_for(cx, kind, gfp, self.payer(cx))
    }

    /// [`Kernel::slab_take`] with the memory cgroup that pays, whose limit may refuse.
    pub(crate) fn slab_take_for(
        &self,
        cx: &Cx<'_, H>,
        kind: CacheKind,
        gfp: Gfp,
        payer: GroupId,
    ) -> Option<ObjectId> {
        let id = self.slab_take_free(cx, kind, gfp)?;
        if payer.is_root() {
            return Some(id);
        }
        cold_path();
        let node = self.slab(kind).lock(cx.cpu()).node_of(id);
        if !self.charge_object(cx, payer, (kind.object_bytes(), node, kind.slab_kind()), gfp) {
            self.slab_give(cx, kind, id);
            return None;
        }
        self.slab(kind).lock(cx.cpu()).set_owner(id, payer);
        Some(id)
    }

    fn slab_take_free(&self, cx: &Cx<'_, H>, kind: CacheKind, gfp: Gfp) -> Option<ObjectId> {
        loop {
            let node = self.mem.cpu_node(cx.cpu());
            // Then the rest of the newest slab, on any node (rules/slab#nodes).
            let taken = {
                let mut cache = self.slab(kind).lock(cx.cpu());
                cache.take(node).or_else(|| cache.take_from_last())
            };
            if taken.is_some() {
                return taken;
            }
            self.grow_slab(cx, kind, node, gfp)?;
        }
    }

    /// Frees an object of a slab cache; returns the pages that went back to the allocator.
    #[doc(alias = "kmem_cache_free")]
    pub(crate) fn slab_give(&self, cx: &Cx<'_, H>, kind: CacheKind, id: ObjectId) -> u64 {
        let (slab, paid) = {
            let mut cache = self.slab(kind).lock(cx.cpu());
            let owner = cache.take_owner(id);
            let paid = (!owner.is_root()).then(|| (owner, cache.node_of(id)));
            (cache.give(id), paid)
        };
        if let Some((owner, node)) = paid {
            cold_path();
            self.uncharge_object(cx, owner, (kind.object_bytes(), node, kind.slab_kind()));
        }
        let Some((pfn, order)) = slab else { return 0 };
        self.account_slab(cx, kind, pfn, order, -1);
        self.mem.map.page(pfn).init_flags(PageFlags::empty());
        let freed = self.mem.free(cx, pfn, order);
        debug_assert!(freed.is_ok(), "a slab that is not ours: {freed:?}");
        order.pages()
    }

    /// Allocates a slab for a cache; none if there is no memory. First as the kernel tries for a
    /// block that is worth while, without reclaim; then with all that `gfp` allows, for the
    /// smallest (rules/slab#growing).
    #[doc(alias = "new_slab")]
    #[doc(alias = "allocate_slab")]
    fn grow_slab(&self, cx: &Cx<'_, H>, kind: CacheKind, node: NodeId, gfp: Gfp) -> Option<()> {
        let (shape, smallest) = {
            let cache = self.slab(kind).lock(cx.cpu());
            (cache.shape, cache.smallest)
        };
        let quiet = match kind.is_reclaimable() {
            true => Gfp::RECLAIMABLE | Gfp::NOWARN,
            false => Gfp::NOWARN,
        };
        let atomic = Gfp::GFP_NOWAIT | quiet;
        let tries = [
            (shape, atomic | Gfp::NORETRY | Gfp::COMP),
            (smallest, atomic),
            (smallest, gfp & (Gfp::RECLAIM | Gfp::IO | Gfp::FS | Gfp::NORETRY) | quiet),
        ];
        for (shape, gfp) in tries {
            if let Some(pfn) = self.mem.alloc_wished(cx, self, gfp, shape.order, Wish::Task) {
                self.mem.map.page(pfn).init_flags(PageFlags::SLAB);
                self.account_slab(cx, kind, pfn, shape.order, 1);
                let on = self.mem.zone_of(pfn).map_or(node, |zone| zone.node);
                self.slab(kind).lock(cx.cpu()).add_slab(pfn, shape, on);
                return Some(());
            }
        }
        None
    }

    fn account_slab(&self, cx: &Cx<'_, H>, kind: CacheKind, pfn: Pfn, order: Order, sign: i64) {
        let zone = self.mem.map.page(pfn).zone_id();
        let account = self.mem.account_pages(cx.cpu(), zone, order.pages());
        match sign {
            1 => account.plus(kind.item()),
            _ => account.minus(kind.item()),
        };
    }
}
