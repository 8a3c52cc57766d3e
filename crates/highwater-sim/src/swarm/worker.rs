//! A program of a swarm: one random operation after the other.

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::host::{Cx, Host, IoError, TaskFlags};
use highwater_core::kernel::Error;
use highwater_core::page::{Order, Pfn};
use highwater_core::page_cache::OpenFile;

use super::draw::Draw;
use super::mix::{Mix, Op};
use super::shared::{Enlisted, Group, Region, Shared, count};
use super::sockets::Ends;
use crate::engine::Placement;
use crate::host::SimHost;
use crate::machine::SimKernel;
use crate::rng::Stream;

/// Operations of a task in the liveness phase.
const LAST_OPS: u32 = 6;
/// In the liveness phase an operation is of at most one part in so many of the usual size.
const LAST_PART: u64 = 4;

/// One turn in so many changes something about memory cgroups, if there are any.
const GROUPS_RARITY: u64 = 8;

/// One turn in so many does something with a connection, in runs with sockets.
const SOCKETS_RARITY: u64 = 6;

/// The address space in which a task begins.
pub(super) enum Start {
    /// A new address space.
    Own,
    /// An existing one, which already counts the task as a user.
    Shared(Rc<Group>),
}

/// Starts the next task of a run, unless the maximum is reached.
pub(super) fn spawn(shared: &Rc<Shared>, start: Start) -> bool {
    if shared.nr_started.get() >= shared.options.nr_tasks_max {
        return false;
    }
    spawn_beyond(shared, start);
    true
}

/// As [`spawn`], whatever the maximum.
pub(super) fn spawn_beyond(shared: &Rc<Shared>, start: Start) {
    let index = shared.nr_started.get();
    count(&shared.nr_started);
    count(&shared.nr_alive);
    let mut stream = Stream::indexed(shared.options.seed, "swarm/task", index);
    let placement = placement(&mut stream, shared);
    let machine: &SimKernel = &shared.machine;
    let shared = Rc::clone(shared);
    machine.spawn_task(format!("task {index}"), placement, move |cx, kernel| {
        let me = Enlisted {
            id: cx.host.sim().current().expect("a task"),
            signals: Arc::clone(cx.signals()),
        };
        shared.tasks.borrow_mut().push(me.clone());
        live(cx, kernel, &shared, start, (index, stream));
        shared.tasks.borrow_mut().retain(|task| task.id != me.id);
        shared.nr_alive.set(shared.nr_alive.get() - 1);
    });
}

fn placement(stream: &mut Stream, shared: &Shared) -> Placement {
    let machine = &shared.options.machine;
    match stream.below(3) {
        0 if shared.options.is_pinned => {
            let cpu = stream.below(machine.nr_cpus() as u64) as u16;
            Placement::Pinned(highwater_core::host::CpuId(cpu))
        }
        1 if shared.options.is_pinned => {
            Placement::Node(stream.below(machine.nodes.len() as u64) as u16)
        }
        _ => Placement::Anywhere,
    }
}

fn live(
    cx: &Cx<'_, SimHost>,
    kernel: &Kernel<SimHost>,
    shared: &Rc<Shared>,
    start: Start,
    (index, mut stream): (u64, Stream),
) {
    if shared.options.has_mems_allowed && stream.one_in(2) {
        cx.set_mems_allowed(shared.options.draw_mems_allowed(&mut stream));
    }
    if stream.one_in(20) {
        cx.set_flags(TaskFlags::REALTIME);
    }
    let mix = shared.options.mix.of_task(&mut stream);
    let groups = Stream::indexed(shared.options.seed, "swarm/groups", stream.below(u64::MAX));
    let sockets = Stream::indexed(shared.options.seed, "swarm/sockets", index);
    let group = match start {
        Start::Own => match kernel.create_mm(cx) {
            Ok(mm) => Group::new(mm),
            Err(_) => return count(&shared.tally.nr_refused),
        },
        Start::Shared(group) => group,
    };
    group.mm.add_task(cx);
    // A forked task begins in its parent's group, which may be gone by now.
    let of_parent = group.mm.group();
    if !of_parent.is_root() {
        let _ = kernel.join_group(cx, None, of_parent);
    }
    let (shared, open) = (Rc::clone(shared), Vec::new());
    let mut worker = Worker {
        cx,
        kernel,
        shared,
        stream,
        groups,
        sockets,
        ends: Ends::default(),
        mix,
        group,
        open,
        blocks: Vec::new(),
        is_done: false,
    };
    worker.stream.one_in(2).then(|| worker.pause());
    while !worker.is_done && !cx.is_dying() && !worker.shared.is_live() {
        // Out of work, all stop at the gate; behind it is the liveness phase.
        if worker.is_over() {
            worker.shared.gate.is_closed.set(true);
        }
        worker.shared.pass_gate(cx);
        if !worker.shared.is_live() {
            worker.turn();
        }
    }
    if worker.shared.is_live() {
        worker.finish();
    }
    worker.close_sockets();
    worker.leave_mm();
    kernel.exit_task(cx);
    for (pfn, order) in std::mem::take(&mut worker.blocks) {
        worker.give(pfn, order);
    }
}

pub(super) struct Worker<'a, 'h> {
    pub(super) cx: &'a Cx<'h, SimHost>,
    pub(super) kernel: &'a Kernel<SimHost>,
    pub(super) shared: Rc<Shared>,
    pub(super) stream: Stream,
    /// Draws its operations on memory cgroups.
    pub(super) groups: Stream,
    /// Draws its operations on connections.
    pub(super) sockets: Stream,
    pub(super) ends: Ends,
    mix: Mix,
    pub(super) group: Rc<Group>,
    /// Open files.
    pub(super) open: Vec<Arc<OpenFile<SimHost>>>,
    /// Blocks taken straight from the allocator.
    pub(super) blocks: Vec<(Pfn, Order)>,
    is_done: bool,
}

impl Worker<'_, '_> {
    /// The liveness phase of a task: a few more operations, each to its end.
    fn finish(&mut self) {
        self.is_done = false;
        for _ in 0..LAST_OPS {
            if self.cx.is_dying() {
                return count(&self.shared.tally.nr_cut_short);
            }
            self.turn();
        }
        count(&self.shared.tally.nr_finished);
    }

    fn turn(&mut self) {
        if self.shared.options.nr_groups != 0 && self.groups.one_in(GROUPS_RARITY) {
            self.change_groups();
        }
        if self.shared.options.has_sockets && self.sockets.one_in(SOCKETS_RARITY) {
            self.use_sockets();
        }
        let op = match self.mix.choose(&mut self.stream) {
            // Tasks end when they have done all.
            Op::Kill | Op::Exit if self.shared.is_live() => Op::Compute,
            op => op,
        };
        self.shared.spend(10);
        let tally = &self.shared.tally;
        count(&tally.nr_ops);
        self.cx.host.op_begin();
        let result = self.act(op);
        self.cx.host.op_end(op.name());
        match result {
            Ok(()) | Err(Error::Fault | Error::Invalid) => {}
            Err(Error::NoMemory) => count(&self.shared.tally.nr_no_memory),
            Err(Error::Killed) => {
                assert!(self.cx.is_dying(), "{op:?} said so to a task that is not to die");
                count(&self.shared.tally.nr_killed);
            }
            Err(Error::Io(IoError::NoSpace)) if matches!(op, Op::WriteRun | Op::WriteRandom) => {}
            // Without faults, fsync may still report a write that failed before, and a page that
            // could not be read from swap stays unread until it is reclaimed.
            Err(Error::Io(IoError::Device))
                if self.shared.options.has_errors()
                    && (!self.shared.is_live()
                        || op == Op::Fsync
                        || self.shared.has_failed_swapins.get()) =>
            {
                count(&self.shared.tally.nr_io_errors);
            }
            Err(error) => panic!("{op:?}: {error}"),
        }
    }

    fn act(&mut self, op: Op) -> Result<(), Error> {
        match op {
            Op::MapAnon => self.map_anon(),
            Op::MapFile => self.map_file(),
            Op::TouchRun => self.touch_run(),
            Op::TouchRandom => self.touch_random(),
            Op::TouchHot => self.touch_hot(),
            Op::UnmapPart => self.unmap_part(),
            Op::UnmapAll => self.unmap_all(),
            Op::Advise => self.advise(),
            Op::Lock => self.lock(),
            Op::Unlock => self.unlock(),
            Op::Place => self.place(),
            Op::ReadRun => self.read_run(),
            Op::ReadRandom => self.read_random(),
            Op::WriteRun => self.write_run(),
            Op::WriteRandom => self.write_random(),
            Op::Fsync => self.fsync(),
            Op::FileAdvise => self.file_advise(),
            Op::Truncate => self.truncate(),
            Op::Delete => self.delete(),
            Op::DropCaches => {
                self.shared.spend(50);
                let what = self.stream.range(1, 4) as u8;
                self.kernel.drop_caches(self.cx, what);
                Ok(())
            }
            Op::Compact => {
                self.shared.spend(100);
                match self.stream.one_in(3) {
                    true => {
                        let percent = self.stream.below(101);
                        self.kernel.set_compaction_proactiveness(self.cx, percent);
                    }
                    false => self.kernel.compact_memory(self.cx),
                }
                Ok(())
            }
            Op::Sync => {
                self.shared.spend(50);
                self.kernel.sync_all(self.cx);
                Ok(())
            }
            Op::Sleep => {
                self.pause();
                Ok(())
            }
            Op::Compute => {
                let ns = self.stream.magnitude(1000, 10_000_000);
                self.cx.host.sim().compute(ns);
                Ok(())
            }
            Op::NewMm => self.new_mm(),
            Op::Spawn => self.start_another(),
            Op::Kill => {
                let victim = self.anybody();
                victim.signals.raise(TaskFlags::FATAL_SIGNAL);
                self.cx.host.sim().unpark(victim.id);
                Ok(())
            }
            Op::Wake => {
                let task = self.anybody();
                self.cx.host.sim().unpark(task.id);
                Ok(())
            }
            Op::TakeBlock => {
                self.take_block();
                Ok(())
            }
            Op::GiveBlock => {
                if !self.blocks.is_empty() {
                    let at = self.stream.below(self.blocks.len() as u64) as usize;
                    let (pfn, order) = self.blocks.swap_remove(at);
                    self.give(pfn, order);
                }
                Ok(())
            }
            Op::Fork => self.fork(),
            Op::Exec => self.exec(),
            Op::SmallFiles => self.small_files(),
            Op::DeleteSmall => {
                self.delete_small();
                Ok(())
            }
            Op::Exit => {
                self.is_done = self.stream.one_in(5);
                Ok(())
            }
        }
    }

    /// Number of pages for an operation, at most `most`.
    pub(super) fn amount(&mut self, most: u64) -> u64 {
        let reach = self.shared.options.reach;
        let reach = if self.shared.is_live() { reach / LAST_PART } else { reach };
        let most = most.min(reach).max(1);
        let pages = match self.stream.below(3) {
            0 => most,
            _ => self.stream.magnitude(1, most),
        };
        self.shared.spend(pages / 16);
        pages
    }

    /// True once the work is done: long operations end early. Never in the liveness phase, where
    /// every operation has to come to its end.
    pub(super) fn is_over(&self) -> bool {
        !self.shared.is_live() && self.shared.work_left() == 0
    }

    fn pause(&mut self) {
        let ns = self.stream.magnitude(1000, 2_000_000_000);
        self.cx.host.sim().sleep_ns(ns);
    }

    /// A region of the address space; one is mapped if there is none.
    pub(super) fn region(&mut self) -> Result<Region, Error> {
        if self.group.regions.borrow().is_empty() {
            if self.stream.one_in(3) {
                self.map_file()?
            } else {
                self.map_anon()?
            };
        }
        let regions = self.group.regions.borrow();
        // Another task may have unmapped it meanwhile.
        if regions.is_empty() { Err(Error::Fault) } else { Ok(self.stream.pick(&regions)) }
    }

    fn new_mm(&mut self) -> Result<(), Error> {
        let mm = self.kernel.create_mm(self.cx)?;
        self.leave_mm();
        mm.add_task(self.cx);
        self.group = Group::new(mm);
        Ok(())
    }

    /// Leaves the address space; the last task to leave unmaps everything.
    fn leave_mm(&mut self) {
        let group = &self.group;
        group.nr_users.set(group.nr_users.get() - 1);
        if group.nr_users.get() == 0 {
            self.kernel.exit_mm(self.cx, &group.mm);
        }
        group.mm.remove_task(self.cx);
    }

    fn start_another(&mut self) -> Result<(), Error> {
        if self.stream.one_in(2) {
            spawn(&self.shared, Start::Own);
        } else {
            count(&self.group.nr_users);
            if !spawn(&self.shared, Start::Shared(Rc::clone(&self.group))) {
                self.group.nr_users.set(self.group.nr_users.get() - 1);
            }
        }
        Ok(())
    }

    fn fork(&mut self) -> Result<(), Error> {
        self.shared.spend(20);
        let group = Rc::clone(&self.group);
        let child = Group::fork_of(&group, self.kernel.fork(self.cx, &group.mm)?);
        let mm = Arc::clone(&child.mm);
        if !spawn(&self.shared, Start::Shared(child)) {
            self.kernel.exit_mm(self.cx, &mm);
        }
        Ok(())
    }

    /// exec; not while other tasks run in the address space.
    fn exec(&mut self) -> Result<(), Error> {
        if self.group.nr_users.get() == 1 {
            let mm = self.kernel.exec(self.cx, &self.group.mm)?;
            self.group = Group::new(mm);
        }
        Ok(())
    }

    /// A random task, possibly this one.
    fn anybody(&mut self) -> Enlisted {
        self.stream.pick(&self.shared.tasks.borrow())
    }
}
