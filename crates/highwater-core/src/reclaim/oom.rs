//! The OOM killer and its reaper (spec 02 §18).

use crate::host::{Cx, Devices, Tasks};
use crate::kernel::Kernel;
use crate::page_alloc::Request;
use crate::sync::WaitQueue;

/// What the OOM killer remembers.
pub struct OomState<H: Tasks> {
    /// The reaper sleeps here.
    pub(crate) reaper_wait: WaitQueue<H>,
}

impl<H: Tasks> OomState<H> {
    /// Nobody killed yet.
    pub fn new(host: &H) -> Self {
        OomState { reaper_wait: WaitQueue::new(host) }
    }
}

impl<H: Devices> Kernel<H> {
    /// Kills the task with the most memory; true if one was killed or is dying.
    pub(crate) fn oom_kill(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> bool {
        let _ = (cx, req);
        todo!()
    }

    /// The reaper's body; returns when the kernel shuts down.
    pub fn run_oom_reaper(&self, cx: &Cx<'_, H>) {
        let _ = cx;
        todo!()
    }
}
