//! The core's requirements for every host: the same body runs on `Solo` and on threads.

use highwater_core::audit;
use highwater_core::config::{
    FreeFactor, HighOrderFree, Machine, PRESETS, PcpSizing, Policy, preset,
};
use highwater_core::host::{CpuId, Cx, Host, Lock, NS_PER_JIFFY, Solo};
use highwater_core::page::{Order, PAGE_SIZE, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{FreeError, Gfp, NoRelief, PageAllocator};
use highwater_core::sync::order::LockClass;
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::NodeId;
use highwater_native::{NativeHost, NativeMachine, NativeOptions};

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

/// Time does not go back, and a sleep takes at least the requested time.
fn time_goes_on<H: Host>(host: &H) {
    let (ns, jiffies) = (host.now_ns(), host.jiffies());
    host.yield_now();
    host.sleep_jiffies(1);
    assert!(host.now_ns() >= ns + NS_PER_JIFFY);
    assert!(host.jiffies() > jiffies);
}

/// Frames keep written bytes, if the host has data at all.
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

/// Frames in the order of allocation, and the counters afterwards: equal on every host, since
/// nothing here depends on time.
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

/// The view of a program that allocates and frees: the frames that it gets, the errors, and the
/// counters.
type Seen = (Vec<Result<Option<Pfn>, FreeError>>, Vec<u64>);

/// Blocks of many orders are allocated and freed, up, down and shuffled, singly and together. A few
/// are freed twice, with a wrong order, while another task has them, or past the lists. Now and
/// then all lists are drained. The result is equal on every host.
fn churns<H: Host>(host: &H, policy: &Policy, seed: u64) -> Seen {
    let alloc: PageAllocator<H> = boot(host, &machine(), policy).unwrap();
    let cx = Cx::new(host, CpuId(0));
    let before = alloc.nr_free_pages();
    let mut state = seed;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut seen, mut held) = (Vec::new(), Vec::<(Pfn, Order)>::new());
    for _ in 0..400 {
        let orders: [u8; 8] = [0, 0, 0, 3, 3, 1, 2, random(11) as u8];
        let order = Order(orders[random(8)]);
        let gfp = [Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE][random(2)];
        for _ in 0..random(60) {
            let pfn = alloc.alloc(&cx, &NoRelief, gfp, order, NodeId(0), None);
            held.extend(pfn.map(|pfn| (pfn, order)));
            seen.push(Ok(pfn));
        }
        match random(4) {
            0 => held.reverse(),
            1 => (1..held.len()).for_each(|i| held.swap(i, random(i + 1))),
            _ => {}
        }
        let nr = random(held.len() + 1).min(80);
        let freed = held.split_off(held.len() - nr);
        let pages: Vec<Pfn> = freed.iter().filter(|b| b.1 == Order(0)).map(|b| b.0).collect();
        let together = random(4) == 0;
        for (pfn, order) in freed {
            if together && order == Order(0) {
                continue;
            }
            let page = alloc.map.page(pfn);
            match random(40) {
                0 => seen.push(alloc.free(&cx, pfn, Order(order.0 ^ 1)).map(|()| None)),
                1 => {
                    page.get_ref();
                    seen.push(alloc.free(&cx, pfn, order).map(|()| None));
                    seen.push(alloc.free(&cx, pfn, Order(0)).map(|()| None));
                    continue;
                }
                2 => {
                    seen.push(alloc.free_past_lists(&cx, pfn, order).map(|()| None));
                    continue;
                }
                3 => {
                    seen.push(alloc.split_used(&cx, pfn, Order(0)).map(|()| None));
                    seen.push(alloc.free(&cx, pfn, order).map(|()| None));
                    let pieces = if order == Order(0) { 0..0 } else { 0..order.pages() as u32 };
                    for piece in pieces.map(|nr| pfn.add(nr)) {
                        seen.push(alloc.free(&cx, piece, Order(0)).map(|()| None));
                    }
                    continue;
                }
                _ => {}
            }
            seen.push(alloc.free(&cx, pfn, order).map(|()| None));
            match random(10) {
                0 => seen.push(alloc.free(&cx, pfn, order).map(|()| None)),
                1 => seen.push(alloc.free_list(&cx, &[pfn]).map(|()| None)),
                2 => seen.push(alloc.free_past_lists(&cx, pfn, order).map(|()| None)),
                3 => seen.push(alloc.split_used(&cx, pfn, Order(0)).map(|()| None)),
                _ => {}
            }
        }
        if together {
            seen.push(alloc.free_list(&cx, &pages).map(|()| None));
        }
        if random(20) == 0 {
            alloc.drain_all(&cx, None);
            seen.push(Ok(Some(Pfn(alloc.nr_free_pages() as u32))));
        }
    }
    for (pfn, order) in held {
        alloc.free(&cx, pfn, order).unwrap();
    }
    let report = audit::check(&alloc, &cx).unwrap();
    assert_eq!(report.used, 0);
    alloc.drain_all(&cx, None);
    assert_eq!(alloc.nr_free_pages(), before);
    (seen, VmEvent::ALL.iter().map(|&e| alloc.events.read(e)).collect())
}

/// A thread flushes its deferred frees when it leaves its CPU, and the counters report them.
#[test]
fn who_leaves_a_cpu_has_freed_its_pages() {
    let machine = NativeMachine::boot(&machine(), &policy(), &NativeOptions::default()).unwrap();
    let freed = || machine.alloc.events.read(VmEvent::Pgfree);
    let task = machine.enter(CpuId(1)).unwrap();
    let take = |order| task.alloc(Gfp::GFP_HIGHUSER_MOVABLE, order).unwrap();
    let blocks = [0, 0, 3, 0, 2].map(Order).map(|order| (take(order), order));
    for (pfn, order) in blocks {
        task.free(pfn, order).unwrap();
        assert_eq!(task.free(pfn, order), Err(FreeError::NotAllocated));
    }
    let pfn = take(Order(1));
    let before = freed();
    task.free(pfn, Order(1)).unwrap();
    assert_eq!(freed(), before, "put down");
    drop(task);
    assert_eq!(freed(), before + 2);
}

/// One CPU frees `nr` blocks and then idles. Returns the number of blocks that another CPU gets,
/// and the largest number of pages whose frees were deferred at one time.
fn leaves_to_others<H: Host>(host: &H, nr: usize) -> (usize, u64) {
    let alloc: PageAllocator<H> = boot(host, &machine(), &policy()).unwrap();
    let [other, idle] = [0, 1].map(|cpu| Cx::new(host, CpuId(cpu)));
    let take =
        |cx: &Cx<'_, H>| alloc.alloc(cx, &NoRelief, Gfp::GFP_KERNEL, Order(3), NodeId(0), None);
    let all: Vec<Pfn> = core::iter::from_fn(|| take(&idle)).collect();
    let freed = || alloc.events.read(VmEvent::Pgfree);
    let (before, mut most) = (freed(), 0);
    for (nr, &pfn) in (1..).zip(&all[..nr]) {
        alloc.free(&idle, pfn, Order(3)).unwrap();
        most = most.max(nr * Order(3).pages() - (freed() - before));
    }
    (core::iter::from_fn(|| take(&other)).count(), most)
}

/// The deferred frees of an idle CPU are bounded by its lists' limit, and other CPUs get them
/// before an allocation fails.
#[test]
fn what_an_idle_cpu_put_down_is_not_lost() {
    let high = {
        let alloc = boot(&Solo::default(), &machine(), &policy()).unwrap();
        alloc.populated_zones().map(|zone| u64::from(zone.pcp_high())).max().unwrap()
    };
    for nr in [1, 7, 40, 133, 400] {
        let host = native(&NativeOptions::default());
        let (expected, none) = leaves_to_others(&Solo::default(), nr);
        let (got, most) = leaves_to_others(&host, nr);
        assert_eq!((got, none), (expected, 0), "{nr} blocks");
        assert!(most <= high, "{most} pages were put down, high is {high}");
    }
}

/// A native free may be deferred ([`Host::DEFERS_FREES`]) without a visible effect.
#[test]
fn native_frees_are_those_of_solo_under_every_policy() {
    const { assert!(NativeHost::DEFERS_FREES && !<Solo as Host>::DEFERS_FREES) };
    // Each free of tuned lists has work to do, which no shortcut may leave out.
    let mut tuned = policy();
    tuned.pcp.sizing = PcpSizing::Auto;
    tuned.pcp.free_factor = FreeFactor::FreeCount;
    tuned.pcp.high_order_free = HighOrderFree::LimitedBatch;
    let presets = PRESETS.iter().map(|(name, _)| (*name, preset(name).unwrap()));
    for (name, policy) in presets.chain([("6.1, tuned", tuned)]) {
        for seed in 0..3 {
            let host = native(&NativeOptions::default());
            let _lease = host.enter(CpuId(0)).unwrap();
            let (expected, seen) =
                (churns(&Solo::default(), &policy, seed), churns(&host, &policy, seed));
            let first = expected.0.iter().zip(&seen.0).position(|(a, b)| a != b);
            assert_eq!(first, None, "{name}, seed {seed}: {} steps", expected.0.len());
            assert!(expected == seen, "{name}, seed {seed}: counters");
        }
    }
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
