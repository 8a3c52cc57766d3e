//! Collecting bios before they go to a device.

use core::cell::RefCell;

use alloc::vec::Vec;

use super::Bio;

/// Bios of one task that were not handed to their devices yet (`struct blk_plug`).
///
/// Lives in the task ([`crate::host::Cx`]); flushed when it is full, when the outermost plug
/// ends, and before the task sleeps.
#[derive(Debug, Default)]
pub struct Plug {
    /// How many plugs are open; at 0 bios go straight to the device.
    pub(crate) depth: core::cell::Cell<u32>,
    /// The bios, in order of submission.
    pub(crate) bios: RefCell<Vec<Bio>>,
}
