//! Switches of memory cgroups.

use super::table::policy;

policy! {
    /// Memory cgroups.
    MemcgPolicy {
        /// Pages that a charge takes from the counters at once, and the most that a CPU keeps for
        /// a group (32 before 6.1, 64 then).
        charge_batch: u8 = 32 in (1..=128; 1, 32, 64),
        /// Groups for which a CPU keeps charged pages (1 up to 6.12, 7 in 7.2).
        stock_slots: u8 = 1 in (1..=7; 1, 7),
        /// When a task whose group is over `memory.high` reclaims and sleeps.
        high_sync: HighSync = ReturnToUser {
            /// On its way back to user space (5.10).
            ReturnToUser,
            /// On its way back to user space, and at the end of a charge once it is more than a
            /// batch over.
            AlsoInCharge,
        },
        /// Requests that may not block and find their group at its limit.
        atomic: AtomicCharge = Force {
            /// Atomic requests are charged above the limit (5.10).
            Force,
            /// Requests with the high-priority flag are charged above the limit; others fail.
            ForceIfHigh,
        },
        /// Groups that direct reclaim, and reclaim for a limit, visit in a pass.
        walk: GroupWalk = Full {
            /// All of the subtree.
            Full,
            /// Groups after the last one visited, until the target is reached (6.12 on).
            Partial,
        },
        /// Pages that a write to `memory.reclaim` asks for in one reclaim.
        reclaim_batch: ReclaimBatch = All {
            /// All that are missing.
            All,
            /// A quarter of those that are missing (6.12 on).
            Quarter,
        },
        /// Protection of the group whose limit or `memory.reclaim` is the reason for a reclaim.
        target_protected: TargetProtected = StaleAllowed {
            /// The values of an earlier walk still protect it.
            StaleAllowed,
            /// It is never protected (6.12 on).
            Never,
        },
        /// Counters in `/proc/vmstat` of the scans that a group's limit caused.
        scan_events: ScanEvents = GlobalOnly {
            /// `pgscan_direct`, `pgsteal_direct` and `pgrefill` count global reclaim only.
            GlobalOnly,
            /// They are statistics of the node and count all reclaim; `memory.reclaim` has counters
            /// of its own, `pgscan_proactive` and `pgsteal_proactive` (7.2).
            Node,
        },
        /// How late the statistics of groups are.
        stats: MemcgStats = Batches {
            /// Each CPU keeps up to 32 pages of each item for itself (5.10).
            Batches,
            /// Readers flush if enough updates are pending in all groups together.
            RstatGlobal,
            /// Readers of `memory.stat` flush if enough are pending in the subtree; reclaim reads
            /// numbers of the last periodic flush (6.12 on).
            RstatPerGroup,
        },
        /// The pages of a removed group go to its parent, behind the tails of its lists (7.2);
        /// false: they stay on the removed group's lists until they are reclaimed.
        // rules/memory-cgroups#removal
        reparent_lru: bool = false,
        /// A refused charge of a socket counts as `sock_throttled` in `memory.events` (7.2).
        // rules/memory-cgroups#sockets
        sock_throttled: bool = false,
        /// Version of the hierarchy that has the memory controller.
        // rules/memory-cgroups#v1
        hierarchy: GroupHierarchy = V2 {
            /// Limits, protection, `memory.high` and a limit of swap; dirty limits of each group.
            V2,
            /// Limits of memory, and of memory and swap together; soft limits and swappiness of
            /// each group; no dirty limits of groups.
            V1,
        } is exploratory,
        /// Global reclaim takes from groups over their soft limits first (version 1, up to 6.12);
        /// false: soft limits have no effect (7.2).
        // rules/memory-cgroups#v1-soft-limit
        soft_limit: bool = true,
        /// Protection that no child claims goes to the children's unclaimed usage (mount option
        /// `memory_recursiveprot`).
        recursive_prot: bool = false is exploratory,
    }
}
