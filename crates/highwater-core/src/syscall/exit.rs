//! The end of a task.

use alloc::sync::Arc;

use crate::host::{Cx, Devices, Phase};
use crate::kernel::Kernel;
use crate::vm::Space;

impl<H: Devices> Kernel<H> {
    /// Ends a task and its address space: unmaps everything in one go, frees its tables, retires
    /// its number, and closes the task's accounts. No other task uses the space any more.
    #[doc(alias = "exit_mm")]
    pub fn exit_space(&self, cx: &Cx<'_, H>, space: &Arc<Space<H>>) {
        let _phase = cx.phase(Phase::Exit);
        self.destroy_space(cx, space);
        self.exit_task(cx);
    }

    /// Closes the accounts of a task that ends while others go on in its address space.
    pub fn exit_task(&self, cx: &Cx<'_, H>) {
        self.leave_dirtied(cx);
        self.close_account(cx);
    }
}
