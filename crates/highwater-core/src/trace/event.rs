//! All tracepoints together: the declarations of all groups.

use super::compaction::compaction;
use super::kmem::kmem;
use super::macros::tracepoints;
use super::vmscan::vmscan;
use super::words::tags_differ;
use super::writeback::writeback;
// Types and constants that declarations name.
use crate::units::{CompactPriority, CompactResult};
use crate::units::{Gfp, LruKind, PageType, ThrottleReason};
use crate::units::{MigrateType, Order, PAGEBLOCK_ORDER, Pfn};
use crate::units::{NodeId, ZoneType};

/// The declaration of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its name: `mm_page_alloc`.
    pub name: &'static str,
    /// The group, ftrace's system: `kmem`.
    pub system: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// The text of its events, with `{field}` in place of a value.
    pub text: &'static str,
    /// Its number in digests; different for each tracepoint.
    pub tag: u32,
    /// What an event carries.
    pub fields: &'static [Field],
}

/// A field of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name here; the text may call it otherwise.
    pub name: &'static str,
    /// The name of its type: `Option<Pfn>`.
    pub type_name: &'static str,
    /// Bits that its values take.
    pub bits: u32,
    /// Its meaning.
    pub doc: &'static str,
}

/// Fields of the tracepoint that has most.
pub(super) const fn fields_max(tracepoints: &[Tracepoint]) -> usize {
    let (mut max, mut at) = (0, 0);
    while at < tracepoints.len() {
        if tracepoints[at].fields.len() > max {
            max = tracepoints[at].fields.len();
        }
        at += 1;
    }
    max
}

// Each group passes on to the next.
kmem! { [vmscan writeback compaction tracepoints] }

// Events are built wherever something happens, watched or not.
const _: () = assert!(size_of::<Event>() <= 32);
const _: () = assert!(
    tags_differ(&TRACEPOINTS),
    "two tracepoints with one digest number, or two names with one hash: call one otherwise"
);
