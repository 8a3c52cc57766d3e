//! Memory maps of a simulated machine, and the ages of pages on its LRU lists, at a few moments of
//! a run. Each moment reads every page descriptor, so there are few of them.
//!
//! The times are those of [`super`], and the simulation is not affected. A page
//! descriptor does not say how long a page has been on its list. So this module remembers when it
//! first saw a page on a list. A frame whose page has another mapping by then, or was on no list in
//! between, counts as a new page; so does a page that compaction moved to another frame. An age is
//! only as precise as the distance of the moments.

use highwater_core::audit::{Content, inventory};
use highwater_core::host::Host;
use highwater_core::page::{PAGEBLOCK_PAGES, Page, PageFlags, PageMapping};
use highwater_core::page_alloc::PageAllocator;
use highwater_core::units::LruKind;
use highwater_core::zone::Zone;
use highwater_results::pageblocks::{BlockMaps, BlockUse, MappedZone};
use highwater_results::{Column, Series};

/// Most moments that are kept: as many as a user wants to step through.
const MOMENTS_MAX: usize = 32;
/// Distance of the first moments; it doubles each time there are too many.
const FIRST_EVERY_MS: u64 = 16;
const NS_PER_MS: u64 = 1_000_000;
/// Cells of a zone: what fits on a screen, and one cell per pageblock up to 16 GiB.
const CELLS_MAX: u64 = 8192;

/// Ages in powers of two of a millisecond: 0, below 2, below 4 and so on.
const BINS: usize = 32;
/// Bounds of the reported ages, in multiples of the distance of the kept moments.
const AGE_STEPS: [u64; 4] = [1, 4, 16, 64];

/// A page on a list: the list, the page's mapping, and its index.
type Listed = (LruKind, PageMapping, u32);

/// When a page was first seen on a list.
#[derive(Clone, Copy, Debug)]
struct Seen {
    page: Listed,
    /// For the first time, in milliseconds.
    since_ms: u32,
    /// The last look that found it there: one that missed it ends its stay.
    look: u32,
}

/// Pages of each list of a node, by age.
type Ages = [[u64; BINS]; LruKind::COUNT];

/// The moments of one unit of work.
#[derive(Debug)]
pub(super) struct Moments {
    every_ms: u64,
    next_ms: u64,
    maps: BlockMaps,
    /// For each moment that is kept and each node.
    ages: Vec<Vec<Ages>>,
    /// For each frame, the page last seen on a list there.
    seen: Vec<Option<Seen>>,
    /// Moments so far, kept or not.
    nr_looks: u32,
}

impl Moments {
    /// Of a run that is looked at so often.
    pub(super) fn new(sampled_every_ms: u64) -> Moments {
        let every_ms = sampled_every_ms.next_power_of_two().max(FIRST_EVERY_MS);
        let (maps, ages, seen) = Default::default();
        Moments { every_ms, next_ms: 0, maps, ages, seen, nr_looks: 0 }
    }

    /// Looks at memory, if it is time to.
    pub(super) fn pass<H: Host>(&mut self, at_ns: u64, memory: &PageAllocator<H>) {
        let at_ms = at_ns / NS_PER_MS;
        if at_ms < self.next_ms {
            return;
        }
        if self.maps.moments.len() == MOMENTS_MAX {
            self.maps.thin();
            let mut is_kept = false;
            self.ages.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.every_ms *= 2;
        }
        self.next_ms = (at_ms / self.every_ms + 1) * self.every_ms;
        self.take(at_ns, memory);
    }

    fn take<H: Host>(&mut self, at_ns: u64, memory: &PageAllocator<H>) {
        self.seen.resize(memory.map.len(), None);
        self.nr_looks += 1;
        let look = self.nr_looks;
        let mut ages = vec![[[0; BINS]; LruKind::COUNT]; memory.nr_nodes()];
        let at_ms = (at_ns / NS_PER_MS) as u32;
        let is_first = self.maps.zones.is_empty();
        let mut letters = Vec::new();
        for zone in memory.populated_zones() {
            let (mapped, origin, nr_cells) = mapped(zone);
            let mut cells = vec![BlockUse::default(); nr_cells];
            let pages_per_cell = mapped.blocks_per_cell * PAGEBLOCK_PAGES as u32;
            for piece in inventory(memory, zone) {
                if piece.content == Content::Movable
                    && let Some(page) = seen_on_a_list(piece.page)
                {
                    let seen = &mut self.seen[piece.first.idx()];
                    let since_ms = match *seen {
                        Some(known) if known.page == page && known.look + 1 == look => {
                            known.since_ms
                        }
                        _ => at_ms,
                    };
                    *seen = Some(Seen { page, since_ms, look });
                    let bin = (u32::BITS - (at_ms - since_ms).leading_zeros()) as usize;
                    let of_node = &mut ages[piece.page.node().idx()];
                    of_node[page.0 as usize][bin.min(BINS - 1)] += u64::from(piece.pages);
                }
                // A large block lies in several cells.
                let (mut at, end) = (piece.first.0 - origin, piece.first.0 - origin + piece.pages);
                while at < end {
                    let cell = at / pages_per_cell;
                    let pages = end.min((cell + 1) * pages_per_cell) - at;
                    add(&mut cells[cell as usize], piece.content, pages);
                    at += pages;
                }
            }
            if is_first {
                self.maps.zones.push(mapped);
            }
            letters.push(cells.into_iter().map(BlockUse::letter).collect());
        }
        self.maps.moments.push((at_ns, letters));
        self.ages.push(ages);
    }

    /// The maps, and the ages as a series. A column counts pages of `node0/inactive_anon` that have
    /// been on that list for at least its time, up to the next column's.
    pub(super) fn finish(self, part: String) -> (BlockMaps, Series) {
        let Moments { every_ms, maps, ages, .. } = self;
        let nr_nodes = ages.first().map_or(0, Vec::len);
        // A node or a list without pages has no column.
        let is_used = |&(node, kind): &(usize, LruKind)| {
            ages.iter().any(|nodes| nodes[node][kind as usize].iter().any(|&pages| pages > 0))
        };
        let all = (0..nr_nodes).flat_map(|node| LruKind::ALL.map(|kind| (node, kind)));
        let told: Vec<(usize, LruKind)> = all.filter(is_used).collect();
        let bounds = AGE_STEPS.map(|steps| steps * every_ms);
        let from_ms = || std::iter::once(0).chain(bounds);
        let columns = told.iter().flat_map(|&(node, kind)| {
            from_ms().map(move |ms| Column::aged(node as u16, kind.name(), ms))
        });
        let mut series = Series::new(columns.collect());
        series.part.clone_from(&part);
        for ((at_ns, _), nodes) in maps.moments.iter().zip(&ages) {
            let row = told.iter().flat_map(|&(node, kind)| {
                let mut pages = [0; AGE_STEPS.len() + 1];
                for (bin, count) in nodes[node][kind as usize].iter().enumerate() {
                    // Ages of a bin are below its power of two, and the bounds are such powers.
                    let step = bounds.iter().position(|&ms| 1_u64 << bin <= ms);
                    pages[step.unwrap_or(AGE_STEPS.len())] += count;
                }
                pages
            });
            series.push(*at_ns, row);
        }
        (BlockMaps { part, ..maps }, series)
    }
}

/// How a zone is shown, the frame that its first cell begins with, and how many cells it has.
fn mapped<H: Host>(zone: &Zone<H>) -> (MappedZone, u32, usize) {
    let per_block = PAGEBLOCK_PAGES as u32;
    let origin = zone.start.0 / per_block * per_block;
    let blocks = u64::from((zone.end.0 - origin).div_ceil(per_block));
    let blocks_per_cell = blocks.div_ceil(CELLS_MAX).next_power_of_two();
    let mapped = MappedZone {
        name: format!("node{}/{}", zone.node.0, zone.zone.name()),
        first_pfn: origin,
        blocks_per_cell: blocks_per_cell as u32,
    };
    (mapped, origin, blocks.div_ceil(blocks_per_cell) as usize)
}

fn add(cell: &mut BlockUse, content: Content, pages: u32) {
    match content {
        Content::Free | Content::PerCpu => cell.free += pages,
        Content::Movable => cell.movable += pages,
        Content::Unmovable | Content::Moving => cell.unmovable += pages,
        Content::Reserved => {}
    }
}

/// Mapping and index of a page and its list; `None` if it is on no list.
fn seen_on_a_list(page: &Page) -> Option<Listed> {
    let flags = page.flags();
    flags.contains(PageFlags::LRU).then(|| (LruKind::of(flags), page.mapping(), page.index()))
}
