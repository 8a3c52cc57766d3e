//! Page-allocator tracepoints as a stream of numbers.
//!
//! [`KmemReader`] iterates over the [`KmemEvent`]s of a text, with one line in memory at a time.
//! Three programs print the same events in slightly different columns; the reader detects the form
//! by itself:
//!
//! ```text
//! ftrace     <comm>-<pid>   (tgid) [cpu] flags  secs.frac: mm_page_free: page=.. pfn=0x1870 order=1
//! trace-cmd  <comm>-<pid>          [cpu] flags  secs.frac: mm_page_free:        page=.. pfn=0x1870 order=1
//! perf       <comm>  <pid>/<tid>   [cpu]        secs.frac: kmem:mm_page_free: page=.. pfn=6256 order=1
//! ```
//!
//! `(tgid)` and `flags` may be absent. Steps of one line: `header` finds the columns, `fields` the
//! `key=value` pairs, [`gfp`] turns flag names into bits. The events are those of
//! rules/kmem-traces#events (Linux 6.1, and back to about 4.0).

mod fields;
pub mod gfp;
pub(super) mod header;
mod reader;

pub use super::source::{OnDamage, gzip_damage};
pub use reader::{BadLine, KmemReader, SkippedLines};

/// One tracepoint hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KmemEvent {
    /// CPU that emitted it, below 8192.
    pub cpu: u32,
    /// Trace clock, in nanoseconds; the text usually resolves microseconds.
    pub time_ns: u64,
    /// Thread id of the current task; 0 is the idle task, -1 a task that perf could not name.
    pub pid: i32,
    /// The event.
    pub kind: KmemKind,
}

/// The six events with the fields that a model can use. Frames are below 2^40, orders at most
/// [`ORDER_MAX`], migrate types at most [`MIGRATETYPE_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KmemKind {
    /// `mm_page_alloc` that returned a block.
    Alloc {
        /// First frame.
        pfn: u64,
        /// Block size is 2^order frames.
        order: u8,
        /// Requested type.
        migratetype: u8,
        /// Request bits (rules/requests#gfp-bits).
        gfp: u32,
    },
    /// `mm_page_alloc` that returned nothing (pfn -1, or a null page).
    AllocFailed {
        /// Requested order.
        order: u8,
        /// Requested type.
        migratetype: u8,
        /// Request bits (rules/requests#gfp-bits).
        gfp: u32,
    },
    /// `mm_page_free`.
    Free {
        /// First frame.
        pfn: u64,
        /// Block size is 2^order frames.
        order: u8,
    },
    /// `mm_page_free_batched`: the frame is freed as part of a list.
    FreeBatched {
        /// The frame.
        pfn: u64,
    },
    /// `mm_page_alloc_zone_locked`: a block leaves the buddy lists.
    ZoneLocked {
        /// First frame.
        pfn: u64,
        /// Block size is 2^order frames.
        order: u8,
        /// Requested type.
        migratetype: u8,
        /// True if the block refills a per-CPU list; `None` if the kernel does not say.
        percpu_refill: Option<bool>,
    },
    /// `mm_page_pcpu_drain`: a block goes from a per-CPU list back to the buddy lists.
    PcpuDrain {
        /// First frame.
        pfn: u64,
        /// Block size is 2^order frames.
        order: u8,
        /// List that the block goes to.
        migratetype: u8,
    },
    /// `mm_page_alloc_extfrag`: a request is served from another type's block.
    ExtFrag {
        /// First frame of the block that was broken.
        pfn: u64,
        /// Requested order.
        alloc_order: u8,
        /// Order of the block that was broken.
        fallback_order: u8,
        /// Requested type.
        alloc_migratetype: u8,
        /// Type of the block.
        fallback_migratetype: u8,
        /// True if the whole pageblock now belongs to the requested type.
        change_ownership: bool,
    },
}

/// Largest block order (rules/kmem-traces#fields).
pub const ORDER_MAX: u8 = 10;
/// Largest migrate type: ISOLATE of a build with CMA (rules/kmem-traces#fields).
pub const MIGRATETYPE_MAX: u8 = 5;
/// Frames are below this: 4 PiB of memory, beyond the physical addresses of x86-64 at that time.
pub const PFN_LIMIT: u64 = 1 << 40;

impl KmemKind {
    /// The tracepoint's name.
    #[must_use]
    pub fn event_name(&self) -> &'static str {
        match self {
            Self::Alloc { .. } | Self::AllocFailed { .. } => "mm_page_alloc",
            Self::Free { .. } => "mm_page_free",
            Self::FreeBatched { .. } => "mm_page_free_batched",
            Self::ZoneLocked { .. } => "mm_page_alloc_zone_locked",
            Self::PcpuDrain { .. } => "mm_page_pcpu_drain",
            Self::ExtFrag { .. } => "mm_page_alloc_extfrag",
        }
    }

    /// The frame, except for a failed allocation.
    #[must_use]
    pub fn pfn(&self) -> Option<u64> {
        match *self {
            Self::AllocFailed { .. } => None,
            Self::Alloc { pfn, .. }
            | Self::Free { pfn, .. }
            | Self::FreeBatched { pfn }
            | Self::ZoneLocked { pfn, .. }
            | Self::PcpuDrain { pfn, .. }
            | Self::ExtFrag { pfn, .. } => Some(pfn),
        }
    }
}
