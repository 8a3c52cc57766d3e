//! The `/proc` texts: readers of real ones read them.

use highwater_results::import::proc::{Buddyinfo, PageTypeInfo, Vmstat, Zoneinfo};

use super::stdout;

const TWO_NODES: [&str; 6] =
    ["--numa", "4G,cpus=0-1", "--numa", "2G,cpus=2-3", "--numa-distance", "0,1=21"];

#[test]
fn texts_are_read_like_real_ones() {
    for machine in [&["--machine", "small-vm"][..], &["--mem", "8G", "--cpus", "4"], &TWO_NODES] {
        let text = |command: &str| stdout(&[&[command], machine].concat());
        let zones = Zoneinfo::parse("zoneinfo", text("zoneinfo").as_bytes()).unwrap();
        let blocks = Buddyinfo::parse("buddyinfo", text("buddyinfo").as_bytes()).unwrap();
        let types = PageTypeInfo::parse("types", text("pagetypeinfo").as_bytes()).unwrap();
        let counters = Vmstat::parse("vmstat", text("vmstat").as_bytes()).unwrap();
        let free: u64 = zones.zones.iter().map(|z| z.free).sum();
        assert_eq!(blocks.zones.iter().map(|z| z.nr_pages()).sum::<u64>(), free);
        assert_eq!(counters.get("nr_free_pages"), Some(free));
        let of_type = |row: &highwater_results::import::proc::TypeFreeBlocks| {
            row.nr_free.iter().enumerate().map(|(o, n)| n.nr_blocks << o).sum::<u64>()
        };
        assert_eq!(types.free.iter().map(of_type).sum::<u64>(), free);
    }
}

#[test]
fn a_policy_changes_what_it_says() {
    let zoneinfo = |policy| stdout(&["zoneinfo", "--machine", "small-vm", "--policy", policy]);
    assert_eq!(zoneinfo("6.1"), zoneinfo("cached"), "they differ in drains alone");
    assert_ne!(zoneinfo("6.1"), zoneinfo("5.4"), "lists of 5.4 hold six batches");
}

#[test]
fn lists_name_what_the_other_commands_accept() {
    let text = stdout(&["list", "machines", "--format", "csv"]);
    for name in ["small-vm", "laptop", "netperf-1-socket", "netperf-2-socket"] {
        assert!(text.contains(name), "{name}");
        stdout(&["buddyinfo", "--machine", name]);
    }
    let all = stdout(&["list"]);
    for name in ["experiments", "policies", "workloads", "order0-pcp", "002-pcp-high-order"] {
        assert!(all.contains(name), "{name}");
    }
}
