//! `vm.min_free_kbytes` of a kernel whose sysctls are missing, derived from the marks of its zones.
//!
//! Each min mark is the zone's share of the whole, rounded down (rules/watermarks#marks). With `n`
//! zones the whole is therefore the sum of the marks, or up to `n - 1` pages more. Among these
//! values the one that reproduces most of the other sizes wins. Among equals, the value that a
//! kernel computes by default wins.

use std::ops::RangeInclusive;

use highwater_core::zone::watermark;
use highwater_results::import::proc::ZoneinfoZone;

use super::{System, settings};

/// The most that kernels compute themselves: since 5.9, and before.
const COMPUTED_MAX: [u64; 2] = [262_144, 65_536];

/// The value of `vm.min_free_kbytes`, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MinFree {
    pub(super) kbytes: u64,
    /// All values that give the same marks; `None` if the kernel reports the value.
    pub(super) found: Option<RangeInclusive<u64>>,
}

impl MinFree {
    /// As the kernel says, or with which the sizes of the zones come out: `off` says by how much they do not.
    pub(super) fn of(system: &System, off: impl Fn(u64) -> u64) -> MinFree {
        let said = system.settings.get(settings::MIN_FREE).and_then(|text| text.parse().ok());
        if let Some(kbytes) = said {
            return MinFree { kbytes, found: None };
        }
        // HighMem has no part in it.
        let low: Vec<&ZoneinfoZone> =
            system.zones.iter().filter(|zone| zone.zone != "HighMem").collect();
        let sum = total(&low, |zone| zone.min.saturating_sub(zone.boost));
        let computed = computed(&low, system.page_bytes);
        let unit = (system.page_bytes / 1024).max(1);
        let all = (0..low.len().max(1) as u64).map(|more| {
            let least = sum.saturating_add(more).saturating_mul(unit);
            least.max(1)..=least.saturating_add(unit - 1)
        });
        let mut candidates: Vec<(bool, MinFree)> = all
            .map(|range| {
                let own = computed.iter().find(|kbytes| range.contains(kbytes));
                let kbytes = own.copied().unwrap_or_else(|| nearest(&range, &computed));
                (own.is_none(), MinFree { kbytes, found: Some(range) })
            })
            .collect();
        // The first of equals is taken.
        candidates.sort_by_key(|(is_other, _)| *is_other);
        let mut best: Option<(u64, MinFree)> = None;
        for (_, candidate) in candidates {
            let off = off(candidate.kbytes);
            if best.as_ref().is_none_or(|best| off < best.0) {
                best = Some((off, candidate));
            }
            if off == 0 {
                break;
            }
        }
        best.map_or(MinFree { kbytes: 1, found: Some(1..=1) }, |(_, found)| found)
    }

    /// A note about a derived value.
    pub(super) fn note(&self) -> Option<String> {
        let (kbytes, range) = (self.kbytes, self.found.as_ref()?);
        let (least, most) = (range.start(), range.end());
        Some(format!(
            "vm.min_free_kbytes is not known: {kbytes} is taken ({least} to {most} give these marks)"
        ))
    }
}

fn total(zones: &[&ZoneinfoZone], of: impl Fn(&ZoneinfoZone) -> u64) -> u64 {
    zones.iter().fold(0, |sum, zone| sum.saturating_add(of(zone)))
}

/// The values that a kernel computes for these zones: with transparent huge pages, and without.
fn computed(low: &[&ZoneinfoZone], page_bytes: u64) -> Vec<u64> {
    let used = total(low, |zone| zone.managed.saturating_sub(zone.high));
    let nr_zones = low.iter().filter(|zone| zone.zone != "Movable").count() as u64;
    let managed = total(low, |zone| zone.managed);
    // Larger than any machine: the square root is above the largest default.
    let small = managed.saturating_mul((page_bytes / 4096).max(1)).min(1 << 50);
    let mut computed = vec![watermark::thp_min_free_kbytes(nr_zones, used)];
    computed.extend(COMPUTED_MAX.map(|most| watermark::min_free_kbytes(small, most)));
    computed
}

/// A kernel computes its default from less memory than it has later. If a computed default lies at
/// most 1 % above the range, the last value of the range is the nearest to it. Otherwise take the
/// first value, which is whole pages.
fn nearest(range: &RangeInclusive<u64>, computed: &[u64]) -> u64 {
    let is_near = |kbytes: &&u64| *kbytes > range.end() && *kbytes - range.end() <= *kbytes / 100;
    if computed.iter().any(|kbytes| is_near(&kbytes)) { *range.end() } else { *range.start() }
}
