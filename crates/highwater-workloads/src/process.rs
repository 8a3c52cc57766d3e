//! Processes: an address space and the task that runs in it.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::vm::Space;

/// An address space of which the running task is part: the OOM killer sees it.
///
/// # Errors
/// If there is no memory for its first table.
pub(crate) fn start<H: Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
) -> Result<Arc<Space<H>>, Error> {
    let space = kernel.create_space(cx)?;
    space.add_task(cx);
    Ok(space)
}

/// The process ends: its memory is unmapped, the task leaves.
pub(crate) fn end<H: Devices>(kernel: &Kernel<H>, cx: &Cx<'_, H>, space: &Arc<Space<H>>) {
    kernel.exit_space(cx, space);
    space.remove_task(cx);
}
