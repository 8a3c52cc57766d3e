//! The floors of crates: their modules stand in the order of their dependencies, and that is true.
//!
//! `lib.rs` declares the modules lowest first. Outside its tests a module imports only from those before it. In the
//! core, `ARCHITECTURE.md` prints the same list, and a module, being part of `Kernel`, calls and looks at nothing
//! that belongs to a module after it. One name is known to all floors above the allocator: `Kernel` itself, the sum
//! of all state, because operations are its methods. What a lower floor needs of an upper one it declares as
//! a trait (`Relief`, `Completion`, `Mappings`, `DirtyAccount`, `MemoryFiles`), which an upper one implements.

use std::collections::BTreeMap;
use std::fs;

use super::{pattern, root};

/// Crates whose modules have an order.
const CRATES: [&str; 6] = [
    "highwater-core",
    "highwater-files",
    "highwater-runs",
    "highwater-plan",
    "highwater-ledger",
    "highwater-linux",
];

/// The core's modules in the order of `lib.rs`.
fn floors() -> Vec<String> {
    floors_of(CRATES[0])
}

/// The modules of a crate in the order of its `lib.rs`.
fn floors_of(name: &str) -> Vec<String> {
    let lib = root().join("crates").join(name).join("src/lib.rs");
    let lib = fs::read_to_string(lib).expect("a crate");
    let module = pattern(r"(?m)^(?:pub )?mod (\w+);");
    module.captures_iter(&lib).map(|found| found[1].to_owned()).collect()
}

/// A source file: its module, its path, and its text without comments and tests.
struct Source {
    module: String,
    path: String,
    text: String,
}

/// The core's sources.
fn sources() -> Vec<Source> {
    let found = sources_of(CRATES[0]);
    assert!(found.len() > 150, "the search found the sources");
    found
}

fn sources_of(name: &str) -> Vec<Source> {
    let src = root().join("crates").join(name).join("src");
    let mut found = Vec::new();
    let mut dirs = vec![src.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let name = path.strip_prefix(&src).expect("inside").to_string_lossy().into_owned();
            let module = match name.split_once('/') {
                Some((module, _)) => module,
                None if name == "lib.rs" => continue,
                None => name.trim_end_matches(".rs"),
            };
            let text = fs::read_to_string(&path).expect("readable");
            found.push(Source { module: module.to_owned(), path: name.clone(), text });
        }
    }
    let is_test = declared_for_tests(&found);
    found.retain(|source| !is_test.iter().any(|test| source.path.starts_with(test.as_str())));
    for source in &mut found {
        source.text = code(&source.text);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Files and folders that are compiled for tests only: those declared behind `#[cfg(test)]`.
fn declared_for_tests(sources: &[Source]) -> Vec<String> {
    let declared = pattern(r"#\[cfg\(test\)\]\s*(?:pub\(crate\) )?mod (\w+);");
    let mut tests = Vec::new();
    for source in sources {
        let (dir, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
        // The children of `mod.rs` lie beside it, those of `tree.rs` in `tree/`.
        let dir = match file {
            "mod.rs" => dir.to_owned(),
            _ => format!("{dir}/{}", file.trim_end_matches(".rs")),
        };
        let dir = dir.trim_start_matches('/');
        for found in declared.captures_iter(&source.text) {
            tests.push(format!("{dir}/{}.rs", &found[1]));
            tests.push(format!("{dir}/{}/", &found[1]));
        }
    }
    tests
}

/// A file's text without comments and without its tests.
fn code(text: &str) -> String {
    let tests = pattern(r"#\[cfg\(test\)\]\s*mod tests \{");
    let text = tests.split(text).next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that a file's text takes from other modules of the crate: module and what follows it.
fn imports(text: &str) -> Vec<(String, String)> {
    let path = pattern(r"\bcrate::(\w+)(?:::(\w+|\{[^}]*\}))?");
    let found = path.captures_iter(text);
    found
        .map(|found| {
            let names = found.get(2).map_or("", |names| names.as_str());
            (found[1].to_owned(), names.trim_matches(['{', '}', ' ']).to_owned())
        })
        .collect()
}

/// What a file of `module` must not import, given the floors.
fn upward_imports(floors: &[String], module: &str, text: &str) -> Vec<String> {
    let rank = |name: &str| floors.iter().position(|floor| floor == name);
    let own = rank(module).unwrap_or_else(|| panic!("{module} is not declared in lib.rs"));
    let is_kernel = |name: &str, names: &str| {
        name == "kernel" && names.split(',').all(|one| matches!(one.trim(), "Kernel" | ""))
    };
    let mut upward = Vec::new();
    for (name, names) in imports(text) {
        if rank(&name).is_some_and(|other| other > own) && !is_kernel(&name, &names) {
            upward.push(format!("{name}::{names}"));
        }
    }
    upward
}

#[test]
fn no_module_imports_from_above() {
    let mut wrong = Vec::new();
    for name in CRATES {
        let (floors, sources) = (floors_of(name), sources_of(name));
        assert!(!floors.is_empty() && sources.len() >= floors.len(), "{name}");
        for source in sources {
            for import in upward_imports(&floors, &source.module, &source.text) {
                wrong.push(format!("{name}: {} imports {import} from above", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_upward_import_is_found() {
    let floors = floors();
    let upward = |module, text| upward_imports(&floors, module, &code(text));
    let lru = "use crate::kernel::Kernel;\nuse crate::reclaim::{Shrinker, Shrunk};\n";
    assert_eq!(upward("lru", lru), ["reclaim::Shrinker, Shrunk"]);
    assert_eq!(upward("zone", "fn f(a: &crate::page_alloc::Pcp) {}"), ["page_alloc::Pcp"]);
    assert_eq!(upward("trace", "use crate::lru;"), ["lru::"]);
    assert_eq!(upward("block", "use crate::kernel::{Kernel, KernelSpec};").len(), 1);
    assert!(upward("reclaim", lru).is_empty());
    assert!(upward("lru", "// use crate::reclaim::X;\n/// [`crate::vm::Y`]\n").is_empty());
    assert!(upward("lru", "#[cfg(test)]\nmod tests {\n use crate::audit::check;\n}").is_empty());
}

/// The methods of `Kernel` by name, with the modules that define them.
fn kernel_methods(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let method = pattern(r"\n    (?:pub(?:\([^)]*\))? )?(?:const )?fn (\w+)");
    let mut methods: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        for block in source.text.split("\nimpl<H: Devices> Kernel<H> {").skip(1) {
            let block = block.split("\n}").next().unwrap_or_default();
            for found in method.captures_iter(block) {
                methods.entry(found[1].to_owned()).or_default().push(source.module.clone());
            }
        }
    }
    assert!(methods.len() > 200, "the methods were found");
    methods
}

/// The state of `Kernel` by field, with the module whose type it is.
fn kernel_fields(sources: &[Source]) -> BTreeMap<String, String> {
    let kernel =
        sources.iter().find(|source| source.path == "kernel/mod.rs").expect("there is one");
    let body = kernel.text.split("pub struct Kernel<H: Devices> {").nth(1).expect("the struct");
    let body = body.split("\n}").next().unwrap_or_default();
    let field = pattern(r"(?:pub(?:\(crate\))? )?(\w+): ([^\n]+),");
    let word = pattern(r"\w+");
    let mut owners = BTreeMap::new();
    for (module, names) in imports(&kernel.text) {
        for name in word.find_iter(&names) {
            owners.insert(name.as_str().to_owned(), module.clone());
        }
    }
    let mut fields = BTreeMap::new();
    for found in field.captures_iter(body) {
        let owner = word.find_iter(&found[2]).filter_map(|name| owners.get(name.as_str()));
        let plain = ["sync", "units", "page", "host", "kernel"];
        if let Some(owner) = owner.filter(|owner| !plain.contains(&owner.as_str())).last() {
            fields.insert(found[1].to_owned(), owner.clone());
        }
    }
    assert!(fields.len() > 8 && fields["swap"] == "swap", "the fields were understood: {fields:?}");
    fields
}

/// The methods and fields of `Kernel` that a file uses and that belong above its module.
fn upward_uses(
    floors: &[String],
    methods: &BTreeMap<String, Vec<String>>,
    fields: &BTreeMap<String, String>,
    source: &Source,
) -> Vec<String> {
    let rank = |name: &str| floors.iter().position(|floor| floor == name).unwrap_or(usize::MAX);
    let used = pattern(r"\b(?:self|kernel|self\.k)\s*\.(\w+)(\()?");
    let own_fn = pattern(r"\bfn (\w+)");
    let own: Vec<&str> =
        own_fn.captures_iter(&source.text).map(|found| found.extract::<1>().1[0]).collect();
    let mut wrong = Vec::new();
    for found in used.captures_iter(&source.text) {
        let name = &found[1];
        let owners: Vec<&String> = match found.get(2) {
            // Whether to stop is the one thing that daemons ask of the kernel as a whole.
            Some(_) if own.contains(&name) || name == "is_stopping" => continue,
            Some(_) => methods.get(name).map(|owners| owners.iter().collect()).unwrap_or_default(),
            None => fields.get(name).into_iter().collect(),
        };
        let is_above = |owner: &&String| rank(owner) > rank(&source.module);
        if !owners.is_empty() && owners.iter().all(is_above) {
            wrong.push(format!("{} uses {name} of {}", source.path, owners[0]));
        }
    }
    wrong
}

/// Operations and state are methods and fields of one type, so imports do not show all that is used.
#[test]
fn no_operation_reaches_up() {
    let (floors, sources) = (floors(), sources());
    let (methods, fields) = (kernel_methods(&sources), kernel_fields(&sources));
    let about_kernel = sources.iter().filter(|source| source.text.contains("Kernel"));
    let wrong: Vec<String> =
        about_kernel.flat_map(|source| upward_uses(&floors, &methods, &fields, source)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let uses = |module: &str, text: &str| {
        let (module, path) = (module.to_owned(), format!("{module}/x.rs"));
        upward_uses(&floors, &methods, &fields, &Source { module, path, text: text.to_owned() })
            .len()
    };
    assert_eq!(uses("page_cache", "self.balance_dirty_pages(cx, file, 1);"), 1);
    assert_eq!(uses("lru", "if self.swap.nr_free() > 0 {}"), 1);
    assert_eq!(uses("writeback", "self.balance_dirty_pages(cx, file, 1); self.swap.nr_free()"), 0);
}

#[test]
fn the_architecture_prints_the_floors() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let table = text.split("## The core, bottom up").nth(1).expect("the section");
    let table = table.split("\n## ").next().unwrap_or_default();
    let row = pattern(r"(?m)^\| `([a-z_]+)` \|");
    let printed: Vec<String> = row.captures_iter(table).map(|found| found[1].to_owned()).collect();
    assert_eq!(
        printed,
        floors(),
        "ARCHITECTURE.md and lib.rs list the same modules in the same order"
    );
}

/// Deferred frees are one module's concern: the others call it, and it asks the host.
#[test]
fn one_module_asks_whether_frees_are_deferred() {
    let asks = |source: &&Source| source.text.contains("DEFERS_FREES");
    let paths: Vec<String> = sources().iter().filter(asks).map(|s| s.path.clone()).collect();
    assert_eq!(paths, ["host/mod.rs", "page_alloc/deferred.rs"]);
}
