//! Request flags: GFP bits and their text (rules/requests#gfp-bits).

use core::fmt;

use bitflags::bitflags;

bitflags! {
    /// Allocation request flags, 6.1's bit values.
    #[doc(alias = "gfp_t")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Gfp: u32 {
        /// Only the DMA zone.
        const DMA = 0x1;
        /// HIGHMEM is NORMAL on 64 bits.
        const HIGHMEM = 0x2;
        /// DMA32 and below.
        const DMA32 = 0x4;
        /// The page can be moved.
        const MOVABLE = 0x8;
        /// The page belongs to a cache that can shrink.
        const RECLAIMABLE = 0x10;
        /// May use half of the reserves.
        const HIGH = 0x20;
        /// Reclaim may start I/O; compaction is allowed.
        const IO = 0x40;
        /// Reclaim may enter filesystems.
        const FS = 0x80;
        /// Zero the memory.
        const ZERO = 0x100;
        /// Must not wait and may use reserves.
        const ATOMIC = 0x200;
        /// May block to reclaim.
        const DIRECT_RECLAIM = 0x400;
        /// Wakes kswapd when memory is low.
        const KSWAPD_RECLAIM = 0x800;
        /// The page will be dirtied: spread over nodes.
        const WRITE = 0x1000;
        /// No warning on failure.
        const NOWARN = 0x2000;
        /// Try hard, but fail rather than kill.
        const RETRY_MAYFAIL = 0x4000;
        /// Never fail.
        const NOFAIL = 0x8000;
        /// One attempt.
        const NORETRY = 0x10000;
        /// Ignore watermarks.
        const MEMALLOC = 0x20000;
        /// Compound page.
        const COMP = 0x40000;
        /// No reserves by context.
        const NOMEMALLOC = 0x80000;
        /// Enforce the cpuset strictly.
        const HARDWALL = 0x100000;
        /// This node or none.
        const THISNODE = 0x200000;
        /// Charge to a memory cgroup.
        const ACCOUNT = 0x400000;

        /// DIRECT_RECLAIM and KSWAPD_RECLAIM.
        const RECLAIM = 0xc00;
    }
}

impl Gfp {
    /// GFP_ATOMIC.
    pub const GFP_ATOMIC: Gfp = Gfp::HIGH.union(Gfp::ATOMIC).union(Gfp::KSWAPD_RECLAIM);
    /// GFP_NOWAIT.
    pub const GFP_NOWAIT: Gfp = Gfp::KSWAPD_RECLAIM;
    /// GFP_NOIO.
    pub const GFP_NOIO: Gfp = Gfp::RECLAIM;
    /// GFP_NOFS.
    pub const GFP_NOFS: Gfp = Gfp::RECLAIM.union(Gfp::IO);
    /// GFP_KERNEL.
    pub const GFP_KERNEL: Gfp = Gfp::GFP_NOFS.union(Gfp::FS);
    /// GFP_USER.
    pub const GFP_USER: Gfp = Gfp::GFP_KERNEL.union(Gfp::HARDWALL);
    /// GFP_HIGHUSER.
    pub const GFP_HIGHUSER: Gfp = Gfp::GFP_USER.union(Gfp::HIGHMEM);
    /// GFP_HIGHUSER_MOVABLE.
    pub const GFP_HIGHUSER_MOVABLE: Gfp = Gfp::GFP_HIGHUSER.union(Gfp::MOVABLE);
    /// GFP_TRANSHUGE_LIGHT.
    pub const GFP_TRANSHUGE_LIGHT: Gfp = Gfp::from_bits_retain(
        (Gfp::GFP_HIGHUSER_MOVABLE.bits()
            | Gfp::COMP.bits()
            | Gfp::NOMEMALLOC.bits()
            | Gfp::NOWARN.bits())
            & !Gfp::RECLAIM.bits(),
    );
    /// GFP_TRANSHUGE.
    pub const GFP_TRANSHUGE: Gfp = Gfp::GFP_TRANSHUGE_LIGHT.union(Gfp::DIRECT_RECLAIM);
}

/// Composite names, largest first, as trace output combines them.
const NAMES: &[(&str, Gfp)] = &[
    ("GFP_TRANSHUGE", Gfp::GFP_TRANSHUGE),
    ("GFP_TRANSHUGE_LIGHT", Gfp::GFP_TRANSHUGE_LIGHT),
    ("GFP_HIGHUSER_MOVABLE", Gfp::GFP_HIGHUSER_MOVABLE),
    ("GFP_HIGHUSER", Gfp::GFP_HIGHUSER),
    ("GFP_USER", Gfp::GFP_USER),
    ("GFP_KERNEL_ACCOUNT", Gfp::GFP_KERNEL.union(Gfp::ACCOUNT)),
    ("GFP_KERNEL", Gfp::GFP_KERNEL),
    ("GFP_NOFS", Gfp::GFP_NOFS),
    ("GFP_ATOMIC", Gfp::GFP_ATOMIC),
    ("GFP_NOIO", Gfp::GFP_NOIO),
    ("GFP_NOWAIT", Gfp::GFP_NOWAIT),
    ("GFP_DMA", Gfp::DMA),
    ("__GFP_HIGHMEM", Gfp::HIGHMEM),
    ("GFP_DMA32", Gfp::DMA32),
    ("__GFP_HIGH", Gfp::HIGH),
    ("__GFP_ATOMIC", Gfp::ATOMIC),
    ("__GFP_IO", Gfp::IO),
    ("__GFP_FS", Gfp::FS),
    ("__GFP_NOWARN", Gfp::NOWARN),
    ("__GFP_RETRY_MAYFAIL", Gfp::RETRY_MAYFAIL),
    ("__GFP_NOFAIL", Gfp::NOFAIL),
    ("__GFP_NORETRY", Gfp::NORETRY),
    ("__GFP_COMP", Gfp::COMP),
    ("__GFP_ZERO", Gfp::ZERO),
    ("__GFP_NOMEMALLOC", Gfp::NOMEMALLOC),
    ("__GFP_MEMALLOC", Gfp::MEMALLOC),
    ("__GFP_HARDWALL", Gfp::HARDWALL),
    ("__GFP_THISNODE", Gfp::THISNODE),
    ("__GFP_RECLAIMABLE", Gfp::RECLAIMABLE),
    ("__GFP_MOVABLE", Gfp::MOVABLE),
    ("__GFP_ACCOUNT", Gfp::ACCOUNT),
    ("__GFP_WRITE", Gfp::WRITE),
    ("__GFP_RECLAIM", Gfp::RECLAIM),
    ("__GFP_DIRECT_RECLAIM", Gfp::DIRECT_RECLAIM),
    ("__GFP_KSWAPD_RECLAIM", Gfp::KSWAPD_RECLAIM),
];

impl fmt::Display for Gfp {
    /// The symbolic form of trace output: `GFP_KERNEL|__GFP_ZERO`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = *self;
        let mut first = true;
        for &(name, bits) in NAMES {
            if left.contains(bits) {
                f.write_str(if first { "" } else { "|" })?;
                f.write_str(name)?;
                left.remove(bits);
                first = false;
            }
        }
        match (left.is_empty(), first) {
            (true, true) => f.write_str("none"),
            (true, false) => Ok(()),
            (false, _) => {
                write!(f, "{}{:#x}", if first { "" } else { "|" }, left.bits())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn text_is_what_traces_print() {
        let gfp = Gfp::GFP_NOFS
            | Gfp::HIGHMEM
            | Gfp::NOWARN
            | Gfp::NORETRY
            | Gfp::COMP
            | Gfp::HARDWALL
            | Gfp::MOVABLE;
        assert_eq!(
            gfp.to_string(),
            "GFP_NOFS|__GFP_HIGHMEM|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|__GFP_HARDWALL|__GFP_MOVABLE"
        );
        assert_eq!(Gfp::empty().to_string(), "none");
    }
}
