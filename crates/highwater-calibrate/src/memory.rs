//! Clearing, copying and reading 4 KiB, by the footprint that holds the pages.
//!
//! A footprint of half of a level's size lies in that level. The last level is often shared with
//! other guests of a host, so only a quarter of it is used. Pages come in order of their addresses
//! (a stream, which prefetchers follow) and at random (frames from a free list).

use std::hint::black_box;

use crate::faults::huge_kib;
use crate::row::{Spread, Unit};
use crate::session::{Session, each, timed};
use crate::system::{HUGE, PAGE, Region, STRING_MOVES, clear, copy};

/// A footprint of memory is at least this large.
const MEMORY_MIN: u64 = 64 << 20;
/// No footprint is larger: a small computer must hold it.
const MEMORY_MAX: u64 = 256 << 20;
/// Bytes of a sample, and at most a whole footprint.
const SAMPLE_BYTES: usize = 2 << 20;
/// Pages of the hot buffer on the other side of a copy.
const HOT: usize = 2;
/// Pages that a program touches over and over.
const TOUCHED: usize = 16_384;

/// A kind of access to pages.
#[derive(Clone, Copy)]
enum Access {
    Clear,
    CopyTo,
    CopyFrom,
    Read,
}

impl Access {
    const ALL: [Access; 4] = [Access::Clear, Access::CopyTo, Access::CopyFrom, Access::Read];

    const fn name(self) -> &'static str {
        match self {
            Access::Clear => "clear",
            Access::CopyTo => "copy-to",
            Access::CopyFrom => "copy-from",
            Access::Read => "read",
        }
    }

    fn how(self) -> String {
        match self {
            Access::Clear => format!("{STRING_MOVES}: cleared"),
            Access::CopyTo => format!("{STRING_MOVES}: copied from a hot buffer"),
            Access::CopyFrom => format!("{STRING_MOVES}: copied to a hot buffer"),
            Access::Read => "added up, 8 bytes at a time".to_owned(),
        }
    }

    fn page(self, page: &mut [u8], hot: &mut [u8]) {
        match self {
            Access::Clear => clear(page),
            Access::CopyTo => copy(page, hot),
            Access::CopyFrom => copy(hot, page),
            Access::Read => {
                let (words, _) = page.as_chunks::<8>();
                let sum =
                    words.iter().fold(0u64, |sum, w| sum.wrapping_add(u64::from_ne_bytes(*w)));
                black_box(sum);
            }
        }
    }
}

pub(crate) fn measure(session: &mut Session<'_>) {
    levels(session);
    huge(session);
    touched(session);
}

fn levels(session: &mut Session<'_>) {
    let Some(caches) = session.caches else {
        let why = "the kernel does not say how large the caches are";
        session.leave_out("clear, copy-to, copy-from, read", why);
        return;
    };
    let memory = (4 * caches.llc).clamp(MEMORY_MIN, MEMORY_MAX);
    let footprints = [
        ("l1", caches.l1 / 2),
        ("l2", caches.l2 / 2),
        ("llc", (caches.llc / 4).max(2 * caches.l2)),
        ("memory", memory),
    ];
    // With huge pages, as a kernel maps all memory: the figures have no TLB misses of 4 KiB pages.
    let mut region = match Region::anonymous(memory as usize + HUGE, true) {
        Ok(region) => region,
        Err(why) => return session.leave_out("clear, copy-to, copy-from, read", why),
    };
    let first = region.first_huge().min(HUGE);
    let before = huge_kib().unwrap_or(0);
    let bytes = &mut region.bytes_mut()[first..];
    bytes.fill(1);
    let is_huge = huge_kib().is_ok_and(|now| now.saturating_sub(before) >= memory >> 11);
    let mapped = if is_huge { "" } else { ", mapped by 4 KiB (the kernel had no huge pages)" };
    for (level, footprint) in footprints {
        if level == "llc" && (footprint > caches.llc / 2 || footprint > memory) {
            let why =
                "the last level is not much larger than the second, or than the memory used here";
            session.leave_out("clear, copy-to, copy-from, read of llc", why);
            continue;
        }
        if level == "memory" && footprint < 2 * caches.llc {
            let why = format!(
                "a footprint that the caches do not hold would need {} MiB",
                (2 * caches.llc) >> 20
            );
            session.leave_out("clear, copy-to, copy-from, read of memory", why);
            continue;
        }
        let pages = (footprint as usize / PAGE).max(2);
        for access in Access::ALL {
            for (order, name) in [(in_order(pages), "in-order"), (at_random(pages), "random")] {
                let how = format!("{}; pages {name} in {}{mapped}", access.how(), kib(footprint));
                let spread = through(session, access, bytes, &order);
                let row = format!("{}.{level}.{name}", access.name());
                session.put(row, Unit::NsPerPage, how, spread);
            }
        }
    }
}

/// One access after the other to the pages of an order, on and on.
fn through(
    session: &Session<'_>,
    access: Access,
    bytes: &mut [u8],
    order: &[usize],
) -> Result<Spread, String> {
    let mut hot = vec![2; HOT * PAGE];
    let of_sample = (SAMPLE_BYTES / PAGE).min(order.len().max(64));
    let mut at = 0;
    // A first walk through the footprint: the caches hold what they can.
    for &page in order {
        access.page(&mut bytes[page * PAGE..][..PAGE], &mut hot[..PAGE]);
    }
    session.samples(|| {
        let took = timed(|| {
            for n in 0..of_sample {
                let page = order[at] * PAGE;
                at = if at + 1 == order.len() { 0 } else { at + 1 };
                access.page(&mut bytes[page..page + PAGE], &mut hot[(n % HOT) * PAGE..][..PAGE]);
            }
        });
        Ok(each(took, of_sample))
    })
}

/// Clearing 2 MiB in one go, with memory behind it.
fn huge(session: &mut Session<'_>) {
    const BLOCKS: usize = 32;
    let how = format!("{STRING_MOVES}: blocks of 2 MiB in order, {} MiB", BLOCKS * 2);
    let mut region = match Region::anonymous((BLOCKS + 1) * HUGE, true) {
        Ok(region) => region,
        Err(why) => return session.leave_out("clear.2m", why),
    };
    let first = region.first_huge().min(HUGE);
    let bytes = &mut region.bytes_mut()[first..][..BLOCKS * HUGE];
    bytes.fill(1);
    let mut at = 0;
    session.measure("clear.2m", how, || {
        let block = &mut bytes[at * HUGE..][..HUGE];
        at = (at + 1) % BLOCKS;
        Ok(each(timed(|| clear(block)), 1))
    });
}

/// One store in each page of memory that is mapped by pages of 4 KiB.
fn touched(session: &mut Session<'_>) {
    let region = match Region::anonymous(TOUCHED * PAGE, false) {
        Ok(region) => region,
        Err(why) => return session.leave_out("touch.mapped", why),
    };
    let how = format!("one store in each 4 KiB of {} MiB, over and over", (TOUCHED * PAGE) >> 20);
    session.measure("touch.mapped", how, || {
        let took = timed(|| (0..TOUCHED).for_each(|page| region.write(page * PAGE)));
        Ok(each(took, TOUCHED))
    });
}

fn in_order(pages: usize) -> Vec<usize> {
    (0..pages).collect()
}

/// A fixed shuffle of the pages.
pub(crate) fn at_random(pages: usize) -> Vec<usize> {
    let mut order = in_order(pages);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for at in (1..pages).rev() {
        // An xorshift generator: the order has no stride that a prefetcher could follow.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
    order
}

fn kib(bytes: u64) -> String {
    match bytes >> 10 {
        kib if kib >= 10_240 => format!("{} MiB", kib >> 10),
        kib => format!("{kib} KiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_has_every_page_once() {
        let mut order = at_random(1000);
        assert_ne!(order, in_order(1000));
        order.sort_unstable();
        assert_eq!(order, in_order(1000));
    }
}
