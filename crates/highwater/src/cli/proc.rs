//! `highwater zoneinfo`, `buddyinfo`, `pagetypeinfo`, `vmstat`: Linux's own texts of a freshly booted
//! machine.

use super::args::ProcArgs;
use super::{CliError, Outcome};

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    /// `/proc/zoneinfo`.
    Zoneinfo,
    /// `/proc/buddyinfo`.
    Buddyinfo,
    /// `/proc/pagetypeinfo`.
    Pagetypeinfo,
    /// `/proc/vmstat`.
    Vmstat,
}

/// Boots the machine and prints a text.
pub(super) fn run(_: File, args: &ProcArgs) -> Result<Outcome, CliError> {
    args.machine.require()?;
    Err(CliError::new("not in this build"))
}
