//! Files of a job: bounds of their growth, the descriptors that tasks hold, and deletion.
//!
//! A deleted file has lost its name: the next open finds a new, empty one. Its pages are freed,
//! dirty or not, once no task maps it and no operation on it is in progress. An inode likewise goes
//! with its last reference.

use std::cell::{Cell, RefCell};
use std::mem::replace;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use highwater_core::host::{Cost, Cx, Devices, IoError, Probe};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, FileSpec, OpenFile};

/// Parameters of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileHow {
    /// Its place, its initial size, and its maximum size.
    pub spec: FileSpec,
    /// Appends extend it. Otherwise it has its full size from the beginning, and each task
    /// overwrites it from its start.
    pub grows: bool,
    /// A full file is overwritten from its start. Otherwise the disk is full.
    pub wraps: bool,
}

/// Descriptors of a task, by number of the file; `None`: closed, since the file was deleted.
pub(super) type Descriptors<H> = RefCell<Vec<Option<Arc<OpenFile<H>>>>>;

/// Files of a job, by number.
pub struct Files<H: Devices> {
    named: RefCell<Vec<Named<H>>>,
    /// Files without a name whose pages are still in use.
    deleted: RefCell<Vec<Arc<File<H>>>>,
    /// Descriptors of all tasks.
    tables: RefCell<Vec<Weak<Descriptors<H>>>>,
}

struct Named<H: Devices> {
    how: FileHow,
    file: Arc<File<H>>,
    grows: Cell<bool>,
    /// Position of the next append, for a file that grows: operations in progress have their
    /// positions before the file's size includes them.
    end: Cell<u64>,
    cut: Cell<Cut>,
}

/// Number of times that a file was truncated or deleted, and its size after the last time. A task
/// that follows the file needs this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    times: u64,
    to: u64,
}

impl<H: Devices> Named<H> {
    fn cut(&self, bytes: u64) {
        self.end.set(self.end.get().min(bytes));
        self.grows.set(true);
        self.cut.set(Cut { times: self.cut.get().times + 1, to: bytes });
    }
}

impl<H: Devices> Files<H> {
    /// Makes files.
    pub fn create(
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        files: impl IntoIterator<Item = FileHow>,
    ) -> Files<H> {
        let named = files.into_iter().map(|how| Named {
            how,
            file: kernel.create_file(cx, how.spec),
            grows: Cell::new(how.grows),
            end: Cell::new(how.spec.size),
            cut: Cell::default(),
        });
        let named = RefCell::new(named.collect());
        Files { named, deleted: RefCell::default(), tables: RefCell::default() }
    }

    /// Existing files that do not grow.
    pub fn of(files: impl IntoIterator<Item = Arc<File<H>>>) -> Files<H> {
        let named = files.into_iter().map(|file| Named {
            how: FileHow { spec: file.spec, grows: false, wraps: true },
            grows: Cell::new(false),
            end: Cell::new(file.size()),
            cut: Cell::default(),
            file,
        });
        let named = RefCell::new(named.collect());
        Files { named, deleted: RefCell::default(), tables: RefCell::default() }
    }

    /// Descriptors of a task that starts.
    pub(super) fn opened(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) -> Rc<Descriptors<H>> {
        let open = |named: &Named<H>| Some(kernel.open(cx, &named.file));
        let table = Rc::new(RefCell::new(self.named.borrow().iter().map(open).collect()));
        let mut tables = self.tables.borrow_mut();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(Rc::downgrade(&table));
        table
    }

    /// A task's descriptor of a file; one that was closed is opened again.
    pub(super) fn descriptor(
        &self,
        (kernel, cx): (&Kernel<H>, &Cx<'_, H>),
        table: &Descriptors<H>,
        number: usize,
    ) -> Arc<OpenFile<H>> {
        let open = || kernel.open(cx, &self.named.borrow()[number].file);
        Arc::clone(table.borrow_mut()[number].get_or_insert_with(open))
    }

    /// Maximum size of a file, bytes.
    pub(super) fn room(&self, number: usize) -> u64 {
        u64::from(self.named.borrow()[number].how.spec.max_pages) * PAGE_SIZE as u64
    }

    /// True if appends extend it.
    pub(super) fn grows(&self, number: usize) -> bool {
        self.named.borrow()[number].grows.get()
    }

    /// True if it has a bound and is overwritten when it is full.
    pub(super) fn wraps(&self, number: usize) -> bool {
        self.named.borrow()[number].how.wraps
    }

    /// The truncations of a file so far.
    pub(super) fn cut(&self, number: usize) -> Cut {
        self.named.borrow()[number].cut.get()
    }

    /// Position of an append that extends a file.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) fn append_at(&self, number: usize, bytes: u64) -> Result<u64, Error> {
        let (room, named) = (self.room(number), self.named.borrow());
        let named = &named[number];
        let at = match named.end.get() {
            end if end.saturating_add(bytes) <= room => end,
            _ if named.how.wraps => 0,
            _ => return Err(Error::Io(IoError::NoSpace)),
        };
        named.end.set(at + bytes);
        Ok(at)
    }

    /// Truncates a file to at most `bytes`, rounded to whole pages.
    pub(super) fn truncate(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        (number, bytes): (usize, u64),
    ) {
        let file = {
            let named = &self.named.borrow()[number];
            named.cut(bytes);
            Arc::clone(&named.file)
        };
        cx.charge(Cost::Syscall, 1);
        let pages = u32::try_from(bytes.div_ceil(PAGE_SIZE as u64)).unwrap_or(u32::MAX);
        kernel.truncate(cx, &file, pages);
    }

    /// Removes a file's name: a new, empty file gets it.
    pub(super) fn delete(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, number: usize) {
        cx.charge(Cost::Syscall, 1);
        let old = {
            let named = &mut self.named.borrow_mut()[number];
            named.cut(0);
            let new = kernel.create_file(cx, named.how.spec.with_size(0));
            replace(&mut named.file, new)
        };
        let tables: Vec<_> = self.tables.borrow().iter().filter_map(Weak::upgrade).collect();
        tables.iter().for_each(|table| drop(table.borrow_mut()[number].take()));
        self.deleted.borrow_mut().push(old);
        self.sweep(kernel, cx);
    }

    /// Frees deleted files that are not in use any more.
    pub(super) fn sweep(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        loop {
            let unused = {
                let mut deleted = self.deleted.borrow_mut();
                let at = deleted.iter().position(|file| !file.is_open());
                at.map(|at| deleted.remove(at))
            };
            // Freeing takes time, in which other tasks may delete files.
            let Some(file) = unused else { return };
            kernel.delete_file(cx, &file);
        }
    }
}

/// Positions of a task in its files.
pub(super) struct Places {
    files: Vec<Place>,
}

#[derive(Clone, Default)]
struct Place {
    /// Blocks that it has appended to a file that does not grow.
    appended: u64,
    /// Position of its next sequential read.
    read: u64,
    /// The truncations of the file before that.
    cut: Cut,
    /// Position of its next sequential write.
    written: u64,
    /// Ranges that it has read and written since its last advice; `None`: it never gives such
    /// advice.
    behind: Option<Vec<(u64, u64)>>,
}

impl Places {
    /// Positions at the start of each file. The ranges are recorded for files where `keeps` returns
    /// true.
    pub(super) fn new(nr_files: usize, keeps: impl Fn(usize) -> bool) -> Places {
        let place = |file| Place { behind: keeps(file).then(Vec::new), ..Place::default() };
        Places { files: (0..nr_files).map(place).collect() }
    }

    /// The number of the block that an append overwrites.
    pub(super) fn append(&mut self, file: usize, blocks: u64) -> u64 {
        let next = &mut self.files[file].appended;
        let at = *next % blocks.max(1);
        *next = at + 1;
        at
    }

    /// Position of a sequential read or write of a block in a file of `size` bytes; wraps around at
    /// its end.
    pub(super) fn next(&mut self, file: usize, is_write: bool, (bytes, size): (u64, u64)) -> u64 {
        let place = &mut self.files[file];
        let next = if is_write { &mut place.written } else { &mut place.read };
        let at = if next.saturating_add(bytes) > size { 0 } else { *next };
        *next = at + bytes;
        at
    }

    /// The new part of a file of `size` bytes: its start and its length.
    pub(super) fn new_in(&mut self, file: usize, (size, cut): (u64, Cut)) -> (u64, u64) {
        let place = &mut self.files[file];
        if place.cut != cut {
            place.read = place.read.min(cut.to);
            place.cut = cut;
        }
        (place.read, size.saturating_sub(place.read))
    }

    /// Marks `bytes` bytes of the new part as read.
    pub(super) fn take_new(&mut self, file: usize, bytes: u64) {
        self.files[file].read += bytes;
    }

    /// Records a read or a write.
    pub(super) fn pass(&mut self, file: usize, at: u64, bytes: u64) {
        let Some(behind) = &mut self.files[file].behind else { return };
        match behind.last_mut() {
            Some((_, end)) if *end == at => *end += bytes,
            _ => behind.push((at, at + bytes)),
        }
    }

    /// Takes the ranges of bytes that were read and written since the last call.
    pub(super) fn take_behind(&mut self, file: usize) -> Vec<(u64, u64)> {
        self.files[file].behind.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_goes_on_where_it_was() {
        let mut places = Places::new(2, |file| file == 0);
        let mut read = |bytes| places.next(0, false, (bytes, 100));
        assert_eq!([read(30), read(30), read(40), read(30)], [0, 30, 60, 0]);
        assert_eq!([read(60), read(60)], [30, 0], "the end is not read in part");
        assert_eq!(places.next(0, true, (10, 100)), 0, "writes have a place of their own");
        assert_eq!(places.next(1, false, (10, 100)), 0);
        assert_eq!(places.next(1, false, (1000, 100)), 0, "a block larger than the file");
        assert_eq!([places.append(1, 2), places.append(1, 2), places.append(1, 2)], [0, 1, 0]);
    }

    #[test]
    fn what_is_behind_is_said_once() {
        let mut places = Places::new(2, |file| file == 0);
        for (at, bytes) in [(0, 10), (10, 10), (50, 5), (55, 5)] {
            places.pass(0, at, bytes);
            places.pass(1, at, bytes);
        }
        assert_eq!(places.take_behind(0), [(0, 20), (50, 60)]);
        assert_eq!((places.take_behind(0), places.take_behind(1)), (vec![], vec![]));
    }

    #[test]
    fn what_is_new_is_taken_once() {
        let mut places = Places::new(1, |_| false);
        let none = Cut::default();
        assert_eq!(places.new_in(0, (100, none)), (0, 100));
        places.take_new(0, 80);
        assert_eq!(places.new_in(0, (100, none)), (80, 20));
        let cut = |times, to| Cut { times, to };
        assert_eq!(places.new_in(0, (100, cut(1, 90))), (80, 20), "cut behind it");
        assert_eq!(places.new_in(0, (80, cut(2, 0))), (0, 80), "it has grown again");
    }
}
