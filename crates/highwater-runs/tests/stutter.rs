//! stutter on the simulated machine: one run of mmtests' script.

use highwater_core::config::preset;
use highwater_files::machine_file::MachineFile;
use highwater_runs::workload::stutter::{Stutter, StutterParams};
use highwater_runs::workload::{Bytes, Outcome, Unit, Workload};

const NODES: &str =
    "[[node]]\nmemory = \"48M\"\ncpus = \"0-1\"\n[[node]]\nmemory = \"48M\"\ncpus = \"2-3\"\n";
const DISK: &str = "[[disk]]\nmodel = \"ssd\"\nsize = \"1G\"\nsource = \"test\"\n";

fn params() -> StutterParams {
    let grain = Bytes(64 << 10);
    StutterParams { iterations: 2, wait: 0.5, grain, block: grain, ..StutterParams::default() }
}

fn outcome(disks: &str, policy: &str) -> Outcome {
    let machine = MachineFile::parse("two.toml", &format!("{NODES}{disks}")).unwrap();
    let policy = preset(policy).unwrap();
    Stutter::run(&params(), &Unit::of(&machine, &policy, 1)).unwrap()
}

/// rules/benchmarks#stutter-script.
#[test]
fn a_run_copies_beside_a_hog() {
    let outcome = outcome(&DISK.repeat(2), "none");
    let of = |name: &str| -> Vec<f64> {
        let named = outcome.samples.iter().filter(|(operation, _)| operation == name);
        named.map(|(_, value)| *value).collect()
    };
    assert!(of("mmap").len() > 100 && of("mmap").iter().all(|&ms| ms > 0.0));
    assert_eq!((of("estimated").len(), of("parallel").len()), (1, 2));
    // An SSD takes 450 MB/s; the script counts a second more.
    let (alone, beside) = (of("estimated")[0], of("parallel")[0]);
    assert!(alone > beside && beside > 20.0, "{alone} {beside}");
    // Machines of less than 512 MiB have no huge pages; a hog of three quarters takes more than a
    // node.
    let [huge, remote] = ["huge pages local", "single pages remote"].map(|row| of(row)[0]);
    assert!(huge == 0.0 && remote > 1000.0, "{huge} {remote}");
    assert!(outcome.counters.get("pgfault") > 2 * 18_000, "each hog touches its memory");
    assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
    // The source, two copies and the calibration file were written; only part of the hogs'
    // memory was swapped.
    let machine = MachineFile::parse("two.toml", NODES).unwrap().machine;
    let file_kib = params().sizes(machine.managed_pages()).file >> 10;
    let written_kib = outcome.counters.get("pgpgout") as u64;
    assert!((3 * file_kib..4 * file_kib).contains(&written_kib), "{written_kib} {file_kib}");
}

#[test]
fn the_same_seed_is_the_same_run_and_one_disk_will_do() {
    let runs = [(); 2].map(|()| outcome(DISK, "zonelist-cache"));
    assert_eq!((runs[0].digest, &runs[0].samples), (runs[1].digest, &runs[1].samples));
}
