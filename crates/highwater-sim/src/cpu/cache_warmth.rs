//! Cache warmth of page frames: the cache level in which a touch finds a frame
//! (rules/costs#cache-warmth).
//!
//! This is not a cache simulator. Each CPU counts the bytes that it touches. Each socket counts the
//! bytes by which its last-level cache (LLC) moves on. A frame's record holds the CPU that touched
//! it last and the value of both counters at that time. The bytes counted since then are the
//! frame's *distance*. A frame whose distance is smaller than a cache is still in that cache.
//!
//! | last touched by | distance | level |
//! |---|---|---|
//! | this CPU | of the CPU < L1, < L2 | L1, L2 |
//! | this CPU | else, of the socket < LLC | LLC |
//! | another CPU of the socket | of that CPU < L2, and dirty | LLC × 1.5 (snoop) |
//! | another CPU of the socket | else, of the socket < LLC | LLC |
//! | another socket | of that socket < LLC | LLC × 2.5 |
//! | any CPU | no cache has it | DRAM, × 1.6 if the frame's node belongs to another socket |
//!
//! The LLC moves on as follows. A frame that was not in it takes the place of the oldest one, so
//! all frames move by its bytes. A frame at distance d comes to the front, which moves only the
//! younger ones: a share d / LLC of all. Each frame is moved by that share of the bytes. So data
//! that one CPU writes and another reads soon after counts once, and a set of frames that is used
//! over and over stays if it fits.
//!
//! Data in address order costs less, because the processor fetches ahead: a frame has another price
//! in the LLC and in memory if the last frame that this CPU touched in that direction (reading or
//! writing) is the one before it.
//!
//! Distances only grow, so a frame that is in no cache stays cold until a CPU touches it, and its
//! record is not needed. Caches hold few frames of a large memory: [`WarmFrames`] keeps the records
//! of those frames and their neighbours, and forgets cold ones. The CPU that wrote a frame is kept
//! for every frame (two bytes) until another CPU touches the frame. It cannot be forgotten with the
//! record: a frame that was cold counts as dirty again after its writer reads it.
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

impl CacheCosts {
    #[inline]
    fn of(&self, touch: Touch) -> &LevelCosts {
        match touch {
            Touch::Zero => &self.zero,
            Touch::CopyFrom | Touch::CopyTo => &self.copy,
        }
    }
}

impl Level {
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

/// Where a touch finds a frame.
#[derive(Clone, Copy, Debug)]
struct Found {
    level: Level,
    /// The frame's distance in the LLC of the CPU's socket, at most the size of that cache.
    depth: u64,
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
    const NONE: Begun = Begun {
        pfn: NO_FRAME,
        bytes: 0,
        found: Found { level: Level::Dram, depth: 0 },
        in_order: false,
    };
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
    /// S: bytes by which each socket's LLC moved on.
    socket_bytes: Vec<u64>,
    /// By CPU: the frames that it read and wrote last.
    last: Vec<[usize; 2]>,
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
            last: vec![[NO_FRAME; 2]; socket_of_cpu.len()],
            begun: vec![[Begun::NONE; 2]; socket_of_cpu.len()],
            socket_of_cpu,
            socket_of_node,
            dirty_by: vec![0; nr_frames],
            warm: WarmFrames::new(nr_frames),
        }
    }

    /// `cpu` touches all of frame `pfn`, whose memory is on `node`. Returns the time it takes.
    #[inline]
    fn touch(&mut self, cpu: CpuId, pfn: usize, node: u16, touch: Touch) -> u64 {
        let place = self.warm.find(pfn);
        let found = self.find(self.warm.at(place, pfn), cpu, pfn, node);
        let in_order = self.follows(cpu, pfn, touch.writes());
        self.remember(cpu, pfn, place, touch.writes(), FRAME_BYTES, found.depth);
        found.level.ns(self.costs.of(touch), in_order)
    }

    /// True if the last frame that `cpu` touched in this direction is the one before `pfn`.
    #[inline]
    fn follows(&self, cpu: CpuId, pfn: usize, writes: bool) -> bool {
        self.last[cpu.idx()][usize::from(writes)] + 1 == pfn
    }

    /// `cpu` clears `nr_frames` frames from `pfn` on. Whole 2 MiB blocks cost a flat figure.
    pub fn zero_block(&mut self, cpu: CpuId, pfn: usize, node: u16, nr_frames: usize) -> u64 {
        let frames_ns: u64 =
            (pfn..pfn + nr_frames).map(|pfn| self.touch(cpu, pfn, node, Touch::Zero)).sum();
        if nr_frames < HUGE_FRAMES {
            return frames_ns;
        }
        let local = self.level_in_memory(cpu, node);
        let per_block = LevelCosts { dram_ns: self.costs.zero_2m_ns, ..LevelCosts::default() };
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
        let mut begun = self.begun[cpu.idx()][usize::from(touch.writes())];
        if begun.pfn == pfn && begun.bytes + bytes <= FRAME_BYTES {
            begun.bytes += bytes;
        } else {
            let found = self.find(self.warm.at(place, pfn), cpu, pfn, node);
            begun = Begun { pfn, bytes, found, in_order: self.follows(cpu, pfn, touch.writes()) };
        }
        self.begun[cpu.idx()][usize::from(touch.writes())] = begun;
        self.remember(cpu, pfn, place, touch.writes(), bytes, begun.found.depth);
        let ns = begun.found.level.ns(self.costs.of(touch), begun.in_order);
        (ns * bytes).div_ceil(FRAME_BYTES)
    }

    /// `cpu` fetches `bytes` bytes of other memory: the frames in its caches move further away.
    #[cfg(test)]
    fn touch_elsewhere(&mut self, cpu: CpuId, bytes: u64) {
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
        self.find(self.warm.at(self.warm.find(pfn), pfn), cpu, pfn, node).level
    }

    #[inline]
    fn find(&self, record: Option<&Record>, cpu: CpuId, pfn: usize, node: u16) -> Found {
        let CacheSizes { l1_bytes, l2_bytes, llc_bytes } = self.sizes;
        let in_memory = || Found { level: self.level_in_memory(cpu, node), depth: llc_bytes };
        let Some(record) = record else { return in_memory() };
        let last = record.last_cpu;
        let last_socket = self.socket_of_cpu[last.idx()];
        let own_socket = last_socket == self.socket_of_cpu[cpu.idx()];
        let cpu_distance = self.cpu_bytes[last.idx()] - record.cpu_stamp;
        let llc_distance = self.socket_bytes[usize::from(last_socket)] - record.socket_stamp;
        let in_llc = llc_distance < llc_bytes;
        let level = match () {
            () if last == cpu && cpu_distance < l1_bytes => Level::L1,
            () if last == cpu && cpu_distance < l2_bytes => Level::L2,
            () if last != cpu
                && own_socket
                && cpu_distance < l2_bytes
                && self.dirty_by[pfn] != 0 =>
            {
                Level::LlcSnoop
            }
            () if in_llc && own_socket => Level::Llc,
            () if in_llc => Level::RemoteCache,
            () => return in_memory(),
        };
        let depth = if own_socket { llc_distance.min(llc_bytes) } else { llc_bytes };
        Found { level, depth }
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

    /// Records a touch of a frame at this depth. `place` is the result of the lookup of the frame.
    #[inline]
    fn remember(
        &mut self,
        cpu: CpuId,
        pfn: usize,
        place: Place,
        writes: bool,
        bytes: u64,
        depth: u64,
    ) {
        self.cpu_bytes[cpu.idx()] += bytes;
        self.socket_bytes[usize::from(self.socket_of_cpu[cpu.idx()])] +=
            bytes * depth / self.sizes.llc_bytes;
        self.last[cpu.idx()][usize::from(writes)] = pfn;
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
mod tests;
