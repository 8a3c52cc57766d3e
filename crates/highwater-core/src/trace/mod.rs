//! Typed tracepoints: the kmem events of spec 01 §13, the vmscan events of spec 02 §20.
//!
//! An event is a small value; [`Host::trace`](crate::host::Host::trace) receives it. The text form
//! follows the kernel's, so that tools which read ftrace output can read ours.

mod event;
mod vmscan;

pub use event::Event;
pub(crate) use vmscan::narrow;
pub use vmscan::{ShrinkInactive, VmscanEvent};
