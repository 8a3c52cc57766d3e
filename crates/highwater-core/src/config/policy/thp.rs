//! Switches of transparent huge pages.

use super::table::policy;

policy! {
    /// Transparent huge pages.
    ThpPolicy {
        /// Value of `transparent_hugepage/defrag` on machines that do not set it.
        // rules/huge-pages#defrag
        defrag: DefragDefault = Always {
            /// `always` (up to 4.5).
            Always,
            /// `madvise`.
            Madvise,
        },
        /// How hard a fault tries to get a huge page where `defrag` lets it reclaim.
        // rules/huge-pages#defrag
        effort: ThpEffort = Once {
            /// One round, whether the program asked for huge pages or not (up to 4.6).
            Once,
            /// One round; more where the program asked for huge pages.
            ByAdvice,
        },
        /// Nodes from which a fault may take a huge page.
        // rules/huge-pages#nodes
        nodes: HugeNodes = Here {
            /// Any node, by the zonelist (4.0).
            Everywhere,
            /// The CPU's node (4.1 to 5.3).
            Here,
            /// The CPU's node without reclaim; then any node, if the request may reclaim (5.4 on).
            HereFirst,
        },
        /// Handling of a write to a huge page that fork shared.
        // rules/huge-pages#write
        write: HugeWrite = Copy {
            /// It copies the whole page to a new huge page, if there is one (up to 5.7).
            Copy,
            /// It splits the mapping and copies one page (5.8 on).
            Split,
        },
        /// Handling of a huge page that goes to swap.
        // rules/huge-pages#swap
        swap: ThpSwap = Split {
            /// It is split, and its pages go to swap one by one.
            Split,
            /// It goes to swap in one piece if 512 slots in a row are free.
            Whole,
        },
    }
}
