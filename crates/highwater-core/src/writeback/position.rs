//! The position ratio: how fast writers may go at the present number of dirty pages
//! (rules/dirty-throttling#position). Pure arithmetic.
//!
//! ```text
//! 2.0 |.
//!     |  .                      the ratio over dirty pages of all devices: a cubic curve that is
//!     |     . . . .             flat at the set point, 1.0 there, 0 at the limit
//! 1.0 |- - - - - - -:. . .
//!     |             :      .
//!   0 |_____________:________.__
//!     freerun    setpoint   limit
//! ```
//!
//! and over the device's own pages a straight line around its share of the set point, so that a
//! slow device cannot fill the memory that a fast one needs.

use super::share;
use crate::config::WbThreshFloor;

/// One, in ratios.
const ONE: u64 = 1 << ONE_SHIFT;
const ONE_SHIFT: u32 = 10;

/// Where the dirty pages stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Writers are not held up below this.
    pub freerun: u64,
    /// The limit by now.
    pub thresh: u64,
    /// The smoothed limit, not below `thresh`: writers stop here.
    pub limit: u64,
    /// Dirty and under writeback, all devices and swap.
    pub dirty: u64,
    /// The device's share of `thresh`.
    pub wb_thresh: u64,
    /// Dirty and under writeback on the device.
    pub wb_dirty: u64,
    /// Write bandwidth of the device, in pages a second.
    pub avg_bandwidth: u64,
    /// Smallest share of a device that wrote nothing lately.
    pub floor: WbThreshFloor,
}

impl Position {
    /// Where the dirty pages should be.
    pub const fn setpoint(&self) -> u64 {
        (self.freerun + self.limit) / 2
    }

    /// Returns the factor of a writer's rate by how far the dirty pages are from their setpoint,
    /// 1024 = 1.
    #[doc(alias = "wb_position_ratio")]
    pub fn ratio(&self) -> u64 {
        if self.dirty >= self.limit {
            return 0;
        }
        let setpoint = self.setpoint();
        let mut ratio = curve(setpoint, self.dirty, self.limit);

        let mut w = self.wb_thresh.min(self.thresh);
        if self.floor == WbThreshFloor::Ratio {
            w = w.max(share::least(self.limit, self.dirty));
        }
        let share = (w << 16) / (self.thresh | 1);
        let wb_setpoint = (setpoint * share) >> 16;
        let slack = (self.thresh + 8 * self.avg_bandwidth).saturating_sub(w);
        let span = (slack * share) >> 16;
        let end = wb_setpoint + span;
        if self.wb_dirty < end - span / 4 {
            ratio = ratio * (end - self.wb_dirty) / ((end - wb_setpoint) | 1);
        } else {
            ratio /= 4;
        }

        // A device that has little is to get more, or it would run dry.
        let half = w / 2;
        if self.wb_dirty < half {
            let is_tiny = self.wb_dirty <= half / 8;
            ratio = if is_tiny { ratio * 8 } else { ratio * half / self.wb_dirty };
        }
        ratio
    }
}

/// Computes `1 + ((setpoint - dirty) / (limit - setpoint))^3`, from 0 to 2.
#[doc(alias = "pos_ratio_polynom")]
fn curve(setpoint: u64, dirty: u64, limit: u64) -> u64 {
    let x = (setpoint as i64 - dirty as i64) * ONE as i64 / ((limit - setpoint) | 1) as i64;
    let cubed = (((x * x) >> ONE_SHIFT) * x) >> ONE_SHIFT;
    (cubed + ONE as i64).clamp(0, 2 * ONE as i64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Position = Position {
        freerun: 157_184,
        thresh: 209_664,
        limit: 209_664,
        dirty: 0,
        wb_thresh: 209_664,
        wb_dirty: 0,
        avg_bandwidth: 25_600,
        floor: WbThreshFloor::Ratio,
    };

    #[test]
    fn position_polynomial() {
        assert_eq!(AT.setpoint(), 183_424);
        let table = [
            (157_184, 2045),
            (170_304, 1151),
            (176_864, 1039),
            (183_424, 1024),
            (196_544, 896),
            (203_104, 594),
            (209_663, 2),
        ];
        for (dirty, ratio) in table {
            assert_eq!(curve(183_424, dirty, 209_664), ratio, "{dirty}");
        }
        assert_eq!(Position { dirty: 209_664, ..AT }.ratio(), 0);
    }

    #[test]
    fn full_position_ratio() {
        let all_its = |dirty| Position { dirty, wb_dirty: dirty, ..AT }.ratio();
        assert_eq!([157_184, 183_424, 196_544].map(all_its), [2306, 1023, 838]);
        let own = |wb_dirty| Position { dirty: 183_424, wb_dirty, ..AT }.ratio();
        assert_eq!([103_832, 13_104].map(own), [1434, 15_000]);
    }

    /// The share has its floor before the ratio is computed (rules/dirty-throttling#share-floor).
    #[test]
    fn an_idle_device_has_the_same_ratio_under_both_floors() {
        let at = |floor, wb_thresh| {
            let wb_dirty = 3000;
            Position { dirty: 183_424, wb_thresh, wb_dirty, floor, ..AT }.ratio()
        };
        let least = share::least(AT.limit, 183_424);
        let under = at(WbThreshFloor::Ratio, 0);
        assert_eq!((least, under), (3280, at(WbThreshFloor::Share, least)));
        assert_ne!(under, at(WbThreshFloor::Share, 0), "the ratio itself has none");
    }

    #[test]
    fn no_position_is_undefined() {
        let values = [0, 1, 7, 5000, 209_663, 209_664, 1 << 30];
        for thresh in values {
            for (dirty, wb) in values.iter().flat_map(|&d| values.iter().map(move |&w| (d, w))) {
                let limit = thresh.max(5000);
                let (freerun, wb_thresh, wb_dirty) = (thresh / 4 * 3, wb, wb);
                for floor in [WbThreshFloor::Ratio, WbThreshFloor::Share] {
                    let avg_bandwidth = 1;
                    Position {
                        freerun,
                        thresh,
                        limit,
                        dirty,
                        wb_thresh,
                        wb_dirty,
                        avg_bandwidth,
                        floor,
                    }
                    .ratio();
                }
            }
        }
    }
}
