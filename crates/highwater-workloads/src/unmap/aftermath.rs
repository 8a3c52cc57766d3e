//! Reclaim of pages that were only used through short mappings, and their refaults.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::Kernel;
use highwater_core::page_cache::File;
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::vmstat::{NodeStat, VmEvent};

use super::{UnmapError, called};
use crate::process;

/// Bytes of one read() of the stream.
const READ_BYTES: u64 = 64 << 10;

/// Counts over the whole run, and of its last part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aftermath {
    /// Pages activated while the hot file was mapped and unmapped.
    pub activated: u64,
    /// Pages scanned while the cold file streamed through.
    pub scanned: u64,
    /// Hot pages that had to be read again when the file was mapped once more.
    pub refaulted: u64,
    /// Of these, pages that came back active.
    pub reactivated: u64,
    /// Faults that waited for the disk in that last part.
    pub major_faults: u64,
    /// Duration of the last part.
    pub again_ns: u64,
}

/// Maps, reads and unmaps `hot` twice, reads all of `cold`, maps, reads and unmaps `hot` again.
///
/// # Errors
/// If a call fails.
pub fn aftermath<H: Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
    hot: &Arc<File<H>>,
    cold: &Arc<File<H>>,
) -> Result<Aftermath, UnmapError> {
    let event = |event: VmEvent| kernel.mem.events.read(event);
    let node = |item: NodeStat| -> u64 {
        kernel.mem.nodes().iter().map(|n| n.stats.read_exact(item as usize)).sum()
    };
    let activated = event(VmEvent::Pgactivate);
    map_read_unmap(kernel, cx, hot)?;
    map_read_unmap(kernel, cx, hot)?;
    let activated = event(VmEvent::Pgactivate) - activated;

    let scans = || event(VmEvent::PgscanKswapd) + event(VmEvent::PgscanDirect);
    let scanned = scans();
    let open = kernel.open(cx, cold);
    let mut at = 0;
    loop {
        match called("reading the cold file", kernel.file_read(cx, &open, at, READ_BYTES))? {
            0 => break,
            n => at += n,
        }
    }
    let scanned = scans() - scanned;

    let refaulted = node(NodeStat::WorkingsetRefaultFile);
    let reactivated = node(NodeStat::WorkingsetActivateFile);
    let major_faults = event(VmEvent::Pgmajfault);
    let start = cx.host.now_ns();
    map_read_unmap(kernel, cx, hot)?;
    Ok(Aftermath {
        activated,
        scanned,
        refaulted: node(NodeStat::WorkingsetRefaultFile) - refaulted,
        reactivated: node(NodeStat::WorkingsetActivateFile) - reactivated,
        major_faults: event(VmEvent::Pgmajfault) - major_faults,
        again_ns: cx.host.now_ns() - start,
    })
}

fn map_read_unmap<H: Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
    file: &Arc<File<H>>,
) -> Result<(), UnmapError> {
    let mm = called("a new process", process::start(kernel, cx))?;
    let open = kernel.open(cx, file);
    let pages = file.spec.max_pages;
    let flags = VmaFlags::READ | VmaFlags::SHARED;
    let backing = Backing::File { open, page: 0 };
    let start = called("mmap", kernel.mmap(cx, &mm, pages, 1, flags, backing))?;
    for vpn in start..start + pages {
        called("reading mapped memory", kernel.touch(cx, &mm, vpn, Access::Read))?;
    }
    called("munmap", kernel.munmap(cx, &mm, start, pages))?;
    process::end(kernel, cx, &mm);
    Ok(())
}
