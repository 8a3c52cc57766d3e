//! A [`Recording`] in the file formats of other programs.
//!
//! | module | writes | read by |
//! |---|---|---|
//! | [`perfetto`] | Perfetto's protobuf | ui.perfetto.dev, the `perfetto` package of Python |
//! | [`ftrace`] | ftrace's text | scripts for `trace-cmd` and `perf script`, `highwater replay` |
//!
//! Both formats need `sched`: which task has which CPU, and when. Neighbours: rows come from
//! `highwater-results`.
//!
//! [`Recording`]: highwater_results::recording::Recording

pub mod ftrace;
pub mod perfetto;
mod proto;
mod sched;

/// Process id of the first task: 0 is the idle task, and low ids are taken by others.
const FIRST_PID: i32 = 100;
/// Bytes of a command name that the kernel keeps.
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
