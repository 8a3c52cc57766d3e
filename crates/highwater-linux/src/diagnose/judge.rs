//! The request as the allocator sees it: which preset's rules hold, and which rights it has.

use highwater_core::config::{MinReserveRule, PRESETS, Policy, WatermarkTest, preset};
use highwater_core::host::TaskFlags;
use highwater_core::page::Order;
use highwater_core::page_alloc::{AllocFlags, Gfp, last_rights};
use highwater_core::zone::watermark;
use highwater_results::import::log::{GfpRules, Report, Version, ZONE_NAMES};

use crate::capture::KernelVersion;

/// Since this version a free block of a usable type is enough, and high-atomic pageblocks exist
/// (rules/watermarks#exact-test). The preset for it is that of 4.5.
const FREE_BLOCK_SINCE: (u32, u32) = (4, 4);
/// Since this version marks have a boost, whether or not the preset has its rules.
const BOOST_SINCE: (u32, u32) = (5, 0);
/// Since this version zone lines have `reserved_highatomic`.
const HIGHATOMIC_PRINTED_SINCE: (u32, u32) = (5, 5);

/// The rules by which a request is judged, and its rights under them.
#[derive(Clone, Debug)]
pub struct Judge {
    /// The preset whose rules hold.
    pub policy: Policy,
    /// Why that preset, if the kernel's version does not say it.
    pub note: Option<String>,
    /// Rights of the request, if its flags are in the text.
    pub rights: Option<Rights>,
    /// Since 5.0 fragmentation boosts the marks.
    pub(super) has_boost: bool,
    /// Since 4.4.
    has_highatomic: bool,
    /// Since 5.5, or seen.
    prints_highatomic: bool,
}

/// The rights of a request whose order and flags are known.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// Order: 2^order pages.
    pub order: u8,
    /// As the slow path tries last.
    pub flags: AllocFlags,
    /// May wait for direct reclaim: by its flags, and because its task does not reclaim already.
    pub may_wait: bool,
    /// `GFP_ATOMIC`.
    pub is_atomic: bool,
    /// May use CMA pages.
    pub movable: bool,
    /// Index in [`ZONE_NAMES`] of the highest zone that it may use.
    pub highest: usize,
}

impl Judge {
    /// The rules for the kernel of a report.
    pub fn of(report: &Report) -> Judge {
        let version = report.kernel.as_ref().and_then(|kernel| kernel.version);
        let (name, note) = match version {
            Some(version) => (preset_for(version), None),
            None => by_dialect(report),
        };
        Judge::under(name, note, report, version)
    }

    /// The same report under another preset.
    pub fn with_preset(&self, name: &str, report: &Report) -> Judge {
        let mut judge = Judge::under(name, None, report, None);
        judge.has_highatomic = judge.policy.watermark.test == WatermarkTest::FreeBlock;
        judge.prints_highatomic = self.prints_highatomic;
        judge
    }

    fn under(name: &str, note: Option<String>, report: &Report, version: Option<Version>) -> Judge {
        let policy = preset(name).unwrap_or_default();
        let since = |(major, minor)| version.map(|v| (v.major, v.minor) >= (major, minor));
        let printed = report.zones.iter().any(|zone| zone.reserved_highatomic.is_some());
        let judge = Judge {
            has_highatomic: since(FREE_BLOCK_SINCE)
                .unwrap_or(policy.watermark.test == WatermarkTest::FreeBlock),
            prints_highatomic: since(HIGHATOMIC_PRINTED_SINCE).unwrap_or(false) || printed,
            has_boost: since(BOOST_SINCE).unwrap_or_else(|| {
                KernelVersion::of_preset(name).is_none_or(|v| (v.major, v.minor) >= BOOST_SINCE)
            }),
            rights: None,
            policy,
            note,
        };
        let rights = rights(report, judge.policy.watermark.reserves);
        Judge { rights, ..judge }
    }

    /// May the request take blocks of high-atomic pageblocks?
    pub fn may_use_highatomic(&self) -> bool {
        self.rights.is_some_and(|rights| {
            watermark::reserves_reach_highatomic(self.policy.watermark.reserves, rights.flags)
        })
    }

    /// Are high-atomic pages subtracted for this request?
    pub fn subtracts_highatomic(&self) -> bool {
        let reserves = watermark::reserve_flags(self.policy.watermark.reserves);
        self.has_highatomic && !self.rights.is_some_and(|r| r.flags.intersects(reserves))
    }

    /// Does the kernel keep high-atomic pageblocks without printing how many?
    pub fn hides_highatomic(&self) -> bool {
        self.has_highatomic && !self.prints_highatomic
    }
}

/// The newest preset that is not later than the kernel.
fn preset_for(version: Version) -> &'static str {
    let (major, minor) = (version.major, version.minor);
    let known = presets();
    if (major, minor) == FREE_BLOCK_SINCE {
        return known
            .iter()
            .find(|(v, _)| (v.major, v.minor) > FREE_BLOCK_SINCE)
            .map_or("4.5", |k| k.1);
    }
    let not_later = known.iter().rev().find(|(v, _)| (v.major, v.minor) <= (major, minor));
    not_later.or(known.first()).map_or("6.1", |(_, name)| name)
}

/// Presets that are named after a version, the oldest first.
pub(super) fn presets() -> Vec<(KernelVersion, &'static str)> {
    let named = |(name, _): &(&'static str, _)| KernelVersion::of_preset(name).map(|v| (v, *name));
    let mut known: Vec<_> = PRESETS.iter().filter_map(named).collect();
    known.sort();
    known
}

/// A preset by what the lines have, where no line says the version.
fn by_dialect(report: &Report) -> (&'static str, Option<String>) {
    let zones = || report.zones.iter();
    let gfp = report.request.gfp.as_ref();
    let (name, sign) = if zones().any(|zone| zone.free_highatomic.is_some()) {
        ("6.12", "free_highatomic in the zone lines (since 6.13)")
    } else if zones().any(|zone| zone.boost.is_some()) {
        ("5.18", "boost in the zone lines (since 5.18)")
    } else if zones().any(|zone| zone.reserved_highatomic.is_some()) {
        ("5.10", "reserved_highatomic in the zone lines (since 5.5)")
    } else if !report.nodes.is_empty() {
        ("5.4", "counters in node lines (since 4.8)")
    } else if gfp.is_some_and(|gfp| gfp.has_names) {
        ("4.6", "names of the flags (since 4.6)")
    } else if gfp.is_some_and(|gfp| !gfp.has_names) {
        ("4.3", "flags as a number without bits of 4.4 (before 4.4)")
    } else {
        ("6.1", "nothing in the text")
    };
    (
        name,
        Some(format!(
            "the kernel's version is not in the text; judged by the rules of {name}: {sign}"
        )),
    )
}

fn rights(report: &Report, reserves: MinReserveRule) -> Option<Rights> {
    // vmalloc takes single pages where it does not say an order.
    let order = report.request.order.or_else(|| lacks_pages(report).then_some(0))?;
    let order = u8::try_from(order).ok().filter(|order| *order < 32)?;
    let rules = report.request.gfp.as_ref()?.rules?;
    let named = report.highest_zone.as_deref().or(report.zone_by_bits.as_deref());
    let name = named.unwrap_or_else(|| rules.zone_by_bits());
    let highest = ZONE_NAMES.iter().position(|zone| *zone == name)?;
    let gfp = gfp_of(&rules);
    // Orders above the model's have the same rights.
    let asked = Order(order.min(Order::MAX.0));
    let flags = last_rights(gfp, asked, TaskFlags::empty(), reserves);
    // A task that frees memory does not reclaim once more to get some.
    let may_wait = rules.may_wait && !reclaims(report);
    let (is_atomic, movable) = (rules.is_atomic, rules.movable);
    Some(Rights { order, flags, may_wait, is_atomic, movable, highest })
}

impl Rights {
    /// Need not leave the boost of a zone: a single page, atomic (rules/watermarks#fast-test).
    pub fn skips_boost(&self) -> bool {
        self.order == 0 && self.is_atomic
    }
}

/// Is it reclaim itself that asks? Not an interrupt that came meanwhile.
pub(super) fn reclaims(report: &Report) -> bool {
    let context = report.context;
    let is_atomic =
        report.request.gfp.as_ref().and_then(|gfp| gfp.rules).is_some_and(|rules| rules.is_atomic);
    (context.is_kswapd || context.in_reclaim) && !context.in_interrupt && !is_atomic
}

/// May the request take pages below all marks? Reclaim itself may, and a request that says so.
pub(super) fn ignores_marks(report: &Report) -> bool {
    let rules = report.request.gfp.as_ref().and_then(|gfp| gfp.rules);
    rules.is_some_and(|rules| !rules.nomemalloc && (rules.memalloc || reclaims(report)))
}

/// A `vmalloc` that had its addresses and got no pages.
pub(super) fn lacks_pages(report: &Report) -> bool {
    let problem = report.vmalloc.as_ref().and_then(|vmalloc| vmalloc.problem.as_deref());
    problem.is_some_and(|problem| {
        ["allocated ", "page array", "allocate pages"].iter().any(|words| problem.contains(words))
    })
}

/// The flags that decide on rights, with the bits of the core.
pub(super) fn gfp_of(rules: &GfpRules) -> Gfp {
    let mut gfp = Gfp::empty();
    for (is_set, flag) in [
        (rules.may_wait, Gfp::DIRECT_RECLAIM),
        (rules.wakes_kswapd, Gfp::KSWAPD_RECLAIM),
        (rules.may_io, Gfp::IO),
        (rules.may_fs, Gfp::FS),
        (rules.is_high, Gfp::HIGH),
        (rules.is_atomic, Gfp::ATOMIC),
        (rules.memalloc, Gfp::MEMALLOC),
        (rules.nomemalloc, Gfp::NOMEMALLOC),
        (rules.movable, Gfp::MOVABLE),
        (rules.reclaimable, Gfp::RECLAIMABLE),
        (rules.noretry, Gfp::NORETRY),
        (rules.retry_mayfail, Gfp::RETRY_MAYFAIL),
        (rules.dma, Gfp::DMA),
        (rules.dma32, Gfp::DMA32),
        (rules.highmem, Gfp::HIGHMEM),
    ] {
        gfp.set(flag, is_set);
    }
    gfp
}
