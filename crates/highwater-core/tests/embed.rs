//! What programs and kernels meet that bring machine, CPUs and memory of their own.

use std::iter::from_fn;

use highwater_core::Kernel;
use highwater_core::audit::{check, check_kernel};
use highwater_core::config::{Machine, PRESETS, preset};
use highwater_core::host::{CpuId, CpuSet, Cx, Solo};
use highwater_core::kernel::{Error, KernelSpec};
use highwater_core::page::Order;
use highwater_core::page_alloc::{Gfp, NoRelief, boot};
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::zone::NodeId;

const FRAMES: u64 = 65_536;

fn bare() -> Machine {
    let mut machine = Machine::bare("mine", &[(FRAMES << 12, vec![0, 1])]).unwrap();
    machine.tunables.min_free_kbytes = Some(0);
    machine
}

/// Under no kernel's rules does one frame stay behind.
#[test]
fn every_frame_of_a_bare_machine_can_be_had() {
    for (kernel, _) in PRESETS {
        let host = Solo::default();
        let memory = boot(&host, &bare(), &preset(kernel).unwrap()).unwrap();
        let task = memory.task(&host, CpuId(1)).unwrap();
        let take = || memory.alloc(&task, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None);
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
    let space = kernel.create_space(&task).unwrap();
    let (pages, flags) = (50_000, VmaFlags::READ | VmaFlags::WRITE);
    let at = kernel.mmap(&task, &space, pages, 1, flags, Backing::Anon).unwrap();
    for page in at..at + pages {
        kernel.touch(&task, &space, page, Access::Write).unwrap();
    }
    check_kernel(&kernel, &task).unwrap();
    kernel.munmap(&task, &space, at, pages).unwrap();
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
