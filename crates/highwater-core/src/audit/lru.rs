//! LRU lists: each page is on the list that its flags name, and sizes equal the lists' lengths.

use alloc::format;
use alloc::vec;

use super::kernel::{Found, KernelAudit};
use super::lists::walk;
use super::{AuditError, Rule};
use crate::host::{CpuId, Devices, Lock};
use crate::lru::generations::{GENERATIONS, Window, slot_of_page};
use crate::lru::{BatchKind, LruKind, PageType};
use crate::page::{BlockFlags, PageFlags, PageList, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::LruVecId;
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::ZoneType;

/// Pages by lists, zone type and list.
type Sizes = [[[u64; LruKind::COUNT]; ZoneType::COUNT]];

impl<H: Devices> KernelAudit<'_, '_, H> {
    pub(super) fn lists(&mut self) -> Result<(), AuditError> {
        let nr_vecs = self.k.lru.nr_vecs();
        let mut sizes = vec![[[0_u64; LruKind::COUNT]; ZoneType::COUNT]; nr_vecs];
        for (id, vec) in self.k.lru.iter() {
            let lists = vec.lists.lock(self.cx.cpu()).lists;
            self.generations(id, &mut sizes)?;
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

    /// Under MGLRU: the pages of each generation's lists, which go on with those that were promoted
    /// since, and the sizes, which go by the pages' own numbers.
    fn generations(&mut self, id: LruVecId, sizes: &mut Sizes) -> Result<(), AuditError> {
        let k = self.k;
        let vec = k.lru.vec(id);
        let lists = vec.lists.lock(self.cx.cpu());
        let (Some(gens), Some(queues)) = (&vec.generations, &lists.queues) else { return Ok(()) };
        let mut found = [[[0_i64; ZoneType::COUNT]; 2]; GENERATIONS];
        let places = (0..GENERATIONS)
            .flat_map(|slot| PageType::ALL.map(|page_type| (slot, page_type)))
            .flat_map(|(slot, page_type)| ZoneType::ALL.map(|zone| (slot, page_type, zone)));
        for place in places {
            let mut newer = None;
            for pfn in queues.pages(&k.mem.map, place) {
                let page = self.page(pfn);
                if PageList::neighbours(&k.mem.map, pfn).0 != newer {
                    return self.broken(pfn, Rule::LruList, format!("links of {place:?}"));
                }
                newer = Some(pfn);
                let flags = page.flags();
                let is_of = (PageType::of(page), page.zone_id().zone_type());
                let Some(own) = slot_of_page(flags).filter(|_| is_of == (place.1, place.2)) else {
                    let found = format!("is on the list {place:?}, has {flags:?}");
                    return self.broken(pfn, Rule::LruList, found);
                };
                let zone = self.listed(id, k.list_of(id, flags), pfn)?;
                let pages = page.order().pages();
                found[own][is_of.0 as usize][zone] += pages as i64;
                sizes[id.idx()][zone][k.list_of(id, flags) as usize] += pages;
            }
        }
        for (slot, types) in found.iter().enumerate() {
            for (page_type, zones) in PageType::ALL.into_iter().zip(types) {
                for (zone, &found) in zones.iter().enumerate() {
                    let counted = gens.exact_size(slot, page_type, zone);
                    if counted != found {
                        let found = format!(
                            "place {slot} of {page_type:?} of lists {id:?}, zone type {zone}, \
                             counts {counted} pages and has {found}"
                        );
                        return self.broken(None, Rule::LruSize, found);
                    }
                }
            }
        }
        let [anon, file] = PageType::ALL.map(|page_type| gens.window(page_type));
        let is_right = |window: Window| (2..=GENERATIONS as u64).contains(&window.len());
        if !is_right(anon) || !is_right(file) {
            let found = format!("generations of lists {id:?}: {anon:?}, {file:?}");
            return self.broken(None, Rule::LruSize, found);
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

    fn sizes(&self, sizes: &Sizes) -> Result<(), AuditError> {
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
            && self.k.list_of(id, flags) == kind
            && (slot_of_page(flags).is_none() || !flags.contains(PageFlags::ACTIVE))
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
