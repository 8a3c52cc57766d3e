//! set_mempolicy, mbind, and the effect of a cpuset change on both (rules/memory-policies#setting).
//!
//! A policy applies to future allocations: present pages stay where they are.
//!
//! From: the hosts' programs · to: `page_alloc::by_policy`, VMAs.

use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::units::{Error, MemoryPolicy, NodeMask};
use crate::vm::Mm;

impl<H: Devices> Kernel<H> {
    /// Sets the running task's memory policy (`set_mempolicy`). Nodes without memory and nodes
    /// outside of the task's cpuset are left out of it.
    ///
    /// # Errors
    /// If nothing is left: none of its nodes has memory that the task may use.
    #[doc(alias = "do_set_mempolicy")]
    pub fn set_memory_policy(&self, cx: &Cx<'_, H>, policy: MemoryPolicy) -> Result<(), Error> {
        cx.charge(Cost::Syscall, 1);
        cx.set_memory_policy(self.usable_policy(cx, policy)?);
        Ok(())
    }

    /// Sets the memory policy of a range of an address space (`mbind`), in pages;
    /// [`MemoryPolicy::Default`]: as each task's.
    ///
    /// # Errors
    /// As [`Kernel::set_memory_policy`]; and if part of the range is not mapped (the rest got the policy).
    #[doc(alias = "do_mbind")]
    pub fn mbind(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        pages: u32,
        policy: MemoryPolicy,
    ) -> Result<(), Error> {
        cx.charge(Cost::Syscall, 1);
        let end = start.checked_add(pages).ok_or(Error::Invalid)?;
        let policy = self.usable_policy(cx, policy)?;
        self.enter_mm(cx, mm);
        let _guard = mm.mmap_lock.write(cx);
        self.change_vma_policy(cx, mm, (start, end), |_| policy)
    }

    /// Changes the nodes of the running task's cpuset: its policy follows, and those of its VMAs.
    /// The `cpusets` tunable of `vm` says whether cpusets are looked at at all.
    ///
    /// # Errors
    /// If none of the nodes has memory: a cpuset must have some.
    #[doc(alias = "cpuset_change_task_nodemask")]
    pub fn set_mems_allowed(
        &self,
        cx: &Cx<'_, H>,
        mm: Option<&Mm<H>>,
        nodes: NodeMask,
    ) -> Result<(), Error> {
        cx.charge(Cost::Syscall, 1);
        let new = nodes.and(self.mem.nodes_with_memory());
        if new.is_empty() {
            return Err(Error::Invalid);
        }
        // A task without a cpuset had all nodes with memory. Ranks count only those.
        let old = cx.mems_allowed().and(self.mem.nodes_with_memory());
        cx.move_cpuset(old, new);
        if let Some(mm) = mm {
            self.enter_mm(cx, mm);
            let _guard = mm.mmap_lock.write(cx);
            let rebound = |policy: MemoryPolicy| policy.rebound(old, new);
            // Holes are fine.
            let _ = self.change_vma_policy(cx, mm, (0, u32::MAX), rebound);
        }
        Ok(())
    }

    fn usable_policy(&self, cx: &Cx<'_, H>, policy: MemoryPolicy) -> Result<MemoryPolicy, Error> {
        let allowed = self.mem.nodes_with_memory().and(cx.mems_allowed());
        policy.within(allowed).ok_or(Error::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;
    use alloc::vec::Vec;

    use super::*;
    use crate::block::manual::{Manual, kernel_of};
    use crate::config::{Machine, preset};
    use crate::host::{CpuId, Solo};
    use crate::kernel::KernelSpec;
    use crate::page_alloc::boot;
    use crate::vm::{Backing, VmaFlags};
    use crate::zone::NodeId;

    const HERE: MemoryPolicy = MemoryPolicy::Bind(NodeMask::of(NodeId(0)));

    #[test]
    fn a_range_is_cut_and_bound() {
        let host = Rc::new(Manual::default());
        let kernel = kernel_of(&host, &[], Vec::new(), |_| {});
        let cx = Cx::new(&*host, CpuId(0));
        let mm = kernel.create_mm(&cx).unwrap();
        let flags = VmaFlags::READ | VmaFlags::WRITE;
        let start = kernel.mmap(&cx, &mm, 100, 1, flags, Backing::Anon).unwrap();
        // Node 5 is not there.
        let wide = MemoryPolicy::Bind(NodeMask::of(NodeId(0)).with(NodeId(5)));
        kernel.mbind(&cx, &mm, start + 10, 20, wide).unwrap();
        let at = |page: u32| {
            let vma = mm.vma_of(cx.cpu(), start + page).unwrap();
            (vma.start - start, vma.end - start, vma.policy)
        };
        assert_eq!(at(0), (0, 10, MemoryPolicy::Default));
        assert_eq!(at(10), (10, 30, HERE));
        assert_eq!(at(30), (30, 100, MemoryPolicy::Default));
        assert_eq!(kernel.mbind(&cx, &mm, start + 90, 20, HERE), Err(Error::Fault));
        assert_eq!(at(95).2, HERE, "as far as there is something");
        kernel.mbind(&cx, &mm, start, 100, MemoryPolicy::Default).unwrap();
        assert_eq!(at(12).2, MemoryPolicy::Default);
    }

    #[test]
    fn nothing_is_bound_to_nothing() {
        let host = Rc::new(Manual::default());
        let kernel = kernel_of(&host, &[], Vec::new(), |_| {});
        let cx = Cx::new(&*host, CpuId(0));
        let there = MemoryPolicy::Interleave(NodeMask::of(NodeId(3)));
        assert_eq!(kernel.set_memory_policy(&cx, there), Err(Error::Invalid));
        assert_eq!(cx.memory_policy(), MemoryPolicy::Default);
        kernel.set_memory_policy(&cx, HERE).unwrap();
        assert_eq!(cx.memory_policy(), HERE);
        let nowhere = NodeMask::of(NodeId(3));
        assert_eq!(kernel.set_mems_allowed(&cx, None, nowhere), Err(Error::Invalid));
        kernel.set_mems_allowed(&cx, None, NodeMask::ALL).unwrap();
        assert_eq!(cx.mems_allowed(), NodeMask::of(NodeId(0)));
    }

    /// Nodes 0 and 2 have memory, node 1 has none: node 2 is the second of them (rules/memory-policies#rebind).
    #[test]
    fn nodes_without_memory_have_no_rank() {
        let host = Solo::default();
        let sizes = [(64 << 20, alloc::vec![0]), (0, alloc::vec![1]), (64 << 20, alloc::vec![2])];
        let machine = Machine::from_sizes("gap", &sizes).unwrap();
        let mem = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        let cx = Cx::new(&host, CpuId(0));
        let spec = KernelSpec { devices: Vec::new(), swap: Vec::new(), groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        let flags = VmaFlags::READ | VmaFlags::WRITE;
        let start = kernel.mmap(&cx, &mm, 10, 1, flags, Backing::Anon).unwrap();
        let (first, last) = (NodeMask::of(NodeId(0)), NodeMask::of(NodeId(2)));
        kernel.set_memory_policy(&cx, MemoryPolicy::Bind(last)).unwrap();
        kernel.mbind(&cx, &mm, start, 10, MemoryPolicy::Interleave(last)).unwrap();
        let seen = || (cx.memory_policy(), mm.vma_of(cx.cpu(), start).unwrap().policy);
        let both = |nodes| (MemoryPolicy::Bind(nodes), MemoryPolicy::Interleave(nodes));
        // From no cpuset to one of all nodes, to one of the first, and back.
        for (nodes, expected) in [(NodeMask::ALL, last), (first, first), (NodeMask::ALL, first)] {
            kernel.set_mems_allowed(&cx, Some(&mm), nodes).unwrap();
            assert_eq!(seen(), both(expected), "{nodes:?}");
        }
        kernel.exit_mm(&cx, &mm);
    }
}
