//! Texts of other people's machines, as they are posted: what the model makes of them (`posted/`, shortened).

use std::fs;
use std::path::Path;

use super::{highwater, json, root, stdout};

const POSTED: &str = "crates/highwater/tests/cli/posted";

/// The one line of a command that cannot do what it was asked.
fn complaint(args: &[&str]) -> String {
    let output = highwater(args);
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    errors
}

fn trace(name: &str) -> String {
    format!("{POSTED}/{name}")
}

/// A trace of lines at CPU 0, in a directory with files of its stem.
fn write_trace(dir: &Path, lines: &[&str], beside: &[(&str, &str)]) -> String {
    let text: String =
        (0..).zip(lines).map(|(i, line)| format!("t-1 [000] ..... 1.{i:06}: {line}\n")).collect();
    for (extension, text) in beside {
        fs::write(dir.join(format!("x.{extension}")), text).unwrap();
    }
    let path = dir.join("x.trace");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The only block of order 9 is HighAtomic: a request that may not dip into reserves does not get it.
#[test]
fn blocks_that_are_set_aside_start_so() {
    let of = trace("highatomic-only/t.trace");
    let report = json(&["replay", &of, "--format", "json"]);
    let model = &report["policies"][0];
    assert_eq!((&model["failed"], &model["unplaced_free_pages"]), (&1.into(), &0.into()));
    let by_type = &model["start"][0]["free_blocks_by_type"];
    assert_eq!((&by_type["HighAtomic"][9], &by_type["Movable"][9]), (&1.into(), &0.into()));
    // RESERVE of old kernels is such a reserve; CMA and isolated blocks are nobody's.
    let dir = tempfile::tempdir().unwrap();
    let read = |end: &str| {
        fs::read_to_string(root().join(trace("highatomic-only/t.")).with_extension(end))
    };
    let (zones, types) = (read("zoneinfo").unwrap(), read("pagetypeinfo").unwrap());
    let request =
        ["mm_page_alloc: page=1 pfn=0x101000 order=9 migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE"];
    for (name, slot) in
        [("   Reserve", "HighAtomic"), ("       CMA", "Isolate"), ("   Isolate", "Isolate")]
    {
        let types = match name.trim() {
            "Isolate" => types.replace("HighAtomic", "      Keep").replace("Isolate", "HighAtomic"),
            _ => types.clone(),
        };
        let types = match name.trim() {
            // Blocks trade places.
            "Isolate" => types.replace("HighAtomic", "Reserve").replace("      Keep", "   Isolate"),
            _ => types.replace("HighAtomic", name),
        };
        let of =
            write_trace(dir.path(), &request, &[("zoneinfo", &zones), ("pagetypeinfo", &types)]);
        let report = json(&["replay", &of, "--format", "json"]);
        let model = &report["policies"][0];
        assert_eq!(model["start"][0]["free_blocks_by_type"][slot][9], 1, "{name}: {types}");
        assert_eq!(model["failed"], 1, "{name}");
        let said = report["warnings"].to_string().contains("512 pages are free in CMA");
        assert_eq!(said, name.trim() == "CMA", "{report}");
    }
}

/// A request that failed in reality is put to the model, which says why it fails there, or that it has a block.
#[test]
fn what_failed_in_the_trace_is_asked_again() {
    let of = trace("failed-request/l05.trace");
    let report = json(&["replay", &of, "--format", "json"]);
    let model = &report["policies"][0];
    assert_eq!(model["failed_in_trace"], serde_json::json!({"refused": 1, "served": 0}));
    assert_eq!(model["tally"]["events"]["mm_page_alloc failed"], 1);
    let text = stdout(&["replay", &of]);
    let why = "# failed in the trace: 6.1 refuses 1 of 1, too; the first, of order 6";
    assert!(text.contains(why) && text.contains("(fragmentation)"), "{text}");
    let dir = tempfile::tempdir().unwrap();
    let lines = ["mm_page_alloc: page=(null) pfn=0 order=3 migratetype=0 gfp_flags=GFP_KERNEL"];
    let of = write_trace(dir.path(), &lines, &[]);
    let text = stdout(&["replay", &of, "--mem", "1G"]);
    assert!(
        text.contains("6.1 would have served 1 of 1; the first, of order 3 (GFP_KERNEL)"),
        "{text}"
    );
    let report = json(&["replay", &of, "--mem", "1G", "--format", "json"]);
    let events = &report["policies"][0]["tally"]["events"];
    assert_eq!((&events["mm_page_alloc"], &events["mm_page_free"]), (&0.into(), &0.into()));
}

/// Frames between 3 and 4 GiB, and extra fields.
#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn an_inferred_machine_has_memory_where_the_frames_are() {
    let text = stdout(&["replay", &trace("vendor-nr-free/t.trace")]);
    assert!(text.contains("machine: 7 CPUs, 3839 MiB, inferred from the trace"), "{text}");
    let dir = tempfile::tempdir().unwrap();
    // A board whose memory lies at 512 GiB.
    let lines = ["mm_page_alloc: page=1 pfn=0x8000010 order=0 migratetype=0 gfp_flags=GFP_KERNEL"];
    let text = stdout(&["replay", &write_trace(dir.path(), &lines, &[])]);
    assert!(text.contains("machine: 1 CPU, 1024 MiB, inferred"), "{text}");
    for name in ["gfp-hex", "t"] {
        let report =
            json(&["replay", &trace(&format!("perf-script/{name}.trace")), "--format", "json"]);
        let (real, model) = (&report["trace_counts"]["tally"], &report["policies"][0]["tally"]);
        assert_eq!(real["events"]["mm_page_alloc"], model["events"]["mm_page_alloc"]);
    }
}

#[test]
fn files_of_another_machine_beside_a_trace_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(root().join(POSTED).join(name)).unwrap();
    let zones = read("failed-request/l05.zoneinfo");
    let buddy = read("failed-request/l05.buddyinfo");
    let types = read("failed-request/l05.pagetypeinfo");
    let alloc = ["mm_page_alloc: page=1 pfn=0x101000 order=0 migratetype=0 gfp_flags=GFP_KERNEL"];
    let warnings = |beside: &[(&str, &str)]| {
        for end in ["zoneinfo", "buddyinfo", "pagetypeinfo"] {
            let _ = fs::remove_file(dir.path().join(format!("x.{end}")));
        }
        json(&["replay", &write_trace(dir.path(), &alloc, beside), "--format", "json"])["warnings"]
            .to_string()
    };
    let whole = [("zoneinfo", &*zones), ("buddyinfo", &*buddy), ("pagetypeinfo", &*types)];
    let said = warnings(&whole);
    assert!(!said.contains("of different machines"), "{said}");
    let second = buddy.clone() + &buddy.replace("Node 0", "Node 1");
    let said = warnings(&[("zoneinfo", &zones), ("buddyinfo", &second)]);
    assert!(said.contains("buddyinfo has 2 nodes with memory, zoneinfo 1"), "{said}");
    let arm = read("b64k.buddyinfo");
    let said = warnings(&[("zoneinfo", &zones), ("buddyinfo", &arm), ("pagetypeinfo", &types)]);
    assert!(said.contains("buddyinfo has 14 orders, pagetypeinfo 11"), "{said}");
    assert!(said.contains("free blocks above order 10 start as blocks of order 10"), "{said}");
    assert!(said.contains("buddyinfo has no zone Normal of node 0, zoneinfo has"), "{said}");
    let large = buddy.replacen("0      0 \n", "0    400 \n", 1);
    let said = warnings(&[("zoneinfo", &zones), ("buddyinfo", &large)]);
    assert!(said.contains("free pages in node 0 DMA32, which has 261632 by zoneinfo"), "{said}");
    let said = warnings(&[
        ("zoneinfo", &zones),
        ("pagetypeinfo", &types.replace("block:  512", "block:  1024")),
    ]);
    assert!(
        said.contains("pageblocks of the traced kernel have 1024 pages, here they have 512"),
        "{said}"
    );
    // Frames that no zone has.
    let far = ["mm_page_alloc: page=1 pfn=0x900000 order=0 migratetype=0 gfp_flags=GFP_KERNEL"];
    let text = complaint(&["replay", &write_trace(dir.path(), &far, &whole)]);
    assert!(text.contains("0x900000 is in no zone of machine captured"), "{text}");
    assert!(text.contains("of another machine") && text.contains("--no-sidecars"), "{text}");
}
