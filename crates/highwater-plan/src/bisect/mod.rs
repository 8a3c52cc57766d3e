//! Which switches explain a change: the smallest set of differences between two policies that gives
//! one policy the other's value of a metric.
//!
//! ```text
//!  A ── A + one switch, each ──┐                 ┌─ one is enough
//!                              ├─ parts of the ──┼─ those that B needs
//!  B ── B - one switch, each ──┘    change       ├─ pairs of those with the most effect
//!                                                └─ delta debugging: all, less and less
//! ```
//!
//! Every trial runs the same seeds. A trial's *part* of the change is how far its mean has moved
//! from A's to B's: 0 is A, 1 is B. A set is enough if its part is at least [`ENOUGH`]. The paired
//! bootstrap of the reports decides whether a change is significant
//! ([`highwater_report::stats::paired`]).
//!
//! Key types: [`Bisect`] (the question), [`Report`] (the result), [`Trial`] (one policy between the
//! two), [`Found`] (the answer), [`came()`] (the kernel version that introduced a switch).

mod ablated;
mod ask;
mod came;
mod report;
mod search;

pub use ablated::ablated;
pub use ask::{Bisect, BisectError};
pub use came::{Came, came};
pub use report::{End, Report, Switch, Trial};
pub use search::{ENOUGH, Found, Parts, Set, find};

/// Schema name and version of the JSON report.
pub const SCHEMA: &str = "highwater.bisect/1";
