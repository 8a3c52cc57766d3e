//! Flags of a request: names as printed, or a number decoded with the bits of the kernel's version.
//!
//! Kernels print the names since 4.6. Before, a number is all there is, and its bits depend on the
//! version. Sources of the bit values: the tables per version of OOMAnalyser (MIT), and
//! rules/requests#gfp-bits for 6.1.

use serde::Serialize;

use super::kernel::Version;
use crate::import::kmem::gfp as bits;

/// The flags of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gfp {
    /// As printed: `0xcc0(GFP_KERNEL)` or `0x201da`.
    pub printed: String,
    /// The number. Its bits are those of the kernel that printed it.
    pub number: u64,
    /// The printed names, or the names of the bits if only a number is printed. `None` if the
    /// list is cut or empty, or if the number has bits that its version does not know.
    pub names: Option<Vec<String>>,
    /// True if the names are printed, false if they were decoded from the number.
    pub has_names: bool,
    /// Properties that follow from the names. `None` without names.
    pub rules: Option<GfpRules>,
}

/// Rights and limits in the flags of a request. Each follows from the names alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools)]
pub struct GfpRules {
    /// May wait for direct reclaim: `__GFP_DIRECT_RECLAIM`, `__GFP_WAIT` before 4.4.
    pub may_wait: bool,
    /// May start I/O in reclaim: `__GFP_IO`.
    pub may_io: bool,
    /// May enter filesystems in reclaim: `__GFP_FS`.
    pub may_fs: bool,
    /// May use half of the min watermark: `__GFP_HIGH`.
    pub is_high: bool,
    /// `GFP_ATOMIC`: `__GFP_HIGH`, and may not wait.
    pub is_atomic: bool,
    /// Ignores watermarks: `__GFP_MEMALLOC`.
    pub memalloc: bool,
    /// May not use reserves, whatever the context: `__GFP_NOMEMALLOC`.
    pub nomemalloc: bool,
    /// Movable page: may use CMA, and zone Movable together with `highmem`.
    pub movable: bool,
    /// Reclaimable page: `__GFP_RECLAIMABLE`.
    pub reclaimable: bool,
    /// Zone bit `__GFP_DMA`.
    pub dma: bool,
    /// Zone bit `__GFP_DMA32`.
    pub dma32: bool,
    /// Zone bit `__GFP_HIGHMEM`.
    pub highmem: bool,
    /// Gives up early: `__GFP_NORETRY`.
    pub noretry: bool,
    /// Tries hard, but may fail: `__GFP_RETRY_MAYFAIL`, `__GFP_REPEAT` before 4.13.
    pub retry_mayfail: bool,
    /// Must not fail: `__GFP_NOFAIL`.
    pub nofail: bool,
    /// No report of a failure: `__GFP_NOWARN`.
    pub nowarn: bool,
    /// This node only: `__GFP_THISNODE`.
    pub thisnode: bool,
    /// Stays within the cpuset: `__GFP_HARDWALL`.
    pub hardwall: bool,
    /// Charged to a memory cgroup: `__GFP_ACCOUNT`.
    pub account: bool,
    /// May wake kswapd: `__GFP_KSWAPD_RECLAIM`, no `__GFP_NO_KSWAPD` before 4.4.
    pub wakes_kswapd: bool,
}

impl GfpRules {
    /// The highest zone by the zone bits alone: `HighMem` also on a machine that has no such zone.
    #[must_use]
    pub fn zone_by_bits(&self) -> &'static str {
        match (self.dma, self.dma32, self.highmem, self.movable) {
            (true, ..) => "DMA",
            (false, true, ..) => "DMA32",
            (false, false, true, true) => "Movable",
            (false, false, true, false) => "HighMem",
            _ => "Normal",
        }
    }
}

/// Names and bits before 4.4 (2.6.32 to 4.3).
const UNTIL_4_3: &[(&str, u64)] = &[
    ("__GFP_DMA", 0x1),
    ("__GFP_HIGHMEM", 0x2),
    ("__GFP_DMA32", 0x4),
    ("__GFP_MOVABLE", 0x8),
    ("__GFP_WAIT", 0x10),
    ("__GFP_HIGH", 0x20),
    ("__GFP_IO", 0x40),
    ("__GFP_FS", 0x80),
    ("__GFP_COLD", 0x100),
    ("__GFP_NOWARN", 0x200),
    ("__GFP_REPEAT", 0x400),
    ("__GFP_NOFAIL", 0x800),
    ("__GFP_NORETRY", 0x1000),
    ("__GFP_MEMALLOC", 0x2000),
    ("__GFP_COMP", 0x4000),
    ("__GFP_ZERO", 0x8000),
    ("__GFP_NOMEMALLOC", 0x1_0000),
    ("__GFP_HARDWALL", 0x2_0000),
    ("__GFP_THISNODE", 0x4_0000),
    ("__GFP_RECLAIMABLE", 0x8_0000),
    ("__GFP_ACCOUNT", 0x10_0000),
    ("__GFP_NOTRACK", 0x20_0000),
    ("__GFP_NO_KSWAPD", 0x40_0000),
    ("__GFP_OTHER_NODE", 0x80_0000),
    ("__GFP_WRITE", 0x100_0000),
];

/// Names and bits of 4.4 to 4.9.
const FROM_4_4: &[(&str, u64)] = &[
    ("__GFP_DMA", 0x1),
    ("__GFP_HIGHMEM", 0x2),
    ("__GFP_DMA32", 0x4),
    ("__GFP_MOVABLE", 0x8),
    ("__GFP_RECLAIMABLE", 0x10),
    ("__GFP_HIGH", 0x20),
    ("__GFP_IO", 0x40),
    ("__GFP_FS", 0x80),
    ("__GFP_COLD", 0x100),
    ("__GFP_NOWARN", 0x200),
    ("__GFP_REPEAT", 0x400),
    ("__GFP_NOFAIL", 0x800),
    ("__GFP_NORETRY", 0x1000),
    ("__GFP_MEMALLOC", 0x2000),
    ("__GFP_COMP", 0x4000),
    ("__GFP_ZERO", 0x8000),
    ("__GFP_NOMEMALLOC", 0x1_0000),
    ("__GFP_HARDWALL", 0x2_0000),
    ("__GFP_THISNODE", 0x4_0000),
    ("__GFP_ATOMIC", 0x8_0000),
    ("__GFP_ACCOUNT", 0x10_0000),
    ("__GFP_NOTRACK", 0x20_0000),
    ("__GFP_DIRECT_RECLAIM", 0x40_0000),
    ("__GFP_OTHER_NODE", 0x80_0000),
    ("__GFP_WRITE", 0x100_0000),
    ("__GFP_KSWAPD_RECLAIM", 0x200_0000),
];

/// Differences of 4.10 to 4.17 from 4.4: bits above `__GFP_DIRECT_RECLAIM`.
const FROM_4_10: &[(&str, u64)] = &[
    ("__GFP_WRITE", 0x80_0000),
    ("__GFP_KSWAPD_RECLAIM", 0x100_0000),
    ("__GFP_NOLOCKDEP", 0x200_0000),
];

/// Differences of 4.18 to 5.0 from 4.4.
const FROM_4_18: &[(&str, u64)] = &[
    ("__GFP_WRITE", 0x100),
    ("__GFP_DIRECT_RECLAIM", 0x20_0000),
    ("__GFP_KSWAPD_RECLAIM", 0x40_0000),
    ("__GFP_NOLOCKDEP", 0x80_0000),
];

/// Names and bits from 5.1 on.
const FROM_5_1: &[(&str, u64)] = &[
    ("__GFP_DMA", 0x1),
    ("__GFP_HIGHMEM", 0x2),
    ("__GFP_DMA32", 0x4),
    ("__GFP_MOVABLE", 0x8),
    ("__GFP_RECLAIMABLE", 0x10),
    ("__GFP_HIGH", 0x20),
    ("__GFP_IO", 0x40),
    ("__GFP_FS", 0x80),
    ("__GFP_ZERO", 0x100),
    ("__GFP_ATOMIC", 0x200),
    ("__GFP_DIRECT_RECLAIM", 0x400),
    ("__GFP_KSWAPD_RECLAIM", 0x800),
    ("__GFP_WRITE", 0x1000),
    ("__GFP_NOWARN", 0x2000),
    ("__GFP_RETRY_MAYFAIL", 0x4000),
    ("__GFP_NOFAIL", 0x8000),
    ("__GFP_NORETRY", 0x1_0000),
    ("__GFP_MEMALLOC", 0x2_0000),
    ("__GFP_COMP", 0x4_0000),
    ("__GFP_NOMEMALLOC", 0x8_0000),
    ("__GFP_HARDWALL", 0x10_0000),
    ("__GFP_THISNODE", 0x20_0000),
    ("__GFP_ACCOUNT", 0x40_0000),
    // 5.14 and later use the bit for tags of memory.
    ("__GFP_NOLOCKDEP", 0x80_0000),
];

impl Gfp {
    /// Reads `0xcc0(GFP_KERNEL|__GFP_ZERO)` or `0xd0`; none if there is no number.
    ///
    /// A number without names is decoded with the bits of `version`. Without a version it is taken
    /// for one before 4.4, because later kernels but 4.4 and 4.5 print names; the bit that only
    /// these two use makes it theirs.
    pub(super) fn read(text: &str, version: Option<Version>) -> Option<Gfp> {
        let printed = text.trim_end_matches([',', '.', ';']);
        let (number, list) = match printed.split_once('(') {
            Some((number, list)) => (number, Some(list)),
            None => (printed, None),
        };
        let digits = number.strip_prefix("0x")?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        let names: Option<Vec<String>> = match list {
            Some(list) => list.strip_suffix(')').map(|list| {
                list.split('|')
                    .map(str::trim)
                    .filter(|n| !n.is_empty())
                    .map(str::to_owned)
                    .collect()
            }),
            None => decode(number, version),
        };
        let names = names.filter(|names| !names.is_empty());
        let is_old = list.is_none() && table_of(number, version) == UNTIL_4_3;
        let rules = names.as_deref().and_then(|names| rules_of(names, is_old));
        Some(Gfp { printed: printed.to_owned(), number, names, has_names: list.is_some(), rules })
    }

    /// True for `0x0()`: no request stands behind the report.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.number == 0 && self.printed.ends_with("()")
    }
}

/// The table of a version. Without one: see [`Gfp::read`].
fn table_of(number: u64, version: Option<Version>) -> &'static [(&'static str, u64)] {
    const ONLY_4_4_AND_4_5: u64 = 0x200_0000;
    match version.map(|v| (v.major, v.minor)) {
        None if number & ONLY_4_4_AND_4_5 != 0 => FROM_4_4,
        None => UNTIL_4_3,
        Some(v) if v < (4, 4) => UNTIL_4_3,
        Some(v) if v < (5, 1) => FROM_4_4,
        Some(_) => FROM_5_1,
    }
}

/// Names of the bits of a number; none if a bit has no name.
fn decode(number: u64, version: Option<Version>) -> Option<Vec<String>> {
    let table = table_of(number, version);
    let differences: &[(&str, u64)] = match version.map(|v| (v.major, v.minor)) {
        Some(v) if ((4, 10)..(4, 18)).contains(&v) => FROM_4_10,
        Some(v) if ((4, 18)..(5, 1)).contains(&v) => FROM_4_18,
        _ => &[],
    };
    let moved = |name: &str| differences.iter().any(|(new, _)| *new == name);
    let mut left = number;
    let mut found: Vec<(u64, String)> = Vec::new();
    for (name, bit) in differences.iter().chain(table.iter().filter(|(name, _)| !moved(name))) {
        if left & bit != 0 {
            left &= !bit;
            found.push((*bit, (*name).to_owned()));
        }
    }
    found.sort();
    (left == 0).then(|| found.into_iter().map(|(_, name)| name).collect())
}

/// Properties of a list of names; none if a name has no known meaning for the allocator. Before
/// 4.4 (`is_old`) kswapd is woken unless a flag forbids it.
fn rules_of(names: &[String], is_old: bool) -> Option<GfpRules> {
    let mut all = 0u32;
    for name in names {
        all |= match name.as_str() {
            "__GFP_WAIT" => bits::DIRECT_RECLAIM,
            "__GFP_NO_KSWAPD" | "__GFP_UNMAPPED" | "__GFP_NO_OBJ_EXT" | "__GFP_SKIP_KASAN" => 0,
            "GFP_IOFS" => bits::IO | bits::FS,
            "GFP_THISNODE" => bits::THISNODE | bits::NORETRY | bits::NOWARN,
            name => match bits::bits_of(name.as_bytes()) {
                Some(found) => found,
                // A remainder that the kernel could not name.
                None if name.starts_with("0x") => 0,
                None => return None,
            },
        };
    }
    let has = |bit: u32| all & bit != 0;
    let no_kswapd = names.iter().any(|name| name == "__GFP_NO_KSWAPD");
    let may_wait = has(bits::DIRECT_RECLAIM);
    Some(GfpRules {
        may_wait,
        may_io: has(bits::IO),
        may_fs: has(bits::FS),
        is_high: has(bits::HIGH),
        is_atomic: has(bits::ATOMIC) || (has(bits::HIGH) && !may_wait),
        memalloc: has(bits::MEMALLOC),
        nomemalloc: has(bits::NOMEMALLOC),
        movable: has(bits::MOVABLE),
        reclaimable: has(bits::RECLAIMABLE),
        dma: has(bits::DMA),
        dma32: has(bits::DMA32),
        highmem: has(bits::HIGHMEM),
        noretry: has(bits::NORETRY),
        retry_mayfail: has(bits::RETRY_MAYFAIL),
        nofail: has(bits::NOFAIL),
        nowarn: has(bits::NOWARN),
        thisnode: has(bits::THISNODE),
        hardwall: has(bits::HARDWALL),
        account: has(bits::ACCOUNT),
        wakes_kswapd: has(bits::KSWAPD_RECLAIM) || (is_old && !no_kswapd),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, version: Option<&str>) -> Vec<String> {
        let version = version.map(|text| Version::of(text).unwrap());
        Gfp::read(text, version).unwrap().names.unwrap_or_default()
    }

    #[test]
    fn printed_names_are_kept() {
        let gfp = Gfp::read("0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO),", None).unwrap();
        assert_eq!(gfp.printed, "0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO)");
        assert_eq!(gfp.names.unwrap(), ["GFP_KERNEL", "__GFP_COMP", "__GFP_ZERO"]);
        let rules = gfp.rules.unwrap();
        assert!(rules.may_wait && rules.may_fs && !rules.is_high && !rules.movable);
        assert_eq!(rules.zone_by_bits(), "Normal");
    }

    #[test]
    fn numbers_have_the_bits_of_their_version() {
        let kernel = ["__GFP_WAIT", "__GFP_IO", "__GFP_FS"];
        assert_eq!(names("0xd0", Some("2.6.32-5")), kernel);
        assert_eq!(names("0xd0", None), kernel);
        let reclaim = ["__GFP_IO", "__GFP_FS", "__GFP_DIRECT_RECLAIM", "__GFP_KSWAPD_RECLAIM"];
        assert_eq!(names("0x24000c0", Some("4.4.0")), reclaim);
        assert_eq!(names("0x24000c0", None), reclaim);
        assert_eq!(names("0x14000c0", Some("4.14.2")), reclaim);
        assert_eq!(names("0x6000c0", Some("4.19.0")), reclaim);
        assert_eq!(names("0xcc0", Some("5.4.0")), reclaim);
        assert_eq!(names("0x4020", None), ["__GFP_HIGH", "__GFP_COMP"]);
        assert_eq!(Gfp::read("0x80000020", None).unwrap().names, None);
    }

    #[test]
    fn rules_of_old_and_new_kernels() {
        let rules = |text| Gfp::read(text, None).unwrap().rules.unwrap();
        let old = rules("0x20");
        assert!(old.is_atomic && !old.may_wait && old.wakes_kswapd);
        assert!(rules("0x820(GFP_ATOMIC)").is_atomic);
        assert!(!rules("0x400000(GFP_NOWAIT)").is_atomic);
        assert!(rules("0xc0c40(GFP_NOFS|__GFP_COMP|__GFP_NOMEMALLOC)").nomemalloc);
        assert!(rules("0x408d40(GFP_NOFS|__GFP_NOFAIL|__GFP_ZERO|__GFP_ACCOUNT)").nofail);
        for (text, zone) in [
            ("0x201da", "Movable"),
            ("0x100cc2(GFP_HIGHUSER)", "HighMem"),
            ("0xcc1(GFP_KERNEL|GFP_DMA)", "DMA"),
            ("0xcc4(GFP_KERNEL|GFP_DMA32)", "DMA32"),
            ("0x8(__GFP_MOVABLE)", "Normal"),
        ] {
            assert_eq!(rules(text).zone_by_bits(), zone, "{text}");
        }
    }

    #[test]
    fn a_cut_list_and_an_unknown_name_give_no_rules() {
        let gfp = Gfp::read("0x40dc0(GFP_KERNEL|__GFP_CO", None).unwrap();
        assert_eq!((gfp.number, gfp.names, gfp.rules), (0x40dc0, None, None));
        assert_eq!(Gfp::read("0x1(__GFP_NOVEL)", None).unwrap().rules, None);
        assert!(Gfp::read("0x0()", None).unwrap().is_nothing());
        assert_eq!(Gfp::read("mode", None), None);
    }
}
