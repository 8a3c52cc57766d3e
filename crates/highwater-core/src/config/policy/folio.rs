//! Switches of large folios of files.

use super::table::policy;

policy! {
    /// Large folios in the page cache.
    FolioPolicy {
        /// The files that get folios of more than a page.
        // rules/large-folios#files
        file: FileFolios = None {
            /// No file. Up to 5.17; and presets up to 6.1, although XFS has them from 5.18 on.
            None,
            /// Files of XFS, by readahead (5.18 to 6.5).
            XfsReads,
            /// Files of XFS, by readahead and by writes (6.6 on).
            Xfs,
            /// Files of every disk filesystem (6.16 on).
            All,
        },
        /// Readahead may make folios of two pages (6.1 makes none, 6.12 does).
        // rules/large-folios#readahead
        order1: bool = false,
        /// The pages that a fault on a cached file maps besides those of its window.
        // rules/large-folios#faults
        fault_maps: FaultMaps = Window {
            /// None (up to 6.17).
            Window,
            /// All of a folio of which the window has a part, if it lies in the VMA and in one page
            /// table (6.18 on).
            Folio,
        },
        /// Unmapping marks a folio as used once for entries that follow each other (6.9 on); false:
        /// once for each young entry.
        // rules/unmap#young
        marks_runs: bool = false,
        /// Pieces of a folio that a truncation cuts.
        // rules/large-folios#truncation
        truncate: FolioCut = Pages {
            /// Single pages (up to 6.14).
            Pages,
            /// Halves, down to the page with the first byte that is cut off (6.15 on).
            Halves,
        },
        /// Folios of files that compaction moves besides single pages.
        // rules/compaction#large-folios
        compact_moves: CompactMoves = None {
            /// None: they stay (up to 6.8).
            None,
            /// Folios below the order that is wanted, each as one (6.9 on).
            BelowTarget,
        },
    }
}
