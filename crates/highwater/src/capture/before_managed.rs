//! Kernels before 3.9, which do not say what a zone manages.
//!
//! These kernels compute sizes from `present`, which leaves out the page structs of the zone's pages, also
//! where these lie in another zone: a zone can have more free pages than it has present ones.

use highwater_results::import::proc::{Buddyinfo, ZoneinfoZone};

/// Free pages that the later text counts are present too, as far as the zone reaches.
pub(super) fn free_is_present(zones: &mut [ZoneinfoZone], buddyinfo: &Buddyinfo) {
    for zone in zones.iter_mut().filter(|zone| !zone.has_managed) {
        let rows = buddyinfo.zones.iter();
        let own = rows.filter(|row| row.node == zone.node && row.zone == zone.zone);
        let free: u64 = own.map(|row| row.nr_pages()).sum();
        zone.present = zone.present.max(free.min(zone.spanned));
    }
}

/// A line that says which figure stands for `managed`; none if the kernel prints it.
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
