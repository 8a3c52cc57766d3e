//! What the core may rely on, asked of every host: the same body runs on `Solo` and on threads.

use highwater_core::config::{Machine, Policy, preset};
use highwater_core::host::{CpuId, Cx, Host, Lock, NS_PER_JIFFY, Solo};
use highwater_core::page::{Order, PAGE_SIZE, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief, PageAllocator};
use highwater_core::sync::order::LockClass;
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::NodeId;
use highwater_native::{NativeHost, NativeOptions};

fn machine() -> Machine {
    Machine::from_sizes("conformance", &[(64 << 20, vec![0, 1])]).unwrap()
}

fn policy() -> Policy {
    preset("6.1").unwrap()
}

/// The contract of [`Lock`].
fn locks_exclude<H: Host>(host: &H) {
    fn check<L: Lock<u32>>(lock: &L) {
        for cpu in [CpuId(0), CpuId(1)] {
            let mut guard = lock.lock(cpu);
            *guard += 1;
            assert!(lock.try_lock(cpu).is_none(), "held");
            drop(guard);
            *lock.try_lock(cpu).expect("free") += 1;
        }
        assert_eq!(*lock.lock(CpuId(0)), 4);
    }
    check(&host.new_lock(LockClass::Zone, 0));
    check(&host.new_cpu_lock(LockClass::Pcp, CpuId(0), 0));
    check(&host.new_cpu_lock(LockClass::Pcp, CpuId(1), 0));
}

/// Time does not go back, and a sleep takes at least as long as asked for.
fn time_goes_on<H: Host>(host: &H) {
    let (ns, jiffies) = (host.now_ns(), host.jiffies());
    host.yield_now();
    host.sleep_jiffies(1);
    assert!(host.now_ns() >= ns + NS_PER_JIFFY);
    assert!(host.jiffies() > jiffies);
}

/// Frames keep what was written, if the host has data at all.
fn frames_hold_bytes<H: Host>(host: &H) {
    let pfn = Pfn(600);
    let src: Vec<u8> = (0..3 * PAGE_SIZE).map(|i| (i % 253) as u8 + 1).collect();
    host.frame_write(pfn, 0, &src);
    let mut dst = vec![7; src.len()];
    host.frame_read(pfn, 0, &mut dst);
    if !H::HAS_DATA {
        assert!(dst.iter().all(|&b| b == 7), "a host without data leaves the buffer alone");
        return;
    }
    assert!(dst == src);
    host.frame_zero(pfn.add(1), Order(0));
    let mut word = [0; 16];
    host.frame_read(pfn, PAGE_SIZE - 8, &mut word);
    assert_eq!(word[..8], src[PAGE_SIZE - 8..PAGE_SIZE]);
    assert_eq!(word[8..], [0; 8]);
    host.frame_read(pfn, 2 * PAGE_SIZE - 8, &mut word);
    assert_eq!((&word[..8], &word[8..]), (&[0; 8][..], &src[2 * PAGE_SIZE..2 * PAGE_SIZE + 8]));
}

/// Frames in the order in which they were handed out, and the counters afterwards: equal on every
/// host, since nothing here depends on time.
fn allocations<H: Host>(host: &H) -> (Vec<Pfn>, Vec<u64>) {
    let alloc: PageAllocator<H> = boot(host, &machine(), &policy()).unwrap();
    let cx = Cx::new(host, CpuId(0));
    let before = alloc.nr_free_pages();
    let mut seen = Vec::new();
    for round in 0..3u8 {
        let mut held = Vec::new();
        for i in 0..600u32 {
            let order = Order((i % 11) as u8 >> (i % 3));
            let gfp = [Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE, Gfp::GFP_ATOMIC][i as usize % 3];
            if let Some(pfn) = alloc.alloc(&cx, &NoRelief, gfp, order, NodeId(0), None) {
                held.push((pfn, order));
            }
        }
        seen.extend(held.iter().map(|&(pfn, _)| pfn));
        if round % 2 == 0 {
            held.reverse();
        }
        for (pfn, order) in held {
            alloc.free(&cx, pfn, order).unwrap();
            assert!(alloc.free(&cx, pfn, order).is_err(), "freed twice");
        }
        alloc.drain_all(&cx, None);
        assert_eq!(alloc.nr_free_pages(), before);
    }
    let events = VmEvent::ALL.iter().map(|&e| alloc.events.read(e)).collect();
    (seen, events)
}

fn conforms<H: Host>(host: &H) -> (Vec<Pfn>, Vec<u64>) {
    locks_exclude(host);
    time_goes_on(host);
    frames_hold_bytes(host);
    allocations(host)
}

fn native(options: &NativeOptions) -> NativeHost {
    NativeHost::new(machine().nr_cpus(), machine().end_pfn(), options).unwrap()
}

#[test]
fn solo_conforms() {
    conforms(&Solo::default());
}

#[test]
fn native_conforms_and_allocates_as_solo_does() {
    let expected = conforms(&Solo::default());
    let host = native(&NativeOptions::default());
    let lease = host.enter(CpuId(0)).unwrap();
    assert!(conforms(&host) == expected, "as the owner of CPU 0");
    drop(lease);
    assert!(conforms(&host) == expected, "as a stranger, through the remote path of every lock");
    let host = native(&NativeOptions { without_membarrier: true, ..NativeOptions::default() });
    let _lease = host.enter(CpuId(0)).unwrap();
    assert!(conforms(&host) == expected, "with fences");
}
