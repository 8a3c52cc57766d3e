//! A worker: a process in a group that does one operation after the other.
//!
//! A worker is forked by the main program and moves itself into its group, so what the fork took is
//! charged to the root. Its memory of its own is in one VMA that it inherits:
//!
//! | pages | used |
//! |---|---|
//! | 0 | stack and data: written once it is in its group |
//! | 1 to 17 | the buffer of `rd`, 64 KiB and a header: from the first read on |
//! | 18 to 273 | the buffer of `wr` and `wr4`, 1 MiB: from the first write on |

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{CpuId, Cx, Host};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::net::{Connection, End};
use highwater_core::page::PAGE_SIZE;
use highwater_core::syscall::MemoryAdvice;
use highwater_core::units::GroupId;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_results::import::linux61::Work;
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::SimKernel;
use highwater_workloads::xorshift::Xorshift;

use super::SLEEP_MS;
use super::desk::{Desk, Order, Outcome, Pace};
use super::files::World;

const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes of a read() and of a pwrite().
const READ_BYTES: u64 = 64 << 10;
const WRITE_BYTES: u64 = 1 << 20;
/// State of the random numbers of each operation that draws some.
const RANDOM_SEED: u64 = 88_172_645_463_325_252;

/// The inherited VMA: see the module's table.
const READ_BUFFER: (u32, u32) = (1, 17);
const WRITE_BUFFER: (u32, u32) = (18, 256);
pub(super) const OWN_PAGES: u32 = WRITE_BUFFER.0 + WRITE_BUFFER.1;

/// Everything that a worker is started with.
pub(super) struct Start {
    pub(super) name: String,
    pub(super) cpu: CpuId,
    pub(super) mm: Arc<Mm<SimHost>>,
    /// First page of the inherited VMA.
    pub(super) own: u32,
    pub(super) group: GroupId,
    pub(super) desk: Rc<Desk>,
    pub(super) world: Rc<World>,
    pub(super) machine: SimKernel,
}

impl Start {
    /// Starts the task.
    pub(super) fn spawn(self) {
        let (machine, name) = (self.machine.clone(), self.name.clone());
        machine.spawn_task(name, Placement::Pinned(self.cpu), move |cx, kernel| {
            let (mm, desk) = (Arc::clone(&self.mm), Rc::clone(&self.desk));
            mm.add_task(cx);
            let (maps, group) = (BTreeMap::new(), self.group);
            let (reads, writes) = (false, false);
            let sockets = Vec::new();
            let pace = Pace::default();
            let mut worker =
                Worker { start: self, kernel, cx, group, maps, sockets, reads, writes, pace };
            let outcome = worker.live();
            for socket in &worker.sockets {
                kernel.tcp_close(cx, socket, End::Sender);
                kernel.tcp_close(cx, socket, End::Receiver);
            }
            kernel.exit_mm(cx, &mm);
            mm.remove_task(cx);
            desk.leave(cx, outcome);
        });
    }
}

struct Worker<'a, 'h> {
    start: Start,
    kernel: &'a Rc<Kernel<SimHost>>,
    cx: &'a Cx<'h, SimHost>,
    /// Its group now.
    group: GroupId,
    /// First page and number of pages.
    maps: BTreeMap<String, (u32, u32)>,
    /// Connections of which it has both ends.
    sockets: Vec<Arc<Connection<SimHost>>>,
    /// It has its buffers.
    reads: bool,
    writes: bool,
    /// Of the operation.
    pace: Pace,
}

impl Worker<'_, '_> {
    /// Does what it is told to its end; the outcome of the last operation, if one waits for it.
    fn live(&mut self) -> Option<Outcome> {
        let killed = || Some(Outcome { is_killed: true, ..Outcome::default() });
        let begun = self.join(self.group).and_then(|()| self.own(0, 1, Access::Write));
        if begun == Err(Error::Killed) {
            return killed();
        }
        self.start.desk.finish(self.cx, Outcome { failed: begun.err(), ..Outcome::default() });
        loop {
            let order = self.start.desk.take(self.cx)?;
            let mut outcome = Outcome::default();
            let done = match order {
                Order::Work { work: Work::Exit, .. } => return Some(outcome),
                Order::End => return None,
                Order::Join(group) => self.join(group),
                Order::Work { work, took_ns } => {
                    let has_limit = matches!(work, Work::Touch { limit_ms: Some(_), .. });
                    self.pace = Pace::begin(self.cx, took_ns.filter(|_| !has_limit));
                    let done = self.work(&work, &mut outcome);
                    done.inspect(|()| self.pace.keep(self.cx, 1, 1))
                }
            };
            if self.cx.is_dying() || done == Err(Error::Killed) {
                return Some(Outcome { is_killed: true, ..outcome });
            }
            outcome.failed = done.err();
            self.start.desk.finish(self.cx, outcome);
        }
    }

    fn join(&mut self, group: GroupId) -> Result<(), Error> {
        self.group = group;
        self.kernel.join_group(self.cx, Some(&self.start.mm), group)
    }

    /// Uses pages of its own.
    fn own(&self, first: u32, pages: u32, access: Access) -> Result<(), Error> {
        let (cx, mm) = (self.cx, &self.start.mm);
        self.kernel.touch_range(cx, mm, self.start.own + first, pages, access).map(|_| ())
    }

    fn map(&self, name: &str) -> Result<(u32, u32), Error> {
        self.maps.get(name).copied().ok_or(Error::Fault)
    }

    fn work(&mut self, work: &Work, outcome: &mut Outcome) -> Result<(), Error> {
        let (kernel, cx, pace) = (self.kernel, self.cx, self.pace);
        let mm = Arc::clone(&self.start.mm);
        let world = Rc::clone(&self.start.world);
        match work {
            Work::Map { map, pages } => {
                let flags = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::NOHUGEPAGE;
                let start = kernel.mmap(cx, &mm, *pages, 1, flags, Backing::Anon)?;
                self.maps.insert(map.clone(), (start, *pages));
                outcome.done = u64::from(*pages);
            }
            Work::Touch { map, from, to, limit_ms } => {
                let (start, pages) = self.map(map)?;
                let pages = *from..to.unwrap_or(pages).min(pages);
                self.touch(start, pages, *limit_ms, outcome)?;
            }
            Work::Load(map) => {
                let (start, pages) = self.map(map)?;
                for vpn in start..start + pages {
                    kernel.touch(cx, &mm, vpn, Access::Read)?;
                    outcome.done += 1;
                    pace.keep(cx, outcome.done, u64::from(pages));
                }
            }
            Work::TouchRandom { map, times } => {
                let (start, pages) = self.map(map)?;
                let mut random = Xorshift::new(RANDOM_SEED);
                for _ in 0..*times {
                    let page = random.below(u64::from(pages).max(1)) as u32;
                    kernel.touch(cx, &mm, start + page, Access::Write)?;
                    outcome.done += 1;
                    pace.keep(cx, outcome.done, *times);
                }
            }
            Work::Free { map, from, to } => {
                let (start, _) = self.map(map)?;
                let pages = to.saturating_sub(*from);
                kernel.madvise(cx, &mm, start + from, pages, MemoryAdvice::DontNeed)?;
            }
            Work::Unmap(map) => {
                let (start, pages) = self.map(map)?;
                self.maps.remove(map);
                kernel.munmap(cx, &mm, start, pages)?;
            }
            Work::Read { file, pages, times } => self.read(file, *pages, *times, outcome)?,
            Work::Write { file, pages } => {
                self.begin_writing()?;
                let open = kernel.open(cx, &world.file(file)?);
                let end = u64::from(*pages) * PAGE;
                for at in (0..end).step_by(WRITE_BYTES as usize) {
                    self.write(&open, at, WRITE_BYTES.min(end - at), outcome)?;
                    pace.keep(cx, outcome.done * 1024, end);
                }
            }
            Work::WriteRandom { file, pages, times } => {
                self.begin_writing()?;
                let open = kernel.open(cx, &world.file(file)?);
                let mut random = Xorshift::new(RANDOM_SEED);
                for _ in 0..*times {
                    let page = random.below(u64::from(*pages).max(1));
                    self.write(&open, page * PAGE, PAGE, outcome)?;
                    pace.keep(cx, outcome.done * 1024, times * PAGE);
                }
            }
            Work::Fsync(file) => kernel.fsync(cx, &kernel.open(cx, &world.file(file)?))?,
            Work::MapFile { file, pages } => {
                let backing = Backing::File { open: kernel.open(cx, &world.file(file)?), page: 0 };
                let flags = VmaFlags::READ | VmaFlags::SHARED;
                let start = kernel.mmap(cx, &mm, *pages, 1, flags, backing)?;
                for vpn in start..start + pages {
                    kernel.touch(cx, &mm, vpn, Access::Read)?;
                    outcome.done += 1;
                    pace.keep(cx, outcome.done, u64::from(*pages));
                }
                kernel.munmap(cx, &mm, start, *pages)?;
            }
            Work::MakeDirectory { directory, files } => {
                outcome.done = world.make_directory(kernel, cx, directory, *files, pace)?;
            }
            Work::Stat { directory, files } => {
                outcome.done = world.stat(kernel, cx, directory, *files, pace)?;
            }
            Work::Fork(children) => {
                for _ in 0..*children {
                    self.fork()?;
                    outcome.done += 1;
                    pace.keep(cx, outcome.done, *children);
                }
            }
            Work::Tcp { kib } => {
                let socket = kernel.tcp_connect(cx);
                kernel.tcp_accept(cx, &socket);
                self.sockets.push(Arc::clone(&socket));
                outcome.done = kernel.tcp_send(cx, &socket, kib * 1024)? / 1024;
            }
            // Not modelled: the program ends before them. `live` handles the end.
            Work::Negative { .. } | Work::Exit => {}
        }
        Ok(())
    }

    fn touch(
        &self,
        start: u32,
        pages: std::ops::Range<u32>,
        limit_ms: Option<u64>,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let (cx, mm) = (self.cx, &self.start.mm);
        let begin_ns = cx.host.now_ns();
        let mut now_ns = begin_ns;
        let total = pages.len() as u64;
        for page in pages {
            self.kernel.touch(cx, mm, start + page, Access::Write)?;
            outcome.done += 1;
            self.pace.keep(cx, outcome.done, total);
            let Some(limit_ms) = limit_ms else { continue };
            let before_ns = std::mem::replace(&mut now_ns, cx.host.now_ns());
            let took_ns = now_ns - before_ns;
            let took_ms = took_ns as f64 / 1e6;
            if took_ms >= SLEEP_MS {
                outcome.slept_ms += took_ms;
            }
            if now_ns - begin_ns >= limit_ms * 1_000_000 {
                break;
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        file: &str,
        pages: u32,
        times: u64,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let (kernel, cx) = (self.kernel, self.cx);
        let open = kernel.open(cx, &self.start.world.file(file)?);
        if !std::mem::replace(&mut self.reads, true) {
            self.own(READ_BUFFER.0, READ_BUFFER.1, Access::Write)?;
        }
        let end = (u64::from(pages) * PAGE).min(open.file.size());
        for _ in 0..times {
            for at in (0..end).step_by(READ_BYTES as usize) {
                let bytes = kernel.file_read(cx, &open, at, READ_BYTES.min(end - at))?;
                // The kernel copies to the buffer.
                self.own(READ_BUFFER.0, READ_BUFFER.1 - 1, Access::Write)?;
                outcome.done += bytes / 1024;
                self.pace.keep(cx, outcome.done * 1024, end * times);
                if cx.is_dying() {
                    return Err(Error::Killed);
                }
            }
        }
        Ok(())
    }

    /// Fills the buffer that it writes from.
    fn begin_writing(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.writes, true) {
            true => Ok(()),
            false => self.own(WRITE_BUFFER.0, WRITE_BUFFER.1, Access::Write),
        }
    }

    fn write(
        &self,
        open: &highwater_core::page_cache::OpenFile<SimHost>,
        at: u64,
        bytes: u64,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        self.own(WRITE_BUFFER.0, bytes.div_ceil(PAGE) as u32, Access::Read)?;
        let mut done = 0;
        while done < bytes {
            let n = self.kernel.file_write(self.cx, open, at + done, bytes - done)?;
            if n == 0 {
                break;
            }
            done += n;
        }
        outcome.done += done / 1024;
        Ok(())
    }

    /// A child that only waits for its parent's end. It writes to its stack.
    fn fork(&self) -> Result<(), Error> {
        let mm = self.kernel.fork(self.cx, &self.start.mm)?;
        let (own, group, desk) = (self.start.own, self.group, Rc::clone(&self.start.desk));
        let (name, cpu) = (format!("{}-child", self.start.name), self.start.cpu);
        self.start.machine.spawn_task(name, Placement::Pinned(cpu), move |cx, kernel| {
            mm.add_task(cx);
            let joined = kernel.join_group(cx, Some(&mm), group);
            if joined.is_ok() && kernel.touch(cx, &mm, own, Access::Write).is_ok() {
                desk.wait_for_end(cx);
            }
            kernel.exit_mm(cx, &mm);
            mm.remove_task(cx);
        });
        Ok(())
    }
}
