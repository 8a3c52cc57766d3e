//! posix_fadvise (rules/page-cache#fadvise).

use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe};
use crate::kernel::Kernel;
use crate::page::{PAGE_SHIFT, PAGE_SIZE};
use crate::page_cache::{OpenFile, ReadMode};
use crate::sync::atomic::Ordering::Relaxed;
use crate::writeback::WriteReason;

/// Advice on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Readahead as usual.
    Normal,
    /// Twice the readahead.
    Sequential,
    /// No readahead.
    Random,
    /// Read it now.
    WillNeed,
    /// Drop it.
    DontNeed,
    /// Mappings of the descriptor count as without recency until it gets NORMAL advice (6.3 on;
    /// nothing before).
    NoReuse,
}

impl<H: Devices> Kernel<H> {
    /// Applies advice to bytes `pos..pos+len` of a file (`len` 0 = to the end).
    #[doc(alias = "generic_fadvise")]
    pub fn fadvise(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, pos: u64, len: u64, advice: Advice) {
        let _phase = cx.phase(Phase::Advise);
        cx.charge(Cost::Syscall, 1);
        if open.file.is_memory() {
            // There is no disk to read from or to write to.
            return;
        }
        let end = if len == 0 { u64::MAX } else { pos.saturating_add(len) };
        match advice {
            Advice::Normal => {
                open.no_reuse.store(false, Relaxed);
                self.set_read_mode(cx, open, self.ra_pages(&open.file), ReadMode::Normal);
            }
            Advice::Sequential => {
                let ra_pages = self.ra_pages(&open.file).saturating_mul(2);
                self.set_read_mode(cx, open, ra_pages, ReadMode::Sequential);
            }
            Advice::Random => {
                let ra_pages = open.readahead.lock(cx.cpu()).ra_pages;
                self.set_read_mode(cx, open, ra_pages, ReadMode::Random);
            }
            Advice::WillNeed => {
                let (first, last) = (to_index(pos), to_index((end - 1).max(pos)));
                self.readahead_forced(cx, open, first, (last - first).saturating_add(1));
            }
            Advice::DontNeed => self.drop_range(cx, open, pos, end),
            Advice::NoReuse => open.no_reuse.store(true, Relaxed),
        }
    }

    fn set_read_mode(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, ra_pages: u32, mode: ReadMode) {
        let mut state = open.readahead.lock(cx.cpu());
        (state.ra_pages, state.mode) = (ra_pages, mode);
    }

    /// Starts writing dirty pages, and drops droppable ones. Pages may be in batches of any CPU:
    /// this CPU's are drained first; if a page could not be dropped, all are drained and the drop
    /// is repeated once.
    fn drop_range(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, pos: u64, end: u64) {
        let file = &open.file;
        let dirty = (to_index(pos), to_index((end - 1).max(pos)).saturating_add(1));
        self.write_file_pages(cx, file, dirty, u64::MAX, WriteReason::Foreground);
        let Some((first, end)) = whole_pages(pos, end, file.size()) else { return };
        self.lru_add_drain(cx);
        let (_, failed) = self.invalidate(cx, file, first, end);
        if failed > 0 {
            self.lru_add_drain_all(cx);
            self.invalidate(cx, file, first, end);
        }
    }
}

fn to_index(pos: u64) -> u32 {
    u32::try_from(pos >> PAGE_SHIFT).unwrap_or(u32::MAX)
}

/// The whole pages of bytes `pos..end`; the last page counts as whole if the range reaches the end
/// of the file exactly, or nothing ends in it.
fn whole_pages(pos: u64, end: u64, size: u64) -> Option<(u32, u32)> {
    let first = to_index(pos.saturating_add(PAGE_SIZE as u64 - 1));
    let end = if end == size { end.div_ceil(PAGE_SIZE as u64) } else { end >> PAGE_SHIFT };
    let end = u32::try_from(end).unwrap_or(u32::MAX);
    (first < end).then_some((first, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_pages_stay_but_for_the_last_of_the_file() {
        let size = 3 * 4096 + 100;
        assert_eq!(whole_pages(0, 4096, size), Some((0, 1)));
        assert_eq!(whole_pages(1, 8192, size), Some((1, 2)));
        assert_eq!(whole_pages(0, 4095, size), None);
        assert_eq!(whole_pages(0, size, size), Some((0, 4)));
        assert_eq!(whole_pages(0, size - 1, size), Some((0, 3)));
        assert_eq!(whole_pages(0, u64::MAX, size), Some((0, u32::MAX)));
        assert_eq!(whole_pages(5000, 8000, size), None);
    }
}
