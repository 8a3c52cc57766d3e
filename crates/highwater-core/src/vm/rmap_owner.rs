//! The page cache's requests to mappings: cleaning a page before it is written, unmapping it when
//! it is cut off.
//!
//! From: `page_cache::{dirty, truncate}` · to: [`super::rmap`], `zap`.

use super::rmap::{Flow, LastWalk};
use super::zap::Zap;
use super::{FlushRange, Gather, VmaFlags};
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::Folio;
use crate::page_cache::Mappings;

impl<H: Devices> Mappings<H> for Kernel<H> {
    /// Write-protects and cleans every entry of a page that is about to be written; true if one was
    /// dirty or could have become so.
    #[doc(alias = "folio_mkclean")]
    #[doc(alias = "page_mkclean")]
    fn clean_mappings(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        // Only shared mappings of files are cleaned; the entries of anonymous memory keep their
        // bits until they are unmapped.
        if !page.is_mapped() || page.is_anon() {
            return false;
        }
        if folio.is_large() {
            return self.clean_folio_of_file(cx, folio);
        }
        let mut nr_cleaned = 0;
        cx.charge(Cost::RmapWalk, 1);
        self.each_place(cx, folio, &mut LastWalk::default(), |place| {
            if !place.flags.contains(VmaFlags::SHARED) {
                return Flow::Continue(());
            }
            let mut ptes = place.table.lock(cx.cpu());
            if !ptes.maps(place.vpn, folio) {
                return Flow::Continue(());
            }
            cx.charge(Cost::RmapMapping, 1);
            let was = ptes.get(place.vpn);
            if was.is_dirty() || was.is_writable() {
                let was = ptes.take(place.vpn);
                ptes.set(place.vpn, was.with_dirty(false).with_writable(false));
                cx.charge(Cost::ClearPte, 1);
                self.flush_tlb(cx, place.mm, FlushRange::page(place.vpn));
                nr_cleaned += 1;
            }
            Flow::Continue(())
        });
        nr_cleaned != 0
    }

    /// Unmaps one file page from every mm that maps it (truncation); the page is locked.
    #[doc(alias = "unmap_mapping_folio")]
    fn unmap_everywhere(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if !page.is_mapped() {
            return;
        }
        if folio.is_large() {
            return self.unmap_folio_everywhere(cx, folio);
        }
        cx.charge(Cost::RmapWalk, 1);
        self.each_place(cx, folio, &mut LastWalk::default(), |place| {
            cx.charge(Cost::RmapMapping, 1);
            let (start, flags) = (place.vpn, place.flags);
            let has_recency = self.has_recency(flags);
            let mut gather = Gather::new(place.mm);
            self.drain_to_unmap(cx);
            let zap = Zap { start, end: start + 1, flags, has_recency, only: Some(folio) };
            self.zap_range(cx, &mut gather, &zap);
            self.gather_finish(cx, gather);
            if page.is_mapped() { Flow::Continue(()) } else { Flow::Break(()) }
        });
    }
}
