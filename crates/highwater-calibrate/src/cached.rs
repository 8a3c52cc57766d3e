//! Reads, writes and truncation of a file that is in the page cache.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::disk::unnamed_file;
use crate::session::{Session, each};
use crate::system::PAGE;

/// Pages of the file: they stay in the second-level cache.
const PAGES: usize = 64;
/// Pages that are written anew and truncated in a sample.
const NEW_PAGES: usize = 256;

pub(crate) fn measure(session: &mut Session<'_>) {
    let file = match unnamed_file(session.dir) {
        Ok(file) => file,
        Err(why) => return session.leave_out("reads and writes of a cached file", why),
    };
    let mut buffer = vec![1; PAGE];
    let failed = |error: std::io::Error| format!("a file of this directory: {error}");
    // The pages exist from here on.
    if let Err(error) = write_pages(&file, &buffer, PAGES) {
        return session.leave_out("reads and writes of a cached file", failed(error));
    }
    session.measure("pread.1", "pread of 1 byte of a cached page", || {
        read_pages(&file, &mut buffer[..1]).map_err(failed)
    });
    session.measure("pread.4k", "pread of 4 KiB of a cached file, 256 KiB in order", || {
        read_pages(&file, &mut buffer).map_err(failed)
    });
    session.measure("pwrite.4k", "pwrite of 4 KiB over pages that are dirty already", || {
        write_pages(&file, &buffer, PAGES).map_err(failed)
    });
    let new = match unnamed_file(session.dir) {
        Ok(new) => new,
        Err(why) => return session.leave_out("pwrite.new, truncate", why),
    };
    session.measure("pwrite.new", "pwrite of 4 KiB at the end of a growing file", || {
        new.set_len(0).map_err(failed)?;
        write_pages(&new, &buffer, NEW_PAGES).map_err(failed)
    });
    session.measure("truncate", "ftruncate of new dirty pages to 0, for each page", || {
        write_pages(&new, &buffer, NEW_PAGES).map_err(failed)?;
        let begun = Instant::now();
        new.set_len(0).map_err(failed)?;
        Ok(each(begun.elapsed(), NEW_PAGES))
    });
}

fn read_pages(file: &File, buffer: &mut [u8]) -> std::io::Result<f64> {
    let begun = Instant::now();
    for page in 0..PAGES {
        file.read_exact_at(buffer, (page * PAGE) as u64)?;
    }
    Ok(each(begun.elapsed(), PAGES))
}

fn write_pages(file: &File, buffer: &[u8], pages: usize) -> std::io::Result<f64> {
    let begun = Instant::now();
    for page in 0..pages {
        file.write_all_at(buffer, (page * PAGE) as u64)?;
    }
    Ok(each(begun.elapsed(), pages))
}
