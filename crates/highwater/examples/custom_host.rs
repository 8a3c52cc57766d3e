//! A host of your own: what the memory manager needs from below, in one screenful.
//!
//! ```text
//! cargo run --release --example custom_host -p highwater
//! ```
//!
//! This one adds up what operations cost, at prices of its own, and keeps no bytes behind frames.
//! `highwater::core::host::Solo` is nearly the same with counts of lock takings; the simulator and
//! the native host are larger ones.

use std::cell::{Cell, RefCell, RefMut};
use std::error::Error;

use highwater::core::config::{Machine, preset};
use highwater::core::host::{Cost, CpuId, Host, Lock, NS_PER_JIFFY};
use highwater::core::page::{Order, Pfn};
use highwater::core::page_alloc::boot;
use highwater::core::page_alloc::{Gfp, NoRelief};
use highwater::core::sync::order::LockClass;
use highwater::core::trace::Event;
use highwater::core::zone::NodeId;

/// Counts charges; time is what they cost.
struct Counting {
    charges: [Cell<u64>; Cost::COUNT],
    events: Cell<u64>,
    now_ns: Cell<u64>,
}

impl Default for Counting {
    fn default() -> Self {
        Counting {
            charges: [const { Cell::new(0) }; Cost::COUNT],
            events: Cell::new(0),
            now_ns: Cell::new(0),
        }
    }
}

/// Enough of a lock where only one thread runs.
struct OneThread<T>(RefCell<T>);

impl<T> Lock<T> for OneThread<T> {
    type Guard<'a>
        = RefMut<'a, T>
    where
        T: 'a;

    fn lock(&self, _: CpuId) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }

    fn try_lock(&self, _: CpuId) -> Option<RefMut<'_, T>> {
        self.0.try_borrow_mut().ok()
    }
}

impl Host for Counting {
    type Lock<T> = OneThread<T>;
    type CpuLock<T> = OneThread<T>;

    const HAS_DATA: bool = false;

    fn new_lock<T>(&self, _: LockClass, value: T) -> OneThread<T> {
        OneThread(RefCell::new(value))
    }

    fn new_cpu_lock<T>(&self, _: LockClass, _owner: CpuId, value: T) -> OneThread<T> {
        OneThread(RefCell::new(value))
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    /// Prices of this example: a buddy operation costs ten times one on a CPU's list.
    fn charge(&self, cost: Cost, count: u32) {
        let charged = &self.charges[cost as usize];
        charged.set(charged.get() + u64::from(count));
        let price_ns = match cost {
            Cost::BuddyRemove | Cost::BuddyFree => 100,
            _ => 10,
        };
        self.now_ns.set(self.now_ns.get() + price_ns * u64::from(count));
    }

    fn frame_zero(&self, _: Pfn, _: Order) {}
    fn frame_write(&self, _: Pfn, _: usize, _: &[u8]) {}
    fn frame_read(&self, _: Pfn, _: usize, _: &mut [u8]) {}

    fn trace(&self, _: CpuId, _: &Event) {
        self.events.set(self.events.get() + 1);
    }

    fn yield_now(&self) {}

    fn sleep_jiffies(&self, jiffies: u64) {
        self.now_ns.set(self.now_ns.get() + jiffies * NS_PER_JIFFY);
    }
}

/// A hundred thousand blocks allocated on CPU 0 and freed on CPU 1, as a socket's buffers are.
fn main() -> Result<(), Box<dyn Error>> {
    let machine = Machine::from_sizes("small", &[(512 << 20, vec![0, 1])])?;
    for kernel in ["5.4", "5.17", "6.1"] {
        let host = Counting::default();
        let memory = boot(&host, &machine, &preset(kernel).ok_or("no such kernel")?)?;
        let (from, to) = (memory.task(&host, CpuId(0))?, memory.task(&host, CpuId(1))?);
        let booted_ns = host.now_ns();
        let before = host.charges.clone().map(Cell::into_inner);
        for _ in 0..100_000 {
            let page = memory.alloc(&from, &NoRelief, Gfp::GFP_KERNEL, Order(3), NodeId(0), None);
            memory.free(&to, page.ok_or("no memory")?, Order(3))?;
        }
        println!("{kernel}: {} ns a block", (host.now_ns() - booted_ns) / 100_000);
        for cost in Cost::ALL {
            let count = host.charges[*cost as usize].get() - before[*cost as usize];
            if count > 0 {
                println!("    {:14}{count:>8}", cost.key());
            }
        }
    }
    Ok(())
}
