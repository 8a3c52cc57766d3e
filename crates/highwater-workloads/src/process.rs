//! Processes: an address space and the task that runs in it.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::vm::Mm;

/// Creates an address space and adds the running task to it: the OOM killer sees it.
///
/// # Errors
/// If there is no memory for its first table.
pub(crate) fn start<H: Devices>(kernel: &Kernel<H>, cx: &Cx<'_, H>) -> Result<Arc<Mm<H>>, Error> {
    let mm = kernel.create_mm(cx)?;
    mm.add_task(cx);
    Ok(mm)
}

/// Ends the process: unmaps its memory and removes the task.
pub(crate) fn end<H: Devices>(kernel: &Kernel<H>, cx: &Cx<'_, H>, mm: &Arc<Mm<H>>) {
    kernel.exit_mm(cx, mm);
    mm.remove_task(cx);
}
