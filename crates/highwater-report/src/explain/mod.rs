//! Where the time of operations went: [`Explanation`]s as text, tables and folded stacks.
//!
//! Key functions: [`render`] (everything, in one of the four formats), [`tree`] (one operation and
//! why it was slow), [`bands`] (many operations, policy beside policy), [`locks`](mod@locks)
//! (lock_stat), [`folded`](mod@folded) (flame graphs). Times are exact wherever nanoseconds are
//! printed; rounded ones are rounded so that they add up.

pub mod bands;
pub(crate) mod figures;
pub mod folded;
pub mod glossary;
pub mod locks;
pub(crate) mod reasons;
pub mod tree;

use std::borrow::Cow;

use highwater_results::explain::{Cause, ExplainedRun, Explanation, Operation};
use serde::Serialize;

pub use figures::human;
pub use folded::folded;
use locks::Classes;
use tree::{TREE_WIDTH, folded as folded_words};

use crate::render::Format;
use crate::render::terminal::PAGE_WIDTH;
use crate::table::{Cell, Layout, Table};

/// An explanation as text that ends with a newline.
///
/// | format | is |
/// |---|---|
/// | terminal | the slowest operations of each policy as trees, then the tables |
/// | markdown | the same, trees as code blocks |
/// | JSON | the explanation itself |
/// | CSV | every cause of the slowest operations, of the bands and of the tasks; locks |
pub fn render(explanation: &Explanation, format: Format) -> String {
    render_in(explanation, format, None)
}

/// The same for a terminal of so many columns. Without one trees have 80, and tables those of a page.
pub fn render_in(explanation: &Explanation, format: Format, columns: Option<usize>) -> String {
    match format {
        Format::Terminal => text(explanation, columns),
        Format::Markdown => markdown(explanation),
        Format::Json => json(explanation),
        Format::Csv => format.renderer().tables(&rows(explanation)),
    }
}

/// An explanation as JSON.
pub fn json(explanation: &impl Serialize) -> String {
    // Only a map with keys that are not text can fail, and there is none.
    serde_json::to_string_pretty(explanation).unwrap_or_default() + "\n"
}

/// One policy on one machine with all its seeds.
struct Group<'a> {
    machine: &'a str,
    label: &'a str,
    runs: Vec<&'a ExplainedRun>,
}

/// Runs of each machine and policy, in order of first appearance.
fn groups(explanation: &Explanation) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &explanation.runs {
        let same =
            |group: &&mut Group<'_>| group.machine == run.machine && group.label == run.label;
        match groups.iter_mut().find(same) {
            Some(group) => group.runs.push(run),
            None => {
                groups.push(Group { machine: &run.machine, label: &run.label, runs: vec![run] })
            }
        }
    }
    groups
}

impl<'a> Group<'a> {
    /// The slowest operations of all seeds, each with its seed; as many as each seed kept.
    fn worst(&self) -> Vec<(u64, &'a Operation)> {
        let nr_kept = self.runs.iter().map(|run| run.worst.len()).max().unwrap_or(0);
        let of_run = |run: &&'a ExplainedRun| {
            let seed = run.seed;
            run.worst.iter().map(move |operation| (seed, operation))
        };
        let mut all: Vec<(u64, &Operation)> = self.runs.iter().flat_map(of_run).collect();
        all.sort_by_key(|(_, operation)| std::cmp::Reverse(operation.ns));
        all.truncate(nr_kept);
        all
    }

    /// Number of operations.
    fn nr_operations(&self) -> u64 {
        let bands = self.runs.iter().flat_map(|run| &run.bands);
        bands.filter(|band| band.from == 0.0 && band.to == 100.0).map(|band| band.count).sum()
    }

    fn heading(&self, nr_worst: usize) -> String {
        let of = match self.nr_operations() {
            0 => String::new(),
            1 => " of 1 operation".to_owned(),
            all => format!(" of {} operations", figures::grouped(all)),
        };
        let seeds: Vec<String> = self.runs.iter().map(|run| run.seed.to_string()).collect();
        let word = if seeds.len() == 1 { "seed" } else { "seeds" };
        let (label, machine, seeds) = (self.label, self.machine, seeds.join(", "));
        if nr_worst == 0 {
            return format!("{label} on {machine}, {word} {seeds}: no operation was timed");
        }
        format!("{label} on {machine}, {word} {seeds}: the slowest {nr_worst}{of}")
    }

    /// The operations as text, with their seeds if there are several.
    fn trees(&self, width: usize) -> Vec<String> {
        let is_one = self.runs.len() == 1;
        let text = |(at, (seed, operation)): (usize, (u64, &Operation))| {
            tree::operation(at + 1, operation, (!is_one).then_some(seed), width)
        };
        self.worst().into_iter().enumerate().map(text).collect()
    }

    /// The sum of all seeds, without the slowest operations.
    fn sum(&self) -> Cow<'a, ExplainedRun> {
        let [first, others @ ..] = self.runs.as_slice() else {
            return Cow::Owned(ExplainedRun::default());
        };
        if others.is_empty() {
            return Cow::Borrowed(first);
        }
        let mut sum = ExplainedRun::default();
        for run in &self.runs {
            let ExplainedRun { bands, tasks, locks, .. } = run;
            let (bands, tasks, locks) = (bands.clone(), tasks.clone(), locks.clone());
            sum.merge(ExplainedRun { bands, tasks, locks, ..ExplainedRun::default() });
        }
        Cow::Owned(sum)
    }
}

/// A column of a machine's tables: a policy's heading, and its run or the sum of all its seeds.
pub type Column<'a> = (String, Cow<'a, ExplainedRun>);

/// Groups of one machine as columns.
fn by_machine<'a>(groups: &'a [Group<'a>]) -> Vec<(&'a str, Vec<Column<'a>>)> {
    let mut machines: Vec<(&str, Vec<Column<'_>>)> = Vec::new();
    for group in groups {
        let column = (group.label.to_owned(), group.sum());
        match machines.iter_mut().find(|(machine, _)| *machine == group.machine) {
            Some((_, columns)) => columns.push(column),
            None => machines.push((group.machine, vec![column])),
        }
    }
    machines
}

/// The tables of every machine.
fn tables(explanation: &Explanation, groups: &[Group<'_>]) -> Vec<Table> {
    let machines = by_machine(groups);
    let nr_seeds = groups.iter().map(|group| group.runs.len()).max().unwrap_or(0);
    // In virtual time an uncontended lock always has the same cost, so only contended classes are
    // shown. In real time all classes are measured.
    let classes = if explanation.host == "sim" { Classes::Waited } else { Classes::Taken };
    let mut tables = Vec::new();
    for (machine, columns) in &machines {
        let mut of_machine = bands::operations(columns);
        if nr_seeds > 1 {
            let note = format!(
                "{nr_seeds} seeds: each has its own percentiles; a band is the sum of theirs"
            );
            of_machine.iter_mut().for_each(|table| table.notes.push(note.clone()));
        }
        of_machine.extend(bands::tasks(columns));
        of_machine.extend(locks::locks(columns, classes));
        if machines.len() > 1 {
            of_machine
                .iter_mut()
                .for_each(|table| table.title = format!("{machine}: {}", table.title));
        }
        tables.extend(of_machine);
    }
    tables
}

fn title(explanation: &Explanation) -> String {
    let Explanation { experiment, host, .. } = explanation;
    format!("{experiment} ({host}): where the time of the slowest operations went")
}

/// Settings that were changed for this run alone, worded as in other reports.
fn settings(explanation: &Explanation) -> Option<String> {
    let said = explanation.settings.join(" ");
    (!said.is_empty()).then(|| format!("set for this run: {said}"))
}

fn text(explanation: &Explanation, columns: Option<usize>) -> String {
    let width = columns.unwrap_or(TREE_WIDTH);
    let groups = groups(explanation);
    let mut text = folded_words("", "  ", &title(explanation), ": ", width);
    if let Some(set) = settings(explanation) {
        text += &folded_words("# ", "#  ", &set, ": ", width);
    }
    text.push('\n');
    for group in &groups {
        let trees = group.trees(width);
        text += &folded_words("== ", "   ", &group.heading(trees.len()), ", ", width);
        text.push('\n');
        for tree in trees {
            text += &tree;
            text.push('\n');
        }
    }
    let tables = tables(explanation, &groups);
    text += &Format::Terminal.tables(&tables, columns.unwrap_or(PAGE_WIDTH));
    // A name may be broken between its words.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = glossary::glossary(explanation, |word| flat.contains(word), width);
    if words.is_empty() { text } else { format!("{text}\n{words}") }
}

fn markdown(explanation: &Explanation) -> String {
    let groups = groups(explanation);
    let mut text = format!("## {}\n\n", title(explanation));
    if let Some(set) = settings(explanation) {
        text += &format!("{set}\n\n");
    }
    for group in &groups {
        let trees = group.trees(TREE_WIDTH);
        text +=
            &format!("### {}\n\n```text\n{}```\n\n", group.heading(trees.len()), trees.join("\n"));
    }
    text + &Format::Markdown.renderer().tables(&tables(explanation, &groups))
}

/// Every cause as a row.
fn rows(explanation: &Explanation) -> Vec<Table> {
    let columns = || ["ns", "times"].map(str::to_owned).to_vec();
    let mut worst = Table::new(
        "slowest operations",
        &["machine", "policy", "seed", "rank", "operation", "task", "start ns", "cause"],
        columns(),
        Layout::Fitted,
    );
    let mut bands = Table::new(
        "bands",
        &["machine", "policy", "seed", "operation", "from", "to", "count", "cause"],
        columns(),
        Layout::Fitted,
    );
    let mut tasks = Table::new(
        "tasks",
        &["machine", "policy", "seed", "kind", "count", "cause"],
        columns(),
        Layout::Fitted,
    );
    for run in &explanation.runs {
        let seed = run.seed.to_string();
        let of_run = [run.machine.as_str(), run.label.as_str(), seed.as_str()];
        for (at, op) in run.worst.iter().enumerate() {
            let (rank, start) = ((at + 1).to_string(), op.start_ns.to_string());
            paths(&op.causes, "", &mut |path, cause| {
                let labels = [rank.as_str(), &op.name, &op.task, &start, path];
                worst.push(&[&of_run[..], &labels].concat(), numbers(cause));
            });
        }
        for band in &run.bands {
            let (from, to) = (band.from.to_string(), band.to.to_string());
            let count = band.count.to_string();
            paths(&band.causes, "", &mut |path, cause| {
                let labels = [band.operation.as_str(), &from, &to, &count, path];
                bands.push(&[&of_run[..], &labels].concat(), numbers(cause));
            });
        }
        for task in &run.tasks {
            let count = task.count.to_string();
            paths(&task.causes, "", &mut |path, cause| {
                let labels = [task.kind.as_str(), &count, path];
                tasks.push(&[&of_run[..], &labels].concat(), numbers(cause));
            });
        }
    }
    vec![worst, bands, tasks, locks::rows(explanation)]
}

fn numbers(cause: &Cause) -> Vec<Cell> {
    // Rows hold whole numbers below 2^53 exactly: a hundred days of nanoseconds.
    vec![Cell::number(cause.ns as f64, 0), Cell::number(cause.count as f64, 0)]
}

/// Every node with its path: `mmap-48 > page fault > running`.
fn paths(cause: &Cause, above: &str, at: &mut dyn FnMut(&str, &Cause)) {
    let path =
        if above.is_empty() { cause.name.clone() } else { format!("{above} > {}", cause.name) };
    at(&path, cause);
    cause.children.iter().for_each(|child| paths(child, &path, at));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use highwater_results::explain::{Band, Chain, EXPLAIN_SCHEMA, Link, LockRow, TaskTime};

    pub(crate) fn leaf(name: &str, ns: u64, count: u64) -> Cause {
        Cause { ns, count, ..Cause::new(name) }
    }

    pub(crate) fn cause(name: &str, count: u64, children: Vec<Cause>) -> Cause {
        let ns = children.iter().map(|child| child.ns).sum();
        Cause { name: name.to_owned(), ns, count, children }
    }

    /// An operation with something of everything.
    pub(crate) fn mmap() -> Operation {
        let reclaim = cause(
            "direct reclaim",
            120,
            vec![
                cause("throttle", 12, vec![leaf("throttled: no progress", 2_828_000_000, 12)]),
                cause(
                    "inactive list",
                    440,
                    vec![
                        leaf("running", 77_000_000, 440),
                        cause("lock lru", 31, vec![leaf("running", 20_000_000, 31)]),
                    ],
                ),
                leaf("running", 74_456_789, 120),
            ],
        );
        let fault = cause(
            "page fault",
            32_768,
            vec![
                leaf("waiting for a CPU", 114_000_000, 9),
                cause("slow allocation", 120, vec![reclaim]),
            ],
        );
        let causes = cause(
            "mmap-48",
            1,
            vec![
                leaf("waiting for a CPU", 78_900_000, 4),
                leaf("interrupts", 11_000_000, 300),
                leaf("timer ticks", 10_100_000, 800),
                fault,
            ],
        );
        let link = |how: &str, task: &str, doing: &str| Link {
            how: how.to_owned(),
            task: task.to_owned(),
            doing: doing.to_owned(),
        };
        Operation {
            name: "mmap-48".to_owned(),
            task: "latency".to_owned(),
            start_ns: 12_345_000_000,
            ns: causes.ns,
            causes,
            waits: 36,
            chains: [(13_000_000_000, 1_200_000_000), (14_500_000_000, 900_000_000)]
                .map(|(start_ns, ns)| Chain {
                    start_ns,
                    ns,
                    what: "throttled: no progress".to_owned(),
                    links: vec![
                        link("woken by", "kswapd0", "balance node > inactive list"),
                        link("held by", "hog/3", ""),
                    ],
                    is_cut: false,
                })
                .to_vec(),
        }
    }

    pub(crate) fn explanation() -> Explanation {
        let causes = |throttled: u64, running: u64| {
            let fault = vec![
                leaf("throttled: no progress", throttled * 1_000_000, 1),
                leaf("running", running * 1_000_000, 1),
            ];
            cause("mmap-48", 1, vec![cause("page fault", 1, fault)])
        };
        let band = |from: f64, count: u64, causes: Cause| Band {
            operation: "mmap-48".to_owned(),
            from,
            to: 100.0,
            count,
            causes,
        };
        let lock =
            |class: &str, taken: u64, contended: u64, wait: [u64; 2], hold: [u64; 2]| LockRow {
                class: class.to_owned(),
                taken,
                contended,
                wait_ns: wait[0],
                wait_ns_max: wait[1],
                hold_ns: hold[0],
                hold_ns_max: hold[1],
                worst_holder: String::new(),
            };
        let mut lru = lock("lru", 400, 100, [5_000_000, 900_000], [8_000_000, 950_000]);
        lru.worst_holder = "kswapd0 in node pass > isolate".to_owned();
        let run = |label: &str, worst: Vec<Operation>, bands: Vec<Band>| ExplainedRun {
            machine: "server".to_owned(),
            policy: label.to_owned(),
            label: label.to_owned(),
            seed: 1,
            worst,
            bands,
            tasks: vec![
                TaskTime {
                    kind: "hog".to_owned(),
                    count: 24,
                    causes: cause("hog", 24, vec![leaf("running", 9_000_000_000, 1)]),
                },
                TaskTime {
                    kind: "kswapd".to_owned(),
                    count: 1,
                    causes: cause("kswapd", 1, vec![leaf("sleeping", 5_000_000_000, 1)]),
                },
            ],
            locks: vec![
                lock("zone", 1000, 10, [50_000, 12_000], [2_000_000, 30_000]),
                lru.clone(),
                lock("i_pages", 5, 0, [0, 0], [100, 50]),
            ],
        };
        Explanation {
            schema: EXPLAIN_SCHEMA.to_owned(),
            version: "0.1.0".to_owned(),
            experiment: "001-reclaim-throttle".to_owned(),
            command_line: vec!["highwater".to_owned(), "explain".to_owned(), "001".to_owned()],
            host: "sim".to_owned(),
            seed: 1,
            settings: Vec::new(),
            machines: Vec::new(),
            policies: Vec::new(),
            runs: vec![
                run(
                    "6.1-before",
                    vec![mmap()],
                    vec![band(0.0, 200, causes(4000, 2000)), band(99.0, 2, causes(1980, 20))],
                ),
                run(
                    "6.1-after",
                    Vec::new(),
                    vec![band(0.0, 100, causes(250, 750)), band(99.0, 1, causes(90, 10))],
                ),
            ],
        }
    }

    #[test]
    fn everything_in_every_format() {
        let explanation = explanation();
        assert_eq!(explanation.validate(), Ok(()));
        let text = render(&explanation, Format::Terminal);
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("==")).collect();
        assert_eq!(
            heads,
            [
                "== 6.1-before on server, seed 1: the slowest 1 of 200 operations",
                "== 6.1-after on server, seed 1: no operation was timed"
            ]
        );
        for part in ["1. mmap-48 by latency", "mmap-48: where", "what tasks did", "locks (us)"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let markdown = render(&explanation, Format::Markdown);
        assert_eq!(markdown.matches("```").count(), 4, "{markdown}");
        let back: Explanation = serde_json::from_str(&render(&explanation, Format::Json)).unwrap();
        assert_eq!(back, explanation);
        let csv = render(&explanation, Format::Csv);
        let row = "slowest operations,server 6.1-before 1 1 mmap-48 latency 12345000000 \
                   mmap-48 > page fault > waiting for a CPU,ns,114000000,,,,,\n";
        assert!(csv.contains(row), "{csv}");
        let row = "locks,server 6.1-after 1 i_pages,hold ns,100,,,,,\n";
        assert!(csv.contains(row), "{csv}");
    }

    #[test]
    fn seeds_of_one_policy_are_one_group() {
        let mut explanation = explanation();
        let mut other = explanation.runs[0].clone();
        other.seed = 2;
        other.worst[0].ns += 1;
        other.worst[0].causes.ns += 1;
        explanation.runs.push(other);
        let groups = groups(&explanation);
        assert_eq!(groups.len(), 2);
        let worst = groups[0].worst();
        assert_eq!(worst.len(), 1, "as many as each seed kept");
        assert_eq!((worst[0].0, worst[0].1.ns), (2, mmap().ns + 1));
        assert!(groups[0].heading(1).contains("seeds 1, 2: the slowest 1 of 400"));
        assert!(
            groups[0].trees(TREE_WIDTH)[0]
                .starts_with("1. mmap-48 by latency with seed 2, 12.3 s after")
        );
        let sum = groups[0].sum();
        assert_eq!((sum.bands[0].count, sum.locks[1].taken, sum.tasks[0].count), (400, 800, 48));
        let tables = tables(&explanation, &groups);
        assert_eq!(tables[0].notes.len(), 1);
    }
}
