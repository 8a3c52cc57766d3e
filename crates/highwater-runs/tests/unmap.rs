//! unmap on the simulated machine.

use highwater_core::config::preset;
use highwater_files::machine_file::MachineFile;
use highwater_runs::workload::unmap::{Unmap, UnmapParams};
use highwater_runs::workload::{Unit, Workload};

/// Reads of the second part take as long as the disk that the machine's file names lets them.
#[test]
fn files_are_on_the_machines_own_disk() {
    let remap_ms = |model: &str| {
        let text = format!(
            "[[node]]\nmemory = \"64M\"\ncpus = \"0\"\n\
             [[disk]]\nmodel = \"{model}\"\nsize = \"256M\"\nsource = \"test\"\n"
        );
        let machine = MachineFile::parse("m.toml", &text).unwrap();
        let policy = preset("set-referenced").unwrap();
        let unit = Unit::of(&machine, &policy, 1);
        let params = UnmapParams { processes: vec![1], rounds: 1, ..UnmapParams::default() };
        let outcome = Unmap::run(&params, &unit).unwrap();
        assert_eq!(outcome.notes, Vec::<String>::new());
        let remap = outcome.samples.iter().find(|(name, _)| name == "remap");
        remap.expect("it was read again").1
    };
    let (hdd, nvme) = (remap_ms("hdd"), remap_ms("nvme"));
    assert!(hdd > 4.0 * nvme, "{hdd} {nvme}");
}
