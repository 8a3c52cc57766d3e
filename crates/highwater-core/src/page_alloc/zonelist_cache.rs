//! The zonelist cache of study 000: zones that failed lately are skipped
//! (rules/zonelist-cache#data).
//!
//! On a machine with many nodes a zonelist is long. When memory is short every request walks over
//! the same full zones, and reads counters that all CPUs write. The idea: remember for a second
//! which entries failed, and skip them.
//!
//! One bitmap per node's FALLBACK list, shared by all CPUs of the node and cleared once a second.
//! Bits carry no order, mark or type, so one failed huge page sends all requests to remote nodes.
//! That is the flaw. *Full* is a property of a zone and a request, not of a zone alone. A zone
//! without a free block of order 9 may have many single pages. A request for a single page, whose
//! first zone is low, skips it and goes to another node (rules/zonelist-cache#consequences). The
//! cache saves a few reads, and loses locality for the lifetime of the page.
//!
//! Three rules limit the damage:
//!
//! | | |
//! |---|---|
//! | the cache is used only after a first watermark failed | the preferred zone is always checked |
//! | it is off in the second scan | no request fails because of a bit |
//! | it is cleared after a second, and by reclaim that frees | a bit cannot outlive the shortage for long |
//!
//! But frees do not clear it, so a zone full of free pages may be skipped for up to a second.
//!
//! Synchronisation: none. The bitmap is a hint; a lost or late bit costs one check or one remote
//! page.
//!
//! From: [`super::fast`].

use crate::host::HZ;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::zone::NodeMask;
use crate::zone::zonelist::ZoneRef;

/// Entries a bitmap holds (longer lists are never marked beyond it).
const ENTRIES_MAX: usize = 64;

/// "Full" marks of one FALLBACK list.
///
/// Linux up to 4.3.
///
/// Bit *i* is entry *i* of the list, counted from its start, not from a request's preferred zone:
/// requests with different highest zones share it.
#[doc(alias = "zonelist_cache")]
#[derive(Debug, Default)]
pub struct ZonelistCache {
    full: AtomicU64,
    last_zap: AtomicU64,
}

impl ZonelistCache {
    /// Forgets all marks if they are older than a second.
    ///
    /// All at once, by one time for the whole list: a mark may be gone after a moment, or outlive the
    /// second if no scan comes by.
    fn zap_if_old(&self, jiffies: u64) {
        if jiffies > self.last_zap.load(Relaxed) + HZ {
            self.clear();
            self.last_zap.store(jiffies, Relaxed);
        }
    }

    /// Forgets all marks.
    ///
    /// Linux up to 4.3.
    #[doc(alias = "zlc_clear_zones_full")]
    pub fn clear(&self) {
        self.full.store(0, Relaxed);
    }

    fn is_full(&self, index: usize) -> bool {
        index < ENTRIES_MAX && self.full.load(Relaxed) >> index & 1 != 0
    }

    fn mark_full(&self, index: usize) {
        if index < ENTRIES_MAX {
            self.full.fetch_or(1 << index, Relaxed);
        }
    }

    /// The marks, bit = position in the list.
    pub fn marks(&self) -> u64 {
        self.full.load(Relaxed)
    }
}

/// One get_page call's view of a cache (rules/zonelist-cache#activation).
///
/// `active` is on between the first failed watermark and the end of that scan; `set_up` stays, so that
/// the second scan does not switch it on again.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    cache: Option<&'a ZonelistCache>,
    active: bool,
    set_up: bool,
    allowed: NodeMask,
}

impl<'a> Scan<'a> {
    pub(super) fn new(cache: Option<&'a ZonelistCache>) -> Scan<'a> {
        Scan { cache, active: false, set_up: false, allowed: NodeMask::EMPTY }
    }

    /// Is an entry to be skipped unseen?
    #[inline(always)]
    pub(super) fn skips(&self, index: usize, entry: ZoneRef) -> bool {
        self.active && !self.worth(index, entry)
    }

    /// Reports whether an entry of the zonelist is allowed and not marked full.
    ///
    /// Linux up to 4.3.
    #[doc(alias = "zlc_zone_worth_trying")]
    fn worth(&self, index: usize, entry: ZoneRef) -> bool {
        match self.cache {
            None => true,
            Some(cache) => self.allowed.contains(entry.node) && !cache.is_full(index),
        }
    }

    /// Is there a cache that this scan has not begun to use?
    pub(super) fn wants_set_up(&self, nr_nodes: usize) -> bool {
        self.cache.is_some() && !self.set_up && nr_nodes > 1
    }

    /// Starts using the cache at the first failed watermark; `allowed` are the nodes worth trying.
    ///
    /// Linux up to 4.3.
    ///
    /// Not earlier: as long as zones are above their marks there is nothing to save. Nodes that the
    /// cpuset forbids are skipped like marked ones, which spares asking for each.
    #[doc(alias = "zlc_setup")]
    pub(super) fn set_up(&mut self, jiffies: u64, allowed: NodeMask) {
        let Some(cache) = self.cache else { return };
        cache.zap_if_old(jiffies);
        self.allowed = allowed;
        self.active = true;
        self.set_up = true;
    }

    /// Marks an entry of the zonelist as full.
    ///
    /// Linux up to 4.3.
    #[doc(alias = "zlc_mark_zone_full")]
    pub(super) fn mark(&self, index: usize) {
        if self.active
            && let Some(cache) = self.cache
        {
            cache.mark_full(index);
        }
    }

    /// At the end of a scan without a page: true if an exact scan is due.
    ///
    /// A scan that believed the marks has not looked everywhere, so its failure proves nothing. The
    /// second one is exact, and sets no marks.
    pub(super) fn rescan(&mut self) -> bool {
        core::mem::take(&mut self.active)
    }
}
