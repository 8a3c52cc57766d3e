//! Processes: fork, exec (rules/faults#fork, rules/faults#exec).
//!
//! A process is an address space and its kernel data. The first ones are created empty
//! ([`Kernel::create_mm`]). Others are created by fork; exec replaces their contents, and
//! [`Kernel::exit_mm`] ends them.
//!
//! | call | the caller's mm | new |
//! |---|---|---|
//! | [`Kernel::fork`] | unchanged, except that writes copy | an mm with the same contents |
//! | [`Kernel::exec`] | ends | an empty mm |
//! | [`Kernel::exit_mm`] | ends | |
//!
//! Tasks belong to the host: the parent passes the child mm to a new task, which joins it with
//! [`Mm::add_task`].
//!
//! From: programs · to: `vm::fork`, `vm::mm`.

use alloc::sync::Arc;

use crate::host::{Cost, Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::Error;
use crate::vm::Mm;

impl<H: Devices> Kernel<H> {
    /// Forks a process: the child shares all pages of `parent`, and a page is copied when either
    /// side writes to it.
    ///
    /// # Errors
    /// If there is no memory for the child's tables, stack and other memory of the kernel. The parent goes on as it was.
    #[doc(alias = "dup_mm")]
    pub fn fork(&self, cx: &Cx<'_, H>, parent: &Mm<H>) -> Result<Arc<Mm<H>>, Error> {
        let _phase = cx.phase(Phase::Fork);
        cx.charge(Cost::Syscall, 1);
        self.fork_mm(cx, parent)
    }

    /// Starts another program in the running task's process (exec): it gets an empty address space,
    /// and `old` ends. No other task uses `old` any more.
    ///
    /// # Errors
    /// If there is no memory for the new mm's first table; `old` is as it was.
    #[doc(alias = "exec_mmap")]
    pub fn exec(&self, cx: &Cx<'_, H>, old: &Arc<Mm<H>>) -> Result<Arc<Mm<H>>, Error> {
        let _phase = cx.phase(Phase::Exec);
        cx.charge(Cost::Syscall, 1);
        let new = self.create_mm(cx)?;
        new.oom_score_adj.store(old.oom_score_adj.load(Relaxed), Relaxed);
        if old.has_task(cx) {
            new.add_task(cx);
        }
        self.move_process_memory(cx, old, &new);
        self.destroy_mm(cx, old);
        old.remove_task(cx);
        Ok(new)
    }
}
