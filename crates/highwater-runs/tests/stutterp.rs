//! A step of stutterp on the simulated machine.

use highwater_core::config::preset;
use highwater_files::machine_file::MachineFile;
use highwater_runs::workload::storage::Storage;
use highwater_runs::workload::stutterp::{StutterpParams, run_on};
use highwater_runs::workload::{Bytes, RunError, Unit};
use highwater_sim::disk::{FaultySpec, PerDirection};

const MACHINE: &str = r#"
    name = "tiny"
    [[node]]
    memory = "48M"
    cpus = "0-1"
"#;

#[test]
fn a_worker_that_fails_fails_the_run_and_the_others_end() {
    let machine = MachineFile::parse("tiny.toml", MACHINE).unwrap();
    let policy = preset("events-5.16").unwrap();
    let unit = Unit::of(&machine, &policy, 1);
    let params = StutterpParams {
        ladder: vec![4],
        seconds: 2.0,
        warm_up: 0.2,
        readers: 1,
        reader_files: 2,
        block: Bytes(16 << 10),
        grain: Bytes(16 << 10),
        ..StutterpParams::default()
    };
    let memory_pages = 48 << 8;
    let mut disk = Storage::of(&unit, 4 * memory_pages, 2 * memory_pages, "files").unwrap();
    let errors = PerDirection { read: 1.0, write: 0.0 };
    disk.disks[0].faults = Some(FaultySpec { errors, ..FaultySpec::default() });
    // The reader's first read, or an earlier write of a hog.
    let error = run_on(disk, &params, &unit, 4).unwrap_err();
    assert!(matches!(error, RunError::Workload { workload: "stutterp", .. }), "{error}");
}
