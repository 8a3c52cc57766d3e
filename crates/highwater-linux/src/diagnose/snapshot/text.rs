//! The answer as tables and JSON.

use highwater_report::{Cell, Layout, Table};
use highwater_results::words::count;
use serde_json::{Value, json};

use super::super::words::{block_text, kb_text};
use super::sums::{by_node, is_served};
use super::zone::{OrderRow, compaction_text};
use super::{Meaning, Snapshot, Wanted, ZoneOrders};

/// Schema of the JSON form.
const SCHEMA: &str = "highwater.diagnose-snapshot/1";
/// Rows of a table; the largest zones are shown.
const ROWS_MAX: usize = 30;
/// Remarks below a table.
const NOTES_MAX: usize = 6;
/// Types of pageblocks in a table.
const TYPES_MAX: usize = 10;
const TYPES: [&str; 7] =
    ["Unmovable", "Movable", "Reclaimable", "Reserve", "HighAtomic", "CMA", "Isolate"];

/// The tables.
pub(super) fn tables(snapshot: &Snapshot) -> Vec<Table> {
    let (zones, nr_left_out) = shown(snapshot);
    let mut tables = vec![sizes(snapshot, &zones)];
    tables.extend(snapshot.orders.iter().filter_map(|order| of_order(snapshot, &zones, *order)));
    if let Some(last) = tables.last_mut().filter(|_| snapshot.nr_orders().is_some()) {
        last.notes.extend(words(snapshot, &zones));
    }
    tables.extend(types(snapshot, &zones));
    if nr_left_out > 0 {
        let note = format!("{} with less memory left out", count(nr_left_out, "zone"));
        tables.iter_mut().for_each(|table| table.notes.push(note.clone()));
    }
    if let Some(first) = tables.first_mut() {
        first.notes.extend(snapshot.notes.iter().take(NOTES_MAX).cloned());
        if let Some(nr @ 1..) = snapshot.notes.len().checked_sub(NOTES_MAX) {
            first.notes.push(format!("{} more: --format json has them", count(nr, "remark")));
        }
    }
    tables
}

/// The largest zones in the order of the text, and the number of the others.
fn shown(snapshot: &Snapshot) -> (Vec<&ZoneOrders>, usize) {
    let mut zones: Vec<(usize, &ZoneOrders)> = snapshot.zones.iter().enumerate().collect();
    let size = |zone: &ZoneOrders| zone.zone.managed.or(zone.zone.free).unwrap_or(0);
    zones.sort_by_key(|(at, zone)| (std::cmp::Reverse(size(zone)), *at));
    let nr_left_out = zones.len().saturating_sub(ROWS_MAX);
    zones.truncate(ROWS_MAX);
    zones.sort_by_key(|(at, _)| *at);
    (zones.into_iter().map(|(_, zone)| zone).collect(), nr_left_out)
}

fn labels(zone: &ZoneOrders) -> [String; 2] {
    [zone.zone.node.to_string(), zone.zone.name.clone()]
}

fn push(table: &mut Table, zone: &ZoneOrders, cells: Vec<Cell>) {
    let [node, name] = labels(zone);
    table.push(&[&node, &name], cells);
}

fn number(value: Option<u64>) -> Cell {
    value.map_or(Cell::Missing, |value| Cell::number(value as f64, 0))
}

fn sizes(snapshot: &Snapshot, zones: &[&ZoneOrders]) -> Table {
    let kb = snapshot.sizes.page >> 10;
    let size = |pages: Option<u64>| {
        pages.map_or(Cell::Missing, |pages| Cell::text(kb_text(pages.saturating_mul(kb))))
    };
    let columns = ["free", "managed", "min", "low", "high", "reserve", "largest free block"];
    let title = "Zones: free memory, watermarks, lowmem reserve";
    let columns = columns.map(str::to_owned).to_vec();
    let mut table = Table::new(title, &["node", "zone"], columns, Layout::Fitted);
    for own in zones {
        let zone = &own.zone;
        let mark = |at: usize| size(zone.marks.map(|marks| marks[at]));
        let largest = match &zone.blocks {
            None => Cell::Missing,
            Some(blocks) => match blocks.iter().rposition(|nr| *nr > 0) {
                None => Cell::text("none"),
                Some(order) => Cell::text(block_text(order as u32, snapshot.sizes.page)),
            },
        };
        let cells = vec![
            size(zone.free),
            size(zone.managed),
            mark(0),
            mark(1),
            mark(2),
            size(zone.reserve),
            largest,
        ];
        push(&mut table, own, cells);
    }
    if zones.iter().any(|zone| zone.zone.is_capped) {
        let note =
            "Linux counts at most 100,000 blocks of a list: more can be free than shown here";
        table.notes.push(note.to_owned());
    }
    if !snapshot.page_cache.is_empty() {
        let nodes = snapshot.page_cache.iter().take(NODES_MAX).map(|(node, pages)| {
            let of = node.map_or_else(String::new, |node| format!("node {node} "));
            format!("{of}{}", kb_text(pages.saturating_mul(kb)))
        });
        let nodes: Vec<String> = nodes.collect();
        let more = if snapshot.page_cache.len() > NODES_MAX { ", ..." } else { "" };
        table.notes.push(format!(
            "page cache on the file LRU lists: {}{more}; reclaim frees at most that",
            nodes.join(", ")
        ));
    }
    table
}

/// Nodes of a note.
const NODES_MAX: usize = 8;

fn of_order(snapshot: &Snapshot, zones: &[&ZoneOrders], order: u32) -> Option<Table> {
    let rows: Vec<(&ZoneOrders, &OrderRow)> = zones
        .iter()
        .filter_map(|zone| Some((*zone, zone.orders.iter().find(|row| row.order == order)?)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let is_huge = order == snapshot.sizes.huge_order && snapshot.sizes.is_huge_page;
    let what = match snapshot.wanted {
        Wanted::Kernel => ", for GFP_KERNEL, unmovable",
        Wanted::Movable if is_huge => ", a huge page",
        Wanted::Movable => "",
    };
    let size = block_text(order, snapshot.sizes.page);
    let title = format!("Blocks of {size} (order {order}{what})");
    let columns = [
        "free now",
        "above mark",
        "unusable",
        "fragmentation index",
        "a request",
        "compaction",
        "could add",
    ];
    let columns = columns.map(str::to_owned).to_vec();
    let mut table = Table::new(title, &["node", "zone"], columns, Layout::Fitted);
    for (zone, row) in &rows {
        let cells = vec![
            number(Some(row.now)),
            number(row.above_mark),
            Cell::Percent { value: row.unusable as f64 / 10.0, decimals: 1, told: None },
            // The index says that a block is free, which is no use to the request.
            match row.meaning.is_kept() {
                true => Cell::Missing,
                false => Cell::number(row.index as f64 / 1000.0, 3),
            },
            Cell::text(match (row.meaning, row.above_mark) {
                // Nothing says whether the watermark lets it go.
                (Meaning::WouldNotFail, None) => "block is free",
                (meaning, _) => meaning.text(),
            }),
            row.compaction.map_or(Cell::Missing, |it| Cell::text(compaction_text(it))),
            number(Some(row.could_add)),
        ];
        push(&mut table, zone, cells);
    }
    let kept: u64 = rows
        .iter()
        .filter(|(_, row)| row.meaning != Meaning::OtherZone)
        .filter_map(|(_, row)| row.kept)
        .fold(0, u64::saturating_add);
    if kept > 0 {
        let types = match snapshot.wanted {
            Wanted::Kernel => "HighAtomic, Isolate or CMA",
            Wanted::Movable => "HighAtomic or Isolate",
        };
        let note = format!(
            "{} more in {types} pageblocks, which such requests may not use",
            count(kept, "block")
        );
        table.notes.push(note);
    }
    Some(table)
}

/// The columns in words.
const WORDS: &str = "unusable: share of free memory in smaller blocks; index: towards 0 too little is \
                     free, towards 1 it is in pieces, -1 a block is free";

/// The columns in words: those that need it, and the assumptions of what compaction could add.
fn words(snapshot: &Snapshot, zones: &[&ZoneOrders]) -> Vec<String> {
    let rows = zones.iter().flat_map(|zone| &zone.orders);
    let mut notes: Vec<&str> = rows.filter_map(|row| row.meaning.note()).collect();
    notes.sort_unstable();
    notes.dedup();
    notes.insert(0, WORDS);
    let mut notes: Vec<String> = notes.into_iter().map(str::to_owned).collect();
    let by_type = match zones.iter().any(|zone| !zone.zone.types.is_empty()) {
        true => "pages in movable pageblocks move, others do not",
        false => "all pages move (pagetypeinfo would say which pageblocks are movable)",
    };
    let mark = match snapshot.orders.as_slice() {
        [order] if *order > super::SMALL_ORDER => "low watermark",
        [_] => "min watermark",
        _ => "watermark (min up to order 3, low above)",
    };
    let marks = match zones.iter().any(|zone| zone.zone.marks.is_some()) {
        true => format!("{mark}, reserve and twice the block stay free"),
        false => "no memory has to stay free (zoneinfo would say how much)".to_owned(),
    };
    notes.push(format!("could add: at most, if {by_type}, and {marks}"));
    notes
}

fn types(snapshot: &Snapshot, zones: &[&ZoneOrders]) -> Option<Table> {
    let kb = snapshot.sizes.page >> 10;
    let has = |zone: &ZoneOrders, name: &str| {
        zone.zone.types.iter().any(|row| row.name == name)
            || zone.zone.pageblocks.iter().any(|(own, _)| own == name)
    };
    let mut known: Vec<&str> =
        TYPES.into_iter().filter(|name| zones.iter().any(|zone| has(zone, name))).collect();
    // Types of kernels to come.
    for name in zones.iter().flat_map(|zone| &zone.zone.types).map(|row| row.name.as_str()) {
        if known.len() < TYPES_MAX && !known.contains(&name) {
            known.push(name);
        }
    }
    if known.is_empty() {
        return None;
    }
    let columns = known.iter().map(|name| (*name).to_owned()).collect();
    let title = "Free memory by type of pageblock, and number of pageblocks";
    let mut table = Table::new(title, &["node", "zone"], columns, Layout::Fitted);
    for zone in zones {
        let cell = |name: &&str| {
            let row = zone.zone.types.iter().find(|row| row.name == **name);
            let free = row.map(|row| kb_text(super::gather::pages(&row.blocks).saturating_mul(kb)));
            let more = if row.is_some_and(|row| row.is_capped) { ">" } else { "" };
            let blocks = zone.zone.pageblocks.iter().find(|(own, _)| own == *name);
            match (free, blocks) {
                (None, None) => Cell::Missing,
                (free, blocks) => Cell::text(format!(
                    "{more}{} in {}",
                    free.unwrap_or_else(|| "-".to_owned()),
                    blocks.map_or_else(|| "-".to_owned(), |(_, nr)| nr.to_string())
                )),
            }
        };
        push(&mut table, zone, known.iter().map(cell).collect());
    }
    if known.contains(&"Reserve") {
        let note = "Reserve (kernels before 4.4): pageblocks that any request may use last";
        table.notes.push(note.to_owned());
    }
    Some(table)
}

/// JSON.
pub(super) fn json(snapshot: &Snapshot) -> Value {
    let sizes = &snapshot.sizes;
    json!({
        "schema": SCHEMA,
        "texts": snapshot.texts,
        "verdict": snapshot.verdict(),
        "explanation": snapshot.sentence(),
        "order": snapshot.order,
        "request": match snapshot.wanted {
            Wanted::Movable => "movable",
            Wanted::Kernel => "GFP_KERNEL, unmovable",
        },
        "is_served": is_served(snapshot),
        "texts_contradict": snapshot.contradiction.is_some(),
        "contradiction": snapshot.contradiction.map(|it| json!({
            "texts": it.texts,
            "free_pages": it.free,
        })),
        "nodes": nodes_json(snapshot),
        "page_size": sizes.page,
        "page_size_is_stated": sizes.note.is_none(),
        "huge_page_order": sizes.huge_order,
        "is_huge_page": sizes.is_huge_page,
        "zones": snapshot.zones.iter().map(zone_json).collect::<Vec<_>>(),
        "notes": snapshot.notes,
    })
}

/// Verdict and page cache of each node.
fn nodes_json(snapshot: &Snapshot) -> Vec<Value> {
    let cache = |node: u32| snapshot.page_cache.iter().find(|(own, _)| *own == Some(node));
    let nodes = by_node(snapshot).into_iter().map(|(node, sums)| {
        json!({
            "node": node,
            "verdict": sums.verdict(),
            "free_blocks_usable": sums.usable,
            "compaction_could_add_at_most": sums.could_add,
            "page_cache_pages": cache(node).map(|(_, pages)| pages),
        })
    });
    nodes.collect()
}

fn zone_json(own: &ZoneOrders) -> Value {
    let zone = &own.zone;
    let types = (!zone.types.is_empty()).then(|| {
        let rows = zone.types.iter().map(|row| (row.name.clone(), json!(row.blocks)));
        rows.collect::<serde_json::Map<_, _>>()
    });
    let pageblocks = (!zone.pageblocks.is_empty()).then(|| {
        let rows = zone.pageblocks.iter().map(|(name, nr)| (name.clone(), json!(nr)));
        rows.collect::<serde_json::Map<_, _>>()
    });
    let mark = |at: usize| zone.marks.map(|marks| marks[at]);
    json!({
        "node": zone.node,
        "name": zone.name,
        "free_pages": zone.free,
        "managed_pages": zone.managed,
        "min_pages": mark(0),
        "low_pages": mark(1),
        "high_pages": mark(2),
        "reserve_pages": zone.reserve,
        "reserve_pages_to_normal": zone.reserve_normal,
        "page_cache_pages": zone.page_cache,
        "free_blocks": zone.blocks,
        "free_blocks_are_capped": zone.is_capped,
        "free_blocks_by_type": types,
        "pageblocks_by_type": pageblocks,
        "orders": own.orders.iter().map(order_json).collect::<Vec<_>>(),
    })
}

fn order_json(row: &OrderRow) -> Value {
    json!({
        "order": row.order,
        "free_blocks": row.now,
        "free_blocks_kept": row.kept,
        "free_blocks_above_mark": row.above_mark,
        "unusable_index": row.unusable,
        "fragmentation_index": row.index,
        "meaning": row.meaning,
        "compaction": row.compaction.map(compaction_text),
        "gathered_blocks": row.gathered,
        "compaction_could_add_at_most": row.could_add,
    })
}
