//! Managed pages of zones at the time when Linux computed their sizes, derived from those sizes.
//!
//! A kernel frees its init memory after it has computed watermarks and reserves, and recomputes
//! neither (rules/zones#boot-order). So `/proc/zoneinfo` reports more managed pages than the sizes
//! were computed from, and Linux does not report the difference. But every size bounds it: a min
//! mark is the zone's share of min_free_kbytes, the gap between marks is a share of the zone, and a
//! reserve is a share of the zones above. If all bounds meet, the zone boots with the sizes of the
//! running kernel.

use highwater_core::config::HighWatermark;
use highwater_core::zone::watermark;
use highwater_results::import::linux61::Zone;

/// Most pages that a kernel is assumed to have freed after boot.
const RELEASED_MAX: u64 = 1 << 16;

/// The inputs of the sizes, besides the zones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// `vm.min_free_kbytes`, including what transparent huge pages add.
    pub(super) min_free_kbytes: u64,
    /// `vm.watermark_scale_factor`.
    pub(super) scale_factor: u64,
    /// `vm.lowmem_reserve_ratio`.
    pub(super) reserve_ratio: [u64; 4],
    /// The rule for the gaps between the marks.
    pub(super) gaps: HighWatermark,
}

/// The sizes that were computed at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    /// Marks and reserves.
    All,
    /// Marks alone: newer kernels recompute reserves when memory is freed.
    Marks,
}

/// Managed pages of each zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AtBoot {
    /// Its pages, in the order of the zones.
    pub(super) managed: Vec<u64>,
    /// Distance of the resulting sizes from the captured ones: 0 if all are equal, 1 if all marks
    /// are.
    pub(super) off: u64,
}

/// Managed pages of each zone at boot; today's value if no other value fits its sizes better.
pub(super) fn managed_at_boot(zones: &[Zone], rules: Rules) -> AtBoot {
    let now: Vec<u64> = zones.iter().map(|zone| zone.managed).collect();
    let share = rules.min_free_kbytes / 4;
    let off = error(zones, &now, rules, Sizes::All);
    if off == 0 || share == 0 {
        return AtBoot { managed: now, off };
    }
    let all = search(zones, share, rules, Sizes::All);
    let marks = || search(zones, share, rules, Sizes::Marks).filter(|(off, _)| *off == 0);
    match all {
        Some((0, managed)) => AtBoot { managed, off: 0 },
        // One size that was computed in another way does not hide the others.
        all => match (marks(), all.filter(|(least, _)| *least < off)) {
            (Some((_, managed)), _) => AtBoot { managed, off: 1 },
            (None, Some((least, managed))) => AtBoot { managed, off: least.saturating_add(1) },
            (None, None) => AtBoot { managed: now, off: off.saturating_add(1) },
        },
    }
}

/// The values nearest to these sizes (the largest of equals), and their error in pages. A mark is a
/// share of the whole, so each zone has its own bounds once the whole is known. The search starts
/// with today's whole and goes down.
fn search(zones: &[Zone], share: u64, rules: Rules, sizes: Sizes) -> Option<(u64, Vec<u64>)> {
    let now: u64 = zones.iter().map(|zone| zone.managed).sum();
    let fixed = (0..zones.len()).map(|at| bounds(zones, at, rules, sizes));
    let fixed: Vec<Bounds> = fixed.collect::<Option<_>>()?;
    let at_total = |total: u64| {
        let of_total = |(zone, bounds): (&Zone, &Bounds)| {
            let min = zone.min.saturating_sub(zone.boost);
            let (low, high) =
                (min.saturating_mul(total), min.saturating_add(1).saturating_mul(total));
            bounds.and(low.div_ceil(share), high.div_ceil(share).saturating_sub(1))
        };
        let ranges: Vec<Bounds> = zones.iter().zip(&fixed).map(of_total).collect::<Option<_>>()?;
        let least: u64 = ranges.iter().map(|range| range.low).sum();
        let most: u64 = ranges.iter().map(|range| range.high).sum();
        if !(least..=most).contains(&total) {
            return None;
        }
        // The excess is taken from the first zones, or from the last.
        let given = |order: &mut dyn Iterator<Item = usize>| {
            let mut pages: Vec<u64> = ranges.iter().map(|range| range.high).collect();
            let mut over = most - total;
            for at in order {
                let less = over.min(ranges[at].high - ranges[at].low);
                pages[at] -= less;
                over -= less;
            }
            pages
        };
        let both = [given(&mut (0..zones.len()).rev()), given(&mut (0..zones.len()))];
        both.into_iter()
            .map(|pages| (error(zones, &pages, rules, sizes), pages))
            .min_by_key(|(off, _)| *off)
    };
    let mut best: Option<(u64, Vec<u64>)> = None;
    for total in (now.saturating_sub(RELEASED_MAX)..=now).rev() {
        let Some(found) = at_total(total) else { continue };
        if best.as_ref().is_none_or(|best| found.0 < best.0) {
            best = Some(found);
        }
        if best.as_ref().is_some_and(|best| best.0 == 0) {
            break;
        }
    }
    best
}

/// By how many pages all these sizes are off together.
fn error(zones: &[Zone], managed: &[u64], rules: Rules, sizes: Sizes) -> u64 {
    let total: u64 = managed.iter().sum();
    let mut sum = 0u64;
    let mut add = |off: u64| sum = sum.saturating_add(off);
    for (zone, &pages) in zones.iter().zip(managed) {
        let marks =
            watermark::marks(rules.min_free_kbytes, pages, total, rules.scale_factor, rules.gaps);
        let real = |mark: u64| mark.saturating_sub(zone.boost);
        add(real(zone.min).abs_diff(marks.min));
        add(real(zone.low).abs_diff(marks.low));
        add(real(zone.high).abs_diff(marks.high));
        if sizes == Sizes::Marks {
            continue;
        }
        let mut of_node = [0; 5];
        for (other, &pages) in zones.iter().zip(managed).filter(|(z, _)| z.node == zone.node) {
            of_node[other.zone.index()] = pages;
        }
        let reserves = watermark::lowmem_reserve(of_node, rules.reserve_ratio)[zone.zone.index()];
        reserves.iter().zip(&zone.protection).for_each(|(a, b)| add(a.abs_diff(*b)));
    }
    sum
}

/// Pages that a zone may have had, both ends included.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: u64,
    high: u64,
}

impl Bounds {
    /// The intersection; `None` if it is empty.
    fn and(self, low: u64, high: u64) -> Option<Bounds> {
        let both = Bounds { low: self.low.max(low), high: self.high.min(high) };
        (both.low <= both.high).then_some(both)
    }
}

/// Bounds of a zone that hold for any whole; `None` if they contradict each other.
fn bounds(zones: &[Zone], at: usize, rules: Rules, sizes: Sizes) -> Option<Bounds> {
    let zone = &zones[at];
    let mut bounds = Bounds { low: 0, high: zone.managed };
    let min = zone.min.saturating_sub(zone.boost);
    let gap = zone.low.saturating_sub(zone.min);
    if rules.gaps == HighWatermark::ScaleFactor && gap > min / 4 && rules.scale_factor > 0 {
        let pages = |gap: u64| gap.saturating_mul(10_000).div_ceil(rules.scale_factor);
        // A gap that is impossible for a zone of this size gives no bound.
        let both = bounds.and(pages(gap), pages(gap.saturating_add(1)).saturating_sub(1));
        bounds = both.unwrap_or(bounds);
    }
    // The zone right below keeps a share of this one from requests that could use this one.
    let below = zones
        .iter()
        .filter(|other| other.node == zone.node && other.zone < zone.zone)
        .max_by_key(|other| other.zone);
    if let (Some(below), Sizes::All) = (below, sizes) {
        let ratio = rules.reserve_ratio.get(below.zone.index()).copied().unwrap_or(0);
        let reserve = below.protection.get(zone.zone.index()).copied();
        if let (Some(reserve), true) = (reserve, ratio > 0) {
            let above = reserve.saturating_add(1).saturating_mul(ratio);
            bounds = bounds.and(reserve.saturating_mul(ratio), above.saturating_sub(1))?;
        }
    }
    Some(bounds)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use highwater_core::config::Tunables;
    use highwater_results::import::linux61::Reference;

    use super::*;

    /// These kernels logged at boot how much each zone managed.
    #[test]
    fn what_was_managed_at_boot_is_found_again() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reference/linux-6.1/static");
        let mut nr_files = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let Reference::Static(captured) = Reference::read(&path).unwrap() else { continue };
            let tunables = Tunables::default();
            let rules = Rules {
                min_free_kbytes: captured.min_free_kbytes,
                scale_factor: tunables.watermark_scale_factor,
                reserve_ratio: tunables.lowmem_reserve_ratio,
                gaps: HighWatermark::ScaleFactor,
            };
            let truth: Vec<u64> = captured.zones.iter().map(Zone::managed_for_sizing).collect();
            let off = |zones: &[Zone], pages: &[u64], sizes| error(zones, pages, rules, sizes);
            assert_eq!(off(&captured.zones, &truth, Sizes::All), 0, "{}", path.display());
            let found = managed_at_boot(&captured.zones, rules).managed;
            assert_eq!(
                off(&captured.zones, &found, Sizes::All),
                0,
                "{}: {found:?}",
                path.display()
            );
            let wrong: u64 = found.iter().zip(&truth).map(|(a, b)| a.abs_diff(*b)).sum();
            let later: u64 =
                captured.zones.iter().map(|zone| zone.managed - zone.managed_for_sizing()).sum();
            assert!(wrong <= later, "{}: {found:?} of {truth:?}", path.display());

            // A kernel that recomputes reserves: its marks still give the value.
            let mut newer = captured.zones.clone();
            for zone in &mut newer {
                let mut managed = [0; 5];
                for other in captured.zones.iter().filter(|other| other.node == zone.node) {
                    managed[other.zone.index()] = other.managed;
                }
                let all = watermark::lowmem_reserve(managed, rules.reserve_ratio);
                zone.protection = all[zone.zone.index()].to_vec();
            }
            let found = managed_at_boot(&newer, rules).managed;
            assert_eq!(off(&newer, &found, Sizes::Marks), 0, "{}: {found:?}", path.display());
            nr_files += 1;
        }
        assert_eq!(nr_files, 12);
    }
}
