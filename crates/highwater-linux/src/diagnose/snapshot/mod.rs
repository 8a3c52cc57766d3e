//! Is this machine fragmented, and how many huge pages are there to be had? An answer from
//! `/proc/buddyinfo`, `/proc/zoneinfo` and `/proc/pagetypeinfo`, each alone or together.
//!
//! | module | holds |
//! |---|---|
//! | `folder` | the texts of a folder |
//! | `gather` | the texts, joined zone by zone; sizes of a page and of a huge page |
//! | `zone` | each zone beside an order: blocks, indices, what compaction could add |
//! | `sums` | sums and verdict of the machine and of each node |
//! | `sentence` | the answer in one sentence |
//! | `text` | the answer as tables and JSON |
//!
//! The indices and the test of compaction are those of `highwater_core::compaction`. What
//! compaction could add is an upper bound: it takes for granted that every page in movable
//! pageblocks moves, and that none in other pageblocks does. Reclaim can add at most the page cache.

pub(super) mod folder;
mod gather;
mod page;
mod sentence;
mod sums;
mod text;
mod zone;

use std::path::PathBuf;

use highwater_report::Table;
use highwater_report::html::FreeBlocksOf;
use highwater_results::import::ImportError;
use serde_json::Value;

pub use gather::{Contradiction, Sizes, TypeBlocks, Zone};
pub use sums::Verdict;
pub use zone::{Meaning, OrderRow, Wanted};

use gather::Texts;

/// The order of kernel stacks and of most large requests of the kernel: the largest that is not
/// costly.
const SMALL_ORDER: u32 = 3;

/// A machine at rest.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Names of the texts that were read.
    pub texts: Vec<&'static str>,
    /// Sizes of a page and of a huge page.
    pub sizes: Sizes,
    /// Zones with memory, and what their free blocks mean for each of [`Snapshot::orders`].
    pub zones: Vec<ZoneOrders>,
    /// The orders that are looked at, the smallest first.
    pub orders: Vec<u32>,
    /// The request that is asked about.
    pub wanted: Wanted,
    /// The order that the answer is about.
    pub order: u32,
    /// Pages of page cache by node; under `None` those of the machine. Empty if no text says.
    pub page_cache: Vec<(Option<u32>, u64)>,
    /// Two texts that contradict each other.
    pub contradiction: Option<Contradiction>,
    /// Remarks about the texts.
    pub notes: Vec<String>,
    /// The texts themselves, by their names in `/proc`, without meminfo.
    pub(super) raw: Vec<(&'static str, String)>,
}

/// A zone and its rows.
#[derive(Clone, Debug)]
pub struct ZoneOrders {
    /// The zone as read.
    pub zone: Zone,
    /// One row for each order; empty if the text has no free blocks by order.
    pub orders: Vec<OrderRow>,
}

impl Snapshot {
    /// Reads files, or folders that hold them (or `proc` with them).
    ///
    /// # Errors
    /// If a file cannot be read or is another text, or if a text is given twice.
    pub fn read(paths: &[PathBuf]) -> Result<Snapshot, ImportError> {
        Snapshot::of(Texts::read(paths)?)
    }

    /// Reads texts; each has a name for errors.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn parse(texts: &[(&str, &[u8])]) -> Result<Snapshot, ImportError> {
        let mut found = Texts::default();
        for (name, text) in texts {
            found.take(name, text)?;
        }
        Snapshot::of(found)
    }

    fn of(mut texts: Texts) -> Result<Snapshot, ImportError> {
        let zones = texts.zones()?;
        let sizes = texts.sizes(&zones);
        let page_cache = texts.page_cache(sizes.page);
        let (raw, mut notes) = (texts.raw, texts.notes);
        notes.extend(sizes.note.clone());
        let zones = zones.into_iter().map(|zone| ZoneOrders { zone, orders: Vec::new() });
        let found = Snapshot {
            texts: texts.names,
            zones: zones.collect(),
            orders: Vec::new(),
            wanted: Wanted::Movable,
            order: sizes.huge_order,
            sizes,
            page_cache,
            contradiction: texts.contradiction,
            notes,
            raw,
        };
        let mut orders = vec![SMALL_ORDER, found.order];
        orders.dedup();
        Ok(found.about(orders, Wanted::Movable))
    }

    /// The same texts, asked whether the kernel would get a block of this order: `GFP_KERNEL`,
    /// unmovable.
    #[must_use]
    pub fn for_order(mut self, order: u32) -> Snapshot {
        let has_types = self.zones.iter().any(|zone| !zone.zone.types.is_empty());
        let cma = self.zones.iter().filter_map(|zone| zone.zone.free_cma);
        if !has_types && cma.fold(0, u64::saturating_add) > 0 {
            let note = "free blocks may be of CMA, which the kernel's own requests may not use \
                        (pagetypeinfo would say)";
            self.notes.push(note.to_owned());
        }
        self.order = order;
        self.about(vec![order], Wanted::Kernel)
    }

    fn about(mut self, orders: Vec<u32>, wanted: Wanted) -> Snapshot {
        for own in &mut self.zones {
            let rows = orders.iter().filter_map(|order| OrderRow::of(&own.zone, *order, wanted));
            own.orders = rows.collect();
        }
        (self.orders, self.wanted) = (orders, wanted);
        self
    }

    /// The answer in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        sentence::of(self)
    }

    /// The answer in one word.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        sums::verdict(self)
    }

    /// The free blocks of each zone, for figures.
    #[must_use]
    pub fn free_blocks(&self) -> Vec<FreeBlocksOf> {
        page::free_blocks(self)
    }

    /// The zones, an order at a time.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        text::tables(self)
    }

    /// The answer as JSON. What the texts do not have is `null`.
    #[must_use]
    pub fn json(&self) -> Value {
        text::json(self)
    }

    /// Zones with their rows of the order that the answer is about.
    fn rows(&self) -> impl Iterator<Item = (&Zone, &OrderRow)> {
        let row = |own: &&ZoneOrders| own.orders.iter().position(|row| row.order == self.order);
        self.zones.iter().filter_map(move |own| Some((&own.zone, &own.orders[row(&own)?])))
    }

    /// Number of the kernel's orders; `None` if the text has no free blocks by order.
    fn nr_orders(&self) -> Option<usize> {
        self.zones.iter().filter_map(|own| Some(own.zone.blocks.as_ref()?.len())).max()
    }

    /// Free pages of all zones; `None` if a zone does not say.
    fn free(&self) -> Option<u64> {
        let mut free = self.zones.iter().map(|zone| zone.zone.free);
        free.try_fold(0u64, |sum, pages| Some(sum.saturating_add(pages?)))
    }
}

#[cfg(test)]
mod tests;
