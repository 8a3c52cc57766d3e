//! LRU lists: each page is on the list that its flags name, and sizes equal the lists' lengths.

use alloc::format;
use alloc::vec;

use super::kernel::{Found, KernelAudit};
use super::lists::walk;
use super::{AuditError, Rule};
use crate::host::{CpuId, Devices, Lock};
use crate::lru::{BatchKind, LruKind};
use crate::page::{BlockFlags, PageFlags, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::LruVecId;
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::ZoneType;

impl<H: Devices> KernelAudit<'_, '_, H> {
    pub(super) fn lists(&mut self) -> Result<(), AuditError> {
        let nr_vecs = self.k.lru.nr_vecs();
        let mut sizes = vec![[[0_u64; LruKind::COUNT]; ZoneType::COUNT]; nr_vecs];
        for (id, vec) in self.k.lru.iter() {
            let lists = vec.lists.lock(self.cx.cpu()).lists;
            for (list, kind) in lists.iter().zip(LruKind::ALL) {
                let pages = walk(&self.k.mem.map, list)
                    .or_else(|(rule, pfn, found)| self.broken(pfn, rule, found))?;
                for pfn in pages {
                    let zone = self.listed(id, kind, pfn)?;
                    sizes[id.idx()][zone][kind as usize] += self.page(pfn).order().pages();
                }
            }
        }
        // The unevictable list is not linked.
        let k = self.k;
        for pfn in k.mem.map.touched() {
            let page = self.page(pfn);
            if page.is(PageFlags::LRU | PageFlags::UNEVICTABLE) && page.has(BlockFlags::USED) {
                let id = self.k.lruvec_of(page);
                let zone = self.listed(id, LruKind::Unevictable, pfn)?;
                let pages = page.order().pages();
                sizes[id.idx()][zone][LruKind::Unevictable as usize] += pages;
            }
        }
        self.sizes(&sizes)?;
        self.deferred()?;
        for cpu in self.k.mem.cpus() {
            self.batches(cpu)?;
        }
        Ok(())
    }

    /// Folios that say they wait to be split are on the queue of their node, and only those.
    fn deferred(&self) -> Result<(), AuditError> {
        let mut nr_queued = 0;
        for (node, queue) in self.k.lru.deferred.iter().enumerate() {
            let queue = *queue.lock(self.cx.cpu());
            let links = walk(&self.k.mem.map, &queue)
                .or_else(|(rule, pfn, found)| self.broken(pfn, rule, found))?;
            nr_queued += links.len();
            for second in links {
                let (folio, page) = self.in_folio(second, "the queue of splits")?;
                let is_right = folio.pfn().add(1) == second
                    && page.is(PageFlags::DEFERRED)
                    && page.node().idx() == node;
                if !is_right {
                    let found = format!("waits to be split on node {node}: {:?}", page.flags());
                    return self.broken(second, Rule::Deferred, found);
                }
            }
        }
        let says = |pfn: &Pfn| {
            let page = self.page(*pfn);
            page.has(BlockFlags::USED) && page.is(PageFlags::DEFERRED)
        };
        let nr_say = self.k.mem.map.touched().filter(says).count();
        if nr_say != nr_queued {
            let found = format!("{nr_say} folios wait to be split, {nr_queued} are queued");
            return self.broken(None, Rule::Deferred, found);
        }
        Ok(())
    }

    fn sizes(&self, sizes: &[[[u64; LruKind::COUNT]; ZoneType::COUNT]]) -> Result<(), AuditError> {
        for ((id, vec), zones) in self.k.lru.iter().zip(sizes) {
            for (zone, (found, counted)) in zones.iter().zip(&vec.sizes).enumerate() {
                for kind in LruKind::ALL {
                    let counted = counted[kind as usize].load(Relaxed);
                    let found = found[kind as usize];
                    if counted != found {
                        let found = format!(
                            "{kind:?} of lists {id:?}, zone type {zone}, counts {counted} pages \
                             and has {found}"
                        );
                        return self.broken(None, Rule::LruSize, found);
                    }
                }
            }
        }
        Ok(())
    }

    /// The page is on a list; the type of its zone.
    fn listed(&mut self, id: LruVecId, kind: LruKind, pfn: Pfn) -> Result<usize, AuditError> {
        let (folio, page) = self.in_folio(pfn, "an LRU list")?;
        let flags = page.flags();
        let is_right = folio.pfn() == pfn
            && flags.contains(PageFlags::LRU)
            && LruKind::of(flags) == kind
            && self.k.lruvec_of(page) == id;
        let entry = &mut self.uses[pfn];
        if !is_right || entry.is.contains(Found::LISTED) {
            let found = format!("is on {kind:?} of lists {id:?}, has {flags:?}");
            return self.broken(pfn, Rule::LruList, found);
        }
        entry.is |= Found::LISTED;
        let pages = folio.nr_pages();
        self.report.on_lists += pages;
        self.count(page, node_item(kind), pages);
        self.count_zone(page, zone_item(kind), pages);
        Ok(page.zone_id().zone_type().idx())
    }

    fn batches(&mut self, cpu: CpuId) -> Result<(), AuditError> {
        let mut waiting = vec![];
        self.k.lru.batches[cpu.idx()].each(self.cx.cpu(), |kind, pfn| waiting.push((kind, pfn)));
        for (kind, folio) in waiting {
            let pfn = folio.pfn();
            self.in_folio(pfn, "a batch")?;
            let to_list = matches!(kind, BatchKind::Add | BatchKind::Mlock);
            self.refer(pfn, if to_list { Found::TO_LIST } else { Found::empty() });
            self.report.in_batches += 1;
        }
        Ok(())
    }

    /// A page that says it is on a list is on one, and whatever can be reclaimed is on a list or on
    /// its way there.
    pub(super) fn on_a_list(&self, pfn: Pfn) -> Result<(), AuditError> {
        let page = self.page(pfn);
        let found = self.uses[pfn].is;
        if page.is(PageFlags::LRU) != found.contains(Found::LISTED) {
            let found = format!("is on no list, has {:?}", page.flags());
            return self.broken(pfn, Rule::LruList, found);
        }
        let belongs = found.intersects(Found::FILE | Found::SWAP | Found::ANON);
        if belongs && !found.intersects(Found::LISTED | Found::TO_LIST) {
            let found = format!("is on no list and in no batch, has {:?}", page.flags());
            return self.broken(pfn, Rule::OffLists, found);
        }
        Ok(())
    }
}

// The audit's own tables: the lists' operations have theirs.

fn node_item(kind: LruKind) -> NodeStat {
    match kind {
        LruKind::InactiveAnon => NodeStat::InactiveAnon,
        LruKind::ActiveAnon => NodeStat::ActiveAnon,
        LruKind::InactiveFile => NodeStat::InactiveFile,
        LruKind::ActiveFile => NodeStat::ActiveFile,
        LruKind::Unevictable => NodeStat::Unevictable,
    }
}

fn zone_item(kind: LruKind) -> ZoneStat {
    match kind {
        LruKind::InactiveAnon => ZoneStat::ZoneInactiveAnon,
        LruKind::ActiveAnon => ZoneStat::ZoneActiveAnon,
        LruKind::InactiveFile => ZoneStat::ZoneInactiveFile,
        LruKind::ActiveFile => ZoneStat::ZoneActiveFile,
        LruKind::Unevictable => ZoneStat::ZoneUnevictable,
    }
}
