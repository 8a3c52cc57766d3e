//! drop_caches (rules/page-cache#fadvise).

use crate::host::{Cx, Devices, Phase};
use crate::kernel::Kernel;
use crate::page_alloc::Gfp;
use crate::units::GroupId;
use crate::vmstat::VmEvent;

impl<H: Devices> Kernel<H> {
    /// Drops caches (`vm.drop_caches`): bit 0 invalidates every file's pages, bit 1 shrinks slab.
    #[doc(alias = "drop_caches_sysctl_handler")]
    #[doc(alias = "drop_pagecache_sb")]
    pub fn drop_caches(&self, cx: &Cx<'_, H>, what: u8) {
        let _phase = cx.phase(Phase::DropCaches);
        if what & 1 != 0 {
            self.lru_add_drain_all(cx);
            for file in self.all_files(cx) {
                self.invalidate(cx, &file, 0, u32::MAX);
            }
            self.mem.events.add(cx.cpu(), VmEvent::DropPagecache, 1);
        }
        if what & 2 != 0 {
            self.drop_slab(cx);
            self.mem.events.add(cx.cpu(), VmEvent::DropSlab, 1);
        }
    }

    /// Shrinks all slab caches again and again while that is worth it, asking for more each time.
    ///
    /// Linux: same name.
    fn drop_slab(&self, cx: &Cx<'_, H>) {
        for shift in 0..u64::BITS {
            let nodes = self.mem.nodes().iter();
            let (gfp, root) = (Gfp::GFP_KERNEL, GroupId::ROOT);
            let freed: u64 = nodes.map(|node| self.shrink_slab(cx, gfp, node.id, root, 0)).sum();
            if freed >> shift <= 1 {
                return;
            }
        }
    }
}
