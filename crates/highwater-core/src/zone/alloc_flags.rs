//! A request's rights in a zone: the mark that it must respect, and the reserves that it may use.

use bitflags::bitflags;

use super::Mark;

bitflags! {
    /// The rights of a get_page pass. The low two bits select the mark.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct AllocFlags: u32 {
        /// Mark index, bit 0 ([`Mark::Low`]).
        const MARK_LOW = 1 << 0;
        /// Mark index, bit 1 ([`Mark::High`]).
        const MARK_HIGH = 1 << 1;
        /// Ignore watermarks.
        const NO_WATERMARKS = 1 << 2;
        /// OOM victim: half of the reserves.
        const OOM = 1 << 3;
        /// Cannot block (6.1); "harder" in the legacy rules.
        const NON_BLOCK = 1 << 4;
        /// May use half of the reserves (`__GFP_HIGH`).
        const MIN_RESERVE = 1 << 5;
        /// Enforce the cpuset.
        const CPUSET = 1 << 6;
        /// May use contiguous-memory areas (none are configured).
        const CMA = 1 << 7;
        /// Rather fail than mix types in a pageblock.
        const NOFRAGMENT = 1 << 8;
        /// May use the high-atomic reserve.
        const HIGHATOMIC = 1 << 9;
        /// May wake kswapd.
        const KSWAPD = 1 << 10;
        /// 4.3: fair share of each zone.
        const FAIR = 1 << 11;
    }
}

impl AllocFlags {
    /// The mark these flags check against.
    #[inline(always)]
    pub const fn mark(self) -> Mark {
        match self.bits() & 3 {
            0 => Mark::Min,
            1 => Mark::Low,
            _ => Mark::High,
        }
    }
}
