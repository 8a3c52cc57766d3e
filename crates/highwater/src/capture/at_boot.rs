//! What zones managed when Linux computed their sizes, found again from those sizes.
//!
//! A kernel releases the memory of its own start after it has computed watermarks and reserves, and recomputes
//! neither (rules/zones#boot-order). What `/proc/zoneinfo` says is managed is therefore more than what these followed
//! from, and the difference is written down nowhere. But every size bounds it: a mark is a share of min_free_kbytes,
//! the gap between marks is a share of the zone, a reserve a share of the zones above. Where all bounds meet, the
//! zone boots with the sizes of the running kernel.

use highwater_core::config::HighWatermark;
use highwater_core::zone::watermark;
use highwater_results::import::linux61::Zone;

/// Rounds after which a share of the whole and the whole no longer change each other.
const ROUNDS: usize = 8;
/// Points of a zone's range that are tried.
const POINTS: u64 = 256;

/// What sizes are computed from, besides the zones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// `vm.min_free_kbytes`, with what huge pages added.
    pub(super) min_free_kbytes: u64,
    /// `vm.watermark_scale_factor`.
    pub(super) scale_factor: u64,
    /// `vm.lowmem_reserve_ratio`.
    pub(super) reserve_ratio: [u64; 4],
    /// How far the marks are from each other.
    pub(super) gaps: HighWatermark,
}

/// What each zone managed; as much as it manages now where that gives its sizes, or where nothing does.
pub(super) fn managed_at_boot(zones: &[Zone], rules: Rules) -> Vec<u64> {
    let now: Vec<u64> = zones.iter().map(|zone| zone.managed).collect();
    if error(zones, &now, rules) == 0 {
        return now;
    }
    let mut found = now.clone();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for _ in 0..ROUNDS {
        let total = found.iter().sum();
        ranges = (0..zones.len()).map(|at| range(zones, at, total, rules)).collect();
        for ((pages, now), (low, high)) in found.iter_mut().zip(&now).zip(&ranges) {
            *pages = (*now).clamp(*low, (*high).max(*low)).min(*now);
        }
    }
    for at in 0..zones.len() {
        let (low, high) = ranges[at];
        let mut best = (error(zones, &found, rules), found[at]);
        for point in 0..=POINTS {
            found[at] = (low + high.saturating_sub(low) * point / POINTS).min(now[at]);
            // Of equals the largest: the least that was released later.
            best = match (error(zones, &found, rules), found[at]) {
                (error, pages) if error < best.0 || (error == best.0 && pages > best.1) => {
                    (error, pages)
                }
                _ => best,
            };
        }
        found[at] = best.1;
    }
    match error(zones, &found, rules) < error(zones, &now, rules) {
        true => found,
        false => now,
    }
}

/// By how many pages all marks and reserves are off.
fn error(zones: &[Zone], managed: &[u64], rules: Rules) -> u64 {
    let total: u64 = managed.iter().sum();
    let mut sum = 0;
    for (zone, &pages) in zones.iter().zip(managed) {
        let marks =
            watermark::marks(rules.min_free_kbytes, pages, total, rules.scale_factor, rules.gaps);
        let real = |mark: u64| mark.saturating_sub(zone.boost);
        sum += real(zone.min).abs_diff(marks.min);
        sum += real(zone.low).abs_diff(marks.low);
        sum += real(zone.high).abs_diff(marks.high);
        let mut of_node = [0; 5];
        for (other, &pages) in zones.iter().zip(managed).filter(|(z, _)| z.node == zone.node) {
            of_node[other.zone.index()] = pages;
        }
        let reserves = watermark::lowmem_reserve(of_node, rules.reserve_ratio)[zone.zone.index()];
        sum += reserves.iter().zip(&zone.protection).map(|(a, b)| a.abs_diff(*b)).sum::<u64>();
    }
    sum
}

/// Where a zone's size may be, by all that was computed from it; if bounds contradict each other, the last that fits.
fn range(zones: &[Zone], at: usize, total: u64, rules: Rules) -> (u64, u64) {
    let zone = &zones[at];
    let mut range = (0, zone.managed);
    let mut narrow = |low: u64, high: u64| {
        let both = (range.0.max(low), range.1.min(high));
        if both.0 <= both.1 {
            range = both;
        }
    };
    let share = rules.min_free_kbytes / 4;
    let min = zone.min.saturating_sub(zone.boost);
    let gap = zone.low.saturating_sub(zone.min);
    if rules.gaps == HighWatermark::ScaleFactor && gap > min / 4 && rules.scale_factor > 0 {
        let pages = |gap: u64| (gap * 10_000).div_ceil(rules.scale_factor);
        narrow(pages(gap), pages(gap + 1).saturating_sub(1));
    }
    // The zone right below keeps a share of this one from those who could use it.
    let below = zones
        .iter()
        .filter(|other| other.node == zone.node && other.zone < zone.zone)
        .max_by_key(|other| other.zone);
    if let Some(below) = below {
        let ratio = rules.reserve_ratio.get(below.zone.index()).copied().unwrap_or(0);
        let reserve = below.protection.get(zone.zone.index()).copied();
        if let (Some(reserve), true) = (reserve, ratio > 0) {
            narrow(reserve * ratio, (reserve + 1) * ratio - 1);
        }
    }
    if share > 0 {
        narrow((min * total).div_ceil(share), ((min + 1) * total).div_ceil(share) - 1);
    }
    range
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use highwater_core::config::Tunables;
    use highwater_results::import::linux61::Reference;

    use super::*;

    /// Of machines whose kernel said at boot what each zone managed.
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
            assert_eq!(error(&captured.zones, &truth, rules), 0, "{}", path.display());
            let found = managed_at_boot(&captured.zones, rules);
            assert_eq!(error(&captured.zones, &found, rules), 0, "{}: {found:?}", path.display());
            nr_files += 1;
        }
        assert_eq!(nr_files, 12);
    }
}
