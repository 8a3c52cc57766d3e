//! What request flags ask for: zone (rules/requests#highest-zone) and migratetype
//! (rules/requests#request-type).

use crate::page::MigrateType;
use crate::units::Gfp;
use crate::zone::ZoneType;

impl Gfp {
    /// The highest zone the request may use; none if the zone bits contradict each other.
    #[inline(always)]
    pub const fn highest_zone(self) -> Option<ZoneType> {
        // Indexed by the low four bits; 15 marks invalid combinations.
        const TABLE: [u8; 16] = [2, 0, 2, 15, 1, 15, 15, 15, 2, 0, 3, 15, 1, 15, 15, 15];
        match TABLE[(self.bits() & 0xf) as usize] {
            0 => Some(ZoneType::Dma),
            1 => Some(ZoneType::Dma32),
            2 => Some(ZoneType::Normal),
            3 => Some(ZoneType::Movable),
            _ => None,
        }
    }

    /// The migratetype asked for; none if both type bits are set.
    #[inline(always)]
    pub const fn migratetype(self) -> Option<MigrateType> {
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
