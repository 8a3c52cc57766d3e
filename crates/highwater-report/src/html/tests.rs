//! A page is complete, says what its document says, and escapes every name.

use highwater_results::column::{Kind, Owner, Unit};
use highwater_results::explain::{Cause, EXPLAIN_SCHEMA, ExplainedRun, Explanation, Operation};
use highwater_results::pageblocks::{BlockMaps, MappedZone};
use highwater_results::{
    Better, Column, Document, EndedEarly, Metric, Run, RunSeries, Section, SeedTotals, Series,
    TableKind,
};

use super::*;

const EVIL: &str = "<script>alert(1)</script>";

fn document() -> Document {
    let mut document = Document::new("0.1.0", "x", "sim", 1);
    document.iterations = 2;
    "What it is about".clone_into(&mut document.title);
    document.metrics.push(Metric::new("latency", "ms", Better::Lower, TableKind::VariableTime));
    document.sections = vec![
        Section::Comparison { metric: "latency".into(), rows: Vec::new(), style: String::new() },
        Section::Duration,
    ];
    for machine in ["m", EVIL] {
        for (policy, factor) in [("before", 1.0), ("after", 0.01)] {
            let mut run = Run::new(machine, policy, policy);
            run.seeds = vec![1, 2];
            for seed in [1, 2] {
                (1..=50).for_each(|n| run.push("mmap-4", 0, seed, factor * f64::from(n)));
            }
            document.runs.push(run);
        }
    }
    document
}

fn series(label: &str, part: &str) -> RunSeries {
    let zone = |what, unit, kind| {
        let of = Owner::Zone { node: 0, zone: "Normal".to_owned() };
        Column::new(of, what, unit, kind)
    };
    let columns = vec![
        Column::new(Owner::Machine, "nr_free_pages", Unit::Pages, Kind::Level),
        Column::new(Owner::Machine, "pgscan_kswapd", Unit::Pages, Kind::Total),
        zone("low", Unit::Pages, Kind::Limit),
        zone("order0", Unit::Blocks { order: 0 }, Kind::Level),
        zone("order9", Unit::Blocks { order: 9 }, Kind::Level),
    ];
    let mut series = Series::new(columns);
    part.clone_into(&mut series.part);
    (0..10).for_each(|at| series.push(at * 1_000_000_000, [1024, 1000 * at, 256, 512, 1]));
    let [machine, label, policy] = ["m", label, label].map(str::to_owned);
    RunSeries { machine, policy, label, seed: 1, series }
}

fn maps() -> Vec<RunMaps> {
    let zone = MappedZone { name: EVIL.into(), first_pfn: 0, blocks_per_cell: 1 };
    let moments = (0..4).map(|at| (at * 1_000_000_000, vec!["fMMxU-".to_owned()])).collect();
    let maps = BlockMaps { part: "mmap-4".into(), zones: vec![zone], moments };
    let [machine, label, policy] = ["m", EVIL, "before"].map(str::to_owned);
    vec![RunMaps { machine, policy, label, seed: 1, maps }]
}

fn ages() -> Vec<RunSeries> {
    let mut series = Series::new(vec![Column::aged(0, "inactive_anon", 0)]);
    "mmap-4".clone_into(&mut series.part);
    series.push(0, [512]);
    vec![RunSeries { series, ..self::series(EVIL, "mmap-4") }]
}

fn explanation() -> Explanation {
    let leaf = |name: &str, ns| Cause { ns, count: 1, ..Cause::new(name) };
    let causes = Cause {
        ns: 10_000_000,
        count: 1,
        children: vec![leaf("throttled: no progress", 9_000_000), leaf("running", 1_000_000)],
        ..Cause::new("mmap-4")
    };
    let operation =
        Operation { name: "mmap-4".into(), ns: causes.ns, causes, ..Operation::default() };
    let run = ExplainedRun {
        machine: "m".into(),
        label: "before".into(),
        worst: vec![operation],
        ..ExplainedRun::default()
    };
    Explanation {
        schema: EXPLAIN_SCHEMA.into(),
        version: String::new(),
        experiment: "x".into(),
        command_line: Vec::new(),
        host: "sim".into(),
        seed: 1,
        settings: Vec::new(),
        machines: Vec::new(),
        policies: Vec::new(),
        runs: vec![run],
    }
}

/// A checksum by FNV-1a.
fn sum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn a_page_has_everything_and_asks_for_nothing() {
    let (document, explanation) = (document(), explanation());
    let series =
        [series("before", "mmap-4"), series("after", "mmap-4"), series("before", "mmap-5")];
    let story =
        Story { series: &series, explanation: Some(&explanation), maps: &maps(), ages: &ages() };
    let page = super::page(&document, story).unwrap();
    assert_eq!(page, super::page(&document, story).unwrap());
    let outside =
        ["src=\"http", "href=\"http", "src=//", "@import", "url(http", " onclick=", " onload="];
    for load in outside {
        assert!(!page.contains(load), "{load}");
    }
    let texts = [
        "What it is about",
        "after on m, latency: mmap-4 better x100",
        "2 seeds: intervals of so few are too narrow",
        "throttled: no progress",
        "<option value=\"1\">mmap-5</option>",
        "Free memory in blocks below a huge page",
        "low watermark",
        "class=\"memory\"",
        "Pageblocks by what is in them",
        "data-file=\"latency-on-m-ms-lower-is-better.csv\"",
    ];
    for text in texts {
        assert!(page.contains(text), "{text}");
    }
    // Every drawing has a text for screen readers and a table.
    assert_eq!(page.matches("<figure").count(), page.matches("role=\"img\"").count());
    assert!(page.matches("The numbers").count() >= page.matches("<figure").count());
}

/// Colours follow the judgement of a row and not its words: whatever the words are, the classes are
/// the same.
#[test]
fn renamed_words_keep_their_colours() {
    let mut verdict = report::verdicts(&document()).unwrap().remove(0);
    let classes = |table: &Table| -> Vec<&str> {
        headlines(table, Vec::new()).iter().map(|line| line.class).collect()
    };
    let before = classes(&verdict);
    assert!(before.contains(&"good"), "{verdict:?}");
    for row in &mut verdict.rows {
        row.cells[1] = Cell::text("worse, in other words");
        row.cells[2] = Cell::Missing;
    }
    assert_eq!(classes(&verdict), before);
    let lines = headlines(&verdict, vec!["published".to_owned()]);
    assert!(lines[0].text.ends_with("worse, in other words"), "{}", lines[0].text);
    for (judged, expected) in [
        (Some(Judgement::Worse), "bad"),
        (Some(Judgement::Better), "good"),
        (Some(Judgement::More), ""),
        (Some(Judgement::Same), ""),
        (None, ""),
    ] {
        verdict.rows[0].judged = judged;
        assert_eq!(classes(&verdict)[0], expected, "{judged:?}");
    }
}

#[test]
fn names_are_words_and_never_markup() {
    let mut document = document();
    document.command_line = vec![EVIL.to_owned()];
    document.runs[0].notes.push(EVIL.to_owned());
    let mut evil = series("before", "");
    EVIL.clone_into(&mut evil.machine);
    EVIL.clone_into(&mut evil.label);
    let page = super::page(&document, Story { series: &[evil], ..Story::default() }).unwrap();
    assert!(!page.contains(EVIL) && page.contains("&lt;script&gt;alert(1)"));
    assert!(page.contains("\\u003cscript>alert(1)"), "in the charts' data");
}

#[test]
fn what_is_not_there_is_told() {
    let page = super::page(&document(), Story::default()).unwrap();
    assert!(page.contains("No counters over time lie beside these results"));
    assert!(page.contains("highwater explain x"));
    assert!(!page.contains("class=\"timeline\"") && !page.contains("class=\"bars\""));
    let mut alone = document();
    alone.runs.truncate(1);
    let page = super::page(&alone, Story::default()).unwrap();
    assert!(page.contains("One policy was run: there is nothing to compare."));
}

/// Tasks that ended early stand above the verdict, whose sentences stay its own.
#[test]
fn the_dead_stand_above_the_verdict() {
    let mut document = document();
    let early = EndedEarly { task: "leaker".to_owned(), killed: 2, ..EndedEarly::default() };
    let totals = SeedTotals { ended_early: vec![early], ..SeedTotals::default() };
    document.runs[0].per_seed = vec![totals];
    let text = page(&document, Story::default()).unwrap();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(at("Tasks that ended early") < at("<h2>Verdict</h2>"));
    assert!(text.contains("after on m, latency: mmap-4 better"), "{text}");
    assert!(!text.contains("leaker:"), "no sentence about it");
}

#[test]
fn what_is_of_others_is_as_they_made_it() {
    let sums = [CHART_SCRIPT, CHART_STYLE].map(sum);
    assert_eq!(sums, [0xe36e_4ba6_4a14_0428, 0xf22a_dd10_2039_a00b], "uPlot 1.6.32");
    assert!(include_str!("assets/uplot/LICENSE").contains("MIT"));
}

#[test]
fn a_fragment_has_the_tables_and_escapes_every_name() {
    let document = document();
    let mut tables = report::verdicts(&document).unwrap();
    let mut marked = Table::new("Changes", &["x"], vec!["v".into()], crate::Layout::Fitted);
    let (value, percent) = (1.5, Some(10.0));
    let change = Cell::Change { value, decimals: 1, percent, significant: true, told: None };
    marked.push(&["a"], vec![change]);
    tables.push(marked);
    let text = fragment(&tables, ("All of it", EVIL)).unwrap();
    assert!(text.starts_with("<div class=\"highwater\">") && !text.contains("<script"), "{text}");
    assert!(text.contains("<summary>All of it</summary>") && text.contains("class=\"good\""));
    assert!(!fragment(&tables, ("", "")).unwrap().contains("<details>"));
}
