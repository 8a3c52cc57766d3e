//! Switches of transparent huge pages.

use super::table::policy;

policy! {
    /// Transparent huge pages.
    ThpPolicy {
        /// What `transparent_hugepage/defrag` says where a machine does not set it.
        // rules/huge-pages#defrag
        defrag: DefragDefault = Always {
            /// `always` (up to 4.5).
            Always,
            /// `madvise`.
            Madvise,
        },
        /// How hard a fault may try that `defrag` lets reclaim.
        // rules/huge-pages#defrag
        effort: ThpEffort = Once {
            /// One round, whether the program asked for huge pages or not (up to 4.6).
            Once,
            /// One round, more where the program asked for huge pages.
            ByAdvice,
        },
        /// Which nodes a fault's huge page may come from.
        // rules/huge-pages#nodes
        nodes: HugeNodes = Here {
            /// Any, by the zonelist (4.0).
            Everywhere,
            /// The CPU's own (4.1 to 5.3).
            Here,
            /// The CPU's own without reclaim; then any, if the request may reclaim (5.4 on).
            HereFirst,
        },
        /// What a write to a huge page does that a fork shared.
        // rules/huge-pages#write
        write: HugeWrite = Copy {
            /// It copies all of it to a new one, if there is one (up to 5.7).
            Copy,
            /// It splits the mapping and copies one page (5.8 on).
            Split,
        },
        /// What becomes of a huge page that goes to swap.
        // rules/huge-pages#swap
        swap: ThpSwap = Split {
            /// It is split; its pages go one by one.
            Split,
            /// It goes in one piece if 512 slots in a row are free.
            Whole,
        },
    }
}
