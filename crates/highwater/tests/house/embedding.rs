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

/// The page prints what the example's own test expects of it.
#[test]
fn the_page_shows_the_output_of_the_example() {
    let output = read("examples/embed/expected.txt");
    assert!(read("docs/src/embedding/library.md").contains(&format!("```text\n{output}```")));
    for source in ["main", "host"] {
        let text = read(&format!("examples/embed/src/{source}.rs"));
        let mut others = text.split("highwater_core::").skip(1);
        assert!(
            others.all(|rest| rest.starts_with("embed::")),
            "{source} uses the stable items only"
        );
    }
}

/// The stable items of the core: a new one, or one that is gone, is a change of the page's promise.
#[test]
fn the_page_lists_the_stable_items() {
    let (page, module) =
        (read("docs/src/embedding/library.md"), read("crates/highwater-core/src/embed/mod.rs"));
    let exports = module.lines().filter(|line| line.starts_with("pub use "));
    let mut exported: Vec<&str> = exports
        .flat_map(|line| line.trim_end_matches(['}', ';']).split(['{', ',', ' ', ':']))
        .filter(|name| !name.is_empty())
        .filter(|name| name.starts_with(char::is_uppercase) || *name == "preset")
        .collect();
    let table = page.split("## The stable items").nth(1).expect("the table");
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let cells = rows.take_while(|line| !line.contains("threads, and a whole"));
    let mut listed: Vec<&str> = cells.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    exported.sort_unstable();
    listed.sort_unstable();
    assert!(exported.len() > 20);
    assert_eq!(listed, exported);
}

/// What is copied out of the repository has to build there.
#[test]
fn examples_inherit_nothing_from_the_workspace() {
    for name in ["bare-metal", "embed", "own-program"] {
        let manifest = read(&format!("examples/{name}/Cargo.toml"));
        let lines = manifest.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            assert!(!line.replace(' ', "").contains("workspace=true"), "{name}: {line}");
        }
    }
}

/// The gate builds with the lowest version of Rust that the packages claim to need.
#[test]
fn the_gate_uses_the_lowest_rust() {
    let value = |path: &str, key: &str| {
        let text = read(path);
        let line = text.lines().find(|line| line.starts_with(key)).expect(key).to_owned();
        line.split('"').nth(1).expect("a text").to_owned()
    };
    let lowest = value("Cargo.toml", "rust-version = ");
    let pinned = value("rust-toolchain.toml", "channel = ");
    assert!(pinned.starts_with(&format!("{lowest}.")), "{lowest} is tested by {pinned}");
    assert!(read("CONTRIBUTING.md").contains(&format!("{lowest}, since")), "its page says so");
}
