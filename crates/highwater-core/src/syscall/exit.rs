//! The end of a task.

use alloc::sync::Arc;

use crate::host::{Cx, Devices, Phase};
use crate::kernel::Kernel;
use crate::vm::Mm;

impl<H: Devices> Kernel<H> {
    /// Ends a task and its address space: unmaps everything in one go, frees its tables, retires
    /// its number, and closes the task's accounts. No other task uses the mm any more.
    ///
    /// Linux: same name.
    pub fn exit_mm(&self, cx: &Cx<'_, H>, mm: &Arc<Mm<H>>) {
        let _phase = cx.phase(Phase::Exit);
        self.destroy_mm(cx, mm);
        self.exit_task(cx);
    }

    /// Closes the accounts of a task that ends while others go on in its address space.
    pub fn exit_task(&self, cx: &Cx<'_, H>) {
        self.leave_dirtied(cx);
        self.close_account(cx);
        self.leave_group(cx);
    }
}
