//! Cache warmth of page frames: the cache level in which a touch finds a frame
//! (rules/costs#cache-warmth).
//!
//! This is not a cache simulator. Each CPU counts the bytes that it touches. Each socket counts the
//! bytes that its last-level cache (LLC) fetched. A frame's record holds the CPU that touched it
//! last and the value of both counters at that time. A frame is in a CPU's own cache if that CPU
//! has touched fewer bytes since than the cache holds. The LLC holds a share of it.
//!
//! | last touched by | touched or fetched since | level |
//! |---|---|---|
//! | this CPU | by the CPU < L1, < L2 | L1, L2 |
//! | this CPU | else, a share of it is in the LLC | LLC |
//! | another CPU of the socket | by that CPU < L2, and dirty | LLC × 1.5 (snoop) |
//! | another CPU of the socket | else, a share of it is in the LLC | LLC |
//! | another socket | a share of it is in that LLC | LLC × 2.5 |
//! | any CPU | the rest of it | DRAM, × 1.6 if the frame's node belongs to another socket |
//!
//! The LLC replaces lines at random: a share exp(-fetched / LLC) of a frame is still there, and
//! touching it fetches the rest. Real ones are not random, but they do not drop the oldest line
//! each time either (rules/costs#llc-share). So data that one CPU writes and another reads soon
//! after is fetched once, a set of frames that is used over and over stays if it fits, and if it
//! does not, some of it stays.
//!
//! Data in address order costs less, because the processor fetches ahead: a frame has another price
//! in the LLC and in memory if the last frame that this CPU touched in that direction (reading or
//! writing) is the one before it.
//!
//! Counters only grow, so a frame that is in no cache stays cold until a CPU touches it, and its
//! record is not needed. Caches hold few frames of a large memory: [`WarmFrames`] keeps the records
//! of those frames and their neighbours, and forgets cold ones. The CPU that wrote a frame is kept
//! for every frame (two bytes) until another CPU touches the frame. It cannot be forgotten with the
//! record: a frame that was cold counts as dirty again after its writer reads it.
//!
//! To: [`super::warm_frames`] (the records).

use std::array;

use super::CpuId;
use super::warm_frames::{Place, Record, Stamp, WarmFrames};

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
    /// In the last-level cache, if the CPU's last frame is the one before it.
    pub llc_in_order_ns: u64,
    /// In memory, if the CPU's last frame is the one before it.
    pub dram_in_order_ns: u64,
}

/// Costs of each kind of touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CacheCosts {
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
    /// The CPU clears all of it.
    Zero,
    /// The CPU copies data out of it.
    CopyFrom,
    /// Data is copied into it.
    CopyTo,
}

/// The place where a touch finds a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
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

impl Touch {
    /// True if the frame is dirty after it.
    #[inline]
    fn writes(self) -> bool {
        matches!(self, Touch::Zero | Touch::CopyTo)
    }
}

impl Level {
    const ALL: [Level; 7] = [
        Level::L1,
        Level::L2,
        Level::Llc,
        Level::LlcSnoop,
        Level::RemoteCache,
        Level::Dram,
        Level::RemoteDram,
    ];

    /// Cost of 4 KiB at this level, with the factors of rules/costs#cache-warmth. `in_order`: the
    /// CPU's last frame is the one before it.
    #[inline]
    pub fn ns(self, costs: &LevelCosts, in_order: bool) -> u64 {
        let (llc_ns, dram_ns) = match in_order {
            true => (costs.llc_in_order_ns, costs.dram_in_order_ns),
            false => (costs.llc_ns, costs.dram_ns),
        };
        match self {
            Level::L1 => costs.l1_ns,
            Level::L2 => costs.l2_ns,
            Level::Llc => llc_ns,
            Level::LlcSnoop => llc_ns * 15 / 10,
            Level::RemoteCache => llc_ns * 25 / 10,
            Level::Dram => dram_ns,
            Level::RemoteDram => dram_ns * 16 / 10,
        }
    }
}

/// Where a touch finds a frame: a share in a cache, the rest in memory. It fits in a register.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Parts of [`WHOLE`] that are in the cache.
    share: u32,
    cached: Level,
    memory: Level,
}

/// All of a frame.
const WHOLE: u32 = 1 << 16;

impl Found {
    /// All of the frame is at this level.
    const fn all(level: Level) -> Found {
        Found { cached: level, share: WHOLE, memory: level }
    }

    /// Parts of [`WHOLE`] that are in the cache, and that are not.
    #[inline(always)]
    fn shares(&self) -> (u64, u64) {
        (u64::from(self.share), u64::from(WHOLE - self.share))
    }

    /// The part of `bytes` that the socket's LLC fetches: what is neither in the CPU's caches nor
    /// in the socket's.
    #[inline]
    fn fetched(&self, bytes: u64) -> u64 {
        match self.cached {
            Level::L1 | Level::L2 | Level::LlcSnoop => 0,
            Level::Llc => bytes * self.shares().1 / u64::from(WHOLE),
            Level::RemoteCache | Level::Dram | Level::RemoteDram => bytes,
        }
    }

    /// The level that most of the frame is at.
    fn level(&self) -> Level {
        if 2 * self.share >= WHOLE { self.cached } else { self.memory }
    }
}

/// Nanoseconds of 4 KiB: by copying or clearing, out of order or in order, by level.
#[derive(Clone, Copy, Debug)]
struct Prices([[[u64; Level::ALL.len()]; 2]; 2]);

impl Prices {
    fn new(costs: &CacheCosts) -> Prices {
        let by_level = |costs: &LevelCosts, in_order| Level::ALL.map(|at| at.ns(costs, in_order));
        let both = |costs| array::from_fn(|in_order| by_level(costs, in_order == 1));
        Prices([both(&costs.copy), both(&costs.zero)])
    }

    /// Cost of 4 KiB that were found there.
    #[inline(always)]
    fn ns(&self, touch: Touch, in_order: bool, found: &Found) -> u64 {
        let by_level = &self.0[usize::from(touch == Touch::Zero)][usize::from(in_order)];
        let cached_ns = by_level[found.cached as usize];
        if found.share == WHOLE {
            return cached_ns;
        }
        let memory_ns = by_level[found.memory as usize];
        let (there, elsewhere) = found.shares();
        (cached_ns * there + memory_ns * elsewhere) / u64::from(WHOLE)
    }
}

/// Steps of the table of shares for each size of the LLC that was fetched, and sizes after which
/// nothing is left (a share of 0.7 %).
const STEPS: u64 = 256;
const SIZES_MAX: u64 = 5;

/// The share of a frame that is left in an LLC after others were fetched.
#[derive(Clone, Debug)]
struct Shares {
    /// By step: parts of [`WHOLE`], rounded.
    left: Vec<u32>,
    /// Steps for each byte, times 2^64 (less than one step, for any cache of more than 256 bytes).
    per_byte: u64,
    /// Fetched bytes after which nothing is left.
    bytes_max: u64,
}

impl Shares {
    fn new(llc_bytes: u64) -> Shares {
        let left = (0..=STEPS * SIZES_MAX)
            .map(|step| {
                (f64::from(WHOLE) * libm::exp(-(step as f64) / STEPS as f64)).round() as u32
            })
            .collect();
        let llc_bytes = llc_bytes.max(1);
        let per_byte = (u128::from(STEPS) << 64) / u128::from(llc_bytes);
        let per_byte = u64::try_from(per_byte).unwrap_or(u64::MAX);
        Shares { left, per_byte, bytes_max: SIZES_MAX * llc_bytes }
    }

    /// Parts of [`WHOLE`] that are left after `fetched` bytes, by the nearest step.
    #[inline]
    fn left(&self, fetched: u64) -> u32 {
        if fetched >= self.bytes_max {
            return 0;
        }
        let step = (u128::from(fetched) * u128::from(self.per_byte) + (1 << 63)) >> 64;
        self.left.get(step as usize).copied().unwrap_or_default()
    }
}

/// Neither a frame nor the one before a frame.
const NO_FRAME: usize = usize::MAX - 1;

/// A frame that a CPU has touched part of, in one direction.
#[derive(Clone, Copy, Debug)]
struct Begun {
    pfn: usize,
    bytes: u64,
    found: Found,
    in_order: bool,
}

impl Begun {
    const NONE: Begun =
        Begun { pfn: NO_FRAME, bytes: 0, found: Found::all(Level::Dram), in_order: false };
}

/// The touches of a CPU.
#[derive(Clone, Copy, Debug)]
struct Core {
    socket: u16,
    /// C: bytes that it touched.
    bytes: u64,
    /// The frames that it read and wrote last.
    last: [usize; 2],
    /// The frame being read and the frame being written in parts.
    begun: [Begun; 2],
}

/// Caches of a machine and the warmth of its frames.
#[derive(Clone, Debug)]
pub struct CacheWarmth {
    sizes: CacheSizes,
    prices: Prices,
    zero_2m_ns: u64,
    shares: Shares,
    cores: Vec<Core>,
    /// Socket of each node's memory.
    socket_of_node: Vec<u16>,
    /// S: bytes that each socket's LLC fetched.
    socket_bytes: Vec<u64>,
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
        let core = |socket| Core { socket, bytes: 0, last: [NO_FRAME; 2], begun: [Begun::NONE; 2] };
        CacheWarmth {
            sizes,
            prices: Prices::new(&costs),
            zero_2m_ns: costs.zero_2m_ns,
            shares: Shares::new(sizes.llc_bytes),
            socket_bytes: vec![0; usize::from(nr_sockets)],
            cores: socket_of_cpu.into_iter().map(core).collect(),
            socket_of_node,
            dirty_by: vec![0; nr_frames],
            warm: WarmFrames::new(nr_frames),
        }
    }

    /// `cpu` touches all of frame `pfn`, whose memory is on `node`. Returns the time it takes.
    fn touch(&mut self, cpu: CpuId, pfn: usize, node: u16, touch: Touch) -> u64 {
        let place = self.warm.find(pfn);
        let found = self.find(place, cpu, pfn, node);
        let in_order = self.cores[cpu.idx()].follows(pfn, touch.writes());
        self.remember(cpu, pfn, place, touch.writes(), FRAME_BYTES, &found);
        self.prices.ns(touch, in_order, &found)
    }

    /// `cpu` clears `nr_frames` frames from `pfn` on. Whole 2 MiB blocks cost a flat figure.
    pub fn zero_block(&mut self, cpu: CpuId, pfn: usize, node: u16, nr_frames: usize) -> u64 {
        let frames_ns: u64 =
            (pfn..pfn + nr_frames).map(|pfn| self.touch(cpu, pfn, node, Touch::Zero)).sum();
        if nr_frames < HUGE_FRAMES {
            return frames_ns;
        }
        let local = self.level_in_memory(cpu, node);
        let per_block = LevelCosts { dram_ns: self.zero_2m_ns, ..LevelCosts::default() };
        local.ns(&per_block, false) * (nr_frames / HUGE_FRAMES) as u64
    }

    /// `cpu` touches `bytes` bytes from `offset` on, which counts from frame `pfn`. A part of a
    /// frame takes its share of the time, rounded up.
    pub fn touch_range(
        &mut self,
        cpu: CpuId,
        pfn: usize,
        node: u16,
        touch: Touch,
        offset: u64,
        bytes: u64,
    ) -> u64 {
        if bytes == FRAME_BYTES && offset.is_multiple_of(FRAME_BYTES) {
            // As for a part: one that was begun before ends here.
            self.cores[cpu.idx()].begun[usize::from(touch.writes())].pfn = NO_FRAME;
            return self.touch(cpu, pfn + (offset / FRAME_BYTES) as usize, node, touch);
        }
        let (mut at, end, mut ns) = (offset, offset + bytes, 0);
        while at < end {
            let frame_end = (at / FRAME_BYTES + 1) * FRAME_BYTES;
            let part = frame_end.min(end) - at;
            let frame = pfn + (at / FRAME_BYTES) as usize;
            ns += self.touch_part(cpu, frame, node, touch, part);
            at += part;
        }
        ns
    }

    /// Touches a part of one frame. A frame that is touched in parts keeps the warmth of its first
    /// part throughout: touching one part does not bring the following cache lines in.
    fn touch_part(&mut self, cpu: CpuId, pfn: usize, node: u16, touch: Touch, bytes: u64) -> u64 {
        let place = self.warm.find(pfn);
        let side = usize::from(touch.writes());
        let core = &self.cores[cpu.idx()];
        let mut begun = core.begun[side];
        if begun.pfn == pfn && begun.bytes + bytes <= FRAME_BYTES {
            begun.bytes += bytes;
        } else {
            let in_order = core.follows(pfn, touch.writes());
            begun = Begun { pfn, bytes, found: self.find(place, cpu, pfn, node), in_order };
        }
        self.cores[cpu.idx()].begun[side] = begun;
        self.remember(cpu, pfn, place, touch.writes(), bytes, &begun.found);
        let ns = self.prices.ns(touch, begun.in_order, &begun.found);
        (ns * bytes).div_ceil(FRAME_BYTES)
    }

    /// `cpu` fetches `bytes` bytes of other memory into its caches.
    #[cfg(test)]
    fn touch_elsewhere(&mut self, cpu: CpuId, bytes: u64) {
        let core = &mut self.cores[cpu.idx()];
        core.bytes += bytes;
        self.socket_bytes[usize::from(core.socket)] += bytes;
    }

    /// A device wrote the frame by DMA: no cache holds it any more.
    pub fn forget(&mut self, pfn: usize) {
        if let Some(dirty_by) = self.dirty_by.get_mut(pfn) {
            set_clean(dirty_by);
            self.warm.forget(pfn);
        }
    }

    /// The level in which `cpu` would find most of frame `pfn` now.
    #[inline]
    pub fn level(&self, cpu: CpuId, pfn: usize, node: u16) -> Level {
        self.find(self.warm.find(pfn), cpu, pfn, node).level()
    }

    #[inline(always)]
    fn find(&self, place: Place, cpu: CpuId, pfn: usize, node: u16) -> Found {
        let Some(record) = self.warm.at(place, pfn) else {
            return Found::all(self.level_in_memory(cpu, node));
        };
        let CacheSizes { l1_bytes, l2_bytes, .. } = self.sizes;
        let last = &self.cores[record.last_cpu.idx()];
        let own_socket = last.socket == self.cores[cpu.idx()].socket;
        let touched = record.cpu_stamp.bytes_until(last.bytes);
        match record.last_cpu == cpu {
            true if touched < l1_bytes => return Found::all(Level::L1),
            true if touched < l2_bytes => return Found::all(Level::L2),
            false if own_socket && touched < l2_bytes && self.dirty_by[pfn] != 0 => {
                return Found::all(Level::LlcSnoop);
            }
            _ => {}
        }
        let socket_bytes = self.socket_bytes[usize::from(last.socket)];
        let share = self.shares.left(record.socket_stamp.bytes_until(socket_bytes));
        let memory = self.level_in_memory(cpu, node);
        match share {
            0 => Found::all(memory),
            _ if own_socket => Found { cached: Level::Llc, share, memory },
            _ => Found { cached: Level::RemoteCache, share, memory },
        }
    }

    fn level_in_memory(&self, cpu: CpuId, node: u16) -> Level {
        let own_socket = self.cores[cpu.idx()].socket;
        match self.socket_of_node.get(usize::from(node)) {
            Some(&socket) if socket != own_socket => Level::RemoteDram,
            _ => Level::Dram,
        }
    }

    /// Records a touch of a frame that was found there. `place` is the result of its lookup.
    #[inline(always)]
    fn remember(
        &mut self,
        cpu: CpuId,
        pfn: usize,
        place: Place,
        writes: bool,
        bytes: u64,
        found: &Found,
    ) {
        let core = &mut self.cores[cpu.idx()];
        let socket_bytes = &mut self.socket_bytes[usize::from(core.socket)];
        let before = [core.bytes, *socket_bytes];
        let after = [before[0] + bytes, before[1] + found.fetched(bytes)];
        [core.bytes, *socket_bytes] = after;
        core.last[usize::from(writes)] = pfn;
        if Stamp::are_records_due(before, after) {
            self.forget_cold();
        }
        let Some(dirty_by) = self.dirty_by.get_mut(pfn) else { return };
        if writes {
            *dirty_by = cpu.0 + 1;
        } else if *dirty_by != cpu.0 + 1 {
            // A read by another CPU makes the owner write its copy back.
            set_clean(dirty_by);
        }
        let record = Record {
            last_cpu: cpu,
            cpu_stamp: Stamp::new(after[0]),
            socket_stamp: Stamp::new(after[1]),
        };
        if self.warm.put(place, pfn, record) {
            self.drop_cold();
        }
    }

    /// Drops blocks of records of frames that no cache holds.
    #[cold]
    fn drop_cold(&mut self) {
        let is_warm = is_warm(&self.sizes, &self.shares);
        self.warm.retain(|record| is_warm(&self.cores, &self.socket_bytes, record));
    }

    /// Drops every record of a frame that no cache holds.
    #[cold]
    fn forget_cold(&mut self) {
        let is_warm = is_warm(&self.sizes, &self.shares);
        self.warm.forget_unless(|record| is_warm(&self.cores, &self.socket_bytes, record));
    }
}

impl Core {
    /// True if the last frame that it touched in this direction is the one before `pfn`.
    #[inline(always)]
    fn follows(&self, pfn: usize, writes: bool) -> bool {
        self.last[usize::from(writes)] + 1 == pfn
    }
}

/// Some cache holds the frame of a record, by the counters of all CPUs and sockets.
fn is_warm(
    sizes: &CacheSizes,
    shares: &Shares,
) -> impl Fn(&[Core], &[u64], &Record) -> bool + use<> {
    let (own_bytes, llc_bytes) = (sizes.l1_bytes.max(sizes.l2_bytes), shares.bytes_max);
    move |cores, socket_bytes, record| {
        let last = &cores[record.last_cpu.idx()];
        let socket_bytes = socket_bytes[usize::from(last.socket)];
        record.cpu_stamp.bytes_until(last.bytes) < own_bytes
            || record.socket_stamp.bytes_until(socket_bytes) < llc_bytes
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
mod tests;
