//! The lists: links, lengths, labels, blocks that lie where they may.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Audit, AuditError, Place, Rule};
use crate::config::{HighatomicKind, PcpLists};
use crate::host::{CpuId, Host};
use crate::page::map::CHUNK;
use crate::page::{BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, PageList, PageMap, Pfn};
use crate::page_alloc::Pcp;
use crate::sync::atomic::Ordering::Relaxed;
use crate::zone::{FreeArea, FreshRun, Zone};

/// Marks that only the head of a block carries, and the one that only the others do.
pub(super) const INNER_MARKS: BlockFlags = BlockFlags::BUDDY
    .union(BlockFlags::PCP)
    .union(BlockFlags::HEAD)
    .union(BlockFlags::USED)
    .union(BlockFlags::TAIL);

/// Contents of a zone's free lists.
#[derive(Default)]
pub(super) struct FreeCount {
    /// Blocks by order.
    pub(super) blocks: [u32; crate::page::MAX_ORDER],
    /// Types with blocks by order, bit = type.
    pub(super) types: [u8; crate::page::MAX_ORDER],
    /// Pages, those of isolated blocks left out.
    pub(super) pages: u64,
    /// Pages of high-atomic blocks.
    pub(super) highatomic: u64,
}

impl<H: Host> Audit<'_, H> {
    /// Walks a zone's buddy lists.
    pub(super) fn free_lists(
        &mut self,
        zone: &Zone<H>,
        area: &FreeArea,
    ) -> Result<FreeCount, AuditError> {
        let mut count = FreeCount::default();
        let mut heads: Vec<(Pfn, Order)> = Vec::new();
        for (o, lists) in area.lists.iter().enumerate() {
            let order = Order(o as u8);
            for (list, migratetype) in lists.iter().zip(MigrateType::ALL) {
                for pfn in self.walk(zone, list)? {
                    self.label(zone, pfn, BlockFlags::BUDDY, order, migratetype)?;
                    self.claim_block(zone, pfn, order, Place::Free)?;
                    self.unowned(zone, pfn)?;
                    heads.push((pfn, order));
                    count.blocks[o] += 1;
                    count.types[o] |= 1 << migratetype as u8;
                    if migratetype != MigrateType::Isolate {
                        count.pages += 1 << o;
                    }
                    if migratetype == MigrateType::HighAtomic {
                        count.highatomic += 1 << o;
                    }
                    self.report.free += 1 << o;
                    self.report.free_blocks += 1;
                }
            }
        }
        for (pfn, order) in heads {
            self.merged(zone, pfn, order)?;
        }
        self.fresh(zone, area, &mut count)?;
        Ok(count)
    }

    /// Counts blocks that were never touched since boot. They follow the first block of their run,
    /// which is on its list.
    fn fresh(
        &mut self,
        zone: &Zone<H>,
        area: &FreeArea,
        count: &mut FreeCount,
    ) -> Result<(), AuditError> {
        let map = &self.alloc.map;
        let chunks = (zone.start.0.next_multiple_of(CHUNK)..zone.end.0).step_by(CHUNK as usize);
        let (mut nr, mut nr_astray) = (0, 0);
        for pfn in chunks.map(Pfn).filter(|&pfn| map.is_fresh(pfn)) {
            let is_right = |run: &FreshRun| {
                (run.first..run.end).contains(&pfn)
                    && map.block(pfn).migratetype() == run.migratetype
                    && map.block(pfn).zone_id() == zone.id()
            };
            nr += 1;
            nr_astray += u32::from(!area.fresh.as_ref().is_some_and(is_right));
            self.unowned(zone, pfn)?;
        }
        let is_first_there =
            |run: &FreshRun| self.seen(run.first) == Place::Free && !map.is_fresh(run.first);
        let says = area.fresh.as_ref().map_or(0, |run| run.nr_left);
        if says != nr || nr_astray != 0 || !area.fresh.as_ref().is_none_or(is_first_there) {
            let found = format!("{nr} fresh blocks, {nr_astray} astray, of {:?}", area.fresh);
            return self.broken(zone, None, Rule::Length, found);
        }
        if let Some(run) = &area.fresh
            && nr > 0
        {
            count.blocks[Order::MAX.idx()] += nr;
            count.types[Order::MAX.idx()] |= 1 << run.migratetype as u8;
            let pages = u64::from(nr) * Order::MAX.pages();
            count.pages += pages;
            if run.migratetype == MigrateType::HighAtomic {
                count.highatomic += pages;
            }
            self.report.free += u64::from(nr) * Order::MAX.pages();
            self.report.free_blocks += u64::from(nr);
        }
        Ok(())
    }

    /// Walks a CPU's lists of a zone.
    pub(super) fn pcp_lists(
        &mut self,
        zone: &Zone<H>,
        cpu: CpuId,
        pcp: &Pcp,
    ) -> Result<(), AuditError> {
        let kind = self.alloc.policy.pcp.lists;
        let mut pages = 0;
        for (index, list) in pcp.lists().iter().enumerate() {
            for pfn in list.iter() {
                if self.alloc.map.get(pfn).is_none() {
                    return self.broken(zone, pfn, Rule::PcpList, "no such frame".into());
                }
                let Some(order) = list_order(kind, index) else {
                    let found = format!("on list {index} of CPU {}, which has none", cpu.0);
                    return self.broken(zone, pfn, Rule::PcpList, found);
                };
                let page = self.alloc.map.page(pfn);
                let migratetype = page.migratetype();
                if !self.list_takes(kind, index, order, migratetype) {
                    let found = format!("type {migratetype:?} on list {index} of CPU {}", cpu.0);
                    return self.broken(zone, pfn, Rule::PcpList, found);
                }
                self.label(zone, pfn, BlockFlags::PCP, order, migratetype)?;
                self.claim_block(zone, pfn, order, Place::Pcp)?;
                self.unowned(zone, pfn)?;
                pages += order.pages();
            }
        }
        if u64::from(pcp.count()) != pages {
            let found =
                format!("CPU {} counts {} pages, its lists hold {pages}", cpu.0, pcp.count());
            return self.broken(zone, None, Rule::PcpCount, found);
        }
        self.report.pcp += pages;
        self.owned_lists(zone, cpu, pcp)
    }

    /// A free block that is not with an owner lies in no owned pageblock.
    fn unowned(&self, zone: &Zone<H>, pfn: Pfn) -> Result<(), AuditError> {
        match zone.owner(pfn) {
            Some(cpu) => {
                let found = format!("free elsewhere, its pageblock is CPU {}'s", cpu.0);
                self.broken(zone, pfn, Rule::Owner, found)
            }
            None => Ok(()),
        }
    }

    /// Walks the free part of the pageblocks that a CPU owns (rules/per-cpu-lists#owned-blocks).
    fn owned_lists(&mut self, zone: &Zone<H>, cpu: CpuId, pcp: &Pcp) -> Result<(), AuditError> {
        let map = &self.alloc.map;
        let mut pages = 0;
        for (order, migratetype, list) in pcp.owned().lists() {
            for pfn in self.walk(zone, list)? {
                self.label(zone, pfn, BlockFlags::PCP, order, migratetype)?;
                self.claim_block(zone, pfn, order, Place::Pcp)?;
                if zone.owner(pfn) != Some(cpu) {
                    let found = format!("on CPU {}'s, owned by {:?}", cpu.0, zone.owner(pfn));
                    return self.broken(zone, pfn, Rule::Owner, found);
                }
                let buddy = map.page(Pfn(pfn.0 ^ (1 << order.0))).block();
                if order.0 < PAGEBLOCK_ORDER && buddy.has(BlockFlags::PCP) && buddy.order() == order
                {
                    let found = format!("and its buddy are both free with their owner, {order:?}");
                    return self.broken(zone, pfn, Rule::Merged, found);
                }
                pages += order.pages();
            }
        }
        if u64::from(pcp.owned().pages()) != pages {
            let counts = pcp.owned().pages();
            let found = format!("CPU {} counts {counts} owned pages, it has {pages}", cpu.0);
            return self.broken(zone, None, Rule::PcpCount, found);
        }
        self.report.pcp += pages;
        Ok(())
    }

    fn walk(&self, zone: &Zone<H>, list: &PageList) -> Result<Vec<Pfn>, AuditError> {
        walk(&self.alloc.map, list)
            .or_else(|(rule, pfn, found)| self.broken(zone, pfn, rule, found))
    }

    /// Checks that a frame's descriptor names its list.
    fn label(
        &self,
        zone: &Zone<H>,
        pfn: Pfn,
        mark: BlockFlags,
        order: Order,
        migratetype: MigrateType,
    ) -> Result<(), AuditError> {
        let page = self.alloc.map.page(pfn);
        if page.block_flags() & INNER_MARKS != mark {
            let found = format!("flags {:?} on a list of {mark:?}", page.block_flags());
            return self.broken(zone, pfn, Rule::Label, found);
        }
        if page.order() != order || page.migratetype() != migratetype {
            let found = format!(
                "says {:?} {:?}, its list is {order:?} {migratetype:?}",
                page.order(),
                page.migratetype()
            );
            return self.broken(zone, pfn, Rule::Label, found);
        }
        if page.zone_id() != zone.id() {
            return self.broken(zone, pfn, Rule::Label, "belongs to another zone".into());
        }
        if page.refcount() != 0 {
            let found = format!("is free and has {} users", page.refcount());
            return self.broken(zone, pfn, Rule::Users, found);
        }
        Ok(())
    }

    /// Claims a block's frames for one place; no other place may claim them.
    fn claim_block(
        &mut self,
        zone: &Zone<H>,
        pfn: Pfn,
        order: Order,
        place: Place,
    ) -> Result<(), AuditError> {
        let size = 1u32 << order.0;
        let end = pfn.0.checked_add(size);
        let inside = pfn >= zone.start && end.is_some_and(|end| end <= zone.end.0);
        if !pfn.0.is_multiple_of(size) || !inside {
            let found = format!("{order:?} block in {:?}..{:?}", zone.start, zone.end);
            return self.broken(zone, pfn, Rule::Alignment, found);
        }
        for at in pfn.0..pfn.0 + size {
            let seen = self.seen(Pfn(at));
            if seen != Place::Nowhere {
                let found = format!("of the block at {pfn:?} ({place:?}) is {seen:?} already");
                return self.broken(zone, Pfn(at), Rule::OnePlace, found);
            }
            self.note(Pfn(at), place);
            let flags = self.alloc.map.page(Pfn(at)).block_flags();
            if at != pfn.0 && flags.intersects(INNER_MARKS) {
                let found = format!("inside the free block at {pfn:?} has {flags:?}");
                return self.broken(zone, Pfn(at), Rule::Tail, found);
            }
        }
        Ok(())
    }

    /// From pageblock size on, types may keep buddies apart, and a type may have changed since.
    fn merged(&self, zone: &Zone<H>, pfn: Pfn, order: Order) -> Result<(), AuditError> {
        let buddy = Pfn(pfn.0 ^ (1 << order.0));
        if order.0 >= PAGEBLOCK_ORDER || buddy < zone.start || buddy >= zone.end {
            return Ok(());
        }
        let page = self.alloc.map.page(buddy);
        let free =
            self.seen(buddy) == Place::Free && page.block_flags().contains(BlockFlags::BUDDY);
        if free && page.order() == order {
            let found = format!("and its buddy {buddy:?} are both free, {order:?}");
            return self.broken(zone, pfn, Rule::Merged, found);
        }
        Ok(())
    }

    /// May a block of this type be on this list? High-atomic blocks travel with movable ones; 4.3's
    /// reserve serves every type.
    fn list_takes(&self, kind: PcpLists, index: usize, order: Order, t: MigrateType) -> bool {
        let of_list = |t: MigrateType| match (order.0, kind) {
            (PAGEBLOCK_ORDER, PcpLists::HighOrder14) => {
                index == 12 + usize::from(t == MigrateType::Movable)
            }
            (PAGEBLOCK_ORDER, _) => index == 12 + t as usize,
            (o, _) => index == 3 * usize::from(o) + t as usize,
        };
        match t {
            MigrateType::Unmovable | MigrateType::Movable | MigrateType::Reclaimable => of_list(t),
            MigrateType::HighAtomic => {
                self.alloc.policy.highatomic == HighatomicKind::Reserve
                    || of_list(MigrateType::Movable)
            }
            MigrateType::Isolate => false,
        }
    }
}

/// Follows a list's links from head to tail; the frames, or the rule that is broken.
pub(super) fn walk(
    map: &PageMap,
    list: &PageList,
) -> Result<Vec<Pfn>, (Rule, Option<Pfn>, String)> {
    let mut frames = Vec::new();
    let mut before: Option<Pfn> = None;
    let mut at = list.head();
    while let Some(pfn) = at {
        if frames.len() >= map.len() {
            return Err((Rule::Links, at, "the list is a circle".into()));
        }
        let Some(page) = map.get(pfn) else {
            return Err((Rule::Links, at, "no such frame".into()));
        };
        let link = |word: u32| (word != u32::MAX).then_some(Pfn(word));
        let prev = link(page.prev.load(Relaxed));
        if prev != before {
            let found = format!("reached from {before:?}, points back to {prev:?}");
            return Err((Rule::Links, at, found));
        }
        frames.push(pfn);
        before = at;
        at = link(page.next.load(Relaxed));
    }
    if list.tail() != before {
        let found = format!("the list ends here, but calls {:?} its tail", list.tail());
        return Err((Rule::Links, before, found));
    }
    if list.len() as usize != frames.len() {
        let found = format!("a list of {} blocks says {}", frames.len(), list.len());
        return Err((Rule::Length, list.head(), found));
    }
    Ok(frames)
}

/// The order of a per-CPU list; none if the policy has no such list (rules/per-cpu-lists#shape).
fn list_order(kind: PcpLists, index: usize) -> Option<Order> {
    let lists = match kind {
        PcpLists::Order0 => 3,
        PcpLists::HighOrder14 => 14,
        PcpLists::HighOrder15 => 15,
    };
    match index {
        i if i >= lists => None,
        0..12 => Some(Order((index / 3) as u8)),
        _ => Some(Order(PAGEBLOCK_ORDER)),
    }
}
