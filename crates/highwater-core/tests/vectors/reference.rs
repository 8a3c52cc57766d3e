//! The freshly booted machines that a real 6.1 reported: every size exactly.

use std::path::PathBuf;

use highwater_core::config::{Machine, NodeSpec, Tunables, ZoneSpec};
use highwater_core::zone::{NodeId, ZoneType};
use serde_json::Value;

use crate::common::*;

fn files() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reference/linux-6.1/static");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect(dir).map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn number(v: &Value, key: &str) -> u64 {
    v[key].as_u64().unwrap_or_else(|| panic!("{key} in {v}"))
}

fn numbers(v: &Value, key: &str) -> Vec<u64> {
    v[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

fn zone_type(zone: &Value) -> ZoneType {
    let name = zone["zone"].as_str().unwrap();
    ZoneType::ALL.into_iter().find(|t| t.name() == name).unwrap()
}

fn machine_of(file: &Value) -> Machine {
    let nodes = file["nodes"].as_array().unwrap();
    let zones = file["zones"].as_array().unwrap();
    let spec = |node: &Value| NodeSpec {
        cpus: numbers(node, "cpus").iter().map(|&c| c as u16).collect(),
        zones: zones
            .iter()
            .filter(|z| number(z, "node") == number(node, "id"))
            .map(|z| ZoneSpec {
                zone: zone_type(z),
                start_pfn: number(z, "start_pfn"),
                spanned: number(z, "spanned"),
                present: number(z, "present"),
                managed_at_boot: number(z, "managed_at_boot"),
                managed: number(z, "managed"),
            })
            .collect(),
    };
    Machine {
        name: file["name"].as_str().unwrap().into(),
        nodes: nodes.iter().map(spec).collect(),
        distances: nodes
            .iter()
            .map(|n| numbers(n, "distances").iter().map(|&d| d as u16).collect())
            .collect(),
        tunables: Tunables::default(),
        ..Machine::default()
    }
}

#[test]
fn twelve_machines_agree_exactly() {
    let files = files();
    assert_eq!(files.len(), 12);
    for path in files {
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let machine = machine_of(&file);
        let name = machine.name.clone();
        let host = host();
        let (alloc, _) = boot_on(&host, &machine, &policy("6.1"));
        assert_eq!(alloc.min_free_kbytes(), number(&file, "min_free_kbytes"), "{name}");
        for z in file["zones"].as_array().unwrap() {
            let node = NodeId(number(z, "node") as u16);
            let zone = alloc.zone(node, zone_type(z)).unwrap();
            let at = format!("{name} node {} zone {}", node.0, zone.zone);
            let m = zone.marks();
            let want = [number(z, "min"), number(z, "low"), number(z, "high"), number(z, "boost")];
            assert_eq!([m.min, m.low, m.high, zone.boost()], want, "{at}");
            assert_eq!(zone.lowmem_reserves().to_vec(), numbers(z, "protection"), "{at}");
            assert_eq!(zone.managed(), number(z, "managed"), "{at}");
            for set in z["pagesets"].as_array().unwrap() {
                assert_eq!(u64::from(zone.pcp_high()), number(set, "high"), "{at}");
                assert_eq!(u64::from(zone.pcp_batch()), number(set, "batch"), "{at}");
                let threshold = u64::from(zone.stats.threshold());
                assert_eq!(threshold, number(set, "stat_threshold"), "{at}");
            }
        }
    }
}
