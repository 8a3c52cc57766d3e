//! `/proc/zoneinfo`, `buddyinfo` and `pagetypeinfo` of one moment, as files: beside a trace, or in a
//! directory that holds a state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use highwater_core::page::{MAX_ORDER, MigrateType, PAGEBLOCK_PAGES};
use highwater_core::zone::ZoneType;
use highwater_results::import::proc::{Buddyinfo, PageTypeInfo, Zoneinfo, in_orders};
use highwater_results::words::refusal;

use super::state::{Misfit, OPTION, StartState, ZoneStart};
use crate::input::{InputError, held};

/// Names of the files in a directory.
pub const ZONEINFO: &str = "zoneinfo";
/// Free blocks by order.
pub const BUDDYINFO: &str = "buddyinfo";
/// Free blocks by type and order.
pub const PAGETYPEINFO: &str = "pagetypeinfo";

/// All of them.
pub const FILES: [&str; 3] = [ZONEINFO, BUDDYINFO, PAGETYPEINFO];

/// Names in `/proc/pagetypeinfo` of free memory that is set aside, and its type at the start.
const SET_ASIDE: [(&str, MigrateType); 4] = [
    ("HighAtomic", MigrateType::HighAtomic),
    // Of 4.3 and before.
    ("Reserve", MigrateType::HighAtomic),
    (CMA, MigrateType::Isolate),
    ("Isolate", MigrateType::Isolate),
];
const CMA: &str = "CMA";

/// `/proc` files of one moment.
#[derive(Clone, Debug, Default)]
pub struct StateTexts {
    /// Zones, and the fill of their per-CPU lists.
    pub zoneinfo: Option<Zoneinfo>,
    /// Free blocks by type, pageblocks by type.
    pub pagetypeinfo: Option<PageTypeInfo>,
    /// Free blocks.
    pub buddyinfo: Option<Buddyinfo>,
    /// The files that exist.
    pub files: Vec<PathBuf>,
    /// Their texts, for the lines of errors; only of a directory.
    texts: Vec<String>,
}

/// A zone's state as counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The state.
    pub start: ZoneStart,
    /// Free CMA pages among it; they are on the lists of [`MigrateType::Isolate`].
    pub nr_cma: u64,
}

impl StateTexts {
    /// Contradictions between these files, a sentence each.
    pub fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        let zones = self.zoneinfo.iter().flat_map(|info| &info.zones).filter(|z| z.is_populated());
        let zones: Vec<(u32, &str, u64)> =
            zones.map(|z| (z.node, z.zone.as_str(), z.present)).collect();
        let mut of_buddy: BTreeMap<(u32, &str), u64> = BTreeMap::new();
        for zone in self.buddyinfo.iter().flat_map(|info| &info.zones) {
            of_buddy.insert((zone.node, &zone.zone), zone.nr_pages());
        }
        let mut of_types: BTreeMap<(u32, &str), u64> = BTreeMap::new();
        for row in self.pagetypeinfo.iter().flat_map(|info| &info.free) {
            let pages =
                (0..).zip(&row.nr_free).map(|(order, n)| n.nr_blocks.saturating_mul(1 << order));
            *of_types.entry((row.node, &row.zone)).or_default() += pages.sum::<u64>();
        }
        for (file, counted) in [("buddyinfo", &of_buddy), ("pagetypeinfo", &of_types)] {
            if counted.is_empty() || zones.is_empty() {
                continue;
            }
            let nodes =
                |nodes: &mut dyn Iterator<Item = u32>| nodes.collect::<BTreeSet<u32>>().len();
            let (own, real) = (
                nodes(&mut counted.keys().map(|(node, _)| *node)),
                nodes(&mut zones.iter().map(|(node, ..)| *node)),
            );
            if own != real {
                found.push(format!("{file} has {own} nodes with memory, zoneinfo {real}"));
                continue;
            }
            for &(node, zone, present) in &zones {
                match counted.get(&(node, zone)) {
                    None => found.push(format!("{file} has no zone {zone} of node {node}, zoneinfo has")),
                    Some(free) if *free > present => found.push(format!(
                        "{file} counts {free} free pages in node {node} {zone}, which has {present} by zoneinfo"
                    )),
                    Some(_) => {}
                }
            }
            for (node, zone) in counted.keys() {
                if !zones.iter().any(|(n, z, _)| n == node && z == zone) {
                    found.push(format!(
                        "{file} has a zone {zone} of node {node}, zoneinfo has none"
                    ));
                }
            }
        }
        if let (Some(buddy), Some(types)) = (&self.buddyinfo, &self.pagetypeinfo) {
            let (buddy, types) = (buddy.nr_orders(), types.nr_orders());
            if buddy != types {
                found.push(format!("buddyinfo has {buddy} orders, pagetypeinfo {types}"));
            }
        }
        found
    }

    /// Facts in these files that the model does differently, a sentence each.
    /// `kernel` is its subject: "the traced kernel".
    pub fn not_modelled(&self, kernel: &str) -> Vec<String> {
        let mut found = Vec::new();
        let of_buddy = self.buddyinfo.as_ref().map(Buddyinfo::nr_orders);
        let orders = self.pagetypeinfo.as_ref().map(PageTypeInfo::nr_orders).max(of_buddy);
        if let Some(orders) = orders.filter(|orders| *orders > MAX_ORDER) {
            let most = MAX_ORDER - 1;
            found.push(format!(
                "{kernel} has {orders} orders: free blocks above order {most} start as blocks of order {most}"
            ));
        }
        let pages = self.pagetypeinfo.as_ref().map(|info| info.pages_per_block);
        if let Some(pages) = pages.filter(|pages| *pages != PAGEBLOCK_PAGES) {
            found.push(format!(
                "pageblocks of {kernel} have {pages} pages, here they have {PAGEBLOCK_PAGES}"
            ));
        }
        found
    }

    /// Reads the files beside `X.trace.gz` (or `X.trace`, `X.txt`).
    ///
    /// # Errors
    /// If an existing file cannot be read.
    pub fn beside(trace: &Path) -> Result<StateTexts, InputError> {
        let mut stem = trace.to_path_buf();
        if stem.extension().is_some_and(|e| e == "gz") {
            stem.set_extension("");
        }
        let mut found = StateTexts::default();
        let mut existing = |extension: &str| {
            let packed = format!("{extension}.gz");
            let paths = [extension, &packed].map(|extension| stem.with_extension(extension));
            let path = paths.into_iter().find(|path| path.is_file() && path != trace)?;
            found.files.push(path.clone());
            Some(path)
        };
        let zoneinfo = existing("zoneinfo");
        let pagetypeinfo = existing("pagetypeinfo");
        let buddyinfo = existing("buddyinfo");
        found.zoneinfo = zoneinfo.map(Zoneinfo::read).transpose()?;
        found.pagetypeinfo = pagetypeinfo.map(PageTypeInfo::read).transpose()?;
        found.buddyinfo = buddyinfo.map(Buddyinfo::read).transpose()?;
        Ok(found)
    }

    /// Reads the files of a directory: `zoneinfo`, `buddyinfo`, `pagetypeinfo`.
    ///
    /// # Errors
    /// If an existing file cannot be read, or none of them has free blocks.
    pub fn of_dir(dir: &Path) -> Result<StateTexts, InputError> {
        let mut found = StateTexts::default();
        for name in FILES {
            let path = dir.join(name);
            if !held::has(&path) && !path.is_file() {
                continue;
            }
            let file = path.display().to_string();
            let text = held::read(&path).map_err(|error| {
                InputError::whole(&*file, format!("cannot be read: {}", refusal(&error)))
            })?;
            let bytes = text.as_bytes();
            match name {
                ZONEINFO => found.zoneinfo = Some(Zoneinfo::parse(&file, bytes)?),
                BUDDYINFO => found.buddyinfo = Some(Buddyinfo::parse(&file, bytes)?),
                _ => found.pagetypeinfo = Some(PageTypeInfo::parse(&file, bytes)?),
            }
            found.files.push(path);
            found.texts.push(text);
        }
        if found.buddyinfo.is_some() || found.pagetypeinfo.is_some() {
            return Ok(found);
        }
        let option = format!("{OPTION} {}", dir.display());
        let reason = match (found.files.is_empty(), dir.is_dir()) {
            (true, false) => "there is no such directory".to_owned(),
            _ => format!("neither {BUDDYINFO} nor {PAGETYPEINFO} in this directory"),
        };
        Err(InputError::whole(option, reason))
    }

    /// Zones of which free blocks are known, by node and name as printed.
    pub fn zones(&self) -> Vec<(u32, String)> {
        let mut zones: Vec<(u32, String)> = Vec::new();
        let of_buddy = self.buddyinfo.iter().flat_map(|info| &info.zones);
        let of_types = self.pagetypeinfo.iter().flat_map(|info| &info.free);
        let all = of_buddy.map(|zone| (zone.node, zone.zone.clone()));
        for zone in all.chain(of_types.map(|row| (row.node, row.zone.clone()))) {
            if !zones.contains(&zone) {
                zones.push(zone);
            }
        }
        zones
    }

    /// Free pages of a zone by its free blocks.
    pub(super) fn pages_of(&self, node: u32, zone: &str) -> u64 {
        let of_buddy = self.buddyinfo.iter().flat_map(|info| &info.zones);
        let of_buddy =
            of_buddy.filter(|row| row.node == node && row.zone == zone).map(|row| row.nr_pages());
        let of_types = self.pagetypeinfo.iter().flat_map(|info| &info.free);
        let of_types = of_types.filter(|row| row.node == node && row.zone == zone);
        let of_types = of_types.flat_map(|row| (0..).zip(&row.nr_free));
        let of_types = of_types.map(|(order, nr)| nr.nr_blocks.saturating_mul(1 << order));
        of_buddy.chain(of_types).fold(0, u64::saturating_add)
    }

    /// Free blocks, pageblocks and per-CPU lists of a zone; none if its free blocks are not known.
    pub fn zone_start(&self, node: u32, zone: ZoneType) -> Option<Counted> {
        let is_here = |n: u32, name: &str| n == node && name == zone.name();
        let of_all = self.buddyinfo.as_ref().and_then(|info| {
            let row = info.zones.iter().find(|z| is_here(z.node, &z.zone))?;
            Some(in_orders::<MAX_ORDER>(&row.nr_free).0)
        });
        let mut counted =
            Counted { start: ZoneStart::new(u16::try_from(node).ok()?, zone), nr_cma: 0 };
        let start = &mut counted.start;
        let lists = self.zoneinfo.as_ref().and_then(|info| info.zone(node, zone.name()));
        for set in lists.iter().flat_map(|zone| &zone.pagesets) {
            let at = set.cpu as usize;
            if start.on_lists.len() <= at {
                start.on_lists.resize(at + 1, 0);
            }
            start.on_lists[at] = set.count;
        }
        let rows = self.pagetypeinfo.iter().flat_map(|info| &info.free);
        let rows: Vec<_> = rows.filter(|r| is_here(r.node, &r.zone)).collect();
        if rows.is_empty() {
            // Blocks without types: movable, as most free memory is.
            start.free[MigrateType::Movable.idx()] = of_all?;
            return Some(counted);
        }
        let mut capped = [None; MAX_ORDER];
        for row in rows {
            let all: Vec<u64> = row.nr_free.iter().map(|blocks| blocks.nr_blocks).collect();
            let (all, _) = in_orders::<MAX_ORDER>(&all);
            let migratetype = type_of(&row.migratetype).idx();
            for (order, blocks) in all.into_iter().enumerate() {
                let slot = &mut start.free[migratetype][order];
                *slot = slot.saturating_add(blocks);
                let nr_cma =
                    if row.migratetype == CMA { blocks.saturating_mul(1 << order) } else { 0 };
                counted.nr_cma = counted.nr_cma.saturating_add(nr_cma);
            }
            for (order, _) in row.nr_free.iter().enumerate().filter(|(_, blocks)| blocks.is_capped)
            {
                if let Some(capped) = capped.get_mut(order) {
                    *capped = Some(migratetype);
                }
            }
        }
        // Linux stops counting a type's list at 100,000; buddyinfo has the total of all types.
        for (order, migratetype) in capped.into_iter().enumerate() {
            if let (Some(migratetype), Some(all)) = (migratetype, &of_all) {
                let counted = start.free.iter().map(|blocks| blocks[order]);
                let counted = counted.fold(0, u64::saturating_add);
                start.free[migratetype][order] += all[order].saturating_sub(counted);
            }
        }
        let pageblocks = self.pagetypeinfo.iter().flat_map(|info| &info.pageblocks);
        for row in pageblocks.filter(|r| is_here(r.node, &r.zone)) {
            for (name, blocks) in &row.nr_blocks {
                let slot = &mut start.pageblocks[type_of(name).idx()];
                *slot = slot.saturating_add(*blocks);
            }
        }
        Some(counted)
    }

    /// An error at the first line about a zone, in the file that has its free blocks.
    pub fn error_at(&self, node: u32, zone: &str, reason: String) -> InputError {
        let of_blocks = |file: &&PathBuf| !file.ends_with(ZONEINFO);
        let files = self.files.iter().zip(&self.texts).filter(|(file, _)| of_blocks(file));
        for (file, text) in files {
            let is_here = |line: &str| {
                let words = line.replace(',', " ");
                let mut words = words.split_whitespace();
                let head = [words.next(), words.next(), words.next(), words.next()];
                let node = node.to_string();
                head == [Some("Node"), Some(&node), Some("zone"), Some(zone)]
            };
            if let Some(at) = text.lines().position(is_here) {
                let file = file.display().to_string();
                return InputError { line: Some(at + 1), ..InputError::whole(file, reason) };
            }
        }
        let first = self.files.last().map(|file| file.display().to_string());
        InputError::whole(first.unwrap_or_default(), reason)
    }

    /// The same about a zone of the state that these texts have.
    pub fn misfit(&self, state: &StartState, misfit: &Misfit) -> InputError {
        let reason = misfit.reason.clone();
        match misfit.zone.and_then(|at| state.zones.get(at)) {
            Some(zone) => self.error_at(zone.node.into(), zone.zone.name(), reason),
            None => self.error_at(u32::MAX, "", reason),
        }
    }
}

/// The type with a name in `/proc/pagetypeinfo`; movable for an unknown name.
fn type_of(name: &str) -> MigrateType {
    let set_aside = SET_ASIDE.into_iter().find(|(known, _)| *known == name);
    let known = || MigrateType::ALL.into_iter().find(|t| t.name() == name);
    set_aside.map(|(_, t)| t).or_else(known).unwrap_or(MigrateType::Movable)
}

/// The zone of a name that `/proc` prints.
pub fn zone_type(name: &str) -> Option<ZoneType> {
    ZoneType::ALL.into_iter().find(|zone| zone.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecars_have_the_stem_of_the_trace() {
        let dir = tempfile::tempdir().unwrap();
        let text = "Node 0, zone   Normal      1      0      0      0      0      0      0      0      0      0      0 \n";
        std::fs::write(dir.path().join("x.buddyinfo"), text).unwrap();
        for name in ["x.trace.gz", "x.trace", "x.txt.gz", "x.txt"] {
            let found = StateTexts::beside(&dir.path().join(name)).unwrap();
            assert!(found.buddyinfo.is_some() && found.zoneinfo.is_none(), "{name}");
        }
        assert!(StateTexts::beside(&dir.path().join("y.trace")).unwrap().files.is_empty());
    }
}
