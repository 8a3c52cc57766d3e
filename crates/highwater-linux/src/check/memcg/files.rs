//! Files and directories of a script.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use highwater_core::host::Cx;
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, FileSpec, Filesystem, InodeMemory};
use highwater_results::import::linux61::{Line, Op, Work};
use highwater_sim::host::SimHost;
use highwater_workloads::scenario::{FileMaker, ScenarioError};

use super::super::machine;
use super::desk::Pace;

type Held = Arc<File<SimHost>>;

/// Bytes of an empty file on the disk: its inode, and its name with a header.
const INODE_BYTES: u64 = 256;
const ENTRY_BYTES: u64 = 16;

/// Everything that has a name on the disk.
pub(super) struct World {
    files: RefCell<BTreeMap<String, Held>>,
    directories: RefCell<BTreeMap<String, Vec<Held>>>,
    /// First page of the disk that no file has.
    next_page: Cell<u64>,
    /// Files that are written to after they were made.
    written: BTreeSet<String>,
}

impl World {
    /// The files that workers write to without `mkfile` are there from the beginning, empty.
    pub(super) fn new(kernel: &Kernel<SimHost>, cx: &Cx<'_, SimHost>, script: &[Line]) -> World {
        let (mut sizes, mut made) = (BTreeMap::<&str, u32>::new(), BTreeSet::new());
        for line in script {
            match &line.op {
                Op::MakeFile { file, .. } => {
                    made.insert(file.as_str());
                }
                Op::Work { work: Work::Write { file, pages }, .. }
                | Op::Work { work: Work::WriteRandom { file, pages, .. }, .. } => {
                    let size = sizes.entry(file).or_default();
                    *size = (*size).max(*pages);
                }
                _ => {}
            }
        }
        let world = World {
            files: RefCell::default(),
            directories: RefCell::default(),
            next_page: Cell::new(0),
            written: sizes.keys().map(|&name| name.to_owned()).collect(),
        };
        for (name, pages) in sizes.into_iter().filter(|(name, _)| !made.contains(name)) {
            let file = world.empty_file(kernel, cx, pages);
            world.files.borrow_mut().insert(name.to_owned(), file);
        }
        world
    }

    /// A file with room for so many pages.
    fn empty_file(&self, kernel: &Kernel<SimHost>, cx: &Cx<'_, SimHost>, pages: u32) -> Held {
        let start = self.next_page.get();
        self.next_page.set(start + u64::from(pages));
        let spec = FileSpec::new(Filesystem::EXT4, machine::DATA, start, pages).with_size(0);
        kernel.create_file(cx, spec)
    }

    /// `mkfile`.
    pub(super) fn make_file(
        &self,
        kernel: &Kernel<SimHost>,
        cx: &Cx<'_, SimHost>,
        name: &str,
        pages: u32,
    ) -> Result<(), ScenarioError> {
        let maker = FileMaker { kernel, data: machine::DATA, next_page: self.next_page.clone() };
        let file = maker.make(cx, u64::from(pages), self.written.contains(name))?;
        self.next_page.set(maker.next_page.get());
        self.files.borrow_mut().insert(name.to_owned(), file);
        Ok(())
    }

    pub(super) fn file(&self, name: &str) -> Result<Held, Error> {
        self.files.borrow().get(name).cloned().ok_or(Error::Invalid)
    }

    /// `mkd`: empty files, each with an inode and a dentry in memory, and on the disk an inode in
    /// the table and an entry in the directory. Both are written through the page cache; ext4 keeps
    /// inodes of 256 bytes.
    pub(super) fn make_directory(
        &self,
        kernel: &Kernel<SimHost>,
        cx: &Cx<'_, SimHost>,
        name: &str,
        files: u64,
        pace: Pace,
    ) -> Result<u64, Error> {
        let mut all = Vec::new();
        let on_disk = [INODE_BYTES, ENTRY_BYTES].map(|bytes| {
            let pages = (files * bytes).div_ceil(PAGE_SIZE as u64) as u32;
            (kernel.open(cx, &self.empty_file(kernel, cx, pages)), bytes)
        });
        for at in 0..files {
            for (open, bytes) in &on_disk {
                kernel.file_write(cx, open, at * bytes, *bytes)?;
                // A filesystem marks the blocks of its metadata as used at each look.
                let page = (at * bytes / PAGE_SIZE as u64) as u32;
                if let Some(folio) = kernel.find_get_page(cx, &open.file, page) {
                    kernel.mark_accessed(cx, folio);
                    kernel.put_page(cx, folio);
                }
            }
            let spec = FileSpec::new(Filesystem::EXT4, machine::DATA, 0, 0);
            let file = kernel.create_file(cx, spec.with_inode(InodeMemory::Slab));
            drop(kernel.open_path(cx, &file)?);
            all.push(file);
            pace.keep(cx, at + 1, files);
            if cx.is_dying() {
                return Err(Error::Killed);
            }
        }
        self.directories.borrow_mut().insert(name.to_owned(), all);
        Ok(files)
    }

    /// `stat`: finds the inodes, or makes them again.
    pub(super) fn stat(
        &self,
        kernel: &Kernel<SimHost>,
        cx: &Cx<'_, SimHost>,
        directory: &str,
        files: u64,
        pace: Pace,
    ) -> Result<u64, Error> {
        let all = self.directories.borrow().get(directory).cloned().ok_or(Error::Invalid)?;
        for (file, at) in all.iter().zip(0..files) {
            drop(kernel.open_path(cx, file)?);
            pace.keep(cx, at + 1, files);
            if cx.is_dying() {
                return Err(Error::Killed);
            }
        }
        Ok(files.min(all.len() as u64))
    }
}
