//! Memory of your own under the allocator: a host whose frames hold bytes, a machine that keeps none back.
//!
//! ```text
//! cargo run --release --example own_frames -p highwater
//! ```

use std::cell::{Cell, RefCell, RefMut};
use std::error::Error;

use highwater::core::config::{Machine, preset};
use highwater::core::host::{Cost, CpuId, Cx, Host, Lock, NS_PER_JIFFY};
use highwater::core::page::{Order, PAGE_SIZE, Pfn};
use highwater::core::page_alloc::{Gfp, NoRelief, PageAllocator, boot};
use highwater::core::sync::order::LockClass;
use highwater::core::trace::{Event, Kind};
use highwater::core::zone::NodeId;

/// Frame `n` is the `n`-th page of `bytes`. For one thread.
struct Slab {
    bytes: RefCell<Vec<u8>>,
    now_ns: Cell<u64>,
}

impl Slab {
    fn of(bytes: Vec<u8>) -> Slab {
        Slab { bytes: RefCell::new(bytes), now_ns: Cell::new(0) }
    }

    /// Where some bytes of a frame lie in the slab.
    fn range(pfn: Pfn, offset: usize, len: usize) -> core::ops::Range<usize> {
        let start = pfn.idx() * PAGE_SIZE + offset;
        start..start + len
    }
}

impl Host for Slab {
    type Lock<T> = OneThread<T>;
    type CpuLock<T> = OneThread<T>;

    const HAS_DATA: bool = true;
    const THREADED: bool = false;

    fn new_lock<T>(&self, _: LockClass, value: T) -> OneThread<T> {
        OneThread(RefCell::new(value))
    }

    fn new_cpu_lock<T>(&self, _: LockClass, _owner: CpuId, value: T) -> OneThread<T> {
        OneThread(RefCell::new(value))
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn charge(&self, _: Cost, _: u32) {}

    fn frame_zero(&self, pfn: Pfn, order: Order) {
        self.bytes.borrow_mut()[Self::range(pfn, 0, PAGE_SIZE << order.0)].fill(0);
    }

    fn frame_write(&self, pfn: Pfn, offset: usize, src: &[u8]) {
        self.bytes.borrow_mut()[Self::range(pfn, offset, src.len())].copy_from_slice(src);
    }

    fn frame_read(&self, pfn: Pfn, offset: usize, dst: &mut [u8]) {
        dst.copy_from_slice(&self.bytes.borrow()[Self::range(pfn, offset, dst.len())]);
    }

    fn trace(&self, _: CpuId, _: &Event) {}

    fn traces(&self, _: Kind) -> bool {
        false
    }

    fn yield_now(&self) {}

    fn sleep_jiffies(&self, jiffies: u64) {
        self.now_ns.set(self.now_ns.get() + jiffies * NS_PER_JIFFY);
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

/// Takes single pages until there are none.
fn take_all(memory: &PageAllocator<Slab>, task: &Cx<'_, Slab>) -> Vec<Pfn> {
    let take = || memory.alloc(task, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None);
    std::iter::from_fn(take).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let policy = preset("6.1").ok_or("no such kernel")?;
    let size = 16 << 20;
    let nodes = [(size as u64, vec![0])];

    // A PC keeps some of it: firmware, kernel image, page array. And below the min mark begins what is for
    // those only who free memory.
    let pc = Machine::from_sizes("a PC", &nodes)?;
    let mut mine = Machine::bare("mine", &nodes)?;
    mine.tunables.min_free_kbytes = Some(0);
    for machine in [&pc, &mine] {
        let host = Slab::of(vec![0; machine.end_pfn() as usize * PAGE_SIZE]);
        let memory = boot(&host, machine, &policy)?;
        let task = memory.task(&host, CpuId(0))?;
        let frames = take_all(&memory, &task);
        println!(
            "{:5} {} pages, {} for the allocator, {} allocated",
            machine.name,
            size / PAGE_SIZE,
            machine.managed_pages(),
            frames.len()
        );

        // What was stored in a frame stays there until the frame is somebody else's.
        let (first, last) = (frames[0], frames[frames.len() - 1]);
        host.frame_write(first, 100, b"first");
        host.frame_write(last, 100, b"last");
        let mut back = [0; 5];
        host.frame_read(first, 100, &mut back);
        assert_eq!(&back, b"first");
        for pfn in frames {
            memory.free(&task, pfn, Order(0))?;
        }
    }

    // A CPU that the machine lacks is an error here, and nowhere later.
    let host = Slab::of(vec![0; size]);
    let memory = boot(&host, &mine, &policy)?;
    if let Err(error) = memory.task(&host, CpuId(1)) {
        println!("{error}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs() {
        main().unwrap();
    }

    #[test]
    fn a_bare_machine_gives_every_page() {
        let size = 16 << 20;
        let mut machine = Machine::bare("mine", &[(size as u64, vec![0])]).unwrap();
        machine.tunables.min_free_kbytes = Some(0);
        let host = Slab::of(vec![0; size]);
        let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        let task = memory.task(&host, CpuId(0)).unwrap();
        assert_eq!(take_all(&memory, &task).len(), size / PAGE_SIZE);
    }
}
