//! Page faults and unmapping, by kind.

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
/// Pages of a file: whole windows of fault-around.
const FILE_PAGES: usize = 256;
/// Huge pages of a sample.
const HUGE_PAGES: usize = 8;

pub(crate) fn measure(session: &mut Session<'_>) {
    anonymous(session);
    mappings(session);
    huge(session);
    match cached_file() {
        Ok(file) => of_file(session, &file),
        Err(why) => session.leave_out("fault and unmap of a mapped file", why),
    }
}

/// Time of one touch of each page.
fn touch(region: &Region, step: usize, write: bool) -> f64 {
    let begun = Instant::now();
    for at in (0..region.len()).step_by(step) {
        match write {
            true => region.write(at),
            false => drop(std::hint::black_box(region.read(at))),
        }
    }
    each(begun.elapsed(), region.len() / step)
}

/// Time of the unmapping, for each page.
fn unmap(region: Region) -> f64 {
    let pages = region.len() / PAGE;
    let begun = Instant::now();
    drop(region);
    each(begun.elapsed(), pages)
}

fn anonymous(session: &mut Session<'_>) {
    let new = || Region::anonymous(PAGES * PAGE, false);
    session.measure("fault.anon", format!("first write to each of {PAGES} new pages"), || {
        Ok(touch(&new()?, PAGE, true))
    });
    session.measure("fault.zero-page", format!("first read of each of {PAGES} new pages"), || {
        Ok(touch(&new()?, PAGE, false))
    });
    let less = "less the same without pages, for each page";
    session.measure("unmap.anon", format!("munmap of {PAGES} written pages, {less}"), || {
        let region = new()?;
        touch(&region, PAGE, true);
        let with_pages = unmap(region);
        Ok(with_pages - unmap(new()?))
    });
    session.measure("unmap.zero-page", format!("munmap of {PAGES} read pages, {less}"), || {
        let region = new()?;
        touch(&region, PAGE, false);
        let with_pages = unmap(region);
        Ok(with_pages - unmap(new()?))
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
fn huge_kib() -> Result<u64, String> {
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
    session.measure("fault.file", how, || {
        Ok(touch(&Region::of_file(file, len, true, false)?, PAGE, false))
    });
    // A mapping that is read in sequence leaves no mark on its pages when it goes.
    let how = "munmap of a file mapping with MADV_SEQUENTIAL, less the same without pages";
    session.measure("unmap.file", how, || {
        let new = || -> Result<Region, String> {
            let region = Region::of_file(file, len, true, false)?;
            region.advise(Advice::Sequential)?;
            Ok(region)
        };
        let region = new()?;
        touch(&region, PAGE, false);
        let with_pages = unmap(region);
        Ok(with_pages - unmap(new()?))
    });
    session.measure(
        "fault.shared-write",
        "first write to each page of a shared file mapping",
        || Ok(touch(&Region::of_file(file, len, true, true)?, PAGE, true)),
    );
    let how = "first write to each page of a private file mapping that was read before";
    session.measure("fault.copy", how, || {
        let region = Region::of_file(file, PAGES * PAGE, false, true)?;
        touch(&region, PAGE, false);
        Ok(touch(&region, PAGE, true))
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
