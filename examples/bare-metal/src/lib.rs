//! The memory manager without an operating system: the part that a kernel for a board has to
//! supply.
//!
//! ```text
//! cargo test -p bare-metal                                  # as a program, on this computer
//! cargo build -p bare-metal --target x86_64-unknown-none    # as part of a kernel
//! ```
//!
//! A [`Board`] is a [`Host`](highwater_core::host::Host): spin locks, a timer, and one range of
//! memory that the bootloader left free. A kernel also needs three parts that every kernel has: a
//! `#[global_allocator]` for the core's own tables (32 bytes for each page, 0.8 % of the memory), a
//! panic handler, and the start of the other CPUs. The book's page "Bare metal" explains the
//! example.

#![no_std]

#[cfg(test)]
extern crate std;

mod board;
mod memory;
mod spin;

pub use board::{Board, Timer};
pub use memory::Memory;
pub use spin::{SpinGuard, SpinLock};

use highwater_core::config::{Machine, MachineError, Policy};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_alloc::{PageAllocator, boot};

/// Gives all of a board's memory to a page allocator for `nr_cpus` CPUs.
///
/// # Errors
/// If there is no memory or no CPU.
pub fn allocator(
    board: &Board,
    nr_cpus: u16,
    policy: &Policy,
) -> Result<PageAllocator<Board>, MachineError> {
    let bytes = (board.memory().nr_frames() * PAGE_SIZE) as u64;
    let mut machine = Machine::bare("board", &[(bytes, (0..nr_cpus).collect())])?;
    // Nothing reclaims here, so no pages are reserved for reclaimers.
    machine.tunables.min_free_kbytes = Some(0);
    boot(board, &machine, policy)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::{thread, vec, vec::Vec};

    use highwater_core::audit;
    use highwater_core::config::preset;
    use highwater_core::host::{CpuId, Host};
    use highwater_core::page::{Order, Pfn};
    use highwater_core::page_alloc::{Gfp, NoRelief};
    use highwater_core::zone::NodeId;

    use super::*;

    const FRAMES: usize = 4096;

    /// A page of the memory that the bootloader left, with the alignment of a page.
    #[repr(align(4096))]
    #[derive(Clone)]
    struct Frame([u8; PAGE_SIZE]);

    static TICKS: AtomicU64 = AtomicU64::new(0);

    fn timer() -> u64 {
        TICKS.fetch_add(1000, Relaxed)
    }

    /// A board, and the contents of its memory at the end.
    fn with_board(run: impl FnOnce(&Board)) -> Vec<Frame> {
        let mut left = vec![Frame([0; PAGE_SIZE]); FRAMES];
        let start = left.as_mut_ptr().cast();
        // SAFETY: 1. the vector has that many frames and outlives the board; 2. nothing else
        // accesses it meanwhile; 3. the tests access only what they allocated.
        // 3. the tests access what they allocated.
        let memory = unsafe { Memory::new(start, FRAMES) }.expect("aligned");
        run(&Board::new(memory, timer));
        left
    }

    #[test]
    fn every_frame_is_handed_out_and_holds_bytes() {
        let left = with_board(|board| {
            let memory = allocator(board, 1, &preset("6.1").unwrap()).unwrap();
            let task = memory.task(board, CpuId(0)).unwrap();
            let take =
                || memory.alloc(&task, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None);
            let frames: Vec<Pfn> = core::iter::from_fn(take).collect();
            assert_eq!(frames.len(), FRAMES);
            for &pfn in &frames {
                board.frame_write(pfn, PAGE_SIZE - 4, b"mine");
            }
            for pfn in frames {
                memory.free(&task, pfn, Order(0)).unwrap();
            }
            memory.drain_all(&task, None);
            assert_eq!(memory.nr_free_pages(), FRAMES as u64);
        });
        assert!(left.iter().all(|frame| frame.0.ends_with(b"mine")), "each in its place");
    }

    #[test]
    fn cpus_share_the_memory() {
        with_board(|board| {
            let memory = allocator(board, 2, &preset("6.1").unwrap()).unwrap();
            thread::scope(|scope| {
                for cpu in [CpuId(0), CpuId(1)] {
                    let memory = &memory;
                    scope.spawn(move || {
                        let task = memory.task(board, cpu).unwrap();
                        for round in 0..2000u32 {
                            let order = Order((round % 4) as u8);
                            let gfp = Gfp::GFP_KERNEL;
                            let node = memory.cpu_node(cpu);
                            let pfn = memory.alloc(&task, &NoRelief, gfp, order, node, None);
                            let pfn = pfn.expect("there is memory for both");
                            let mine = [cpu.0 as u8 + 1; 8];
                            board.frame_write(pfn, 0, &mine);
                            let mut back = [0; 8];
                            board.frame_read(pfn, 0, &mut back);
                            assert_eq!(back, mine, "nobody else has the frame");
                            memory.free(&task, pfn, order).unwrap();
                        }
                    });
                }
            });
            let task = memory.task(board, CpuId(0)).unwrap();
            let report = audit::check(&memory, &task).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(report.used, 0);
            assert!(memory.task(board, CpuId(2)).is_err());
        });
    }
}
