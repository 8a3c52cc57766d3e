//! "From Linux to here": the table of Linux names is made from the code.
//!
//! An item that does what a Linux function or struct does has `#[doc(alias = "linux_name")]`; one
//! of the same name says so in a paragraph of its doc that begins with `Linux`. The page shows the
//! first sentence of the doc and that paragraph:
//!
//! ```text
//! /// Linux: what differs.
//! /// Linux 5.16 on: since when, and what differs.
//! /// Linux up to 4.7: same name; what differs.
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::markdown::words;
use super::{hold, read, with_part};

const PAGE: &str = "docs/src/from-linux.md";

/// The heading of structs, enums and traits.
const TYPES: &str = "Types";

/// The Linux file in which a module's names mostly are; the longest path counts.
const SOURCES: &[(&str, &str)] = &[
    ("core/block", "block/blk-core.c, block/blk-mq.c"),
    ("core/block/complete", "block/bio.c"),
    ("core/block/congestion", "mm/backing-dev.c"),
    ("core/block/vectors", "block/bio.c"),
    ("core/block/wbt", "block/blk-wbt.c"),
    ("core/compaction", "mm/compaction.c"),
    ("core/config/ranges", "arch/x86/kernel/e820.c, mm/memblock.c"),
    ("core/config/tunables", "mm/huge_memory.c"),
    ("core/host", "kernel/sched, kernel/time, kernel/smp.c"),
    ("core/kernel", "mm/memory.c"),
    ("core/lru", "mm/swap.c"),
    ("core/lru/bloom", "mm/vmscan.c"),
    ("core/lru/deferred", "mm/huge_memory.c"),
    ("core/lru/generations", "mm/vmscan.c"),
    ("core/lru/generations/entry", "include/linux/mm_inline.h"),
    ("core/lru/generations/marks", "include/linux/mm_inline.h"),
    ("core/lru/generations/tokens", "mm/workingset.c"),
    ("core/lru/isolate", "mm/vmscan.c"),
    ("core/lru/list", "include/linux/mm_inline.h"),
    ("core/lru/locked", "include/linux/mm_inline.h"),
    ("core/lru/mlock", "mm/mlock.c"),
    ("core/lru/workingset", "mm/workingset.c"),
    ("core/memcg", "mm/memcontrol.c"),
    ("core/memcg/dirty", "mm/page-writeback.c"),
    ("core/memcg/turns", "mm/vmscan.c"),
    ("core/net", "net/ipv4/tcp.c"),
    ("core/migrate", "mm/migrate.c"),
    ("core/page", "include/linux/mm.h, page_ref.h, page-flags.h"),
    ("core/page_alloc", "mm/page_alloc.c"),
    ("core/page_alloc/by_policy", "mm/mempolicy.c"),
    ("core/page_alloc/gfp", "include/linux/gfp.h"),
    ("core/page_cache", "mm/filemap.c"),
    ("core/page_cache/buffers", "fs/buffer.c"),
    ("core/page_cache/dirty", "mm/page-writeback.c"),
    ("core/page_cache/inode", "fs/inode.c, fs/dcache.c, fs/super.c"),
    ("core/page_cache/map_ranges", "mm/interval_tree.c"),
    ("core/page_cache/node_memory", "mm/workingset.c"),
    ("core/page_cache/readahead", "mm/readahead.c"),
    ("core/page_cache/tree", "lib/xarray.c"),
    ("core/page_cache/truncate", "mm/truncate.c"),
    ("core/proc", "mm/vmstat.c"),
    ("core/proc/node", "drivers/base/node.c"),
    ("core/reclaim", "mm/vmscan.c"),
    ("core/reclaim/huge_shrinker", "mm/huge_memory.c"),
    ("core/reclaim/inode_shrinker", "fs/inode.c, fs/dcache.c, fs/super.c"),
    ("core/reclaim/memcg", "mm/memcontrol.c"),
    ("core/reclaim/memcg/turns", "mm/vmscan.c"),
    ("core/reclaim/oom", "mm/oom_kill.c"),
    ("core/reclaim/shadow_shrinker", "mm/workingset.c"),
    ("core/reclaim/throttle/compaction", "mm/compaction.c"),
    ("core/reclaim/throttle/congestion", "mm/backing-dev.c"),
    ("core/slab", "mm/slub.c"),
    ("core/swap", "mm/swap_state.c"),
    ("core/swap/charge", "mm/memcontrol.c"),
    ("core/swap/area", "mm/swapfile.c"),
    ("core/swap/io", "mm/page_io.c"),
    ("core/swap/shared", "mm/shmem.c"),
    ("core/swap/slot_cache", "mm/swap_slots.c"),
    ("core/syscall/caches", "fs/drop_caches.c"),
    ("core/syscall/exit", "kernel/fork.c, kernel/exit.c"),
    ("core/syscall/fadvise", "mm/fadvise.c"),
    ("core/syscall/groups", "mm/memcontrol.c, kernel/cgroup/cgroup.c"),
    ("core/syscall/madvise", "mm/madvise.c"),
    ("core/syscall/memory_policy", "mm/mempolicy.c"),
    ("core/syscall/process", "kernel/fork.c, kernel/exit.c"),
    ("core/syscall/write", "mm/filemap.c"),
    ("core/units", "mm/page_alloc.c"),
    ("core/vm/aging", "mm/vmscan.c"),
    ("core/vm/commit", "mm/util.c"),
    ("core/vm/contents", "mm/page_io.c"),
    ("core/vm/fault", "mm/memory.c"),
    ("core/vm/fault/swap_readahead", "mm/swap_state.c"),
    ("core/vm/fork", "mm/memory.c"),
    ("core/vm/gather", "mm/mmu_gather.c"),
    ("core/vm/grow", "mm/mmap.c"),
    ("core/vm/huge", "mm/huge_memory.c"),
    ("core/vm/huge/collapse", "mm/khugepaged.c"),
    ("core/vm/huge/khugepaged", "mm/khugepaged.c"),
    ("core/vm/look_around", "mm/vmscan.c"),
    ("core/vm/mapping", "mm/mmap.c"),
    ("core/vm/mlock", "mm/mlock.c"),
    ("core/vm/moving", "mm/rmap.c"),
    ("core/vm/page_table", "include/linux/pgtable.h, mmu_notifier.h"),
    ("core/vm/pte", "include/linux/swapops.h"),
    ("core/vm/recency", "mm/rmap.c"),
    ("core/vm/rmap", "mm/rmap.c"),
    ("core/vm/mm", "mm/mmap.c"),
    ("core/vm/mm_list", "mm/vmscan.c"),
    ("core/vm/tlb", "arch/x86/mm/tlb.c"),
    ("core/vm/unmap", "mm/mmap.c"),
    ("core/vm/zap", "mm/memory.c"),
    ("core/vmstat", "mm/vmstat.c"),
    ("core/vmstat/groups", "mm/memcontrol.c"),
    ("core/vmstat/groups/counter", "mm/page_counter.c"),
    ("core/wait/queue", "kernel/sched/wait.c"),
    ("core/wait/rwsem", "kernel/locking/rwsem.c"),
    ("core/writeback", "mm/page-writeback.c"),
    ("core/writeback/flusher", "fs/fs-writeback.c"),
    ("core/zone", "mm/page_alloc.c"),
    ("sim/cpu/sched", "kernel/sched/fair.c"),
    ("sim/disk/queue", "block/mq-deadline.c"),
    ("sim/engine/clock", "kernel/time/timer.c"),
    ("sim/pressure", "kernel/sched/psi.c"),
];

/// Names that Linux has in another file than those around them.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("include/linux/tcp.h", &["tcp_sock"]),
    ("net/core/sock.c", &["sk_wait_data", "skb_page_frag_refill"]),
    ("net/core/stream.c", &["sk_stream_wait_memory"]),
    ("net/ipv4/inet_connection_sock.c", &["inet_csk_accept"]),
    ("net/ipv4/tcp_ipv4.c", &["tcp_v4_connect"]),
    ("net/ipv4/tcp_output.c", &["tcp_write_xmit"]),
    ("arch/x86/include/asm/pgtable.h", &["ZERO_PAGE"]),
    ("block/blk-merge.c", &["bio_split_to_limits"]),
    ("fs/exec.c", &["exec_mmap"]),
    ("fs/fs-writeback.c", &["writeback_chunk_size"]),
    ("fs/sync.c", &["ksys_sync", "vfs_fsync"]),
    ("include/asm-generic/memory_model.h", &["pfn_to_page"]),
    ("include/linux/highmem.h", &["copy_user_highpage"]),
    ("include/linux/mm_inline.h", &["folio_lru_gen", "lru_gen_from_seq", "vma_has_recency"]),
    ("include/linux/mm_types.h", &["lru_gen_use_mm"]),
    ("include/linux/huge_mm.h", &["is_huge_zero_page", "transhuge_vma_suitable"]),
    ("include/linux/mm.h, page_ref.h, page-flags.h", &["compound_mapcount"]),
    (
        "include/linux/mmzone.h",
        &[
            "MAX_LRU_BATCH",
            "MAX_NR_GENS",
            "MAX_NR_TIERS",
            "MEMCG_NR_BINS",
            "MIN_LRU_BATCH",
            "first_zones_zonelist",
            "next_zones_zonelist",
        ],
    ),
    ("include/linux/sched/mm.h", &["current_gfp_context"]),
    ("include/linux/swap.h", &["vm_swap_full"]),
    ("kernel/sched/psi.c", &["psi_memstall_enter"]),
    ("kernel/cgroup/cgroup.c", &["css_next_descendant_pre"]),
    ("kernel/cgroup/cpuset.c", &["__cpuset_zone_allowed", "cpuset_change_task_nodemask"]),
    ("kernel/fork.c, kernel/exit.c", &["dup_mmap", "mm_alloc", "mmput"]),
    ("arch/x86/mm/tlb.c", &["switch_mm"]),
    ("mm/compaction.c", &["compaction_zonelist_suitable"]),
    (
        "mm/filemap.c",
        &[
            "do_async_mmap_readahead",
            "do_sync_mmap_readahead",
            "end_page_writeback",
            "filemap_fault",
            "filemap_fdatawait_range",
            "find_lock_entries",
            "folio_end_writeback",
            "lock_folio_maybe_drop_mmap",
            "page_cache_next_miss",
            "page_cache_prev_miss",
        ],
    ),
    ("mm/gup.c", &["__mm_populate", "fixup_user_fault"]),
    ("mm/huge_memory.c", &["do_huge_pmd_wp_page"]),
    ("mm/internal.h", &["__find_buddy_pfn"]),
    ("mm/khugepaged.c", &["set_recommended_min_free_kbytes"]),
    ("mm/memblock.c", &["__free_pages_memory"]),
    (
        "mm/memcontrol.c",
        &[
            "folio_lruvec",
            "folio_lruvec_lock",
            "folio_lruvec_relock_irq",
            "mem_cgroup_is_descendant",
            "mem_cgroup_margin",
            "parent_mem_cgroup",
        ],
    ),
    (
        "mm/memory.c",
        &[
            "__pte_alloc",
            "free_pgtables",
            "unmap_mapping_folio",
            "unmap_single_vma",
            "vm_normal_page",
        ],
    ),
    ("mm/migrate.c", &["buffer_migrate_folio", "migration_entry_wait", "remove_migration_ptes"]),
    ("mm/mmap.c", &["accountable_mapping"]),
    ("mm/oom_kill.c", &["__oom_reap_task_mm"]),
    ("mm/page-writeback.c", &["node_dirty_ok", "wb_over_bg_thresh"]),
    ("mm/page_alloc.c", &["page_is_buddy", "prep_compound_page", "show_free_areas"]),
    ("mm/rmap.c", &["flush_tlb_batched_pending"]),
    ("mm/shmem.c", &["shmem_fault", "shmem_file_read_iter"]),
    ("mm/swap_slots.c", &["folio_alloc_swap"]),
    ("mm/swap_state.c", &["free_pages_and_swap_cache"]),
    ("mm/swapfile.c", &["folio_free_swap", "swapcache_free_entries"]),
    (
        "mm/vmscan.c",
        &[
            "__remove_mapping",
            "drop_slab",
            "lruvec_lru_size",
            "snapshot_refaults",
            "zone_reclaimable_pages",
        ],
    ),
    (
        "mm/vmstat.c",
        &[
            "__fragmentation_index",
            "calculate_normal_threshold",
            "calculate_pressure_threshold",
            "refresh_cpu_vm_stats",
            "refresh_zone_stat_thresholds",
            "set_pgdat_percpu_threshold",
            "unusable_free_index",
        ],
    ),
];

/// An item with Linux names.
struct Entry {
    names: Vec<String>,
    /// `Kernel::shrink_pages`.
    item: String,
    is_type: bool,
    /// Path of the file from the root.
    file: String,
    /// The first sentence of its doc.
    sentence: String,
    /// Kernels that have it, if not all.
    since: String,
    /// Differences from Linux.
    differs: String,
}

#[test]
fn the_page_of_linux_names_is_made_from_the_code() {
    let entries = &*ENTRIES;
    let names: BTreeSet<&String> = entries.iter().flat_map(|entry| &entry.names).collect();
    assert!(names.len() >= 150, "{} names", names.len());
    let table =
        format!("{} Linux names, {} items here.\n{}", names.len(), entries.len(), tables(entries));
    hold(PAGE, &with_part(&read(PAGE), "names", &table));
    assert!(read("docs/src/SUMMARY.md").contains("(from-linux.md)"));
}

#[test]
fn every_item_with_a_linux_name_says_in_plain_words_what_it_does() {
    let first = Regex::new(r"^(Who|What|Whoever|Those|Whether|The same|As )\b").expect("a pattern");
    for Entry { item, file, sentence, .. } in &*ENTRIES {
        let nr_words = sentence.split_whitespace().count();
        assert!(sentence.ends_with('.'), "{file}: {item}: a first sentence with a full stop");
        assert!(!first.is_match(sentence), "{file}: {item}: name the actor: {sentence}");
        assert!(nr_words <= MAX_WORDS, "{file}: {item}: {nr_words} words: {sentence}");
    }
}

/// Words of a first sentence.
const MAX_WORDS: usize = 32;

#[test]
fn a_name_of_several_items_says_what_each_of_them_is() {
    let entries = &*ENTRIES;
    let mut by_name: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        entry.names.iter().for_each(|name| by_name.entry(name).or_default().push(entry));
    }
    for (name, items) in by_name.into_iter().filter(|(_, items)| items.len() > 1) {
        for Entry { item, file, differs, .. } in items {
            assert!(
                !differs.is_empty(),
                "{file}: {item}: several items are {name}: `/// Linux: ...`"
            );
        }
    }
}

#[test]
fn the_tables_of_linux_files_have_no_dead_lines() {
    let entries = &*ENTRIES;
    for (module, _) in SOURCES {
        let is_of = |entry: &Entry| module_of(&entry.file).starts_with(module);
        assert!(entries.iter().any(is_of), "{module} has no Linux name");
    }
    for name in ELSEWHERE.iter().flat_map(|(_, names)| *names) {
        let is_of = |entry: &Entry| entry.names.iter().any(|of| of == name);
        assert!(entries.iter().any(is_of), "no item has the Linux name {name}");
    }
}

/// A table for each Linux file.
fn tables(entries: &[Entry]) -> String {
    let mut groups: BTreeMap<(u8, &str), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        let source = source_of(entry);
        let place = match source {
            TYPES => 2,
            _ if source.starts_with("mm/") => 0,
            _ => 1,
        };
        groups.entry((place, source)).or_default().push(entry);
    }
    let mut text = String::new();
    for ((_, source), mut entries) in groups {
        entries.sort_by_key(|entry| (entry.names[0].trim_start_matches('_'), &entry.file));
        writeln!(
            text,
            "\n## {source}\n\n| Linux | here | what it does | differs |\n|---|---|---|---|"
        )
        .unwrap();
        for Entry { names, item, file, sentence, since, differs, .. } in entries {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let (names, module) = (names.join("<br>"), module_of(file));
            let differs = match (since.as_str(), differs.as_str()) {
                ("", differs) => differs.to_owned(),
                (since, "") => since.to_owned(),
                (since, differs) => format!("{since}: {differs}"),
            };
            writeln!(
                text,
                "| {names} | `{item}`<br>[{module}](../../{file}) | {} | {} |",
                cell(sentence),
                cell(&differs)
            )
            .unwrap();
        }
    }
    text
}

/// A text for a cell of the page, which lies beside the folder of the rules.
fn cell(text: &str) -> String {
    words(text).replace("](../", "](")
}

/// The Linux file of an item.
fn source_of(entry: &Entry) -> &'static str {
    if entry.is_type {
        return TYPES;
    }
    let module = module_of(&entry.file);
    let has = |(_, names): &&(&str, &[&str])| {
        entry.names.iter().any(|name| names.contains(&name.as_str()))
    };
    let of_module = || SOURCES.iter().filter(|(prefix, _)| module.starts_with(prefix));
    ELSEWHERE
        .iter()
        .find(has)
        .map(|(source, _)| *source)
        .or_else(|| of_module().max_by_key(|(prefix, _)| prefix.len()).map(|(_, source)| *source))
        .unwrap_or_else(|| panic!("{module} has a Linux name and no line in SOURCES"))
}

/// `core/reclaim/folios` of `crates/highwater-core/src/reclaim/folios.rs`.
fn module_of(file: &str) -> String {
    let module = file.trim_start_matches("crates/highwater-").trim_end_matches(".rs");
    module.replace("/src/", "/").trim_end_matches("/mod").to_owned()
}

/// Every item of the crates with a Linux name.
static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(entries);

fn entries() -> Vec<Entry> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<PathBuf> = fs::read_dir(root.join("crates"))
        .expect("crates")
        .map(|each| each.expect("readable").path().join("src"))
        .collect();
    let mut files = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths
                .extend(fs::read_dir(path).expect("readable").map(|e| e.expect("readable").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    let mut entries = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("readable");
        let file = path.strip_prefix(&root).expect("inside").to_string_lossy().into_owned();
        let found = entries_of(&file, &text);
        let nr_names = text.matches("#[doc(alias").count();
        let nr_found = found.iter().map(|entry| entry.names.len()).sum::<usize>();
        assert!(nr_found >= nr_names, "{file}: an alias that this test does not read");
        entries.extend(found);
    }
    entries
}

/// An alias.
static ALIAS: LazyLock<Regex> = LazyLock::new(|| pattern(r#"^#\[doc\(alias = "(\w+)"\)\]$"#));
/// Matches the kind of an item and its name.
static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*(fn|struct|enum|trait|type|const|static) (\w+)",
    )
});
/// The type or trait around an item.
static CONTAINER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:pub(?:\([^)]*\))? )?(?:impl\b.*? for |impl(?:<.*?>+)? |enum |struct |trait )(\w+)",
    )
});
/// A paragraph about Linux: since when, and what differs.
static LINUX: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^Linux(?: (up to [\d.]+\d|[\d.]+\d on|[\d.]+\d to [\d.]+\d))?(?:: (.*)|\.)$")
});
static SENTENCE_END: LazyLock<Regex> = LazyLock::new(|| pattern(r"[.?](\s|$)"));
static LINK: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[(`[^`]+`)\]"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

/// The items of a file, which is as rustfmt leaves it.
fn entries_of(file: &str, text: &str) -> Vec<Entry> {
    let (mut docs, mut names): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    let mut entries = Vec::new();
    let mut inside = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if let Some(doc) = trimmed.strip_prefix("///") {
            docs.push(doc.trim());
            continue;
        }
        if trimmed.starts_with("#[") {
            names.extend(ALIAS.captures(trimmed).map(|found| found[1].to_owned()));
            if !trimmed.ends_with(']') {
                lines.by_ref().find(|line| line.trim_end().ends_with(']'));
            }
            continue;
        }
        let (docs, mut names) = (std::mem::take(&mut docs), std::mem::take(&mut names));
        let is_about_linux = docs.iter().any(|line| line.starts_with("Linux"));
        let is_inner = line.starts_with(' ');
        if !is_inner && let Some(found) = CONTAINER.captures(line) {
            inside = Some(found[1].to_owned());
        }
        if names.is_empty() && !is_about_linux {
            continue;
        }
        let paragraphs: Vec<String> =
            docs.split(|line| line.is_empty()).map(|lines| lines.join(" ")).collect();
        let (since, differs, has_name) = linux_paragraph(&paragraphs);
        let (is_type, name) = match ITEM.captures(trimmed) {
            Some(found) => (["struct", "enum", "trait"].contains(&&found[1]), found[2].to_owned()),
            None => (false, trimmed.split([' ', ',', '(', ':']).next().unwrap_or("").to_owned()),
        };
        if has_name {
            names.insert(0, name.clone());
        }
        if names.is_empty() {
            continue;
        }
        let item = match &inside {
            Some(inside) if is_inner => format!("{inside}::{name}"),
            _ => name,
        };
        let sentence = first_sentence(&paragraphs[0]);
        entries.push(Entry {
            names,
            item,
            is_type,
            file: file.to_owned(),
            sentence,
            since,
            differs,
        });
    }
    entries
}

/// Reads the paragraph about Linux: which kernels, what differs, and whether the name is the same.
fn linux_paragraph(paragraphs: &[String]) -> (String, String, bool) {
    let Some(found) = paragraphs.iter().find_map(|text| LINUX.captures(text)) else {
        return Default::default();
    };
    let part = |n| found.get(n).map_or("", |part: regex::Match<'_>| part.as_str());
    let (has_name, differs) = match part(2).strip_prefix("same name") {
        Some(rest) => (true, rest.trim_start_matches([';', '.', ' '])),
        None => (false, part(2)),
    };
    (part(1).to_owned(), plain(differs.trim_end_matches('.')), has_name)
}

/// The first sentence of a doc, without links to other items.
fn first_sentence(paragraph: &str) -> String {
    let sentence = SENTENCE_END.find(paragraph).map_or(paragraph, |end| &paragraph[..=end.start()]);
    plain(sentence)
}

fn plain(text: &str) -> String {
    LINK.replace_all(text, "$1").into_owned()
}

#[test]
fn an_item_is_read_with_its_names() {
    let text = "impl<H: Devices> Kernel<H> {\n    /// Shrinks. More.\n    ///\n    /// Linux 5.16 on: same name; less\n    \
                /// [`Kernel::x`].\n    #[doc(alias = \"old_name\")]\n    #[expect(\n
                /// clippy::x\n    )]\n    \
                pub(super) fn new_name(&self) {\n";
    let found = entries_of("crates/highwater-core/src/lru/mod.rs", text);
    let [entry] = &found[..] else { panic!("one item") };
    assert_eq!(entry.names, ["new_name", "old_name"]);
    assert_eq!((entry.item.as_str(), entry.sentence.as_str()), ("Kernel::new_name", "Shrinks."));
    assert_eq!((entry.since.as_str(), entry.differs.as_str()), ("5.16 on", "less `Kernel::x`"));
    assert_eq!(module_of(&entry.file), "core/lru");
}
