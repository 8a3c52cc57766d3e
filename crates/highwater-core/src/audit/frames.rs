//! All frames. A frame on no list is in use, or the allocator never had it.

use alloc::format;

use super::lists::INNER_MARKS;
use super::{Audit, AuditError, Place, Rule};
use crate::host::Host;
use crate::page::map::CHUNK;
use crate::page::{BlockFlags, Pfn};
use crate::zone::Zone;

impl<H: Host> Audit<'_, H> {
    /// Accounts for every frame of a zone that no list claimed.
    pub(super) fn frames(&mut self, zone: &Zone<H>) -> Result<(), AuditError> {
        let mut reserved = 0;
        let mut at = zone.start.0;
        while at < zone.end.0 {
            let pfn = Pfn(at);
            if self.alloc.map.is_untouched(pfn) {
                // All of it lies in the zone, and its free part was counted with the lists.
                reserved += if self.alloc.map.is_fresh(pfn) { 0 } else { u64::from(CHUNK) };
                at += CHUNK;
                continue;
            }
            self.head(zone, pfn)?;
            if self.seen(pfn) != Place::Nowhere {
                at += 1;
                continue;
            }
            if self.alloc.map.page(pfn).block().is_reserved() {
                self.reserved(zone, pfn)?;
                reserved += 1;
                at += 1;
            } else {
                at += self.used_block(zone, pfn)?;
            }
        }
        let got = zone.spanned() - reserved;
        if got != zone.managed() {
            let found = format!("{} pages are managed, {got} frames are", zone.managed());
            return self.broken(zone, None, Rule::Managed, found);
        }
        self.report.reserved += reserved;
        Ok(())
    }

    /// The host's own knowledge of a block must equal the block's descriptor.
    fn head(&self, zone: &Zone<H>, pfn: Pfn) -> Result<(), AuditError> {
        let (map, word) = (&self.alloc.map, self.alloc.map.page(pfn).block());
        let is_right = match map.known_head(pfn) {
            None => true,
            Some(order) => word.is_in_use(zone.place, order) && map.likely_zone(pfn) == zone.id(),
        };
        match is_right {
            true => Ok(()),
            false => self.broken(
                zone,
                pfn,
                Rule::Head,
                format!("is known as a head, its word is {word:?}"),
            ),
        }
    }

    fn reserved(&mut self, zone: &Zone<H>, pfn: Pfn) -> Result<(), AuditError> {
        let page = self.alloc.map.page(pfn);
        if !page.block_flags().is_empty() || page.refcount() != 0 {
            let found =
                format!("reserved, with {:?}, {} users", page.block_flags(), page.refcount());
            return self.broken(zone, pfn, Rule::Reserved, found);
        }
        self.note(pfn, Place::InZone);
        Ok(())
    }

    /// A block in use; its size in frames.
    fn used_block(&mut self, zone: &Zone<H>, pfn: Pfn) -> Result<u32, AuditError> {
        let page = self.alloc.map.page(pfn);
        if !page.has(BlockFlags::USED) {
            let found = format!("is on no list and in no block, flags {:?}", page.block_flags());
            return self.broken(zone, pfn, Rule::Lost, found);
        }
        if page.refcount() == 0 {
            return self.broken(zone, pfn, Rule::Users, "is in use and has no user".into());
        }
        let size = 1u32 << page.order().0;
        if u64::from(pfn.0) + u64::from(size) > u64::from(zone.end.0) {
            let found = format!("{:?} block in use leaves the zone", page.order());
            return self.broken(zone, pfn, Rule::Alignment, found);
        }
        let mut nr_tails = 0;
        for at in pfn.0..pfn.0 + size {
            if self.seen(Pfn(at)) != Place::Nowhere {
                let found = format!("is in the block in use at {pfn:?} and on a list");
                return self.broken(zone, Pfn(at), Rule::OnePlace, found);
            }
            let flags = self.alloc.map.page(Pfn(at)).block_flags();
            if at != pfn.0 && flags.intersects(INNER_MARKS) {
                // Frames of a folio are marked as such. No other frame may be marked, or a lookup
                // would find a folio that no longer exists.
                let is_tail = flags & INNER_MARKS == BlockFlags::TAIL;
                if !is_tail || self.alloc.map.folio(Pfn(at)).pfn() != pfn {
                    let found = format!("inside the block in use at {pfn:?} has {flags:?}");
                    return self.broken(zone, Pfn(at), Rule::Tail, found);
                }
                nr_tails += 1;
            }
            self.note(Pfn(at), Place::InZone);
        }
        let is_whole = nr_tails == size - 1 && page.has(BlockFlags::HEAD);
        if page.has(BlockFlags::TAIL) || (nr_tails != 0 && !is_whole) {
            let found = format!("is a folio of {size} frames, {nr_tails} of them say so");
            return self.broken(zone, pfn, Rule::Tail, found);
        }
        self.report.used += u64::from(size);
        self.report.used_blocks += 1;
        Ok(size)
    }

    /// Frames outside all zones were never allocated.
    pub(super) fn outside(&self) -> Result<(), AuditError> {
        for pfn in self.alloc.map.touched() {
            let page = self.alloc.map.page(pfn);
            let is_nothing = page.block().is_reserved() && page.block_flags().is_empty();
            if self.seen(pfn) == Place::Nowhere && !is_nothing {
                let found = format!("in no zone has {:?}", page.block_flags());
                let (rule, zone) = (Rule::Reserved, None);
                return Err(AuditError { rule, zone, pfn: Some(pfn), found });
            }
        }
        Ok(())
    }
}
