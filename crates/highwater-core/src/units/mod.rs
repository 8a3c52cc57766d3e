//! Units and names: numbers with a meaning, and small enumerations.
//!
//! They are plain values without behaviour. All other modules use them, and they depend on none.
//! Each is also re-exported where a reader would look for it ([`crate::page::Pfn`],
//! [`crate::zone::NodeId`], [`crate::host::CpuId`]).

mod compact;
mod cpu;
mod error;
mod gfp;
mod group;
mod io;
mod lru;
mod lruvec;
mod memory_policy;
mod mix;
mod page;
mod throttle;
mod time;
mod zone;

pub use compact::{CompactPriority, CompactResult};
pub use cpu::{AtomicCpuSet, CpuId, CpuSet, NoSuchCpu};
pub use error::Error;
pub use gfp::Gfp;
pub use group::GroupId;
pub use io::{DeviceId, IoDirection, IoError, Urgency};
pub use lru::{LruKind, PageType};
pub use lruvec::LruVecId;
pub use memory_policy::MemoryPolicy;
pub use mix::{SPLITMIX_STEP, splitmix};
pub use page::{
    MAX_ORDER, MigrateType, Order, PAGE_SHIFT, PAGE_SIZE, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pfn,
    SWAP_CLUSTER_MAX,
};
pub use throttle::ThrottleReason;
pub use time::{HZ, NS_PER_JIFFY};
pub use zone::{NodeId, NodeMask, ZoneId, ZoneType};
