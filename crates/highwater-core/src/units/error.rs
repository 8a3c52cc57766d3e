//! Why a call failed.

use core::fmt;

use super::{IoError, NoSuchCpu, PAGE_SIZE};

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No memory (ENOMEM; SIGBUS in a fault).
    NoMemory,
    /// The device failed.
    Io(IoError),
    /// No such address, or the access is not allowed (SIGSEGV, EFAULT).
    Fault,
    /// An argument makes no sense (EINVAL).
    Invalid,
    /// The object to change is in use (EBUSY).
    Busy,
    /// The task was killed; it is to exit.
    Killed,
    /// The caller's CPU is none of the machine's.
    NoSuchCpu(NoSuchCpu),
    /// The machine has too little memory for a kernel, in pages.
    TooSmall {
        /// Managed pages of the allocator.
        managed: u64,
        /// Needed pages: one more than the reserve for tasks that free memory.
        needed: u64,
    },
    /// Beyond a limit of this implementation.
    Limit(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoMemory => f.write_str("out of memory"),
            Error::Io(error) => error.fmt(f),
            Error::Fault => f.write_str("no such mapping, or access not allowed"),
            Error::Invalid => f.write_str("invalid argument"),
            Error::Busy => f.write_str("in use"),
            Error::Killed => f.write_str("killed"),
            Error::NoSuchCpu(wrong) => wrong.fmt(f),
            Error::TooSmall { managed, needed } => {
                let kib = |pages: &u64| pages * (PAGE_SIZE as u64 / 1024);
                let (managed, needed) = (kib(managed), kib(needed));
                write!(f, "a kernel needs {needed} KiB beside what the machine keeps; ")?;
                write!(f, "there are {managed} KiB")
            }
            Error::Limit(what) => write!(f, "not supported: {what}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<NoSuchCpu> for Error {
    fn from(error: NoSuchCpu) -> Self {
        Error::NoSuchCpu(error)
    }
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Self {
        Error::Io(error)
    }
}
