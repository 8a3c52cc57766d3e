//! A pipe: what one process writes and another reads (rules/benchmarks#highalloc-pipe).

use std::collections::VecDeque;

use highwater_core::host::{Cost, Cx, Devices, Lock};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::{Order, PAGE_SIZE, Pfn};
use highwater_core::page_alloc::Gfp;
use highwater_core::sync::order::LockClass;

/// Buffers of a pipe, a page each: 64 KiB (`PIPE_DEF_BUFFERS`, since 2.6.35).
const BUFFERS: usize = 16;
/// Request flags of a buffer.
const BUFFER_GFP: Gfp = Gfp::GFP_KERNEL.union(Gfp::HIGHMEM);

struct State<T> {
    /// Pages that are written and not read yet, each full.
    buffers: VecDeque<Pfn>,
    /// The ends that wait.
    reader: Option<T>,
    writer: Option<T>,
    /// The ends that are closed.
    read_closed: bool,
    write_closed: bool,
}

/// A pipe with one reader and one writer. Each must close its end, which wakes the other.
pub(super) struct Pipe<H: Devices> {
    state: H::Lock<State<H::Task>>,
}

impl<H: Devices> Pipe<H> {
    /// An empty pipe.
    pub(super) fn new(host: &H) -> Pipe<H> {
        let state = State {
            buffers: VecDeque::new(),
            reader: None,
            writer: None,
            read_closed: false,
            write_closed: false,
        };
        Pipe { state: host.new_lock(LockClass::Workload, state) }
    }

    /// Writes a page, and waits while the pipe is full.
    ///
    /// # Errors
    /// [`Error::Killed`] if nobody reads any more (SIGPIPE) or the task is told to end; if there is
    /// no memory for a buffer.
    pub(super) fn write(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) -> Result<(), Error> {
        cx.host.charge(Cost::Syscall, 1);
        let node = kernel.mem.cpu_node(cx.cpu());
        let page = kernel.mem.alloc(cx, kernel, BUFFER_GFP, Order::ZERO, node, None);
        let page = page.ok_or(Error::NoMemory)?;
        cx.host.frame_write(page, 0, &[0; PAGE_SIZE]);
        loop {
            let mut state = self.state.lock(cx.cpu());
            if state.read_closed || cx.is_dying() {
                drop(state);
                free(kernel, cx, page);
                return Err(Error::Killed);
            }
            if state.buffers.len() < BUFFERS {
                state.buffers.push_back(page);
                let waiting = state.reader.take();
                drop(state);
                wake(cx, waiting);
                cx.host.user_point();
                return Ok(());
            }
            state.writer = Some(cx.host.current());
            drop(state);
            cx.host.park("room in the pipe");
        }
    }

    /// Reads all that is there, and waits for the first page. Returns the number of pages; 0 if
    /// nobody writes any more.
    ///
    /// # Errors
    /// [`Error::Killed`] if the task is told to end.
    pub(super) fn read(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) -> Result<u32, Error> {
        cx.host.charge(Cost::Syscall, 1);
        loop {
            if cx.is_dying() {
                return Err(Error::Killed);
            }
            let mut state = self.state.lock(cx.cpu());
            if state.buffers.is_empty() && !state.write_closed {
                state.reader = Some(cx.host.current());
                drop(state);
                cx.host.park("data in the pipe");
                continue;
            }
            let pages = std::mem::take(&mut state.buffers);
            let waiting = state.writer.take();
            drop(state);
            wake(cx, waiting);
            for &page in &pages {
                cx.host.frame_copy_out(page, 0, PAGE_SIZE);
                free(kernel, cx, page);
            }
            cx.host.user_point();
            return Ok(pages.len() as u32);
        }
    }

    /// The writer is done.
    pub(super) fn close_writer(&self, cx: &Cx<'_, H>) {
        let mut state = self.state.lock(cx.cpu());
        state.write_closed = true;
        let waiting = state.reader.take();
        drop(state);
        wake(cx, waiting);
    }

    /// The reader is done: what is in the pipe is lost.
    pub(super) fn close_reader(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        let mut state = self.state.lock(cx.cpu());
        state.read_closed = true;
        let pages = std::mem::take(&mut state.buffers);
        let waiting = state.writer.take();
        drop(state);
        wake(cx, waiting);
        pages.into_iter().for_each(|page| free(kernel, cx, page));
    }
}

fn wake<H: Devices>(cx: &Cx<'_, H>, waiting: Option<H::Task>) {
    if let Some(task) = waiting {
        cx.host.unpark(&task);
    }
}

fn free<H: Devices>(kernel: &Kernel<H>, cx: &Cx<'_, H>, page: Pfn) {
    let freed = kernel.mem.free(cx, page, Order::ZERO);
    debug_assert!(freed.is_ok(), "a buffer of the pipe: {freed:?}");
}
