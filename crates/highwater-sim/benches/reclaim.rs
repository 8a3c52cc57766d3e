//! Cost of memory work on the simulated machine, in host time of one core: page scans, touches,
//! faults, host memory per frame, and the growth of these with the machine.
//!
//! `sizes` goes to machines of a terabyte: booting one, and touching a part of it.
//!
//! Each figure comes with a check: the kernel's counters must show the work that was timed.
//! `--quick` (and `cargo test --benches`) runs a small version, `--once` a single round of the full
//! one (to count instructions). A first name selects one group (scan, touch, memory, growth,
//! sizes), a second one a state of the scans.

#[path = "stage/mod.rs"]
mod stage;

use std::process::Command;
use std::time::Instant;

use highwater_core::vm::{Access, Backing};
use highwater_core::vmstat::{NodeStat, VmEvent};
use highwater_core::zone::NodeId;
use stage::{PAGE, RW, Stage, State, Work, boot, one_request, run, wake_kswapd_for};

/// Runs the body of a memory measurement in a separate process: size in MiB and state follow.
const CHILD: &str = "--memory-of";
/// The same for a machine of a given size: MiB of memory, and MiB to touch, follow.
const SIZED: &str = "--size-of";

/// Amounts of work.
struct Size {
    rounds: u32,
    /// Memory of the small machine.
    small_mib: u64,
    /// Machines of growing size.
    growing_mib: [u64; 3],
    /// Machine sizes for host memory per frame. At least one is so large that the fixed part of a
    /// machine does not dominate.
    frames_mib: &'static [u64],
    /// Machines of all sizes, each with the amount to touch.
    sizes_mib: &'static [(u64, u64)],
    /// Passes over mapped pages in a round.
    passes: u32,
}

const FULL: Size = Size {
    rounds: 5,
    small_mib: 512,
    growing_mib: [1 << 10, 4 << 10, 16 << 10],
    frames_mib: &[1 << 10, 4 << 10, 16 << 10],
    sizes_mib: &[
        (1 << 10, 820),
        (4 << 10, 3277),
        (16 << 10, 13_107),
        (64 << 10, 52_429),
        (256 << 10, 209_715),
        (256 << 10, 1 << 10),
        (1 << 20, 1 << 10),
    ],
    passes: 8,
};
const QUICK: Size = Size {
    rounds: 1,
    small_mib: 32,
    growing_mib: [128, 192, 256],
    frames_mib: &[256, 1 << 10],
    sizes_mib: &[(256, 128), (1 << 20, 16)],
    passes: 1,
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, mib, state] = &args[..]
        && flag == CHILD
    {
        return memory_of(mib.parse().expect("a size"), State::parse(state));
    }
    if let [flag, mib, touched] = &args[..]
        && flag == SIZED
    {
        return size_of(mib.parse().expect("a size"), touched.parse().expect("a size"));
    }
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    // `cargo bench` passes `--bench`; `cargo test --benches` does not.
    let size = match () {
        () if has("--once") => Size { rounds: 1, ..FULL },
        () if has("--quick") || !has("--bench") => QUICK,
        () => FULL,
    };
    let mut names = args.iter().filter(|arg| !arg.starts_with('-'));
    let (only, only_state) = (names.next(), names.next());
    let wanted = |group: &str| only.is_none_or(|only| only == group);
    if wanted("scan") {
        println!("{:<58} {:>9} {:>9} {:>9}", "scan loop", "M scans/s", "ns each", "scans");
        let is_wanted = |state: &State| only_state.is_none_or(|only| *only == format!("{state:?}"));
        for state in SCANNED.into_iter().filter(is_wanted) {
            scan(&size, state);
        }
    }
    if wanted("touch") {
        println!("{:<58} {:>9} {:>9}", "a program's pages", "M/s", "ns each");
        touch(&size);
    }
    if wanted("memory") {
        println!("{:<58} {:>9} {:>9}", "host memory", "B/frame", "frames");
        for &mib in size.frames_mib {
            for state in [State::Idle, State::Cache, State::Anon, State::Swapped] {
                memory(mib, state);
            }
        }
    }
    if wanted("sizes") {
        println!(
            "{:<14} {:>9} {:>9} {:>9} {:>12} {:>9} {:>9}",
            "GiB of memory", "boot, ms", "MiB", "touched", "ns a page", "MiB", "B/page"
        );
        for (mib, touched) in size.sizes_mib {
            child(&[SIZED.to_owned(), mib.to_string(), touched.to_string()]);
        }
    }
    if wanted("growth") {
        println!("{:<38} {:>9} {:>9} {:>9}", "ns per page, by MiB of memory", "", "", "");
        growth(&size);
    }
}

/// States that the scan loop is measured on.
const SCANNED: [State; 5] =
    [State::Cache, State::ActiveCache, State::MappedCache, State::Anon, State::Held];

/// Reclaim scans memory that is nearly all in one state. If pages are reclaimed at the first look,
/// kswapd takes half of them; if they stay, one request scans all of them.
fn scan(size: &Size, state: State) {
    let pages = (size.small_mib << 8) * 3 / 4;
    let (mut best, mut done) = (f64::INFINITY, Work::default());
    for _ in 0..size.rounds {
        let mut machine = boot(size.small_mib, true);
        let (ns, work) = run(&mut machine, move |stage| {
            let held = state.fill(stage, pages);
            stage.kernel.lru_add_drain_all(stage.cx);
            let before = Work::now(stage);
            let start = Instant::now();
            match state {
                State::Cache | State::ActiveCache => wake_kswapd_for(stage, pages / 2),
                _ => one_request(stage),
            }
            let ns = start.elapsed().as_nanos() as f64;
            let work = Work::now(stage).since(before);
            stage.kernel.release_pages(stage.cx, &held);
            (ns, work)
        });
        if ns / work.scans() as f64 <= best {
            (best, done) = (ns / work.scans() as f64, work);
        }
    }
    let asked = match state {
        State::Cache | State::ActiveCache => pages / 2,
        _ => pages,
    };
    // In a small machine kswapd already works while memory is filled.
    let is_small = size.small_mib < FULL.small_mib;
    assert!(
        state.is_right(asked, done) || is_small && done.scans() > 0,
        "{state:?}: {done:?} of {pages}"
    );
    let name = match state {
        State::Cache => "clean cache read once: freed",
        State::ActiveCache => "active cache: aged, then freed (two scans a page)",
        State::MappedCache => "mapped cache in use: kept",
        State::Anon => "anonymous memory in use: kept",
        _ => "cache that somebody holds: kept",
    };
    println!("{name:<58} {:>9.1} {best:>9.1} {:>9}", 1e3 / best, done.scans());
}

/// Touches of mapped pages, and faults.
fn touch(size: &Size) {
    let (rounds, passes, pages) = (size.rounds, u64::from(size.passes), size.small_mib << 7);
    let best = move |name: &str, stage: &Stage<'_, '_>, count: u64, work: &dyn Fn()| {
        let mut best = f64::INFINITY;
        for _ in 0..rounds {
            let before = [VmEvent::Pgfault, VmEvent::Pgmajfault].map(|event| stage.event(event));
            let start = Instant::now();
            work();
            best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
            let faults = stage.event(VmEvent::Pgfault) - before[0];
            let expected = match () {
                () if name.starts_with("anonymous") => count,
                () if name.starts_with("cached") => count / 16,
                () => 0,
            };
            assert_eq!(faults, expected, "{name}");
            assert_eq!(stage.event(VmEvent::Pgmajfault), before[1], "{name}");
        }
        println!("{name:<58} {:>9.1} {best:>9.1}", 1e3 / best);
    };
    run(&mut boot(size.small_mib, true), move |stage| {
        let start = stage.map(pages, RW, Backing::Anon);
        stage.touch_all(start, pages, Access::Write);
        let one = |vpn, access| {
            stage.kernel.touch(stage.cx, stage.mm, vpn, access).expect("mapped");
        };
        for (name, access) in [("read", Access::Read), ("written", Access::Write)] {
            best(&format!("mapped, {name}, one by one"), stage, passes * pages, &|| {
                (0..passes).for_each(|_| {
                    (start..start + pages as u32).for_each(|vpn| one(vpn, access));
                });
            });
            best(&format!("mapped, {name}, as a range"), stage, passes * pages, &|| {
                (0..passes).for_each(|_| stage.touch_all(start, pages, access));
            });
        }
        best("mapped, read, at random", stage, passes * pages, &|| {
            let mut state = 88_172_645_463_325_252_u64;
            for _ in 0..passes * pages {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                one(start + (state % pages) as u32, Access::Read);
            }
        });
        stage.unmap(start, pages);
        for (name, access) in [("zero page", Access::Read), ("written", Access::Write)] {
            best(&format!("anonymous, {name}: fault and unmap"), stage, pages, &|| {
                let start = stage.map(pages, RW, Backing::Anon);
                stage.touch_all(start, pages, access);
                stage.unmap(start, pages);
            });
        }
        let open = stage.file(pages);
        stage.read(&open, pages);
        best("cached file: fault around and unmap", stage, pages, &|| {
            let start = stage.map_file(&open, pages);
            stage.touch_all(start, pages, Access::Read);
            stage.unmap(start, pages);
        });
    });
}

/// Resident bytes of this process without its program text; `None` on systems that do not report
/// it.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, of_files) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some((resident - of_files) * PAGE)
}

/// Host memory per frame of a machine in a state, measured in a separate process: memory freed
/// earlier would hide it.
fn memory(mib: u64, state: State) {
    child(&[CHILD.to_owned(), mib.to_string(), format!("{state:?}")]);
}

fn child(args: &[String]) {
    let exe = std::env::current_exe().expect("this program");
    let child = Command::new(exe).args(args).status().expect("it starts");
    assert!(child.success(), "{args:?}");
}

/// Boots a machine; a program writes `touched_mib` of memory, once.
fn size_of(mib: u64, touched_mib: u64) {
    let before = resident_bytes().unwrap_or(0);
    let start = Instant::now();
    let mut machine = boot(mib, false);
    let boot_ms = start.elapsed().as_secs_f64() * 1e3;
    let booted = resident_bytes().unwrap_or(0) - before;
    let pages = touched_mib << 8;
    let (ns, after) = run(&mut machine, move |stage| {
        let start = Instant::now();
        let first = stage.map(pages, RW, Backing::Anon);
        stage.touch_all(first, pages, Access::Write);
        let ns = start.elapsed().as_nanos() as f64 / pages as f64;
        let stats = &stage.kernel.mem.node(NodeId(0)).stats;
        assert!(stats.read(NodeStat::AnonPages as usize) > pages - 1024, "pages are there");
        (ns, resident_bytes().unwrap_or(0) - before)
    });
    let in_mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{:<14} {boot_ms:>9.1} {:>9.1} {touched_mib:>9} {ns:>12.1} {:>9.1} {:>9.1}",
        mib as f64 / 1024.0,
        in_mib(booted),
        in_mib(after),
        (after - booted) as f64 / pages as f64
    );
    // Unused memory is never touched.
    assert!(booted < 64 << 20 || before == 0, "{booted} bytes after booting {mib} MiB");
}

fn memory_of(mib: u64, state: State) {
    let frames = mib << 8;
    let Some(before) = resident_bytes() else {
        return println!("{state:?}: this system does not say how much memory a process has");
    };
    let mut machine = boot(mib, state == State::Swapped);
    let after = run(&mut machine, move |stage| {
        // The kernel takes much of a small machine.
        let pages = match state {
            _ if mib < 1024 => frames / 2,
            // More than fits: reclaim keeps memory full.
            State::Cache => frames,
            State::Swapped => frames * 4 / 5,
            _ => frames * 7 / 8,
        };
        state.fill(stage, pages);
        let stats = &stage.kernel.mem.node(NodeId(0)).stats;
        let filled = match state {
            State::Idle => frames,
            State::Cache => stats.read(NodeStat::FilePages as usize),
            _ => stats.read(NodeStat::AnonPages as usize),
        };
        assert!(filled >= pages * 5 / 6, "{state:?}: {filled} of {frames}");
        resident_bytes()
    });
    let bytes = (after.expect("as before") - before) as f64 / frames as f64;
    let name = match state {
        State::Idle => "a machine that booted",
        State::Cache => "full of page cache",
        State::Anon => "seven eighths anonymous memory",
        _ => "1.2 times memory of anonymous pages, swap of twice memory",
    };
    println!("{name:<58} {bytes:>9.1} {frames:>9}");
    // The fixed part dominates a small machine: stacks, tables.
    assert!(mib < 1024 || bytes <= 48.0, "{bytes} bytes a frame");
}

/// The same work per page on machines of all sizes: booting; a file of 1.2 times the memory, read
/// once and then again; anonymous memory of the same size, written once and then again.
fn growth(size: &Size) {
    let mut rows = [
        ("boot", Vec::new()),
        ("a stream: read, cached, reclaimed", Vec::new()),
        ("the same, everything refaults", Vec::new()),
        ("anonymous: faulted, swapped out", Vec::new()),
        ("the same, everything swapped in", Vec::new()),
    ];
    for mib in size.growing_mib {
        let frames = mib << 8;
        let start = Instant::now();
        let mut machine = boot(mib, true);
        rows[0].1.push(start.elapsed().as_nanos() as f64 / frames as f64);
        let pages = frames * 6 / 5;
        let times = run(&mut machine, move |stage| {
            let timed = |work: &dyn Fn()| {
                let before = Work::now(stage);
                let start = Instant::now();
                work();
                let ns = start.elapsed().as_nanos() as f64 / pages as f64;
                let stolen = Work::now(stage).since(before).stolen;
                assert!(stolen > frames / 10, "{stolen} of {frames}");
                ns
            };
            let open = stage.file(pages);
            let stream = [(); 2].map(|()| timed(&|| stage.read(&open, pages)));
            let stats = &stage.kernel.mem.node(NodeId(0)).stats;
            assert!(stats.read(NodeStat::WorkingsetRefaultFile as usize) > frames / 2);
            stage.kernel.delete_file(stage.cx, &open.file);
            let start = stage.map(pages, RW, Backing::Anon);
            let anon = [(); 2].map(|()| timed(&|| stage.touch_all(start, pages, Access::Write)));
            assert!(stage.event(VmEvent::Pswpin) > frames / 10);
            [stream, anon].concat()
        });
        for (row, ns) in rows[1..].iter_mut().zip(times) {
            row.1.push(ns);
        }
    }
    print!("{:<38}", "");
    size.growing_mib.iter().for_each(|mib| print!(" {mib:>9}"));
    println!();
    for (name, ns) in rows {
        print!("{name:<38}");
        ns.iter().for_each(|ns| print!(" {ns:>9.1}"));
        println!();
    }
}
