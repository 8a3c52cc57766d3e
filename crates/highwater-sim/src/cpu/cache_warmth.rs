//! How warm a page frame is: which cache level a touch finds it in (rules/costs#cache-warmth).
//!
//! Not a cache simulator. Each CPU counts the bytes it touches, each socket sums its CPUs' counts;
//! a frame remembers who touched it last and what both counters read then. The number of bytes
//! touched since (the *distance*) compared with a cache's size says whether the frame is still
//! there. That is one compare per level and 12 bytes per frame, and it shows what the free lists'
//! order does to the caches.
//!
//! | last touched by | still in its caches? | level |
//! |---|---|---|
//! | this CPU | own distance < L1, < L2 | L1, L2 |
//! | this CPU | else, socket distance < LLC | LLC |
//! | another CPU of the socket | its distance < its L2, and dirty | LLC × 1.5 (snoop) |
//! | another CPU of the socket | else, socket distance < LLC | LLC |
//! | another socket | that socket's distance < its LLC | LLC × 2.5 |
//! | anybody | no | DRAM, × 1.6 if the frame's node belongs to another socket |

use super::CpuId;

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

/// What is done to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// All of it is read.
    Read,
    /// All of it is overwritten.
    Zero,
    /// Data is copied out of it.
    CopyFrom,
    /// Data is copied into it.
    CopyTo,
}

/// Where a touch finds a frame.
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

/// What is remembered of one frame, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    last_cpu: CpuId,
    is_dirty: bool,
    /// Its last CPU's byte counter then, modulo 2^40.
    cpu_stamp: u64,
    /// The sum of that CPU's socket then, modulo 2^40.
    socket_stamp: u64,
}

/// A [`Frame`] in 12 bytes: the low words of both stamps, then
///
/// ```text
///  31         17  16    15        8 7        0
/// | last CPU + 1 | dirty | socket hi | cpu hi |
/// ```
///
/// All zeros: never touched.
type Packed = [u32; 3];

/// Stamps are kept modulo 2^40 bytes. Before a distance could wrap around, [`CacheWarmth::age`]
/// caps it.
const STAMP_BITS: u32 = 40;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
/// Distances are capped at this; no cache is as large.
const DISTANCE_MAX: u64 = 1 << 39;
/// A socket's traffic from one capping to the next.
const AGE_EVERY: u64 = 1 << 38;
const _: () = assert!(DISTANCE_MAX + AGE_EVERY < 1 << STAMP_BITS && size_of::<Packed>() == 12);

impl Frame {
    /// None if the frame was never touched.
    #[inline(always)]
    fn unpack([cpu_low, socket_low, rest]: Packed) -> Option<Self> {
        let last_cpu = ((rest >> 17) as u16).checked_sub(1).map(CpuId)?;
        let stamp = |low: u32, high: u32| u64::from(high & 0xff) << 32 | u64::from(low);
        Some(Frame {
            last_cpu,
            is_dirty: rest >> 16 & 1 != 0,
            cpu_stamp: stamp(cpu_low, rest),
            socket_stamp: stamp(socket_low, rest >> 8),
        })
    }

    #[inline(always)]
    fn pack(self) -> Packed {
        let high = |stamp: u64| (stamp >> 32) as u32 & 0xff;
        let rest = (u32::from(self.last_cpu.0) + 1) << 17
            | u32::from(self.is_dirty) << 16
            | high(self.socket_stamp) << 8
            | high(self.cpu_stamp);
        [self.cpu_stamp as u32, self.socket_stamp as u32, rest]
    }

    /// Bytes that the last CPU touched since.
    fn cpu_distance(self, cpu_bytes: u64) -> u64 {
        cpu_bytes.wrapping_sub(self.cpu_stamp) & STAMP_MASK
    }

    /// Bytes that the last CPU's socket touched since.
    fn socket_distance(self, socket_bytes: u64) -> u64 {
        socket_bytes.wrapping_sub(self.socket_stamp) & STAMP_MASK
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
    /// By socket: the sum at which its frames are aged next.
    age_at: Vec<u64>,
    /// By CPU: the frame being read and the frame being written in parts.
    begun: Vec<[Begun; 2]>,
    /// Arrays of integers, so that untouched ones take no memory.
    frames: Vec<Packed>,
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
            age_at: vec![AGE_EVERY; usize::from(nr_sockets)],
            begun: vec![[Begun::NONE; 2]; socket_of_cpu.len()],
            socket_of_cpu,
            socket_of_node,
            frames: vec![[0; 3]; nr_frames],
        }
    }

    /// `cpu` touches all of frame `pfn`, whose memory is on `node`. Returns the time it takes.
    #[inline]
    pub fn touch(&mut self, cpu: CpuId, pfn: usize, node: u16, touch: Touch) -> u64 {
        let level = self.level(cpu, pfn, node);
        self.remember(cpu, pfn, matches!(touch, Touch::Zero | Touch::CopyTo), FRAME_BYTES);
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
            self.remember(cpu, pfn, true, FRAME_BYTES);
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
        let level = self.part_level(cpu, pfn, node, writes, bytes);
        self.remember(cpu, pfn, writes, bytes);
        let costs = match touch {
            Touch::Read => &self.costs.read,
            Touch::Zero => &self.costs.zero,
            Touch::CopyFrom | Touch::CopyTo => &self.costs.copy,
        };
        (level.ns(costs) * bytes).div_ceil(FRAME_BYTES)
    }

    /// Level of a part. A frame that is touched bit by bit is all the way as warm as its first bit
    /// was: the lines that follow were not brought in by it.
    fn part_level(&mut self, cpu: CpuId, pfn: usize, node: u16, writes: bool, bytes: u64) -> Level {
        let begun = self.begun[cpu.idx()][usize::from(writes)];
        if begun.pfn == pfn && begun.bytes + bytes <= FRAME_BYTES {
            self.begun[cpu.idx()][usize::from(writes)].bytes += bytes;
            return begun.level;
        }
        let level = self.level(cpu, pfn, node);
        self.begun[cpu.idx()][usize::from(writes)] = Begun { pfn, bytes, level };
        level
    }

    /// `cpu` touches `bytes` of memory that is not tracked (buffers, page tables): what it had in
    /// its caches moves further away.
    pub fn touch_elsewhere(&mut self, cpu: CpuId, bytes: u64) {
        let socket = usize::from(self.socket_of_cpu[cpu.idx()]);
        // Steps that are short against the stamps' range.
        let mut left = bytes;
        loop {
            let step = left.min(AGE_EVERY);
            self.cpu_bytes[cpu.idx()] += step;
            self.socket_bytes[socket] += step;
            if self.socket_bytes[socket] >= self.age_at[socket] {
                self.age(socket);
            }
            left -= step;
            if left == 0 {
                return;
            }
        }
    }

    /// Caps the distances of all frames that a socket touched last, so that none wraps around: a
    /// frame left alone never looks warm again.
    #[cold]
    fn age(&mut self, socket: usize) {
        self.age_at[socket] = self.socket_bytes[socket] + AGE_EVERY;
        let socket_bytes = self.socket_bytes[socket];
        for words in &mut self.frames {
            let Some(mut frame) = Frame::unpack(*words) else { continue };
            if usize::from(self.socket_of_cpu[frame.last_cpu.idx()]) != socket {
                continue;
            }
            let cpu_bytes = self.cpu_bytes[frame.last_cpu.idx()];
            let cpu_distance = frame.cpu_distance(cpu_bytes).min(DISTANCE_MAX);
            let socket_distance = frame.socket_distance(socket_bytes).min(DISTANCE_MAX);
            frame.cpu_stamp = cpu_bytes.wrapping_sub(cpu_distance);
            frame.socket_stamp = socket_bytes.wrapping_sub(socket_distance);
            *words = frame.pack();
        }
    }

    /// A device wrote the frame by DMA: no cache holds it any more.
    pub fn forget(&mut self, pfn: usize) {
        if let Some(frame) = self.frames.get_mut(pfn) {
            *frame = [0; 3];
        }
    }

    /// Where `cpu` would find frame `pfn` now.
    #[inline]
    pub fn level(&self, cpu: CpuId, pfn: usize, node: u16) -> Level {
        let own_socket = self.socket_of_cpu[cpu.idx()];
        if let Some(frame) = Frame::unpack(self.frames.get(pfn).copied().unwrap_or_default()) {
            let last = frame.last_cpu;
            let last_socket = self.socket_of_cpu[last.idx()];
            let cpu_distance = frame.cpu_distance(self.cpu_bytes[last.idx()]);
            let in_llc = frame.socket_distance(self.socket_bytes[usize::from(last_socket)])
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
                && frame.is_dirty
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

    fn remember(&mut self, cpu: CpuId, pfn: usize, writes: bool, bytes: u64) {
        self.touch_elsewhere(cpu, bytes);
        let socket_bytes = self.socket_bytes[usize::from(self.socket_of_cpu[cpu.idx()])];
        let cpu_bytes = self.cpu_bytes[cpu.idx()];
        if let Some(words) = self.frames.get_mut(pfn) {
            // A read by another CPU makes the owner write its copy back.
            let stays_dirty = !writes
                && Frame::unpack(*words).is_some_and(|old| old.is_dirty && old.last_cpu == cpu);
            let frame = Frame {
                last_cpu: cpu,
                is_dirty: writes || stays_dirty,
                cpu_stamp: cpu_bytes,
                socket_stamp: socket_bytes,
            };
            *words = frame.pack();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: CacheSizes =
        CacheSizes { l1_bytes: 32 << 10, l2_bytes: 256 << 10, llc_bytes: 8 << 20 };
    const LEVELS: LevelCosts = LevelCosts { l1_ns: 30, l2_ns: 80, llc_ns: 200, dram_ns: 450 };
    const COSTS: CacheCosts = CacheCosts {
        read: LevelCosts { l1_ns: 1, l2_ns: 2, llc_ns: 3, dram_ns: 4 },
        zero: LEVELS,
        copy: LevelCosts { l1_ns: 25, l2_ns: 45, llc_ns: 200, dram_ns: 450 },
        zero_2m_ns: 100_000,
    };
    const A: CpuId = CpuId(0);
    const B: CpuId = CpuId(1);
    const FAR: CpuId = CpuId(2);

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
    fn frames_survive_packing() {
        for (cpu, is_dirty, cpu_stamp, socket_stamp) in
            [(0, false, 0, 0), (8191, true, STAMP_MASK, 0), (77, false, 1 << 32, STAMP_MASK - 5)]
        {
            let frame = Frame { last_cpu: CpuId(cpu), is_dirty, cpu_stamp, socket_stamp };
            assert_eq!(Frame::unpack(frame.pack()), Some(frame));
        }
        assert_eq!(Frame::unpack([0; 3]), None);
    }

    #[test]
    fn a_frame_left_alone_for_terabytes_stays_cold() {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        caches.touch(B, 4, 0, Touch::Zero);
        // Exactly where stamps of 40 bits come round again, and around it.
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

    #[test]
    fn counters_may_pass_the_stamps_width() {
        let mut caches = caches();
        caches.touch_elsewhere(A, STAMP_MASK - 1000);
        caches.touch(A, 3, 0, Touch::Zero);
        assert_eq!(caches.level(A, 3, 0), Level::L1);
        caches.touch_elsewhere(A, 100 << 10);
        assert_eq!(caches.level(A, 3, 0), Level::L2);
    }
}
