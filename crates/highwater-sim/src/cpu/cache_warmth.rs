//! Cache warmth of page frames: the cache level in which a touch finds a frame
//! (rules/costs#cache-warmth).
//!
//! This is not a cache simulator. Each CPU counts the bytes it touches, and each socket sums its
//! CPUs' counts. A frame's record holds the CPU that touched it last and the value of both counters
//! at that time. The number of bytes touched since (the *distance*), compared with a cache's size,
//! decides whether the frame is still there. That is one compare per level, and it shows the effect
//! of the free lists' order on the caches.
//!
//! | last touched by | still in its caches? | level |
//! |---|---|---|
//! | this CPU | own distance < L1, < L2 | L1, L2 |
//! | this CPU | else, socket distance < LLC | LLC |
//! | another CPU of the socket | its distance < its L2, and dirty | LLC × 1.5 (snoop) |
//! | another CPU of the socket | else, socket distance < LLC | LLC |
//! | another socket | that socket's distance < its LLC | LLC × 2.5 |
//! | any CPU | no | DRAM, × 1.6 if the frame's node belongs to another socket |
//!
//! Distances only grow, so a frame that is in no cache stays cold until a CPU touches it, and its
//! record is not needed. Caches hold few frames of a large memory: [`WarmFrames`] keeps the records
//! of those frames and their neighbours, and forgets cold ones. Two bytes of every frame are kept
//! apart: the CPU that wrote it, if no other CPU has touched it since. This information outlives
//! the frame's stay in a cache, because a read by the same CPU leaves the frame as dirty as it was.
//!
//! To: [`super::warm_frames`] (the records).

use super::CpuId;
use super::warm_frames::{Place, Record, WarmFrames};

/// Cache sizes: of a core's L1 and L2, of a socket's LLC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// L1 data cache.
    pub l1_bytes: u64,
    /// L2 cache.
    pub l2_bytes: u64,
    /// Last-level cache.
    pub llc_bytes: u64,
}

/// Nanoseconds per 4 KiB by the level that holds the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LevelCosts {
    /// In L1.
    pub l1_ns: u64,
    /// In L2.
    pub l2_ns: u64,
    /// In the last-level cache of the own socket.
    pub llc_ns: u64,
    /// In the memory of the own socket.
    pub dram_ns: u64,
}

/// Costs of each kind of touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CacheCosts {
    /// Reading 4 KiB.
    pub read: LevelCosts,
    /// Writing (clearing) 4 KiB.
    pub zero: LevelCosts,
    /// Copying 4 KiB from or to a hot buffer.
    pub copy: LevelCosts,
    /// Clearing 2 MiB in one go; it lies in memory or goes there.
    pub zero_2m_ns: u64,
}

/// The kind of access to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The CPU reads all of it.
    Read,
    /// The CPU overwrites all of it.
    Zero,
    /// The CPU copies data out of it.
    CopyFrom,
    /// Data is copied into it.
    CopyTo,
}

/// The place where a touch finds a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Own first-level cache.
    L1,
    /// Own second-level cache.
    L2,
    /// The socket's last-level cache.
    Llc,
    /// Modified in the second-level cache of another CPU of the socket.
    LlcSnoop,
    /// Another socket's caches.
    RemoteCache,
    /// Memory of the own socket.
    Dram,
    /// Memory of another socket.
    RemoteDram,
}

impl Level {
    /// Cost of 4 KiB at this level, with the factors of rules/costs#cache-warmth.
    #[inline]
    pub fn ns(self, costs: &LevelCosts) -> u64 {
        match self {
            Level::L1 => costs.l1_ns,
            Level::L2 => costs.l2_ns,
            Level::Llc => costs.llc_ns,
            Level::LlcSnoop => costs.llc_ns * 15 / 10,
            Level::RemoteCache => costs.llc_ns * 25 / 10,
            Level::Dram => costs.dram_ns,
            Level::RemoteDram => costs.dram_ns * 16 / 10,
        }
    }
}

/// A frame that a CPU has touched part of, in one direction.
#[derive(Clone, Copy, Debug)]
struct Begun {
    pfn: usize,
    bytes: u64,
    level: Level,
}

impl Begun {
    const NONE: Begun = Begun { pfn: usize::MAX, bytes: 0, level: Level::Dram };
}

/// Caches of a machine and the warmth of its frames.
#[derive(Clone, Debug)]
pub struct CacheWarmth {
    sizes: CacheSizes,
    costs: CacheCosts,
    /// Socket of each CPU.
    socket_of_cpu: Vec<u16>,
    /// Socket of each node's memory.
    socket_of_node: Vec<u16>,
    /// C: bytes touched by each CPU.
    cpu_bytes: Vec<u64>,
    /// S: bytes touched by each socket.
    socket_bytes: Vec<u64>,
    /// By CPU: the frame being read and the frame being written in parts.
    begun: Vec<[Begun; 2]>,
    /// By frame: the CPU that wrote it, plus 1, if no other CPU has touched it since; 0: it is
    /// clean. The host gives zeroed integers no memory until they are written, so frames without
    /// writers take none.
    dirty_by: Vec<u16>,
    /// Frames that some cache holds, and possibly others.
    warm: WarmFrames,
}

const FRAME_BYTES: u64 = 4096;
/// Frames in 2 MiB.
const HUGE_FRAMES: usize = 512;

impl CacheWarmth {
    /// Cold caches. `socket_of_cpu` and `socket_of_node` give the socket of each CPU and node.
    pub fn new(
        sizes: CacheSizes,
        costs: CacheCosts,
        socket_of_cpu: Vec<u16>,
        socket_of_node: Vec<u16>,
        nr_frames: usize,
    ) -> Self {
        let nr_sockets =
            socket_of_cpu.iter().chain(&socket_of_node).max().map_or(1, |&max| max + 1);
        CacheWarmth {
            sizes,
            costs,
            cpu_bytes: vec![0; socket_of_cpu.len()],
            socket_bytes: vec![0; usize::from(nr_sockets)],
            begun: vec![[Begun::NONE; 2]; socket_of_cpu.len()],
            socket_of_cpu,
            socket_of_node,
            dirty_by: vec![0; nr_frames],
            warm: WarmFrames::new(nr_frames),
        }
    }

    /// `cpu` touches all of frame `pfn`, whose memory is on `node`. Returns the time it takes.
    #[inline]
    pub fn touch(&mut self, cpu: CpuId, pfn: usize, node: u16, touch: Touch) -> u64 {
        let place = self.warm.find(pfn);
        let level = self.level_of(self.warm.at(place, pfn), cpu, pfn, node);
        let writes = matches!(touch, Touch::Zero | Touch::CopyTo);
        self.remember(cpu, pfn, place, writes, FRAME_BYTES);
        let costs = match touch {
            Touch::Read => &self.costs.read,
            Touch::Zero => &self.costs.zero,
            Touch::CopyFrom | Touch::CopyTo => &self.costs.copy,
        };
        level.ns(costs)
    }

    /// `cpu` clears `nr_frames` frames from `pfn` on. Whole 2 MiB blocks cost a flat figure.
    pub fn zero_block(&mut self, cpu: CpuId, pfn: usize, node: u16, nr_frames: usize) -> u64 {
        if nr_frames < HUGE_FRAMES {
            return (pfn..pfn + nr_frames).map(|pfn| self.touch(cpu, pfn, node, Touch::Zero)).sum();
        }
        for pfn in pfn..pfn + nr_frames {
            self.remember(cpu, pfn, self.warm.find(pfn), true, FRAME_BYTES);
        }
        let local = self.level_in_memory(cpu, node);
        let per_block = LevelCosts { dram_ns: self.costs.zero_2m_ns, ..LevelCosts::default() };
        local.ns(&per_block) * (nr_frames / HUGE_FRAMES) as u64
    }

    /// Like [`CacheWarmth::touch`] for a part of a frame; the time is in proportion, rounded up.
    pub fn touch_part(
        &mut self,
        cpu: CpuId,
        pfn: usize,
        node: u16,
        touch: Touch,
        bytes: u64,
    ) -> u64 {
        let bytes = bytes.min(FRAME_BYTES);
        let writes = matches!(touch, Touch::Zero | Touch::CopyTo);
        let place = self.warm.find(pfn);
        let level = self.part_level(cpu, pfn, node, place, writes, bytes);
        self.remember(cpu, pfn, place, writes, bytes);
        let costs = match touch {
            Touch::Read => &self.costs.read,
            Touch::Zero => &self.costs.zero,
            Touch::CopyFrom | Touch::CopyTo => &self.costs.copy,
        };
        (level.ns(costs) * bytes).div_ceil(FRAME_BYTES)
    }

    /// Level of a part. A frame that is touched in parts keeps the warmth of its first part
    /// throughout: touching one part does not bring the following cache lines in.
    fn part_level(
        &mut self,
        cpu: CpuId,
        pfn: usize,
        node: u16,
        place: Place,
        writes: bool,
        bytes: u64,
    ) -> Level {
        let begun = self.begun[cpu.idx()][usize::from(writes)];
        if begun.pfn == pfn && begun.bytes + bytes <= FRAME_BYTES {
            self.begun[cpu.idx()][usize::from(writes)].bytes += bytes;
            return begun.level;
        }
        let level = self.level_of(self.warm.at(place, pfn), cpu, pfn, node);
        self.begun[cpu.idx()][usize::from(writes)] = Begun { pfn, bytes, level };
        level
    }

    /// `cpu` touches `bytes` of memory that is not tracked (buffers, page tables): the frames in
    /// its caches move further away.
    #[inline]
    pub fn touch_elsewhere(&mut self, cpu: CpuId, bytes: u64) {
        self.cpu_bytes[cpu.idx()] += bytes;
        self.socket_bytes[usize::from(self.socket_of_cpu[cpu.idx()])] += bytes;
    }

    /// A device wrote the frame by DMA: no cache holds it any more.
    pub fn forget(&mut self, pfn: usize) {
        if let Some(dirty_by) = self.dirty_by.get_mut(pfn) {
            set_clean(dirty_by);
            self.warm.forget(pfn);
        }
    }

    /// The level in which `cpu` would find frame `pfn` now.
    #[inline]
    pub fn level(&self, cpu: CpuId, pfn: usize, node: u16) -> Level {
        self.level_of(self.warm.at(self.warm.find(pfn), pfn), cpu, pfn, node)
    }

    #[inline]
    fn level_of(&self, record: Option<&Record>, cpu: CpuId, pfn: usize, node: u16) -> Level {
        let own_socket = self.socket_of_cpu[cpu.idx()];
        if let Some(record) = record {
            let last = record.last_cpu;
            let last_socket = self.socket_of_cpu[last.idx()];
            let cpu_distance = self.cpu_bytes[last.idx()] - record.cpu_stamp;
            let in_llc = self.socket_bytes[usize::from(last_socket)] - record.socket_stamp
                < self.sizes.llc_bytes;
            if last == cpu {
                if cpu_distance < self.sizes.l1_bytes {
                    return Level::L1;
                }
                if cpu_distance < self.sizes.l2_bytes {
                    return Level::L2;
                }
            } else if last_socket == own_socket
                && cpu_distance < self.sizes.l2_bytes
                && self.dirty_by[pfn] != 0
            {
                return Level::LlcSnoop;
            }
            if in_llc {
                return if last_socket == own_socket { Level::Llc } else { Level::RemoteCache };
            }
        }
        self.level_in_memory(cpu, node)
    }

    fn level_in_memory(&self, cpu: CpuId, node: u16) -> Level {
        let own_socket = self.socket_of_cpu[cpu.idx()];
        let memory_socket = self.socket_of_node.get(usize::from(node)).copied();
        if memory_socket.is_none_or(|socket| socket == own_socket) {
            Level::Dram
        } else {
            Level::RemoteDram
        }
    }

    /// Records a touch. `place` is the result of the lookup of the frame.
    #[inline]
    fn remember(&mut self, cpu: CpuId, pfn: usize, place: Place, writes: bool, bytes: u64) {
        self.touch_elsewhere(cpu, bytes);
        let Some(dirty_by) = self.dirty_by.get_mut(pfn) else { return };
        if writes {
            *dirty_by = cpu.0 + 1;
        } else if *dirty_by != cpu.0 + 1 {
            // A read by another CPU makes the owner write its copy back.
            set_clean(dirty_by);
        }
        let record = Record {
            last_cpu: cpu,
            cpu_stamp: self.cpu_bytes[cpu.idx()],
            socket_stamp: self.socket_bytes[usize::from(self.socket_of_cpu[cpu.idx()])],
        };
        if self.warm.put(place, pfn, record) {
            self.drop_cold();
        }
    }

    /// Drops the records of frames that no cache holds.
    #[cold]
    fn drop_cold(&mut self) {
        let CacheSizes { l1_bytes, l2_bytes, llc_bytes } = self.sizes;
        let own_bytes = l1_bytes.max(l2_bytes);
        let (cpu_bytes, socket_bytes) = (&self.cpu_bytes, &self.socket_bytes);
        let socket_of_cpu = &self.socket_of_cpu;
        self.warm.retain(|record| {
            let cpu = record.last_cpu.idx();
            cpu_bytes[cpu] - record.cpu_stamp < own_bytes
                || socket_bytes[usize::from(socket_of_cpu[cpu])] - record.socket_stamp < llc_bytes
        });
    }
}

/// Writes only if the value changes, so that frames that are only read take no host memory.
#[inline]
fn set_clean(dirty_by: &mut u16) {
    if *dirty_by != 0 {
        *dirty_by = 0;
    }
}

#[cfg(test)]
mod by_the_letter;

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const SIZES: CacheSizes =
        CacheSizes { l1_bytes: 32 << 10, l2_bytes: 256 << 10, llc_bytes: 8 << 20 };
    const LEVELS: LevelCosts = LevelCosts { l1_ns: 30, l2_ns: 80, llc_ns: 200, dram_ns: 450 };
    pub(super) const COSTS: CacheCosts = CacheCosts {
        read: LevelCosts { l1_ns: 1, l2_ns: 2, llc_ns: 3, dram_ns: 4 },
        zero: LEVELS,
        copy: LevelCosts { l1_ns: 25, l2_ns: 45, llc_ns: 200, dram_ns: 450 },
        zero_2m_ns: 100_000,
    };
    pub(super) const A: CpuId = CpuId(0);
    pub(super) const B: CpuId = CpuId(1);
    pub(super) const FAR: CpuId = CpuId(2);

    /// CPUs 0 and 1 on socket 0 with node 0, CPU 2 on socket 1 with node 1.
    fn caches() -> CacheWarmth {
        CacheWarmth::new(SIZES, COSTS, vec![0, 0, 1], vec![0, 1], 16)
    }

    #[test]
    fn an_untouched_frame_is_in_memory_local_or_remote() {
        let caches = caches();
        assert_eq!(caches.level(A, 3, 0), Level::Dram);
        assert_eq!(caches.level(A, 3, 1), Level::RemoteDram);
        assert_eq!(caches.level(FAR, 3, 1), Level::Dram);
    }

    #[test]
    fn own_distance_selects_l1_l2_llc_dram() {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        for (distance, level) in [
            (0, Level::L1),
            ((32 << 10) - 1, Level::L1),
            (32 << 10, Level::L2),
            ((256 << 10) - 1, Level::L2),
            (256 << 10, Level::Llc),
            ((8 << 20) - 1, Level::Llc),
            (8 << 20, Level::Dram),
        ] {
            let mut later = caches.clone();
            later.touch_elsewhere(A, distance);
            assert_eq!(later.level(A, 3, 0), level, "{distance}");
        }
    }

    #[test]
    fn neighbours_traffic_pushes_out_of_the_llc_only() {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        caches.touch_elsewhere(B, 8 << 20);
        assert_eq!(caches.level(A, 3, 0), Level::L1, "own caches are private");
        caches.touch_elsewhere(A, 256 << 10);
        assert_eq!(caches.level(A, 3, 0), Level::Dram);
    }

    #[test]
    fn another_cpu_of_the_socket_snoops_only_what_is_dirty_and_near() {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        caches.touch(A, 4, 0, Touch::Read);
        assert_eq!(caches.level(B, 3, 0), Level::LlcSnoop);
        assert_eq!(caches.level(B, 4, 0), Level::Llc, "clean");
        caches.touch_elsewhere(A, 256 << 10);
        assert_eq!(caches.level(B, 3, 0), Level::Llc, "written back since");
        caches.touch_elsewhere(A, 8 << 20);
        assert_eq!(caches.level(B, 3, 0), Level::Dram);
    }

    #[test]
    fn another_socket_is_far_whatever_the_level() {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        assert_eq!(caches.level(FAR, 3, 0), Level::RemoteCache);
        caches.touch_elsewhere(FAR, 100 << 20);
        assert_eq!(caches.level(FAR, 3, 0), Level::RemoteCache, "its own traffic does not matter");
        caches.touch_elsewhere(B, 8 << 20);
        assert_eq!(caches.level(FAR, 3, 0), Level::RemoteDram);
        assert_eq!(caches.level(FAR, 3, 1), Level::Dram, "a frame of its own node");
    }

    #[test]
    fn a_read_by_another_cpu_cleans_and_an_own_read_does_not() {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        caches.touch(A, 3, 0, Touch::Read);
        assert_eq!(caches.level(B, 3, 0), Level::LlcSnoop);
        caches.touch(B, 3, 0, Touch::CopyFrom);
        assert_eq!(caches.level(A, 3, 0), Level::Llc);
        caches.touch(A, 3, 0, Touch::CopyTo);
        assert_eq!(caches.level(B, 3, 0), Level::LlcSnoop);
    }

    #[test]
    fn parts_of_a_frame_are_as_warm_as_its_first_part_was() {
        let mut caches = caches();
        let mut parts =
            |cpu, touch| -> u64 { (0..4).map(|_| caches.touch_part(cpu, 3, 0, touch, 1024)).sum() };
        // From memory, not one part from memory and three from L1.
        assert_eq!(parts(A, Touch::CopyTo), 4 * 113);
        assert_eq!(parts(B, Touch::CopyFrom), 4 * 75, "dirty in the other core");
        assert_eq!(parts(A, Touch::CopyTo), 4 * 50, "a second pass is judged anew");
    }

    #[test]
    fn a_frame_left_alone_for_terabytes_stays_cold() {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        caches.touch(B, 4, 0, Touch::Zero);
        caches.touch_elsewhere(A, (1 << 40) - (64 << 10));
        for _ in 0..100 {
            assert_eq!(caches.level(A, 3, 0), Level::Dram);
            assert_eq!(caches.level(B, 3, 0), Level::Dram);
            assert_eq!(caches.level(B, 4, 0), Level::L1, "its CPU did nothing since");
            caches.touch_elsewhere(A, 1 << 10);
        }
        for _ in 0..10 {
            caches.touch_elsewhere(A, (1 << 39) + 12_345);
            assert_eq!(caches.level(A, 3, 0), Level::Dram);
            assert_eq!(caches.level(B, 4, 0), Level::L1);
        }
        caches.touch(A, 3, 0, Touch::Zero);
        assert_eq!(caches.level(A, 3, 0), Level::L1);
    }

    #[test]
    fn costs_follow_level_kind_and_factor() {
        let mut caches = caches();
        assert_eq!(caches.touch(A, 3, 0, Touch::Zero), 450);
        assert_eq!(caches.touch(A, 3, 0, Touch::Zero), 30);
        assert_eq!(caches.touch(A, 3, 0, Touch::CopyFrom), 25);
        assert_eq!(caches.touch(A, 3, 0, Touch::Read), 1);
        assert_eq!(caches.touch(B, 3, 0, Touch::CopyFrom), 300);
        assert_eq!(caches.touch(FAR, 3, 0, Touch::CopyTo), 500);
        assert_eq!(caches.touch(FAR, 5, 0, Touch::Zero), 720);
        assert_eq!(Level::L2.ns(&LEVELS), 80);
        assert_eq!(caches.touch_part(A, 6, 0, Touch::Zero, 64), 8);
        assert_eq!(caches.touch_part(A, 7, 0, Touch::Zero, 4096), 450);
    }

    #[test]
    fn huge_blocks_cost_a_flat_figure_and_small_ones_their_frames() {
        let mut caches = CacheWarmth::new(SIZES, COSTS, vec![0, 1], vec![0, 1], 2048);
        assert_eq!(caches.zero_block(A, 0, 0, 512), 100_000);
        assert_eq!(caches.zero_block(A, 0, 1, 1024), 320_000);
        assert_eq!(caches.level(A, 1023, 1), Level::L1);
        assert_eq!(caches.level(A, 900, 1), Level::Llc);
        assert_eq!(caches.zero_block(A, 1024, 0, 16), 16 * 450);
        assert_eq!(caches.zero_block(A, 1024, 0, 16), 16 * 80, "60 KiB away each");
    }

    #[test]
    fn dma_leaves_no_warm_copy() {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        caches.forget(3);
        assert_eq!(caches.level(A, 3, 0), Level::Dram);
    }
}
