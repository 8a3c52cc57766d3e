//! The allocator in a program of your own: real threads, real memory, no simulation.
//!
//! ```text
//! cargo run --release --example quickstart -p highwater
//! ```

use std::error::Error;
use std::thread;

use highwater::core::config::{Machine, preset};
use highwater::core::host::{CpuId, Host};
use highwater::core::page::{Order, PAGE_SIZE};
use highwater::core::page_alloc::Gfp;
use highwater::core::proc;
use highwater::core::vmstat::VmEvent;
use highwater::native::{NativeMachine, NativeOptions};

fn main() -> Result<(), Box<dyn Error>> {
    // One node of 256 MiB with two CPUs, under the rules of Linux 6.1. `preset` knows other kernels.
    let machine = Machine::from_sizes("mine", &[(256 << 20, vec![0, 1])])?;
    let policy = preset("6.1").ok_or("no such kernel")?;
    let memory = NativeMachine::boot(&machine, &policy, &NativeOptions::default())?;
    print_buddyinfo("after boot", &memory)?;

    // A thread leases a CPU; while it does, that CPU's page lists are nearly free to use.
    let task = memory.enter(CpuId(0))?;
    let order = Order(2);
    let block = task.alloc(Gfp::GFP_KERNEL, order).ok_or("no memory")?;
    let text = b"four pages in a row";
    // Frames are reached through the host: this crosses from the block's first page to its second.
    memory.host.frame_write(block, PAGE_SIZE - 4, text);
    let mut back = [0; 19];
    memory.host.frame_read(block, PAGE_SIZE - 4, &mut back);
    println!("frame {:#x} holds {:?}\n", block.0, str::from_utf8(&back)?);

    // Any thread may free what another allocated; here one that runs on CPU 1.
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<(), String> {
            let task = memory.enter(CpuId(1)).map_err(|e| e.to_string())?;
            task.free(block, order).map_err(|e| e.to_string())
        });
        other.join().map_err(|_| "the thread panicked")?
    })?;

    // Mistakes are errors, not corruption.
    match task.free(block, order) {
        Err(error) => println!("freed twice: {error}\n"),
        Ok(()) => return Err("a second free went unnoticed".into()),
    }

    print_buddyinfo("with pages on the CPUs' lists", &memory)?;
    task.drain_all();
    print_buddyinfo("drained", &memory)?;
    let count = |event| memory.alloc.events.read(event);
    println!("pgfree {}, pgalloc_dma32 {}", count(VmEvent::Pgfree), count(VmEvent::PgallocDma32));
    Ok(())
}

/// `/proc/buddyinfo`: free blocks of each order, smallest first.
fn print_buddyinfo(when: &str, memory: &NativeMachine) -> Result<(), std::fmt::Error> {
    let mut text = String::new();
    proc::buddyinfo(&mut text, &memory.alloc)?;
    println!("{when}:\n{text}");
    Ok(())
}
