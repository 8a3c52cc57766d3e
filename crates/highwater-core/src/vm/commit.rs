//! Limits on the memory that programs may request (rules/faults#overcommit):
//! `vm.overcommit_memory`.
//!
//! Most programs never touch all that they map. So a kernel promises more memory than it has, and
//! the OOM killer handles the case that too many programs use it. With mode 2 `mmap` and `fork`
//! fail instead: the total is limited to CommitLimit. It counts memory that may have to be kept in
//! memory or swap: the full size of writable private VMAs, touched or not. So a fork counts all of
//! its parent's again.
//!
//! The sum is computed when it is needed, because only mode 2 needs it and there are few VMAs.
//! Check and insertion are not atomic: two threads that map in different mms at the same time
//! may both pass just below the limit.
//!
//! From: [`super::mapping`], [`super::grow`], [`super::fork`].

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Mm, Vma, VmaFlags};
use crate::host::{Cx, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page::PAGE_SIZE;
use crate::units::Error;

/// `vm.overcommit_memory`: everything is promised.
const ALWAYS: u8 = 1;
/// Nothing beyond CommitLimit is.
const NEVER: u8 = 2;
const KIB_PER_PAGE: u64 = PAGE_SIZE as u64 / 1024;
/// What programs leave to root, at most (`vm.admin_reserve_kbytes`).
const ADMIN_RESERVE: u64 = 8192 / KIB_PER_PAGE;
/// Most memory that a program leaves to others (`vm.user_reserve_kbytes`).
const USER_RESERVE: u64 = (128 << 10) / KIB_PER_PAGE;

impl<H: Tasks> Vma<H> {
    /// Returns the pages of the VMA that count against the commit limit.
    #[doc(alias = "accountable_mapping")]
    pub(super) fn committed(&self) -> u64 {
        let is_private = !self.flags.contains(VmaFlags::SHARED);
        match is_private && self.flags.contains(VmaFlags::WRITE) {
            true => u64::from(self.end - self.start),
            false => 0,
        }
    }
}

impl<H: Devices> Kernel<H> {
    fn managed(&self) -> u64 {
        self.mem.populated_zones().map(|zone| zone.info.managed()).sum()
    }

    /// Returns the pages that programs were promised (`Committed_AS`). Shared memory is not among
    /// them.
    #[doc(alias = "vm_committed_as")]
    pub fn committed(&self, cx: &Cx<'_, H>) -> u64 {
        let mms: Vec<Arc<Mm<H>>> = self.mms.lock(cx.cpu()).values().cloned().collect();
        let of = |mm: &Arc<Mm<H>>| -> u64 {
            mm.tables.lock(cx.cpu()).all_vmas().map(|vma| vma.committed()).sum()
        };
        mms.iter().map(of).sum()
    }

    /// Returns the pages that may be promised with `vm.overcommit_memory` 2 (`CommitLimit`).
    #[doc(alias = "vm_commit_limit")]
    pub fn commit_limit(&self) -> u64 {
        let tunables = &self.mem.tunables;
        let memory = match tunables.overcommit_kbytes.get() {
            0 => {
                let share =
                    u128::from(self.managed()) * u128::from(tunables.overcommit_ratio.get()) / 100;
                u64::try_from(share).unwrap_or(u64::MAX)
            }
            kbytes => kbytes / KIB_PER_PAGE,
        };
        memory.saturating_add(self.swap.nr_total())
    }

    /// Decides whether a program may have `pages` pages more of private writable memory
    /// (`vm.overcommit_memory`). The caller holds its mm's lock.
    ///
    /// # Errors
    /// [`Error::NoMemory`] if not.
    #[doc(alias = "__vm_enough_memory")]
    pub(super) fn may_commit(&self, cx: &Cx<'_, H>, mm: &Mm<H>, pages: u64) -> Result<(), Error> {
        let may = match self.mem.tunables.overcommit_memory.get() {
            _ if pages == 0 => true,
            ALWAYS => true,
            NEVER => {
                let (managed, total) = (self.managed(), mm.total_pages(cx.cpu()));
                let for_root = ADMIN_RESERVE.min(managed / 32);
                let for_others = USER_RESERVE.min(managed / 32).min(total / 32);
                let limit = self.commit_limit().saturating_sub(for_root + for_others);
                self.committed(cx) + pages < limit
            }
            // The heuristic refuses only obvious overcommits.
            _ => pages <= self.managed() + self.swap.nr_total(),
        };
        if may { Ok(()) } else { Err(Error::NoMemory) }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::block::{DeviceId, DeviceSpec};
    use crate::config::{Machine, preset};
    use crate::host::{CpuId, Solo};
    use crate::kernel::KernelSpec;
    use crate::page_alloc::boot;
    use crate::swap::SwapSpec;
    use crate::vm::Backing;

    const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

    /// Maps this many pages repeatedly until the kernel refuses; returns the totals.
    fn until_refused(set: fn(&mut Machine), pages: u32) -> (u64, u64, u64) {
        let host = Solo::default();
        let mut machine = Machine::from_sizes("stage", &[(256 << 20, vec![0])]).unwrap();
        set(&mut machine);
        let cx = Cx::new(&host, CpuId(0));
        let mem = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        let swap = SwapSpec { device: DeviceId(0), pages: 1 << 13, priority: 0 };
        let spec =
            KernelSpec { devices: vec![DeviceSpec::nvme(1 << 20)], swap: vec![swap], groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        let map = || kernel.mmap(&cx, &mm, pages, 1, RW, Backing::Anon);
        let read_only = kernel.mmap(&cx, &mm, pages, 1, VmaFlags::READ, Backing::Anon);
        assert!(read_only.is_ok() && kernel.committed(&cx) == 0, "it is never written");
        let mut nr = 0;
        while nr < 500 && map().is_ok() {
            nr += 1;
        }
        (nr, kernel.committed(&cx), kernel.commit_limit())
    }

    /// rules/faults#overcommit
    #[test]
    fn what_may_be_promised() {
        let (nr, ..) = until_refused(|_| {}, 1 << 15);
        assert_eq!(nr, 500, "0: each alone fits memory and swap");
        let (nr, ..) = until_refused(|_| {}, 1 << 17);
        assert_eq!(nr, 0, "0: larger than both together");
        let (nr, ..) = until_refused(|m| m.tunables.overcommit_memory = 1, 1 << 17);
        assert_eq!(nr, 500);
        let (_, committed, limit) = until_refused(|m| m.tunables.overcommit_memory = 2, 128);
        let managed = Machine::from_sizes("m", &[(256 << 20, vec![0])]).unwrap().managed_pages();
        assert_eq!(limit, managed / 2 + (1 << 13) - 1, "half of memory, and swap");
        let reserve = 2048.min(managed / 32) + (committed + 128) / 32;
        assert!((committed..=committed + 128).contains(&(limit - reserve)), "{committed} {limit}");
        let kbytes = |m: &mut Machine| {
            (m.tunables.overcommit_memory, m.tunables.overcommit_kbytes) = (2, 40_000);
        };
        assert_eq!(until_refused(kbytes, 64).2, 10_000 + (1 << 13) - 1);
    }

    #[test]
    fn a_fork_asks_for_all_of_it_again() {
        let host = Solo::default();
        for (mode, may) in [(0, true), (1, true), (2, false)] {
            let mut machine = Machine::from_sizes("stage", &[(256 << 20, vec![0])]).unwrap();
            machine.tunables.overcommit_memory = mode;
            let cx = Cx::new(&host, CpuId(0));
            let mem = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
            let kernel = Kernel::new(&cx, mem, &KernelSpec::default()).unwrap();
            let mm = kernel.create_mm(&cx).unwrap();
            let start = kernel.mmap(&cx, &mm, 1 << 14, 1, RW, Backing::Anon).unwrap();
            let child = kernel.fork(&cx, &mm);
            assert_eq!(child.is_ok(), may, "{mode}");
            let expected = if may { 2 << 14 } else { 1 << 14 };
            assert_eq!(kernel.committed(&cx), expected);
            assert_eq!(kernel.grow_vma(&cx, &mm, start, 1 << 14).is_ok(), may);
            kernel.munmap(&cx, &mm, start, 1 << 13).unwrap();
            assert!(crate::audit::check_kernel(&kernel, &cx).is_ok());
        }
    }
}
