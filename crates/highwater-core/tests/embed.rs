//! What programs and kernels meet that bring machine, CPUs and memory of their own.

use std::iter::from_fn;

use proptest::prelude::*;

use highwater_core::Kernel;
use highwater_core::audit::{check, check_kernel};
use highwater_core::config::{Machine, PRESETS, preset};
use highwater_core::embed::{AllocError, Memory, MemoryRange};
use highwater_core::host::{CpuId, CpuSet, Cx, Solo};
use highwater_core::kernel::{Error, KernelSpec};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief, boot};
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::zone::NodeId;

const FRAMES: u64 = 65_536;

fn bare() -> Machine {
    let mut machine = Machine::bare("mine", &[(FRAMES << 12, vec![0, 1])]).unwrap();
    machine.tunables.min_free_kbytes = Some(0);
    machine
}

/// Under no kernel's rules does one frame stay behind. A refill of a list that tunes itself (6.7 on)
/// may take all that is free, and then the watermark test refuses what is on the list. Reclaim would
/// drain it.
#[test]
fn every_frame_of_a_bare_machine_can_be_had() {
    for (kernel, _) in PRESETS {
        let host = Solo::default();
        let memory = boot(&host, &bare(), &preset(kernel).unwrap()).unwrap();
        let task = memory.task(&host, CpuId(1)).unwrap();
        let get = || memory.alloc(&task, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None);
        let drained = || {
            memory.drain_all(&task, None);
            memory.refresh_cpu_stats(&task);
            get()
        };
        let take = || get().or_else(drained);
        assert_eq!(from_fn(take).count() as u64, FRAMES, "{kernel}");
        assert_eq!(check(&memory, &task).unwrap().used, FRAMES);
    }
}

#[test]
fn a_kernel_runs_on_a_bare_machine() {
    let host = Solo::default();
    let memory = boot(&host, &bare(), &preset("6.1").unwrap()).unwrap();
    let first = memory.task(&host, CpuId(0)).unwrap();
    let kernel = Kernel::new(&first, memory, &KernelSpec::default()).unwrap();
    let task = kernel.task(&host, CpuId(1)).unwrap();
    let mm = kernel.create_mm(&task).unwrap();
    let (pages, flags) = (50_000, VmaFlags::READ | VmaFlags::WRITE);
    let at = kernel.mmap(&task, &mm, pages, 1, flags, Backing::Anon).unwrap();
    for page in at..at + pages {
        kernel.touch(&task, &mm, page, Access::Write).unwrap();
    }
    check_kernel(&kernel, &task).unwrap();
    kernel.munmap(&task, &mm, at, pages).unwrap();
    check_kernel(&kernel, &task).unwrap();
}

#[test]
fn a_cpu_that_does_not_exist_is_an_error() {
    let host = Solo::default();
    let boot = |cpus| {
        let machine = Machine::bare("mine", &[(64 << 20, cpus)]).unwrap();
        boot(&host, &machine, &preset("6.1").unwrap()).unwrap()
    };
    let refused = |cpus, cpu| boot(cpus).task(&host, CpuId(cpu)).map(|_| ()).unwrap_err();
    assert_eq!(
        refused(vec![0, 1], 2).to_string(),
        "there is no CPU 2: the machine has CPUs 0 to 1"
    );
    assert_eq!(
        refused(vec![0], u16::MAX).to_string(),
        "there is no CPU 65535: the machine has CPU 0 only"
    );

    let kernel =
        |cpu| Kernel::new(&Cx::new(&host, CpuId(cpu)), boot(vec![0, 1]), &KernelSpec::default());
    let error = kernel(9).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "there is no CPU 9: the machine has CPUs 0 to 1");
    let kernel = kernel(1).unwrap();
    assert!(kernel.task(&host, CpuId(1)).is_ok() && kernel.task(&host, CpuId(2)).is_err());
}

#[test]
fn a_kernel_on_too_little_memory_says_how_much_it_takes() {
    let kernel = |pages: u64| {
        let host = Solo::default();
        let machine = Machine::bare("mine", &[(pages << 12, vec![0])]).unwrap();
        let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        let task = memory.task(&host, CpuId(0)).unwrap();
        Kernel::new(&task, memory, &KernelSpec::default()).map(|_| ())
    };
    let too_small = kernel(20).unwrap_err();
    assert_eq!(
        too_small.to_string(),
        "a kernel needs 132 KiB beside what the machine keeps; there are 80 KiB"
    );
    assert_eq!(too_small, Error::TooSmall { managed: 20, needed: 33 });
    assert_eq!(kernel(32), Err(Error::TooSmall { managed: 32, needed: 33 }));
    assert_eq!(kernel(33), Ok(()));
}

/// The allocator counts CPUs, the kernel keeps sets of them.
#[test]
fn a_kernel_refuses_more_cpus_than_its_sets_hold() {
    let kernel = |nr_cpus: usize| {
        let host = Solo::default();
        let cpus = (0..nr_cpus as u16).collect();
        let machine = Machine::bare("mine", &[(64 << 20, cpus)]).unwrap();
        let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        let task = memory.task(&host, CpuId(nr_cpus as u16 - 1)).unwrap();
        Kernel::new(&task, memory, &KernelSpec::default()).map(|_| ())
    };
    assert_eq!(kernel(CpuSet::MAX_CPUS), Ok(()));
    assert_eq!(
        kernel(CpuSet::MAX_CPUS + 1).unwrap_err().to_string(),
        "not supported: more than 1024 CPUs"
    );
}

/// Firmware's list of a machine of 80 MiB: two pieces with a hole, reserved parts at each edge and inside.
fn memory_map() -> Vec<MemoryRange> {
    vec![
        MemoryRange::usable(0x0..0x9_f000, NodeId(0)),
        MemoryRange::reserved(0xf_0000..0x10_0000),
        MemoryRange::usable(0x10_0000..0x300_0000, NodeId(0)),
        MemoryRange::reserved(0x0..0x1000),
        MemoryRange::reserved(0x10_0000..0x50_3000),
        MemoryRange::reserved(0x2ff_f000..0x300_0000),
        MemoryRange::usable(0x600_0000..0x800_0000, NodeId(1)),
    ]
}

/// Takes single pages until there are none, and says which.
fn take_all(memory: &Memory<Solo>, host: &Solo) -> Vec<Pfn> {
    let cpu = memory.cpu(host, CpuId(0)).unwrap();
    let mut taken: Vec<Pfn> =
        from_fn(|| cpu.alloc(Order(0), Gfp::GFP_KERNEL, NodeId(0)).ok()).collect();
    taken.sort();
    taken
}

#[test]
fn of_a_memory_map_all_usable_frames_can_be_had_and_no_others() {
    let machine = Machine::from_ranges("m", &memory_map(), &[NodeId(0), NodeId(1)]).unwrap();
    let usable = (1..0x9f).chain(0x503..0x2fff).chain(0x6000..0x8000).map(Pfn);
    for (kernel, _) in PRESETS {
        let host = Solo::default();
        let policy = preset(kernel).unwrap();
        let memory = Memory::boot(&host, &machine.clone().without_reserves(), &policy).unwrap();
        let cpu = memory.cpu(&host, CpuId(1)).unwrap();
        cpu.audit().unwrap();
        assert_eq!(memory.free_pages(), machine.managed_pages(), "{kernel}");
        let taken = take_all(&memory, &host);
        assert!(taken.iter().copied().eq(usable.clone()), "{kernel}");
        cpu.audit().unwrap();
        taken.iter().for_each(|&pfn| cpu.free(pfn, Order(0)).unwrap());
        cpu.drain();
        cpu.audit().unwrap();
        let stats = cpu.stats();
        assert_eq!((stats.free_pages, stats.pcp_pages), (machine.managed_pages(), 0), "{kernel}");
    }
}

#[test]
fn a_memory_map_with_reserves_keeps_pages_below_min() {
    let machine = Machine::from_ranges("m", &memory_map(), &[NodeId(0)]).unwrap();
    let host = Solo::default();
    let memory = Memory::boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
    let stats = memory.cpu(&host, CpuId(0)).unwrap().stats();
    let taken = take_all(&memory, &host).len() as u64;
    let min: u64 = stats.zones.iter().map(|zone| zone.min).sum();
    assert!(min > 0 && taken + min <= machine.managed_pages(), "{taken} and {min}");
}

#[test]
fn a_kernel_runs_on_a_memory_map() {
    let host = Solo::default();
    let machine = Machine::from_ranges("m", &memory_map(), &[NodeId(0), NodeId(1)]).unwrap();
    let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
    let task = memory.task(&host, CpuId(0)).unwrap();
    let kernel = Kernel::new(&task, memory, &KernelSpec::default()).unwrap();
    let mm = kernel.create_mm(&task).unwrap();
    let (pages, flags) = (12_000, VmaFlags::READ | VmaFlags::WRITE);
    let at = kernel.mmap(&task, &mm, pages, 1, flags, Backing::Anon).unwrap();
    for page in at..at + pages {
        kernel.touch(&task, &mm, page, Access::Write).unwrap();
    }
    for page in (at..at + pages).step_by(2) {
        kernel.munmap(&task, &mm, page, 1).unwrap();
    }
    check_kernel(&kernel, &task).unwrap();
    // Compaction walks over holes and reserved frames.
    let huge = kernel.mem.alloc(&task, &kernel, Gfp::GFP_TRANSHUGE, Order(9), NodeId(0), None);
    kernel.mem.free(&task, huge.unwrap(), Order(9)).unwrap();
    check_kernel(&kernel, &task).unwrap();
}

#[test]
fn requests_that_cannot_be_say_why() {
    let host = Solo::default();
    let memory = Memory::boot(&host, &bare(), &preset("6.1").unwrap()).unwrap();
    let cpu = memory.cpu(&host, CpuId(1)).unwrap();
    let alloc = |order, node| cpu.alloc(Order(order), Gfp::GFP_KERNEL, NodeId(node)).unwrap_err();
    assert_eq!(alloc(11, 0).to_string(), "order 11 is above the largest, 10 (4096 KiB)");
    assert_eq!(alloc(255, 0), AllocError::OrderTooLarge { order: Order(255) });
    assert_eq!(alloc(0, 1).to_string(), "there is no node 1: the machine has 1");
    while cpu.alloc(Order(10), Gfp::GFP_KERNEL, NodeId(0)).is_ok() {}
    assert_eq!(alloc(10, 0).to_string(), "no block of order 10 (4096 KiB) is to be had");
    assert!(cpu.free(Pfn(u32::MAX), Order(0)).is_err() && cpu.free(Pfn(0), Order(99)).is_err());
    assert_eq!(memory.cpu(&host, CpuId(2)).unwrap_err().nr_cpus, 2);
    let stats = cpu.stats();
    assert_eq!((stats.free_pages, stats.counter("pgalloc_normal")), (0, Some(FRAMES)));
    assert_eq!(
        (stats.counter("no_such_counter"), stats.counter("pgdemote_kswapd")),
        (None, Some(0))
    );
}

#[test]
fn counters_are_those_of_the_kernel_version() {
    let host = Solo::default();
    let memory = Memory::boot(&host, &bare(), &preset("4.3").unwrap()).unwrap();
    let stats = memory.cpu(&host, CpuId(0)).unwrap().stats();
    assert_eq!(stats.counter("pgdemote_kswapd"), None);
    assert_eq!(stats.counter("nr_free_pages"), Some(stats.free_pages));
    let names: Vec<_> = stats.counters().map(|(name, _)| name).collect();
    assert!(names.starts_with(&["nr_free_pages"]) && names.contains(&"pgfree"));
}

/// A memory map of pieces, with gaps between them and reserved parts inside: frames of each.
fn map_of(pieces: &[(u64, u64, u64, u64)]) -> (Vec<MemoryRange>, Vec<Pfn>) {
    let (mut ranges, mut free) = (Vec::new(), Vec::new());
    let (mut at, bytes) = (0, |frames: std::ops::Range<u64>| frames.start << 12..frames.end << 12);
    for &(gap, pages, from, taken) in pieces {
        let (start, end) = (at + gap, at + gap + pages);
        let reserved = start + from % pages..end.min(start + from % pages + taken);
        ranges.push(MemoryRange::usable(bytes(start..end), NodeId(0)));
        if !reserved.is_empty() {
            ranges.push(MemoryRange::reserved(bytes(reserved.clone())));
        }
        free.extend((start..end).filter(|at| !reserved.contains(at)).map(|at| Pfn(at as u32)));
        at = end;
    }
    (ranges, free)
}

/// The last pages on a CPU's list, when the shared count of free pages says none: an allocation finds
/// them. A random map found this one.
#[test]
fn the_last_pages_of_a_list_can_be_had() {
    let pieces = [
        (2043, 4968, 0, 0),
        (0, 2201, 0, 3),
        (270, 4630, 3629, 1397),
        (2345, 3259, 2853, 1645),
        (693, 3705, 4639, 2598),
    ];
    for (kernel, _) in PRESETS {
        let (ranges, free) = map_of(&pieces);
        let machine = Machine::from_ranges("m", &ranges, &[NodeId(0)]).unwrap().without_reserves();
        let host = Solo::default();
        let memory = Memory::boot(&host, &machine, &preset(kernel).unwrap()).unwrap();
        assert_eq!(take_all(&memory, &host).len(), free.len(), "{kernel}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// On every map, boot leaves memory that the audit accepts, and exactly the usable frames.
    #[test]
    fn any_memory_map_boots(
        pieces in prop::collection::vec((0..3000u64, 40..5000u64, 0..5000u64, 0..3000u64), 1..6),
        kernel in prop::sample::select(vec!["4.3", "5.4", "6.1"]),
    ) {
        let (ranges, mut free) = map_of(&pieces);
        prop_assume!(free.len() >= 33);
        let machine = Machine::from_ranges("m", &ranges, &[NodeId(0)]).unwrap().without_reserves();
        prop_assert_eq!(machine.managed_pages(), free.len() as u64);
        let host = Solo::default();
        let memory = Memory::boot(&host, &machine, &preset(kernel).unwrap()).unwrap();
        let cpu = memory.cpu(&host, CpuId(0)).unwrap();
        cpu.audit().unwrap();
        let taken = take_all(&memory, &host);
        free.sort();
        prop_assert!(taken == free, "{} of {} frames", taken.len(), free.len());
        taken.iter().for_each(|&pfn| cpu.free(pfn, Order(0)).unwrap());
        cpu.audit().unwrap();
    }
}
