//! The list of address spaces that MGLRU ages (rules/mglru#walk).
//!
//! It is the list of all mms, in order of creation. A walk takes one after another and leaves out
//! those in which no task ran since the node's aging last looked ([`Kernel::is_to_age`]).
//!
//! From: `reclaim`, and [`super::mm`] when a CPU switches to an mm · to: [`super::aging`].

use alloc::sync::Arc;
use core::ops::Bound;

use super::Mm;
use super::aging::PagesToAge;
use crate::host::{Cx, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page::MmId;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;

/// In a CPU's entry of `Kernel::cpu_mm`: aging looked at the mm since the CPU's last operation on
/// it. The CPU enters it again at the next one, and so reports that a task runs in it.
pub(super) const LOOKED_AT: u32 = 1 << 31;

impl<H: Devices> Kernel<H> {
    /// The next mm of a memory cgroup in order of creation; none: of any. `after`: the last one.
    /// It may need no walk ([`Kernel::is_to_age`]).
    #[doc(alias = "lru_gen_mm_list")]
    pub(crate) fn next_mm_to_age(
        &self,
        cx: &Cx<'_, H>,
        group: Option<GroupId>,
        after: Option<MmId>,
    ) -> Option<Arc<Mm<H>>> {
        let mms = self.mms.lock(cx.cpu());
        let start = after.map_or(Bound::Unbounded, |mm| Bound::Excluded(mm.0));
        let mut rest = mms.range((start, Bound::Unbounded)).map(|(_, mm)| mm);
        rest.find(|mm| group.is_none_or(|group| mm.group() == group)).cloned()
    }

    /// True if the aging of a node should walk an mm. A task ran in it since the node's last look
    /// (a forced walk does not ask), and at least `pages_min` of its resident pages can be reclaimed
    /// (64; 0 in 6.12). This is such a look.
    ///
    /// Linux: the bit is set at each context switch to the mm. Here it is set at the first operation
    /// on it after a look, on each CPU ([`LOOKED_AT`]). That comes to the same unless a task is
    /// switched to and has no access before the next look.
    #[doc(alias = "should_skip_mm")]
    pub(crate) fn is_to_age(
        &self,
        mm: &Mm<H>,
        of: &PagesToAge,
        forced: bool,
        pages_min: u64,
    ) -> bool {
        let bit = 1_u64 << (of.node.idx() % u64::BITS as usize);
        let ran = match H::THREADED {
            true => mm.ran.fetch_and(!bit, Relaxed),
            false => {
                let ran = mm.ran.load(Relaxed);
                mm.ran.store(ran & !bit, Relaxed);
                ran
            }
        };
        for cpu_mm in &self.cpu_mm {
            // Another value: the CPU has another mm, or will report its next operation anyway.
            let _ =
                cpu_mm.compare_exchange(mm.id.0 + 1, (mm.id.0 + 1) | LOOKED_AT, Relaxed, Relaxed);
        }
        (forced || ran & bit != 0) && mm.nr_to_age(of.with_anon) >= pages_min
    }
}

impl<H: Tasks> Mm<H> {
    /// A CPU switches to it, or uses it for the first time since a look.
    #[doc(alias = "lru_gen_use_mm")]
    pub(super) fn note_run(&self) {
        self.ran.store(u64::MAX, Relaxed);
    }

    /// Resident pages that can be reclaimed.
    fn nr_to_age(&self, with_anon: bool) -> u64 {
        self.rss.file.load(Relaxed) + if with_anon { self.rss.anon.load(Relaxed) } else { 0 }
    }
}
