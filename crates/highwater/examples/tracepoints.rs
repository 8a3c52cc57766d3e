//! Every tracepoint that a small machine under load passes, as ftrace would print it, and how often.
//!
//! ```text
//! cargo run --release --example tracepoints -p highwater | grep kswapd
//! ```

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

use highwater::core::block::DeviceId;
use highwater::core::config::{Machine, preset};
use highwater::core::host::CpuId;
use highwater::core::page::PAGE_SIZE;
use highwater::core::page_cache::{FileSpec, Filesystem};
use highwater::core::trace::{Counts, Event, TRACEPOINTS};
use highwater::sim::cost::{CostModel, CostTable};
use highwater::sim::disk::{DiskKind, DiskSpec, HddSpec};
use highwater::sim::engine::Placement;
use highwater::sim::host::Tracing;
use highwater::sim::machine::{MachineConfig, SimMachine};

const MIB: u64 = 1 << 20;
/// Read from end to end: more than there is memory.
const FILE_BYTES: u64 = 192 * MIB;
const FILE_PAGES: u64 = FILE_BYTES / PAGE_SIZE as u64;
const READ_BYTES: u64 = MIB / 16;

fn main() -> Result<(), Box<dyn Error>> {
    let machine = Machine::from_sizes("small", &[(128 * MIB, vec![0, 1])])?;
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").ok_or("no such kernel")?);
    let disk = HddSpec::streaming(500_000_000);
    config.disks = vec![DiskSpec::new("disk", DiskKind::Hdd(disk), FILE_PAGES)];

    // A sink gets every event, typed: it may count them, look at their fields, or print them.
    let counts = Rc::new(RefCell::new(Counts::default()));
    let counted = Rc::clone(&counts);
    let sink = move |ns: u64, cpu: CpuId, event: &Event| {
        counted.borrow_mut().count(event);
        let (s, us) = (ns / 1_000_000_000, ns / 1000 % 1_000_000);
        println!("  task-0       [{:03}] ..... {s:>5}.{us:06}: {event}", cpu.0);
    };
    config.tracing = Tracing { sink: Some(Box::new(sink)), ..Tracing::default() };

    let mut machine = SimMachine::boot(config)?;
    let reader = machine.spawn_task("reader", Placement::Anywhere, |cx, kernel| {
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, FILE_PAGES as u32);
        let file = kernel.open(cx, &kernel.create_file(cx, spec));
        (0..FILE_BYTES)
            .step_by(READ_BYTES as usize)
            .try_for_each(|at| kernel.file_read(cx, &file, at, READ_BYTES).map(drop))
    });
    machine.run()?;
    reader.take().ok_or("the reader was lost")?.map_err(|error| format!("{error:?}"))?;

    println!();
    for (kind, count) in counts.borrow().iter() {
        let tracepoint = kind.tracepoint();
        let name = format!("{}:{}", tracepoint.system, tracepoint.name);
        println!("{count:>8}  {name:<36} {}", tracepoint.doc);
    }
    println!("{} of {} tracepoints", counts.borrow().iter().count(), TRACEPOINTS.len());
    Ok(())
}
