//! Page cache and faults: the same programs on our kernel and on the computer's own kernel.
//!
//! | operation | is |
//! |---|---|
//! | read | a cached file from begin to end, a piece at a time, copied to a buffer |
//! | write | the first write to each page of new anonymous memory: a fault and a page of zeros |
//! | fault | the first read of each page of a mapped cached file, of which each fault maps sixteen |
//! | unmap | the end of such a mapping, all pages at once |
//!
//! The two do not do the same work. Our kernel is called as a function. It has no trap, no change
//! of privilege, no page table that a processor walks and no TLB flush; a read is a function call,
//! too. Linux's file is in memory (a memfd). Both do the memory manager's part: find or allocate
//! pages, zero or copy them, account, link, map and unmap. So a figure above Linux's shows that our
//! code is slow there. A figure below Linux's does not show that Linux is slow.
//!
//! The unit is CPU time of the calling thread, nanoseconds per page of 4 KiB. Each sample checks
//! its work: bytes on Linux; counters, and at the end the audit, in our kernel. The first sample of
//! each is dropped.

use core::fmt;
use std::sync::Arc;

use highwater_core::audit;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, Policy};
use highwater_core::host::CpuId;
use highwater_core::kernel::KernelSpec;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::vm::{Access, Backing, Fault, Mm, VmaFlags};
use highwater_core::vmstat::NodeStat;
use highwater_core::zone::NodeId;

use super::pattern::Clocks;
use super::system::{MemoryFile, Program};
use super::{BenchError, SAMPLES};
use crate::host::{NativeHost, NativeOptions};
use crate::kernel::{KernelTask, NativeKernel};

/// Pages of the file and of the mappings: 64 MiB.
const NR_PAGES: u32 = 1 << 14;
/// The same with `quick`.
const NR_PAGES_QUICK: u32 = 1 << 9;
/// Most pages that a fault of a mapped file maps, including the faulting page.
const FAULT_AROUND: u32 = 16;

/// The operation of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOperation {
    /// A cached file, 4 KiB at a time.
    Read4K,
    /// A cached file, 1 MiB at a time.
    Read1M,
    /// First writes to anonymous memory.
    AnonWrite,
    /// Unmapping that memory.
    AnonUnmap,
    /// First reads of a mapped cached file.
    FileFault,
    /// Unmapping that file mapping.
    FileUnmap,
}

impl PageOperation {
    /// All operations, in table order.
    pub const ALL: [PageOperation; 6] = [
        PageOperation::Read4K,
        PageOperation::Read1M,
        PageOperation::AnonWrite,
        PageOperation::AnonUnmap,
        PageOperation::FileFault,
        PageOperation::FileUnmap,
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            PageOperation::Read4K => "read, 4 KiB",
            PageOperation::Read1M => "read, 1 MiB",
            PageOperation::AnonWrite => "anonymous, write",
            PageOperation::AnonUnmap => "anonymous, unmap",
            PageOperation::FileFault => "file, fault",
            PageOperation::FileUnmap => "file, unmap",
        }
    }
}

impl fmt::Display for PageOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One operation, on our kernel and on the computer's own: nanoseconds per page, median and best of
/// the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageRow {
    /// The operation.
    pub operation: PageOperation,
    /// Our kernel, median.
    pub ours_ns: f64,
    /// Our kernel, the best sample.
    pub ours_ns_min: f64,
    /// The computer's own, median.
    pub system_ns: f64,
    /// The computer's own, the best sample.
    pub system_ns_min: f64,
}

/// A kernel that runs the operations.
pub(super) trait Side {
    /// Reads the whole file, `piece` bytes at a time.
    fn read_file(&mut self, piece: usize) -> Result<(), String>;
    /// Maps new anonymous memory.
    fn map_anon(&mut self) -> Result<(), String>;
    /// Maps the file for reading.
    fn map_file(&mut self) -> Result<(), String>;
    /// Writes to each page of the mapping.
    fn write_pages(&mut self) -> Result<(), String>;
    /// Reads from each page of the mapping.
    fn read_pages(&mut self) -> Result<(), String>;
    /// Checks all that was written or read; not timed.
    fn check(&mut self) -> Result<(), String>;
    /// Unmaps the mapping.
    fn unmap(&mut self) -> Result<(), String>;
}

/// Measures all operations on both kernels, in turns.
///
/// # Errors
/// If a kernel cannot be set up or gives a wrong result.
pub fn run_pages(policy: &Policy, quick: bool) -> Result<Vec<PageRow>, BenchError> {
    let nr_pages = if quick { NR_PAGES_QUICK } else { NR_PAGES };
    let nr_samples = if quick { 1 } else { SAMPLES };
    let nr_cpus = NativeKernel::daemon_cpus(1) as u16 + 1;
    let bytes = (u64::from(nr_pages) * PAGE_SIZE as u64 * 4).max(64 << 20);
    let machine =
        Machine::from_sizes("pages", &[(bytes, (0..nr_cpus).collect())]).map_err(wrong)?;
    let disk = DeviceSpec::ram(u64::from(nr_pages));
    let spec = KernelSpec { devices: vec![disk], swap: Vec::new(), groups: 0 };
    let native =
        NativeKernel::boot(&machine, policy, &NativeOptions::default(), &spec).map_err(wrong)?;
    let samples = native.with_daemons(|| -> Result<_, String> {
        let task = native.enter(CpuId(0)).map_err(|e| e.to_string())?;
        let mut system = Program::new(MemoryFile::new(nr_pages as usize * PAGE_SIZE)?);
        let mut ours = Ours::new(&native, &task, nr_pages)?;
        let mut samples = Vec::new();
        for _ in 0..nr_samples + 1 {
            samples.push((sample(&mut ours, nr_pages)?, sample(&mut system, nr_pages)?));
        }
        ours.exit();
        audit::check_kernel(&native.kernel, &task.cx).map_err(|e| e.to_string())?;
        Ok(samples)
    });
    let samples = samples.map_err(wrong)?.map_err(wrong)?;
    let rows = PageOperation::ALL.iter().enumerate().map(|(n, &operation)| {
        let sorted = |side: fn(&(Times, Times)) -> &Times| {
            // The first one warms up.
            let mut ns: Vec<f64> = samples[1..].iter().map(|s| side(s)[n]).collect();
            ns.sort_by(f64::total_cmp);
            ns
        };
        let (ours, system) = (sorted(|s| &s.0), sorted(|s| &s.1));
        PageRow {
            operation,
            ours_ns: ours[ours.len() / 2],
            ours_ns_min: ours[0],
            system_ns: system[system.len() / 2],
            system_ns_min: system[0],
        }
    });
    Ok(rows.collect())
}

fn wrong(error: impl fmt::Display) -> BenchError {
    BenchError::Pages(error.to_string())
}

/// Nanoseconds per page, by operation.
type Times = [f64; PageOperation::ALL.len()];

fn sample(side: &mut impl Side, nr_pages: u32) -> Result<Times, String> {
    let mut times = Times::default();
    for (n, operation) in PageOperation::ALL.into_iter().enumerate() {
        match operation {
            PageOperation::AnonWrite => side.map_anon()?,
            PageOperation::FileFault => side.map_file()?,
            _ => {}
        }
        let begun = Clocks::now();
        match operation {
            PageOperation::Read4K => side.read_file(PAGE_SIZE)?,
            PageOperation::Read1M => side.read_file(1 << 20)?,
            PageOperation::AnonWrite => side.write_pages()?,
            PageOperation::FileFault => side.read_pages()?,
            PageOperation::AnonUnmap | PageOperation::FileUnmap => side.unmap()?,
        }
        times[n] = begun.elapsed().cpu_ns as f64 / f64::from(nr_pages);
        side.check().map_err(|what| format!("{operation}: {what}"))?;
    }
    Ok(times)
}

/// Our kernel.
struct Ours<'k> {
    native: &'k NativeKernel,
    task: &'k KernelTask<'k>,
    open: Arc<OpenFile<NativeHost>>,
    mm: Arc<Mm<NativeHost>>,
    nr_pages: u32,
    /// First page of the mapping.
    start: u32,
    /// Mapped pages that the node must count: anonymous, file.
    expected: (u32, u32),
}

impl<'k> Ours<'k> {
    fn new(
        native: &'k NativeKernel,
        task: &'k KernelTask<'k>,
        nr_pages: u32,
    ) -> Result<Ours<'k>, String> {
        let (kernel, cx) = (&native.kernel, &task.cx);
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, nr_pages);
        let open = kernel.open(cx, &kernel.create_file(cx, spec));
        let mm = kernel.create_mm(cx).map_err(|e| e.to_string())?;
        mm.add_task(cx);
        Ok(Ours { native, task, open, mm, nr_pages, start: 0, expected: (0, 0) })
    }

    fn exit(self) {
        self.native.kernel.exit_mm(&self.task.cx, &self.mm);
        self.mm.remove_task(&self.task.cx);
    }

    fn map(&mut self, flags: VmaFlags, backing: Backing<NativeHost>) -> Result<(), String> {
        let (kernel, cx) = (&self.native.kernel, &self.task.cx);
        let start = kernel.mmap(cx, &self.mm, self.nr_pages, 1, flags, backing);
        self.start = start.map_err(|e| e.to_string())?;
        Ok(())
    }

    /// One access to each page; returns the number of faults.
    fn touch(&self, access: Access) -> Result<u32, String> {
        let (kernel, cx) = (&self.native.kernel, &self.task.cx);
        let mut faults = 0;
        for vpn in self.start..self.start + self.nr_pages {
            match kernel.touch(cx, &self.mm, vpn, access).map_err(|e| e.to_string())? {
                Fault::None => {}
                Fault::Minor => faults += 1,
                Fault::Major => return Err("a fault waited for the disk".to_owned()),
            }
        }
        Ok(faults)
    }
}

impl Side for Ours<'_> {
    fn read_file(&mut self, piece: usize) -> Result<(), String> {
        let (kernel, cx) = (&self.native.kernel, &self.task.cx);
        let size = u64::from(self.nr_pages) * PAGE_SIZE as u64;
        let mut at = 0;
        while at < size {
            let read = kernel.file_read(cx, &self.open, at, piece as u64);
            match read.map_err(|e| e.to_string())? {
                0 => return Err(format!("the file of {size} bytes ends at {at}")),
                read => at += read,
            }
        }
        Ok(())
    }

    fn map_anon(&mut self) -> Result<(), String> {
        self.map(VmaFlags::READ | VmaFlags::WRITE, Backing::Anon)
    }

    fn map_file(&mut self) -> Result<(), String> {
        let backing = Backing::File { open: Arc::clone(&self.open), page: 0 };
        self.map(VmaFlags::READ | VmaFlags::SHARED, backing)
    }

    fn write_pages(&mut self) -> Result<(), String> {
        let (faults, pages) = (self.touch(Access::Write)?, self.nr_pages);
        self.expected = (pages, 0);
        match faults == pages {
            true => Ok(()),
            false => Err(format!("{faults} faults for {pages} pages")),
        }
    }

    fn read_pages(&mut self) -> Result<(), String> {
        let (faults, pages) = (self.touch(Access::Read)?, self.nr_pages);
        self.expected = (0, pages);
        match faults == pages / FAULT_AROUND {
            true => Ok(()),
            false => Err(format!("{faults} faults for {pages} pages")),
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let stats = &self.native.kernel.mem.node(NodeId(0)).stats;
        let count = |item: NodeStat| stats.read_exact(item as usize) as u32;
        let found = (count(NodeStat::AnonPages), count(NodeStat::Mapped));
        match found == self.expected {
            true => Ok(()),
            false => Err(format!("{found:?} pages are mapped, not {:?}", self.expected)),
        }
    }

    fn unmap(&mut self) -> Result<(), String> {
        let (kernel, cx) = (&self.native.kernel, &self.task.cx);
        self.expected = (0, 0);
        kernel.munmap(cx, &self.mm, self.start, self.nr_pages).map_err(|e| e.to_string())
    }
}
