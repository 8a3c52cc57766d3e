//! Which zone types a kernel has, and which of them a request may use.
//!
//! The kernel prints `lowmem_reserve[]` without names: one column for each zone type that it was
//! built with. The names are inferred: of all sets of types with as many members, the one that fits
//! the text best. Facts decide first (types that the text names, the columns where a reserve
//! grows), then what is usual on the architecture.

use super::kernel::Version;
use super::zone::{ZONE_NAMES, Zone};

/// The facts that the inference looks at.
pub(super) struct Evidence<'a> {
    /// Zones of the report.
    pub(super) zones: &'a [Zone],
    /// Names seen elsewhere in the report (per-CPU lists).
    pub(super) names: &'a [String],
    /// Architecture, if known.
    pub(super) arch: Option<&'a str>,
    /// Version, if known.
    pub(super) version: Option<Version>,
}

/// Index of `Normal`, which every kernel has.
const NORMAL: usize = 2;

/// The zone types behind the columns of `lowmem_reserve[]`; none without such a line, or if no set
/// of types fits it.
pub(super) fn infer(evidence: &Evidence<'_>) -> Option<Vec<String>> {
    let columns =
        evidence.zones.iter().filter_map(|z| Some(z.lowmem_reserve.as_ref()?.len())).max()?;
    let sets = (1usize..1 << ZONE_NAMES.len()).filter(|set| {
        set.count_ones() as usize == columns && set & (1 << NORMAL) != 0 && evidence.allows(*set)
    });
    let best = sets.max_by_key(|&set| (evidence.score(set), std::cmp::Reverse(set)))?;
    Some(names_of(best))
}

fn names_of(set: usize) -> Vec<String> {
    let names = ZONE_NAMES.iter().enumerate();
    names.filter(|(bit, _)| set & (1 << bit) != 0).map(|(_, name)| (*name).to_owned()).collect()
}

/// Column of a type in a set.
fn column(set: usize, bit: usize) -> usize {
    (set & ((1 << bit) - 1)).count_ones() as usize
}

fn bit_of(name: &str) -> Option<usize> {
    ZONE_NAMES.iter().position(|known| *known == name)
}

impl Evidence<'_> {
    fn seen(&self) -> usize {
        let zones = self.zones.iter().map(|zone| zone.name.as_str());
        let names = zones.chain(self.names.iter().map(String::as_str));
        names.filter_map(bit_of).fold(0, |set, bit| set | 1 << bit)
    }

    /// True if the set has all names seen, and no zone has a reserve against requests for itself or
    /// a lower type.
    fn allows(&self, set: usize) -> bool {
        if self.seen() & !set != 0 {
            return false;
        }
        self.zones.iter().all(|zone| {
            let (Some(reserve), Some(bit)) = (&zone.lowmem_reserve, bit_of(&zone.name)) else {
                return true;
            };
            reserve.iter().take(column(set, bit) + 1).all(|pages| *pages == 0)
        })
    }

    /// How well a set fits; higher is better.
    fn score(&self, set: usize) -> i32 {
        let seen = self.seen();
        let has = |bit: usize| set & (1 << bit) != 0;
        let unseen = |bit: usize| has(bit) && seen & (1 << bit) == 0;
        let (dma, dma32, high, movable, device) = (0, 1, 3, 4, 5);
        let mut score = 0;
        // The reserve of a zone grows at each type above it that has memory.
        for zone in self.zones {
            let (Some(reserve), Some(bit)) = (&zone.lowmem_reserve, bit_of(&zone.name)) else {
                continue;
            };
            if reserve.iter().all(|pages| *pages == 0) {
                continue;
            }
            for other in self.above(zone, bit) {
                let at = column(set, other);
                let grows = at > 0 && reserve.get(at) > reserve.get(at - 1);
                score += if grows { 100 } else { -100 };
            }
        }
        let is_32_bit = matches!(self.arch, Some("x86-32" | "arm" | "mips"));
        let is_64_bit = matches!(self.arch, Some("x86-64" | "arm64" | "riscv" | "s390"));
        // `Movable` exists since 2.6.23, `Device` since 4.5 and on 64 bits only.
        score += if has(movable) { 40 } else { 0 };
        score -= if unseen(device) { if is_32_bit { 30 } else { 10 } } else { 0 };
        if has(device)
            && (!has(movable) || self.version.is_some_and(|v| (v.major, v.minor) < (4, 3)))
        {
            score -= 50;
        }
        // 32-bit kernels have HighMem, 64-bit kernels have Device.
        score -= if has(device) && has(high) { 60 } else { 0 };
        // A low type without memory is unusual: memory begins there.
        if unseen(dma) {
            score -= if self.arch == Some("x86-64") { 5 } else { 24 };
        }
        if unseen(dma32) {
            score -= match self.arch {
                Some("x86-64" | "arm64") => 16,
                Some("riscv") => 18,
                _ => 26,
            };
        }
        if unseen(high) {
            score -= if is_32_bit {
                4
            } else if is_64_bit || has(dma32) {
                60
            } else {
                // DMA and Normal without DMA32 are likely 32 bits, Normal alone may be anything.
                if seen & 1 != 0 { 8 } else { 20 }
            };
        }
        score
    }

    /// Types above a zone that have memory on its node.
    fn above<'a>(&'a self, zone: &'a Zone, bit: usize) -> impl Iterator<Item = usize> + 'a {
        let on_node = self.zones.iter().filter(|other| {
            let has_memory = other.has_line && other.managed.or(other.present) != Some(0);
            other.node == zone.node && has_memory
        });
        on_node.filter_map(|other| bit_of(&other.name)).filter(move |other| *other > bit)
    }
}

/// The highest zone that a request may use on a kernel with the given types. A type that does not
/// exist is replaced by the next lower one that can hold such pages: `HighMem` by `Normal`, `DMA32`
/// and `DMA` by `Normal`.
#[must_use]
pub fn highest_zone(by_bits: &str, zone_types: &[String]) -> String {
    let exists = |name: &str| zone_types.iter().any(|known| known == name);
    if zone_types.is_empty() || exists(by_bits) {
        return by_bits.to_owned();
    }
    let below = if by_bits == "Movable" && exists("HighMem") { "HighMem" } else { "Normal" };
    below.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str, reserve: &[u64]) -> Zone {
        Zone {
            name: name.into(),
            has_line: true,
            free: Some(4),
            lowmem_reserve: Some(reserve.to_vec()),
            ..Zone::default()
        }
    }

    fn infer_on(arch: Option<&str>, zones: &[Zone]) -> String {
        let evidence = Evidence { zones, names: &[], arch, version: None };
        infer(&evidence).unwrap().join(" ")
    }

    #[test]
    fn types_of_usual_machines() {
        let pc = [
            zone("DMA", &[0, 1, 2, 2, 2]),
            zone("DMA32", &[0, 0, 3, 3, 3]),
            zone("Normal", &[0; 5]),
        ];
        assert_eq!(infer_on(None, &pc), "DMA DMA32 Normal Movable Device");
        let pc =
            [zone("DMA", &[0, 1, 2, 2]), zone("DMA32", &[0, 0, 3, 3]), zone("Normal", &[0; 4])];
        assert_eq!(infer_on(Some("x86-64"), &pc), "DMA DMA32 Normal Movable");
        let old =
            [zone("DMA", &[0, 1, 2, 2]), zone("Normal", &[0, 0, 3, 3]), zone("HighMem", &[0; 4])];
        assert_eq!(infer_on(None, &old), "DMA Normal HighMem Movable");
        assert_eq!(infer_on(None, &old[..2]), "DMA Normal HighMem Movable");
        assert_eq!(infer_on(Some("arm64"), &[zone("DMA32", &[0; 3])]), "DMA32 Normal Movable");
        assert_eq!(infer_on(None, &[zone("Normal", &[0; 3])]), "Normal Movable Device");
        assert_eq!(infer_on(Some("arm"), &[zone("Normal", &[0; 3])]), "Normal HighMem Movable");
        assert_eq!(infer_on(None, &[zone("Normal", &[0; 2])]), "Normal Movable");
        assert_eq!(infer_on(None, &[zone("Normal", &[0])]), "Normal");
    }

    #[test]
    fn the_reserve_tells_of_types_without_a_line() {
        let gap = [zone("DMA", &[0, 0, 7, 7, 7]), zone("Normal", &[0; 5])];
        assert_eq!(infer_on(None, &gap), "DMA DMA32 Normal Movable Device");
        let gap = [zone("DMA", &[0, 0, 7, 7]), zone("HighMem", &[0; 4])];
        assert_eq!(infer_on(Some("powerpc"), &gap), "DMA Normal HighMem Movable");
        let filtered = [zone("DMA", &[0, 3, 7, 7, 7]), zone("Normal", &[0; 5])];
        assert_eq!(infer_on(Some("x86-64"), &filtered), "DMA DMA32 Normal Movable Device");
        assert_eq!(infer_on(None, &filtered), "DMA DMA32 Normal Movable Device");
        let movable = [zone("Normal", &[0, 0, 9]), zone("Movable", &[0; 3])];
        assert_eq!(infer_on(Some("arm64"), &movable), "DMA32 Normal Movable");
    }

    #[test]
    fn the_highest_zone_of_a_request() {
        let types = |names: &str| names.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let pc = types("DMA DMA32 Normal Movable");
        assert_eq!(highest_zone("Movable", &pc), "Movable");
        assert_eq!(highest_zone("HighMem", &pc), "Normal");
        assert_eq!(highest_zone("DMA", &types("Normal Movable")), "Normal");
        assert_eq!(highest_zone("HighMem", &types("DMA Normal HighMem")), "HighMem");
        assert_eq!(highest_zone("Movable", &types("DMA Normal HighMem")), "HighMem");
        assert_eq!(highest_zone("HighMem", &[]), "HighMem");
    }
}
