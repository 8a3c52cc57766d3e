//! Taking pages off their list, putting them back (spec 02 §10).

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::lru::LruKind;
use crate::page::Pfn;
use crate::zone::ZoneType;

/// Which pages an isolation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IsolateMode {
    /// Pages of higher zones are set aside (`reclaim_idx`).
    pub highest: ZoneType,
    /// False: mapped pages stay.
    pub may_unmap: bool,
}

/// What an isolation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Isolated {
    /// Pages taken: the first so many of the caller's buffer, oldest first.
    pub taken: usize,
    /// Pages looked at, those set aside included (nr_scanned of the trace; pgscan, pgrefill).
    pub scanned: u64,
    /// Pages set aside because of their zone; pgskip counted them.
    pub skipped: u64,
}

impl<H: Devices> Kernel<H> {
    /// Takes up to `out.len()` pages from the tail of list `list` of `self.lru.vecs[vec]`, under one
    /// hold of its lock: a reference each, LRU cleared. Counts pgskip and the list's size;
    /// nr_isolated, pgscan and pgrefill are the caller's.
    pub(crate) fn isolate_lru_pages(
        &self,
        cx: &Cx<'_, H>,
        vec: usize,
        list: LruKind,
        mode: IsolateMode,
        out: &mut [Pfn],
    ) -> Isolated {
        let _ = (cx, vec, list, mode, out);
        todo!()
    }

    /// Puts isolated pages of `self.lru.vecs[vec]` back, under one hold of its lock: first
    /// `pages[0]`, then `pages[1]`, each oldest first, onto the heads of the lists that their ACTIVE
    /// flags name. Drops the isolation's references and frees pages whose last that was. Returns
    /// how many of each slice went onto a list.
    ///
    /// `rotated` (by [`crate::lru::PageType`]): pages that count as rotated for the balance of
    /// kernels up to 5.7; without effect on others.
    pub(crate) fn move_pages_to_lru(
        &self,
        cx: &Cx<'_, H>,
        vec: usize,
        pages: [&[Pfn]; 2],
        rotated: [u64; 2],
    ) -> [u64; 2] {
        let _ = (cx, vec, pages, rotated);
        todo!()
    }

    /// Takes one page off its list (migration, MADV_PAGEOUT): a reference is taken, LRU cleared.
    /// False if it is on no list.
    pub(crate) fn isolate_page(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let _ = (cx, pfn);
        todo!()
    }

    /// Puts an isolated page back on the list its flags name and drops the isolation's reference.
    pub(crate) fn putback_page(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }
}
