//! The model's own events, written down as a trace and replayed: the replay has to find the state
//! the recording started from and do the same again, for traces of kernels with other rules too.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use highwater::policy_file::{self, OwnPolicy};
use highwater::replay::{self, EventKind, UseSidecars};
use highwater_core::config::{Answers, Machine, Policy};
use highwater_core::host::{CpuId, Cx, EventSink, Solo};
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief, PageAllocator};
use highwater_core::proc;
use highwater_core::trace::{Event, Kind};
use highwater_core::zone::NodeId;
use highwater_results::import::kmem::{KmemKind, KmemReader};

/// Writes events as ftrace prints them.
#[derive(Default)]
struct Recorder {
    is_on: Cell<bool>,
    nr_events: Cell<u64>,
    text: RefCell<String>,
}

impl EventSink for Recorder {
    fn event(&self, cpu: CpuId, event: &Event) {
        if !self.is_on.get() {
            return;
        }
        let n = self.nr_events.get();
        self.nr_events.set(n + 1);
        let (s, us) = (n / 1_000_000, n % 1_000_000);
        let event = event.to_string().replacen(": ", ": page=1 ", 1);
        writeln!(self.text.borrow_mut(), "  task-7   [{:03}] ..... {s}.{us:06}: {event}", cpu.0)
            .expect("strings take everything");
    }
}

type Memory = PageAllocator<Solo<Recorder>>;

/// Blocks sent from one CPU to another, with page cache filled and dropped beside it.
struct Work<'a> {
    memory: &'a Memory,
    cpus: [Cx<'a, Solo<Recorder>>; 2],
    queue: VecDeque<Pfn>,
    cache: Vec<Pfn>,
    random: u64,
}

impl Work<'_> {
    fn alloc(&self, cpu: usize, gfp: Gfp, order: u8) -> Pfn {
        let cx = &self.cpus[cpu];
        let page = self.memory.alloc(cx, &NoRelief, gfp, Order(order), NodeId(0), None);
        page.expect("the machine is large enough")
    }

    /// xorshift64.
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn run(&mut self, rounds: u64) {
        for _ in 0..rounds {
            for _ in 0..=self.draw(4) {
                self.queue.push_back(self.alloc(0, Gfp::GFP_KERNEL | Gfp::COMP, 2));
            }
            for _ in 0..=self.draw(5) {
                if let Some(block) = self.queue.pop_front() {
                    self.memory.free(&self.cpus[1], block, Order(2)).expect("it is in use");
                }
            }
            if self.draw(3) == 0 {
                let cpu = self.draw(2) as usize;
                self.cache.push(self.alloc(cpu, Gfp::GFP_HIGHUSER_MOVABLE, 0));
            }
            if self.cache.len() > 600 {
                let dropped: Vec<Pfn> = self.cache.drain(..400).collect();
                let cpu = self.draw(2) as usize;
                for pages in dropped.chunks(15) {
                    self.memory.free_list(&self.cpus[cpu], pages).expect("they are in use");
                }
            }
        }
    }
}

/// Records the work under a policy, after a warm-up; the `/proc` texts go beside the trace.
fn record(dir: &Path, policy: &Policy) -> std::path::PathBuf {
    let host = Solo::new(Recorder::default());
    let machine = Machine::from_sizes("recorded", &[(1 << 30, vec![0, 1])]).unwrap();
    let memory = boot(&host, &machine, policy).unwrap();
    let cpus = [Cx::new(&host, CpuId(0)), Cx::new(&host, CpuId(1))];
    let (queue, cache) = (VecDeque::new(), Vec::new());
    let mut work = Work { memory: &memory, cpus, queue, cache, random: 0x9e37_79b9 };
    work.run(1500);
    let (mut zoneinfo, mut types) = (String::new(), String::new());
    proc::zoneinfo(&mut zoneinfo, &memory, CpuId(0), |_| false).unwrap();
    proc::pagetypeinfo(&mut types, &memory, CpuId(0)).unwrap();
    std::fs::write(dir.join("x.zoneinfo"), zoneinfo).unwrap();
    std::fs::write(dir.join("x.pagetypeinfo"), types).unwrap();
    host.sink().is_on.set(true);
    work.run(12_000);
    let path = dir.join("x.trace");
    std::fs::write(&path, host.sink().text.take()).unwrap();
    path
}

#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn a_recording_is_replayed_as_it_was() {
    for name in ["6.1", "cached", "order0-pcp", "5.17", "5.18", "5.4"] {
        let policy = policy_file::load(name).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let trace = record(dir.path(), &policy);
        for sidecars in [UseSidecars::Yes, UseSidecars::No] {
            let report =
                replay::run(&trace, std::slice::from_ref(&policy), None, sidecars).unwrap();
            let (real, replayed) = (&report.survey.tally, &report.replays[0]);
            assert_eq!((replayed.nr_failed, replayed.nr_frees_unknown), (0, 0), "{name}");
            for kind in [EventKind::ZoneLocked, EventKind::PcpuDrain] {
                let (real, model) = (real.total(kind), replayed.tally.total(kind));
                let limit = (real / 20).max(64);
                assert!(
                    real.abs_diff(model) <= limit,
                    "{name}, {sidecars:?}, {}: recorded {real}, replayed {model}",
                    kind.name()
                );
            }
            let (real, model) = (real.hottest_uses(), replayed.tally.hottest_uses());
            assert!(
                real.max(model) * 2 <= real.min(model) * 3,
                "{name}, {sidecars:?}: hottest block recorded {real}, replayed {model}"
            );
        }
    }
}

/// The event that a line of a trace tells of.
fn event_of(line: KmemKind) -> Event {
    let frame = |pfn: u64| Pfn(pfn.try_into().expect("frames of ours fit"));
    let migratetype = |index: u8| MigrateType::from_index(index.into());
    match line {
        KmemKind::Alloc { pfn, order, migratetype: kind, gfp } => Event::PageAlloc {
            pfn: Some(frame(pfn)),
            order: Order(order),
            gfp: Gfp::from_bits_retain(gfp),
            migratetype: migratetype(kind),
        },
        KmemKind::AllocFailed { order, migratetype: kind, gfp } => Event::PageAlloc {
            pfn: None,
            order: Order(order),
            gfp: Gfp::from_bits_retain(gfp),
            migratetype: migratetype(kind),
        },
        KmemKind::Free { pfn, order } => Event::PageFree { pfn: frame(pfn), order: Order(order) },
        KmemKind::FreeBatched { pfn } => Event::PageFreeBatched { pfn: frame(pfn) },
        KmemKind::ZoneLocked { pfn, order, migratetype: kind, percpu_refill } => {
            Event::PageAllocZoneLocked {
                pfn: frame(pfn),
                order: Order(order),
                migratetype: migratetype(kind),
                percpu_refill: percpu_refill.expect("the text says so"),
            }
        }
        KmemKind::PcpuDrain { pfn, order, migratetype: kind } => Event::PagePcpuDrain {
            pfn: frame(pfn),
            order: Order(order),
            migratetype: migratetype(kind),
        },
        KmemKind::ExtFrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership,
        } => Event::PageAllocExtfrag {
            pfn: frame(pfn),
            alloc_order: Order(alloc_order),
            fallback_order: Order(fallback_order),
            alloc_migratetype: migratetype(alloc_migratetype),
            fallback_migratetype: migratetype(fallback_migratetype),
            change_ownership,
        },
    }
}

#[test]
fn the_allocators_events_are_read_back_from_their_text() {
    let is_read = |kind: &Kind| kind.tracepoint().system == "kmem";
    let recorder = Recorder::default();
    recorder.is_on.set(true);
    let mut n = 0u64;
    let mut events = Vec::new();
    for _ in 0..500 {
        for kind in Kind::ALL.iter().copied().filter(is_read) {
            let event = kind.example(|| {
                n += 1;
                n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
            });
            recorder.event(CpuId(0), &event);
            events.push(event);
        }
    }
    let text = recorder.text.take();
    let lines = KmemReader::from_reader("ours", Cursor::new(text)).expect("it is a trace");
    let read: Vec<Event> =
        lines.map(|line| event_of(line.expect("every line is understood").kind)).collect();
    assert_eq!(read, events);
}

/// Policies of a program are known by name, files stand on them, and results name their code.
#[test]
fn a_program_brings_policies() {
    struct Usual;
    impl Answers for Usual {}
    const CALM: OwnPolicy = OwnPolicy {
        name: "calm",
        about: "6.1 without boosts, with code that changes nothing",
        base: "6.1",
        set: |policy| policy.watermark.boost = false,
        answers: Some(|| Box::new(Usual)),
    };
    let error = |own: OwnPolicy| policy_file::bring(&[own]).unwrap_err().to_string();
    assert_eq!(
        error(OwnPolicy { name: "6.1", ..CALM }),
        "6.1: a policy of this name comes with Highwater"
    );
    let nobase = error(OwnPolicy { base: "6.11", ..CALM });
    assert!(
        nobase.starts_with("calm: base: Linux 6.11 is not modelled; nearest: 6.1 before it, "),
        "{nobase}"
    );
    policy_file::bring(&[CALM]).unwrap();
    assert!(error(CALM).contains("brings its own once"));

    let calm = policy_file::load("calm").unwrap();
    assert!(policy_file::all().iter().any(|(name, about)| name == "calm" && about == CALM.about));
    assert_eq!((calm.own.name(), calm.watermark.boost), (Some("calm"), false));
    let text = policy_file::to_toml(&calm);
    assert!(text.contains("own = \"calm\""), "{text}");
    assert_eq!(policy_file::parse("calm", &text).unwrap(), calm);
    let upon =
        policy_file::parse("x.toml", "base = \"calm\"\n[watermark]\nboost = true\n").unwrap();
    assert_eq!((upon.own.name(), upon.watermark.boost), (Some("calm"), true));
    let unknown = policy_file::parse("x.toml", "base = \"6.1\"\nown = \"clam\"\n").unwrap_err();
    let reason = "code of another program: run this with the program that has it";
    assert_eq!(unknown.to_string(), format!("x.toml:2: own: clam: {reason}"));
}
