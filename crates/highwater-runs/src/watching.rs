//! Watches a simulated run while it goes on: the state of memory and tasks at regular times.
//!
//! ```text
//! thread of the simulation                        thread of the observer
//! engine: every so much virtual time ──▶ Watcher ──▶ frame()
//!         waits as long as the pace says ◀── pace ◀── set_pace(), step()
//!         puts settings in force ◀───────── write ◀── write()
//! ```
//!
//! Key types: [`Watcher`] (accompanies a unit of work), [`Frame`] (one look), [`Pace`]. Watching
//! does not affect virtual time: a run that is watched, slowed down or paused has the same results.
//! A written sysctl or limit of a group is in force from the look on at which it was written, so
//! runs with the same writes at the same looks have the same results, too.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use highwater_core::config::{KernelVersion, MachineError, Tunables};
use highwater_core::kernel::Kernel;
use highwater_core::memcg::GroupLimits;
use highwater_core::page::{MAX_ORDER, Order};
use highwater_core::page_alloc::PageAllocator;
use highwater_core::reclaim::GroupSetting;
use highwater_core::units::GroupId;
use highwater_core::zone::Mark;
use highwater_sim::engine::{Look, Sim};
use highwater_sim::host::SimHost;
use highwater_sim::ledger::NodeKey;
use highwater_sim::pressure::{Reading, SINCE};

use crate::names::place;
use crate::outcome::counters_of;
use crate::sampling::See;

/// One look at a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Virtual time since boot.
    pub at_ns: u64,
    /// Zones with memory.
    pub zones: Vec<ZoneView>,
    /// Counters, by the names of `/proc/vmstat`.
    pub counters: BTreeMap<&'static str, u64>,
    /// Tasks that have not ended.
    pub tasks: Vec<TaskLine>,
    /// The kernel that runs.
    pub kernel: KernelVersion,
    /// The figures of `/proc/pressure`. `None`: the kernel has no such files.
    pub pressure: Option<Reading>,
    /// The sysctls in force.
    pub sysctls: Tunables,
    /// Memory cgroups that were made and not removed, without the root.
    pub groups: Vec<GroupView>,
}

/// A memory cgroup with those below it, in pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupView {
    /// Its name in the job.
    pub name: String,
    /// `memory.current`.
    pub current: u64,
    /// `memory.swap.current`.
    pub swap: u64,
    /// Its settings. In version 1 `max` is `memory.limit_in_bytes`, and the others say nothing.
    pub limits: GroupLimits,
    /// Its pressure files. `None`: the kernel has no such files.
    pub pressure: Option<Reading>,
}

/// Settings that an observer writes to a running kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writes {
    /// All sysctls as they shall be. `None`: they stay.
    pub sysctls: Option<Tunables>,
    /// Settings of groups by the groups' names. They reclaim nothing by themselves: the next
    /// charges of the group meet the limit.
    pub groups: Vec<(String, GroupSetting)>,
}

/// A write that the kernel refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WriteRefused {
    /// Of a sysctl.
    #[error(transparent)]
    Sysctl(MachineError),
    /// Of a group.
    #[error("group {name}: {reason}")]
    Group {
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// A zone's memory, in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneView {
    /// `node 0 Normal`.
    pub name: String,
    /// Pages that the allocator has.
    pub managed: u64,
    /// Free pages.
    pub free: u64,
    /// Watermarks: min, low, high.
    pub marks: [u64; 3],
    /// Free blocks, by order.
    pub blocks: Vec<u64>,
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLine {
    /// Its name.
    pub name: String,
    /// A kernel thread or a device.
    pub is_daemon: bool,
    /// The CPU that it has.
    pub cpu: Option<u16>,
    /// Its current phases, named as in `explain`; the last one is what it waits for.
    pub doing: String,
    /// It waits for something to do: a daemon at rest.
    pub is_idle: bool,
}

/// How fast virtual time may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it can.
    #[default]
    Free,
    /// So long at least from one look to the next.
    Every(Duration),
    /// Not at all, but for steps.
    Paused,
}

#[derive(Debug, Default)]
struct Shared {
    frame: Option<Arc<Frame>>,
    nr_frames: u64,
    pace: Pace,
    nr_steps: u64,
    /// The run stops for good once it has got here.
    hold_at_ns: Option<u64>,
    /// Settings that the observer wants, and what came of the last ones.
    wanted: Option<Writes>,
    written: Option<Result<(), WriteRefused>>,
}

/// Accompanies a unit of work and publishes its state.
#[derive(Clone, Debug)]
pub struct Watcher {
    every_ns: u64,
    shared: Arc<(Mutex<Shared>, Condvar)>,
}

impl Watcher {
    /// One look each time so much virtual time has passed.
    pub fn new(every_ns: u64) -> Watcher {
        Watcher { every_ns: every_ns.max(1), shared: Arc::default() }
    }

    /// Virtual time from one look to the next.
    pub const fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// The latest look, and the number of looks so far.
    pub fn frame(&self) -> (Option<Arc<Frame>>, u64) {
        let shared = self.lock();
        (shared.frame.clone(), shared.nr_frames)
    }

    /// Waits for the first look at or after this time; `None` if the run is over by then.
    pub fn frame_at(&self, at_ns: u64, is_over: impl Fn() -> bool) -> Option<Arc<Frame>> {
        let mut shared = self.lock();
        shared.hold_at_ns = Some(at_ns);
        // It may be held by an earlier time.
        self.shared.1.notify_all();
        loop {
            if let Some(frame) = shared.frame.as_ref().filter(|frame| frame.at_ns >= at_ns) {
                return Some(Arc::clone(frame));
            }
            if is_over() {
                return None;
            }
            let wait = self.shared.1.wait_timeout(shared, Duration::from_millis(20));
            shared = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for a look after the first `nr`, and returns it with the number of looks by then; `None`
    /// if the run is over before it.
    pub fn frame_after(&self, nr: u64, is_over: impl Fn() -> bool) -> Option<(Arc<Frame>, u64)> {
        let mut shared = self.lock();
        loop {
            // Asked first: a run publishes its last look, and then is over.
            let is_last = is_over();
            if let Some(frame) = shared.frame.as_ref().filter(|_| shared.nr_frames > nr) {
                return Some((Arc::clone(frame), shared.nr_frames));
            }
            if is_last {
                return None;
            }
            let wait = self.shared.1.wait_timeout(shared, Duration::from_millis(20));
            shared = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The present pace.
    pub fn pace(&self) -> Pace {
        self.lock().pace
    }

    /// Sets the pace from now on.
    pub fn set_pace(&self, pace: Pace) {
        self.lock().pace = pace;
        self.shared.1.notify_all();
    }

    /// Goes on to the next look, and stops there.
    pub fn step(&self) {
        let mut shared = self.lock();
        shared.pace = Pace::Paused;
        shared.nr_steps += 1;
        drop(shared);
        self.shared.1.notify_all();
    }

    /// Puts settings in force, at the look at which the run stands, or if it does not stand, at its
    /// next look. Returns when that is done; `None` if the run is over by then.
    ///
    /// # Errors
    /// A setting that the kernel refuses. Nothing changes then.
    pub fn write(
        &self,
        wanted: Writes,
        is_over: impl Fn() -> bool,
    ) -> Option<Result<(), WriteRefused>> {
        let mut shared = self.lock();
        shared.wanted = Some(wanted);
        self.shared.1.notify_all();
        loop {
            if let Some(written) = shared.written.take() {
                return Some(written);
            }
            if is_over() {
                shared.wanted = None;
                return None;
            }
            let wait = self.shared.1.wait_timeout(shared, Duration::from_millis(20));
            shared = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A frame is replaced as a whole, so it is valid even after a panic.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to look. `kernel` has the groups, where there is more than a page allocator.
    pub(crate) fn start(
        &self,
        sim: &Sim,
        look: impl Fn(&mut See<'_>) + 'static,
        kernel: Option<Weak<Kernel<SimHost>>>,
    ) {
        let me = self.clone();
        let mut seen_at = Instant::now();
        sim.sample_every(self.every_ns, move |at_ns, tasks| {
            let mut frame = None;
            look(&mut |memory| frame = Some(Frame::of(at_ns, memory, tasks)));
            if let Some(mut frame) = frame {
                let machine =
                    Running { look: &look, kernel: kernel.as_ref().and_then(Weak::upgrade), tasks };
                frame.groups = machine.groups(at_ns);
                me.show(frame, seen_at, &machine);
                seen_at = Instant::now();
            }
        });
    }

    /// Shows a frame, waits for as long as the pace says, and writes settings that are wanted by then.
    fn show(&self, frame: Frame, before: Instant, machine: &Running<'_>) {
        let mut shared = self.lock();
        let at_ns = frame.at_ns;
        shared.frame = Some(Arc::new(frame));
        shared.nr_frames += 1;
        self.shared.1.notify_all();
        loop {
            if let Some(wanted) = shared.wanted.take() {
                shared.written = Some(machine.write(&wanted));
                if let Some(frame) = &mut shared.frame {
                    let frame = Arc::make_mut(frame);
                    (machine.look)(&mut |memory| frame.sysctls = memory.tunables.now());
                    frame.groups = machine.groups(at_ns);
                }
                self.shared.1.notify_all();
            }
            let is_held = shared.hold_at_ns.is_some_and(|hold_ns| at_ns >= hold_ns);
            let left = match shared.pace {
                _ if is_held => None,
                Pace::Free => return,
                Pace::Every(least) => match least.checked_sub(before.elapsed()) {
                    None | Some(Duration::ZERO) => return,
                    left => left,
                },
                Pace::Paused if shared.nr_steps > 0 => {
                    shared.nr_steps -= 1;
                    return;
                }
                Pace::Paused => None,
            };
            let changed = &self.shared.1;
            shared = match left {
                Some(left) => {
                    changed.wait_timeout(shared, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => changed.wait(shared).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The machine at a look, which stands still.
struct Running<'a> {
    look: &'a dyn Fn(&mut See<'_>),
    kernel: Option<Rc<Kernel<SimHost>>>,
    tasks: &'a Look<'a>,
}

impl Running<'_> {
    fn online(&self) -> impl Iterator<Item = (GroupId, &Kernel<SimHost>)> {
        let kernel = self.kernel.as_deref().filter(|kernel| kernel.mem.groups.is_on());
        let all =
            kernel.into_iter().flat_map(|kernel| kernel.memcg.all().map(move |id| (id, kernel)));
        all.filter(|(group, kernel)| !group.is_root() && kernel.memcg.has_directory(*group))
    }

    fn name(&self, group: GroupId) -> String {
        self.tasks.group_names().of(group)
    }

    fn groups(&self, at_ns: u64) -> Vec<GroupView> {
        let view = |(group, kernel): (GroupId, &Kernel<SimHost>)| {
            let has_files = kernel.mem.policy.kernel >= SINCE;
            let pressure = || self.tasks.group_pressure(group, at_ns);
            GroupView {
                name: self.name(group),
                current: kernel.group_usage(group),
                swap: kernel.group_swap_usage(group),
                limits: kernel.group_limits(group),
                pressure: has_files.then(pressure).flatten(),
            }
        };
        self.online().map(view).collect()
    }

    /// Writes all, or nothing.
    fn write(&self, wanted: &Writes) -> Result<(), WriteRefused> {
        let mut groups = Vec::new();
        for (name, setting) in &wanted.groups {
            let refused = |reason: String| WriteRefused::Group { name: name.clone(), reason };
            let Some((group, kernel)) = self.online().find(|(id, _)| self.name(*id) == *name)
            else {
                let names: Vec<String> = self.online().map(|(group, _)| self.name(group)).collect();
                let there = match names.as_slice() {
                    [] => "there is no group".to_owned(),
                    names => format!("there are {}", names.join(", ")),
                };
                return Err(refused(format!("no such group now; {there}")));
            };
            if kernel.mem.groups.is_v1() || setting.is_of_v1() {
                let reason =
                    "settings of version 1 cannot change from outside, only by a phase of the job";
                return Err(refused(reason.to_owned()));
            }
            groups.push((kernel, group, *setting));
        }
        if let Some(sysctls) = &wanted.sysctls {
            let mut written = Ok(());
            (self.look)(&mut |memory| written = memory.write_sysctls(sysctls));
            written.map_err(WriteRefused::Sysctl)?;
        }
        for (kernel, group, setting) in groups {
            let written = kernel.set_group_without_reclaim(group, setting);
            debug_assert!(written.is_ok(), "an online group of version 2");
        }
        Ok(())
    }
}

impl Frame {
    fn of(at_ns: u64, memory: &PageAllocator<SimHost>, look: &Look<'_>) -> Frame {
        let mut counters = BTreeMap::new();
        counters_of(memory, |name, value| {
            counters.insert(name, value);
        });
        let zones = memory.populated_zones().map(|zone| ZoneView {
            name: format!("node {} {}", zone.node.0, zone.zone.name()),
            managed: zone.managed(),
            free: zone.nr_free_pages_exact(),
            marks: [Mark::Min, Mark::Low, Mark::High].map(|mark| zone.mark(mark)),
            blocks: (0..MAX_ORDER as u8)
                .map(|order| zone.nr_free_blocks(Order(order)) as u64)
                .collect(),
        });
        let tasks = look.tasks().into_iter().map(|task| {
            let waits = task.doing.last().filter(|_| task.cpu.is_none());
            let is_rest = matches!(waits, Some(NodeKey::Wait(_) | NodeKey::Sleep));
            TaskLine {
                name: task.name.to_string(),
                is_daemon: task.is_daemon,
                cpu: task.cpu.map(|cpu| cpu.0),
                is_idle: task.is_daemon && is_rest && task.doing.len() == 1,
                doing: match task.doing.is_empty() {
                    true if task.cpu.is_some() => "user".to_owned(),
                    true => task.waits_on,
                    false => place(&task.doing, look.group_names()),
                },
            }
        });
        let kernel = memory.policy.kernel;
        let has_files = kernel >= SINCE;
        let pressure = has_files.then(|| look.pressure(at_ns));
        let sysctls = memory.tunables.now();
        let (zones, tasks) = (zones.collect(), tasks.collect());
        Frame { at_ns, zones, counters, tasks, kernel, pressure, sysctls, groups: Vec::new() }
    }

    /// A counter; 0 if it does not exist.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Sum of the counters whose names have this prefix.
    pub fn sum(&self, beginning: &str) -> u64 {
        let all = self.counters.iter().filter(|(name, _)| name.starts_with(beginning));
        all.map(|(_, value)| value).sum()
    }
}
