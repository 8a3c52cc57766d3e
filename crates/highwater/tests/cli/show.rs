//! `show`: one thing in full.

use highwater_core::config::{PRESETS, Policy, preset};

use super::{json, stdout};

#[test]
fn a_policy_is_shown_with_every_switch() {
    for (name, _) in PRESETS {
        let shown = json(&["show", "policy", name, "--format", "json"]);
        let rows = shown[0]["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), Policy::describe().len());
        for (row, (path, value)) in rows.iter().zip(preset(name).unwrap().values()) {
            assert_eq!(row["labels"][0], path.as_str());
            assert_eq!(row["labels"][1], value.to_string().as_str());
        }
    }
    let text = stdout(&["show", "policy", "6.1"]);
    assert!(text.contains("pcp.lists"), "{text}");
    // Wrapped below what it is about.
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(
        words.join(" ").contains("Orders that the per-CPU lists hold, and the number of lists."),
        "{text}"
    );
}

#[test]
fn a_policy_is_shown_against_another() {
    let text = stdout(&["show", "policy", "5.18", "--against", "5.17", "--format", "csv"]);
    for line in [
        "pcp.high-order-free,5.17,,cached,",
        "pcp.high-order-free,5.18,,limited,",
        "merge,5.18,,mergeable,",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("watermark."), "{text}");
    let file = "policies/6.1-no-boost.toml";
    let text = stdout(&["show", "policy", file, "--against", "6.1", "--format", "csv"]);
    assert!(text.contains("watermark.boost,6.1-no-boost,,false,"), "{text}");
}
