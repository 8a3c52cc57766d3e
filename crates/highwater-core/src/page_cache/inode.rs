//! Inodes and directory entries in memory (rules/slab#inodes).
//!
//! The kernel accesses a file through its *inode* in memory, and finds the inode by name through a
//! *dentry*. Both stay after the file is closed, because a build, for example, reads the same
//! headers repeatedly. For a small file they take as much memory as its contents, in unmovable
//! slabs: a tree of 37,000 files leaves 45 MiB of them.
//!
//! ```text
//!              open_path                                 open_path
//!            ┌───────────┐                             ┌───────────┐
//!            ▼           │                             ▼           │
//!  dentry, inode   on the list of dentries ──scan──▶  inode   on the list of inodes ──scan──▶ nothing
//!                  (used since: once more)                    (its pages go first)
//! ```
//!
//! Only files with [`InodeMemory::Slab`] in their spec take part. The others represent files that
//! are open all the time, whose inodes are part of the captured machine's memory.
//!
//! Synchronisation: [`Inodes`] is behind a `Table` lock, never held while memory is allocated or
//! freed. Opening a file is recorded before the inode is looked up, so a file in use keeps it.
//!
//! From: `syscall`, `reclaim::inode_shrinker` · to: `slab`, [`super::truncate`].

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{File, OpenFile};
use crate::host::{Cx, Devices, Lock, TaskFlags};
use crate::kernel::Kernel;
use crate::page::FileId;
use crate::page_alloc::Gfp;
use crate::slab::{CacheKind, ObjectId};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{Error, GroupId};
use crate::vmstat::VmEvent;
use crate::zone::NodeId;

/// Where a file's inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InodeMemory {
    /// In memory before the model began, for good: nothing is allocated or freed for it.
    #[default]
    Outside,
    /// In slab, from [`Kernel::open_path`] until a shrinker takes it or the file is deleted.
    Slab,
}

/// What scanning inodes came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InodeScan {
    /// Dentries and inodes looked at.
    pub scanned: u64,
    /// Those freed.
    pub freed: u64,
    /// Pages that went back to the allocator: slabs, and the page cache of inodes.
    pub pages: u64,
}

/// A file's inode and dentry.
#[derive(Clone, Copy, Debug)]
struct Cached {
    inode: ObjectId,
    dentry: Option<ObjectId>,
    /// Opened since its dentry was last looked at.
    is_referenced: bool,
    /// The list it is on (of dentries, if it has one), and its place there.
    node: NodeId,
    group: GroupId,
    place: u64,
}

/// Files by age, oldest first: those with a dentry, and those with only an inode.
#[derive(Debug, Default)]
struct Lists {
    dentries: BTreeMap<u64, FileId>,
    inodes: BTreeMap<u64, FileId>,
}

/// All inodes in slab.
#[derive(Debug)]
pub(crate) struct Inodes {
    cached: BTreeMap<FileId, Cached>,
    /// By the memory cgroup that pays, then by memory node.
    lists: Vec<Lists>,
    nr_nodes: usize,
    next_place: u64,
}

impl Inodes {
    /// None, of so many groups (the root counts) and nodes.
    pub(crate) fn new(nr_groups: usize, nr_nodes: usize) -> Self {
        let lists = (0..nr_groups * nr_nodes).map(|_| Lists::default()).collect();
        Inodes { cached: BTreeMap::new(), lists, nr_nodes, next_place: 0 }
    }

    fn set(&self, (group, node): (GroupId, NodeId)) -> usize {
        group.idx() * self.nr_nodes + node.idx()
    }

    /// Dentries and inodes on a group's lists of a node.
    pub(crate) fn on_lists(&self, of: (GroupId, NodeId)) -> (u64, u64) {
        let lists = &self.lists[self.set(of)];
        (lists.dentries.len() as u64, lists.inodes.len() as u64)
    }

    /// The oldest with a dentry, and the oldest with only an inode.
    fn oldest(&self, of: (GroupId, NodeId)) -> (Option<FileId>, Option<FileId>) {
        let lists = &self.lists[self.set(of)];
        (lists.dentries.values().next().copied(), lists.inodes.values().next().copied())
    }

    /// A group was removed: its parent pays for its objects.
    #[doc(alias = "memcg_reparent_list_lrus")]
    pub(crate) fn reparent(&mut self, from: GroupId, to: GroupId) {
        for node in (0..self.nr_nodes).map(|node| NodeId(node as u16)) {
            let (from, into) = (self.set((from, node)), self.set((to, node)));
            let mut lists = core::mem::take(&mut self.lists[from]);
            for id in lists.dentries.values().chain(lists.inodes.values()) {
                if let Some(cached) = self.cached.get_mut(id) {
                    cached.group = to;
                }
            }
            self.lists[into].dentries.append(&mut lists.dentries);
            self.lists[into].inodes.append(&mut lists.inodes);
        }
    }

    /// Inodes, and dentries: for audits.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let dentries = self.cached.values().filter(|cached| cached.dentry.is_some());
        (self.cached.len() as u64, dentries.count() as u64)
    }

    /// Files that are on no list, on a wrong one, or gone: for audits.
    pub(crate) fn misplaced(&self) -> Option<FileId> {
        let listed: usize = self.lists.iter().map(|l| l.dentries.len() + l.inodes.len()).sum();
        let wrong = self.cached.iter().find(|(id, cached)| {
            let lists = &self.lists[self.set((cached.group, cached.node))];
            let list = if cached.dentry.is_some() { &lists.dentries } else { &lists.inodes };
            list.get(&cached.place) != Some(id)
        });
        let first = || self.cached.keys().next().copied().unwrap_or(FileId(0));
        wrong.map(|(id, _)| *id).or_else(|| (listed != self.cached.len()).then(first))
    }

    /// Puts a file behind all others, on the list where it belongs now.
    fn list(&mut self, id: FileId, cached: Cached) {
        let place = self.next_place;
        self.next_place += 1;
        let set = self.set((cached.group, cached.node));
        let lists = &mut self.lists[set];
        let list = if cached.dentry.is_some() { &mut lists.dentries } else { &mut lists.inodes };
        list.insert(place, id);
        self.cached.insert(id, Cached { place, ..cached });
    }

    /// Takes a file out.
    fn take(&mut self, id: FileId) -> Option<Cached> {
        let cached = self.cached.remove(&id)?;
        let set = self.set((cached.group, cached.node));
        let lists = &mut self.lists[set];
        let list = if cached.dentry.is_some() { &mut lists.dentries } else { &mut lists.inodes };
        list.remove(&cached.place);
        Some(cached)
    }
}

impl<H: Devices> Kernel<H> {
    /// Opens a file by its name: its dentry and inode are found in memory, or made.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn open_path(
        &self,
        cx: &Cx<'_, H>,
        file: &Arc<File<H>>,
    ) -> Result<Arc<OpenFile<H>>, Error> {
        let open = self.open(cx, file);
        if file.spec.inode == InodeMemory::Slab {
            self.make_inode(cx, file)?;
        }
        Ok(open)
    }

    /// True if a file's dentry and inode are in memory: opening it then reads no metadata.
    pub fn is_inode_cached(&self, cx: &Cx<'_, H>, file: &File<H>) -> bool {
        let is_cached = |cached: &Cached| cached.dentry.is_some();
        file.spec.inode == InodeMemory::Outside
            || self.inodes.lock(cx.cpu()).cached.get(&file.id).is_some_and(is_cached)
    }

    /// Allocates a file's inode and dentry from their slab caches.
    #[doc(alias = "alloc_inode")]
    #[doc(alias = "d_alloc")]
    fn make_inode(&self, cx: &Cx<'_, H>, file: &File<H>) -> Result<(), Error> {
        let (mut inode, mut dentry) = (None, None);
        let made = loop {
            let mut inodes = self.inodes.lock(cx.cpu());
            let known = inodes.cached.get_mut(&file.id);
            if let Some(cached) = known
                && cached.dentry.is_some()
            {
                cached.is_referenced = true;
                break Ok(());
            }
            let is_inode_known = inodes.cached.contains_key(&file.id);
            if dentry.is_some() && (is_inode_known || inode.is_some()) {
                let inode = match inodes.take(file.id) {
                    Some(cached) => Some(cached.inode),
                    None => inode.take(),
                };
                let dentry = dentry.take();
                let Some(inode) = inode else { break Err(Error::NoMemory) };
                let (node, owner) = {
                    let cache = self.slab(CacheKind::Inode).lock(cx.cpu());
                    (cache.node_of(inode), cache.owner_of(inode))
                };
                let group = self.memcg.payer_of(owner);
                let new = Cached { inode, dentry, is_referenced: false, node, group, place: 0 };
                inodes.list(file.id, new);
                break Ok(());
            }
            drop(inodes);
            let (kind, place) = match dentry {
                None => (CacheKind::Dentry, &mut dentry),
                Some(_) => (CacheKind::Inode, &mut inode),
            };
            *place = self.slab_take(cx, kind, Gfp::GFP_KERNEL);
            if place.is_none() {
                break Err(Error::NoMemory);
            }
        };
        // Somebody else was faster, or there was memory for one of them only.
        for (kind, left) in [(CacheKind::Dentry, dentry), (CacheKind::Inode, inode)] {
            if let Some(id) = left {
                self.slab_give(cx, kind, id);
            }
        }
        made
    }

    /// Frees the inode and dentry of a deleted file.
    #[doc(alias = "evict")]
    pub(super) fn drop_inode(&self, cx: &Cx<'_, H>, file: &File<H>) {
        let taken = self.inodes.lock(cx.cpu()).take(file.id);
        if let Some(Cached { inode, dentry, .. }) = taken {
            if let Some(dentry) = dentry {
                self.slab_give(cx, CacheKind::Dentry, dentry);
            }
            self.slab_give(cx, CacheKind::Inode, inode);
        }
    }

    /// Dentries and inodes that lie on a node and that a memory cgroup pays for.
    pub(crate) fn nr_inodes_listed(&self, cx: &Cx<'_, H>, of: (GroupId, NodeId)) -> u64 {
        let (dentries, inodes) = self.inodes.lock(cx.cpu()).on_lists(of);
        dentries + inodes
    }

    /// Scans `nr` dentries and inodes of a group on a node, oldest first and in proportion to their numbers, and
    /// frees those that were not used (rules/slab#inode-shrinker). No lock is held.
    #[doc(alias = "prune_dcache_sb")]
    #[doc(alias = "prune_icache_sb")]
    pub(crate) fn scan_inodes(&self, cx: &Cx<'_, H>, of: (GroupId, NodeId), nr: u64) -> InodeScan {
        let (dentries, inodes) = self.inodes.lock(cx.cpu()).on_lists(of);
        let mut scan = InodeScan::default();
        let share = (nr * dentries).checked_div(dentries + inodes).unwrap_or(0);
        for _ in 0..share.min(dentries) {
            let first = self.inodes.lock(cx.cpu()).oldest(of).0;
            let Some(id) = first else { break };
            self.scan_dentry(cx, id, &mut scan);
        }
        for _ in 0..(nr - share).min(inodes) {
            let first = self.inodes.lock(cx.cpu()).oldest(of).1;
            let Some(id) = first else { break };
            self.scan_inode(cx, id, &mut scan);
        }
        scan
    }

    /// Frees a dentry unless its file is open or was opened since the last look.
    #[doc(alias = "dentry_lru_isolate")]
    fn scan_dentry(&self, cx: &Cx<'_, H>, id: FileId, scan: &mut InodeScan) {
        let is_open = self.file(cx, id).is_some_and(|file| file.is_open());
        scan.scanned += 1;
        let freed = {
            let mut inodes = self.inodes.lock(cx.cpu());
            let Some(mut cached) = inodes.take(id) else { return };
            let is_used = is_open || cached.is_referenced;
            cached.is_referenced = false;
            let freed = if is_used { None } else { cached.dentry.take() };
            inodes.list(id, cached);
            freed
        };
        if let Some(dentry) = freed {
            scan.freed += 1;
            scan.pages += self.slab_give(cx, CacheKind::Dentry, dentry);
        }
    }

    /// Frees an inode without dentry unless it is open, dirty, or has pages that cannot be dropped
    /// now.
    #[doc(alias = "inode_lru_isolate")]
    fn scan_inode(&self, cx: &Cx<'_, H>, id: FileId, scan: &mut InodeScan) {
        scan.scanned += 1;
        let Some(file) = self.file(cx, id) else { return };
        if file.nr_pages() > 0 && !file.is_open() {
            let (dropped, _) = self.invalidate(cx, &file, 0, u32::MAX);
            let event = match cx.flags().contains(TaskFlags::KSWAPD) {
                true => VmEvent::KswapdInodesteal,
                false => VmEvent::Pginodesteal,
            };
            self.mem.events.add(cx.cpu(), event, dropped);
            scan.pages += dropped;
        }
        let is_used = file.is_open() || file.nr_pages() > 0 || file.is_queued.load(Relaxed);
        let freed = {
            let mut inodes = self.inodes.lock(cx.cpu());
            let Some(cached) = inodes.take(id) else { return };
            if is_used || cached.dentry.is_some() {
                inodes.list(id, cached);
                None
            } else {
                Some(cached.inode)
            }
        };
        if let Some(inode) = freed {
            // What its pages left goes with it: a file read again begins anew.
            self.forget_shadows(cx, &file);
            scan.freed += 1;
            scan.pages += self.slab_give(cx, CacheKind::Inode, inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::check_kernel;
    use crate::block::{DeviceId, DeviceSpec};
    use crate::config::{Machine, preset};
    use crate::host::{CpuId, Solo};
    use crate::kernel::KernelSpec;
    use crate::page_alloc::boot;
    use crate::page_cache::{FileSpec, Filesystem};
    use crate::vmstat::NodeStat;

    struct Stage<'h> {
        cx: Cx<'h, Solo>,
        kernel: Kernel<Solo>,
    }

    impl<'h> Stage<'h> {
        fn new(host: &'h Solo) -> Self {
            let machine = Machine::from_sizes("stage", &[(128 << 20, vec![0, 1])]).unwrap();
            let cx = Cx::new(host, CpuId(0));
            let mem = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
            let spec =
                KernelSpec { devices: vec![DeviceSpec::nvme(1 << 20)], swap: vec![], groups: 0 };
            let kernel = Kernel::new(&cx, mem, &spec).unwrap();
            Stage { cx, kernel }
        }

        fn file(&self, number: u64) -> Arc<File<Solo>> {
            let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), number * 2, 2);
            self.kernel.create_file(&self.cx, spec.with_inode(InodeMemory::Slab))
        }

        fn read(&self, file: &Arc<File<Solo>>) {
            let open = self.kernel.open_path(&self.cx, file).unwrap();
            assert_eq!(self.kernel.file_read(&self.cx, &open, 0, 8192), Ok(8192));
        }

        fn counts(&self) -> (u64, u64) {
            check_kernel(&self.kernel, &self.cx).unwrap();
            self.kernel.inodes.lock(CpuId(0)).counts()
        }

        fn slab(&self) -> u64 {
            let stats = &self.kernel.mem.node(NodeId(0)).stats;
            stats.read_exact(NodeStat::SlabReclaimable as usize)
        }

        fn scan(&self, nr: u64) -> (u64, u64) {
            let scan = self.kernel.scan_inodes(&self.cx, (GroupId::ROOT, NodeId(0)), nr);
            (scan.scanned, scan.freed)
        }
    }

    use alloc::vec;

    /// 1.2 KiB for each (rules/slab#inodes).
    #[test]
    fn many_small_files_take_slab() {
        let host = Solo::default();
        let s = Stage::new(&host);
        let files: Vec<_> = (0..1000).map(|number| s.file(number)).collect();
        assert_eq!((s.counts(), s.slab()), ((0, 0), 0), "on disk only");
        assert!(!s.kernel.is_inode_cached(&s.cx, &files[0]));
        files.iter().for_each(|file| drop(s.kernel.open_path(&s.cx, file).unwrap()));
        assert_eq!(s.counts(), (1000, 1000));
        assert!(files.iter().all(|file| s.kernel.is_inode_cached(&s.cx, file)));
        // 63 blocks of 16 inodes, 48 pages of 21 dentries.
        assert_eq!(s.slab(), 63 * 4 + 48);
        // drop_caches 2 frees them all but the slabs that each cache keeps.
        s.kernel.drop_caches(&s.cx, 2);
        assert_eq!(s.counts(), (0, 0));
        assert!(s.slab() <= 5 * 4 + 5, "{}", s.slab());
    }

    #[test]
    fn what_is_used_or_open_stays() {
        let host = Solo::default();
        let s = Stage::new(&host);
        let [used, open, idle] = [0, 1, 2].map(|number| s.file(number));
        let kept = s.kernel.open_path(&s.cx, &open).unwrap();
        for file in [&used, &used, &idle] {
            drop(s.kernel.open_path(&s.cx, file).unwrap());
        }
        assert_eq!(s.scan(3), (3, 1), "the idle one's dentry");
        assert_eq!(s.counts(), (3, 2));
        // Its inode is found again.
        drop(s.kernel.open_path(&s.cx, &idle).unwrap());
        assert_eq!(s.counts(), (3, 3));
        for _ in 0..10 {
            s.scan(10);
        }
        assert_eq!(s.counts(), (1, 1), "the open one");
        drop(kept);
        s.kernel.delete_file(&s.cx, &open);
        assert_eq!(s.counts(), (0, 0));
    }

    #[test]
    fn an_inode_takes_its_pages_along_and_is_read_anew() {
        let host = Solo::default();
        let s = Stage::new(&host);
        let file = s.file(0);
        s.read(&file);
        assert_eq!(file.nr_pages(), 2);
        s.kernel.lru_add_drain(&s.cx);
        assert_eq!((s.scan(1), s.scan(1)), ((1, 1), (1, 1)));
        assert_eq!((file.nr_pages(), s.counts()), (0, (0, 0)));
        assert_eq!(s.kernel.mem.events.read(VmEvent::Pginodesteal), 2);
        s.read(&file);
        assert_eq!((file.nr_pages(), s.counts()), (2, (1, 1)));
    }
}
