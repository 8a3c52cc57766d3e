//! What figures are made of: results of a command, and what was published.
//!
//! | of `compare` | is |
//! |---|---|
//! | `mean(RUN, OPERATION)`, `hmean`, `min`, `max`, `percentile90`, `count` | of the samples of all seeds |
//! | `max_2015(RUN, OPERATION, N)`, `best_2015` | `Max-N%` and `BestN%Mean` as the reports of 2015 have them |
//! | `seed_max(RUN, OPERATION)` | the mean of the seeds' largest samples |
//! | `counter(RUN, NAME)`, `time(RUN, user / system / elapsed)` | summed over the seeds; seconds |
//! | `of_seed(RUN, NAME)` | a counter, the mean of the seeds |
//! | `stalls(RUN, WHO, EVENT, REASON)`, `at_once`, `in_full`, `stall_ms` | throttled waits: how many, and in percent; their mean |
//! | `used(RUN, N)`, `blocks(RUN)` | uses of the Nth hottest block, different blocks |
//! | `claims(MACHINE, CLASS)`, `judged(MACHINE)` | published claims of a class; those that are judged |
//! | `signs(MACHINE, TABLE)`, `marked(TABLE)` | changes of means published as significant: that have our sign; all |
//!
//! | of `check` | is |
//! |---|---|
//! | `figures(KIND)`, `agreeing(KIND)`, `files(KIND)` | how many there are of a kind of file |
//! | `differing(NAME)` | how many figures differ whose name has this in it |
//! | `linux(FILE, FIGURE)`, `model(FILE, FIGURE)` | one figure; also one that is only reported |
//!
//! | of `replay` | is |
//! |---|---|
//! | `traced(WHAT)`, `replayed(POLICY, WHAT)` | `refills`, `drains`, `hottest` (uses of the block), `blocks` of order 2 |
//! | `off(POLICY)` | how far refills, drains and hottest block are from the trace's at most, in percent |
//!
//! | always | is |
//! |---|---|
//! | `published(TABLE, ROW, COLUMN)`, `published_change` | the value, or the percentage, of a published table |
//! | `published_stalls(HISTOGRAM)`, `_at_once`, `_in_full`, `_stall_ms` | as `stalls`, of a published histogram |
//! | `published_used(HISTOGRAM, N)` | as `used` |
//! | `instructions(LOOP)` | on record, for a unit of its work (`record/instructions.toml`) |

use std::collections::BTreeMap;
use std::fs;

use highwater_report::claims::{self, Claim};
use highwater_report::repeats::Class;
use highwater_report::stats::Sorted;
use highwater_report::stats::quantile::{best_mean_2015, percentile, percentile_2015};
use highwater_report::stats::summary::{amean, hmean};
use highwater_results::{Better, Document, Histogram, Published, Run, Stall};
use serde_json::Value;

use crate::root;

/// Where figures are taken from.
pub(crate) enum Source {
    /// The results of `compare`.
    Compared(Box<Document>),
    /// What `check` printed as JSON.
    Checked(Value),
    /// What `replay` printed as JSON.
    Replayed(Value),
    /// Nothing but what was published.
    Published,
}

/// A source, and short names of its runs: `MACHINE/POLICY`.
pub(crate) struct Values<'a> {
    pub(crate) source: &'a Source,
    pub(crate) runs: &'a BTreeMap<String, String>,
    pub(crate) published: &'a Published,
}

/// The value, or the error that there is none.
fn there<T>(value: Option<T>, what: &[&str]) -> Result<T, String> {
    value.ok_or_else(|| format!("there is no {}", what.join(", ")))
}

/// What a loop takes, as the guard has it.
fn on_record(a_loop: &str) -> Option<f64> {
    let text = fs::read_to_string(root().join("record/instructions.toml")).ok()?;
    let record: toml::Table = text.parse().ok()?;
    record.get("loop")?.get(a_loop)?.get("instructions")?.as_float()
}

impl Values<'_> {
    /// The value of a function.
    pub(crate) fn get(&self, name: &str, arguments: &[&str]) -> Result<f64, String> {
        if let ("instructions", [a_loop]) = (name, arguments) {
            return there(on_record(a_loop), arguments);
        }
        if let Some(value) = self.of_published(name, arguments) {
            return there(value, arguments);
        }
        let value = match self.source {
            Source::Compared(document) => self.of_compared(document, name, arguments)?,
            Source::Checked(check) => of_checked(check, name, arguments),
            Source::Replayed(replay) => of_replayed(replay, name, arguments),
            Source::Published => return Err(format!("no function {name}")),
        };
        there(value, &[&[name][..], arguments].concat())
    }

    /// None if it is no function of what was published.
    fn of_published(&self, name: &str, arguments: &[&str]) -> Option<Option<f64>> {
        let name = match name {
            "published" => "",
            _ => name.strip_prefix("published_")?,
        };
        Some(match (name, arguments) {
            ("" | "change", [table, row, column]) => self.of_table(name, table, row, column),
            ("used", [id, nth]) => self.published.histogram(id).ok().and_then(|histogram| {
                nth_largest(histogram.buckets.iter().map(|bucket| bucket.count).collect(), nth)
            }),
            (_, [id]) => self.published.histogram(id).ok().and_then(|histogram| {
                let all = histogram.buckets.iter().map(|bucket| (bucket.stall(), bucket.count));
                of_waits(&all.collect::<Vec<_>>(), name)
            }),
            _ => None,
        })
    }

    fn of_table(&self, name: &str, table: &str, row: &str, column: &str) -> Option<f64> {
        let table = self.published.table(table).ok()?;
        let row = match row.split_once(' ').and_then(|(stat, op)| table.row(stat, op)) {
            Some(row) => row,
            None => table.labelled(row)?,
        };
        let column: usize = column.parse().ok()?;
        let values = if name == "change" { &row.pct } else { &row.values };
        values.get(column).copied()
    }

    fn run<'d>(&self, document: &'d Document, name: &str) -> Result<&'d Run, String> {
        let full = there(self.runs.get(name), &["run", name])?;
        let is_it = |run: &&Run| *full == format!("{}/{}", run.machine, run.policy);
        there(document.runs.iter().find(is_it), &["run", full])
    }

    fn of_compared(
        &self,
        document: &Document,
        name: &str,
        arguments: &[&str],
    ) -> Result<Option<f64>, String> {
        match (name, arguments) {
            ("marked", [table]) => return Ok(self.marked(table).map(|rows| rows.len() as f64)),
            ("claims", [machine, class]) => {
                let is_class = |one: Class| one.words() == *class;
                return Ok(Some(nr_claims(document, machine, &is_class)));
            }
            ("judged", [machine]) => {
                return Ok(Some(nr_claims(document, machine, &Class::is_judged)));
            }
            ("signs", [machine, table]) => return Ok(self.signs(document, machine, table)),
            _ => {}
        }
        let run = self.run(document, arguments.first().copied().unwrap_or_default())?;
        Ok(match (name, &arguments[1..]) {
            ("mean", [operation]) => amean(&samples(run, operation)),
            ("hmean", [operation]) => hmean(&samples(run, operation)),
            ("max", [operation]) => samples(run, operation).into_iter().reduce(f64::max),
            ("count", [operation]) => Some(samples(run, operation).len() as f64),
            ("percentile90", [operation]) => {
                percentile(&Sorted::new(&samples(run, operation), Better::Lower), 90)
            }
            ("max_2015", [operation, share]) => {
                let samples = Sorted::new(&samples(run, operation), Better::Lower);
                share.parse().ok().and_then(|share| percentile_2015(&samples, share))
            }
            ("best_2015", [operation, share]) => {
                let samples = Sorted::new(&samples(run, operation), Better::Lower);
                share.parse().ok().and_then(|share| best_mean_2015(&samples, share))
            }
            ("min", [operation]) => samples(run, operation).into_iter().reduce(f64::min),
            ("seed_max", [operation]) => seed_max(run, operation),
            ("counter", [counter]) => counter_of(run, counter),
            ("of_seed", [counter]) => {
                counter_of(run, counter).map(|count| count / run.seeds.len() as f64)
            }
            ("time", [which]) => {
                let ns = match *which {
                    "user" => run.times.user_ns,
                    "system" => run.times.system_ns,
                    _ => run.times.elapsed_ns,
                };
                Some(ns as f64 / 1e9)
            }
            ("used", [nth]) => run
                .histograms
                .first()
                .and_then(|blocks| nth_largest(blocks.buckets.values().copied().collect(), nth)),
            ("blocks", []) => run.histograms.first().map(|blocks| blocks.buckets.len() as f64),
            (_, [who, event]) => of_stalls(run, name, who, event, None),
            (_, [who, event, reason]) => of_stalls(run, name, who, event, Some(reason)),
            _ => None,
        })
    }

    /// The changes of a published table that were marked as significant: operation, column and percentage.
    fn marked(&self, table: &str) -> Option<Vec<(&str, usize, f64)>> {
        let table = self.published.table(table).ok()?;
        let rows = table.rows.iter().filter(|row| row.stat.ends_with("mean"));
        let marked = rows.flat_map(|row| {
            let columns = (1..row.pct.len()).filter(|column| row.significant[*column]);
            columns.map(|column| (row.op.as_str(), column, row.pct[column]))
        });
        Some(marked.collect())
    }

    fn signs(&self, document: &Document, machine: &str, table: &str) -> Option<f64> {
        let runs: Vec<&Run> = document.runs.iter().filter(|run| run.machine == machine).collect();
        let has_our_sign = |&(operation, column, change): &(&str, usize, f64)| {
            let mean = |run: &Run| hmean(&samples(run, operation));
            let ours = mean(runs.get(column)?)? - mean(runs.first()?)?;
            Some((ours > 0.0) == (change > 0.0))
        };
        let marked = self.marked(table)?;
        let signs: Option<Vec<bool>> = marked.iter().map(has_our_sign).collect();
        Some(signs?.into_iter().filter(|agrees| *agrees).count() as f64)
    }
}

/// How many of a machine's published claims have such a class.
fn nr_claims(document: &Document, machine: &str, is_class: &dyn Fn(Class) -> bool) -> f64 {
    let claims = claims::of(document).expect("what a document names is published");
    let is_it = |claim: &&Claim| claim.machine == machine && is_class(claim.class);
    claims.iter().filter(is_it).count() as f64
}

fn counter_of(run: &Run, name: &str) -> Option<f64> {
    run.counters.contains(name).then(|| run.counters.get(name) as f64)
}

fn samples(run: &Run, operation: &str) -> Vec<f64> {
    let of_it = run.samples.iter().filter(|sample| sample.operation == operation);
    of_it.map(|sample| sample.value).collect()
}

fn seed_max(run: &Run, operation: &str) -> Option<f64> {
    let of_seed = |seed: &u64| {
        let of_it = |s: &&highwater_results::Sample| s.operation == operation && s.seed == *seed;
        run.samples.iter().filter(of_it).map(|sample| sample.value).reduce(f64::max)
    };
    amean(&run.seeds.iter().filter_map(of_seed).collect::<Vec<_>>())
}

fn nth_largest(mut counts: Vec<u64>, nth: &str) -> Option<f64> {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let nth: usize = nth.parse().ok()?;
    counts.get(nth.checked_sub(1)?).map(|count| *count as f64)
}

/// Waits of somebody, or of `all callers`; for a reason, if the event tells reasons.
fn of_stalls(run: &Run, name: &str, who: &str, event: &str, reason: Option<&str>) -> Option<f64> {
    let is_it =
        |one: &&Histogram| one.event == event && (who == "all callers" || one.context == who);
    let keys = run.histograms.iter().filter(is_it).flat_map(|one| &one.buckets);
    let all = keys.map(|(key, count)| (Stall::from_key(key), *count));
    let of_reason = all.filter(|(stall, _)| reason.is_none() || stall.reason == reason);
    of_waits(&of_reason.collect::<Vec<_>>(), name)
}

fn of_waits(stalls: &[(Stall<'_>, u64)], name: &str) -> Option<f64> {
    let total: u64 = stalls.iter().map(|(_, count)| count).sum();
    let percent = |is_it: &dyn Fn(u64, u64) -> bool| {
        let of_it = |(stall, count): &(Stall<'_>, u64)| {
            let is_it = is_it(stall.usec_delayed?, stall.usec_timeout?);
            Some(if is_it { *count } else { 0 })
        };
        let part: Option<u64> = stalls.iter().map(of_it).sum();
        Some(part? as f64 * 100.0 / total as f64)
    };
    match name {
        "stalls" => Some(total as f64),
        "at_once" => percent(&|delayed, _| delayed == 0),
        "in_full" => percent(&|delayed, timeout| delayed >= timeout),
        "stall_ms" => {
            let us = |(stall, count): &(Stall<'_>, u64)| Some(stall.usec_delayed? * count);
            Some(stalls.iter().map(us).sum::<Option<u64>>()? as f64 / total as f64 / 1000.0)
        }
        _ => None,
    }
}

fn of_replayed(replay: &Value, name: &str, arguments: &[&str]) -> Option<f64> {
    let of_policy = |name: &str| {
        let policies = replay["policies"].as_array()?;
        policies.iter().find(|policy| policy["policy"] == *name)
    };
    let (tally, what) = match (name, arguments) {
        ("traced", [what]) => (&replay["trace_counts"]["tally"], what),
        ("replayed", [policy, what]) => (&of_policy(policy)?["tally"], what),
        ("off", [policy]) => {
            let ratios = of_policy(policy)?["ratios"].as_object()?;
            let off = ratios.values().filter_map(Value::as_f64).map(|r| 100.0 * (r - 1.0).abs());
            return off.reduce(f64::max);
        }
        _ => return None,
    };
    match *what {
        "refills" => tally["events"]["mm_page_alloc_zone_locked"].as_f64(),
        "drains" => tally["events"]["mm_page_pcpu_drain"].as_f64(),
        "hottest" => tally["hottest"][0]["uses"].as_f64(),
        "blocks" => tally["distinct_blocks_by_order"][2].as_f64(),
        _ => None,
    }
}

fn of_checked(check: &Value, name: &str, arguments: &[&str]) -> Option<f64> {
    let files = check["files"].as_array()?;
    let of_kind =
        || files.iter().filter(|file| arguments.contains(&file["kind"].as_str().unwrap_or("")));
    let figures = |file: &Value| file["figures"].as_array().cloned().unwrap_or_default();
    let all = || files.iter().flat_map(figures);
    match (name, arguments) {
        ("files", _) => Some(of_kind().filter(|file| !figures(file).is_empty()).count() as f64),
        ("figures", _) => Some(of_kind().flat_map(figures).count() as f64),
        ("agreeing", _) => {
            Some(of_kind().flat_map(figures).filter(|f| f["agrees"] == true).count() as f64)
        }
        ("differing", [part]) => {
            let is_it = |f: &Value| {
                f["agrees"] == false
                    && f["field"].as_str().is_some_and(|field| field.contains(part))
            };
            Some(all().filter(is_it).count() as f64)
        }
        ("linux" | "model", [file, figure]) => {
            let column = if name == "linux" { "real" } else { "model" };
            let is_file = |one: &&Value| {
                let path = one["file"].as_str().unwrap_or("");
                path.ends_with(&format!("/{file}.json"))
            };
            let file = files.iter().find(is_file)?;
            let judged = figures(file).into_iter().find(|one| one["field"] == **figure);
            match judged {
                Some(figure) => leading_number(figure[column].as_str()?),
                None => reported(file, figure, if name == "linux" { "Linux " } else { "model " }),
            }
        }
        _ => None,
    }
}

/// A figure that is reported in a note: `pgscan_direct: Linux 3, model 4`.
fn reported(file: &Value, figure: &str, side: &str) -> Option<f64> {
    let notes = file["notes"].as_array()?.iter().filter_map(Value::as_str);
    let mut found = notes.filter_map(|note| note.strip_prefix(figure)?.strip_prefix(": "));
    leading_number(found.next()?.split(side).nth(1)?)
}

/// The number that a text begins with: `84.6 %`, `8936 (±196)`.
fn leading_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

#[test]
fn numbers_are_read_from_what_a_check_prints() {
    let file = serde_json::json!({
        "file": "x/a.json", "kind": "scenario",
        "figures": [
            { "field": "one", "real": "8936 (±196)", "model": "84.6 %", "agrees": true },
            { "field": "two", "real": "1", "model": "3", "agrees": false },
        ],
        "notes": ["judged: the shapes", "pgscan: Linux 71228, model 6.7"],
    });
    let check = serde_json::json!({ "files": [file] });
    let get = |name: &str, arguments: &[&str]| of_checked(&check, name, arguments);
    assert_eq!(get("linux", &["a", "one"]), Some(8936.0));
    assert_eq!(get("model", &["a", "one"]), Some(84.6));
    assert_eq!(get("linux", &["a", "pgscan"]), Some(71228.0));
    assert_eq!(get("model", &["a", "pgscan"]), Some(6.7));
    assert_eq!(get("model", &["a", "other"]), None);
    assert_eq!(get("figures", &["scenario"]), Some(2.0));
    assert_eq!(get("agreeing", &["scenario", "static"]), Some(1.0));
    assert_eq!(get("differing", &["tw"]), Some(1.0));
    assert_eq!(get("files", &["static"]), Some(0.0));
}
