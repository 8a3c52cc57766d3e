//! Boots the page allocator from a memory map, allocates, frees, and prints what it did.
//!
//! ```text
//! cargo run --manifest-path examples/embed/Cargo.toml
//! cargo test --manifest-path examples/embed/Cargo.toml
//! ```

mod host;

use std::error::Error;
use std::fmt::Write;
use std::thread;

use highwater_core::embed::{
    CpuId, Gfp, Host, Machine, Memory, MemoryRange, NodeId, Order, PAGE_SIZE, Stats, preset,
};

use host::Board;

/// 64 MiB on two nodes, as a boot loader would list them: firmware, a kernel's image, a hole for
/// devices.
fn memory_map() -> Vec<MemoryRange> {
    let (near, far) = (NodeId(0), NodeId(1));
    vec![
        MemoryRange::usable(0x000_0000..0x009_f000, near),
        MemoryRange::reserved(0x000_0000..0x000_1000), // real-mode interrupt vectors
        MemoryRange::reserved(0x00f_0000..0x010_0000), // BIOS
        MemoryRange::usable(0x010_0000..0x200_0000, near),
        MemoryRange::reserved(0x010_0000..0x080_0000), // the kernel's image
        MemoryRange::usable(0x280_0000..0x480_0000, far),
    ]
}

/// The report of a run.
fn run() -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    let cpus = [NodeId(0), NodeId(1)];
    let machine = Machine::from_ranges("board", &memory_map(), &cpus)?.without_reserves();
    let host = Board::new(machine.end_pfn());
    let policy = preset("6.1").ok_or("there is no such kernel version")?;
    let memory = Memory::boot(&host, &machine, &policy)?;
    let cpu = memory.cpu(&host, CpuId(0))?;
    let booted = cpu.stats();
    zones(&mut out, &booted)?;

    // A block is aligned to its size, and its bytes are the caller's until it is freed.
    let block = cpu.alloc(Order(4), Gfp::GFP_KERNEL, NodeId(1))?;
    host.frame_write(block, 16 * PAGE_SIZE - 4, b"last");
    let mut back = [0; 4];
    host.frame_read(block, 16 * PAGE_SIZE - 4, &mut back);
    writeln!(
        out,
        "order 4 on node 1: frame {:#x}, ends with {:?}",
        block.0,
        str::from_utf8(&back)?
    )?;
    cpu.free(block, Order(4))?;
    if let Err(error) = cpu.free(block, Order(4)) {
        writeln!(out, "freed twice: {error}")?;
    }

    // Every page that no reserved range has can be allocated. The nearest node serves first.
    let mut taken = Vec::new();
    let full = loop {
        match cpu.alloc(Order(0), Gfp::GFP_KERNEL, NodeId(0)) {
            Ok(page) => taken.push(page),
            Err(error) => break error,
        }
    };
    let reserved = |frame: u32| frame < 1 || (0x100..0x800).contains(&frame);
    assert!(taken.iter().all(|page| !reserved(page.0)), "reserved memory was handed out");
    writeln!(out, "allocated {} of {} pages, then: {full}", taken.len(), machine.managed_pages())?;
    for page in taken {
        cpu.free(page, Order(0))?;
    }

    // One thread for each CPU.
    thread::scope(|scope| {
        let workers = [CpuId(0), CpuId(1)].map(|id| {
            let (memory, host) = (&memory, &host);
            scope.spawn(move || {
                let cpu = memory.cpu(host, id).map_err(|error| error.to_string())?;
                for round in 0..10_000u32 {
                    let order = Order((round % 4) as u8);
                    let block = cpu.alloc(order, Gfp::GFP_KERNEL, cpu.node());
                    let block = block.map_err(|error| error.to_string())?;
                    cpu.free(block, order).map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            })
        });
        workers.into_iter().try_for_each(|worker| worker.join().expect("no thread panics"))
    })?;

    cpu.drain();
    cpu.audit()?;
    let stats = cpu.stats();
    assert_eq!((stats.free_pages, stats.pcp_pages), (booted.free_pages, 0), "all came back");
    zones(&mut out, &stats)?;
    for name in ["pgalloc_dma", "pgalloc_dma32", "pgfree", "numa_hit", "numa_miss"] {
        let value = stats.counter(name).ok_or("6.1 has this counter")?;
        writeln!(out, "{name} {value}")?;
    }
    Ok(out)
}

fn zones(out: &mut String, stats: &Stats) -> std::fmt::Result {
    for zone in &stats.zones {
        let (node, name, reserved) = (zone.node.0, zone.zone, zone.present - zone.managed);
        write!(out, "node {node} {name:5} {} pages, {reserved} reserved", zone.present)?;
        writeln!(out, ", {} free (min {}, high {})", zone.free, zone.min, zone.high)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", run()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_prints_what_the_book_shows() {
        assert_eq!(super::run().unwrap(), include_str!("../expected.txt"));
    }

    #[test]
    fn a_map_that_cannot_be_says_why() {
        let mut map = super::memory_map();
        map[0] = super::MemoryRange::usable(0..0x9_fc00, super::NodeId(0));
        let error = super::Machine::from_ranges("board", &map, &[super::NodeId(0)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ranges[0]: usable 0x0..0x9fc00, node 0: is not made of whole pages (4096 bytes): round \
             a usable range inward, to 0x0..0x9f000"
        );
    }
}
