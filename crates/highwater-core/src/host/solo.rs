//! A host for one caller at a time: no time passes, locks never contend.
//!
//! Trace replay and tests of the allocator run on it. It counts lock acquisitions per class and
//! passes every event to a sink.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell, RefMut};

use super::{Cost, CpuId, Devices, Host, IoError, IoRequest, Lock, Tasks};
use crate::sync::order::LockClass;
use crate::trace::{Event, Kind};
use crate::units::{Order, Pfn};

/// Receives the events of a [`Solo`] host.
pub trait EventSink {
    /// An event of a CPU.
    fn event(&self, cpu: CpuId, event: &Event);

    /// False if nothing is done with events of a kind ([`Host::traces`]).
    fn wants(&self, kind: Kind) -> bool {
        let _ = kind;
        true
    }
}

/// Drops events.
impl EventSink for () {
    fn event(&self, _: CpuId, _: &Event) {}

    fn wants(&self, _: Kind) -> bool {
        false
    }
}

impl<F: Fn(CpuId, &Event)> EventSink for F {
    fn event(&self, cpu: CpuId, event: &Event) {
        self(cpu, event);
    }
}

type Counts = Rc<[Cell<u64>; LockClass::COUNT]>;

/// The host.
pub struct Solo<S = ()> {
    sink: S,
    takings: Counts,
    now_ns: Cell<u64>,
    cache_slice_bytes: Cell<u64>,
    #[cfg(test)]
    charges: [Cell<u64>; Cost::COUNT],
}

impl Default for Solo {
    fn default() -> Self {
        Solo::new(())
    }
}

impl<S> Solo<S> {
    /// A host whose events go to `sink`.
    pub fn new(sink: S) -> Solo<S> {
        Solo {
            sink,
            takings: Rc::default(),
            now_ns: Cell::new(0),
            cache_slice_bytes: Cell::new(0),
            #[cfg(test)]
            charges: [const { Cell::new(0) }; Cost::COUNT],
        }
    }

    /// How often locks of a class were taken.
    pub fn takings(&self, class: LockClass) -> u64 {
        self.takings[class as usize].get()
    }

    /// How often work of a kind was charged.
    #[cfg(test)]
    pub fn charged(&self, cost: Cost) -> u64 {
        self.charges[cost as usize].get()
    }

    /// Sets the time.
    pub fn set_now_ns(&self, now: u64) {
        self.now_ns.set(now);
    }

    /// Sets each CPU's share of its last-level cache, for machines booted from now on.
    pub fn set_cache_slice_bytes(&self, bytes: u64) {
        self.cache_slice_bytes.set(bytes);
    }

    /// The sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }
}

/// A lock that only counts.
pub struct SoloLock<T> {
    value: RefCell<T>,
    class: LockClass,
    takings: Counts,
}

impl<T> Lock<T> for SoloLock<T> {
    type Guard<'a>
        = RefMut<'a, T>
    where
        T: 'a;

    #[inline]
    fn lock(&self, _: CpuId) -> RefMut<'_, T> {
        let count = &self.takings[self.class as usize];
        count.set(count.get() + 1);
        self.value.borrow_mut()
    }

    #[inline]
    fn try_lock(&self, _: CpuId) -> Option<RefMut<'_, T>> {
        let guard = self.value.try_borrow_mut().ok()?;
        let count = &self.takings[self.class as usize];
        count.set(count.get() + 1);
        Some(guard)
    }

    fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        self.value.try_borrow().ok().map(|value| read(&value))
    }
}

impl<S: EventSink> Host for Solo<S> {
    type Lock<T> = SoloLock<T>;
    type CpuLock<T> = SoloLock<T>;

    const HAS_DATA: bool = false;
    const THREADED: bool = false;

    fn new_lock<T>(&self, class: LockClass, value: T) -> SoloLock<T> {
        SoloLock { value: RefCell::new(value), class, takings: self.takings.clone() }
    }

    fn new_cpu_lock<T>(&self, class: LockClass, _: CpuId, value: T) -> SoloLock<T> {
        self.new_lock(class, value)
    }

    fn cache_slice_bytes(&self, _: CpuId) -> u64 {
        self.cache_slice_bytes.get()
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn charge(&self, _: Cost, _: u32) {}

    #[cfg(test)]
    fn charge(&self, cost: Cost, count: u32) {
        let charges = &self.charges[cost as usize];
        charges.set(charges.get() + u64::from(count));
    }

    fn frame_zero(&self, _: Pfn, _: Order) {}

    fn frame_write(&self, _: Pfn, _: usize, _: &[u8]) {}

    fn frame_read(&self, _: Pfn, _: usize, _: &mut [u8]) {}

    #[inline]
    fn trace(&self, cpu: CpuId, event: &Event) {
        self.sink.event(cpu, event);
    }

    #[inline]
    fn traces(&self, kind: Kind) -> bool {
        self.sink.wants(kind)
    }

    fn yield_now(&self) {}

    fn sleep_jiffies(&self, jiffies: u64) {
        self.now_ns.set(self.now_ns.get() + jiffies * super::NS_PER_JIFFY);
    }

    fn sleep_ns(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }
}

/// One caller: whatever it waits for must have happened already.
impl<S: EventSink> Tasks for Solo<S> {
    type Task = ();

    fn current(&self) {}

    fn park(&self, why: &'static str) {
        panic!("nobody can end this wait: {why}");
    }

    fn park_jiffies(&self, _: &'static str, timeout: u64) -> u64 {
        self.sleep_jiffies(timeout);
        0
    }

    fn unpark(&self, (): &()) {}
}

/// Devices that are done at once.
impl<S: EventSink> Devices for Solo<S> {
    fn submit(&self, request: IoRequest) -> Option<(IoRequest, Result<(), IoError>)> {
        Some((request, Ok(())))
    }
}
