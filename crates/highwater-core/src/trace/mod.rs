//! Typed tracepoints: one declaration each, by ftrace's systems (`kmem`, `vmscan`, `writeback`,
//! `compaction`).
//!
//! Key types: [`Event`] (a small value; [`Host::trace`](crate::host::Host::trace) receives it),
//! [`Kind`] (which tracepoint, as an index), [`Tracepoint`] (the declaration, all of them in
//! [`TRACEPOINTS`]), [`TraceField`] (a type that fields may have), [`Value`] (of a field, for
//! exporters), [`Counts`].
//!
//! Everything about an event comes from its declaration: its text, the words for digests, and names
//! and values of fields. The text follows the kernel's format, so tools for ftrace output can read
//! ours. How to add one: `docs/src/how-to/add-a-tracepoint.md`.

mod compaction;
mod counts;
mod event;
mod field;
mod kmem;
mod macros;
#[cfg(test)]
mod tests;
mod vmscan;
mod words;
mod writeback;

pub use counts::Counts;
use event::fields_max;
pub use event::{Event, Field, Kind, TRACEPOINTS, Tracepoint};
pub(crate) use field::narrow;
pub use field::{TraceField, Value};
