//! pagealloc on both hosts.

use highwater_core::config::preset;
use highwater_files::machine_file::MachineFile;
use highwater_runs::workload::pagealloc::{PageAlloc, PageAllocParams};
use highwater_runs::workload::{HostKind, Outcome, RunError, Unit, Workload};

const MACHINE: &str =
    "[[node]]\nmemory = \"64M\"\ncpus = \"0\"\n[[node]]\nmemory = \"64M\"\ncpus = \"1\"\n";

fn run(policy: &str, host: HostKind, params: &PageAllocParams) -> Result<Outcome, RunError> {
    let machine = MachineFile::parse("two.toml", MACHINE).unwrap();
    let policy = preset(policy).unwrap();
    PageAlloc::run(params, &Unit { host, ..Unit::of(&machine, &policy, 1) })
}

/// Study 000: while no zone is full, the zonelist cache costs nothing and saves nothing.
#[test]
fn a_zonelist_cache_costs_nothing_where_no_zone_is_full() {
    let params = PageAllocParams { rounds: 3, ..PageAllocParams::default() };
    let of = |policy: &str| run(policy, HostKind::Sim, &params).unwrap().samples;
    let (before, after) = (of("zonelist-cache"), of("none"));
    assert_eq!(before.len(), 2 * 5 * 6);
    assert!(before.iter().all(|(_, ns)| *ns > 0.0));
    assert_eq!(before, after);
}

#[test]
fn both_hosts_measure_the_same_operations() {
    let params = PageAllocParams { rounds: 1, ..PageAllocParams::default() };
    let names = |host| {
        let samples = run("6.1", host, &params).unwrap().samples;
        samples.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(HostKind::Sim), names(HostKind::Native));
}

#[test]
fn what_does_not_fit_is_said() {
    let params = PageAllocParams { orders: vec![10], batches: vec![64], rounds: 1 };
    let error = run("6.1", HostKind::Sim, &params).unwrap_err().to_string();
    assert!(error.starts_with("pagealloc: ") && error.contains("of order 10 failed"), "{error}");
}
