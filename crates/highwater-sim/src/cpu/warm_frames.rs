//! Records of the frames that were touched lately, sixteen neighbours at a time; cold ones are forgotten.
//!
//! A machine has millions of frames and its caches hold thousands, so a record for each frame would be
//! memory that is touched for nothing. But frames that are used one after the other often lie so, and
//! their records should, too. So records come in blocks of sixteen frames, and four bytes for sixteen
//! frames say which block is theirs.
//!
//! When there are twice as many blocks as mattered last time, the owner says which records still do
//! ([`WarmFrames::retain`]), and blocks without any are free for others. A block is looked at as a whole
//! only when it goes, and until the first record that matters if it stays: a sweep costs a step or two for each
//! record that was put in since the last one.

use super::CpuId;

/// What is remembered of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Who touched it last.
    pub(super) last_cpu: CpuId,
    /// The byte counter of that CPU then.
    pub(super) cpu_stamp: u64,
    /// The sum of that CPU's socket then.
    pub(super) socket_stamp: u64,
}

/// `last_cpu` of a frame that no cache holds.
const FORGOTTEN: CpuId = CpuId(u16::MAX);
/// Frames of a block.
const FRAMES: usize = 16;
/// Blocks before the first sweep.
const BLOCKS_MIN: usize = 64;
/// Of a block that is free: it holds no frames.
const NOBODY: usize = usize::MAX;

impl Record {
    const NONE: Record = Record { last_cpu: FORGOTTEN, cpu_stamp: 0, socket_stamp: 0 };

    fn is_forgotten(&self) -> bool {
        self.last_cpu == FORGOTTEN
    }
}

/// Where a frame's block is; none if it has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(Option<usize>);

#[derive(Clone, Debug)]
struct Block {
    /// Which sixteen frames.
    number: usize,
    records: [Record; FRAMES],
}

/// The records.
#[derive(Clone, Debug)]
pub(super) struct WarmFrames {
    /// By sixteen frames: their block and one; 0: none. Integers, so that what is never touched takes no memory.
    block_of: Vec<u32>,
    blocks: Vec<Block>,
    /// Blocks of nobody.
    free: Vec<usize>,
    /// With more blocks in use a sweep is due.
    blocks_max: usize,
}

impl WarmFrames {
    /// For frames `0..nr_frames`.
    pub(super) fn new(nr_frames: usize) -> Self {
        WarmFrames {
            block_of: vec![0; nr_frames.div_ceil(FRAMES)],
            blocks: Vec::new(),
            free: Vec::new(),
            blocks_max: BLOCKS_MIN,
        }
    }

    /// Where a frame's block is. Good until a record is put elsewhere.
    #[inline]
    pub(super) fn find(&self, pfn: usize) -> Place {
        let block = self.block_of.get(pfn / FRAMES).copied().unwrap_or_default();
        Place((block as usize).checked_sub(1))
    }

    /// A frame's record there, if there is one.
    #[inline]
    pub(super) fn at(&self, place: Place, pfn: usize) -> Option<&Record> {
        let record = &self.blocks[place.0?].records[pfn % FRAMES];
        (!record.is_forgotten()).then_some(record)
    }

    /// Puts the record of a frame that exists where it was looked for; true if a sweep is due.
    #[inline]
    pub(super) fn put(&mut self, place: Place, pfn: usize, record: Record) -> bool {
        let block = match place.0 {
            Some(block) => block,
            None => self.add(pfn / FRAMES),
        };
        self.blocks[block].records[pfn % FRAMES] = record;
        place.0.is_none() && self.blocks.len() - self.free.len() > self.blocks_max
    }

    /// A block for frames that have none.
    fn add(&mut self, number: usize) -> usize {
        let block = Block { number, records: [Record::NONE; FRAMES] };
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

    /// The frame is as if nobody had touched it.
    pub(super) fn forget(&mut self, pfn: usize) {
        if let Some(block) = self.find(pfn).0 {
            self.blocks[block].records[pfn % FRAMES] = Record::NONE;
        }
    }

    /// Keeps blocks with a record that matters.
    pub(super) fn retain(&mut self, matters: impl Fn(&Record) -> bool) {
        let keeps = |record: &Record| !record.is_forgotten() && matters(record);
        for (at, block) in self.blocks.iter_mut().enumerate() {
            if block.number != NOBODY && !block.records.iter().any(keeps) {
                self.block_of[block.number] = 0;
                block.number = NOBODY;
                self.free.push(at);
            }
        }
        self.blocks_max = (2 * (self.blocks.len() - self.free.len())).max(BLOCKS_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cpu_stamp: u64) -> Record {
        Record { last_cpu: CpuId(1), cpu_stamp, socket_stamp: 0 }
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
                frames.retain(|record| record.cpu_stamp > lately);
            }
            for n in [n, n.saturating_sub(4999)] {
                let found = frames.at(frames.find(2 * n), 2 * n).copied();
                assert_eq!(found, Some(record(n as u64 + 1)), "{n}");
                assert_eq!(frames.at(frames.find(2 * n + 1), 2 * n + 1), None);
            }
        }
        // 5,000 records are 625 blocks.
        assert!(frames.blocks.len() <= 2 * 626 + 1, "{} blocks", frames.blocks.len());
        assert!((10..50).contains(&nr_sweeps), "{nr_sweeps} sweeps");
    }

    #[test]
    fn what_is_forgotten_may_come_back() {
        let mut frames = WarmFrames::new(100);
        frames.put(frames.find(7), 7, record(1));
        frames.forget(7);
        frames.forget(99);
        assert_eq!(frames.at(frames.find(7), 7), None);
        frames.put(frames.find(7), 7, record(2));
        assert_eq!(frames.at(frames.find(7), 7), Some(&record(2)));
        assert_eq!(frames.at(frames.find(1000), 1000), None, "no such frame");
        frames.retain(|_| false);
        assert_eq!((frames.at(frames.find(7), 7), frames.free.len()), (None, 1));
    }
}
