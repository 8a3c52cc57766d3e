//! The layout of a zone whose free blocks are known by number.
//!
//! Three facts are known. Frames that a trace reveals, or that the booted kernel uses, keep their
//! place ([`Known`]). A captured state has the number of free blocks of each type and order, and of
//! pageblocks of each type. Everything else is in use and stays so. Free blocks are placed around
//! the known frames, largest first. Frames that a trace shows to be free and pageblocks of the
//! block's own type are preferred. No two free blocks may be able to merge, so the counts are
//! exactly the captured ones.
//!
//! Free blocks that are set aside start that way: HighAtomic and RESERVE blocks in the reserve, CMA
//! and isolated blocks on the list from which nothing is allocated. CMA is not modelled. Linux
//! serves movable requests from it, and the model does not; a report has the number of these pages.
//!
//! Without such counts, everything not known to be in use is free, as after boot.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use highwater_core::config::{PcpLists, Policy};
use highwater_core::host::{CpuId, Host};
use highwater_core::page::{MAX_ORDER, MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pfn};
use highwater_core::page_alloc::{Block, ZoneState};
use highwater_core::zone::Zone;
use highwater_files::machine_file::state::ZoneStart;

/// The types that have per-CPU lists, by index.
const TYPES: [MigrateType; MigrateType::PCP_TYPES] =
    [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

/// The types with which captured free blocks start: allocatable ones first, then those set aside.
const FREE_TYPES: [MigrateType; MigrateType::COUNT] = MigrateType::ALL;

/// A per-CPU list: CPU, order, migratetype.
pub type ListKey = (u32, u8, u8);

/// Known contents of a per-CPU list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListStart {
    /// First frames of blocks at the head, the one handed out first first.
    pub head: Vec<u64>,
    /// First frames of blocks at the tail, the last one first.
    pub tail: Vec<u64>,
    /// The list was refilled, so it held nothing else.
    pub is_complete: bool,
}

/// Blocks whose frames are known.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Contents of per-CPU lists.
    pub lists: &'a BTreeMap<ListKey, ListStart>,
    /// Blocks in use: first frame and order.
    pub used: &'a [(u64, u8)],
    /// Free blocks: first frame, order, migratetype.
    pub free: &'a [(u64, u8, u8)],
}

/// The zone to fill.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// First frame.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Pages that the allocator manages.
    pub managed: u64,
}

impl Place {
    /// The place of a booted zone.
    pub fn of<H: Host>(zone: &Zone<H>) -> Place {
        let (start, end) = (u64::from(zone.start.0), u64::from(zone.end.0));
        Place { start, end, managed: zone.managed() }
    }
}

/// A zone's state, and the counts that did not fit.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// The state.
    pub state: ZoneState,
    /// Free pages of the captured state for which there was no place.
    pub nr_unplaced: u64,
    /// Pages on per-CPU lists that are known only by number.
    pub nr_unknown_on_lists: u64,
}

/// Builds a zone's state from known blocks, and from the counts of a captured state if there is one.
pub fn place(zone: Place, known: Known<'_>, start: Option<&ZoneStart>, policy: &Policy) -> Placed {
    place_held(zone, known, start, policy, Held::Last)
}

/// The frame of a free block's buddy that stays in use, so that the two do not merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The last one: smaller blocks lie below it.
    Last,
    /// The one farthest from the block: blocks of falling size lie next to each other, as in a zone
    /// that is free but for a few pages.
    Farthest,
}

/// As [`place`], with a choice of the frames that stay in use.
pub fn place_held(
    zone: Place,
    known: Known<'_>,
    start: Option<&ZoneStart>,
    policy: &Policy,
    held: Held,
) -> Placed {
    let mut builder = Builder { held, ..Builder::new(zone) };
    builder.known_blocks(known, policy);
    match start {
        Some(start) => {
            let unknown = unknown_on_lists(zone, known, start);
            builder.captured_blocks(start, unknown.values().sum());
            builder.unknown_on_lists(known, &unknown);
        }
        None => builder.all_else_free(),
    }
    builder.placed
}

/// Pages on each CPU's lists beyond those that are known.
fn unknown_on_lists(zone: Place, known: Known<'_>, start: &ZoneStart) -> BTreeMap<u32, u64> {
    let of_cpu = |cpu: u32| -> u64 {
        let lists = known.lists.iter().filter(|((c, _, _), _)| *c == cpu);
        lists
            .flat_map(|((_, order, _), l)| l.head.iter().chain(&l.tail).map(|pfn| (*pfn, *order)))
            .filter(|(pfn, _)| (zone.start..zone.end).contains(pfn))
            .map(|(_, order)| 1 << order)
            .sum()
    };
    let counts = (0..).zip(&start.on_lists);
    counts.map(|(cpu, count)| (cpu, count.saturating_sub(of_cpu(cpu)))).collect()
}

/// Orders that some kernel's per-CPU lists hold (rules/per-cpu-lists#shape).
pub fn has_lists(order: u8) -> bool {
    order <= 3 || order == 9
}

/// The state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// Unknown.
    Unknown,
    /// The trace shows it to be free.
    KnownFree,
    /// Part of a block that has its place.
    Placed,
    /// In use, to keep its neighbour from merging.
    Blocked,
}

struct Builder {
    zone: Place,
    held: Held,
    frames: Vec<Frame>,
    types: BTreeMap<u64, MigrateType>,
    evidence: BTreeMap<u64, [u64; 3]>,
    nr_placed: u64,
    free_heads: HashSet<(u64, u8)>,
    /// Frames that the trace shows to be free.
    known_free: BTreeSet<u64>,
    placed: Placed,
}

impl Builder {
    fn new(zone: Place) -> Builder {
        Builder {
            zone,
            held: Held::Last,
            frames: vec![Frame::Unknown; (zone.end - zone.start) as usize],
            types: BTreeMap::new(),
            evidence: BTreeMap::new(),
            nr_placed: 0,
            free_heads: HashSet::new(),
            known_free: BTreeSet::new(),
            placed: Placed::default(),
        }
    }

    /// Blocks whose frames are known.
    fn known_blocks(&mut self, known: Known<'_>, policy: &Policy) {
        for &(pfn, order) in known.used {
            if let Some(block) = self.claim(pfn, order) {
                self.placed.state.used.push(block);
            }
        }
        for (&(cpu, order, migratetype), list) in known.lists {
            let migratetype = mergeable(migratetype);
            for &pfn in list.head.iter().chain(list.tail.iter().rev()) {
                let Some(block) = self.claim(pfn, order) else { continue };
                self.note_type(pfn, migratetype);
                if holds(policy, order) {
                    let cpu = CpuId(cpu as u16);
                    self.placed.state.per_cpu.push((cpu, block, migratetype));
                } else {
                    // This policy has no such list, so the block stays on the buddy lists.
                    self.placed.state.free.push((block, migratetype));
                }
            }
        }
        for &(pfn, order, migratetype) in known.free {
            self.note_type(pfn, mergeable(migratetype));
            for frame in pfn..pfn + (1 << order) {
                if let Some(state @ Frame::Unknown) = self.frame_mut(frame) {
                    *state = Frame::KnownFree;
                    self.known_free.insert(frame);
                }
            }
        }
    }

    /// Free blocks and pageblock types as counted, leaving room for `reserve` pages.
    fn captured_blocks(&mut self, counts: &ZoneStart, reserve: u64) {
        let mut blocks_left = counts.pageblocks;
        for order in (0..MAX_ORDER as u8).rev() {
            if order + 1 == PAGEBLOCK_ORDER {
                self.assign_pageblocks(&mut blocks_left);
            }
            for migratetype in FREE_TYPES {
                let wanted = counts.free[migratetype.idx()][usize::from(order)];
                let got = self.place_free(order, migratetype, wanted, reserve);
                if order >= PAGEBLOCK_ORDER {
                    let covered = got << (order - PAGEBLOCK_ORDER);
                    let left = &mut blocks_left[migratetype.idx()];
                    *left = left.saturating_sub(covered);
                }
                self.placed.nr_unplaced += (wanted - got) << order;
            }
        }
    }

    /// Places up to `wanted` free blocks of an order and type; how many found a place.
    fn place_free(
        &mut self,
        order: u8,
        migratetype: MigrateType,
        wanted: u64,
        reserve: u64,
    ) -> u64 {
        if wanted == 0 {
            return 0;
        }
        let size = 1u64 << order;
        let room = self.zone.managed.saturating_sub(self.nr_placed + reserve) / size;
        let (first, last) = (self.zone.start.next_multiple_of(size), self.zone.end);
        let most = wanted.min(room);
        // Blocks with frames that the trace shows to be free come first. They are few, and only they have to be sorted.
        let mut shown: Vec<_> = self.known_free.iter().map(|pfn| pfn - pfn % size).collect();
        shown.dedup();
        let rank = |pfn: u64| {
            let likes = self.likely_type(pfn >> PAGEBLOCK_ORDER) == Some(migratetype);
            let known = self.block(pfn, size).iter().filter(|f| **f == Frame::KnownFree).count();
            if likes || order < PAGEBLOCK_ORDER { known } else { 0 }
        };
        let is_inside = |pfn: &u64| (first..).contains(pfn) && pfn + size <= last;
        let mut shown: Vec<_> = shown
            .into_iter()
            .filter(|pfn| is_inside(pfn) && self.is_usable(*pfn, size) && rank(*pfn) > 0)
            .map(|pfn| (Reverse(rank(pfn)), !self.is_own(pfn, migratetype), pfn))
            .collect();
        shown.sort_unstable();
        let mut placed = 0;
        for (_, _, pfn) in shown {
            if placed == most {
                return placed;
            }
            placed += u64::from(self.place_block(pfn, order, migratetype));
        }
        // The others by address: those in pageblocks of the type or of none yet, then those of other types.
        for is_own in [true, false] {
            for pfn in (first..last).step_by(size as usize).take_while(|pfn| pfn + size <= last) {
                if placed == most {
                    return placed;
                }
                if self.is_own(pfn, migratetype) == is_own && self.is_usable(pfn, size) {
                    placed += u64::from(self.place_block(pfn, order, migratetype));
                }
            }
        }
        placed
    }

    /// A free block at this frame, if no neighbour would merge with it; true if it has its place.
    fn place_block(&mut self, pfn: u64, order: u8, migratetype: MigrateType) -> bool {
        if self.may_merge(pfn, order) {
            return false;
        }
        let Some(block) = self.claim(pfn, order) else { return false };
        self.block_buddy(pfn, order);
        if order >= PAGEBLOCK_ORDER {
            for pageblock in (pfn..pfn + (1 << order)).step_by(PAGEBLOCK_PAGES as usize) {
                self.set_type(pageblock >> PAGEBLOCK_ORDER, migratetype);
            }
        }
        self.placed.state.free.push((block, migratetype));
        self.free_heads.insert((pfn, order));
        true
    }

    /// The frames of a block.
    fn block(&self, pfn: u64, size: u64) -> &[Frame] {
        let first = self.index(pfn);
        &self.frames[first..first + size as usize]
    }

    /// True if no frame of the block has its place or is kept in use.
    fn is_usable(&self, pfn: u64, size: u64) -> bool {
        self.block(pfn, size).iter().all(|f| matches!(f, Frame::Unknown | Frame::KnownFree))
    }

    /// True if the pageblock has this type, or none yet.
    fn is_own(&self, pfn: u64, migratetype: MigrateType) -> bool {
        self.types.get(&(pfn >> PAGEBLOCK_ORDER)).is_none_or(|t| *t == migratetype)
    }

    /// Types for the pageblocks without large free blocks: first those that the trace reveals, then
    /// in address order, as many of each as counted.
    fn assign_pageblocks(&mut self, left: &mut [u64; MigrateType::COUNT]) {
        let first = self.zone.start >> PAGEBLOCK_ORDER;
        let last = (self.zone.end - 1) >> PAGEBLOCK_ORDER;
        let open: Vec<u64> = (first..=last).filter(|b| !self.types.contains_key(b)).collect();
        for &block in &open {
            if let Some(likely) = self.likely_type(block)
                && left[likely.idx()] > 0
            {
                left[likely.idx()] -= 1;
                self.set_type(block, likely);
            }
        }
        for block in open {
            if self.types.contains_key(&block) {
                continue;
            }
            let scarce = [
                MigrateType::Unmovable,
                MigrateType::Reclaimable,
                MigrateType::HighAtomic,
                MigrateType::Isolate,
            ];
            let migratetype = scarce.into_iter().find(|t| left[t.idx()] > 0);
            let migratetype = migratetype.unwrap_or(MigrateType::Movable);
            let left = &mut left[migratetype.idx()];
            *left = left.saturating_sub(1);
            self.set_type(block, migratetype);
        }
    }

    /// Pages on lists that are known only by number go to lists that were never seen empty. They
    /// are order 0, in equal parts, between the known pages at both ends.
    fn unknown_on_lists(&mut self, known: Known<'_>, unknown: &BTreeMap<u32, u64>) {
        let nr_unknown: u64 = unknown.values().sum();
        let mut spare = self.spare_frames(nr_unknown as usize);
        for (&cpu, &pages) in unknown {
            let is_open = |t: &MigrateType| {
                let list = known.lists.get(&(cpu, 0, t.idx() as u8));
                list.is_none_or(|l| !l.is_complete)
            };
            let open: Vec<_> = TYPES.into_iter().filter(is_open).collect();
            for page in 0..pages {
                let Some(&migratetype) = open.get(page as usize % open.len().max(1)) else { break };
                let others = TYPES.into_iter().filter(|t| *t != migratetype);
                let from = std::iter::once(migratetype).chain(others);
                let pfn = from.into_iter().find_map(|t| spare[t.idx()].pop_front());
                let Some(block) = pfn.and_then(|pfn| self.claim(pfn, 0)) else { break };
                self.insert_in_middle(known, CpuId(cpu as u16), block, migratetype);
                self.placed.nr_unknown_on_lists += 1;
            }
        }
    }

    /// Behind the known head of the list.
    fn insert_in_middle(&mut self, known: Known<'_>, cpu: CpuId, block: Block, of: MigrateType) {
        let key = (u32::from(cpu.0), block.order.0, of.idx() as u8);
        let nr_head = known.lists.get(&key).map_or(0, |l| l.head.len());
        let lists = &mut self.placed.state.per_cpu;
        let same = |(c, b, t): &(CpuId, Block, MigrateType)| {
            *c == cpu && b.order == block.order && *t == of
        };
        let mut of_list = lists.iter().enumerate().filter(|(_, entry)| same(entry));
        let at = of_list.nth(nr_head).map_or(lists.len(), |(at, _)| at);
        lists.insert(at, (cpu, block, of));
    }

    /// Frames that nothing else needs, by the type of their pageblock; at most `most` of each.
    fn spare_frames(&self, most: usize) -> [VecDeque<u64>; TYPES.len()] {
        let mut spare: [VecDeque<u64>; TYPES.len()] = Default::default();
        for (at, frame) in self.frames.iter().enumerate() {
            let pfn = self.zone.start + at as u64;
            let migratetype = self.types.get(&(pfn >> PAGEBLOCK_ORDER)).copied();
            // Memory that is set aside is never on a per-CPU list.
            let of = migratetype.unwrap_or(MigrateType::Movable).idx();
            let Some(spare) = spare.get_mut(of) else { continue };
            if matches!(frame, Frame::Unknown | Frame::Blocked) && spare.len() < most {
                spare.push_back(pfn);
            }
        }
        spare
    }

    /// Without counts: the lowest frames belong to the kernel, the rest is free.
    fn all_else_free(&mut self) {
        let blocks: Vec<u64> = self.evidence.keys().copied().collect();
        for block in blocks {
            if let Some(likely) = self.likely_type(block) {
                self.set_type(block, likely);
            }
        }
        let is_open = |f: &Frame| matches!(f, Frame::Unknown | Frame::KnownFree);
        let nr_open = self.frames.iter().filter(|f| is_open(f)).count() as u64;
        let mut keep = nr_open.saturating_sub(self.zone.managed.saturating_sub(self.nr_placed));
        for frame in self.frames.iter_mut().filter(|f| **f == Frame::Unknown) {
            if keep == 0 {
                break;
            }
            *frame = Frame::Blocked;
            keep -= 1;
        }
        let mut at = self.zone.start;
        while at < self.zone.end {
            let order = (0..MAX_ORDER as u8).rev().find(|&order| {
                let size = 1u64 << order;
                let fits = at.is_multiple_of(size) && at + size <= self.zone.end;
                let pageblock = |pfn: u64| self.types.get(&(pfn >> PAGEBLOCK_ORDER));
                fits && (at..at + size).all(|p| is_open(&self.frames[self.index(p)]))
                    && (order <= PAGEBLOCK_ORDER || pageblock(at) == pageblock(at + size / 2))
            });
            let Some(order) = order else {
                at += 1;
                continue;
            };
            let known = self.types.get(&(at >> PAGEBLOCK_ORDER)).copied();
            if let Some(block) = self.claim(at, order) {
                let migratetype = known.unwrap_or(MigrateType::Movable);
                self.placed.state.free.push((block, migratetype));
            }
            at += 1 << order;
        }
    }

    /// Takes a block's frames if all are still available.
    fn claim(&mut self, pfn: u64, order: u8) -> Option<Block> {
        let size = 1u64 << order;
        if pfn < self.zone.start || pfn + size > self.zone.end {
            return None;
        }
        let first = self.index(pfn);
        let frames = &mut self.frames[first..first + size as usize];
        if frames.contains(&Frame::Placed) || self.nr_placed + size > self.zone.managed {
            return None;
        }
        frames.fill(Frame::Placed);
        self.nr_placed += size;
        Some(Block { pfn: Pfn(pfn as u32), order: Order(order) })
    }

    /// Is the buddy a free block that this one would merge with?
    fn may_merge(&self, pfn: u64, order: u8) -> bool {
        let buddy = pfn ^ (1 << order);
        usize::from(order) < MAX_ORDER - 1 && self.free_heads.contains(&(buddy, order))
    }

    fn block_buddy(&mut self, pfn: u64, order: u8) {
        if usize::from(order) == MAX_ORDER - 1 {
            return;
        }
        let buddy = pfn ^ (1 << order);
        // One frame in use is enough to keep a buddy from being free.
        let held = match self.held {
            Held::Farthest if buddy < pfn => buddy,
            // The last is needed least.
            _ => buddy + (1 << order) - 1,
        };
        if let Some(frame @ (Frame::Unknown | Frame::KnownFree)) = self.frame_mut(held) {
            *frame = Frame::Blocked;
        }
    }

    fn frame_mut(&mut self, pfn: u64) -> Option<&mut Frame> {
        let at = pfn.checked_sub(self.zone.start)?;
        self.frames.get_mut(usize::try_from(at).ok()?)
    }

    fn index(&self, pfn: u64) -> usize {
        (pfn - self.zone.start) as usize
    }

    fn note_type(&mut self, pfn: u64, migratetype: MigrateType) {
        if !(self.zone.start..self.zone.end).contains(&pfn) {
            return;
        }
        let votes = self.evidence.entry(pfn >> PAGEBLOCK_ORDER).or_default();
        if let Some(votes) = votes.get_mut(migratetype.idx()) {
            *votes += 1;
        }
    }

    /// The most frequent type of a pageblock's known blocks.
    fn likely_type(&self, block: u64) -> Option<MigrateType> {
        let votes = self.evidence.get(&block)?;
        TYPES.into_iter().max_by_key(|t| (votes[t.idx()], Reverse(t.idx())))
    }

    fn set_type(&mut self, block: u64, migratetype: MigrateType) {
        let first = (block << PAGEBLOCK_ORDER).max(self.zone.start);
        self.types.insert(block, migratetype);
        self.placed.state.pageblocks.push((Pfn(first as u32), migratetype));
    }
}

fn mergeable(migratetype: u8) -> MigrateType {
    match MigrateType::from_index(u32::from(migratetype)) {
        t if t.is_mergeable() => t,
        _ => MigrateType::Movable,
    }
}

/// Do this policy's per-CPU lists hold blocks of an order (rules/per-cpu-lists#shape)?
fn holds(policy: &Policy, order: u8) -> bool {
    match policy.pcp.lists {
        PcpLists::Order0 => order == 0,
        PcpLists::HighOrder14 | PcpLists::HighOrder15 => has_lists(order),
    }
}
