//! Zone (rules/requests#highest-zone) and migratetype (rules/requests#request-type) of request
//! flags.
//!
//! Every allocation decodes both, so it takes only a few bit operations. The zone bits give the
//! highest allowed zone, where the search begins; any lower zone will do. MOVABLE has two meanings:
//! it is the type of the page, and together with HIGHMEM it allows the Movable zone, whose pages
//! must be movable.

use crate::page::MigrateType;
use crate::units::Gfp;
use crate::zone::ZoneType;

impl Gfp {
    /// Returns the highest zone the request may use; none if the zone bits contradict each other.
    #[doc(alias = "gfp_zone")]
    #[inline(always)]
    pub const fn highest_zone(self) -> Option<ZoneType> {
        // HIGHMEM alone is Normal, because with 64 bits all memory is mapped. MOVABLE alone is too:
        // it gives the page's type and does not allow the Movable zone. Indexed by the low four
        // bits; 15 marks invalid combinations.
        const TABLE: [u8; 16] = [2, 0, 2, 15, 1, 15, 15, 15, 2, 0, 3, 15, 1, 15, 15, 15];
        match TABLE[(self.bits() & 0xf) as usize] {
            0 => Some(ZoneType::Dma),
            1 => Some(ZoneType::Dma32),
            2 => Some(ZoneType::Normal),
            3 => Some(ZoneType::Movable),
            _ => None,
        }
    }

    /// Returns the migratetype asked for; none if both type bits are set.
    #[doc(alias = "gfp_migratetype")]
    #[doc(alias = "gfpflags_to_migratetype")]
    #[inline(always)]
    pub const fn migratetype(self) -> Option<MigrateType> {
        // The bits are placed so that one shift gives the type.
        match (self.bits() >> 3) & 3 {
            0 => Some(MigrateType::Unmovable),
            1 => Some(MigrateType::Movable),
            2 => Some(MigrateType::Reclaimable),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_bits_select_the_highest_zone() {
        let highest = |bits| Gfp::from_bits_retain(bits).highest_zone();
        assert_eq!(highest(0), Some(ZoneType::Normal));
        assert_eq!(highest(1), Some(ZoneType::Dma));
        assert_eq!(highest(0xa), Some(ZoneType::Movable));
        assert_eq!(highest(0xc), Some(ZoneType::Dma32));
        assert_eq!(highest(3), None);
    }
}
