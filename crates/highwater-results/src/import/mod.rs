//! Importers of data from a real Linux: allocator traces, `/proc` texts, captured reference files.
//!
//! Seven entry points:
//! * [`kmem`]: a stream of page-allocator tracepoints out of ftrace text, `trace-cmd report` or
//!   `perf script`;
//! * [`events`]: every tracepoint of such a text, with its fields as text;
//! * [`proc`]: `zoneinfo`, `buddyinfo`, `pagetypeinfo` and `vmstat` as plain structs;
//! * [`vmstat_log`]: output of the program `vmstat`, and repeated lines of `/proc/pressure`;
//! * [`log`]: memory reports in kernel logs (failed allocations, OOM kills, dumps);
//! * [`KernelText`]: recognises a text that was given to the wrong command;
//! * [`linux61`]: the JSON files under `reference/linux-6.1/`, checked for machines that cannot
//!   exist.
//!
//! Everything here turns foreign bytes into plain numbers and names. Nothing here knows the
//! simulator: the crates above translate zone names, orders and migrate types into their own types.
//!
//! Every failure is an [`ImportError`] that prints as one line and names the file and, where there
//! is one, the line and the field. Input of any kind (gzip or not, UTF-8 or not, endless lines,
//! directories) must end in a value or in such an error, never in a panic or in unbounded memory.

mod error;
pub mod events;
pub mod kmem;
pub mod linux61;
pub mod log;
pub mod proc;
mod recognise;
mod source;
pub mod vmstat_log;
mod wall_clock;

pub use error::ImportError;
pub use recognise::KernelText;
pub use source::{find_line, text_up_to, unpacked, whole_text};
