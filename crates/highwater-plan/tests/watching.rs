//! A run that is watched comes out as one that is not.

use std::thread;

use highwater_core::config::preset;

use highwater_files::machine_file::MachineFile;
use highwater_plan::experiment::{Experiment, RunPlan};
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
