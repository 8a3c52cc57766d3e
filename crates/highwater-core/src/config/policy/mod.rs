//! The policy: every before/after switch of the kernels we model, as one run-time value.
//!
//! The mechanisms read their switches from the policy. Each switch is one difference between kernel
//! versions or between the two sides of a study; no other code of the core knows a version. A
//! switch is declared once, in its section's table ([`allocator`], [`compaction`], [`mod@folio`],
//! [`reclaim`], [`mod@mglru`], [`throttle`], [`locks`], [`memcg`], [`paging`]); [`table`] has the
//! form. [`mod@super::preset`] has the values of each kernel.
//!
//! A policy is also available as data. [`Policy::describe`] lists every switch with its description
//! and its values. [`Policy::get`] and [`Policy::set`] take paths, and [`Policy::differences`]
//! compares two policies. [`Policy::default`] is the oldest preset without its name. Files, the
//! book and the swarm use only this form.

mod algorithm;
mod allocator;
mod compaction;
mod folio;
mod locks;
mod memcg;
mod mglru;
mod own;
mod paging;
mod reclaim;
mod table;
mod thp;
mod throttle;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use algorithm::Algorithm;
pub(crate) use algorithm::algorithms;
pub use allocator::*;
pub use compaction::*;
pub use folio::*;
pub use locks::*;
pub use memcg::*;
pub use mglru::*;
pub use own::*;
pub use paging::*;
pub use reclaim::*;
pub use table::{Choice, PolicyError, PolicyField, Value, Values};
use table::{Section, policy};
pub use thp::*;
pub use throttle::*;

use super::KernelVersion;

policy! {
    /// Everything that distinguishes one kernel's memory management from another's.
    // rules/allocator-versions#bundles
    Policy {
        /// Name shown in reports.
        name: String,
        /// The kernel version, which decides the sysctls and the values that they accept.
        kernel: KernelVersion,
        /// Per-CPU lists.
        pcp: PcpPolicy,
        /// Watermarks.
        watermark: WatermarkPolicy,
        /// How a block of another migratetype is chosen and claimed.
        // rules/buddy#fallback, rules/buddy#fallback-v43, rules/buddy#claim-steal
        fallback: FallbackRule = Largest {
            /// The largest block; its pageblock is claimed if half of it is free; moved pages go to
            /// list heads (4.3).
            Largest,
            /// The smallest suitable block for movable requests; pages of a compatible type count
            /// for the claim (6.1).
            Compatible,
            /// A pageblock that can be claimed, with all its free pages; else the smallest block
            /// alone, whose rest stays with its type (6.12.117, 7.2).
            ClaimSteal,
        },
        /// What protects high-order atomic requests.
        highatomic: HighatomicKind = Reserve {
            /// RESERVE pageblocks that are set aside at boot and used as the last fallback (4.3).
            Reserve,
            /// Pageblocks that are claimed on demand.
            HighAtomic,
        },
        /// The size of the reserve that is claimed on demand.
        // rules/buddy#highatomic-limit
        highatomic_limit: HighatomicLimit = Exceeded {
            /// It grows until it has 1 % of the zone and a pageblock, which the last pageblock may
            /// exceed; a block of any order adds one pageblock (4.5 on).
            Exceeded,
            /// 1 % of the zone, rounded up to pageblocks; a zone whose 1 % is less than a pageblock
            /// reserves nothing. A larger block adds all its pageblocks (6.8 on).
            RoundedUp,
        },
        /// What stops blocks of different pageblock types from merging at order 9 and above.
        // rules/buddy#merge-types
        merge: MergeRule = NotIsolated {
            /// Only isolation of one of them (up to 5.17).
            NotIsolated,
            /// A type of one of them that has no per-CPU lists (5.18 on).
            Mergeable,
            /// The same; the pageblocks that a freed block takes in get its type (6.10 on).
            MergeableRetype,
        },
        /// The slow path.
        slow_path: SlowPathPolicy,
        /// Zonelists.
        zonelist: ZonelistPolicy,
        /// Compaction.
        compaction: CompactionPolicy,
        /// Page reclaim.
        reclaim: ReclaimPolicy,
        /// Page faults.
        fault: FaultPolicy,
        /// Large folios in the page cache.
        folio: FolioPolicy,
        /// Windows of readahead: after a miss, and at the end of the file.
        // rules/readahead#decision, rules/readahead#restart
        readahead: ReadaheadRule = Continue {
            /// A miss at the end of the window continues it, and a window whose mark would be on
            /// its first page is joined with the next (up to 6.10).
            Continue,
            /// A miss begins a new window; only the mark continues one (6.11 on).
            Restart,
            /// The same; windows that the mark starts end at multiples of 4 pages, and one that
            /// reaches the end of the file has no mark (7.2).
            RestartAligned,
        },
        /// When the memory of nodes that leave a file's tree goes back.
        // rules/slab#tree-nodes
        tree_nodes: TreeNodes = AtOnce {
            /// At once, with each node. No kernel does this; the presets' figures were made with
            /// it.
            AtOnce,
            /// After a grace period of RCU, all that a CPU removed meanwhile together.
            AfterGracePeriod,
        },
        /// Unmapping.
        unmap: UnmapPolicy,
        /// Swap.
        swap: SwapPolicy,
        /// Limits of dirty pages.
        writeback: WritebackPolicy,
        /// The block layer.
        block: BlockPolicy,
        /// Transparent huge pages.
        thp: ThpPolicy,
        /// Locks over which tasks sleep.
        locks: LocksPolicy,
        /// Memory cgroups.
        memcg: MemcgPolicy,
        /// Custom rules in code.
        own: Own,
    }
}

/// A switch that two policies set differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Section and key.
    pub path: String,
    /// In the one.
    pub from: Value<'static>,
    /// In the other.
    pub to: Value<'static>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.path, self.from, self.to)
    }
}

impl Policy {
    /// Returns the kernel whose counters this policy has: its own, or the next release for patches
    /// of that release on it.
    ///
    /// 4.6 brought kcompactd and its counter, 5.16 reclaim throttling and its counter; no other
    /// release brought either. So the step applies only from the release directly before: the same
    /// switch on an older kernel would bring counters of other patches.
    pub fn counters(&self) -> KernelVersion {
        let Policy { compaction, reclaim, kernel, .. } = self;
        let is_daemon = compaction.kcompactd != Kcompactd::Absent;
        let throttles =
            matches!(reclaim.throttle.node_pass, NodePassWait::Writeback | NodePassWait::Congested);
        let patches = [(is_daemon, (4, 5), (4, 6)), (throttles, (5, 15), (5, 16))];
        let version = |(major, minor)| KernelVersion::new(major, minor);
        let of = |(is_there, before, since)| {
            (is_there && *kernel == version(before)).then(|| version(since))
        };
        patches.into_iter().find_map(of).unwrap_or(*kernel)
    }

    /// Reports whether reclaim compares the two lists by statistics of groups, which are seconds
    /// late (6.12 on; rules/memory-cgroups#heuristics), also if there is the root group only.
    pub fn compares_late_statistics(&self) -> bool {
        let Policy { memcg, reclaim, .. } = self;
        memcg.stats == MemcgStats::RstatPerGroup && reclaim.algorithm == Algorithm::TwoList
    }

    /// Every switch, in the order of their declarations.
    pub fn describe() -> Vec<PolicyField> {
        let mut fields = Vec::new();
        Policy::default().visit("", &mut |switch| {
            fields.push(PolicyField {
                path: switch.path,
                doc: switch.doc,
                values: switch.values,
                default: switch.value.get(),
                is_exploratory: switch.is_exploratory,
            });
        });
        fields
    }

    /// Path and description of every section, outer sections first.
    pub fn sections() -> Vec<(String, &'static str)> {
        let mut sections = Vec::new();
        <Policy as Section>::sections("", &mut |path, doc| sections.push((path, doc)));
        sections
    }

    /// Path of every switch, and this policy's value.
    pub fn values(&self) -> Vec<(String, Value<'static>)> {
        let mut values = Vec::new();
        self.clone().visit("", &mut |switch| values.push((switch.path, switch.value.get())));
        values
    }

    /// The value of a switch; `None` if there is no such switch.
    pub fn get(&self, path: &str) -> Option<Value<'static>> {
        self.values().into_iter().find(|(known, _)| known == path).map(|(_, value)| value)
    }

    /// Sets a switch.
    ///
    /// # Errors
    /// If there is no such switch, or the value is none of those that it may be set to.
    pub fn set(&mut self, path: &str, value: Value<'_>) -> Result<(), PolicyError> {
        let mut result = Err(PolicyError::Unknown);
        self.visit("", &mut |mut switch| {
            if switch.path == path {
                result = switch.set(value);
            }
        });
        result
    }

    /// The switches with different values in another policy, including policies with code; names
    /// and kernels do not count.
    pub fn differences(&self, to: &Policy) -> Vec<Difference> {
        let pairs = self.values().into_iter().zip(to.values());
        let mut differences: Vec<Difference> = pairs
            .filter(|((_, from), (_, to))| from != to)
            .map(|((path, from), (_, to))| Difference { path, from, to })
            .collect();
        if self.own != to.own {
            let [from, to] = [self, to].map(|p| Value::Choice(p.own.name().unwrap_or("none")));
            differences.push(Difference { path: "own".into(), from, to });
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn patches_of_the_next_release_bring_its_counter() {
        let counters = |name: &str| crate::config::preset(name).unwrap().counters();
        assert_eq!(counters("kswapd-inline"), KernelVersion::new(4, 5));
        assert_eq!(counters("kcompactd"), KernelVersion::new(4, 6));
        assert_eq!(counters("congestion-wait-5.15"), KernelVersion::new(5, 15));
        assert_eq!(counters("series-8"), KernelVersion::new(5, 16));
        let mut old = crate::config::preset("5.4").unwrap();
        old.reclaim.throttle.node_pass = NodePassWait::Writeback;
        assert_eq!(old.counters(), KernelVersion::new(5, 4), "no counters of 5.5 to 5.15");
    }

    #[test]
    fn every_switch_is_described_and_can_be_set_to_each_of_its_values() {
        let mut paths = BTreeSet::new();
        for field in Policy::describe() {
            let path = field.path.as_str();
            assert!(paths.insert(field.path.clone()), "{path} is declared twice");
            assert!(field.doc.ends_with('.') && !field.doc.contains("  "), "{path}");
            assert!(field.values.contain(field.default), "{path}");
            let mut policy = Policy::default();
            for rank in 0..field.values.nr_drawn() {
                let value = field.values.drawn(rank);
                assert_eq!(policy.set(path, value), Ok(()), "{path} = {value}");
                assert_eq!(policy.get(path), Some(value));
            }
            if let Values::Choices(choices) = field.values {
                assert!(choices.len() > 1, "{path} chooses");
                assert!(choices.iter().all(|choice| choice.doc.ends_with('.')), "{path}");
            }
        }
        assert!(paths.len() > 50, "all sections were visited");
    }

    #[test]
    fn every_section_is_described() {
        let sections = Policy::sections();
        let described: Vec<&str> = sections.iter().map(|(path, _)| path.as_str()).collect();
        let mut used = Vec::new();
        for field in Policy::describe() {
            let mut path = field.path.as_str();
            while let Some((section, _)) = path.rsplit_once('.') {
                used.push(section.to_string());
                path = section;
            }
        }
        assert!(used.iter().all(|section| described.contains(&section.as_str())), "{described:?}");
        assert!(described.iter().all(|path| used.iter().any(|section| section == path)));
        assert!(sections.iter().all(|(_, doc)| doc.ends_with('.')), "{sections:?}");
    }

    #[test]
    fn values_that_a_switch_does_not_have_are_refused() {
        let before = Policy::default();
        let mut policy = before.clone();
        let mut refused = |path, value| policy.set(path, value).unwrap_err().to_string();
        let choice = Value::Choice("order1");
        let known = "must be one of order0, high-order15, high-order14";
        assert_eq!(refused("pcp.lists", choice), known);
        assert_eq!(refused("pcp.lists", Value::Bool(true)), known);
        assert_eq!(refused("pcp.refill-falls-back", choice), "must be true or false");
        let number = Value::Number(2);
        assert_eq!(refused("pcp.refill-falls-back", number), "must be true or false");
        for number in [0, 32].map(Value::Number) {
            assert_eq!(refused("reclaim.lru-batch", number), "must be a number from 1 to 31");
        }
        for unknown in ["pcp", "pcp.list", "name", "reclaim.throttle", ""] {
            assert_eq!(refused(unknown, choice), "unknown field", "{unknown}");
        }
        assert_eq!(policy, before);
        assert_eq!(policy.get("pcp.list"), None);
        for on in [true, false] {
            policy.set("pcp.refill-falls-back", Value::Number(on.into())).unwrap();
            assert_eq!(policy.get("pcp.refill-falls-back"), Some(Value::Bool(on)));
        }
    }

    #[test]
    fn differences_have_both_values() {
        let from = Policy::default();
        let mut to = from.clone();
        to.name = "other".to_string();
        to.reclaim.throttle.node_pass_jiffies += 1;
        to.pcp.lists = PcpLists::HighOrder14;
        let texts: Vec<_> = from.differences(&to).iter().map(ToString::to_string).collect();
        let jiffies = "reclaim.throttle.node-pass-jiffies: 25 -> 26";
        assert_eq!(texts, ["pcp.lists: order0 -> high-order14", jiffies]);
        assert_eq!(from.differences(&from), []);
    }

    #[test]
    fn names_are_in_kebab_case() {
        assert_eq!(table::kebab!(HighOrder15), "high-order15");
        assert_eq!(table::kebab!(BlkMqDead), "blk-mq-dead");
        assert_eq!(table::kebab!(anon_workingset), "anon-workingset");
        assert_eq!(table::kebab!(lru), "lru");
    }
}
