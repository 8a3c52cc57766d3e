//! Trials of what would have helped: other settings, kernels, orders and rights, tried on the same zones.
//!
//! Each trial changes one thing and asks the same functions again. A trial whose numbers are not
//! in the text is left out, and says so.

use highwater_core::compaction::{compact_gap, fragmentation_index};
use highwater_core::page::{MAX_ORDER, Order};
use highwater_results::import::log::{Report, ReportKind, ZONE_NAMES};
use serde::Serialize;

use super::allocator::{Rebuilt, try_request};
use super::cause::{Cause, Reasons};
use super::group::Group;
use super::judge::{Judge, Rights, ignores_marks, presets, reclaims};
use super::words::{kb_text, order_text, pages_text, total};
use super::zone::{Numbers, ZoneRow, own_min, page_size, pages_of, rows};

/// The kind of a trial, for advice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trial {
    /// Another value of `vm.min_free_kbytes`: the setting in words, if one would have helped.
    MinFree(Option<String>),
    /// Marks without a boost.
    NoBoost,
    /// Compaction of a zone.
    Compaction,
    /// Any other.
    #[default]
    Other,
}

/// A trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// Its kind.
    #[serde(skip)]
    pub trial: Trial,
    /// The change.
    pub change: String,
    /// Would the request have been served? `None` if the text has too little.
    pub helps: Option<bool>,
    /// The result, with what it costs.
    pub result: String,
}

impl Remedy {
    pub(super) fn new(
        change: impl Into<String>,
        helps: Option<bool>,
        result: impl Into<String>,
    ) -> Remedy {
        let trial = Trial::default();
        Remedy { trial, change: change.into(), helps, result: result.into() }
    }

    fn of(self, trial: Trial) -> Remedy {
        Remedy { trial, ..self }
    }
}

/// All trials that make sense for a report.
pub(super) fn remedies(
    report: &Report,
    judge: &Judge,
    rows: &[ZoneRow<'_>],
    reasons: &Reasons,
) -> Vec<Remedy> {
    if reasons.cause == Cause::MemcgLimit {
        return Group::of(report).remedies();
    }
    let Some(rights) = judge.rights else { return Vec::new() };
    if matches!(reasons.cause, Cause::Requested | Cause::VmallocSpace | Cause::CorruptMarks)
        || rows.is_empty()
    {
        return Vec::new();
    }
    let trials = Trials { report, judge, rights, rows, cause: reasons.cause };
    let is_kill = report.kind == ReportKind::Oom;
    let mut found = Vec::new();
    // A kill follows many tries, and frees memory: one more try says nothing of it.
    if !is_kill {
        found.push(trials.same());
        found.extend(trials.min_free());
    }
    found.extend(trials.compaction());
    if !is_kill {
        found.extend(trials.no_boost());
    }
    found.extend(trials.lower_order());
    found.extend(trials.higher_zone());
    found.extend(trials.waiting());
    if !is_kill {
        found.extend(trials.kernels());
    }
    found
}

struct Trials<'a> {
    report: &'a Report,
    judge: &'a Judge,
    rights: Rights,
    rows: &'a [ZoneRow<'a>],
    cause: Cause,
}

/// Marks of a zone in pages and its size.
#[derive(Clone, Copy)]
struct Marks {
    numbers: Numbers,
    /// min and low without the boost.
    min: u64,
    low: u64,
    boost: u64,
    managed: u64,
}

impl<'a> Trials<'a> {
    fn allowed(&self) -> impl Iterator<Item = &'a ZoneRow<'a>> {
        self.rows.iter().filter(|row| row.allowed == Some(true) && row.is_populated())
    }

    fn page(&self) -> u64 {
        page_size(self.report)
    }

    fn kb(&self, pages: u64) -> String {
        kb_text(pages.saturating_mul(self.page()) / 1024)
    }

    /// The request as it is, in our allocator. The free lists are printed after `free`: if both
    /// would answer differently, neither is an answer.
    fn same(&self) -> Remedy {
        let what = "the same request again, in Highwater's allocator";
        let by_rows = self.allowed().any(ZoneRow::serves);
        match try_request(self.report, self.judge, self.rows) {
            Rebuilt::Served { node, zone } => {
                let node = node.map_or_else(String::new, |node| format!("node {node} "));
                let (helps, why) = if by_rows {
                    (Some(true), "memory was freed between the refusal and the dump")
                } else {
                    (None, "but only by the free lists, which were printed after the zone lines")
                };
                Remedy::new(what, helps, format!("served from {node}{zone}, {why}"))
            }
            Rebuilt::Refused { .. } if by_rows => Remedy::new(
                what,
                None,
                "refused by the free lists, which were printed after the zone lines; by these it would be served",
            ),
            Rebuilt::Refused { blocks } => {
                let noun = if blocks == 1 { "block" } else { "blocks" };
                Remedy::new(what, Some(false), format!("refused, with {blocks} free {noun}"))
            }
            Rebuilt::NotTried(why) => Remedy::new(what, None, format!("not tried: {why}")),
        }
    }

    /// The least `vm.min_free_kbytes` that keeps enough free: kswapd starts at `low`, and what was
    /// taken since then is taken from the new `low`.
    fn min_free(&self) -> Option<Remedy> {
        if !matches!(self.cause, Cause::AtMarkNowait | Cause::MemoryShort | Cause::Reserve) {
            return None;
        }
        let change = "vm.min_free_kbytes";
        if reclaims(self.report) || ignores_marks(self.report) {
            let result = "a higher value leaves more to reclaim itself; how much it needs is not in the text";
            return Some(Remedy::new(change, None, result).of(Trial::MinFree(None)));
        }
        let zones: Option<Vec<Marks>> = self.allowed().map(|row| self.marks(row)).collect();
        // The setting is spread over all zones of all nodes, whether or not the request may use them.
        let low = self.report.zones.iter().filter(|zone| {
            zone.managed.or(zone.present) != Some(0)
                && !matches!(zone.name.as_str(), "HighMem" | "Movable")
        });
        let all: Option<Vec<u64>> = low.map(|zone| Some(own_min(zone)?.0)).collect();
        let (Some(zones), Some(all)) = (zones, all) else {
            return Some(
                Remedy::new(change, None, "not tried: marks or sizes of zones are not in the text")
                    .of(Trial::MinFree(None)),
            );
        };
        let now = total(all);
        if now == 0 || zones.is_empty() {
            return None;
        }
        if self.rights.may_wait {
            return Some(Remedy::new(
                change,
                Some(false),
                "a higher value keeps more free for others: this request reclaims itself, and found nothing",
            ));
        }
        // Enough as it is: what was missing then is not in the text.
        if zones.iter().any(|zone| self.passes_at(*zone, 1.0)) {
            return None;
        }
        let least = zones.iter().filter_map(|zone| self.least_factor(*zone)).min_by(f64::total_cmp);
        let Some(factor) = least else {
            let result = "no value that leaves three quarters of the zone for use is enough";
            return Some(Remedy::new(change, Some(false), result).of(Trial::MinFree(None)));
        };
        // Kernels leave out zones and nodes that the request may not use. Then a value made of the
        // others would be too small, and only the ratio is known.
        let (factor, change, setting) = if self.has_all_zones() {
            let least = ((now as f64 * factor).ceil() as u64).checked_next_multiple_of(64)?;
            let change = format!("{change} = {least} (now about {now})");
            (least as f64 / now as f64, change, format!("sysctl vm.min_free_kbytes={least}"))
        } else {
            let factor = (factor * 100.0).ceil() / 100.0;
            let setting = format!("raise vm.min_free_kbytes to {factor:.2} times its value");
            (factor, format!("{factor:.2} times {change}"), setting)
        };
        let costs = self.kb(total(zones.iter().map(|zone| self.kept_at(*zone, factor))));
        let result = format!(
            "kswapd would start earlier: after the same burst the request passes; {costs} more stay free"
        );
        let setting = format!("{setting} ({costs} more stay free)");
        Some(Remedy::new(change, Some(true), result).of(Trial::MinFree(Some(setting))))
    }

    /// Has the text all zones of the machine? Their sizes add up to its pages then.
    fn has_all_zones(&self) -> bool {
        let zones = &self.report.zones;
        let sizes: Option<Vec<u64>> = zones.iter().map(|zone| zone.managed).collect();
        let pages = &self.report.pages;
        let ram = pages.ram.map(|ram| ram.saturating_sub(pages.reserved.unwrap_or(0)));
        sizes.zip(ram).is_some_and(|(sizes, ram)| {
            let kb = ram.saturating_mul(self.page()) / 1024;
            total(sizes) >= kb - kb / 20
        })
    }

    fn marks(&self, row: &ZoneRow<'_>) -> Option<Marks> {
        let pages = |kb: u64| pages_of(self.report, kb);
        let numbers = Numbers::of(self.report, row)?;
        let managed = pages(row.zone.managed.or(row.zone.present)?);
        let (min, boost) = own_min(row.zone)?;
        let low = pages(row.zone.low?.saturating_sub(boost));
        Some(Marks { numbers, min: pages(min), low, boost: pages(boost), managed })
    }

    /// min and low at a multiple of min_free_kbytes, without boost. low is above min by a quarter
    /// of it, or by the scale factor's gap if that is more.
    fn scaled(&self, zone: Marks, factor: f64) -> (u64, u64) {
        let gap = zone.low.saturating_sub(zone.min);
        let min = (zone.min as f64 * factor).ceil() as u64;
        (min, min.saturating_add(gap.max(min / 4)))
    }

    /// The least multiple of min_free_kbytes at which the zone passes, if its low watermark is then
    /// at most a quarter of it.
    fn least_factor(&self, zone: Marks) -> Option<f64> {
        let (mut low, mut high) = (1.0, zone.managed as f64 / 4.0 / zone.low.max(1) as f64);
        if high < low || !self.passes_at(zone, high) {
            return None;
        }
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if self.passes_at(zone, middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    fn passes_at(&self, zone: Marks, factor: f64) -> bool {
        let (min, low) = self.scaled(zone, factor);
        // A boost is no part of what the setting scales. kswapd starts at low with it.
        let taken = (zone.low + zone.boost).saturating_sub(zone.numbers.free());
        let free = low.saturating_add(zone.boost).saturating_sub(taken).max(zone.numbers.free());
        let boost = zone.numbers.min().saturating_sub(zone.min);
        let then = zone.numbers.with_min(min.saturating_add(boost)).with_free(free);
        then.spare(self.judge, self.rights, 0) > 0
    }

    fn kept_at(&self, zone: Marks, factor: f64) -> u64 {
        let (_, low) = self.scaled(zone, factor);
        low.saturating_sub(zone.low)
    }

    /// Blocks that compaction could make at most.
    fn compaction(&self) -> Vec<Remedy> {
        let order = self.rights.order;
        let lacks = matches!(
            self.cause,
            Cause::Fragmented | Cause::HighatomicOnly | Cause::CmaOnly | Cause::ServedAtDumpTime
        );
        if order == 0 || usize::from(order) >= MAX_ORDER || !lacks {
            return Vec::new();
        }
        let short = self.allowed().filter(|row| row.passes == Some(true) && !row.serves());
        short
            .filter_map(|row| Some(self.compaction_of(row, Order(order))?.of(Trial::Compaction)))
            .collect()
    }

    fn compaction_of(&self, row: &ZoneRow<'_>, order: Order) -> Option<Remedy> {
        let zone = row.zone;
        let list = zone.list.as_ref()?;
        let pages = |kb: u64| pages_of(self.report, kb);
        let mut nr_free = [0; MAX_ORDER];
        for block in &list.blocks {
            *nr_free.get_mut(block.order as usize)? = block.count.min(u64::from(u32::MAX));
        }
        let above = |mark: u64| {
            let unusable =
                total([row.unusable_cma, row.highatomic_in_test()].into_iter().flatten());
            let kept = total([pages(mark), row.reserve_pages.unwrap_or(0), pages(unusable)]);
            pages(zone.free.unwrap_or(0)).saturating_sub(kept)
        };
        let change = format!("compaction of {}", row.name());
        let room = above(zone.low?);
        if room < compact_gap(order) {
            return Some(Remedy::new(
                change,
                Some(false),
                format!(
                    "it needs {} above the low mark to work with",
                    pages_text(compact_gap(order), self.page())
                ),
            ));
        }
        let most = room / order.pages();
        // 0: the free blocks that the request may not have would serve it.
        let index = fragmentation_index(order, &nr_free);
        let words = match index {
            ..0 => "free blocks exist, but of types that the request may not have".to_owned(),
            index => format!("fragmentation index {}.{:03}", index / 1000, index % 1000),
        };
        let movable = self.movable_share(row);
        let can = match movable {
            Some(share) if share < 0.05 => {
                return Some(Remedy::new(
                    change,
                    Some(false),
                    format!("{words}, but only {:.0} % of its pages can be moved", share * 100.0),
                ));
            }
            Some(share) => format!("; {:.0} % of its pages can be moved", share * 100.0),
            None => String::new(),
        };
        // A request that may wait compacts by itself, if it may do I/O.
        let (helps, before) = if self.rights.may_wait && !self.may_compact() {
            (
                Some(true),
                "the kernel does not compact for a request with such flags; kcompactd, or compact_memory: ",
            )
        } else if self.rights.may_wait {
            (None, "the kernel normally compacts before it refuses such a request; ")
        } else {
            (Some(true), "")
        };
        Some(Remedy::new(
            change,
            helps,
            format!(
                "{before}it could make {} of {} at most: {words}{can}",
                if most == 1 { "1 block".to_owned() } else { format!("{most} blocks") },
                order_text(u32::from(order.0), self.page())
            ),
        ))
    }

    /// Does the kernel compact for a request with these flags? Since 4.10 it must have `__GFP_IO`,
    /// before also `__GFP_FS`.
    fn may_compact(&self) -> bool {
        let version = self.report.kernel.as_ref().and_then(|kernel| kernel.version);
        let version = version.map(|v| (v.major, v.minor));
        let rules = self.report.request.gfp.as_ref().and_then(|gfp| gfp.rules);
        let is_before = |limit| version.is_some_and(|version| version < limit);
        rules.is_none_or(|it| it.may_io && (it.may_fs || !is_before((4, 10))))
    }

    /// Pages of the zone on LRU lists, which can be moved, as a share of it.
    fn movable_share(&self, row: &ZoneRow<'_>) -> Option<f64> {
        const LRU: [&str; 4] = ["active_anon", "inactive_anon", "active_file", "inactive_file"];
        let zone = row.zone;
        let managed = zone.managed.or(zone.present).filter(|kb| *kb > 0)?;
        let kb: Option<Vec<u64>> =
            LRU.iter().map(|name| zone.counters.get(*name).copied()).collect();
        Some(total(kb?) as f64 / managed as f64)
    }

    /// The largest order that would pass.
    fn lower_order(&self) -> Option<Remedy> {
        if self.rights.order == 0 || self.allowed().any(ZoneRow::serves) {
            return None;
        }
        let found = (0..self.rights.order).rev().find_map(|order| {
            let mut judge = self.judge.clone();
            judge.rights = Some(Rights { order, ..self.rights });
            let tested = rows(self.report, &judge);
            first_of_zonelist(&tested).map(|row| (order, row.name()))
        });
        Some(match found {
            Some((order, zone)) => Remedy::new(
                format!("{} instead", order_text(u32::from(order), self.page())),
                Some(true),
                format!("served from {zone}"),
            ),
            None => Remedy::new("a lower order", Some(false), "refused, down to a single page"),
        })
    }

    /// The same zones without their boost.
    fn no_boost(&self) -> Option<Remedy> {
        let has_boost = self.allowed().any(|row| own_min(row.zone).is_some_and(|(_, kb)| kb > 0));
        if !has_boost || !self.judge.has_boost || self.allowed().any(ZoneRow::serves) {
            return None;
        }
        let mut judge = self.judge.clone();
        judge.has_boost = false;
        let tested = rows(self.report, &judge);
        let change = "vm.watermark_boost_factor = 0";
        let found = match first_of_zonelist(&tested) {
            Some(row) => Remedy::new(
                change,
                Some(true),
                format!("marks without a boost; served from {}", row.name()),
            ),
            None => Remedy::new(change, Some(false), "refused without the boost, too"),
        };
        Some(found.of(Trial::NoBoost))
    }

    /// The same request without `__GFP_DMA` or `__GFP_DMA32`: a device that reaches all memory.
    fn higher_zone(&self) -> Option<Remedy> {
        let normal = ZONE_NAMES.iter().position(|zone| *zone == "Normal")?;
        let flag = match *ZONE_NAMES.get(self.rights.highest)? {
            "DMA" => "__GFP_DMA",
            "DMA32" => "__GFP_DMA32",
            _ => return None,
        };
        if self.allowed().any(ZoneRow::serves) {
            return None;
        }
        let mut judge = self.judge.clone();
        judge.rights = Some(Rights { highest: normal, ..self.rights });
        // lowmem_reserve[] counts for the new highest zone.
        let report = Report { highest_zone: Some("Normal".to_owned()), ..self.report.clone() };
        let tested = rows(&report, &judge);
        let change = format!("without {flag}, if the device reaches more memory");
        Some(match first_of_zonelist(&tested) {
            Some(row) => Remedy::new(change, Some(true), format!("served from {}", row.name())),
            None if tested.iter().any(|row| row.allowed == Some(true) && row.passes.is_none()) => {
                Remedy::new(change, None, "the text has too little for the other zones")
            }
            None => Remedy::new(change, Some(false), "the other zones refuse it, too"),
        })
    }

    /// Page cache that a request that may wait could reclaim.
    fn waiting(&self) -> Option<Remedy> {
        if self.rights.may_wait || reclaims(self.report) {
            return None;
        }
        let counter = |name: &str| self.report.counters.get(name).copied();
        let file: Option<Vec<u64>> =
            ["active_file", "inactive_file"].iter().map(|name| counter(name)).collect();
        let file = file.map(total);
        let busy = total([counter("dirty"), counter("writeback")].into_iter().flatten());
        let clean = file.map(|file| file.saturating_sub(busy));
        let change = "waiting (GFP_KERNEL), or trying again later";
        Some(match clean {
            Some(clean) if clean > 0 => Remedy::new(
                change,
                Some(true),
                format!("{} of clean page cache can be reclaimed at once", self.kb(clean)),
            ),
            Some(_) => Remedy::new(change, Some(false), "there is no clean page cache to reclaim"),
            None => Remedy::new(change, None, "page cache is not in the text"),
        })
    }

    /// The same zones under the rules of other kernels, if those of its own refuse.
    fn kernels(&self) -> Option<Remedy> {
        if self.allowed().any(ZoneRow::serves) {
            return None;
        }
        let (mut serving, mut refusing) = (Vec::new(), Vec::new());
        for (_, name) in presets() {
            let judge = self.judge.with_preset(name, self.report);
            let tested = rows(self.report, &judge);
            let is_open = |row: &ZoneRow<'_>| row.allowed == Some(true) && row.passes.is_none();
            if tested.iter().any(ZoneRow::serves) {
                serving.push(name);
            } else if !tested.iter().any(is_open) {
                refusing.push(name);
            }
        }
        let change = "another kernel";
        Some(match (serving.as_slice(), refusing.as_slice()) {
            ([], []) => return None,
            ([], refusing) if refusing.len() == presets().len() => {
                let known = presets();
                let ends = known.first().zip(known.last()).map(|(first, last)| (first.1, last.1));
                let (first, last) = ends.unwrap_or_default();
                Remedy::new(
                    change,
                    Some(false),
                    format!("every kernel from {first} to {last} refuses it"),
                )
            }
            ([], refusing) => {
                let result = format!("the rules of {} refuse it", refusing.join(", "));
                Remedy::new(change, Some(false), result)
            }
            (serving, _) => {
                let result = format!("the rules of {} serve it", serving.join(", "));
                Remedy::new(change, Some(true), result)
            }
        })
    }
}

/// The zone that serves the request first: zonelists go from the highest zone downwards. The node
/// of the request is not in the text: of equal zones the one with most to spare stands for it.
pub(super) fn first_of_zonelist<'a, 'b>(rows: &'a [ZoneRow<'b>]) -> Option<&'a ZoneRow<'b>> {
    let place = |row: &ZoneRow<'_>| ZONE_NAMES.iter().position(|zone| *zone == row.zone.name);
    rows.iter().filter(|row| row.serves()).max_by_key(|row| (place(row), row.spare_pages))
}
