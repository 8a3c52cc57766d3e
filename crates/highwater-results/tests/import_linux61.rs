//! Import of the captured reference files, and of machines that cannot exist.

use std::path::{Path, PathBuf};

use highwater_results::import::ImportError;
use highwater_results::import::linux61::{Bar, Reference, Static, ZoneName};
use proptest::prelude::*;
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../reference/linux-6.1")
}

fn files(directory: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(root().join(directory)).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    paths
}

fn read(path: &Path) -> Reference {
    Reference::read(path).unwrap_or_else(|e| panic!("{e}"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

fn machine(name: &str) -> Static {
    match read(&root().join("static").join(name)) {
        Reference::Static(machine) => machine,
        other => panic!("{}", other.kind()),
    }
}

/// Changes one value of a file (by JSON pointer) and reads it.
fn changed(name: &str, pointer: &str, value: Value) -> Result<Reference, ImportError> {
    let mut document: Value = serde_json::from_str(&text(name)).unwrap();
    *document.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
    Reference::parse("f", serde_json::to_string_pretty(&document).unwrap().as_bytes())
}

/// Asserts that the change is refused, with the field's name and the line of the field.
fn refused(name: &str, pointer: &str, value: Value, field: &str, words: &str) {
    let error = changed(name, pointer, value).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.field(), Some(field), "{text}");
    assert!(text.starts_with("f:") && text.contains(words) && !text.contains('\n'), "{text}");
    assert!(error.line().unwrap() > 1, "{text}");
}

const NUMA: &str = "static/static-2048-2-numa2.json";
const BIG: &str = "static/static-4096-2.json";
const ZAP: &str = "scenarios/zap-2.json";
const NUMA_RUNS: &str = "numa/numa2-fileanon-zrm1.json";
const AB: &str = "ab/002-unix-stream-16384.json";
const STUTTERP: &str = "stutterp/workers-12.json";

// --- captured files ---

#[test]
fn every_captured_file_is_read_as_its_kind() {
    for (directory, kind, nr_files) in [
        ("static", "static", 12),
        ("scenarios", "scenario", 12),
        ("numa", "scenario", 11),
        ("stutterp", "stutterp", 2),
        ("storm", "storm", 3),
        ("memcg", "memcg", 42),
    ] {
        let paths = files(directory);
        assert_eq!(paths.len(), nr_files, "{directory}");
        for path in paths {
            assert_eq!(read(&path).kind(), kind, "{}", path.display());
        }
    }
    let kinds: Vec<_> = files("ab").iter().map(|path| read(path).kind()).collect();
    assert_eq!(kinds, ["ab-trace", "scenario", "scenario", "scenario", "scenario"]);
}

#[test]
fn values_of_a_static_file() {
    let machine = machine("static-2048-2-numa2.json");
    assert_eq!((machine.cpus, machine.phys_pages, machine.min_free_kbytes), (2, 503751, 67584));
    assert_eq!(machine.nodes[1].cpus, [1]);
    assert_eq!(machine.nodes[1].distances, [20, 10]);
    let zone = &machine.zones[1];
    assert_eq!((zone.node, zone.zone), (0, ZoneName::Dma32));
    assert_eq!(
        (zone.managed, zone.managed_at_boot, zone.managed_for_sizing()),
        (242524, Some(240522), 240522)
    );
    assert_eq!((zone.start_pfn, zone.end_pfn()), (4096, 262144));
    assert_eq!(
        (zone.pagesets[1].cpu, zone.pagesets[1].high, zone.pagesets[1].batch),
        (1, 10143, 63)
    );
    assert_eq!(machine.zones[0].baseline["nr_shmem"], 2890);
    assert_eq!(machine.buddyinfo[2].free_blocks[10], 243);
    assert_eq!(ZoneName::Dma32.to_string(), "DMA32");
}

#[test]
fn values_of_a_scenario_file() {
    let Reference::Scenario(zap) = read(&root().join(ZAP)) else { panic!() };
    assert_eq!((zap.scenario.as_str(), zap.params.as_slice()), ("zap", &[0.3, 2.0, 1.2][..]));
    assert_eq!(zap.runs.len(), 2);
    let labels: Vec<_> = zap.runs[0].steps.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels, ["map1", "map2", "cold", "remap"]);
    assert!(zap.nodes.is_none() && zap.policy.is_empty());
    let Reference::Scenario(rule) = read(&root().join("ab/003-zap_0.3_1_1.2-set-referenced.json"))
    else {
        panic!()
    };
    assert_eq!(rule.policy["unmap_young_file"], "set-referenced");
    assert_eq!(rule.runs[0].steps[0].counters["workingset_nodes"], -9);
    let Reference::Scenario(thp) = read(&root().join("scenarios/thp-frag-1g.json")) else {
        panic!()
    };
    assert_eq!(thp.buddyinfo.len(), 4);
}

#[test]
fn runs_of_several_nodes_have_their_own_machines() {
    let Reference::Scenario(numa) = read(&root().join(NUMA_RUNS)) else { panic!() };
    let managed = |run: usize| -> Vec<u64> {
        numa.zones_of(&numa.runs[run]).iter().map(|zone| zone.managed).collect()
    };
    assert_eq!((managed(0), managed(1)), (vec![3840, 124818, 117045], vec![3840, 113500, 128363]));
    let zones = [0, 1].map(|run| numa.zones_of(&numa.runs[run]));
    // Values recorded for another number of pages are left out.
    assert_eq!((zones[0][1].pagesets.len(), zones[1][1].pagesets.len()), (2, 0));
    assert_eq!((zones[0][0].protection[1], zones[1][0].protection.len()), (487, 0));
    assert_eq!((zones[1][2].start_pfn, zones[1][2].free), (131072, 116741));
    assert_eq!(numa.runs[0].start_nodes[1].gauges["nr_free_pages"], 108775);
    let touch = &numa.runs[0].steps[1].nodes;
    assert_eq!((touch[0].counters["numa_foreign"], touch[1].counters["numa_miss"]), (19513, 19513));
    // A node that does not exist is reported with its field.
    refused(NUMA_RUNS, "/runs/1/zones/2/node", json!(7), "runs[1].zones[2].zone", "of node 7");
    refused(NUMA_RUNS, "/runs/0/zones/1/free", json!(1 << 30), "runs[0].zones[1].free", "managed");
    refused(NUMA_RUNS, "/runs/0/start_nodes/1/id", json!(0), "runs[0].start_nodes[1].id", "twice");
    refused(
        NUMA_RUNS,
        "/runs/1/steps/2/nodes/0/id",
        json!(9),
        "runs[1].steps[2].nodes[0].id",
        "no node 9",
    );
}

#[test]
fn values_of_trace_comparison_and_stutterp() {
    let Reference::AbTrace(ab) = read(&root().join(AB)) else { panic!() };
    let uses: Vec<_> = ab.kernels.iter().map(|k| (k.policy.as_str(), k.hottest[0].uses)).collect();
    assert_eq!(uses, [("limited", 1000), ("order0-only", 6257), ("cached", 16)]);
    assert_eq!(ab.kernels[0].distinct_blocks_by_order[&2], 1421);
    assert_eq!(ab.kernels[0].events["mm_page_pcpu_drain"], 17660);
    let Reference::Stutterp(run) = read(&root().join(STUTTERP)) else { panic!() };
    assert_eq!((run.workers, run.writers, run.hogs, run.cpus), (12, 5, 6, 4));
    assert_eq!(run.runs.len(), 1);
    assert_eq!(run.runs[0].latency_ms.len(), 8);
    let bar = &run.runs[0].waits.direct[5];
    assert_eq!((bar.kind.as_str(), bar.count, bar.usec_delayed), ("ISOLATED", 24, 0));
    assert_eq!(run.runs[0].counters["pgscan_direct"], 1476123);
    let Reference::Stutterp(rerun) = read(&root().join("stutterp/workers-12-rerun.json")) else {
        panic!()
    };
    assert!(run.is_same_work(&rerun), "the two forms say the same of the same work");
    assert_eq!(rerun.runs[0].counters["pgscan_direct"], 411613);
}

/// The newer form: several runs, waits by task, and kinds of waits that only older kernels have.
#[test]
fn values_of_storms() {
    let read_storm = |kernel: &str, name: &str| {
        let path = root().join(format!("../linux-{kernel}/storm/{name}.json"));
        let Reference::Storm(storm) = read(&path) else { panic!() };
        storm
    };
    let before = read_storm("5.10", "workers-8");
    assert_eq!(
        (before.runs.len(), before.hog_bytes_each, before.room_bytes),
        (2, None, 10_485_760)
    );
    assert_eq!((before.write_bytes, before.swap_bytes), (262_144, Some(8 << 20)));
    assert_eq!(before.settings["vm.dirty_bytes"], "33554432");
    let total = |bars: &[Bar], kind: &str| -> u64 {
        bars.iter().filter(|bar| bar.kind == kind).map(|bar| bar.count).sum()
    };
    let waits = &before.runs[0].waits;
    // kswapd's waits are not counted again among those of the others.
    assert_eq!(
        (total(&waits.direct, "congestion_wait"), total(&waits.kswapd, "congestion_wait")),
        (573, 219)
    );
    assert_eq!((total(&waits.direct, "wait_iff_congested"), waits.msleep100), (19_058, Some(307)));
    let after = read_storm("6.1", "workers-8");
    let waits = &after.runs[0].waits;
    assert_eq!((total(&waits.direct, "CONGESTED"), total(&waits.kswapd, "WRITEBACK")), (9780, 293));
    assert_eq!(total(&waits.direct, "WRITEBACK"), 0);
    assert_eq!(after.runs[0].after_10_s.unwrap().pgscan_direct, 2_098_411);
    assert!(!before.is_same_work(&after), "another kernel");
    assert!(!after.is_same_work(&read_storm("6.1", "workers-4")));
    // Waits of a machine's workers are not counted as a reclaimer's.
    assert_eq!(read_storm("5.10", "workers-8-room12").runs[0].waits.msleep100, Some(329));
    assert_eq!(read_storm("6.12", "workers-8").runs.len(), 1);
}

/// Properties that every captured machine shares. The test fails if a field is read into another's
/// place.
#[test]
fn captured_machines_are_consistent() {
    for path in files("static") {
        let Reference::Static(machine) = read(&path) else { panic!() };
        let managed: u64 = machine.zones.iter().map(|z| z.managed).sum();
        assert_eq!(managed, machine.phys_pages, "{}", path.display());
        let watermarks_kb: u64 = machine.zones.iter().map(|z| z.min * 4).sum();
        assert!(watermarks_kb.abs_diff(machine.min_free_kbytes) <= 4 * machine.zones.len() as u64);
        assert!(machine.zones.iter().all(|z| z.pagesets.len() == machine.cpus as usize));
    }
}

// --- impossible machines ---

#[test]
fn machines_without_memory_or_cpus() {
    refused(NUMA, "/zones", json!([]), "zones", "without memory");
    refused(NUMA, "/phys_pages", json!(0), "phys_pages", "without memory");
    refused(NUMA, "/phys_pages", json!(9_999_999), "phys_pages", "have only");
    refused(NUMA, "/cpus", json!(0), "cpus", "between 1 and");
    refused(ZAP, "/cpus", json!(1_000_000), "cpus", "between 1 and");
    refused(STUTTERP, "/zones", json!([]), "zones", "without memory");
    let mut document: Value = serde_json::from_str(&text(NUMA)).unwrap();
    for zone in document["zones"].as_array_mut().unwrap() {
        for field in ["managed", "managed_at_boot", "free"] {
            zone[field] = json!(0);
        }
    }
    let error = Reference::parse("f", document.to_string().as_bytes()).unwrap_err();
    assert_eq!(error.field(), Some("zones"));
}

#[test]
fn zones_that_do_not_add_up() {
    refused(
        NUMA,
        "/zones/0/present",
        json!(4096),
        "zones[0].present",
        "4096 pages in a span of 4095",
    );
    refused(NUMA, "/zones/1/managed", json!(258_049), "zones[1].managed", "of 258048 present");
    refused(
        NUMA,
        "/zones/1/managed_at_boot",
        json!(258_049),
        "zones[1].managed_at_boot",
        "present",
    );
    refused(NUMA, "/zones/1/free", json!(258_049), "zones[1].free", "present");
    refused(NUMA, "/zones/1/low", json!(1), "zones[1].low", "below min");
    refused(NUMA, "/zones/1/high", json!(8200), "zones[1].high", "below low");
    refused(NUMA, "/zones/1/spanned", json!(u64::MAX), "zones[1].spanned", "beyond");
    refused(NUMA, "/zones/1/start_pfn", json!(u64::MAX), "zones[1].start_pfn", "beyond");
    refused(
        NUMA,
        "/zones/1/protection",
        json!([0, 0, 0, 0, 0, 0]),
        "zones[1].protection",
        "6 values",
    );
    refused(ZAP, "/zones/0/managed", json!(3999), "zones[0].managed", "present");
}

#[test]
fn zones_in_each_others_place() {
    refused(
        NUMA,
        "/zones/1/start_pfn",
        json!(4095),
        "zones[1].start_pfn",
        "overlaps DMA of node 0",
    );
    refused(
        NUMA,
        "/zones/2/start_pfn",
        json!(262_143),
        "zones[2].start_pfn",
        "overlaps DMA32 of node 0",
    );
    refused(BIG, "/zones/2/start_pfn", json!(1_048_575), "zones[2].start_pfn", "overlaps");
    refused(BIG, "/zones/0/start_pfn", json!(1 << 30), "zones[1].start_pfn", "wrong order");
    refused(BIG, "/zones/1/zone", json!("Normal"), "zones[2].zone", "is also zones[1]");
    // Adjacent zones are valid.
    assert!(changed(NUMA, "/zones/2/start_pfn", json!(300_000)).is_ok());
}

#[test]
fn cpus_and_nodes_that_do_not_fit() {
    refused(
        NUMA,
        "/nodes/1/cpus",
        json!([2]),
        "nodes[1].cpus[0]",
        "CPU 2 of a machine with 2 CPUs",
    );
    refused(NUMA, "/nodes/1/cpus", json!([0]), "nodes[1].cpus[0]", "already on node 0");
    refused(NUMA, "/nodes/1/cpus", json!([]), "nodes", "CPU 1 is on no node");
    refused(NUMA, "/nodes/1/id", json!(0), "nodes[1].id", "given twice");
    refused(NUMA, "/nodes/1/id", json!(4000), "nodes[1].id", "not below 1024");
    refused(NUMA, "/nodes/1/id", json!(3), "zones[2].node", "there is no node 1");
    refused(NUMA, "/zones/2/node", json!(7), "zones[2].node", "there is no node 7");
    refused(NUMA, "/nodes", json!([]), "nodes", "no node");
    refused(NUMA, "/zones/0/pagesets/1/cpu", json!(2), "zones[0].pagesets[1].cpu", "CPU 2");
    refused(NUMA, "/zones/0/pagesets/1/cpu", json!(0), "zones[0].pagesets[1].cpu", "given twice");
    // A node without CPUs is real, as long as every CPU has a node.
    let mut document: Value = serde_json::from_str(&text(NUMA)).unwrap();
    document["nodes"][0]["cpus"] = json!([0, 1]);
    document["nodes"][1]["cpus"] = json!([]);
    assert!(Reference::parse("f", document.to_string().as_bytes()).is_ok());
}

#[test]
fn distances_that_cannot_be() {
    refused(
        NUMA,
        "/nodes/0/distances",
        json!([10]),
        "nodes[0].distances",
        "1 distances for 2 nodes",
    );
    refused(NUMA, "/nodes/1/distances", json!([20, 10, 20]), "nodes[1].distances", "3 distances");
    refused(NUMA, "/nodes/1/distances", json!([10, 20]), "nodes[1].distances[1]", "always 10");
    refused(NUMA, "/nodes/0/distances/1", json!(9), "nodes[0].distances[1]", "between 10 and 254");
    refused(
        NUMA,
        "/nodes/0/distances/1",
        json!(255),
        "nodes[0].distances[1]",
        "between 10 and 254",
    );
}

#[test]
fn captures_that_contradict_themselves() {
    refused(NUMA, "/page_size", json!(65536), "page_size", "65536 is not 4096");
    refused(NUMA, "/min_free_kbytes", json!(0), "min_free_kbytes", "at least");
    refused(NUMA, "/buddyinfo/0/node", json!(1), "buddyinfo[0].zone", "not among the zones");
    refused(
        NUMA,
        "/buddyinfo/0/free_blocks/10",
        json!(4),
        "buddyinfo[0].free_blocks",
        "of 3998 present",
    );
    refused(ZAP, "/params", json!([0.3]), "params", "1 values, but zap has 3");
    refused(ZAP, "/params/0", json!(-0.3), "params[0]", "not a size");
    refused(ZAP, "/runs", json!([]), "runs", "no run");
    refused(ZAP, "/runs/0/steps", json!([]), "runs[0].steps", "no step");
    refused(ZAP, "/runs/1/steps/0/label", json!("map9"), "runs[1].steps[0].label", "first run");
    refused(ZAP, "/runs/1/steps", json!([]), "runs[1].steps", "the first run has 4");
    refused(AB, "/kernels", json!([]), "kernels", "no kernel");
    refused(AB, "/kernels/1/policy", json!("limited"), "kernels[1].policy", "given twice");
    refused(AB, "/kernels/1/hottest/0/order", json!(11), "kernels[1].hottest[0].order", "above 10");
    refused(
        AB,
        "/kernels/1/distinct_blocks_by_order",
        json!({"12": 1}),
        "kernels[1].distinct_blocks_by_order.12",
        "above 10",
    );
    refused(STUTTERP, "/workers", json!(11), "workers", "less than writers");
    refused(STUTTERP, "/seconds", json!(0), "seconds", "not a duration");
    refused(STUTTERP, "/disk_bytes_per_s", json!(0), "disk_bytes_per_s", "never answers");
    refused(STUTTERP, "/latency_ms/0", json!(-1.5), "latency_ms[0]", "not a duration");
    refused(STUTTERP, "/file_bytes_each", json!(0), "file_bytes_each", "not between a page");
    refused(
        STUTTERP,
        "/hog_bytes_each",
        json!(1_u64 << 50),
        "hog_bytes_each",
        "not between a page",
    );
    refused(STUTTERP, "/latency_bytes", json!(4095), "latency_bytes", "not between a page");
    refused(STUTTERP, "/counters", json!({}), "counters", "no counter");
    refused(
        STUTTERP,
        "/throttled/1/usec_delayed",
        json!(20_001),
        "throttled[1].usec_delayed",
        "above the timeout",
    );
    const STORM: &str = "storm/workers-8.json";
    refused(STORM, "/runs", json!([]), "runs", "no run");
    refused(STORM, "/runs/1/counters", json!({}), "runs[1].counters", "no counter");
    refused(STORM, "/room_bytes", Value::Null, "hogs", "neither");
    refused(STORM, "/write_bytes", json!(1), "write_bytes", "not between a page");
    refused(
        STORM,
        "/runs/0/events/mm_vmscan_throttled/histogram/2/usec_delayed",
        json!(100_001),
        "runs[0].events.mm_vmscan_throttled.histogram[2].usec_delayed",
        "above the timeout",
    );
}

// --- JSON of another shape ---

#[test]
fn wrong_types_and_missing_fields_name_their_path() {
    refused(
        NUMA,
        "/kind",
        json!("dynamic"),
        "kind",
        "`dynamic` is not one of static, scenario, ab-trace, stutterp, storm, memcg",
    );
    refused(NUMA, "/schema", json!(2), "schema", "2 is not 1");
    refused(NUMA, "/zones/1/present", json!(-1), "zones[1].present", "invalid value");
    refused(NUMA, "/zones/1/present", json!("many"), "zones[1].present", "invalid type");
    refused(NUMA, "/zones/1/zone", json!("Upper"), "zones[1].zone", "unknown variant `Upper`");
    refused(
        NUMA,
        "/buddyinfo/1/free_blocks",
        json!([1, 2]),
        "buddyinfo[1].free_blocks",
        "invalid length",
    );
    refused(NUMA, "/nodes/1/cpus/0", json!(1.5), "nodes[1].cpus[0]", "invalid type");
    refused(
        AB,
        "/kernels/1/distinct_blocks_by_order",
        json!({"x": 1}),
        "kernels[1].distinct_blocks_by_order.?",
        "invalid",
    );
    let mut document: Value = serde_json::from_str(&text(NUMA)).unwrap();
    document["zones"][1].as_object_mut().unwrap().remove("managed");
    let error = Reference::parse("f", document.to_string().as_bytes()).unwrap_err();
    assert_eq!(error.field(), Some("zones[1]"));
    assert!(error.to_string().contains("missing field `managed`"), "{error}");
}

#[test]
fn broken_json_names_line_and_column() {
    let whole = text(NUMA);
    for (text, line) in [
        (String::new(), 1),
        ("[]".to_owned(), 1),
        ("{\n\"schema\": 1,\n\"kind\" \"static\"}".to_owned(), 3),
        (whole[..whole.len() / 2].to_owned(), whole[..whole.len() / 2].lines().count() as u64),
        (whole.clone() + "x", whole.lines().count() as u64 + 1),
    ] {
        let error = Reference::parse("f", text.as_bytes()).unwrap_err();
        assert!(matches!(error, ImportError::Json { .. }), "{error}");
        assert!(error.line().unwrap().abs_diff(line) <= 1, "{error}");
        assert!(
            !error.to_string().contains('\n') && !error.to_string().contains(" at line "),
            "{error}"
        );
    }
    assert!(Reference::parse("f", b"\xff\xff").is_err());
    assert!(Reference::parse("f", "[".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn the_line_of_an_impossible_value_is_where_it_stands() {
    let damaged = text(NUMA).replacen("\"present\": 262106", "\"present\": 262107", 1);
    let line = damaged.lines().position(|l| l.contains("262107")).unwrap() as u64 + 1;
    let error = Reference::parse("f", damaged.as_bytes()).unwrap_err();
    assert_eq!((error.line(), error.field()), (Some(line), Some("zones[2].present")));
}

#[test]
fn unknown_fields_and_packed_files_are_read() {
    let mut document: Value = serde_json::from_str(&text(ZAP)).unwrap();
    document["remark"] = json!("later captures may say more");
    assert!(Reference::parse("f", document.to_string().as_bytes()).is_ok());
    let error = Reference::read(root().join("traces/file-read.trace.gz")).unwrap_err();
    assert!(matches!(error, ImportError::Json { line: 1, .. }), "{error}");
    assert!(Reference::read(root()).unwrap_err().to_string().contains("is a directory"));
    assert!(Reference::read("/nowhere.json").unwrap_err().to_string().contains("no such file"));
}

// --- properties ---

fn all_texts() -> Vec<String> {
    [NUMA, ZAP, AB, STUTTERP].map(text).to_vec()
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Reference::parse("f", &bytes);
    }

    #[test]
    fn damaged_files_never_panic(which in 0_usize..4, at in 0.0..1.0, cut in 0_usize..20, insert in "[ -~\n]{0,6}") {
        let mut text = all_texts()[which].clone().into_bytes();
        let start = (at * text.len() as f64) as usize;
        let end = (start + cut).min(text.len());
        text.splice(start..end, insert.bytes());
        if let Err(error) = Reference::parse("f", &text) {
            prop_assert!(!error.to_string().contains('\n'), "{}", error);
        }
    }

    /// Any accepted input is a possible machine: the checks hold whatever the numbers are.
    #[test]
    fn accepted_machines_are_possible(zone in 0_usize..3, field in 0_usize..6, value in prop_oneof![0_u64..10_000, any::<u64>()]) {
        let name = ["start_pfn", "spanned", "present", "managed", "free", "min"][field];
        if let Ok(Reference::Static(machine)) = changed(NUMA, &format!("/zones/{zone}/{name}"), json!(value)) {
            for (i, z) in machine.zones.iter().enumerate() {
                prop_assert!(z.managed <= z.present && z.present <= z.spanned && z.min <= z.low);
                for other in &machine.zones[..i] {
                    prop_assert!(z.end_pfn() <= other.start_pfn || other.end_pfn() <= z.start_pfn);
                }
            }
        }
    }
}
