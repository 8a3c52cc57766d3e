//! The memory of a job's tasks over time: sample columns like those of a process's `smaps_rollup`.
//!
//! | column, pages | `smaps_rollup` |
//! |---|---|
//! | `task/NAME/anon` | `Anonymous` |
//! | `task/NAME/file` | `Rss` minus `Anonymous` |
//! | `task/NAME/swap` | `Swap` |
//! | `task/NAME/tables` | page tables, which `status` has as `VmPTE` |
//!
//! Each column is the sum over all copies of a task.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use highwater_core::vm::Space;
use highwater_sim::host::SimHost;

use super::super::sampling::More;

/// Columns of a task.
const PARTS: [&str; 4] = ["anon", "file", "swap", "tables"];

/// The address spaces of tasks, by task number; exited ones are removed at the next look.
#[derive(Default)]
pub(super) struct Memory {
    spaces: RefCell<Vec<(usize, Weak<Space<SimHost>>)>>,
}

impl Memory {
    /// A copy of a task has an address space.
    pub(super) fn add(&self, task: usize, space: &Arc<Space<SimHost>>) {
        self.spaces.borrow_mut().push((task, Arc::downgrade(space)));
    }

    /// The columns of tasks with these names.
    pub(super) fn columns(self: &Rc<Memory>, names: impl Iterator<Item = String>) -> More {
        let me = Rc::clone(self);
        let columns: Vec<[String; 4]> =
            names.map(|name| PARTS.map(|part| format!("task/{name}/{part}"))).collect();
        Rc::new(move |each| {
            let mut sums = vec![[0; 4]; columns.len()];
            me.spaces.borrow_mut().retain(|(task, space)| {
                let Some(space) = space.upgrade() else { return false };
                let rss = &space.rss;
                let parts = [&rss.anon, &rss.file, &rss.swap, &rss.tables];
                for (sum, part) in sums[*task].iter_mut().zip(parts) {
                    *sum += part.load(Relaxed);
                }
                true
            });
            for (columns, sums) in columns.iter().zip(sums) {
                columns.iter().zip(sums).for_each(|(column, sum)| each(column, sum));
            }
        })
    }
}
