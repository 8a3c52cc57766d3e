//! The kernel as the page cache's [`DirtyAccount`]: writeback counts, reclaim waits.

use alloc::sync::Arc;

use super::Kernel;
use crate::host::{Cx, Devices};
use crate::page::Folio;
use crate::page_cache::{DirtyAccount, File};
use crate::zone::NodeId;

impl<H: Devices> DirtyAccount<H> for Kernel<H> {
    fn page_dirtied(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, folio: Folio) {
        self.count_dirtied(cx, file, folio.nr_pages());
        self.note_dirty_owner(file, folio);
    }

    fn page_redirtied(&self, file: &File<H>, pages: u64) {
        self.writeback_of(file).redirtied(pages);
    }

    fn page_cleaned(&self, file: &File<H>, pages: u64) {
        self.writeback_of(file).cleaned(pages);
    }

    fn file_dirtied(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, folio: Folio) {
        if self.queue_dirty_file(cx, file) {
            self.set_dirty_owner(file, folio);
        }
    }

    fn file_deleted(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>) {
        self.forget_dirty_file(cx, file);
    }

    fn write_started(&self, file: &File<H>, pages: u64) {
        self.writeback_of(file).write_started(pages);
    }

    fn write_done(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, node: NodeId, pages: u64) {
        if let Some(file) = file {
            self.count_written(cx, file, pages);
        }
        self.account_writeback_end(cx, node, pages);
    }

    fn hold_up_writer(&self, cx: &Cx<'_, H>, file: &File<H>, pages: u32) {
        self.balance_dirty_pages(cx, file, pages);
    }
}
