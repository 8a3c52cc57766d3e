//! `/proc/buddyinfo`: free blocks per order.

use std::path::Path;

use super::text::{at, for_each_line, foreign, new_zone, number, per_order, read, zone_line};
use crate::import::ImportError;
use crate::import::error::FieldProblem;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buddyinfo {
    /// Populated zones, in the order of the file; at least one.
    pub zones: Vec<BuddyinfoZone>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuddyinfoZone {
    /// Node number.
    pub node: u32,
    /// `DMA`, `DMA32`, `Normal`, ...
    pub zone: String,
    /// Free blocks of each order, all types together.
    pub nr_free: Vec<u64>,
}

impl Buddyinfo {
    /// Number of orders in each row.
    #[must_use]
    pub fn nr_orders(&self) -> usize {
        self.zones.first().map_or(0, |zone| zone.nr_free.len())
    }

    /// Reads a file, plain or gzip.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        read(path.as_ref(), Self::parse)
    }

    /// Parses a text; `file` names it in errors.
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, ImportError> {
        let mut zones: Vec<BuddyinfoZone> = Vec::new();
        let nr_lines = for_each_line(file, text, |_, line| {
            let (node, zone, rest) =
                zone_line(line)?.ok_or_else(|| foreign(line, "/proc/buddyinfo"))?;
            let is_known = zones.iter().any(|z| z.node == node && z.zone == zone);
            new_zone(node, zone, zones.len(), is_known)?;
            let nr_free = per_order(rest, zones.first().map(|z| z.nr_free.len()), number)?;
            zones.push(BuddyinfoZone { node, zone: zone.to_owned(), nr_free });
            Ok(())
        })?;
        if zones.is_empty() {
            return Err(at(file, nr_lines, FieldProblem::new("Node", "no zone in the file")));
        }
        Ok(Self { zones })
    }
}

impl BuddyinfoZone {
    /// Free pages in these blocks; saturates on absurd counts.
    #[must_use]
    pub fn nr_pages(&self) -> u64 {
        self.nr_free.iter().enumerate().fold(0, |sum: u64, (order, &blocks)| {
            sum.saturating_add(blocks.saturating_mul(1 << order.min(63)))
        })
    }
}
