//! A run that is watched comes out as one that is not.

use std::thread;

use highwater_core::config::preset;

use highwater_files::machine_file::MachineFile;
use highwater_plan::experiment::{Experiment, RunPlan};
use highwater_plan::session::Session;
use highwater_runs::watching::{Pace, TaskLine, Watcher};
use highwater_runs::workload::{Registry, Unit};

fn plan() -> RunPlan {
    let text = "name = \"x\"\ntitle = \"t\"\nworkload = \"stutterp\"\niterations = 1\n[[policy]]\nname = \
                \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"m\"\n[stutterp]\nladder = [4]\nseconds = \
                0.2\nwarm-up = 0.5\n";
    let experiment = Experiment::parse(&Registry::default(), "x.toml", text).unwrap();
    let machine = include_str!("../../highwater/tests/cli/small.toml");
    let machines = vec![MachineFile::parse("m.toml", machine).unwrap()];
    RunPlan::new(experiment, machines, vec![(preset("6.1").unwrap(), "6.1".to_owned())])
}

#[test]
fn a_run_that_is_watched_and_stopped_comes_out_the_same() {
    let plan = plan();
    let unit = Unit::of(&plan.machines[0], &plan.policies[0].0, 1);
    let alone = plan.experiment.job.run(&unit).unwrap();
    let watcher = Watcher::new(50_000_000);
    watcher.set_pace(Pace::Paused);
    let (job, shown) = (&plan.experiment.job, &watcher);
    let watched = thread::scope(|scope| {
        let run = scope.spawn(|| {
            let unit = Unit::of(&plan.machines[0], &plan.policies[0].0, 1);
            job.run(&Unit { watcher: Some(shown), ..unit }).unwrap()
        });
        let wait_for = |nr: u64| {
            while shown.frame().1 < nr {
                thread::yield_now();
            }
            shown.frame().0.unwrap()
        };
        for nr in 1..=12 {
            let frame = wait_for(nr);
            assert_eq!(frame.at_ns, nr * 50_000_000);
            let free: u64 = frame.zones.iter().map(|zone| zone.free).sum();
            assert_eq!(free, frame.counter("nr_free_pages"));
            assert!(frame.zones.iter().all(|zone| zone.marks.is_sorted()));
            let cpus: Vec<u16> = frame.tasks.iter().filter_map(|task| task.cpu).collect();
            let distinct: std::collections::BTreeSet<u16> = cpus.iter().copied().collect();
            assert_eq!(cpus.len(), distinct.len(), "{:?}", frame.tasks);
            if nr == 12 {
                let who: Vec<&str> = frame.tasks.iter().map(|task| task.name.as_str()).collect();
                assert!(who.iter().any(|name| name.starts_with("writer/")), "{who:?}");
                let is_at_rest = |task: &TaskLine| task.name == "kcompactd0" && task.is_idle;
                assert!(frame.tasks.iter().any(is_at_rest), "{:?}", frame.tasks);
                shown.set_pace(Pace::Free);
            } else {
                shown.step();
            }
        }
        run.join().unwrap()
    });
    assert_eq!((alone.digest, alone.counters), (watched.digest, watched.counters));
    assert_eq!(alone.samples, watched.samples);
}

#[test]
fn a_look_at_a_time_is_that_of_the_time() {
    let plan = plan();
    let watcher = Watcher::new(10_000_000);
    let shown = watcher.clone();
    thread::spawn(move || {
        let unit = Unit::of(&plan.machines[0], &plan.policies[0].0, 1);
        plan.experiment.job.run(&Unit { watcher: Some(&shown), ..unit })
    });
    for at_ns in [0, 95_000_000, 100_000_000, 400_000_000] {
        let frame = watcher.frame_at(at_ns, || false).unwrap();
        assert_eq!(frame.at_ns, at_ns.div_ceil(10_000_000).max(1) * 10_000_000);
    }
    assert_eq!(watcher.frame_at(u64::MAX, || true), None);
}

/// Sysctls written on the way are in force, and the same writes give the same run.
#[test]
fn a_session_is_taken_step_by_step_and_its_sysctls_change() {
    let run = |writes: &[(u64, &str)]| {
        let watcher = Watcher::new(50_000_000);
        watcher.set_pace(Pace::Paused);
        let mut session = Session::start(plan(), None, watcher).unwrap();
        let mut nr = 0;
        while let Some(frame) = session.next_frame() {
            nr += 1;
            assert_eq!(frame.at_ns, nr * 50_000_000);
            for (_, said) in writes.iter().filter(|(at, _)| *at == nr) {
                session.set(&[*said]).unwrap();
            }
            if nr == 4 && !writes.is_empty() {
                assert_eq!(frame.sysctls.swappiness, 5);
            }
        }
        assert!(nr > 10 && session.is_over());
        let over = session.set(&["vm.swappiness=1"]).unwrap_err().to_string();
        assert_eq!(over, "vm.swappiness=1: the run is over");
        session.finish().unwrap()
    };
    let plain = run(&[]);
    let writes = [(3, "vm.min_free_kbytes=8192"), (3, "vm.swappiness=5")];
    let (one, two) = (run(&writes), run(&writes));
    assert_eq!((one.digest, &one.counters), (two.digest, &two.counters));
    assert_ne!(plain.digest, one.digest);
}

#[test]
fn a_session_refuses_what_cannot_change() {
    let watcher = Watcher::new(50_000_000);
    watcher.set_pace(Pace::Paused);
    let mut session = Session::start(plan(), None, watcher).unwrap();
    let refused = |session: &Session, said: &str| session.set(&[said]).unwrap_err().to_string();
    session.next_frame().unwrap();
    let no_sysctl = refused(&session, "machine.memory=1G");
    assert!(no_sysctl.contains("only sysctls (vm.NAME) and settings of groups"), "{no_sysctl}");
    assert!(refused(&session, "vm.thp=never").contains("while the kernel runs"));
    assert!(refused(&session, "vm.swappiness=999").contains("between 0 and 200"));
    let unknown = Session::start(plan(), Some("workers-9"), Watcher::new(1_000_000_000));
    let unknown = unknown.err().unwrap().to_string();
    assert!(unknown.starts_with("--step workers-9: no such step; there are "), "{unknown}");
}

/// A task that reads a file over and over, in a group that has room for it.
const READER: &str = r#"
[[group]]
name = "web"
MAX
[[group]]
name = "batch"

[[file]]
name = "data"
size = "24M"
[[task]]
name = "reader"
group = "web"
[[task.phase]]
do = "read"
of = "data"
bytes = "64K"
pattern = "uniform"
op = "get"
times = 2000
"#;

fn reader(head: &str, max: &str) -> Session {
    let text = format!("{head}\n{READER}").replace("MAX", max);
    let experiment = Experiment::parse(&Registry::default(), "x.toml", &text).unwrap();
    let machine = include_str!("../../highwater/tests/cli/small.toml");
    let machines = vec![MachineFile::parse("m.toml", machine).unwrap()];
    let policies = vec![(preset("6.1").unwrap(), "6.1".to_owned())];
    let watcher = Watcher::new(2_000_000);
    watcher.set_pace(Pace::Paused);
    Session::start(RunPlan::new(experiment, machines, policies), None, watcher).unwrap()
}

/// A limit that is written at a look reclaims at the next charges, and the same writes give the
/// same run.
#[test]
fn a_session_writes_limits_of_groups() {
    let run = |writes: &[(u64, &str)]| {
        let mut session = reader("", "max = \"48M\"");
        let (mut nr, mut most, mut last) = (0, 0, 0);
        while let Some(frame) = session.next_frame() {
            nr += 1;
            let web = frame.groups.iter().find(|group| group.name == "web").unwrap();
            let high = writes.iter().any(|(at, _)| *at < nr).then_some(2048);
            assert_eq!((web.limits.max, web.limits.high), (Some(12_288), high));
            assert!(web.pressure.is_some());
            (most, last) = (most.max(web.current), web.current);
            for (_, said) in writes.iter().filter(|(at, _)| *at == nr) {
                session.set(&[*said]).unwrap();
                let seen = session.watcher().frame().0.unwrap();
                assert_eq!(seen.groups[0].limits.high, Some(2048));
            }
        }
        (session.finish().unwrap(), most, last)
    };
    let (plain, most, last) = run(&[]);
    assert!(most > 5000 && last > 5000, "{most} {last}");
    let writes = [(10, "group.web.high=8M")];
    let ((one, most, last), (two, ..)) = (run(&writes), run(&writes));
    assert!(most > 2500 && last < 2048 + 128, "{most} {last}");
    assert_eq!((one.digest, &one.counters), (two.digest, &two.counters));
    assert_ne!(plain.digest, one.digest);
}

#[test]
fn a_session_refuses_groups_that_are_not_there_and_writes_nothing() {
    let mut session = reader("", "max = \"48M\"");
    session.next_frame().unwrap();
    for (said, reason) in [
        ("group.wbe.high=8M", "no such group"),
        ("group.web.hihg=8M", "did you mean"),
        ("group.web.high=80%", "no share"),
        ("group.web.limit=8M", "version 1"),
        ("vm.thp=never", "while the kernel runs"),
    ] {
        let error =
            session.set(&["group.batch.high=8M", "vm.swappiness=5", said]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let frame = session.watcher().frame().0.unwrap();
    assert_eq!((frame.sysctls.swappiness, frame.groups[1].limits.high), (60, None));
    let mut of_v1 = reader("group-version = 1", "");
    of_v1.next_frame().unwrap();
    let error = of_v1.set(&["group.web.high=8M"]).unwrap_err().to_string();
    assert!(error.contains("only by a phase of the job"), "{error}");
    let mut none = Session::start(plan(), None, Watcher::new(50_000_000)).unwrap();
    none.next_frame().unwrap();
    let error = none.set(&["group.web.high=8M"]).unwrap_err().to_string();
    assert!(error.contains("group.web.high"), "{error}");
}
