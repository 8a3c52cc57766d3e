//! `/proc/pagetypeinfo`: free blocks per type and order, and the number of pageblocks of each type.

use std::path::Path;

use super::text::{at, for_each_line, foreign, number, per_order, read, zone_line};
use crate::import::ImportError;
use crate::import::error::FieldProblem;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTypeInfo {
    /// 9 on x86-64.
    pub pageblock_order: u64,
    /// 512 on x86-64.
    pub pages_per_block: u64,
    /// First table: one row per zone and type; at least one.
    pub free: Vec<TypeFreeBlocks>,
    /// Second table: one row per zone.
    pub pageblocks: Vec<PageblockCounts>,
}

/// Free blocks of one type in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFreeBlocks {
    /// Node number.
    pub node: u32,
    /// `DMA`, `DMA32`, `Normal`, ...
    pub zone: String,
    /// `Unmovable`, `Movable`, `Reclaimable`, `HighAtomic`, `CMA`, `Isolate`.
    pub migratetype: String,
    /// Free blocks of each order.
    pub nr_free: Vec<BlockCount>,
}

/// Linux stops counting a list at 100,000 and prints `>100000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// Blocks counted.
    pub nr_blocks: u64,
    /// True if there are more than were counted.
    pub is_capped: bool,
}

/// Pageblocks by type in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageblockCounts {
    /// Node number.
    pub node: u32,
    /// `DMA`, `DMA32`, `Normal`, ...
    pub zone: String,
    /// Type name and number of blocks, in the order of the file.
    pub nr_blocks: Vec<(String, u64)>,
}

/// The table that the lines belong to.
enum Table {
    Head,
    Free,
    Pageblocks {
        types: Vec<String>,
    },
    /// `Number of mixed blocks` of kernels with page owners: skipped.
    Ignored,
}

impl PageTypeInfo {
    /// Number of orders in each row.
    #[must_use]
    pub fn nr_orders(&self) -> usize {
        self.free.first().map_or(0, |row| row.nr_free.len())
    }

    /// Reads a file, plain or gzip.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        read(path.as_ref(), Self::parse)
    }

    /// Parses a text; `file` names it in errors.
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, ImportError> {
        let (mut pageblock_order, mut pages_per_block) = (None, None);
        let (mut free, mut pageblocks) = (Vec::<TypeFreeBlocks>::new(), Vec::new());
        let mut nr_orders = None;
        let mut table = Table::Head;
        let nr_lines = for_each_line(file, text, |_, line| {
            if let Some(value) = line.strip_prefix("Page block order:") {
                let order = number("Page block order", value.trim())?;
                // A file from a machine with several nodes may repeat its head.
                pageblock_order.get_or_insert(order);
            } else if let Some(value) = line.strip_prefix("Pages per block:") {
                let pages = number("Pages per block", value.trim())?;
                pages_per_block.get_or_insert(pages);
            } else if line.starts_with("Free pages count") {
                table = Table::Free;
                // The heading names the orders; each row has one number per order.
                let orders = line.split_whitespace().filter(|word| word.parse::<u32>().is_ok());
                nr_orders = Some(orders.count()).filter(|nr| *nr > 0);
            } else if let Some(types) = line.strip_prefix("Number of blocks type") {
                table = Table::Pageblocks {
                    types: types.split_whitespace().map(str::to_owned).collect(),
                };
            } else if line.starts_with("Number of ") {
                table = Table::Ignored;
            } else {
                match &table {
                    Table::Head => {
                        return Err(FieldProblem::new(
                            "Free pages count",
                            "missing before the first row",
                        ));
                    }
                    Table::Free => free
                        .push(free_row(line, nr_orders.or(free.first().map(|r| r.nr_free.len())))?),
                    Table::Pageblocks { types } => pageblocks.push(pageblock_row(line, types)?),
                    Table::Ignored => {}
                }
            }
            Ok(())
        })?;
        let missing = |field| at(file, nr_lines, FieldProblem::missing(field));
        if free.is_empty() {
            return Err(missing("Free pages count"));
        }
        Ok(Self {
            pageblock_order: pageblock_order.ok_or_else(|| missing("Page block order"))?,
            pages_per_block: pages_per_block.ok_or_else(|| missing("Pages per block"))?,
            free,
            pageblocks,
        })
    }
}

/// `Node    0, zone      DMA, type    Unmovable      0 ...`
fn free_row(line: &str, nr_orders: Option<usize>) -> Result<TypeFreeBlocks, FieldProblem> {
    let (node, zone, rest) = row_zone(line)?;
    let rest = rest.trim_start_matches([',', ' ']).strip_prefix("type ");
    let rest = rest.ok_or_else(|| FieldProblem::missing("type"))?.trim_start();
    let (migratetype, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let nr_free = per_order(rest, nr_orders, |field, text| match text.strip_prefix('>') {
        Some(text) => Ok(BlockCount { nr_blocks: number(field, text)?, is_capped: true }),
        None => Ok(BlockCount { nr_blocks: number(field, text)?, is_capped: false }),
    })?;
    Ok(TypeFreeBlocks { node, zone: zone.to_owned(), migratetype: migratetype.to_owned(), nr_free })
}

/// `Node 0, zone      DMA            1            7 ...`
fn pageblock_row(line: &str, types: &[String]) -> Result<PageblockCounts, FieldProblem> {
    let (node, zone, rest) = row_zone(line)?;
    let mut nr_blocks = Vec::with_capacity(types.len());
    let mut values = rest.split_whitespace();
    for name in types {
        let text = values.next().ok_or_else(|| FieldProblem::missing(name))?;
        nr_blocks.push((name.clone(), number(name, text)?));
    }
    if values.next().is_some() {
        return Err(FieldProblem::new(
            "type",
            format!("more values than the {} types", types.len()),
        ));
    }
    Ok(PageblockCounts { node, zone: zone.to_owned(), nr_blocks })
}

fn row_zone(line: &str) -> Result<(u32, &str, &str), FieldProblem> {
    zone_line(line)?.ok_or_else(|| foreign(line, "/proc/pagetypeinfo"))
}
