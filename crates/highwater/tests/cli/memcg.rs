//! Check of memory cgroups: captured scripts, kills exactly, what cannot be judged.

use super::{highwater, json, root, stdout};

const MEMCG: &str = "reference/linux-6.1/memcg";

#[test]
fn scripts_in_memory_cgroups_that_a_real_kernel_ran() {
    let file = |name: &str| format!("{MEMCG}/{name}.json");
    let (oom, stock) = (file("oom-single"), file("stock-stats"));
    let text = stdout(&["check", &oom, &stock, "--min-agreement", "99"]);
    assert!(text.contains("oom-single.json: memcg: "), "{text}");
    for line in
        ["over a: memory.events max: Linux 35, model 35: agrees", "t1 a: memory.current: Linux 64"]
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("DIFFERS"), "{text}");
    // A kill must be exact: it needs no line if it agrees, and it is compared.
    let report = json(&["check", &oom, "--format", "json"]);
    let figures = report["files"][0]["figures"].as_array().unwrap();
    let kill = figures.iter().find(|figure| figure["field"] == "over a: memory.events oom_kill");
    assert_eq!((&kill.unwrap()["real"], &kill.unwrap()["limit"]), (&"1".into(), &"exact".into()));
}

/// 1 MiB in the buffers of a connection whose ends are both the worker's.
#[test]
fn buffers_of_sockets_are_charged() {
    let text = stdout(&["check", &format!("{MEMCG}/sock-tcp.json"), "--min-agreement", "100"]);
    for line in [
        "sent a: sock: Linux 277, model 276: agrees",
        "sent a: memory.current: Linux 320, model 320",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// Where stalls are sleeps for `memory.high`, pressure is real time; elsewhere it is the
/// emulator's.
#[test]
fn pressure_is_judged_where_it_is_sleep() {
    let file = |name: &str| format!("{MEMCG}/{name}.json");
    let slept = ["high-noswap", "high-max-noswap", "swaphigh"].map(file);
    for file in &slept {
        let report = json(&["check", file, "--format", "json"]);
        let figures = report["files"][0]["figures"].as_array().unwrap();
        let is_pressure = |figure: &&serde_json::Value| {
            figure["field"].as_str().unwrap().contains("a: memory.pressure ")
        };
        let pressure: Vec<_> = figures.iter().filter(is_pressure).collect();
        assert_eq!(pressure.len(), 2, "{file}: some and full of one step");
        assert!(pressure.iter().all(|figure| figure["agrees"] == true), "{file}: {pressure:?}");
    }
    let reclaimed = stdout(&["check", &file("high-file")]);
    assert!(!reclaimed.contains("memory.pressure"), "{reclaimed}");
}

/// From 6.12 on reclaim goes by statistics of up to two seconds ago, so an operation has to take as
/// long as it took on Linux. The first cold read of this script begins when the active list is the
/// longer one by the statistics. In 0.7 s nothing corrects them, in 7 s they are corrected before
/// anything is reclaimed.
#[test]
fn an_operation_takes_as_long_as_on_linux() {
    const STEP: &str = "cold1";
    let deactivated = |kernel: &str, times: f64| {
        let path = root().join(format!("reference/linux-{kernel}/memcg/hotcold-0.3.json"));
        let text = std::fs::read_to_string(path).unwrap();
        let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
        for run in file["runs"].as_array_mut().unwrap() {
            let steps = run["steps"].as_array_mut().unwrap();
            let step = steps.iter_mut().find(|step| step["label"] == STEP).unwrap();
            for (of, time) in [("ops", "worker_s"), ("ops", "elapsed_s"), ("", "elapsed_s")] {
                let place = if of.is_empty() { &mut *step } else { &mut step[of][0] };
                place[time] = (place[time].as_f64().unwrap() * times).into();
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slower.json");
        std::fs::write(&path, file.to_string()).unwrap();
        let report = highwater(&["check", path.to_str().unwrap(), "--format", "json"]);
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        let figures = report["files"][0]["figures"].as_array().unwrap();
        let field = format!("{STEP} pgdeactivate");
        let figure = figures.iter().find(|figure| figure["field"] == field.as_str());
        figure.map_or(0, |figure| figure["model"].as_str().unwrap().parse().unwrap())
    };
    let (fast, slow) = (deactivated("6.12", 1.0), deactivated("6.12", 10.0));
    assert!(fast > 1000 && slow == 0, "{fast} {slow}");
    assert_eq!(deactivated("6.1", 1.0), deactivated("6.1", 10.0), "6.1 is not paced");
}

#[test]
fn what_is_not_modelled_is_not_judged() {
    let text = std::fs::read_to_string(root().join(MEMCG).join("cyclic-0.8.json")).unwrap();
    let good: serde_json::Value = serde_json::from_str(&text).unwrap();
    let checked = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = good.clone();
        change(&mut changed);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("changed.json");
        std::fs::write(&path, changed.to_string()).unwrap();
        highwater(&["check", path.to_str().unwrap()])
    };
    let said = |output: &std::process::Output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    // Only the first step has an operation that is not modelled.
    let negative = checked(&|file| {
        let first = file["script"]
            .as_array()
            .unwrap()
            .iter()
            .position(|op| op.as_str().is_some_and(|op| op.starts_with("w rd ")));
        file["script"][first.unwrap()] = "w neg d 10".into();
    });
    assert_eq!(negative.status.code(), Some(1), "nothing was checked");
    assert!(said(&negative).contains("negative dentries"), "{}", said(&negative));
    let kernel = checked(&|file| file["kernel"] = "Linux 2.6 (old)".into());
    assert!(said(&kernel).contains("no policy for the kernel"), "{}", said(&kernel));
    let wrong = checked(&|file| file["script"][1] = "grupo a".into());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        said(&wrong).contains("script[1]") && said(&wrong).contains("grupo"),
        "{}",
        said(&wrong)
    );
}
