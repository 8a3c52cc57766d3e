//! Processes of a build: the things that they share, and how one starts another.

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page_cache::File;
use highwater_core::vm::Mm;

use super::child::Child;
use super::{Disk, Tree};
use crate::stop::Stop;

/// User time of a program for each page of its own memory that it touches, nanoseconds. The study's
/// runs had 3,167 s of user time and 106.9 million minor faults (kernel before the change, attempts
/// without direct reclaim).
const USER_NS_PER_PAGE: u64 = 29_600;

/// A machine's services for programs besides memory and files: CPU time, and other processes.
pub trait Programs<H: Devices>: Clone + 'static {
    /// A started process.
    type Process<T: 'static>;

    /// The running process computes for this long, in user mode.
    fn compute(&self, cx: &Cx<'_, H>, ns: u64);

    /// Starts a process as a task of its own.
    fn start<T: 'static>(
        &self,
        name: &'static str,
        body: impl FnOnce(&Cx<'_, H>) -> T + 'static,
    ) -> Self::Process<T>;

    /// Waits until a process has ended. `None` if it left no result.
    fn wait<T: 'static>(&self, process: Self::Process<T>) -> Option<T>;
}

/// The things that all processes of a build share.
pub(super) struct Shop<H: Devices, P> {
    pub(super) kernel: Rc<Kernel<H>>,
    pub(super) tree: Rc<Tree<H>>,
    /// The program text of `cc1`.
    pub(super) tools: Arc<File<H>>,
    pub(super) disk: Rc<Disk<H>>,
    pub(super) programs: P,
    /// Kills them.
    pub(super) stop: Rc<Stop>,
    /// Divisor of CPU times.
    pub(super) compression: f64,
}

impl<H: Devices + 'static, P: Programs<H>> Shop<H, P> {
    /// A process forks; the child runs another program. `at_end` runs when the child ends, also if
    /// it could not start the program.
    ///
    /// # Errors
    /// If there is no memory for the child.
    pub(super) fn start<T: 'static>(
        self: &Rc<Self>,
        cx: &Cx<'_, H>,
        parent: &Mm<H>,
        name: &'static str,
        body: impl FnOnce(&Rc<Self>, &Cx<'_, H>, &Child<'_, H>) -> Result<T, Error> + 'static,
        at_end: impl FnOnce(&Self, &Cx<'_, H>) + 'static,
    ) -> Result<P::Process<Result<T, Error>>, Error> {
        let mm = self.kernel.fork(cx, parent)?;
        let shop = Rc::clone(self);
        Ok(self.programs.start(name, move |cx| {
            shop.stop.enlist(cx);
            let child = Child::exec(&shop.kernel, cx, &mm);
            let ended = child.and_then(|child| body(&shop, cx, &child));
            at_end(&shop, cx);
            // A call that a signal ended fails like one without memory.
            ended.map_err(|error| if cx.is_dying() { Error::Killed } else { error })
        }))
    }

    /// Waits for a process, and for what it made.
    ///
    /// # Errors
    /// The process's, or [`Error::Killed`] if it left no result.
    pub(super) fn wait<T: 'static>(
        &self,
        process: P::Process<Result<T, Error>>,
    ) -> Result<T, Error> {
        self.programs.wait(process).unwrap_or(Err(Error::Killed))
    }

    /// A process starts another one and waits for it.
    ///
    /// # Errors
    /// As [`Shop::start`] and [`Shop::wait`].
    pub(super) fn call<T: 'static>(
        self: &Rc<Self>,
        cx: &Cx<'_, H>,
        parent: &Mm<H>,
        name: &'static str,
        body: impl FnOnce(&Rc<Self>, &Cx<'_, H>, &Child<'_, H>) -> Result<T, Error> + 'static,
    ) -> Result<T, Error> {
        let process = self.start(cx, parent, name, body, |_, _| ())?;
        self.wait(process)
    }

    /// A program works on some pages that it has touched.
    ///
    /// # Errors
    /// [`Error::Killed`] if it was told to end.
    pub(super) fn work(&self, cx: &Cx<'_, H>, pages: u32) -> Result<(), Error> {
        let ns = u64::from(pages) * USER_NS_PER_PAGE;
        self.programs.compute(cx, (ns as f64 / self.compression) as u64);
        if cx.is_dying() { Err(Error::Killed) } else { Ok(()) }
    }
}
