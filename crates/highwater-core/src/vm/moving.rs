//! Migration entries: entries of a page that moves to another frame
//! (rules/compaction#migrate-page).
//!
//! The migrating task holds the page lock. Every entry that maps the page is replaced by a
//! migration entry ([`Pte::moving`]). A program that needs the page faults and waits for the page
//! lock; other code sees that the page is neither mapped here nor gone. Afterwards the same walk
//! replaces these entries by ones for the new frame, or for the old frame if the page could not be
//! moved.
//!
//! A migration entry holds no reference and does not count as a mapping, so the page's counts show
//! whether it has other users. It still counts as resident in its mm. Clearing it (munmap) needs
//! no further action.
//!
//! From: `migrate` · to: `rmap`.

use super::rmap::{Flow, Place};
use super::{FlushRange, LastWalk, Pte, VmaFlags};
use crate::host::{Cost, Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags};
use crate::vmstat::NodeStat;

impl<H: Devices> Kernel<H> {
    /// Replaces every entry of a locked page by a migration entry; true if nothing maps it any
    /// more. Each entry is flushed at once: programs must not write through it while the page is
    /// copied.
    #[doc(alias = "try_to_migrate")]
    pub(crate) fn unmap_to_move(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        if !page.is_mapped() {
            return true;
        }
        let _phase = cx.phase(Phase::Unmap);
        if folio.is_large() {
            return self.unmap_folio_to_move(cx, folio);
        }
        cx.charge(Cost::RmapWalk, 1);
        self.each_place(cx, folio, &mut LastWalk::default(), |place| {
            let mut ptes = place.table.lock(cx.cpu());
            if !ptes.maps(place.vpn, folio) {
                return Flow::Continue(());
            }
            cx.charge(Cost::RmapMapping, 1);
            let was = ptes.take(place.vpn);
            cx.charge(Cost::ClearPte, 1);
            self.flush_tlb(cx, place.mm, FlushRange::page(place.vpn));
            if was.is_dirty() {
                // The page keeps the dirty bit, because a migration entry has no room for it.
                match page.is_anon() {
                    true => drop(page.flag_set::<H>(PageFlags::DIRTY)),
                    false => drop(self.set_page_dirty(cx, folio)),
                }
            }
            ptes.set(place.vpn, Pte::moving(folio.pfn(), was.is_writable(), was.is_young()));
            cx.charge(Cost::SetPte, 1);
            if page.map_remove::<H>(1) {
                self.mem.account(cx.cpu(), folio).minus(mapped_stat(page));
            }
            if place.flags.contains(VmaFlags::LOCKED) {
                self.munlock_isolated(cx, folio);
            }
            let was_last = page.put::<H>(1);
            debug_assert!(!was_last, "a page without its mover's reference");
            if page.is_mapped() { Flow::Continue(()) } else { Flow::Break(()) }
        });
        !page.is_mapped()
    }

    /// Maps a migrated page (or one that stays) again wherever a migration entry of page `from`
    /// waits for it.
    #[doc(alias = "remove_migration_ptes")]
    #[doc(alias = "remove_migration_pte")]
    pub(crate) fn map_moved(&self, cx: &Cx<'_, H>, from: Folio, folio: Folio) {
        if folio.is_large() {
            return self.map_moved_folio(cx, from, folio);
        }
        let (page, from) = (self.mem.map.page(folio), from.pfn());
        cx.charge(Cost::RmapWalk, 1);
        self.each_place(cx, folio, &mut LastWalk::default(), |place: &Place<'_, H>| {
            let mut ptes = place.table.lock(cx.cpu());
            let entry = ptes.get(place.vpn);
            if entry.moving_from() != Some(from) {
                return Flow::Continue(());
            }
            page.get::<H>(1);
            if page.map_add::<H>(1) {
                self.mem.account(cx.cpu(), folio).plus(mapped_stat(page));
            }
            cx.charge(Cost::RmapMapping, 1);
            ptes.set(place.vpn, entry.moved_to(folio.pfn()));
            cx.charge(Cost::SetPte, 1);
            if place.flags.contains(VmaFlags::LOCKED) {
                self.mlock_isolated(cx, folio);
            }
            Flow::Continue(())
        });
    }
}

/// Where mapped pages of its kind are counted.
fn mapped_stat(page: &Page) -> NodeStat {
    if page.is_anon() { NodeStat::AnonPages } else { NodeStat::Mapped }
}
