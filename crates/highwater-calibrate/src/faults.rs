//! Page faults and unmapping, by kind.
//!
//! The numbers of pages are small: their frames stay in the second-level cache.

use std::fs;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::Advice;

use crate::row::Unit;
use crate::session::{Session, each};
use crate::system::{HUGE, PAGE, Region};

/// Pages of a sample: their frames stay in the second-level cache between two samples.
const PAGES: usize = 64;
/// Pages of a file.
const FILE_PAGES: usize = 256;
/// Pages that a fault of a mapped file maps at once (fault-around).
const WINDOW: usize = 16;
/// Pages of two mappings whose unmapping is compared.
const MANY: usize = FILE_PAGES;
const FEW: usize = 32;
/// Huge pages of a sample.
const HUGE_PAGES: usize = 8;

pub(crate) fn measure(session: &mut Session<'_>) {
    let bytes = rustix::param::page_size();
    if bytes != PAGE {
        let why = format!("pages of this kernel have {} KiB, those of the model 4", bytes >> 10);
        return session.leave_out("fault, unmap", why);
    }
    anonymous(session);
    mappings(session);
    huge(session);
    match cached_file() {
        Ok(file) => of_file(session, &file),
        Err(why) => session.leave_out("fault and unmap of a mapped file", why),
    }
}

/// Time of one touch of each page, after the first window: that one also makes a page table.
fn touch(region: &Region, write: bool) -> f64 {
    let one = |at: usize| match write {
        true => region.write(at),
        false => drop(std::hint::black_box(region.read(at))),
    };
    (0..WINDOW * PAGE).step_by(PAGE).for_each(one);
    let rest = (WINDOW * PAGE..region.len()).step_by(PAGE);
    let nr = rest.len();
    let begun = Instant::now();
    rest.for_each(one);
    each(begun.elapsed(), nr)
}

/// Time of unmapping a page: the difference between many touched pages and few of them, each in one
/// page table.
fn unmap(new: impl Fn(usize) -> Result<Region, String>, write: bool) -> Result<f64, String> {
    let took = |pages: usize| -> Result<f64, String> {
        let region = new(pages * PAGE)?;
        touch(&region, write);
        let begun = Instant::now();
        drop(region);
        Ok(begun.elapsed().as_nanos() as f64)
    };
    Ok((took(MANY)? - took(FEW)?) / (MANY - FEW) as f64)
}

fn anonymous(session: &mut Session<'_>) {
    let new = || Region::anonymous(PAGES * PAGE, false);
    session
        .measure("fault.anon", "first write to each of 64 new pages", || Ok(touch(&new()?, true)));
    session.measure("fault.zero-page", "first read of each of 64 new pages", || {
        Ok(touch(&new()?, false))
    });
    let new = |len| Region::anonymous(len, false);
    session
        .measure("unmap.anon", "munmap of 256 written pages, less that of 32", || unmap(new, true));
    session.measure("unmap.zero-page", "munmap of 256 read pages, less that of 32", || {
        unmap(new, false)
    });
}

fn mappings(session: &mut Session<'_>) {
    session.measure("mmap-munmap", "mmap, advice and munmap of memory that is not touched", || {
        const TIMES: usize = 32;
        let begun = Instant::now();
        for _ in 0..TIMES {
            drop(Region::anonymous(PAGES * PAGE, false)?);
        }
        Ok(each(begun.elapsed(), TIMES))
    });
}

fn huge(session: &mut Session<'_>) {
    let name = "fault.huge";
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    match setting {
        Ok(setting) if setting.contains("[never]") => {
            return session.leave_out(name, "transparent huge pages are off (never)");
        }
        Err(_) => return session.leave_out(name, "the kernel has no transparent huge pages"),
        Ok(_) => {}
    }
    let how = format!("first write to each of {HUGE_PAGES} huge pages");
    session.measure(name, how, || {
        let region = Region::anonymous((HUGE_PAGES + 1) * HUGE, true)?;
        let first = region.first_huge();
        let before = huge_kib()?;
        let begun = Instant::now();
        for nr in 0..HUGE_PAGES {
            region.write(first + nr * HUGE);
        }
        let took = each(begun.elapsed(), HUGE_PAGES);
        match huge_kib()?.saturating_sub(before) as usize >= (HUGE_PAGES * HUGE) >> 10 {
            true => Ok(took),
            false => Err("the kernel had no huge pages for the touches".to_owned()),
        }
    });
}

/// Huge pages of this process, in KiB.
pub(crate) fn huge_kib() -> Result<u64, String> {
    let file = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.ok_or_else(|| format!("{file}: no AnonHugePages"))
}

/// A file in memory, in single pages: a disk's file system may have large folios, and adds its own
/// work to a write fault.
fn cached_file() -> Result<fs::File, String> {
    use std::io::Write;
    let failed = |error: std::io::Error| format!("a file in memory: {error}");
    let file = memfd_create("highwater-calibrate", MemfdFlags::CLOEXEC);
    let mut file = fs::File::from(file.map_err(|error| failed(error.into()))?);
    // Page by page, so that no folio is larger.
    for _ in 0..FILE_PAGES {
        file.write_all(&[7; PAGE]).map_err(failed)?;
    }
    Ok(file)
}

fn of_file(session: &mut Session<'_>, file: &fs::File) {
    let file = file.as_fd();
    let len = FILE_PAGES * PAGE;
    let how = format!("first read of each of {FILE_PAGES} pages of a mapped file in memory");
    session
        .measure("fault.file", how, || Ok(touch(&Region::of_file(file, len, true, false)?, false)));
    // A mapping that is read in sequence leaves no mark on its pages when it goes.
    let how = "munmap of 256 read pages of a file with MADV_SEQUENTIAL, less that of 32";
    session.measure("unmap.file", how, || {
        let new = |len| -> Result<Region, String> {
            let region = Region::of_file(file, len, true, false)?;
            region.advise(Advice::Sequential)?;
            Ok(region)
        };
        unmap(new, false)
    });
    session.measure(
        "fault.shared-write",
        "first write to each page of a shared file mapping",
        || Ok(touch(&Region::of_file(file, len, true, true)?, true)),
    );
    let how = "first write to each page of a private file mapping that was read before";
    session.measure("fault.copy", how, || {
        let region = Region::of_file(file, PAGES * PAGE, false, true)?;
        touch(&region, false);
        Ok(touch(&region, true))
    });
    let spread = session.samples(|| {
        let region = Region::of_file(file, len, true, false)?;
        let begun = Instant::now();
        region.advise(Advice::LinuxPopulateRead)?;
        Ok(each(begun.elapsed(), FILE_PAGES))
    });
    let how = format!("MADV_POPULATE_READ of {FILE_PAGES} pages of a mapped file in memory");
    session.put("populate.file", Unit::NsPerPage, how, spread);
}
