//! The files of processes and kernel threads, `/proc/PID`.
//!
//! A process has the number that reports of the OOM killer give it. Figures that
//! the model does not count (page faults by process, the time of start) are 0 in `stat`, and left
//! out in `status` and `smaps_rollup`.

use std::collections::BTreeMap;

use highwater_core::page::PAGE_SIZE;
use highwater_core::units::GroupId;
use highwater_core::vm::Process;
use highwater_sim::engine::{RunState, TaskTimes, TaskView};
use highwater_sim::host::SimHost;

use super::machine::Seen;
use super::{Texts, line};

const PAGE: u64 = PAGE_SIZE as u64;
const KIB_PER_PAGE: u64 = PAGE / 1024;
/// Times in `stat` have hundredths of a second (`USER_HZ`), whatever HZ is.
const NS_PER_CLOCK_TICK: u64 = 10_000_000;
/// Numbers of kernel threads begin here, above those of processes.
const KERNEL_THREADS: u32 = 4_000_001;
/// Characters of a name that a kernel keeps (`TASK_COMM_LEN` without the end).
const COMM_MAX: usize = 15;
/// `PF_KTHREAD`, by which tools know kernel threads.
const PF_KTHREAD: u32 = 0x0020_0000;

/// The figures of a process or of a kernel thread.
struct Shown {
    pid: u32,
    name: String,
    state: RunState,
    nr_threads: usize,
    times: TaskTimes,
    last_cpu: u16,
    is_kernel_thread: bool,
    /// In pages; [size, resident, of these of files, page tables, swap].
    pages: [u64; 5],
    oom_score_adj: i32,
    path: String,
}

/// Adds the files, and returns the processes of each group. `hierarchy` is the line's start in
/// `PID/cgroup`.
pub(super) fn files(
    texts: &mut Texts,
    seen: &Seen,
    tasks: &[TaskView],
    hierarchy: &str,
) -> BTreeMap<GroupId, Vec<u32>> {
    let mut pids: BTreeMap<GroupId, Vec<u32>> = BTreeMap::new();
    for process in seen.processes.values() {
        let group = process.group;
        pids.entry(group).or_default().push(process.pid);
        add(texts, &of_process(process, tasks, seen.path(group).to_owned()), hierarchy);
    }
    let daemons = tasks.iter().filter(|task| task.is_daemon && !task.is_interrupt);
    for (pid, task) in (KERNEL_THREADS..).zip(daemons) {
        pids.entry(GroupId::ROOT).or_default().push(pid);
        add(
            texts,
            &Shown {
                pid,
                name: task.name.to_string(),
                state: task.state,
                nr_threads: 1,
                times: task.times,
                last_cpu: task.last_cpu.0,
                is_kernel_thread: true,
                pages: [0; 5],
                oom_score_adj: 0,
                path: "/".to_owned(),
            },
            hierarchy,
        );
    }
    pids
}

fn of_process(process: &Process<SimHost>, tasks: &[TaskView], path: String) -> Shown {
    let own = || tasks.iter().filter(|task| process.tasks.contains(&task.id));
    let mut times = TaskTimes::default();
    for task in own() {
        times.user_ns += task.times.user_ns;
        times.system_ns += task.times.system_ns;
    }
    let Process { pid, name, size, anon, file, swap, tables, oom_score_adj, .. } = process;
    Shown {
        pid: *pid,
        name: name.to_string(),
        // That of the first task, as Linux shows the leader's.
        state: own().next().map_or(RunState::Sleeping, |task| task.state),
        nr_threads: own().count().max(1),
        times,
        last_cpu: own().next().map_or(0, |task| task.last_cpu.0),
        is_kernel_thread: false,
        pages: [*size, anon + file, *file, *tables, *swap],
        oom_score_adj: *oom_score_adj,
        path,
    }
}

fn add(texts: &mut Texts, shown: &Shown, hierarchy: &str) {
    let dir = format!("proc/{}", shown.pid);
    let [size, resident, file, ..] = shown.pages;
    // A program's text is no memory of the model: `trs` is 0, `drs` all of it.
    texts.insert(format!("{dir}/statm"), format!("{size} {resident} {file} 0 0 {size} 0\n"));
    texts.insert(format!("{dir}/stat"), stat(shown));
    texts.insert(format!("{dir}/status"), status(shown));
    texts.insert(format!("{dir}/cgroup"), format!("{hierarchy}{}\n", shown.path));
    texts.insert(format!("{dir}/oom_score_adj"), format!("{}\n", shown.oom_score_adj));
    let comm = comm(&shown.name);
    texts.insert(format!("{dir}/comm"), format!("{comm}\n"));
    let cmdline = if shown.is_kernel_thread { String::new() } else { format!("{}\0", shown.name) };
    texts.insert(format!("{dir}/cmdline"), cmdline);
    // A kernel thread has no memory of its own.
    let smaps = if shown.is_kernel_thread { String::new() } else { smaps_rollup(shown) };
    texts.insert(format!("{dir}/smaps_rollup"), smaps);
}

/// A name as the kernel keeps it.
fn comm(name: &str) -> &str {
    let end = name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&at| at <= COMM_MAX);
    &name[..end.last().unwrap_or(0)]
}

const fn letter(state: RunState) -> (char, &'static str) {
    match state {
        RunState::Running => ('R', "running"),
        RunState::Sleeping => ('S', "sleeping"),
        RunState::Uninterruptible => ('D', "disk sleep"),
    }
}

/// `stat`: 52 fields.
fn stat(shown: &Shown) -> String {
    let Shown { pid, times, nr_threads, last_cpu, .. } = shown;
    let (comm, (state, _)) = (comm(&shown.name), letter(shown.state));
    let ticks = |ns: u64| ns / NS_PER_CLOCK_TICK;
    let (user, system) = (ticks(times.user_ns), ticks(times.system_ns));
    let flags = if shown.is_kernel_thread { PF_KTHREAD } else { 0 };
    let [size, resident, ..] = shown.pages;
    let size = size * PAGE;
    // Parent, group, session, terminal; then faults; the order is that of proc(5).
    let mut text = format!("{pid} ({comm}) {state} 0 {pid} {pid} 0 -1 {flags} 0 0 0 0 ");
    text += &format!("{user} {system} 0 0 20 0 {nr_threads} 0 0 {size} {resident} {} ", u64::MAX);
    text += &"0 ".repeat(12);
    // Signal at the end (SIGCHLD), CPU, scheduling, delays, guests, addresses.
    text += &format!("17 {last_cpu} 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    text
}

fn status(shown: &Shown) -> String {
    let mut text = String::new();
    let (letter, word) = letter(shown.state);
    let Shown { pid, nr_threads, .. } = shown;
    line!(text, "Name:\t{}", comm(&shown.name));
    line!(text, "State:\t{letter} ({word})");
    line!(text, "Tgid:\t{pid}\nNgid:\t0\nPid:\t{pid}\nPPid:\t0\nTracerPid:\t0");
    line!(text, "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t0\nGroups:\t ");
    if !shown.is_kernel_thread {
        let [size, resident, file, tables, swap] = shown.pages.map(|pages| pages * KIB_PER_PAGE);
        let sizes = [
            ("VmSize", size),
            ("VmRSS", resident),
            ("RssAnon", resident - file),
            ("RssFile", file),
            ("RssShmem", 0),
            ("VmPTE", tables),
            ("VmSwap", swap),
        ];
        for (name, kib) in sizes {
            line!(text, "{name}:\t{kib:>8} kB");
        }
    }
    line!(text, "Threads:\t{nr_threads}\nSigQ:\t0/0");
    for set in ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff"] {
        line!(text, "{set}:\t{:016x}", 0);
    }
    text
}

/// Of `smaps_rollup` what the model knows: no `Pss`, because it does not say who shares a page.
fn smaps_rollup(shown: &Shown) -> String {
    let mut text = String::new();
    let [size, resident, file, _, swap] = shown.pages.map(|pages| pages * KIB_PER_PAGE);
    let end = size * 1024;
    line!(
        text,
        "{:08x}-{end:08x} ---p 00000000 00:00 0                                  [rollup]",
        0
    );
    for (name, kib) in [("Rss", resident), ("Anonymous", resident - file), ("Swap", swap)] {
        line!(text, "{:<16}{kib:>8} kB", format!("{name}:"));
    }
    text
}
