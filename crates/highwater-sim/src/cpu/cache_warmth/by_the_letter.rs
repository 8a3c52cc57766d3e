//! [`CacheWarmth`] against a model that keeps every record: forgetting cold frames has no effect,
//! and whole frames cost what their parts would.

use super::tests::{A, B, COSTS, FAR, SIZES};
use super::*;

/// The rules by the letter: a record for every frame, never forgotten.
struct ByTheLetter {
    caches: CacheWarmth,
    /// Last CPU, dirty, stamps.
    frames: Vec<Option<(CpuId, bool, u64, u64)>>,
    /// By CPU and direction: the frame that is touched in parts, bytes so far, and how its first
    /// part was found.
    begun: [[(usize, u64, Look); 2]; 4],
    /// By CPU and direction: the last frame.
    last: [[usize; 2]; 4],
}

/// Where a touch finds a frame: in a cache or in memory, and the parts of 65,536 that are there.
type Place = (Level, u64);
/// That, and whether the frame follows the one before it.
type Look = (Place, bool);
/// A frame that does not exist.
const NOWHERE: usize = usize::MAX - 1;

impl ByTheLetter {
    fn counts(&self, cpu: CpuId) -> (u64, u64) {
        let caches = &self.caches;
        let core = &caches.cores[cpu.idx()];
        (core.bytes, caches.socket_bytes[usize::from(core.socket)])
    }

    fn place(&self, cpu: CpuId, pfn: usize, node: u16) -> Place {
        let socket = |cpu: CpuId| self.caches.cores[cpu.idx()].socket;
        let memory = (self.caches.level_in_memory(cpu, node), 65_536);
        let Some((last, is_dirty, cpu_stamp, socket_stamp)) = self.frames[pfn] else {
            return memory;
        };
        let (own, shared) = self.counts(last);
        let (own, shared) = (own - cpu_stamp, shared - socket_stamp);
        let is_near = socket(last) == socket(cpu);
        let step = (shared * 256 + SIZES.llc_bytes / 2) / SIZES.llc_bytes;
        let left = (65_536.0 * libm::exp(-(step as f64) / 256.0)).round() as u64;
        match () {
            () if last == cpu && own < SIZES.l1_bytes => (Level::L1, 65_536),
            () if last == cpu && own < SIZES.l2_bytes => (Level::L2, 65_536),
            () if last != cpu && is_near && own < SIZES.l2_bytes && is_dirty => {
                (Level::LlcSnoop, 65_536)
            }
            () if shared >= 5 * SIZES.llc_bytes => memory,
            () if is_near => (Level::Llc, left),
            () => (Level::RemoteCache, left),
        }
    }

    fn level(&self, cpu: CpuId, pfn: usize, node: u16) -> Level {
        match self.place(cpu, pfn, node) {
            (level, 32_768..) => level,
            _ => self.caches.level_in_memory(cpu, node),
        }
    }

    /// A touch of a whole frame, or of a part, which is as warm as the first part was. Returns where
    /// it was found, and whether it follows the frame before it.
    fn touch(&mut self, cpu: CpuId, pfn: usize, writes: bool, part: Option<u64>) -> (Place, bool) {
        let own = usize::from(self.caches.cores[cpu.idx()].socket);
        let last = &mut self.last[cpu.idx()][usize::from(writes)];
        let follows = std::mem::replace(last, pfn) + 1 == pfn;
        let mut found = (self.place(cpu, pfn, 0), follows);
        if let Some(bytes) = part {
            let begun = &mut self.begun[cpu.idx()][usize::from(writes)];
            *begun = match *begun {
                (frame, before, first) if frame == pfn && before + bytes <= FRAME_BYTES => {
                    (pfn, before + bytes, first)
                }
                _ => (pfn, bytes, found),
            };
            found = begun.2;
        }
        let place = found.0;
        let bytes = part.unwrap_or(FRAME_BYTES);
        self.caches.cores[cpu.idx()].bytes += bytes;
        self.caches.socket_bytes[own] += match place {
            (Level::L1 | Level::L2 | Level::LlcSnoop, _) => 0,
            (Level::Llc, left) => bytes * (65_536 - left) / 65_536,
            _ => bytes,
        };
        let (own, shared) = self.counts(cpu);
        let was = self.frames[pfn].is_some_and(|(last, dirty, ..)| dirty && last == cpu);
        self.frames[pfn] = Some((cpu, writes || was, own, shared));
        found
    }

    /// The time that takes: by level, the rest of a frame in memory, a part its share, rounded up.
    fn price_ns(
        &self,
        cpu: CpuId,
        ((level, left), in_order): Look,
        kind: Touch,
        part: Option<u64>,
    ) -> u64 {
        let costs = if kind == Touch::Zero { &COSTS.zero } else { &COSTS.copy };
        let memory = self.caches.level_in_memory(cpu, 0);
        let [there, elsewhere] = [level, memory].map(|level| level.ns(costs, in_order));
        let whole_ns = (there * left + elsewhere * (65_536 - left)) / 65_536;
        (whole_ns * part.unwrap_or(FRAME_BYTES)).div_ceil(FRAME_BYTES)
    }
}

const NR_FRAMES: usize = 40_000;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// First frame, number of frames, kind of access, and bytes of each frame.
    Touch(usize, usize, Touch, u64),
    Block(usize),
    Forget(usize),
    Elsewhere(u64),
}

fn acts() -> impl proptest::strategy::Strategy<Value = Vec<(u16, Act)>> {
    use proptest::prelude::*;
    // A few frames are touched often, many seldom.
    let pfn = || prop_oneof![0..64_usize, 0..NR_FRAMES - 4096];
    let kind = prop::sample::select(vec![Touch::Zero, Touch::CopyFrom, Touch::CopyTo]);
    let bytes = prop_oneof![Just(4096_u64), 1..4097_u64];
    let act = prop_oneof![
        8 => (pfn(), prop_oneof![1..8_usize, 1..4096_usize], kind, bytes)
            .prop_map(|(pfn, nr, kind, bytes)| Act::Touch(pfn, nr, kind, bytes)),
        1 => pfn().prop_map(Act::Block),
        2 => pfn().prop_map(Act::Forget),
        2 => prop_oneof![0..40_000_u64, 0..(16_u64 << 20)].prop_map(Act::Elsewhere),
    ];
    prop::collection::vec((0..4_u16, act), 1..60)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn forgetting_cold_frames_changes_no_level_and_no_price(acts in acts()) {
        let sockets = vec![0, 0, 1, 1];
        let new = |nr| CacheWarmth::new(SIZES, COSTS, sockets.clone(), vec![0, 1], nr);
        let mut caches = new(NR_FRAMES);
        let mut rules = ByTheLetter {
            caches: new(0),
            frames: vec![None; NR_FRAMES],
            begun: [[(NOWHERE, 0, ((Level::Dram, 0), false)); 2]; 4],
            last: [[NOWHERE; 2]; 4],
        };
        for (cpu, act) in acts {
            let cpu = CpuId(cpu);
            match act {
                Act::Touch(first, nr, kind, bytes) => {
                    for pfn in first..first + nr {
                        proptest::prop_assert_eq!(
                            caches.level(cpu, pfn, 0),
                            rules.level(cpu, pfn, 0)
                        );
                        // Programs copy, and the kernel clears whole frames, as blocks of one.
                        let (ns, part) = match kind {
                            Touch::Zero => (caches.zero_block(cpu, pfn, 0, 1), None),
                            _ => (caches.touch_range(cpu, pfn, 0, kind, 0, bytes), Some(bytes)),
                        };
                        let found = rules.touch(cpu, pfn, kind.writes(), part);
                        let price_ns = rules.price_ns(cpu, found, kind, part);
                        proptest::prop_assert_eq!(ns, price_ns);
                    }
                }
                Act::Block(first) => {
                    caches.zero_block(cpu, first, 0, 512);
                    for pfn in first..first + 512 {
                        rules.touch(cpu, pfn, true, None);
                    }
                }
                Act::Forget(pfn) => {
                    caches.forget(pfn);
                    rules.frames[pfn] = None;
                }
                Act::Elsewhere(bytes) => {
                    caches.touch_elsewhere(cpu, bytes);
                    rules.caches.touch_elsewhere(cpu, bytes);
                }
            }
        }
        for cpu in [A, B, FAR] {
            for pfn in 0..NR_FRAMES {
                proptest::prop_assert_eq!(
                    caches.level(cpu, pfn, 1),
                    rules.level(cpu, pfn, 1)
                );
            }
        }
    }
}
