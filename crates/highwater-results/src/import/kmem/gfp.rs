//! GFP flag names as tracepoints print them, and their bits.
//!
//! Bits are those of rules/requests#gfp-bits (Linux 6.1, without `__GFP_NOLOCKDEP`). A trace of
//! another kernel is read by name, so a name has the same meaning whatever bit that kernel gave it.
//! Only a remainder that a kernel prints as a number is taken unchanged.

use std::collections::BTreeMap;

use crate::import::error::{parse_u64, shown};

/// Zone and type bits.
pub const DMA: u32 = 0x1;
/// May use high memory.
pub const HIGHMEM: u32 = 0x2;
/// Below 4 GiB only.
pub const DMA32: u32 = 0x4;
/// Movable zone and type.
pub const MOVABLE: u32 = 0x8;
/// Reclaimable type.
pub const RECLAIMABLE: u32 = 0x10;
/// May use reserves.
pub const HIGH: u32 = 0x20;
/// Reclaim may start I/O.
pub const IO: u32 = 0x40;
/// Reclaim may enter filesystems.
pub const FS: u32 = 0x80;
/// Zero the pages.
pub const ZERO: u32 = 0x100;
/// Cannot wait.
pub const ATOMIC: u32 = 0x200;
/// May block to reclaim.
pub const DIRECT_RECLAIM: u32 = 0x400;
/// May wake kswapd.
pub const KSWAPD_RECLAIM: u32 = 0x800;
/// Page will be dirtied.
pub const WRITE: u32 = 0x1000;
/// No failure report.
pub const NOWARN: u32 = 0x2000;
/// Try hard, but may fail.
pub const RETRY_MAYFAIL: u32 = 0x4000;
/// Must not fail.
pub const NOFAIL: u32 = 0x8000;
/// Give up early.
pub const NORETRY: u32 = 0x1_0000;
/// Ignore watermarks.
pub const MEMALLOC: u32 = 0x2_0000;
/// Compound page.
pub const COMP: u32 = 0x4_0000;
/// No reserves, whatever the context.
pub const NOMEMALLOC: u32 = 0x8_0000;
/// Strict cpuset.
pub const HARDWALL: u32 = 0x10_0000;
/// This node only.
pub const THISNODE: u32 = 0x20_0000;
/// Charged to a memory cgroup.
pub const ACCOUNT: u32 = 0x40_0000;

const RECLAIM: u32 = DIRECT_RECLAIM | KSWAPD_RECLAIM;
const KERNEL: u32 = RECLAIM | IO | FS;
const USER: u32 = KERNEL | HARDWALL;
const HIGHUSER_MOVABLE: u32 = USER | HIGHMEM | MOVABLE;
const TRANSHUGE_LIGHT: u32 = (HIGHUSER_MOVABLE | COMP | NOMEMALLOC | NOWARN) & !RECLAIM;

/// Distinct unknown names that are remembered one by one.
const UNKNOWN_NAMES_MAX: usize = 64;
/// Distinct flag texts whose bits are remembered; a trace has a few dozen.
const REMEMBERED_MAX: usize = 64;

/// Turns flag texts into bits, remembering the texts seen and counting the names it does not know.
#[derive(Clone, Debug, Default)]
pub struct GfpDecoder {
    remembered: Vec<(Vec<u8>, u32)>,
    unknown: BTreeMap<String, u64>,
}

impl GfpDecoder {
    /// Bits of `GFP_KERNEL|__GFP_ZERO`, `0xcc0`, `3264`, `GFP_NOFS|0x80000`. Unknown names have no
    /// bits and are counted; an invalid number is an error (the text of the problem).
    pub fn decode(&mut self, text: &[u8]) -> Result<u32, String> {
        if let Some(&(_, bits)) = self.remembered.iter().find(|(seen, _)| seen == text) {
            return Ok(bits);
        }
        if text.is_empty() {
            return Err("empty".to_owned());
        }
        let mut bits = 0;
        let mut is_known = true;
        for name in text.split(|&b| b == b'|') {
            match bits_of(name) {
                Some(found) => bits |= found,
                None if is_name(name) => {
                    self.count_unknown(name);
                    is_known = false;
                }
                None => {
                    let number = parse_u64(name).map_err(|problem| {
                        problem.replace("is not a number", "is neither a flag nor a number")
                    })?;
                    bits |= u32::try_from(number)
                        .map_err(|_| format!("{} does not fit into 32 bits", shown(name)))?;
                }
            }
        }
        if is_known && self.remembered.len() < REMEMBERED_MAX {
            self.remembered.push((text.to_vec(), bits));
        }
        Ok(bits)
    }

    /// Unknown names, with their number of occurrences.
    #[must_use]
    pub fn unknown(&self) -> &BTreeMap<String, u64> {
        &self.unknown
    }

    #[cold]
    fn count_unknown(&mut self, name: &[u8]) {
        let printable = String::from_utf8_lossy(name).into_owned();
        if self.unknown.len() >= UNKNOWN_NAMES_MAX && !self.unknown.contains_key(&printable) {
            *self.unknown.entry("(others)".to_owned()).or_default() += 1;
        } else {
            *self.unknown.entry(printable).or_default() += 1;
        }
    }
}

/// Bits of one name, or `None`. Kernels before 4.6 print single flags without the underscores
/// (`GFP_COMP`). The short form is accepted unless it is the name of a combination.
#[must_use]
pub fn bits_of(name: &[u8]) -> Option<u32> {
    let combination = match name {
        b"GFP_TRANSHUGE" => TRANSHUGE_LIGHT | DIRECT_RECLAIM,
        b"GFP_TRANSHUGE_LIGHT" => TRANSHUGE_LIGHT,
        b"GFP_HIGHUSER_MOVABLE" => HIGHUSER_MOVABLE,
        b"GFP_HIGHUSER" => USER | HIGHMEM,
        b"GFP_USER" => USER,
        b"GFP_KERNEL_ACCOUNT" => KERNEL | ACCOUNT,
        b"GFP_KERNEL" | b"GFP_TEMPORARY" => KERNEL,
        b"GFP_NOFS" => RECLAIM | IO,
        b"GFP_NOIO" => RECLAIM,
        b"GFP_ATOMIC" => HIGH | ATOMIC | KSWAPD_RECLAIM,
        b"GFP_NOWAIT" => KSWAPD_RECLAIM,
        b"GFP_DMA" => DMA,
        b"GFP_DMA32" => DMA32,
        b"none" => 0,
        _ => {
            let single = name.strip_prefix(b"__GFP_").or_else(|| name.strip_prefix(b"GFP_"))?;
            return single_bit(single);
        }
    };
    // A temporary allocation (4.4 to 4.14) is a reclaimable kernel one.
    Some(if name == b"GFP_TEMPORARY" { combination | RECLAIMABLE } else { combination })
}

/// True if the text looks like a flag's name rather than a number.
fn is_name(text: &[u8]) -> bool {
    let starts_like_name = text.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    starts_like_name && text.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn single_bit(name: &[u8]) -> Option<u32> {
    Some(match name {
        b"DMA" => DMA,
        b"HIGHMEM" => HIGHMEM,
        b"DMA32" => DMA32,
        b"MOVABLE" => MOVABLE,
        b"RECLAIMABLE" => RECLAIMABLE,
        b"HIGH" => HIGH,
        b"IO" => IO,
        b"FS" => FS,
        b"ZERO" => ZERO,
        b"ATOMIC" => ATOMIC,
        b"DIRECT_RECLAIM" => DIRECT_RECLAIM,
        b"KSWAPD_RECLAIM" => KSWAPD_RECLAIM,
        // Before 4.4 one flag had both meanings.
        b"RECLAIM" | b"WAIT" => RECLAIM,
        b"WRITE" => WRITE,
        b"NOWARN" => NOWARN,
        b"RETRY_MAYFAIL" | b"REPEAT" => RETRY_MAYFAIL,
        b"NOFAIL" => NOFAIL,
        b"NORETRY" => NORETRY,
        b"MEMALLOC" => MEMALLOC,
        b"COMP" => COMP,
        b"NOMEMALLOC" => NOMEMALLOC,
        b"HARDWALL" => HARDWALL,
        b"THISNODE" => THISNODE,
        b"ACCOUNT" => ACCOUNT,
        // Known flags that mean nothing to an allocator model.
        b"COLD"
        | b"NOTRACK"
        | b"OTHER_NODE"
        | b"NOLOCKDEP"
        | b"ZEROTAGS"
        | b"SKIP_ZERO"
        | b"SKIP_KASAN"
        | b"SKIP_KASAN_POISON"
        | b"SKIP_KASAN_UNPOISON" => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_have_their_bits() {
        // Sums written out by hand from the bit list of rules/requests#gfp-bits.
        for (name, bits) in [
            ("GFP_ATOMIC", 0xa20),
            ("GFP_NOWAIT", 0x800),
            ("GFP_NOIO", 0xc00),
            ("GFP_NOFS", 0xc40),
            ("GFP_KERNEL", 0xcc0),
            ("GFP_KERNEL_ACCOUNT", 0x40_0cc0),
            ("GFP_USER", 0x10_0cc0),
            ("GFP_HIGHUSER", 0x10_0cc2),
            ("GFP_HIGHUSER_MOVABLE", 0x10_0cca),
            ("GFP_TRANSHUGE_LIGHT", 0x1c_20ca),
            ("GFP_TRANSHUGE", 0x1c_24ca),
            ("GFP_DMA", 0x1),
            ("GFP_DMA32", 0x4),
            ("__GFP_ATOMIC", 0x200),
            ("__GFP_RECLAIM", 0xc00),
            ("none", 0),
        ] {
            assert_eq!(GfpDecoder::default().decode(name.as_bytes()), Ok(bits), "{name}");
        }
    }

    #[test]
    fn names_numbers_and_mixtures() {
        let mut gfp = GfpDecoder::default();
        assert_eq!(gfp.decode(b"GFP_KERNEL|__GFP_ZERO"), Ok(0xdc0));
        assert_eq!(gfp.decode(b"0xcc0"), Ok(0xcc0));
        assert_eq!(gfp.decode(b"3264"), Ok(0xcc0));
        assert_eq!(gfp.decode(b"GFP_NOFS|0x80000"), Ok(0x8_0c40));
        assert_eq!(gfp.decode(b"GFP_KERNEL|GFP_COMP"), Ok(0x4_0cc0));
        assert_eq!(gfp.decode(b"GFP_KERNEL|__GFP_ZERO"), Ok(0xdc0), "remembered");
        assert!(gfp.decode(b"0xcc0z").is_err());
        assert!(gfp.decode(b"GFP_KERNEL|").is_err());
        assert!(gfp.decode(b"GFP_KERNEL|_\xff").is_err());
        assert!(gfp.unknown().is_empty());
    }

    #[test]
    fn unknown_names_are_counted_each_time() {
        let mut gfp = GfpDecoder::default();
        for _ in 0..3 {
            assert_eq!(gfp.decode(b"GFP_KERNEL|__GFP_NOVEL"), Ok(0xcc0));
        }
        assert_eq!(gfp.unknown().get("__GFP_NOVEL"), Some(&3));
        for i in 0..1000 {
            gfp.decode(format!("__GFP_N{i}").as_bytes()).unwrap();
        }
        assert!(gfp.unknown().len() <= UNKNOWN_NAMES_MAX + 1);
        assert_eq!(gfp.unknown().values().sum::<u64>(), 1003);
    }
}
