//! One operation of a phase.

use std::sync::Arc;

use highwater_core::host::Devices;
use highwater_core::kernel::Error;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::OpenFile;
use highwater_core::vm::{Access, Backing, Fault, VmaFlags};

use super::pick::Pattern;
use super::run::{Ground, NO_TASK, Running, numbered};
use super::{Action, MapHow, Mapped, Touch};

/// A VMA that a task mapped.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    pub(super) start: u32,
    pub(super) pages: u32,
}

/// Counts of an operation, beside its latency.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) minor: u64,
    pub(super) major: u64,
    /// Pages that it requested, and the part of them that was in memory.
    pub(super) asked: u64,
    pub(super) found: u64,
    /// Blocks of memory that could not be allocated, pages that could not be reclaimed.
    pub(super) failed: u64,
}

impl Counted {
    pub(super) fn add(&mut self, other: Counted) {
        self.minor += other.minor;
        self.major += other.major;
        self.asked += other.asked;
        self.found += other.found;
        self.failed += other.failed;
    }
}

/// Blocks of a file that grows without a bound: more than any job writes.
const NO_BOUND: u64 = 1 << 40;

impl<H: Devices> Running<'_, '_, H> {
    /// Number of pages or blocks that a phase works on. `None` if the action has neither, or if its
    /// VMA is not mapped.
    pub(super) fn units(&self, action: &Action) -> Option<u64> {
        let files = self.ground.files;
        match *action {
            Action::Touch { area, .. } | Action::Advise { area, pattern: Some(_), .. } => {
                self.areas[area].map(|area| area.pages.into())
            }
            Action::Read { file, bytes, pattern: Pattern::Follow } => {
                let size = self.open(file).file.size();
                let (_, new) = self.places.borrow_mut().new_in(file, (size, files.cut(file)));
                Some(new.div_ceil(bytes.max(1)))
            }
            Action::Read { file, bytes, .. } => Some(blocks(self.open(file).file.size(), bytes)),
            Action::Write { file, .. } | Action::Append { file, .. } if !files.wraps(file) => {
                Some(NO_BOUND)
            }
            Action::Write { file, bytes, .. } | Action::Append { file, bytes } => {
                Some(blocks(files.room(file), bytes))
            }
            _ => None,
        }
    }

    /// A mapped VMA. Use of an unmapped one fails as it does for a program.
    fn area(&self, area: usize) -> Result<Area, Error> {
        self.areas[area].ok_or(Error::Fault)
    }

    /// The task's descriptor of a file.
    pub(super) fn open(&self, file: usize) -> Arc<OpenFile<H>> {
        self.ground.files.descriptor((self.ground.kernel, self.cx), &self.open, file)
    }

    pub(super) fn act(&mut self, action: &Action, at: u64) -> Result<Counted, Error> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let mut counted = Counted::default();
        match *action {
            Action::Map { area, of, how } => self.map(area, of, how)?,
            Action::Unmap { area } => {
                self.unmap(area)?;
                self.ground.files.sweep(kernel, cx);
            }
            Action::Touch { area, access, .. } => {
                let vpn = self.area(area)?.start + at as u32;
                let accesses: &[Access] = match access {
                    Touch::Read => &[Access::Read],
                    Touch::Write => &[Access::Write],
                    Touch::Update => &[Access::Read, Access::Write],
                };
                for &access in accesses {
                    match kernel.touch(cx, &self.mm, vpn, access)? {
                        Fault::None => {}
                        Fault::Minor => counted.minor += 1,
                        Fault::Major => counted.major += 1,
                    }
                }
                (counted.asked, counted.found) = (1, u64::from(counted.major == 0));
            }
            Action::Read { .. } | Action::Write { .. } | Action::Append { .. } => {
                counted = self.transfer(action, at)?;
                self.ground.files.sweep(kernel, cx);
            }
            Action::Fsync { file } => {
                kernel.fsync(cx, &self.open(file))?;
                self.ground.files.sweep(kernel, cx);
            }
            Action::Truncate { file, bytes } => {
                self.ground.files.truncate(kernel, cx, (file, bytes));
            }
            Action::Delete { file } => self.ground.files.delete(kernel, cx, file),
            Action::AdviseFile { file, advice, is_behind } => {
                let open = self.open(file);
                if is_behind {
                    let ranges = self.places.borrow_mut().take_behind(file);
                    for (start, end) in ranges {
                        kernel.fadvise(cx, &open, start, end - start, advice);
                    }
                } else {
                    kernel.fadvise(cx, &open, 0, 0, advice);
                }
            }
            Action::Advise { area, advice, pattern } => {
                let Area { start, pages } = self.area(area)?;
                let (start, pages) = match pattern {
                    Some(_) => (start + at as u32, 1),
                    None => (start, pages),
                };
                if pages > 0 {
                    kernel.madvise(cx, &self.mm, start, pages, advice)?;
                }
            }
            Action::Lock { area } => {
                let Area { start, pages } = self.area(area)?;
                if pages > 0 {
                    kernel.mlock(cx, &self.mm, start, pages)?;
                }
            }
            Action::Unlock { area } => {
                let Area { start, pages } = self.area(area)?;
                if pages > 0 {
                    kernel.munlock(cx, &self.mm, start, pages)?;
                }
            }
            Action::Exec => {
                self.mm = kernel.exec(cx, &self.mm)?;
                self.areas.fill(None);
                (self.ground.entered)(&self.mm);
            }
            Action::Fork { task } => {
                if !(self.ground.may_fork)() {
                    return Err(NO_TASK);
                }
                let child = kernel.fork(cx, &self.mm)?;
                // This task is in the group, so nobody has removed it.
                self.ground.groups.enter(self.group)?;
                (self.ground.fork)(task, (child, self.areas.clone(), self.group));
            }
            // The loop over the task's rounds handles it.
            Action::Exit => {}
            Action::Compute { ns } => (self.ground.compute)(cx, ns),
            Action::Sleep { ns } => self.rest(ns),
            Action::Wait { task } => (self.ground.wait)(cx, task),
            Action::Alloc(ask) => counted.failed = self.held.alloc(kernel, cx, ask),
            Action::Request(ref steps) => counted = self.request(steps)?,
            Action::Compact => kernel.compact_memory(cx),
            Action::DropCaches(what) => kernel.drop_caches(cx, what),
            Action::Proactiveness(percent) => {
                kernel.set_compaction_proactiveness(cx, percent.into());
            }
            Action::Policy(policy) => kernel.set_memory_policy(cx, policy)?,
            Action::SetGroup { group, setting } => {
                match self.ground.groups.set(kernel, cx, (group, setting)) {
                    // A limit of version 1 that does not fit: the old one stays.
                    Err(Error::Busy) => counted.failed = 1,
                    set => set?,
                }
            }
            Action::Reclaim { group, pages } => {
                counted.failed = self.ground.groups.reclaim(kernel, cx, (group, pages))?;
            }
            Action::RemoveGroup { group } => self.ground.groups.remove(kernel, cx, group)?,
            Action::Join { group } => self.join(group)?,
            Action::Connect { socket, is_unread } => self.connect(socket, is_unread),
            Action::Send { socket, bytes, waits } => {
                self.send(socket, bytes, waits)?;
            }
            Action::Receive { socket, bytes } => self.receive(socket, bytes)?,
            Action::Close { socket } => self.ends.close(kernel, cx, socket),
            Action::Mark(ref label) => {
                let label = label.as_deref().map(|label| numbered(label, self.round));
                (self.ground.mark)(cx, label);
            }
        }
        Ok(counted)
    }

    /// Moves the task to a group.
    fn join(&mut self, group: usize) -> Result<(), Error> {
        let Ground { kernel, groups, .. } = *self.ground;
        groups.enter(Some(group))?;
        groups.join(kernel, self.cx, (Some(&self.mm), Some(group)))?;
        groups.leave(self.group.replace(group));
        Ok(())
    }

    /// Reads or writes a block of a file.
    fn transfer(&self, action: &Action, at: u64) -> Result<Counted, Error> {
        let mut counted = Counted::default();
        let files = self.ground.files;
        match *action {
            Action::Read { file, bytes, pattern } => {
                let open = self.open(file);
                let size = open.file.size();
                let mut places = self.places.borrow_mut();
                let (at, bytes) = match pattern {
                    Pattern::Sequential => (places.next(file, false, (bytes, size)), bytes),
                    Pattern::Follow => {
                        let (at, new) = places.new_in(file, (size, files.cut(file)));
                        places.take_new(file, new.min(bytes));
                        // A read at the end of a file returns nothing.
                        (at, if new == 0 { bytes } else { new.min(bytes) })
                    }
                    _ => (at * bytes, bytes),
                };
                places.pass(file, at, bytes);
                drop(places);
                let (mut found, page) = (0, PAGE_SIZE as u64);
                let read =
                    self.ground.kernel.file_read_found(self.cx, &open, at, bytes, &mut found)?;
                counted.asked = if read == 0 { 0 } else { (at + read).div_ceil(page) - at / page };
                counted.found = found.min(counted.asked);
            }
            Action::Write { file, bytes, pattern } => {
                let at = match pattern {
                    Pattern::Sequential => {
                        self.places.borrow_mut().next(file, true, (bytes, files.room(file)))
                    }
                    _ => at * bytes,
                };
                self.write(file, at, bytes)?;
            }
            Action::Append { file, bytes } => {
                let at = match files.grows(file) {
                    true => files.append_at(file, bytes)?,
                    false => {
                        let blocks = blocks(files.room(file), bytes);
                        self.places.borrow_mut().append(file, blocks) * bytes
                    }
                };
                self.write(file, at, bytes)?;
            }
            _ => {}
        }
        Ok(counted)
    }

    fn write(&self, file: usize, at: u64, bytes: u64) -> Result<(), Error> {
        let open = self.open(file);
        self.places.borrow_mut().pass(file, at, bytes);
        let mut done = 0;
        while done < bytes {
            let n = self.ground.kernel.file_write(self.cx, &open, at + done, bytes - done)?;
            if n == 0 {
                break;
            }
            done += n;
        }
        Ok(())
    }

    fn map(&mut self, area: usize, of: Mapped, how: MapHow) -> Result<(), Error> {
        self.unmap(area)?;
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let mut flags = VmaFlags::READ;
        flags.set(VmaFlags::WRITE, !how.is_read_only);
        flags.set(VmaFlags::SHARED, how.is_shared);
        flags.set(VmaFlags::ZEROS, how.holds_zeros);
        flags.set(VmaFlags::HUGEPAGE, how.huge == Some(true));
        flags.set(VmaFlags::NOHUGEPAGE, how.huge == Some(false));
        let (pages, backing) = match of {
            Mapped::Memory(pages) => (pages, Backing::Anon),
            Mapped::File(file, first) => {
                let open = kernel.open(cx, &self.open(file).file);
                let pages = u32::try_from(open.file.size_pages()).unwrap_or(u32::MAX);
                (pages.min(first.unwrap_or(u32::MAX)), Backing::File { open, page: 0 })
            }
        };
        if pages == 0 {
            // A VMA without a page: it cannot be touched.
            self.areas[area] = Some(Area { start: 0, pages });
            return Ok(());
        }
        let start = kernel.mmap(cx, &self.mm, pages, how.align.max(1), flags, backing)?;
        self.areas[area] = Some(Area { start, pages });
        Ok(())
    }

    fn unmap(&mut self, area: usize) -> Result<(), Error> {
        let area = self.areas[area].take().filter(|area| area.pages > 0);
        let Some(Area { start, pages }) = area else { return Ok(()) };
        self.ground.kernel.munmap(self.cx, &self.mm, start, pages)
    }
}

/// Number of whole blocks in `size` bytes; at least one unless `size` is 0.
fn blocks(size: u64, bytes: u64) -> u64 {
    if size == 0 { 0 } else { (size / bytes.max(1)).max(1) }
}

/// The access pattern of an action.
pub(super) fn pattern(action: &Action) -> Pattern {
    match *action {
        Action::Touch { pattern, .. }
        | Action::Read { pattern, .. }
        | Action::Write { pattern, .. }
        | Action::Advise { pattern: Some(pattern), .. } => pattern,
        _ => Pattern::Sequential,
    }
}
