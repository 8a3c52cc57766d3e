//! Is this machine fragmented, and how many huge pages are there to be had? An answer from
//! `/proc/buddyinfo`, `/proc/zoneinfo` and `/proc/pagetypeinfo`, each alone or together.
//!
//! | module | holds |
//! |---|---|
//! | `gather` | the texts, joined zone by zone; sizes of a page and of a huge page |
//! | `zone` | each zone beside an order: blocks, indices, what compaction could add |
//! | `sentence` | the answer in one sentence |
//! | `text` | the answer as tables and JSON |
//!
//! The indices and the test of compaction are those of `highwater_core::compaction`. What
//! compaction could add is an upper bound: it takes for granted that every page in movable
//! pageblocks moves, and that none in other pageblocks does.

mod gather;
mod sentence;
mod text;
mod zone;

use std::path::PathBuf;

use highwater_report::Table;
use highwater_results::import::ImportError;
use serde_json::Value;

pub use gather::{Sizes, TypeBlocks, Zone};
pub use sentence::Verdict;
pub use zone::{Meaning, OrderRow};

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
        let mut orders = vec![SMALL_ORDER, sizes.huge_order];
        orders.dedup();
        let zones = zones.into_iter().map(|zone| {
            let rows = orders.iter().filter_map(|order| OrderRow::of(&zone, *order)).collect();
            ZoneOrders { zone, orders: rows }
        });
        let (raw, mut notes) = (texts.raw, texts.notes);
        notes.extend(sizes.note.clone());
        Ok(Snapshot { texts: texts.names, zones: zones.collect(), sizes, orders, notes, raw })
    }

    /// The answer in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        sentence::of(self)
    }

    /// The answer in one word.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        sentence::verdict(self)
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

    /// The rows of the order of a huge page.
    fn huge(&self) -> impl Iterator<Item = &OrderRow> {
        self.zones
            .iter()
            .filter_map(|zone| zone.orders.iter().find(|row| row.order == self.sizes.huge_order))
    }

    /// Free pages of all zones; `None` if a zone does not say.
    fn free(&self) -> Option<u64> {
        let mut free = self.zones.iter().map(|zone| zone.zone.free);
        free.try_fold(0u64, |sum, pages| Some(sum.saturating_add(pages?)))
    }
}

#[cfg(test)]
mod tests;
