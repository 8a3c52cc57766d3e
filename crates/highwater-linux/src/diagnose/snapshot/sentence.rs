//! Is the machine fragmented? One sentence for all zones.

use highwater_results::words::count;
use serde::Serialize;

use super::super::words::{block_text, kb_text};
use super::Snapshot;
use super::zone::Meaning;

/// Share of free memory in smaller blocks, thousandths, from which on memory counts as fragmented
/// although some large blocks are free.
const MOSTLY: u64 = 500;

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Most of free memory is in blocks of a huge page.
    NotFragmented,
    /// Some blocks are free, but most of free memory is in smaller ones.
    PartlyFragmented,
    /// Memory is free, but no block of a huge page.
    Fragmented,
    /// Too little memory is free for a block.
    ShortOfMemory,
    /// The texts have no free blocks by order.
    CannotTell,
}

/// Sums over the zones, in blocks of a huge page.
struct Sums {
    now: u64,
    above_mark: Option<u64>,
    could_add: u64,
    gathered: u64,
    kept: u64,
    unusable: u64,
    is_lack: bool,
}

impl Sums {
    fn of(snapshot: &Snapshot) -> Option<Sums> {
        let first = snapshot.huge().next()?;
        let mut sums = Sums {
            now: 0,
            above_mark: first.above_mark.map(|_| 0),
            could_add: 0,
            gathered: 0,
            kept: 0,
            unusable: 0,
            is_lack: true,
        };
        let (mut unusable, mut free) = (0u128, 0u128);
        for (zone, row) in
            snapshot.zones.iter().filter(|z| !z.orders.is_empty()).zip(snapshot.huge())
        {
            sums.now = sums.now.saturating_add(row.now);
            sums.above_mark = sums.above_mark.zip(row.above_mark).map(|(a, b)| a.saturating_add(b));
            sums.could_add = sums.could_add.saturating_add(row.could_add);
            sums.gathered = sums.gathered.saturating_add(row.gathered);
            sums.kept = sums.kept.saturating_add(row.kept.unwrap_or(0));
            let pages = zone.zone.blocks.as_deref().map_or(0, super::gather::pages);
            // Less than a block is free, or pieces would not help either.
            sums.is_lack &= row.meaning == Meaning::LackOfMemory || pages >> row.order == 0;
            unusable += u128::from(pages) * u128::from(row.unusable);
            free += u128::from(pages);
        }
        sums.unusable = unusable.checked_div(free).map_or(1000, |share| share as u64);
        Some(sums)
    }
}

/// The verdict for a huge page.
pub(super) fn verdict(snapshot: &Snapshot) -> Verdict {
    match Sums::of(snapshot) {
        None => Verdict::CannotTell,
        Some(sums) if sums.now > 0 && sums.unusable < MOSTLY => Verdict::NotFragmented,
        Some(sums) if sums.now > 0 => Verdict::PartlyFragmented,
        Some(sums) if sums.is_lack && sums.could_add == 0 => Verdict::ShortOfMemory,
        Some(_) => Verdict::Fragmented,
    }
}

/// The sentence.
pub(super) fn of(snapshot: &Snapshot) -> String {
    let page = snapshot.sizes.page;
    let size = |pages: u64| kb_text(pages.saturating_mul(page >> 10));
    let block = block_text(snapshot.sizes.huge_order, page);
    let free = snapshot.free().map_or_else(|| "Memory".to_owned(), size);
    let Some(sums) = Sums::of(snapshot) else {
        return format!(
            "Cannot tell whether memory is fragmented: {free} is free, but the text has no free blocks by \
             order (/proc/buddyinfo has)."
        );
    };
    let blocks = |nr: u64| match snapshot.sizes.is_huge_page {
        true => count(nr, "huge page"),
        false => format!("{} of {block}", count(nr, "block")),
    };
    let be = |nr: u64| if nr == 1 { "is" } else { "are" };
    let block = match sums.kept {
        0 => format!("block of {block}"),
        _ => format!("block of {block} outside HighAtomic pageblocks"),
    };
    let at_mark =
        sums.above_mark.filter(|above| *above < sums.now).map_or_else(String::new, |above| {
            let above = if above == 0 { "none".to_owned() } else { above.to_string() };
            format!(" ({above} of them above the low watermarks and reserves)")
        });
    let add = match sums.could_add {
        0 => "compaction could add none".to_owned(),
        nr => format!("compaction could add at most {nr}"),
    };
    let now = format!("{} {} free now{at_mark}", blocks(sums.now), be(sums.now));
    let percent = (sums.unusable as f64 / 10.0).round();
    match verdict(snapshot) {
        Verdict::NotFragmented => {
            format!(
                "Not fragmented: {now}, {:.0}% of the {free} that is free; {add}.",
                100.0 - percent
            )
        }
        Verdict::PartlyFragmented => format!(
            "Partly fragmented: {now}, but {percent:.0}% of the {free} that is free is in smaller \
             blocks; {add}."
        ),
        Verdict::Fragmented if sums.could_add > 0 => format!(
            "Fragmented: {free} is free, but no {block}; compaction could make at most {}.",
            sums.could_add
        ),
        Verdict::Fragmented => format!(
            "Fragmented: {free} is free, but no {block}, and compaction could make none: {}.",
            match sums.gathered {
                0 => "too little of it lies in movable pageblocks",
                _ => "too little of it is above the watermarks and the room that compaction needs",
            }
        ),
        _ => format!("Short of memory: only {free} is free, and no {block}."),
    }
}
