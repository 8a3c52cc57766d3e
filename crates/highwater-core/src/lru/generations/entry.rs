//! Where pages enter (rules/mglru#entry).

use super::{Window, marked};
use crate::config::{FirstUse, ReadEntry};
use crate::host::{Cx, Devices, TaskFlags};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags};

impl<H: Devices> Kernel<H> {
    /// A new page: those that a fault brings are used (rules/mglru#entry).
    #[inline(never)]
    pub(in crate::lru) fn begin_generation(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        let in_fault = cx.flags() & (TaskFlags::LRU_FAULT | TaskFlags::MEMALLOC);
        let is_unevictable = page.is(PageFlags::UNEVICTABLE) || !page.is_evictable();
        if in_fault != TaskFlags::LRU_FAULT || is_unevictable {
            return;
        }
        let is_used = match self.mglru_policy().first_use {
            FirstUse::Promotes => true,
            FirstUse::Marks => page.is(PageFlags::WORKINGSET),
        };
        match is_used {
            true => _ = page.flag_set::<H>(PageFlags::ACTIVE),
            false => {
                let rule = self.mglru_policy().first_use;
                page.flag_update::<H>(|flags| Some(marked(rule, flags)));
            }
        }
    }
}

/// The end of a list at which a page joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The newest.
    Head,
    /// The next to be evicted.
    Tail,
}

/// The generation that a page with these flags enters, of those that its type has.
#[doc(alias = "lru_gen_add_folio")]
#[doc(alias = "lru_gen_folio_seq")]
pub(crate) fn entry(rule: ReadEntry, window: Window, flags: PageFlags, end: End) -> u64 {
    let Window { min, max } = window;
    let has = |these| flags.contains(these);
    if has(PageFlags::ACTIVE) {
        let is_youngest = rule != ReadEntry::ByMarks || has(PageFlags::WORKINGSET);
        return if is_youngest { max } else { max - 1 };
    }
    if rule == ReadEntry::ByMarks && end == End::Tail {
        return min;
    }
    let is_new_anon = has(PageFlags::SWAPBACKED) && !has(PageFlags::SWAPCACHE);
    let is_being_written =
        has(PageFlags::RECLAIM) && flags.intersects(PageFlags::DIRTY | PageFlags::WRITEBACK);
    if is_new_anon || is_being_written {
        return match rule {
            ReadEntry::Oldest => min + 1,
            ReadEntry::SecondOldest | ReadEntry::ByMarks => max - 1,
        };
    }
    match rule {
        ReadEntry::Oldest => min,
        ReadEntry::SecondOldest if end == End::Tail || min + 2 >= max => min,
        ReadEntry::SecondOldest => min + 1,
        ReadEntry::ByMarks => {
            let is_marked = flags.intersects(PageFlags::WORKINGSET | PageFlags::REFERENCED);
            max.saturating_sub(if is_marked { 2 } else { 3 }).max(min)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of pages (rules/mglru#entry, vector 2).
    #[test]
    fn pages_enter_by_their_flags() {
        let (file, anon) = (PageFlags::empty(), PageFlags::SWAPBACKED);
        let fault = PageFlags::ACTIVE;
        let written = PageFlags::RECLAIM | PageFlags::DIRTY;
        let swap_cache = anon | PageFlags::SWAPCACHE;
        let seqs = |rule| {
            [
                (file, End::Head, 0, 3),
                (file, End::Head, 1, 3),
                (file, End::Head, 1, 4),
                (file, End::Head, 2, 4),
                (fault, End::Head, 0, 3),
                (anon, End::Head, 1, 4),
                (written, End::Head, 1, 4),
                (file, End::Tail, 1, 4),
                (swap_cache, End::Head, 0, 3),
            ]
            .map(|(flags, end, min, max)| entry(rule, Window { min, max }, flags, end))
        };
        assert_eq!(seqs(ReadEntry::SecondOldest), [1, 1, 2, 2, 3, 3, 3, 1, 1]);
        assert_eq!(seqs(ReadEntry::Oldest), [0, 1, 1, 2, 3, 2, 2, 1, 0]);
        let since_7_2 =
            |flags, min, max| entry(ReadEntry::ByMarks, Window { min, max }, flags, End::Head);
        assert_eq!(since_7_2(file, 1, 4), 1);
        let marked = PageFlags::REFERENCED;
        assert_eq!(since_7_2(marked, 1, 4), 2);
        assert_eq!(since_7_2(anon, 1, 4), 3);
        assert_eq!(since_7_2(swap_cache | PageFlags::WORKINGSET | fault, 1, 4), 4);
        assert_eq!(since_7_2(file, 3, 5), 3, "never below the oldest");
    }
}
