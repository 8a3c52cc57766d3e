//! A zone's counters against the contents of its lists.

use alloc::format;

use super::lists::FreeCount;
use super::{Audit, AuditError, Rule};
use crate::config::HighatomicKind;
use crate::host::Host;
use crate::page::{MAX_ORDER, MigrateType, Order, PAGEBLOCK_PAGES};
use crate::zone::Zone;

impl<H: Host> Audit<'_, H> {
    pub(super) fn zone_counters(&self, zone: &Zone<H>, count: FreeCount) -> Result<(), AuditError> {
        for o in 0..MAX_ORDER {
            let order = Order(o as u8);
            let (blocks, types) = (zone.nr_free_blocks(order), zone.list_types(order));
            if blocks != count.blocks[o] {
                let found = format!("nr_free of {order:?} is {blocks}, not {}", count.blocks[o]);
                return self.broken(zone, None, Rule::BlockCounts, found);
            }
            if types != count.types[o] {
                let found = format!("types of {order:?} are {types:#b}, not {:#b}", count.types[o]);
                return self.broken(zone, None, Rule::BlockCounts, found);
            }
        }
        let nr_free = zone.nr_free_pages_exact();
        if nr_free != count.pages {
            let found = format!("{nr_free} free pages are counted, {} listed", count.pages);
            return self.broken(zone, None, Rule::FreePages, found);
        }
        let highatomic = zone.nr_free_highatomic();
        if highatomic != count.highatomic {
            let found = format!("{highatomic} high-atomic pages, not {}", count.highatomic);
            return self.broken(zone, None, Rule::HighAtomic, found);
        }
        self.pageblocks(zone)
    }

    fn pageblocks(&self, zone: &Zone<H>) -> Result<(), AuditError> {
        let mut highatomic = 0;
        for (i, raw) in zone.raw_pageblock_types().enumerate() {
            let mergeable = usize::from(raw) < MigrateType::PCP_TYPES;
            let grouped = zone.grouping || !mergeable || raw == MigrateType::Unmovable as u8;
            if usize::from(raw) >= MigrateType::COUNT || !grouped {
                let found = format!("pageblock {i} of the zone has type {raw}");
                return self.broken(zone, None, Rule::PageblockType, found);
            }
            highatomic += u64::from(raw == MigrateType::HighAtomic as u8);
        }
        // Claiming an order-10 block may take a pageblock of the reserve without returning it to
        // the count (as in Linux), so the count may be larger.
        let reserved = zone.nr_reserved_highatomic();
        let right = match self.alloc.policy.highatomic {
            HighatomicKind::Reserve => reserved == 0,
            HighatomicKind::HighAtomic => {
                reserved.is_multiple_of(PAGEBLOCK_PAGES) && reserved >= highatomic * PAGEBLOCK_PAGES
            }
        };
        if !right {
            let found = format!("{reserved} pages reserved, {highatomic} pageblocks");
            return self.broken(zone, None, Rule::HighAtomic, found);
        }
        Ok(())
    }
}
