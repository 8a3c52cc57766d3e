//! A [`Recording`] as files that other programs read.
//!
//! | module | writes | read by |
//! |---|---|---|
//! | [`perfetto`] | Perfetto's protobuf | ui.perfetto.dev, the `perfetto` package of Python |
//! | [`ftrace`] | ftrace's text | scripts for `trace-cmd` and `perf script`, `highwater replay` |
//!
//! `sched` is what both need: which task has which CPU when. Neighbours: rows come from `highwater-results`.
//!
//! [`Recording`]: highwater_results::recording::Recording

pub mod ftrace;
pub mod perfetto;
mod proto;
mod sched;

/// What a task's number is as a process id: 0 is the idle task's, low ones are those of others.
const FIRST_PID: i32 = 100;
/// Bytes of a command's name that the kernel keeps.
const COMM_MAX: usize = 15;

/// The process id that stands for a task.
fn pid(task: u32) -> i32 {
    FIRST_PID.saturating_add_unsigned(task)
}

/// The name as the kernel keeps it.
fn comm(name: &str) -> &str {
    let mut end = name.len().min(COMM_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
