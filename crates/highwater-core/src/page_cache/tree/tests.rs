//! A tree against a plain map.

use super::*;
use alloc::collections::BTreeMap;
use proptest::prelude::*;

/// The expected content of a tree: an entry and its marks by index.
#[derive(Default)]
struct Model {
    slots: BTreeMap<u32, (Entry, [bool; Mark::COUNT])>,
}

impl Model {
    fn is_page(&self, index: u32) -> bool {
        matches!(self.slots.get(&index), Some((Entry::Page(_), _)))
    }

    fn pages(&self) -> impl Iterator<Item = (u32, Pfn, [bool; Mark::COUNT])> {
        self.slots.iter().filter_map(|(&index, &(entry, marks))| match entry {
            Entry::Page(pfn) => Some((index, pfn, marks)),
            _ => None,
        })
    }

    fn shadow_only_nodes(&self) -> u64 {
        let mut nodes: BTreeMap<u32, bool> = BTreeMap::new();
        for (&index, &(entry, _)) in &self.slots {
            *nodes.entry(index / 64).or_insert(true) &= matches!(entry, Entry::Shadow(_));
        }
        nodes.values().filter(|&&only| only).count() as u64
    }
}

/// Stores, with memory for exactly the missing nodes; counts the objects that the tree has.
fn store(tree: &mut Tree, index: u32, entry: Entry, objects: &mut Vec<ObjectId>) -> Stored {
    let mut spare = Objects::default();
    for _ in 0..tree.nodes_missing(index) {
        let id = ObjectId(objects.iter().max().map_or(0, |id| id.0 + 1));
        objects.push(id);
        spare.push(id);
    }
    let mut stored = tree.store(index, entry, &mut spare);
    let is_stored = entry != Entry::Empty || stored.old != Entry::Empty;
    assert!(spare.is_empty() || !is_stored, "more memory than was needed");
    let mut freed = core::mem::take(&mut stored.freed);
    while let Some(id) = spare.pop().or_else(|| freed.pop()) {
        objects.retain(|&other| other != id);
    }
    stored
}

fn index() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..200, 4000u32..4200, 262_100u32..262_200, u32::MAX - 130..u32::MAX]
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        3 => (0u32..1 << 28).prop_map(|pfn| Entry::Page(Pfn(pfn))),
        2 => any::<u64>().prop_map(|shadow| Entry::Shadow(Shadow(shadow))),
        2 => Just(Entry::Empty),
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Store(u32, Entry),
    /// A shadow in place of the present page, or of a page that is not present.
    Evict(u32, u64, bool),
    Fill(u32, u32),
    Mark(u32, usize, bool),
    DropShadows(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (index(), entry()).prop_map(|(i, e)| Op::Store(i, e)),
        4 => (index(), any::<u64>(), prop::bool::weighted(0.9))
            .prop_map(|(i, shadow, is_there)| Op::Evict(i, shadow, is_there)),
        1 => (index(), 1u32..100).prop_map(|(i, n)| Op::Fill(i, n)),
        3 => (index(), 0..Mark::COUNT, any::<bool>()).prop_map(|(i, m, on)| Op::Mark(i, m, on)),
        1 => index().prop_map(Op::DropShadows),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_tree_is_a_map(ops in prop::collection::vec(op(), 1..150), probes in
        prop::collection::vec((index(), 1u32..100), 8)) {
        let (mut tree, mut model) = (Tree::default(), Model::default());
        let mut objects = Vec::new();
        for op in ops {
            match op {
                Op::Store(index, entry) => put(&mut tree, &mut model, &mut objects, index, entry),
                Op::Evict(index, shadow, is_there) => {
                    evict(&mut tree, &mut model, index, Shadow(shadow), is_there);
                }
                Op::Fill(from, nr) => {
                    for index in from..from.saturating_add(nr).min(u32::MAX - 1) {
                        let entry = Entry::Page(Pfn(index & 0xffff));
                        put(&mut tree, &mut model, &mut objects, index, entry);
                    }
                }
                Op::Mark(index, mark, on) => {
                    tree.mark(index, Mark::ALL[mark], on);
                    if let Some((Entry::Page(_), marks)) = model.slots.get_mut(&index) {
                        marks[mark] = on;
                    }
                }
                Op::DropShadows(index) => {
                    let info = tree.nodes().find(|node| node.number == index / 64);
                    let Some(info) = info else { continue };
                    prop_assert!(tree.drop_shadows(index, ObjectId(u32::MAX - 1)).is_none());
                    let freed = tree.drop_shadows(index, info.object);
                    prop_assert_eq!(freed.is_some(), info.nr_pages == 0);
                    if let Some(mut freed) = freed {
                        model.slots.retain(|&at, _| at / 64 != index / 64);
                        while let Some(id) = freed.pop() {
                            objects.retain(|&other| other != id);
                        }
                    }
                }
            }
        }
        compare(&tree, &model, &probes);
        prop_assert_eq!(tree.nr_objects(), objects.len() as u64);
        let all: Vec<u32> = model.slots.keys().copied().collect();
        for index in all {
            put(&mut tree, &mut model, &mut objects, index, Entry::Empty);
        }
        prop_assert!(objects.is_empty() && tree.chunks.is_empty(), "an empty tree has no nodes");
    }
}

fn put(tree: &mut Tree, model: &mut Model, objects: &mut Vec<ObjectId>, index: u32, entry: Entry) {
    let before = model.shadow_only_nodes();
    let stored = store(tree, index, entry, objects);
    let old = match entry {
        Entry::Empty => model.slots.remove(&index),
        _ => model.slots.insert(index, (entry, [false; Mark::COUNT])),
    };
    assert_eq!(stored.old, old.map_or(Entry::Empty, |(old, _)| old));
    let change = model.shadow_only_nodes() as i64 - before as i64;
    assert_eq!(stored.shadow_only.map_or(0, |(_, on)| if on { 1 } else { -1 }), change);
}

/// As [`put`] of a shadow if the page is present and unmarked; otherwise nothing happens.
fn evict(tree: &mut Tree, model: &mut Model, index: u32, shadow: Shadow, is_there: bool) {
    let before = model.shadow_only_nodes();
    let (found, is_marked) = match model.slots.get(&index) {
        Some(&(Entry::Page(pfn), marks)) => (Some(pfn), marks.contains(&true)),
        _ => (None, false),
    };
    let pfn = found.map_or(Pfn(index & 0xffff), |pfn| Pfn(pfn.0 ^ u32::from(!is_there)));
    let evicted = tree.evict(index, pfn, shadow);
    if found.is_none() || is_marked || !is_there {
        assert_eq!(evicted, None);
        return;
    }
    model.slots.insert(index, (Entry::Shadow(shadow), [false; Mark::COUNT]));
    let object = tree.nodes().find(|node| node.number == index / 64).map(|node| node.object);
    let is_shadow_only = model.shadow_only_nodes() > before;
    assert_eq!(evicted, Some(object.filter(|_| is_shadow_only)));
}

fn compare(tree: &Tree, model: &Model, probes: &[(u32, u32)]) {
    assert_eq!(tree.nr_pages(), model.pages().count() as u64);
    assert_eq!(tree.shadow_nodes(), model.shadow_only_nodes());
    let mut walked = Vec::new();
    tree.walk(0, u32::MAX, |index, pfn| {
        walked.push((index, pfn));
        true
    });
    assert!(walked.iter().copied().eq(model.pages().map(|(index, pfn, _)| (index, pfn))));
    for mark in Mark::ALL {
        let marked = model.pages().filter(|(.., marks)| marks[mark as usize]).count() as u64;
        assert_eq!((tree.nr_marked(mark), tree.any_marked(mark)), (marked, marked != 0));
    }
    for &(from, max) in probes {
        let expected = model.slots.get(&from).map_or(Entry::Empty, |slot| slot.0);
        assert_eq!(tree.get(from), expected);
        let next = model.pages().find(|page| page.0 >= from).map(|page| (page.0, page.1));
        assert_eq!(tree.next_page(from), next);
        for mark in Mark::ALL {
            let has = |page: &(u32, Pfn, [bool; Mark::COUNT])| page.2[mark as usize];
            let next = model.pages().find(|page| page.0 >= from && has(page));
            assert_eq!(tree.next_marked(from, mark), next.map(|page| (page.0, page.1)));
            let here = model.pages().any(|page| page.0 == from && has(&page));
            assert_eq!(tree.is_marked(from, mark), here);
        }
        let end = from.saturating_add(max);
        let missing = (from..end).find(|&index| !model.is_page(index));
        if end < u32::MAX {
            assert_eq!(tree.next_missing(from, max), missing);
        }
        let before = (0..from).rev().take(max as usize).take_while(|&i| model.is_page(i));
        assert_eq!(tree.run_before(from, max), before.count() as u32);
        let mut run = 0;
        tree.run(from, max, |index, _| {
            run += 1;
            index - from != 20
        });
        assert_eq!(run, (missing.unwrap_or(end) - from).min(21));
    }
}

#[test]
fn a_sparse_file_costs_what_it_holds() {
    let (mut tree, mut objects) = (Tree::default(), Vec::new());
    for index in [0, 1 << 30, u32::MAX - 1] {
        store(&mut tree, index, Entry::Page(Pfn(7)), &mut objects);
    }
    // One node for page 0; node, group's and chunk's for the others.
    assert_eq!((objects.len(), tree.chunks.len(), tree.nr_pages()), (7, 1 << 14, 3));
    assert_eq!(tree.next_page(1), Some((1 << 30, Pfn(7))));
}

#[test]
fn a_full_node_costs_less_than_five_bytes_a_page() {
    let group = size_of::<Group>() as f64 / 4096.0;
    assert!(size_of::<Node>() as f64 / 64.0 + group < 5.0);
}
