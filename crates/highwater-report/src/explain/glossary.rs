//! Meanings of causes, for readers who do not know the kernel by heart.
//!
//! Causes are looked up by name; a name without an entry gets no explanation.

use std::collections::BTreeSet;

use highwater_results::explain::{Cause, Explanation};

use super::tree::folded;

/// Narrower meanings stand below their words, not beside them.
const MEANING_MIN: usize = 30;

/// The beginning of a cause's name, and its meaning.
const WORDS: &[(&str, &str)] = &[
    ("slow allocation", "no free page above the watermark: the task has to find one itself"),
    ("direct reclaim", "the allocating task frees pages of others before it gets its own"),
    ("node reclaim", "the same, on one node only"),
    (
        "reclaim for the limit",
        "the memory cgroup is at its memory.max: the task that charges it frees pages of the group",
    ),
    ("group reclaim", "the task frees pages of the memory cgroup"),
    (
        "memory.high",
        "the memory cgroup is above it: the task that charges it frees pages of the group, or sleeps",
    ),
    ("balance node", "kswapd frees pages ahead of need"),
    ("inactive list", "pages at the end of their list are looked at one by one"),
    ("active list", "pages used lately move towards the inactive list"),
    ("isolate", "pages are taken off their list, under the list's lock"),
    ("page out", "a dirty page is written so that it can be freed"),
    ("try to unmap", "a page is taken out of every page table that maps it"),
    ("shrink slab", "kernel objects are asked to go"),
    ("balance dirty pages", "a writer pauses because too much is dirty"),
    ("drain", "pages gathered per CPU go where they belong"),
    ("throttled: dirty pages", "the writer's pause: the disk writes less than it dirties"),
    (
        "throttled: writeback of pages",
        "reclaim met only pages that are being written; it sleeps until some are done",
    ),
    (
        "throttled: isolated pages (fixed time)",
        "too many pages are isolated already; it sleeps for a fixed time",
    ),
    (
        "throttled: isolated pages",
        "too many pages are isolated already; it sleeps until some are back",
    ),
    (
        "throttled: progress of reclaim",
        "reclaim made no progress; it sleeps until another task makes some",
    ),
    (
        "throttled: congestion of reclaim",
        "all dirty pages met were being written already; it sleeps a tick",
    ),
    (
        "throttled: congestion of devices",
        "it sleeps until a disk says that it is less busy, which new ones never do",
    ),
    (
        "throttled: reserves",
        "free memory is so low that only reclaim itself may have more; it sleeps until kswapd has freed some",
    ),
    (
        "throttled: memory.high",
        "reclaim did not bring the group below it; the longer it is over, the longer the task sleeps",
    ),
    ("waiting: a request tag", "the disk's queue is full"),
    ("waiting: writes in flight", "the disk has as many writes as it is given at once"),
    ("waiting: memory for a bio", "the write itself needs a page of memory, and none is free"),
    (
        "waiting: a page's input, in the device's queue",
        "a page is to be read, and the device serves others before it",
    ),
    ("waiting: a page's input, served by the device", "the device is reading the page"),
    ("waiting: a page's input", "a page is being read"),
    (
        "waiting: a page's writeback, in the device's queue",
        "a page is to be written, and the device serves others before it",
    ),
    ("waiting: a page's writeback, served by the device", "the device is writing the page"),
    ("waiting: a page's writeback", "a page is being written"),
    ("waiting: a page lock", "another task has the page locked"),
    ("waiting for the OOM killer", "another task runs the OOM killer; it tries again after a tick"),
    ("waiting: a file", "another task writes the file"),
    ("spin on owner", "a lock's owner runs and will leave soon; the task keeps its CPU until then"),
    ("waiting for a CPU", "it could run, but the CPU has another task"),
    (
        "waiting for other CPUs",
        "they were asked to forget page table entries and have not said so yet",
    ),
    ("lock lruvec->lru_lock", "the lock of a node's page lists"),
    ("lock zone->lock", "the lock of a zone's free pages"),
    ("lock pcp->lock", "the lock of a CPU's own free pages"),
    ("lock ptlock", "the lock of one page table"),
    ("lock xa_lock", "the lock of a file's pages"),
    ("lock swap_info->lock", "the lock of a swap area's slots"),
    ("lock lru_pvecs->lock", "the lock of a CPU's pages on their way to the lists"),
];

/// Beginnings of the names of all causes that are explained.
pub fn words() -> impl Iterator<Item = &'static str> {
    WORDS.iter().map(|&(word, _)| word)
}

/// Meanings of the causes of the slowest operations, as far as the text of an explanation shows
/// them, in lines of this width; empty without any.
pub(super) fn glossary(
    explanation: &Explanation,
    is_shown: impl Fn(&str) -> bool,
    width: usize,
) -> String {
    let mut names = BTreeSet::new();
    for operation in explanation.runs.iter().flat_map(|run| &run.worst) {
        collect(&operation.causes, &mut names);
    }
    let of_name = |name: &&str| WORDS.iter().position(|(word, _)| name.starts_with(word));
    let there: BTreeSet<usize> = names.iter().filter_map(of_name).collect();
    let used: Vec<_> =
        there.into_iter().map(|at| WORDS[at]).filter(|(word, _)| is_shown(word)).collect();
    let widest = used.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
    let further = " ".repeat(widest + 4);
    let has_room = width >= further.len() + MEANING_MIN;
    let line = |(word, meaning): &(&str, &str)| {
        if has_room {
            folded(&format!("  {word:widest$}  "), &further, meaning, ", ", width)
        } else {
            let word = folded("  ", "  ", word, ", ", width);
            word + &folded("      ", "      ", meaning, ", ", width)
        }
    };
    let lines: String = used.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("in other words\n{lines}") }
}

fn collect<'a>(cause: &'a Cause, names: &mut BTreeSet<&'a str>) {
    names.insert(&cause.name);
    cause.children.iter().for_each(|child| collect(child, names));
}

#[cfg(test)]
mod tests {
    use super::super::tests::explanation;
    use super::*;

    #[test]
    fn only_what_is_shown_is_explained() {
        let all = glossary(&explanation(), |_| true, 120);
        let words: Vec<&str> =
            all.lines().map(|line| line.split("  ").nth(1).unwrap_or("")).collect();
        assert_eq!(
            words[1..],
            ["slow allocation", "direct reclaim", "inactive list", "waiting for a CPU"]
        );
        assert_eq!(glossary(&explanation(), |_| false, 120), "");
    }

    #[test]
    fn on_a_narrow_page_meanings_stand_below_their_words() {
        let narrow = glossary(&explanation(), |_| true, 48);
        assert!(narrow.lines().all(|line| line.chars().count() <= 48), "{narrow}");
        let first = "  slow allocation\n      no free page above the watermark: the task\n";
        assert!(narrow.contains(first), "{narrow}");
    }

    #[test]
    fn no_word_hides_another() {
        for (at, (word, _)) in WORDS.iter().enumerate() {
            let twice = WORDS[at + 1..].iter().any(|(other, _)| other.starts_with(word));
            assert!(!twice, "{word}");
        }
    }
}
