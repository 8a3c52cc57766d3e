//! Kernels before 3.9, which do not report managed pages of zones.
//!
//! These kernels compute sizes from `present`. `present` leaves out the page structs of the zone's
//! pages, even if these structs lie in another zone. So a zone can have more free pages than
//! present ones.

use highwater_results::import::proc::{Buddyinfo, ZoneinfoZone};

/// Free pages in the later text count as present too, up to the zone's spanned size.
pub(super) fn free_is_present(zones: &mut [ZoneinfoZone], buddyinfo: &Buddyinfo) {
    for zone in zones.iter_mut().filter(|zone| !zone.has_managed) {
        let rows = buddyinfo.zones.iter();
        let own = rows.filter(|row| row.node == zone.node && row.zone == zone.zone);
        let free: u64 = own.map(|row| row.nr_pages()).sum();
        zone.present = zone.present.max(free.min(zone.spanned));
    }
}

/// A note about which figure stands for `managed`; `None` if the kernel prints it.
pub(super) fn note(zones: &[ZoneinfoZone]) -> Option<String> {
    let old = || zones.iter().filter(|zone| !zone.has_managed);
    old().next()?;
    let mut note = "/proc/zoneinfo has no `managed` lines (kernels before 3.9): zones are taken to manage their \
                    `present` pages"
        .to_owned();
    for zone in old().filter(|zone| zone.present > zone.managed) {
        note += &format!(
            "; node {} {}: {} pages are free and {} present: the free ones are taken to be there, sizes follow from the \
             present ones",
            zone.node, zone.zone, zone.present, zone.managed
        );
    }
    Some(note)
}
