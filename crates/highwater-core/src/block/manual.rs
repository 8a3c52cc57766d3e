//! A test host with devices whose transfers the test completes.

use alloc::rc::{Rc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use super::DeviceSpec;
use crate::Kernel;
use crate::config::{Machine, Policy, preset};
use crate::host::{
    Cost, CpuId, Cx, Devices, Host, IoError, IoRequest, Solo, SoloLock, TaskFlags, Tasks,
};
use crate::kernel::KernelSpec;
use crate::page::{Order, Pfn};
use crate::page_alloc::boot;
use crate::swap::SwapSpec;
use crate::sync::order::LockClass;
use crate::trace::{Event, Kind};

/// [`Solo`] with devices that keep requests. A sleeping task wakes when the oldest request is done.
#[derive(Default)]
pub(crate) struct Manual {
    pub(crate) solo: Solo,
    kernel: RefCell<Weak<Kernel<Manual>>>,
    /// Requests not done, oldest first.
    pub(crate) held: RefCell<Vec<IoRequest>>,
    /// Number of sleeps.
    pub(crate) naps: Cell<u32>,
    /// What sleepers wait for fails.
    pub(crate) fail: Cell<bool>,
}

impl Manual {
    /// Ends the request held at a position, as a device would.
    pub(crate) fn end(&self, position: usize, result: Result<(), IoError>) {
        let request = self.held.borrow_mut().remove(position);
        let kernel = self.kernel.borrow().upgrade().expect("the kernel lives");
        let interrupt = Cx::new(self, CpuId(1));
        interrupt.set_flags(TaskFlags::IN_INTERRUPT);
        kernel.end_request(&interrupt, request, result);
    }

    /// Start and length of the requests held, in order of arrival.
    pub(crate) fn sizes(&self) -> Vec<(u64, u32)> {
        self.held.borrow().iter().map(|r| (r.start, r.nr_pages)).collect()
    }

    /// How many are held.
    pub(crate) fn nr_held(&self) -> usize {
        self.held.borrow().len()
    }
}

impl Host for Manual {
    type Lock<T> = SoloLock<T>;
    type CpuLock<T> = SoloLock<T>;

    const HAS_DATA: bool = false;
    const THREADED: bool = false;

    fn new_lock<T>(&self, class: LockClass, value: T) -> SoloLock<T> {
        self.solo.new_lock(class, value)
    }

    fn new_cpu_lock<T>(&self, class: LockClass, owner: CpuId, value: T) -> SoloLock<T> {
        self.solo.new_cpu_lock(class, owner, value)
    }

    fn now_ns(&self) -> u64 {
        self.solo.now_ns()
    }

    fn charge(&self, cost: Cost, count: u32) {
        self.solo.charge(cost, count);
    }

    fn frame_zero(&self, _: Pfn, _: Order) {}

    fn frame_write(&self, _: Pfn, _: usize, _: &[u8]) {}

    fn frame_read(&self, _: Pfn, _: usize, _: &mut [u8]) {}

    fn trace(&self, _: CpuId, _: &Event) {}

    fn traces(&self, _: Kind) -> bool {
        false
    }

    fn yield_now(&self) {}

    fn sleep_jiffies(&self, jiffies: u64) {
        self.solo.sleep_jiffies(jiffies);
    }
}

impl Tasks for Manual {
    type Task = ();

    fn current(&self) {}

    fn park(&self, _: &'static str) {
        self.naps.set(self.naps.get() + 1);
        self.end(0, if self.fail.get() { Err(IoError::Device) } else { Ok(()) });
    }

    fn park_jiffies(&self, why: &'static str, _: u64) -> u64 {
        self.park(why);
        1
    }

    fn unpark(&self, (): &()) {}
}

impl Devices for Manual {
    fn submit(&self, request: IoRequest) -> Option<(IoRequest, Result<(), IoError>)> {
        self.held.borrow_mut().push(request);
        None
    }
}

/// A disk.
pub(crate) const DISK: DeviceSpec = DeviceSpec { depth: 8, ..DeviceSpec::hdd(1 << 20) };

/// A kernel with 64 MiB and devices whose transfers the test completes.
pub(crate) fn kernel(host: &Rc<Manual>, devices: &[DeviceSpec]) -> Rc<Kernel<Manual>> {
    kernel_of(host, devices, Vec::new(), |_| {})
}

/// The same with swap areas and changes to the policy, which is 6.1.
pub(crate) fn kernel_of(
    host: &Rc<Manual>,
    devices: &[DeviceSpec],
    swap: Vec<SwapSpec>,
    change: impl FnOnce(&mut Policy),
) -> Rc<Kernel<Manual>> {
    let machine = Machine::from_sizes("test", &[(64 << 20, vec![0, 1])]).unwrap();
    let mut policy = preset("6.1").unwrap();
    change(&mut policy);
    let mem = boot(&**host, &machine, &policy).unwrap();
    let spec = KernelSpec { devices: devices.to_vec(), swap, groups: 0 };
    let kernel = Rc::new(Kernel::new(&Cx::new(&**host, CpuId(0)), mem, &spec).unwrap());
    *host.kernel.borrow_mut() = Rc::downgrade(&kernel);
    kernel
}
