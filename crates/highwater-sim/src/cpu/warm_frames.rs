//! Records of recently touched frames, in blocks of sixteen neighbours; cold ones are forgotten.
//!
//! A machine has millions of frames and its caches hold thousands, so one record per frame would
//! waste memory. Frames that are used one after the other are often neighbours, and their records
//! should be neighbours too. So records come in blocks of sixteen frames, and four bytes per
//! sixteen frames give the number of their block.
//!
//! A sweep is due when there are a quarter more blocks than were still needed after the last one. The
//! caller then decides which records are still needed ([`WarmFrames::retain`]), and blocks without
//! any become free. A sweep reads a block completely only if it frees it; otherwise it stops at the
//! first needed record. So a sweep costs about five steps for each record that was put in since the
//! last one.

use super::CpuId;

/// The value that a counter of bytes had, without its upper bits: records are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(u64);

impl Stamp {
    const BITS: u32 = 48;

    pub(super) fn new(bytes: u64) -> Self {
        Stamp(bytes & ((1 << Self::BITS) - 1))
    }

    /// Bytes counted since then: right while fewer than 2^48 were, which is
    /// [`Stamp::are_records_due`]'s task.
    #[inline]
    pub(super) fn bytes_until(self, bytes: u64) -> u64 {
        Stamp::new(bytes.wrapping_sub(self.0)).0
    }

    /// True if one of two counters, which go from one pair of values to another, has passed a
    /// multiple of 2^47: records that are no longer needed must be forgotten
    /// ([`WarmFrames::forget_unless`]) before their stamps come round.
    #[inline]
    pub(super) fn are_records_due(before: [u64; 2], bytes: [u64; 2]) -> bool {
        ((before[0] ^ bytes[0]) | (before[1] ^ bytes[1])) >> (Self::BITS - 1) != 0
    }
}

/// The record of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The CPU that touched it last.
    pub(super) last_cpu: CpuId,
    /// The byte counter of that CPU at that time.
    pub(super) cpu_stamp: Stamp,
    /// The sum of that CPU's socket at that time.
    pub(super) socket_stamp: Stamp,
}

/// `last_cpu` of a frame that no cache holds.
const FORGOTTEN: CpuId = CpuId(u16::MAX);
/// Frames of a block.
const FRAMES: usize = 16;
/// Blocks before the first sweep.
const BLOCKS_MIN: usize = 64;
/// Number of a free block: it holds no frames.
const NOBODY: usize = usize::MAX;

/// The block of a frame: its index plus one; 0: it has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u32);

impl Place {
    #[inline(always)]
    fn block(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }
}

#[derive(Clone, Debug)]
struct Block {
    /// Number of its group of sixteen frames.
    number: usize,
    /// The records, without the gaps that whole ones would have: CPUs; in one word the stamp of
    /// the CPU and above it the lower 16 bits of the socket's; the rest of that.
    last_cpus: [CpuId; FRAMES],
    stamps: [u64; FRAMES],
    socket_stamps_high: [u32; FRAMES],
}

impl Block {
    /// The record of a frame of the group, if there is one.
    #[inline]
    fn record(&self, at: usize) -> Option<Record> {
        let (last_cpu, stamps) = (self.last_cpus[at], self.stamps[at]);
        let socket_high = u64::from(self.socket_stamps_high[at]);
        let record = Record {
            last_cpu,
            cpu_stamp: Stamp::new(stamps),
            socket_stamp: Stamp(socket_high << 16 | stamps >> Stamp::BITS),
        };
        (last_cpu != FORGOTTEN).then_some(record)
    }

    #[inline]
    fn put(&mut self, at: usize, record: Record) {
        let (cpu_stamp, socket_stamp) = (record.cpu_stamp.0, record.socket_stamp.0);
        self.last_cpus[at] = record.last_cpu;
        self.stamps[at] = cpu_stamp | socket_stamp << Stamp::BITS;
        self.socket_stamps_high[at] = (socket_stamp >> 16) as u32;
    }
}

/// The records.
#[derive(Clone, Debug)]
pub(super) struct WarmFrames {
    /// By group of sixteen frames: the index of their block plus one; 0: none. Integers, so that
    /// untouched parts take no memory.
    block_of: Vec<u32>,
    blocks: Vec<Block>,
    /// Free blocks.
    free: Vec<usize>,
    /// A sweep is due when more blocks are in use.
    blocks_max: usize,
}

impl WarmFrames {
    /// No records yet, for frames `0..nr_frames`.
    pub(super) fn new(nr_frames: usize) -> Self {
        WarmFrames {
            block_of: vec![0; nr_frames.div_ceil(FRAMES)],
            blocks: Vec::new(),
            free: Vec::new(),
            blocks_max: BLOCKS_MIN,
        }
    }

    /// The block of a frame. Valid until a record is put elsewhere.
    #[inline]
    pub(super) fn find(&self, pfn: usize) -> Place {
        Place(self.block_of.get(pfn / FRAMES).copied().unwrap_or_default())
    }

    /// The record of a frame in that block, if there is one.
    #[inline]
    pub(super) fn at(&self, place: Place, pfn: usize) -> Option<Record> {
        self.blocks[place.block()?].record(pfn % FRAMES)
    }

    /// Stores the record of an existing frame in the place that [`WarmFrames::find`] returned; true
    /// if a sweep is due.
    #[inline]
    pub(super) fn put(&mut self, place: Place, pfn: usize, record: Record) -> bool {
        let block = match place.block() {
            Some(block) => block,
            None => self.add(pfn / FRAMES),
        };
        self.blocks[block].put(pfn % FRAMES, record);
        place.0 == 0 && self.blocks.len() - self.free.len() > self.blocks_max
    }

    /// Adds a block for a group of frames that has none.
    #[cold]
    fn add(&mut self, number: usize) -> usize {
        let block = Block {
            number,
            last_cpus: [FORGOTTEN; FRAMES],
            stamps: [0; FRAMES],
            socket_stamps_high: [0; FRAMES],
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.blocks[at] = block;
                at
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() - 1
            }
        };
        self.block_of[number] = at as u32 + 1;
        at
    }

    /// Removes the record of a frame, as if no CPU had touched it.
    pub(super) fn forget(&mut self, pfn: usize) {
        if let Some(block) = self.find(pfn).block() {
            self.blocks[block].last_cpus[pfn % FRAMES] = FORGOTTEN;
        }
    }

    /// Removes every record for which `matters` returns false.
    pub(super) fn forget_unless(&mut self, matters: impl Fn(&Record) -> bool) {
        for block in self.blocks.iter_mut().filter(|block| block.number != NOBODY) {
            for at in 0..FRAMES {
                if block.record(at).is_some_and(|record| !matters(&record)) {
                    block.last_cpus[at] = FORGOTTEN;
                }
            }
        }
    }

    /// Keeps blocks with a record for which `matters` returns true.
    pub(super) fn retain(&mut self, matters: impl Fn(&Record) -> bool) {
        let keeps = |block: &Block| {
            (0..FRAMES).filter_map(|at| block.record(at)).any(|record| matters(&record))
        };
        for (at, block) in self.blocks.iter_mut().enumerate() {
            if block.number != NOBODY && !keeps(block) {
                self.block_of[block.number] = 0;
                block.number = NOBODY;
                self.free.push(at);
            }
        }
        let needed = self.blocks.len() - self.free.len();
        self.blocks_max = (needed + needed / 4).max(BLOCKS_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cpu_stamp: u64) -> Record {
        Record {
            last_cpu: CpuId(1),
            cpu_stamp: Stamp::new(cpu_stamp),
            socket_stamp: Stamp::new(!cpu_stamp),
        }
    }

    #[test]
    fn records_are_found_until_they_no_longer_matter() {
        let mut frames = WarmFrames::new(200_000);
        let mut nr_sweeps = 0;
        for n in 0..100_000 {
            // Every other frame.
            let pfn = 2 * n;
            let place = frames.find(pfn);
            assert_eq!(frames.at(place, pfn), None);
            if frames.put(place, pfn, record(n as u64 + 1)) {
                nr_sweeps += 1;
                let lately = (n as u64).saturating_sub(5000);
                frames.retain(|record| record.cpu_stamp.0 > lately);
            }
            for n in [n, n.saturating_sub(4999)] {
                let found = frames.at(frames.find(2 * n), 2 * n);
                assert_eq!(found, Some(record(n as u64 + 1)), "{n}");
                assert_eq!(frames.at(frames.find(2 * n + 1), 2 * n + 1), None);
            }
        }
        // 5,000 records are 625 blocks.
        assert!(frames.blocks.len() <= 5 * 626 / 4 + 1, "{} blocks", frames.blocks.len());
        assert!((40..200).contains(&nr_sweeps), "{nr_sweeps} sweeps");
    }

    #[test]
    fn what_is_forgotten_may_come_back() {
        let mut frames = WarmFrames::new(100);
        frames.put(frames.find(7), 7, record(1));
        frames.forget(7);
        frames.forget(99);
        assert_eq!(frames.at(frames.find(7), 7), None);
        frames.put(frames.find(7), 7, record(2));
        assert_eq!(frames.at(frames.find(7), 7), Some(record(2)));
        assert_eq!(frames.at(frames.find(1000), 1000), None, "no such frame");
        frames.retain(|_| false);
        assert_eq!((frames.at(frames.find(7), 7), frames.free.len()), (None, 1));
    }

    #[test]
    fn a_stamp_tells_the_bytes_since_past_its_own_end() {
        for then in [0, 1, (1 << 48) - 1, 1 << 48, (1 << 50) + 7] {
            for since in [0, 1, 5, 1 << 40, (1 << 48) - 1] {
                assert_eq!(Stamp::new(then).bytes_until(then + since), since, "{then} {since}");
            }
        }
        let due = |before, bytes| {
            let due = Stamp::are_records_due([before, 7], [bytes, 8]);
            assert_eq!(Stamp::are_records_due([7, before], [8, bytes]), due);
            due
        };
        assert!(due((1 << 47) - 1, 1 << 47) && due((3 << 47) - 64, 3 << 47));
        assert!(!due(0, (1 << 47) - 1) && !due(1 << 47, (1 << 48) - 1));
    }

    #[test]
    fn only_the_records_that_matter_stay() {
        let mut frames = WarmFrames::new(100);
        for pfn in 0..8 {
            frames.put(frames.find(pfn), pfn, record(pfn as u64));
        }
        frames.forget_unless(|record| record.cpu_stamp.0 >= 5);
        let left: Vec<_> =
            (0..100).filter(|&pfn| frames.at(frames.find(pfn), pfn).is_some()).collect();
        assert_eq!(left, [5, 6, 7]);
    }
}
