//! Which switches explain a change: the smallest set of differences between two policies with which the one is like the
//! other in a figure.
//!
//! ```text
//!  A ── A + one switch, each ──┐                 ┌─ one is enough
//!                              ├─ parts of the ──┼─ those that B cannot do without
//!  B ── B - one switch, each ──┘    change       ├─ pairs of those that do most
//!                                                └─ delta debugging: all, less and less
//! ```
//!
//! Every trial runs the same seeds. A trial's *part* of the change is how far its mean has come from A's to B's: 0 is A,
//! 1 is B. A set is enough if its part is at least [`ENOUGH`]. What a change is by chance the paired bootstrap says that
//! reports use ([`highwater_report::stats::paired`]).
//!
//! Key types: [`Bisect`] (what is asked), [`Report`] (what came out), [`Trial`] (one policy between the two),
//! [`Found`] (the answer), [`came()`] (the kernel that a switch came with).

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

/// What the JSON of a report is, and of which version.
pub const SCHEMA: &str = "highwater.bisect/1";
