//! A recording as ftrace prints it.
//!
//! ```text
//!           kswapd0-103     [002] ..... 00012.345678: mm_vmscan_kswapd_wake: nid=0 order=0
//! ```
//!
//! The text has the recorded tracepoints under their Linux names with the kernel's text, and the
//! scheduler's `sched_switch` and `sched_waking`. Times are virtual, since boot. Addresses
//! (`page=`) are left out: the simulation has none.

use std::fmt::Write;

use highwater_results::recording::{Happening, Recording};

use super::sched::{Cpus, Switch};
use super::{comm, pid};

/// Priority of every task: the simulated scheduler has only one.
pub(super) const PRIO: i32 = 120;

/// The text.
pub fn text(recording: &Recording) -> String {
    let mut body = String::new();
    let mut nr_lines = 0;
    let mut cpus = Cpus::new(recording);
    let targets = Cpus::targets(recording);
    for (row, &target) in recording.rows.iter().zip(&targets) {
        if let Some(Switch { cpu, prev, state, next }) = cpus.step(row) {
            let ((from, from_pid), (to, to_pid)) =
                (who(recording, cpu, prev), who(recording, cpu, next));
            nr_lines += 1;
            head(&mut body, &from, from_pid, cpu, row.at_ns);
            // Writing to a string does not fail.
            let _ = writeln!(
                body,
                "sched_switch: prev_comm={from} prev_pid={from_pid} prev_prio={PRIO} prev_state={} ==> \
                 next_comm={to} next_pid={to_pid} next_prio={PRIO}",
                state.letter(),
            );
        }
        match &row.what {
            Happening::Passes { cpu, name, text, .. } => {
                let (comm, pid) = who(recording, *cpu, Some(row.task));
                nr_lines += 1;
                head(&mut body, &comm, pid, *cpu, row.at_ns);
                let _ = writeln!(body, "{}: {text}", recording.name(*name));
            }
            Happening::Woken { by: Some(by) } => {
                let waker_cpu = cpus.cpu_of(*by);
                let (waker, waker_pid) = who(recording, waker_cpu, Some(*by));
                let (comm, pid) = who(recording, target, Some(row.task));
                nr_lines += 1;
                head(&mut body, &waker, waker_pid, waker_cpu, row.at_ns);
                let _ = writeln!(
                    body,
                    "sched_waking: comm={comm} pid={pid} prio={PRIO} target_cpu={target:03}"
                );
            }
            _ => {}
        }
    }
    let nr_cpus = recording.nr_cpus;
    let mut text = format!(
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: {nr_lines}/{nr_lines}   #P:{nr_cpus}\n#\n"
    );
    let Recording { label, machine, seed, part, .. } = recording;
    let step = if part.is_empty() { String::new() } else { format!(", step {part}") };
    let _ = writeln!(text, "# Highwater: {label} on {machine}, seed {seed}{step}");
    recording.notes.iter().for_each(|note| {
        let _ = writeln!(text, "# {note}");
    });
    text.push_str("#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n");
    text.push_str("#              | |         |   |||||     |         |\n");
    text + &body
}

/// Name and process id of a task, or of a CPU's idle task.
pub(super) fn who(recording: &Recording, cpu: u16, task: Option<u32>) -> (String, i32) {
    match task.and_then(|at| Some((at, recording.tasks.get(at as usize)?))) {
        Some((at, task)) => (comm(&task.name).to_owned(), pid(at)),
        None => (format!("swapper/{cpu}"), 0),
    }
}

fn head(text: &mut String, comm: &str, pid: i32, cpu: u16, at_ns: u64) {
    let (s, us) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1000);
    let _ = write!(text, "{comm:>16}-{pid:<7} [{cpu:03}] ..... {s:>5}.{us:06}: ");
}

#[cfg(test)]
mod tests {
    use highwater_results::recording::{RecordedTask, Row};

    use super::*;

    #[test]
    fn lines_are_those_of_the_kernel() {
        let names = ["kmem", "mm_page_free", "a page lock"].map(str::to_owned).to_vec();
        let task = |name: &str| RecordedTask { name: name.to_owned(), ..RecordedTask::default() };
        let tasks = vec![task("writer"), task("a-name-that-is-too-long")];
        let text = "pfn=0x10 order=0".into();
        let rows = vec![
            Row { at_ns: 1_000, task: 0, what: Happening::Runs { cpu: 1 } },
            Row {
                at_ns: 2_999,
                task: 0,
                what: Happening::Passes {
                    cpu: 1,
                    system: 0,
                    name: 1,
                    text,
                    values: Box::default(),
                },
            },
            Row { at_ns: 3_000_000_000, task: 1, what: Happening::Woken { by: Some(0) } },
            Row { at_ns: 3_000_001_000, task: 1, what: Happening::Runs { cpu: 0 } },
            Row {
                at_ns: 3_000_002_000,
                task: 0,
                what: Happening::Waits { why: 2, is_sleep: false },
            },
        ];
        let recording = Recording { nr_cpus: 2, names, tasks, rows, ..Recording::default() };
        let lines = [
            "       swapper/1-0       [001] .....     0.000001: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=writer next_pid=100 next_prio=120",
            "          writer-100     [001] .....     0.000002: mm_page_free: pfn=0x10 order=0",
            "          writer-100     [001] .....     3.000000: sched_waking: comm=a-name-that-is- pid=101 prio=120 target_cpu=000",
            "       swapper/0-0       [000] .....     3.000001: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a-name-that-is- next_pid=101 next_prio=120",
            "          writer-100     [001] .....     3.000002: sched_switch: prev_comm=writer prev_pid=100 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120",
        ];
        let text = super::text(&recording);
        let body: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(body, lines);
        assert!(text.contains("# entries-in-buffer/entries-written: 5/5   #P:2\n"), "{text}");
    }
}
