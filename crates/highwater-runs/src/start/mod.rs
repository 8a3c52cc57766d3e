//! Brings a booted machine into the state in which a run starts: its free lists by type and order.
//!
//! | step | here |
//! |---|---|
//! | frames for the counted free blocks, apart from each other | [`place`](mod@place) |
//! | blocks that the kernel got at boot keep their frames | `in_use` |
//! | the zone's lists are emptied and filled anew | `PageAllocator::restore` |
//!
//! A run restores the state after boot and before its first task. Replay of a trace uses the same
//! layout, with what the trace reveals. Memory that is not free is held by single pages that nobody
//! frees and that are pinned: reclaim finds nothing there, and compaction cannot move it.

pub mod place;

use std::collections::BTreeMap;

use highwater_core::config::{Machine, Policy, preset};
use highwater_core::host::{CpuId, Cx, Host, Solo};
use highwater_core::page::{BlockFlags, PageFlags, Pfn};
use highwater_core::page_alloc::{PageAllocator, boot};
use highwater_core::zone::Zone;
use highwater_files::machine_file::state::{Misfit, StartState, ZoneStart};

use place::{Held, Known, Place, Placed, place_held};

/// Brings booted memory into a state. No task may have run yet.
///
/// # Errors
/// The first zone that cannot be in this state.
pub fn restore<H: Host>(
    memory: &PageAllocator<H>,
    cx: &Cx<'_, H>,
    state: &StartState,
) -> Result<(), Misfit> {
    for zone in memory.populated_zones() {
        let at = |(node, kind)| state.zones.iter().position(|z| (z.node, z.zone) == (node, kind));
        let Some(number) = at((zone.node.0, zone.zone)) else {
            let (node, kind) = (zone.node.0, zone.zone);
            return Err(Misfit { zone: None, reason: format!("no node {node} {kind}") });
        };
        let misfit = |reason| Err(Misfit { zone: Some(number), reason });
        let start = &state.zones[number];
        let used = in_use(memory, zone);
        let known = Known { lists: &BTreeMap::new(), used: &used, free: &[] };
        let placed = layout(zone, known, start, &memory.policy);
        if placed.nr_unplaced > 0 {
            let (name, pages) = (start.name(), placed.nr_unplaced);
            let reason = format!(
                "{name}: {pages} of {} free pages have no place where their blocks do not merge",
                start.free_pages()
            );
            return misfit(reason);
        }
        if let Err(error) = memory.restore(cx, zone, &placed.state) {
            return misfit(format!("{}: {error}", start.name()));
        }
        hold(memory, zone, &used);
    }
    Ok(())
}

/// The layout that has a place for most free blocks.
fn layout<H: Host>(zone: &Zone<H>, known: Known<'_>, start: &ZoneStart, policy: &Policy) -> Placed {
    let place = |held| place_held(Place::of(zone), known, Some(start), policy, held);
    let first = place(Held::Last);
    if first.nr_unplaced == 0 {
        return first;
    }
    let second = place(Held::Farthest);
    if second.nr_unplaced < first.nr_unplaced { second } else { first }
}

/// Pins the pages that nobody uses: the audit explains each page in use.
fn hold<H: Host>(memory: &PageAllocator<H>, zone: &Zone<H>, used: &[(u64, u8)]) {
    for pfn in (zone.start.0..zone.end.0).map(Pfn) {
        let is_own = used.binary_search_by_key(&u64::from(pfn.0), |(first, _)| *first).is_ok();
        if memory.map.block(pfn).has(BlockFlags::USED) && !is_own {
            memory.map.page(pfn).flag_set::<H>(PageFlags::PINNED);
        }
    }
}

/// Checks that a machine can be in a state, on a machine that is booted for it.
///
/// # Errors
/// As [`restore`].
pub fn check(machine: &Machine, state: &StartState) -> Result<(), Misfit> {
    let host = Solo::default();
    let misfit = |reason| Misfit { zone: None, reason };
    let policy = preset(LAYOUT_POLICY).ok_or_else(|| misfit("no policy".to_owned()))?;
    let memory = boot(&host, machine, &policy).map_err(|error| misfit(error.to_string()))?;
    restore(&memory, &Cx::new(&host, CpuId(0)), state)
}

/// Sizes of zones do not depend on the policy, and the layout depends on nothing else.
const LAYOUT_POLICY: &str = "6.1";

/// Blocks of a zone that are in use: what the kernel got at boot, each with one reference.
fn in_use<H: Host>(memory: &PageAllocator<H>, zone: &Zone<H>) -> Vec<(u64, u8)> {
    let mut used = Vec::new();
    let mut at = zone.start.0;
    while at < zone.end.0 {
        let word = memory.map.block(Pfn(at));
        let is_used = word.has(BlockFlags::USED);
        if is_used {
            used.push((u64::from(at), word.order().0));
        }
        at += if is_used { word.order().pages() as u32 } else { 1 };
    }
    used
}
