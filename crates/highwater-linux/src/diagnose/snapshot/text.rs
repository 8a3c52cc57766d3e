//! The answer as tables and JSON.

use highwater_report::{Cell, Layout, Table};
use highwater_results::words::count;
use serde_json::{Value, json};

use super::super::words::{block_text, kb_text};
use super::zone::{OrderRow, compaction_text};
use super::{Snapshot, ZoneOrders};

/// Schema of the JSON form.
const SCHEMA: &str = "highwater.diagnose-snapshot/1";
/// Rows of a table; the largest zones are shown.
const ROWS_MAX: usize = 30;
/// Types of pageblocks in a table.
const TYPES: [&str; 6] = ["Unmovable", "Movable", "Reclaimable", "HighAtomic", "CMA", "Isolate"];

/// The tables.
pub(super) fn tables(snapshot: &Snapshot) -> Vec<Table> {
    let (zones, nr_left_out) = shown(snapshot);
    let mut tables = vec![sizes(snapshot, &zones)];
    tables.extend(snapshot.orders.iter().filter_map(|order| of_order(snapshot, &zones, *order)));
    tables.extend(types(snapshot, &zones));
    if nr_left_out > 0 {
        let note = format!("{} with less memory left out", count(nr_left_out, "zone"));
        tables.iter_mut().for_each(|table| table.notes.push(note.clone()));
    }
    if let Some(first) = tables.first_mut() {
        first.notes.extend(snapshot.notes.iter().take(ROWS_MAX).cloned());
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
    table
}

fn of_order(snapshot: &Snapshot, zones: &[&ZoneOrders], order: u32) -> Option<Table> {
    let rows: Vec<(&ZoneOrders, &OrderRow)> = zones
        .iter()
        .filter_map(|zone| Some((*zone, zone.orders.iter().find(|row| row.order == order)?)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let is_huge = order == snapshot.sizes.huge_order && snapshot.sizes.is_huge_page;
    let what = if is_huge { ", a huge page" } else { "" };
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
            Cell::number(row.index as f64 / 1000.0, 3),
            Cell::text(match row.meaning {
                super::Meaning::WouldNotFail => "would not fail".to_owned(),
                other => format!("fails: {}", other.text()),
            }),
            row.compaction.map_or(Cell::Missing, |it| Cell::text(compaction_text(it))),
            number(Some(row.could_add)),
        ];
        push(&mut table, zone, cells);
    }
    let kept: u64 = rows.iter().filter_map(|(_, row)| row.kept).sum();
    if kept > 0 {
        let note = format!(
            "{} more in HighAtomic or Isolate pageblocks, which ordinary requests may not use",
            count(kept, "block")
        );
        table.notes.push(note);
    }
    table.notes.push(assumption(zones, order));
    Some(table)
}

/// The assumptions of what compaction could add.
fn assumption(zones: &[&ZoneOrders], order: u32) -> String {
    let mark = if order > super::SMALL_ORDER { "low" } else { "min" };
    let by_type = match zones.iter().any(|zone| !zone.zone.types.is_empty()) {
        true => "all pages in movable pageblocks move, none in other pageblocks does",
        false => "all pages move (pagetypeinfo would say which pageblocks are movable)",
    };
    let marks = match zones.iter().any(|zone| zone.zone.marks.is_some()) {
        true => format!("{mark} watermark, reserve and twice the block stay free"),
        false => "no memory has to stay free (zoneinfo would say how much)".to_owned(),
    };
    format!("compaction could add that many at most: if {by_type}, and {marks}")
}

fn types(snapshot: &Snapshot, zones: &[&ZoneOrders]) -> Option<Table> {
    let kb = snapshot.sizes.page >> 10;
    let has = |zone: &ZoneOrders, name: &str| {
        zone.zone.types.iter().any(|row| row.name == name)
            || zone.zone.pageblocks.iter().any(|(own, _)| own == name)
    };
    let known: Vec<&str> =
        TYPES.into_iter().filter(|name| zones.iter().any(|zone| has(zone, name))).collect();
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
            let blocks = zone.zone.pageblocks.iter().find(|(own, _)| own == *name);
            match (free, blocks) {
                (None, None) => Cell::Missing,
                (free, blocks) => Cell::text(format!(
                    "{} in {}",
                    free.unwrap_or_else(|| "-".to_owned()),
                    blocks.map_or_else(|| "-".to_owned(), |(_, nr)| nr.to_string())
                )),
            }
        };
        push(&mut table, zone, known.iter().map(cell).collect());
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
        "page_size": sizes.page,
        "page_size_is_stated": sizes.note.is_none(),
        "huge_page_order": sizes.huge_order,
        "is_huge_page": sizes.is_huge_page,
        "zones": snapshot.zones.iter().map(zone_json).collect::<Vec<_>>(),
        "notes": snapshot.notes,
    })
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
