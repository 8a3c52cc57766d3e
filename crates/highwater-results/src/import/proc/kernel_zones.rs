//! The zones that a kernel was built with, in its order.
//!
//! Linux prints some lists with one number per zone and without names (protections,
//! `lowmem_reserve_ratio`). They include every zone that the kernel could have, populated or not.
//! Two machines with the same memory can therefore print lists of different lengths: x86-64 has
//! `DMA, DMA32, Normal, Movable, Device`, a small ARM board `Normal, Movable`.
//!
//! Three facts give the names: the length of the lists, the zones that the file names, and the
//! position of a zone's first reserve, which is that of the next populated zone.

use super::Zoneinfo;

/// All zones that a kernel may have, in Linux's order.
const ALL: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];

/// The zones of a kernel, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelZones {
    names: Vec<&'static str>,
}

impl KernelZones {
    /// The zones of the kernel that printed a text; none if its lists fit no kernel.
    #[must_use]
    pub fn of(info: &Zoneinfo) -> Option<KernelZones> {
        let len = info.zones.iter().map(|zone| zone.protection.len()).max()?;
        // Tries every set of zones of this size that includes Normal and Movable; there are only a
        // few.
        let choices = (0u32..1 << ALL.len()).filter(|set| set.count_ones() as usize == len);
        let names = |set: u32| -> Vec<&'static str> {
            (0..ALL.len()).filter(|at| set & (1 << at) != 0).map(|at| ALL[at]).collect()
        };
        // Movable came with 2.6.23, Device last; kernels with HighMem have no DMA32.
        let is_kernel = |names: &Vec<&str>| {
            let has = |name| names.contains(&name);
            has("Normal") && has("Movable") && !(has("HighMem") && has("DMA32"))
        };
        let fits = |names: &Vec<&'static str>| {
            info.zones.iter().all(|zone| {
                let Some(own) = names.iter().position(|name| *name == zone.zone) else {
                    return false;
                };
                let Some(first) = zone.protection.iter().position(|reserve| *reserve > 0) else {
                    return true;
                };
                let next = info
                    .zones
                    .iter()
                    .filter(|other| other.node == zone.node && other.is_populated())
                    .filter_map(|other| names.iter().position(|name| *name == other.zone))
                    .filter(|at| *at > own)
                    .min();
                next.is_none_or(|next| next == first) && first > own
            })
        };
        // If several fit, the set with the commonest zones is taken: Device and HighMem would show
        // in the text if they existed.
        let is_rare = |names: &Vec<&str>| {
            ["Device", "HighMem", "DMA32"].iter().map(|rare| u32::from(names.contains(rare))).sum()
        };
        let rank =
            |names: &Vec<&str>| -> (bool, u32) { (names.contains(&"HighMem"), is_rare(names)) };
        choices
            .map(names)
            .filter(is_kernel)
            .filter(fits)
            .min_by_key(rank)
            .map(|names| Self { names })
    }

    /// Names of the zones, in order.
    #[must_use]
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The reserves of zone `own` for the zones `wanted`, in Linux's order. A zone that the kernel
    /// does not have holds no memory, so its reserve equals that of the zone before it.
    #[must_use]
    pub fn reserves(&self, own: &str, list: &[u64], wanted: &[&str]) -> Vec<u64> {
        let place = |name: &str| ALL.iter().position(|known| *known == name).unwrap_or(ALL.len());
        let of = |name: &&str| {
            if place(name) <= place(own) {
                return 0;
            }
            let below = self.names.iter().zip(list).rev().find(|(n, _)| place(n) <= place(name));
            below.map_or(0, |(_, reserve)| *reserve)
        };
        wanted.iter().map(of).collect()
    }

    /// A zone's number in a list that has one for each zone.
    #[must_use]
    pub fn value(&self, list: &[u64], name: &str) -> Option<u64> {
        let at = self.names.iter().position(|known| *known == name)?;
        list.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zones by name, pages present and protection.
    fn info(zones: &[(&str, u64, &str)]) -> Zoneinfo {
        let text: String = zones
            .iter()
            .map(|(name, present, protection)| {
                format!(
                    "Node 0, zone {name}\n pages free 1\n min 1\n low 2\n high 3\n spanned {present}\n \
                     present {present}\n managed {present}\n protection: ({protection})\n start_pfn: 1\n"
                )
            })
            .collect();
        Zoneinfo::parse("f", text.as_bytes()).unwrap()
    }

    #[test]
    fn a_kernels_zones_follow_from_its_lists() {
        let names = |zones: &[(&str, u64, &str)]| {
            KernelZones::of(&info(zones)).map(|zones| zones.names.join(" "))
        };
        assert_eq!(names(&[("Normal", 9, "0, 0")]).unwrap(), "Normal Movable");
        assert_eq!(
            names(&[
                ("DMA", 9, "0, 5, 7, 7"),
                ("DMA32", 9, "0, 0, 2, 2"),
                ("Normal", 9, "0, 0, 0, 0")
            ])
            .unwrap(),
            "DMA DMA32 Normal Movable"
        );
        assert_eq!(
            names(&[
                ("DMA", 9, "0, 5, 7, 7"),
                ("Normal", 9, "0, 0, 9, 9"),
                ("HighMem", 9, "0, 0, 0, 0")
            ])
            .unwrap(),
            "DMA Normal HighMem Movable"
        );
        assert_eq!(
            names(&[("DMA", 9, "0, 5, 5, 5, 5"), ("DMA32", 9, "0, 0, 0, 0, 0")]).unwrap(),
            "DMA DMA32 Normal Movable Device"
        );
        assert_eq!(
            names(&[("Normal", 9, "0, 9"), ("Movable", 9, "0, 0")]).unwrap(),
            "Normal Movable"
        );
        assert_eq!(names(&[("Odd", 9, "0, 0")]), None);
    }

    #[test]
    fn reserves_of_zones_that_a_kernel_lacks_are_those_before() {
        let x86 = ["DMA", "DMA32", "Normal", "Movable", "Device"];
        let arm = KernelZones { names: vec!["Normal", "Movable"] };
        assert_eq!(arm.reserves("Normal", &[0, 0], &x86), [0; 5]);
        let old = KernelZones { names: vec!["DMA", "Normal", "Movable"] };
        assert_eq!(old.reserves("DMA", &[0, 7, 9], &x86), [0, 0, 7, 9, 9]);
        assert_eq!(old.reserves("Normal", &[0, 0, 2], &x86), [0, 0, 0, 2, 2]);
        assert_eq!(old.value(&[256, 32], "Normal"), Some(32));
    }
}
