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

use highwater_core::vm::Mm;
use highwater_results::Column;
use highwater_results::column::{Kind, Owner, Unit};
use highwater_sim::host::SimHost;

use crate::sampling::{More, PressureNow};

/// Columns of a task.
const PARTS: [&str; 4] = ["anon", "file", "swap", "tables"];

/// The columns of a task.
pub(crate) fn columns_of(task: &str) -> [Column; PARTS.len()] {
    let of = || Owner::Task { task: task.to_owned() };
    PARTS.map(|part| Column::new(of(), part, Unit::Pages, Kind::Level))
}

/// The address spaces of tasks, by task number; exited ones are removed at the next look.
#[derive(Default)]
pub(super) struct Memory {
    mms: RefCell<Vec<(usize, Weak<Mm<SimHost>>)>>,
}

impl Memory {
    /// A copy of a task has an address space.
    pub(super) fn add(&self, task: usize, mm: &Arc<Mm<SimHost>>) {
        self.mms.borrow_mut().push((task, Arc::downgrade(mm)));
    }

    /// The columns of tasks with these names.
    pub(super) fn columns(self: &Rc<Memory>, names: impl Iterator<Item = String>) -> More {
        let me = Rc::clone(self);
        let names: Vec<String> = names.collect();
        let columns = names.iter().flat_map(|task| columns_of(task)).collect();
        let read = move |_: &PressureNow<'_>, each: &mut dyn FnMut(u64)| {
            let mut sums = vec![[0; PARTS.len()]; names.len()];
            me.mms.borrow_mut().retain(|(task, mm)| {
                let Some(mm) = mm.upgrade() else { return false };
                let rss = &mm.rss;
                let parts = [&rss.anon, &rss.file, &rss.swap, &rss.tables];
                for (sum, part) in sums[*task].iter_mut().zip(parts) {
                    *sum += part.load(Relaxed);
                }
                true
            });
            sums.into_iter().flatten().for_each(each);
        };
        More { columns, read: Rc::new(read) }
    }
}
