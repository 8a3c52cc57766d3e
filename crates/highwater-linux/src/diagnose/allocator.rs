//! The zones of a report in our allocator: marks, reserves and free lists as printed, and the
//! request made there.
//!
//! A report has counts of free blocks, not their frames. Each block gets frames of its own, apart
//! from its buddy, so that nothing merges. Memory in use is left out: a request that neither
//! reclaims nor compacts does not look at it.

use std::collections::BTreeMap;

use highwater_core::config::{Machine, NodeSpec, ZoneSpec};
use highwater_core::host::{CpuId, Cx, Solo};
use highwater_core::page::{MAX_ORDER, MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pfn};
use highwater_core::page_alloc::{Block, Gfp, NoRelief, PageAllocator, ZoneState, boot};
use highwater_core::zone::watermark::Marks;
use highwater_core::zone::{NodeId, ZoneType};
use highwater_results::import::log::{FreeBlocks, Report, Zone};

use super::judge::{Judge, gfp_of};
use super::zone::{ZoneRow, page_size};

/// The model has pages of 4 KiB.
const MODEL_PAGE: u64 = 4096;
/// Most free pages that are rebuilt: 2 GiB, whose frames take about 50 MB.
const FREE_MAX: u64 = 1 << 19;
/// Frames between zones, so that blocks of two zones are never buddies.
const ALIGN: u64 = 1 << MAX_ORDER;

/// The outcome in our allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebuilt {
    /// The request got a block in this zone.
    Served {
        /// Node of the log.
        node: Option<u32>,
        /// Zone.
        zone: String,
    },
    /// It was refused.
    Refused {
        /// Free blocks that were rebuilt.
        blocks: u64,
    },
    /// The zones cannot be rebuilt, and why.
    NotTried(&'static str),
}

/// Rebuilds the zones that the request may use, and makes it.
pub(super) fn try_request(report: &Report, judge: &Judge, rows: &[ZoneRow<'_>]) -> Rebuilt {
    let Some(rights) = judge.rights else {
        return Rebuilt::NotTried("the request is not in the text");
    };
    let Some(rules) = report.request.gfp.as_ref().and_then(|gfp| gfp.rules) else {
        return Rebuilt::NotTried("the flags of the request are not known");
    };
    if page_size(report) != MODEL_PAGE {
        return Rebuilt::NotTried("pages are larger than the model's 4 kB");
    }
    if usize::from(rights.order) >= MAX_ORDER {
        return Rebuilt::NotTried("the order is above the model's largest");
    }
    let allowed: Vec<&ZoneRow<'_>> =
        rows.iter().filter(|row| row.allowed == Some(true) && row.is_populated()).collect();
    match Shape::of(&allowed, judge, rights.movable) {
        Ok(shape) => shape.ask(judge, one_round(gfp_of(&rules)), Order(rights.order), &allowed),
        Err(why) => Rebuilt::NotTried(why),
    }
}

/// The flags of a request that ends after one round. Here nobody frees memory, so a request without
/// `__GFP_FS`, or one that must not fail, would go round forever. Rights to marks and blocks do not
/// depend on these flags.
fn one_round(gfp: Gfp) -> Gfp {
    (gfp - (Gfp::NOFAIL | Gfp::RETRY_MAYFAIL)) | Gfp::NORETRY
}

/// A machine that holds the free blocks, and its states by node and zone.
struct Shape {
    machine: Machine,
    states: BTreeMap<(u16, ZoneType), ZoneState>,
    /// Node numbers of the log by those of the machine.
    nodes: Vec<Option<u32>>,
    nr_blocks: u64,
}

impl Shape {
    fn of(rows: &[&ZoneRow<'_>], judge: &Judge, movable: bool) -> Result<Shape, &'static str> {
        if rows.is_empty() {
            return Err("no zone that the request may use has memory");
        }
        let mut nodes: Vec<Option<u32>> = rows.iter().map(|row| row.zone.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut shape = Shape {
            machine: Machine { name: "log".to_owned(), ..Machine::default() },
            states: BTreeMap::new(),
            nr_blocks: 0,
            nodes,
        };
        let nr = shape.nodes.len();
        let distance = |from, to| if from == to { 10 } else { 20 };
        shape.machine.distances =
            (0..nr).map(|from| (0..nr).map(|to| distance(from, to)).collect()).collect();
        let mut next = 0;
        for (index, node) in shape.nodes.clone().into_iter().enumerate() {
            let cpus = vec![index as u16];
            let mut own: Vec<(ZoneType, &Zone)> = Vec::new();
            for row in rows.iter().filter(|row| row.zone.node == node) {
                let zone = zone_type(&row.zone.name)?;
                if own.iter().any(|(other, _)| *other == zone) {
                    return Err("a zone is in the text twice");
                }
                own.push((zone, row.zone));
            }
            own.sort_by_key(|(zone, _)| *zone);
            let mut zones = Vec::new();
            for (zone, printed) in own {
                let (state, end, nr_blocks) = place(printed, next, judge, movable)?;
                shape.nr_blocks += nr_blocks;
                zones.push(ZoneSpec::full(zone, next, end - next));
                shape.states.insert((index as u16, zone), state);
                next = end;
            }
            shape.machine.nodes.push(NodeSpec { cpus, zones });
        }
        Ok(shape)
    }

    fn ask(&self, judge: &Judge, gfp: Gfp, order: Order, rows: &[&ZoneRow<'_>]) -> Rebuilt {
        let host = Solo::default();
        let Ok(memory) = boot(&host, &self.machine, &judge.policy) else {
            return Rebuilt::NotTried("the model cannot boot such zones");
        };
        let cx = Cx::new(&host, CpuId(0));
        if !self.restore(&memory, &cx, rows) {
            return Rebuilt::NotTried("the model cannot hold these lists");
        }
        let Some(pfn) = memory.alloc(&cx, &NoRelief, gfp, order, NodeId(0), None) else {
            return Rebuilt::Refused { blocks: self.nr_blocks };
        };
        let zone = memory.zone_of(pfn);
        let node =
            zone.and_then(|zone| self.nodes.get(usize::from(zone.node.0)).copied().flatten());
        Rebuilt::Served { node, zone: zone.map_or_else(String::new, |zone| zone.zone.to_string()) }
    }

    /// Free lists first, then marks and reserves as printed. False if a list does not fit.
    fn restore(
        &self,
        memory: &PageAllocator<Solo>,
        cx: &Cx<'_, Solo>,
        rows: &[&ZoneRow<'_>],
    ) -> bool {
        for (index, node) in self.nodes.iter().enumerate() {
            for row in rows.iter().filter(|row| row.zone.node == *node) {
                let Ok(zone) = zone_type(&row.zone.name) else { return false };
                let at = index as u16;
                let (Some(zone), Some(state)) =
                    (memory.zone(NodeId(at), zone), self.states.get(&(at, zone)))
                else {
                    return false;
                };
                if memory.restore(cx, zone, state).is_err() {
                    return false;
                }
                let pages = |kb: Option<u64>| kb.unwrap_or(0).min(1 << 52) * 1024 / MODEL_PAGE;
                let (min, low, high) =
                    (pages(row.min_kb), pages(row.zone.low), pages(row.zone.high));
                zone.set_marks(&Marks { min, low, high, promo: high });
                // One column holds for this request; the others are not asked for.
                zone.set_lowmem_reserves(&[row.reserve_pages.unwrap_or(0).min(1 << 52); 5]);
            }
        }
        memory.refresh_reserves();
        true
    }
}

fn zone_type(name: &str) -> Result<ZoneType, &'static str> {
    match name {
        "DMA" => Ok(ZoneType::Dma),
        "DMA32" => Ok(ZoneType::Dma32),
        "Normal" => Ok(ZoneType::Normal),
        "Movable" => Ok(ZoneType::Movable),
        "HighMem" => Err("the model has no HighMem"),
        _ => Err("the model has no such zone"),
    }
}

/// Gives each free block frames from `start` on: high-atomic ones in pageblocks of their own, the
/// others by size. Returns the state, the end of the zone, and the number of blocks.
fn place(
    zone: &Zone,
    start: u64,
    judge: &Judge,
    movable: bool,
) -> Result<(ZoneState, u64, u64), &'static str> {
    let Some(list) = &zone.list else { return Err("a zone has no free lists in the text") };
    let is_mixed = |block: &FreeBlocks| block.types.len() > 1 && block.types.contains('C');
    if !movable && list.blocks.iter().any(is_mixed) {
        return Err("which of the blocks are CMA is not in the text");
    }
    let mut wanted: Vec<(u8, MigrateType, u64)> = Vec::new();
    let mut nr_pages = 0_u64;
    for block in &list.blocks {
        let Some(order) = u8::try_from(block.order).ok().filter(|o| usize::from(*o) < MAX_ORDER)
        else {
            if block.count == 0 {
                continue;
            }
            return Err("blocks are larger than the model's largest");
        };
        nr_pages = nr_pages.saturating_add(block.count.saturating_mul(1 << order));
        if nr_pages > FREE_MAX {
            return Err("more than 2 GiB are free");
        }
        // One block of each printed type; the rest are of the first.
        let letters: Vec<MigrateType> =
            block.types.chars().filter_map(|letter| migratetype(letter, judge, movable)).collect();
        let nr_unusable = block.types.chars().count() - letters.len();
        let mut left = block.count.saturating_sub(nr_unusable as u64);
        if block.types.is_empty() {
            wanted.push((order, MigrateType::Movable, left));
            continue;
        }
        for (at, migratetype) in letters.iter().enumerate() {
            let others = (letters.len() - 1 - at) as u64;
            let own = if at == 0 { left.saturating_sub(others) } else { left.min(1) };
            left -= own;
            wanted.push((order, *migratetype, own));
        }
    }
    Ok(laid_out(&wanted, start, zone))
}

fn laid_out(wanted: &[(u8, MigrateType, u64)], start: u64, zone: &Zone) -> (ZoneState, u64, u64) {
    let mut state = ZoneState::default();
    let (mut at, mut nr_blocks) = (start, 0);
    let mut by_size = wanted.to_vec();
    by_size.sort_by_key(|(order, migratetype, _)| (*migratetype, std::cmp::Reverse(*order)));
    let mut last = None;
    for (order, migratetype, count) in by_size {
        // Pageblocks have one type.
        if last != Some(migratetype) {
            at = at.next_multiple_of(ALIGN);
            last = Some(migratetype);
        }
        // Twice its size: its buddy stays in use.
        let slot = 2 << order;
        for _ in 0..count {
            at = at.next_multiple_of(slot);
            let block = Block { pfn: Pfn(at as u32), order: Order(order) };
            state.free.push((block, migratetype));
            state.pageblocks.push((block.pfn, migratetype));
            at += slot;
            nr_blocks += 1;
        }
    }
    // The size of the reserve decides, not only what of it is free.
    let aside = zone.free_highatomic.or(zone.reserved_highatomic);
    let reserved = aside.unwrap_or(0).min(1 << 52) * 1024 / MODEL_PAGE;
    let is_high = |(_, migratetype): &&(Pfn, MigrateType)| *migratetype == MigrateType::HighAtomic;
    let mut blocks: Vec<u32> =
        state.pageblocks.iter().filter(is_high).map(|(pfn, _)| pfn.0 >> PAGEBLOCK_ORDER).collect();
    blocks.dedup();
    at = at.next_multiple_of(ALIGN);
    for _ in blocks.len() as u64..reserved.min(FREE_MAX) / PAGEBLOCK_PAGES {
        state.pageblocks.push((Pfn(at as u32), MigrateType::HighAtomic));
        at += PAGEBLOCK_PAGES;
    }
    let end = at.next_multiple_of(ALIGN).max(start + ALIGN);
    (state, end, nr_blocks)
}

/// The type behind a letter; none if the request may not have it and the model has no such list.
fn migratetype(letter: char, judge: &Judge, movable: bool) -> Option<MigrateType> {
    match letter {
        'U' => Some(MigrateType::Unmovable),
        'E' => Some(MigrateType::Reclaimable),
        'H' if judge.policy.watermark.test == highwater_core::config::WatermarkTest::FreeBlock => {
            Some(MigrateType::HighAtomic)
        }
        'M' | 'R' => Some(MigrateType::Movable),
        // Movable pages may have CMA.
        'C' if movable => Some(MigrateType::Movable),
        _ => None,
    }
}
