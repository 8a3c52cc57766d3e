//! The board as a [`Host`].

use core::hint::spin_loop;

use highwater_core::host::{Cost, CpuId, Host, NS_PER_JIFFY};
use highwater_core::page::{Order, PAGE_SIZE, Pfn};
use highwater_core::sync::order::LockClass;
use highwater_core::trace::{Event, Kind};

use crate::{Memory, SpinLock};

/// Reads the board's timer: nanoseconds since it was started.
pub type Timer = fn() -> u64;

/// Memory and a timer. A CPU runs whatever it is given. Its number comes from its
/// [`Cx`](highwater_core::host::Cx), and no two CPUs use the same number.
#[derive(Debug)]
pub struct Board {
    memory: Memory,
    timer: Timer,
}

impl Board {
    /// A board with this memory and timer.
    pub const fn new(memory: Memory, timer: Timer) -> Board {
        Board { memory, timer }
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Host for Board {
    type Lock<T> = SpinLock<T>;
    type CpuLock<T> = SpinLock<T>;

    const HAS_DATA: bool = true;

    fn new_lock<T>(&self, _: LockClass, value: T) -> SpinLock<T> {
        SpinLock::new(value)
    }

    fn new_cpu_lock<T>(&self, _: LockClass, _owner: CpuId, value: T) -> SpinLock<T> {
        SpinLock::new(value)
    }

    fn now_ns(&self) -> u64 {
        (self.timer)()
    }

    /// The work itself takes the time, so nothing is charged.
    fn charge(&self, _: Cost, _: u32) {}

    fn frame_zero(&self, pfn: Pfn, order: Order) {
        self.memory.zero(pfn, PAGE_SIZE << order.0);
    }

    fn frame_write(&self, pfn: Pfn, offset: usize, src: &[u8]) {
        self.memory.write(pfn, offset, src);
    }

    fn frame_read(&self, pfn: Pfn, offset: usize, dst: &mut [u8]) {
        self.memory.read(pfn, offset, dst);
    }

    fn trace(&self, _: CpuId, _: &Event) {}

    fn traces(&self, _: Kind) -> bool {
        false
    }

    fn yield_now(&self) {
        spin_loop();
    }

    /// Nothing else can run on this CPU meanwhile, so it spins.
    fn sleep_jiffies(&self, jiffies: u64) {
        let end = self.now_ns().saturating_add(jiffies.saturating_mul(NS_PER_JIFFY));
        while self.now_ns() < end {
            spin_loop();
        }
    }
}
