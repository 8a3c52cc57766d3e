//! `/proc/buddyinfo`: free blocks per zone and order, all types together.

use core::fmt;

use crate::host::Host;
use crate::page::{MAX_ORDER, Order};
use crate::page_alloc::PageAllocator;

/// Writes `/proc/buddyinfo`: one line per zone with memory, each ending in a blank.
///
/// # Errors
/// Those of the writer.
#[doc(alias = "frag_show")]
pub fn buddyinfo<H: Host>(w: &mut impl fmt::Write, alloc: &PageAllocator<H>) -> fmt::Result {
    for zone in alloc.populated_zones() {
        write!(w, "Node {}, zone {:>8} ", zone.node.0, zone.zone.name())?;
        for order in 0..MAX_ORDER {
            write!(w, "{:6} ", zone.nr_free_blocks(Order(order as u8)))?;
        }
        w.write_char('\n')?;
    }
    Ok(())
}
