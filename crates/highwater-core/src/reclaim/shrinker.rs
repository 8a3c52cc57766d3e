//! Shrinkers: caches that free memory on request (rules/shrinkers-and-oom#shrinker).
//!
//! Besides pages on lists the kernel holds memory in objects: inodes, directory entries, tree
//! nodes. Reclaim does not know them, not even their age; their subsystems do. So each node pass
//! requests a share of the objects from every shrinker, a larger one at harder priorities, as with
//! the lists. A cache then needs no limit: it grows while memory is free, and shrinks with
//! everything else.
//!
//! ```text
//!  count ─▶ f objects            share of this pass: (f >> priority) * 4 / seeks
//!                                        │ + deferred before, >> priority
//!                                        ▼
//!                             total ─▶ scan a batch, scan a batch, ... ─▶ pages
//!                                        │
//!                                        └─ less than a batch left: deferred ─▶ later passes
//! ```
//!
//! *Seeks* weigh a cache against the pages. At 4 its share is that of the lists, at the default of
//! 2 twice as much; the costlier its objects are to recreate, the smaller the share.
//!
//! Less than a batch is deferred and added to a later pass, because a call takes locks and walks
//! lists, which three objects are not worth. But gentle passes request little: 48 of 100,000
//! objects at priority 12 (rules/shrinkers-and-oom#share). If these were dropped, a cache of that
//! size would shrink only when reclaim is desperate.
//!
//! Key types: [`Shrinker`] (a cache), [`Shrinkers`] (all of them).
//!
//! Synchronisation: deferred work is one atomic word for each shrinker and node. A pass takes all
//! of it, so two passes never do the same work. A shrinker is called with no lock held and takes
//! its own. They are registered before the kernel is shared, so the list needs no lock.
//!
//! From: [`super::node_pass`] · to: [`super::ShadowShrinker`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::host::{Cost, Cx, Devices, Phase, Probe, Tasks};
use crate::kernel::Kernel;
use crate::page_alloc::Gfp;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::trace::{Event, narrow};
use crate::units::GroupId;
use crate::vmstat::VmEvent;
use crate::zone::NodeId;

/// A cache whose objects reclaim can free (`struct shrinker`).
#[doc(alias = "shrinker")]
pub trait Shrinker<H: Devices>: Send + Sync {
    /// Objects that could be freed. A guess, and cheap: it is asked at every pass. 0 leaves the
    /// shrinker out.
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, of: ObjectsOf) -> u64;

    /// Checks `nr` objects and frees those that it can; `None`: impossible now (STOP), for example
    /// because a lock is taken. The share is then deferred and not lost.
    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, of: ObjectsOf, nr: u64) -> Option<Shrunk>;

    /// Objects per call.
    fn batch(&self) -> u64 {
        128
    }

    /// Cost of recreating an object; 0 = free. The larger, the less is asked for.
    fn seeks(&self) -> u64 {
        2
    }

    /// Calls filesystems: requests that may not ([`Gfp::FS`]) leave its share to later passes.
    fn needs_fs(&self) -> bool {
        false
    }

    /// Keeps its objects by node. If not, all of them count as node 0's, whichever node is short.
    fn is_node_aware(&self) -> bool {
        false
    }

    /// Keeps its objects by memory cgroup. If not, all of them count as the root's, and reclaim for
    /// a group's limit leaves them alone.
    #[doc(alias = "SHRINKER_MEMCG_AWARE")]
    fn is_group_aware(&self) -> bool {
        false
    }
}

/// Objects that a shrinker is asked about.
#[doc(alias = "shrink_control")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectsOf {
    /// The node that they lie on.
    pub node: NodeId,
    /// The memory cgroup that pays for them.
    pub group: GroupId,
}

/// The result of one call of [`Shrinker::scan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Objects looked at; fewer than asked for if there were no more.
    pub scanned: u64,
    /// Objects freed.
    pub freed: u64,
    /// Pages that went back to the allocator with them. Reclaim counts those as its own: objects freed are
    /// no progress until the slab that they lay in is empty.
    pub pages: u64,
}

/// All shrinkers, in order of registration.
pub struct Shrinkers<H: Devices> {
    pub(crate) list: Vec<Box<dyn Shrinker<H>>>,
    /// Work put off, `[shrinker][set]`; a set of objects is a node's, or a node's of a memory cgroup.
    pub(crate) deferred: Vec<Vec<AtomicU64>>,
}

impl<H: Devices> Default for Shrinkers<H>
where
    H: Tasks,
{
    fn default() -> Self {
        Shrinkers { list: Vec::new(), deferred: Vec::new() }
    }
}

/// A shrinker's work in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// This pass's part of its objects.
    delta: u64,
    /// Objects to scan, including deferred ones.
    total: u64,
}

/// A shrinker's share at a priority (rules/shrinkers-and-oom#share): of `freeable` objects, and of
/// `deferred` ones.
///
/// Deferred work is scaled by the priority too. It may have piled up while the shrinker could not work, and
/// the first gentle pass that finds it able again must not empty the cache for it.
const fn share(freeable: u64, deferred: u64, priority: u8, seeks: u64) -> Share {
    let delta = match seeks {
        // Nothing is lost with them.
        0 => freeable / 2,
        _ => (freeable >> priority) * 4 / seeks,
    };
    let total = (deferred >> priority) + delta;
    Share { delta, total: if total < 2 * freeable { total } else { 2 * freeable } }
}

/// Sums of one shrinker's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Calls {
    done: Shrunk,
    /// Objects of the share that were not scanned.
    left: u64,
    /// To be put off.
    deferred: u64,
}

/// Calls one shrinker's `scan` until less than a batch of its share is left. A cache smaller than a
/// batch would never be called, so it is called as soon as its share covers all its objects.
#[doc(alias = "do_shrink_slab")]
fn run(
    freeable: u64,
    deferred: u64,
    share: Share,
    batch: u64,
    mut scan: impl FnMut(u64) -> Option<Shrunk>,
) -> Calls {
    let mut done = Shrunk::default();
    let mut left = share.total;
    while left != 0 && (left >= batch || left >= freeable) {
        let Some(call) = scan(left.min(batch)) else { break };
        done.scanned += call.scanned;
        done.freed += call.freed;
        done.pages += call.pages;
        // Nothing was looked at: another call would not either, and the loop would not end.
        if call.scanned == 0 {
            break;
        }
        left = left.saturating_sub(call.scanned);
    }
    // All deferred work that was not done stays, not only the part for this priority; but at most
    // as much as the cache could need.
    let rest = (deferred + share.delta).saturating_sub(done.scanned);
    Calls { done, left, deferred: rest.min(2 * freeable) }
}

impl<H: Devices> Kernel<H> {
    /// Adds a shrinker. Before the kernel is shared.
    ///
    /// Linux: same name.
    pub fn register_shrinker(&mut self, shrinker: Box<dyn Shrinker<H>>) {
        self.shrinkers.list.push(shrinker);
        let nr_sets = self.lru.nr_vecs().max(self.mem.nr_nodes());
        let deferred = (0..nr_sets).map(|_| AtomicU64::new(0)).collect();
        self.shrinkers.deferred.push(deferred);
    }

    /// Asks every shrinker for its share at a priority; returns the pages that came back. In the
    /// order in which they were registered, all of them, also when the first has freed enough: no
    /// cache pays for its place in the list.
    ///
    /// Linux: same name.
    ///
    /// `group`: the memory cgroup whose objects are shrunk. Caches without lists by group
    /// belong to the root.
    pub(crate) fn shrink_slab(
        &self,
        cx: &Cx<'_, H>,
        gfp: Gfp,
        node: NodeId,
        group: GroupId,
        priority: u8,
    ) -> u64 {
        let _phase = cx.phase(Phase::ShrinkSlab);
        let mut pages = 0;
        for (shrinker, deferred) in self.shrinkers.list.iter().zip(&self.shrinkers.deferred) {
            if !group.is_root() && !shrinker.is_group_aware() {
                continue;
            }
            let node = if shrinker.is_node_aware() { node } else { NodeId(0) };
            let deferred = &deferred[self.lru.id_of_target(group, node).idx()];
            let of = ObjectsOf { node, group };
            pages += self.shrink_one(cx, gfp, of, priority, (&**shrinker, deferred));
        }
        pages
    }

    fn shrink_one(
        &self,
        cx: &Cx<'_, H>,
        gfp: Gfp,
        of: ObjectsOf,
        priority: u8,
        (shrinker, deferred): (&dyn Shrinker<H>, &AtomicU64),
    ) -> u64 {
        let freeable = shrinker.count(self, cx, of);
        if freeable == 0 {
            return 0;
        }
        // Taken out, not read: another pass over the node finds none, and does its own share only.
        let before = deferred.swap(0, Relaxed);
        let share = share(freeable, before, priority, shrinker.seeks());
        let count = |count: u64| narrow(count, u32::MAX);
        cx.event(Event::ShrinkSlabStart {
            nid: of.node,
            deferred: count(before),
            gfp,
            cache_items: count(freeable),
            delta: count(share.delta),
            total_scan: count(share.total),
            priority,
        });
        let calls = run(freeable, before, share, shrinker.batch(), |nr| {
            if shrinker.needs_fs() && !gfp.contains(Gfp::FS) {
                return None;
            }
            let call = shrinker.scan(self, cx, of, nr)?;
            cx.charge(Cost::ShrinkObject, narrow(call.scanned, u32::MAX));
            self.mem.events.add(cx.cpu(), VmEvent::SlabsScanned, call.scanned);
            // Between calls no lock is held; a large cache takes many.
            cx.host.yield_now();
            Some(call)
        });
        let after = deferred.fetch_add(calls.deferred, Relaxed) + calls.deferred;
        cx.event(Event::ShrinkSlabEnd {
            nid: of.node,
            deferred_before: count(before),
            deferred_after: count(after),
            total_scan: count(calls.left),
            freed: count(calls.done.freed),
        });
        calls.done.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_scanned_in_proportion() {
        // (freeable, deferred, priority, seeks) → delta, total; calls, scanned, deferred after
        let table = [
            ((100_000, 0, 12, 2), (48, 48), (0, 0, 48)),
            ((1_000_000, 0, 12, 2), (488, 488), (3, 384, 104)),
            ((100_000, 50_000, 9, 2), (390, 487), (3, 384, 50_006)),
            ((100, 0, 0, 2), (200, 200), (1, 128, 72)),
            ((5000, 0, 12, 0), (2500, 2500), (19, 2432, 68)),
        ];
        for ((freeable, deferred, priority, seeks), (delta, total), expected) in table {
            let share = share(freeable, deferred, priority, seeks);
            assert_eq!(share, Share { delta, total });
            let mut nr_calls = 0;
            let calls = run(freeable, deferred, share, 128, |nr| {
                nr_calls += 1;
                Some(Shrunk { scanned: nr, freed: nr, pages: 0 })
            });
            let got = (nr_calls, calls.done.scanned, calls.deferred);
            assert_eq!(got, expected, "{freeable} {deferred} {priority} {seeks}");
        }
    }

    #[test]
    fn a_shrinker_may_stop() {
        let asked = share(1_000_000, 0, 12, 2);
        let calls = run(1_000_000, 0, asked, 128, |_| None);
        assert_eq!((calls.done, calls.left, calls.deferred), (Shrunk::default(), 488, 488));
        let idle = run(1_000_000, 0, asked, 128, |_| Some(Shrunk::default()));
        assert_eq!(idle.left, 488, "no progress ends it");
    }
}
