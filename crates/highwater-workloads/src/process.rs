//! Processes: an address space and the task that runs in it.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::vm::Space;

/// Creates an address space and adds the running task to it: the OOM killer sees it.
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

/// Ends the process: unmaps its memory and removes the task.
pub(crate) fn end<H: Devices>(kernel: &Kernel<H>, cx: &Cx<'_, H>, space: &Arc<Space<H>>) {
    kernel.exit_space(cx, space);
    space.remove_task(cx);
}
