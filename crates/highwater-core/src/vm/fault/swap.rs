//! Bringing a page back from swap (rules/swap#swap-in).

use super::{Pass, Step};
use crate::config::AnonStart;
use crate::host::{Cost, Devices, IoError, Phase, Probe};
use crate::kernel::Kernel;
use crate::lru::BatchKind;
use crate::page::{Folio, PageFlags, PageMapping};
use crate::swap::Slot;
use crate::units::Error;
use crate::vm::mm::Rss;
use crate::vm::{PageTable, Pte, VmaFlags};
use crate::vmstat::{GroupStat, VmEvent};

impl<H: Devices> Kernel<H> {
    /// Handles a fault of an entry, `old`, that names a swap slot.
    #[doc(alias = "do_swap_page")]
    pub(super) fn swap_fault(
        &self,
        pass: &mut Pass<'_, '_, H>,
        table: &PageTable<H>,
        old: Pte,
        slot: Slot,
    ) -> Result<Step, Error> {
        let _phase = pass.cx.phase(Phase::SwapIn);
        let cx = pass.cx;
        cx.charge(Cost::SwapFault, 1);
        let Some((folio, is_cached)) = self.find_swapped(pass, slot) else {
            // No memory, unless another task read the page in or dropped it meanwhile.
            return match table.peek(pass.vpn) == old {
                true => Err(Error::NoMemory),
                false => Ok(Step::Done),
            };
        };
        if !self.try_lock_page(folio) {
            if pass.let_go() {
                self.wait_on_locked(cx, folio);
                self.put_page(cx, folio);
                return Ok(Step::Retry);
            }
            if !self.lock_page_killable(cx, folio) {
                self.put_page(cx, folio);
                return Err(Error::Killed);
            }
        }
        let mapped = self.map_swapped(pass, table, old, slot, (folio, is_cached));
        if mapped != Ok(true) {
            self.unlock_page(cx, folio);
            self.put_page(cx, folio);
        }
        if mapped == Ok(true) && pass.is_write {
            let pte = table.peek(pass.vpn);
            if pte.is_present() && !pte.is_writable() {
                // Others have the page too: the same fault copies it.
                return self.protected_page(pass, table, pte);
            }
        }
        mapped.map(|_| Step::Done)
    }

    /// The page of a slot, read if need be, with a reference; and whether the swap cache has it.
    fn find_swapped(&self, pass: &mut Pass<'_, '_, H>, slot: Slot) -> Option<(Folio, bool)> {
        let cx = pass.cx;
        if let Some(folio) = self.swap_cache_lookup(cx, &pass.vma, pass.vpn, slot) {
            return Some((folio, true));
        }
        let is_cached = !self.swap_skips_cache(cx, slot);
        let folio = match is_cached {
            true => self.swapin_readahead(cx, pass.mm, &pass.vma, pass.vpn, slot)?,
            false => self.swapin_private(cx, slot, pass.vma.wish(pass.vpn))?,
        };
        self.mem.events.add(cx.cpu(), VmEvent::Pgmajfault, 1);
        self.count_of_task(cx, GroupStat::Pgmajfault);
        pass.is_major = true;
        Some((folio, is_cached))
    }

    /// Maps a locked page in the place of its slot; false if the entry changed meanwhile. If true,
    /// the entry has the caller's reference, and the page is unlocked: both under the table's lock,
    /// because nothing else may keep the page after that.
    fn map_swapped(
        &self,
        pass: &Pass<'_, '_, H>,
        table: &PageTable<H>,
        old: Pte,
        slot: Slot,
        (folio, is_cached): (Folio, bool),
    ) -> Result<bool, Error> {
        let (cx, vpn) = (pass.cx, pass.vpn);
        let page = self.mem.map.page(folio);
        let frame = match is_cached {
            true => self.frame_of_slot(folio, slot),
            false => Some(folio.pfn()),
        };
        let Some(frame) = frame else { return Ok(false) };
        if pass.is_write && is_cached && !page.is(PageFlags::LRU) {
            // The add batch may have the only other reference: it would look shared.
            self.lru_add_drain(cx);
        }
        let mut ptes = table.lock(cx.cpu());
        if ptes.get(vpn) != old {
            return Ok(false);
        }
        if !page.is(PageFlags::UPTODATE) {
            return Err(Error::Io(IoError::Device));
        }
        self.swap_put(cx, slot);
        let flags = pass.vma.flags;
        let is_locked = flags.contains(VmaFlags::LOCKED) || page.is(PageFlags::MLOCKED);
        let frees = self.mem.policy.swap.write_frees_slot;
        let is_ours = frees && pass.is_write && page.refcount() == 2;
        if page.is(PageFlags::SWAPCACHE) && (self.is_swap_full(folio) || is_locked || is_ours) {
            self.free_swap_cache(cx, folio, false);
        }
        Rss::add::<H>(&pass.mm.rss.swap, -1);
        // If only this mm used the slot, only it uses the page, and a write needs no other
        // check. For a huge page that is still in the cache this is one slot of many; it was not
        // read ahead, so it has its mapping.
        let is_alone = !old.is_shared_swap() || (page.refcount() == 1 && !folio.is_large());
        match (is_alone, folio.is_large()) {
            (true, true) => {}
            (true, false) => {
                page.set_mapping(PageMapping::Anon(pass.mm.id), vpn);
                page.flag_test_clear::<H>(PageFlags::FORKED);
            }
            (false, is_large) => {
                // The family member that will keep it is unknown, so use the oldest mm, from
                // which all can be found.
                if !is_large && !page.is_mapped() {
                    page.set_mapping(PageMapping::Anon(pass.mm.oldest_ancestor()), vpn);
                }
                page.flag_set::<H>(PageFlags::FORKED);
            }
        }
        let is_write = pass.is_write && is_alone;
        let pte = Pte::new(frame).with_writable(is_write).with_dirty(is_write);
        self.map_page(pass, &mut ptes, folio, pte);
        cx.charge(Cost::SetPte, 1);
        if self.mem.policy.reclaim.anon_new == AnonStart::Active {
            // Kernels that start anonymous pages active bring them back active too.
            self.lru_batch(cx, BatchKind::Activate, folio);
        }
        self.unlock_page(cx, folio);
        Ok(true)
    }
}
