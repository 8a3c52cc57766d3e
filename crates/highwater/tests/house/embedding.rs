//! The pages about embedding show code that compiles, and figures that are so.

use std::fs;

use highwater_core::config::Machine;

use super::root;

/// Pages, and the sources whose lines they show.
const PAGES: [(&str, &[&str]); 4] = [
    ("plans", &["crates/highwater/examples/grid.rs"]),
    ("own-host", &["crates/highwater/examples/threaded_host.rs"]),
    ("own-frames", &["crates/highwater/examples/own_frames.rs"]),
    ("bare-metal", &["examples/bare-metal/src/lib.rs", "examples/bare-metal/src/memory.rs"]),
];

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Without indentation, which a page may leave out.
fn flat(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim())).collect()
}

/// The Rust code on a page, block by block.
fn code(page: &str) -> Vec<&str> {
    let blocks = page.split("```rust,ignore\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn pages_show_the_lines_of_their_examples() {
    for (name, sources) in PAGES {
        let page = read(&format!("docs/src/embedding/{name}.md"));
        let sources: Vec<String> = sources.iter().map(|path| flat(&read(path))).collect();
        let blocks = code(&page);
        assert!(blocks.len() > 1, "{name} was understood");
        for block in blocks {
            let is_there = sources.iter().any(|source| source.contains(&flat(block)));
            assert!(is_there, "{name}.md shows what its example does not have:\n{block}");
        }
    }
}

/// 12345 as 12,345.
fn grouped(number: u64) -> String {
    assert!(number < 1_000_000, "one comma is enough");
    format!("{},{:03}", number / 1000, number % 1000)
}

#[test]
fn what_a_pc_withholds_is_said_in_pages() {
    let pc = |bytes| Machine::from_sizes("pc", &[(bytes, vec![0, 1])]).unwrap().managed_pages();
    let (page, library) =
        (read("docs/src/embedding/own-frames.md"), read("docs/src/embedding/library.md"));
    let frames = 65_536;
    let managed = pc(frames << 12);
    assert!(page.contains(&format!("| of 256 MiB, {} pages |", grouped(frames))));
    assert!(page.contains(&format!("| `Machine::from_sizes` | {} |", grouped(managed))));
    assert!(page.contains(&format!("{} pages here", grouped(frames - managed))));
    let of_a_gib = format!("({} of {} pages are left", grouped(pc(1 << 30)), grouped(1 << 18));
    assert!(library.contains(&of_a_gib), "{of_a_gib}");
}

/// What is copied out of the repository has to build there.
#[test]
fn examples_inherit_nothing_from_the_workspace() {
    for name in ["bare-metal", "own-program"] {
        let manifest = read(&format!("examples/{name}/Cargo.toml"));
        let lines = manifest.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            assert!(!line.replace(' ', "").contains("workspace=true"), "{name}: {line}");
        }
    }
}
