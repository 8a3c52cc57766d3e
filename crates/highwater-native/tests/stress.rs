//! Threads against the allocator: all orders, many kinds of request, drains in between.
//!
//! Every block carries its owner's tag in the first and last bytes of each of its frames. A block
//! that two owners hold, or a frame in two blocks, shows as a foreign tag. At the end everything is
//! free again, to the page. `HIGHWATER_STRESS_SECONDS` sets the length of each case.

use std::time::{Duration, Instant};

use highwater_core::audit::{self, AuditReport};
use highwater_core::config::{
    DrainPortion, DrainType, FreeFactor, HighOrderFree, Machine, PRESETS, PcpSizing, Policy, preset,
};
use highwater_core::host::{CpuId, Host};
use highwater_core::page::{MAX_ORDER, Order, PAGE_SIZE, Pfn};
use highwater_core::page_alloc::Gfp;
use highwater_core::sync::order::LockClass;
use highwater_native::{NativeMachine, NativeOptions, Task};

use crate::case_time;

/// Most blocks a thread holds at once.
const HELD_MAX: usize = 120;
/// Kinds of request that are tried.
const KINDS: [Gfp; 8] = [
    Gfp::GFP_KERNEL,
    Gfp::GFP_HIGHUSER_MOVABLE,
    Gfp::GFP_ATOMIC,
    Gfp::GFP_NOWAIT,
    Gfp::GFP_NOFS.union(Gfp::RECLAIMABLE),
    Gfp::GFP_KERNEL.union(Gfp::COMP).union(Gfp::NORETRY),
    Gfp::GFP_KERNEL.union(Gfp::DMA32),
    Gfp::GFP_KERNEL.union(Gfp::DMA),
];

/// splitmix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// A block that a thread holds.
struct Block {
    pfn: Pfn,
    order: Order,
    tag: u64,
}

impl Block {
    fn frames(&self) -> impl Iterator<Item = Pfn> + use<> {
        (self.pfn.0..self.pfn.0 + (1 << self.order.0)).map(Pfn)
    }

    fn write_tags(&self, host: &impl Host) {
        for pfn in self.frames() {
            let tag = (self.tag ^ u64::from(pfn.0)).to_ne_bytes();
            host.frame_write(pfn, 0, &tag);
            host.frame_write(pfn, PAGE_SIZE - 8, &tag);
        }
    }

    fn check_tags(&self, host: &impl Host) {
        for pfn in self.frames() {
            let mut at = [[0; 8]; 2];
            host.frame_read(pfn, 0, &mut at[0]);
            host.frame_read(pfn, PAGE_SIZE - 8, &mut at[1]);
            let want = (self.tag ^ u64::from(pfn.0)).to_ne_bytes();
            assert_eq!(
                at,
                [want, want],
                "{pfn:?} of {:?} {:?} has another owner",
                self.pfn,
                self.order
            );
        }
    }
}

/// Random work of one thread until `end`; returns the number of blocks it got.
fn hammer(task: &Task<'_>, seed: u64, end: Instant) -> u64 {
    let host = &task.machine.host;
    let mut rng = Rng(seed);
    let mut held: Vec<Block> = Vec::new();
    let mut got = 0u64;
    // A busy machine may start a thread when the time is over already.
    let mut is_over = false;
    while !is_over {
        is_over = Instant::now() >= end;
        for _ in 0..200 {
            match rng.below(1000) {
                0..500 if held.len() < HELD_MAX => {
                    // Small orders are common, all orders occur.
                    let order = Order(rng.below(MAX_ORDER).min(rng.below(MAX_ORDER)) as u8);
                    let mut gfp = KINDS[rng.below(KINDS.len())];
                    if rng.below(16) == 0 {
                        gfp |= Gfp::ZERO;
                    }
                    let Some(pfn) = task.alloc(gfp, order) else { continue };
                    assert!(pfn.is_aligned(order));
                    got += 1;
                    let block = Block { pfn, order, tag: seed << 48 | got };
                    if gfp.contains(Gfp::ZERO) {
                        let mut word = [1; 8];
                        host.frame_read(pfn, (PAGE_SIZE << order.0) - 8, &mut word);
                        assert_eq!(word, [0; 8]);
                    }
                    block.write_tags(host);
                    held.push(block);
                }
                999 => task.drain_all(),
                998 => {
                    task.machine.alloc.refresh_cpu_stats(&task.cx);
                }
                _ if !held.is_empty() => {
                    let block = held.swap_remove(rng.below(held.len()));
                    block.check_tags(host);
                    task.free(block.pfn, block.order).expect("the block is ours");
                }
                _ => {}
            }
        }
    }
    for block in held {
        block.check_tags(host);
        task.free(block.pfn, block.order).expect("the block is ours");
    }
    got
}

fn stress(preset_name: &str, nr_threads: u16, options: &NativeOptions, time: Duration) {
    stress_with(&preset(preset_name).unwrap(), nr_threads, options, time);
}

fn stress_with(policy: &Policy, nr_threads: u16, options: &NativeOptions, time: Duration) {
    // Fewer CPUs than the policy's lists expect, little memory: refills, drains and failures.
    let nodes = [(96 << 20, vec![0]), (96 << 20, (1..nr_threads).collect())];
    let machine = Machine::from_sizes("stress", &nodes).unwrap();
    let native = NativeMachine::boot(&machine, policy, options).unwrap();
    let (before, policy) = (settled(&native), &policy.name);
    let end = Instant::now() + time;
    let got: u64 = std::thread::scope(|s| {
        let threads: Vec<_> = (0..nr_threads)
            .map(|n| {
                let native = &native;
                s.spawn(move || hammer(&native.enter(CpuId(n)).unwrap(), u64::from(n) + 1, end))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(got > 0, "{policy}: no block in {time:?}");
    // Blocks may have merged across pageblocks meanwhile, frames not.
    let after = settled(&native);
    assert_eq!((after.free, after.reserved), (before.free, before.reserved), "{policy}");
}

/// The audit's report after all CPUs' lists are drained: nothing may be in use.
fn settled(native: &NativeMachine) -> AuditReport {
    let task = native.enter(CpuId(0)).unwrap();
    task.drain_all();
    let report = audit::check(&native.alloc, &task.cx).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((report.used, report.pcp), (0, 0));
    assert_eq!(report.free, native.alloc.nr_free_pages());
    report
}

#[test]
fn two_threads() {
    stress("6.1", 2, &NativeOptions::default(), case_time());
}

#[test]
fn more_threads_than_cores_with_fences() {
    let options = NativeOptions { without_membarrier: true, ..NativeOptions::default() };
    stress("6.1", 5, &options, case_time());
}

#[test]
fn every_policy() {
    let time = case_time() / PRESETS.len() as u32;
    for (policy, _) in PRESETS {
        stress(policy, 3, &NativeOptions::default(), time);
    }
}

/// Per-CPU lists as those of 7.2, whose frees and daemons do more under the same locks.
#[test]
fn lists_that_tune_themselves() {
    let mut policy = preset("6.1").unwrap();
    policy.pcp.sizing = PcpSizing::Auto;
    policy.pcp.free_factor = FreeFactor::FreeCount;
    policy.pcp.high_order_free = HighOrderFree::LimitedHalfMin;
    policy.pcp.drain_portion = DrainPortion::Batch;
    policy.pcp.drain_type = DrainType::Pageblock;
    policy.pcp.highatomic_refills = false;
    stress_with(&policy, 3, &NativeOptions::default(), case_time());
}

#[test]
fn remote_drains_make_owners_step_back() {
    let machine = Machine::from_sizes("drain", &[(64 << 20, vec![0, 1])]).unwrap();
    let options = NativeOptions { lock_statistics: true, ..NativeOptions::default() };
    let native = NativeMachine::boot(&machine, &preset("6.1").unwrap(), &options).unwrap();
    let before = settled(&native);
    let end = Instant::now() + Duration::from_millis(500);
    std::thread::scope(|s| {
        s.spawn(|| {
            let task = native.enter(CpuId(0)).unwrap();
            while Instant::now() < end {
                task.drain_all();
            }
        });
        s.spawn(|| {
            let task = native.enter(CpuId(1)).unwrap();
            let mut pages = Vec::new();
            while Instant::now() < end {
                pages.extend((0..500).filter_map(|_| task.alloc(Gfp::GFP_KERNEL, Order(0))));
                pages.drain(..).for_each(|pfn| task.free(pfn, Order(0)).unwrap());
            }
        });
    });
    assert_eq!(settled(&native).free, before.free);
    let report = native.host.lock_report().unwrap();
    assert!(report.iter().all(|(_, lock)| lock.contended <= lock.takings), "{report:?}");
    for (class, lock) in report {
        let used = matches!(class, LockClass::Drain | LockClass::Pcp | LockClass::Zone);
        assert_eq!(lock.takings > 0, used, "{class:?} {lock:?}");
    }
}
