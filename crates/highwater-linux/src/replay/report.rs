//! A replay as tables and as JSON.

use highwater_core::page::MigrateType;
use highwater_report::{Cell, Layout, Table};
use highwater_results::words::count;

use serde_json::{Map, Value, json};

use super::model::{FailedRequest, Replay, ZoneFree};
use super::{EventKind, Report, Tally, Warning};

/// Schema of the JSON form.
pub const SCHEMA: &str = "highwater.replay/1";

/// The tables of a replay: events, hottest blocks, free memory.
pub fn tables(report: &Report, nr_hottest: usize) -> Vec<Table> {
    let mut tables = vec![events(report), blocks(report, nr_hottest)];
    tables.push(free_memory(report));
    tables
}

/// The trace's own counts beside every policy's.
fn events(report: &Report) -> Table {
    let mut table =
        Table::new(format!("replay of {}", report.trace), &["events"], columns(report), FITTED);
    let survey = &report.survey;
    for kind in EventKind::ALL {
        count_row(&mut table, report, kind.name(), |t| t.total(kind));
    }
    for kind in [EventKind::ZoneLocked, EventKind::PcpuDrain] {
        let orders = 0..=highwater_results::import::kmem::ORDER_MAX;
        for order in orders {
            let name = match kind {
                EventKind::ZoneLocked => format!("  refills, order {order}"),
                _ => format!("  drains, order {order}"),
            };
            let any = std::iter::once(&survey.tally).chain(report.replays.iter().map(|r| &r.tally));
            if any.map(|t| t.of_order(kind, order)).sum::<u64>() > 0 {
                count_row(&mut table, report, &name, |t| t.of_order(kind, order));
            }
        }
    }
    count_row(&mut table, report, "uses of the hottest block", Tally::hottest_uses);
    for order in 0..=highwater_results::import::kmem::ORDER_MAX {
        let distinct = |t: &Tally| t.distinct()[usize::from(order)];
        if distinct(&survey.tally) > 0 {
            let name = format!("distinct blocks, order {order}");
            count_row(&mut table, report, &name, distinct);
        }
    }
    own_row(&mut table, report, "zone lock takings", |r| r.zone_lock_takings);
    own_row(&mut table, report, "requests the model could not serve", |r| r.nr_failed);
    if survey.tally.total(EventKind::AllocFailed) > 0 {
        own_row(&mut table, report, "failed in the trace, and in the model", |r| {
            r.failed_in_trace.nr_refused
        });
        own_row(&mut table, report, "failed in the trace, not in the model", |r| {
            r.failed_in_trace.nr_served
        });
    }
    own_row(&mut table, report, "frees of blocks from before", |r| r.nr_frees_from_before);
    own_row(&mut table, report, "frees of unknown frames", |r| r.nr_frees_unknown);
    table.notes = notes(report);
    table
}

const FITTED: Layout = Layout::Fitted;

fn columns(report: &Report) -> Vec<String> {
    let policies = report.replays.iter().flat_map(|r| [r.policy.name.clone(), "ratio".to_owned()]);
    std::iter::once("trace".to_owned()).chain(policies).collect()
}

fn count_row(table: &mut Table, report: &Report, name: &str, count: impl Fn(&Tally) -> u64) {
    let own = count(&report.survey.tally);
    let mut cells = vec![Cell::number(own as f64, 0)];
    for replay in &report.replays {
        let value = count(&replay.tally);
        cells.push(Cell::number(value as f64, 0));
        cells.push(match own {
            0 => Cell::Missing,
            own => Cell::number(value as f64 / own as f64, 2),
        });
    }
    table.push(&[name], cells);
}

fn own_row(table: &mut Table, report: &Report, name: &str, value: impl Fn(&Replay) -> u64) {
    let mut cells = vec![Cell::Missing];
    for replay in &report.replays {
        cells.extend([Cell::number(value(replay) as f64, 0), Cell::Missing]);
    }
    table.push(&[name], cells);
}

fn notes(report: &Report) -> Vec<String> {
    let survey = &report.survey;
    let shape = &report.shape;
    let pages: u64 = shape.machine.nodes.iter().flat_map(|n| &n.zones).map(|z| z.present).sum();
    let mut notes: Vec<_> = report.warning_lines().collect();
    notes.push(format!(
        "machine: {}, {} MiB, {}",
        count(shape.machine.nr_cpus(), "CPU"),
        pages >> 8,
        shape.source.name()
    ));
    notes.extend(report.replays.iter().flat_map(failed_in_trace));
    let known: u64 = (0..survey.nr_cpus).map(|cpu| survey.known_pages(cpu)).sum();
    notes.push(format!(
        "at the start: {} on per-CPU lists and {} in use known from the trace",
        count(known, "page"),
        count(survey.used.len(), "block")
    ));
    if !survey.shows_refills() {
        notes.push(
            "no mm_page_alloc_zone_locked events were recorded: what was on per-CPU lists at the \
             start is a guess"
                .to_owned(),
        );
    }
    if let Some(replay) = report.replays.first() {
        if replay.nr_unknown_on_lists > 0 {
            let n = replay.nr_unknown_on_lists;
            notes.push(format!(
                "{} on per-CPU lists, of which only the number is known",
                count(n, "more page")
            ));
        }
        if replay.nr_unplaced > 0 {
            notes.push(format!("{} found no place", count(replay.nr_unplaced, "free page")));
        }
    }
    let skipped = &survey.skipped;
    let foreign = skipped.nr_other_events + skipped.nr_unrecognised + skipped.nr_without_page;
    if foreign > 0 {
        notes.push(format!(
            "skipped lines: {} of other events, {} unrecognised, {} without a page",
            skipped.nr_other_events, skipped.nr_unrecognised, skipped.nr_without_page
        ));
    }
    notes
}

/// The model's results for requests that failed in the trace: a line for each kind of result, about
/// the first request.
fn failed_in_trace(replay: &Replay) -> Vec<String> {
    let policy = &replay.policy.name;
    let failed = &replay.failed_in_trace;
    let mut lines = Vec::new();
    if let Some(first) = &failed.first_refused {
        lines.push(format!(
            "failed in the trace: {policy} refuses {} of {}, too; the first, of order {} ({}): {}",
            failed.nr_refused,
            failed.nr_refused + failed.nr_served,
            first.order,
            first.gfp,
            why_refused(first)
        ));
    }
    if let Some(first) = &failed.first_served {
        lines.push(format!(
            "failed in the trace: {policy} would have served {} of {}; the first, of order {} ({})",
            failed.nr_served,
            failed.nr_refused + failed.nr_served,
            first.order,
            first.gfp
        ));
    }
    lines
}

/// Why a request failed, from the free memory at that moment.
fn why_refused(request: &FailedRequest) -> String {
    let order = usize::from(request.order);
    let pages: u64 = request.free.iter().map(ZoneFree::nr_pages).sum();
    let large: u64 =
        request.free.iter().map(|zone| zone.nr_free.iter().skip(order).sum::<u64>()).sum();
    match large {
        0 if pages >> order > 0 && order > 0 => {
            format!("{pages} pages are free, no block of that order (fragmentation)")
        }
        0 => format!("{pages} pages are free"),
        blocks => format!(
            "blocks of that order or larger: {blocks}; marks, reserves or their type keep them ({pages} pages are free)"
        ),
    }
}

/// The blocks used most, rank by rank.
fn blocks(report: &Report, nr_hottest: usize) -> Table {
    let mut columns = vec!["trace".to_owned()];
    columns.extend(report.replays.iter().map(|r| r.policy.name.clone()));
    let mut table = Table::new("hottest blocks: frame, order, uses", &["rank"], columns, FITTED);
    let tallies =
        std::iter::once(&report.survey.tally).chain(report.replays.iter().map(|r| &r.tally));
    let hottest: Vec<_> = tallies.map(|t| t.hottest(nr_hottest)).collect();
    for rank in 0..hottest.iter().map(Vec::len).max().unwrap_or(0) {
        let cells = hottest.iter().map(|blocks| match blocks.get(rank) {
            Some(b) => Cell::text(format!("{:#x} o{} {:>6}", b.pfn, b.order, b.uses)),
            None => Cell::Missing,
        });
        table.push(&[&(rank + 1).to_string()], cells.collect());
    }
    table
}

/// Free blocks by order at the start and the end, and how fragmented that is.
fn free_memory(report: &Report) -> Table {
    let orders = (0..highwater_core::page::MAX_ORDER).map(|order| order.to_string());
    let mut table =
        Table::new("free blocks by order", &["policy", "zone", ""], orders.collect(), FITTED);
    for replay in &report.replays {
        let policy = replay.policy.name.as_str();
        for (start, end) in replay.start.iter().zip(&replay.end) {
            let zone = format!("node {} {}", end.node, end.zone);
            let counts = |z: &ZoneFree| z.nr_free.map(|n| Cell::number(n as f64, 0)).to_vec();
            table.push(&[policy, &zone, "start"], counts(start));
            table.push(&[policy, &zone, "end"], counts(end));
            let indices = |f: &dyn Fn(usize) -> f64| {
                (0..end.nr_free.len()).map(|o| Cell::number(f(o) / 1000.0, 3)).collect()
            };
            let unusable = indices(&|o| end.unusable_index(o) as f64);
            table.push(&[policy, &zone, "unusable index"], unusable);
            let external = indices(&|o| end.fragmentation_index(o) as f64);
            table.push(&[policy, &zone, "fragmentation index"], external);
        }
    }
    table
}

/// The whole replay as one JSON document.
pub fn json(report: &Report, nr_hottest: usize) -> String {
    let survey = &report.survey;
    let shape = &report.shape;
    let skipped = &survey.skipped;
    let files: Vec<_> = report.sidecars.iter().map(|f| f.display().to_string()).collect();
    let lists = survey.lists.iter().map(|(&(cpu, order, migratetype), list)| {
        json!({
            "cpu": cpu, "order": order, "migratetype": migratetype,
            "head": list.head.len(), "tail": list.tail.len(), "complete": list.is_complete,
        })
    });
    let document = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "trace": report.trace,
        "warnings": report.warnings.iter().map(Warning::json).collect::<Vec<_>>(),
        "machine": {
            "source": shape.source.name(),
            "files": files,
            "definition": highwater_files::machine_file::MachineFile::of(shape.machine.clone(), "").definition().definition,
        },
        "trace_counts": {
            "events": survey.nr_events,
            "span_ns": survey.span_ns,
            "tally": tally(&survey.tally, nr_hottest),
            "skipped": {
                "comments": skipped.nr_comments,
                "blank": skipped.nr_blank,
                "other_events": skipped.nr_other_events,
                "unrecognised": skipped.nr_unrecognised,
                "without_page": skipped.nr_without_page,
                "lost_notices": skipped.nr_lost_notices,
                "lost_events": skipped.nr_lost_events,
                "overwritten_events": skipped.nr_overwritten_events,
                "promised_entries": skipped.nr_promised_entries,
                "bad": skipped.nr_bad,
                "unknown_gfp_names": skipped.unknown_gfp_names,
            },
        },
        "start": {
            "lists": lists.collect::<Vec<_>>(),
            "blocks_in_use": survey.used.len(),
        },
        "policies": report.replays.iter().map(|r| policy(report, r, nr_hottest)).collect::<Vec<_>>(),
    });
    // Only a map with non-text keys can fail, and there is none.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn policy(report: &Report, replay: &Replay, nr_hottest: usize) -> Value {
    let own = &report.survey.tally;
    let ratio = |kind: EventKind| match own.total(kind) {
        0 => Value::Null,
        n => json!(replay.tally.total(kind) as f64 / n as f64),
    };
    let hottest = match own.hottest_uses() {
        0 => Value::Null,
        n => json!(replay.tally.hottest_uses() as f64 / n as f64),
    };
    json!({
        "policy": replay.policy.name,
        "definition": highwater_files::policy_file::to_toml(&replay.policy),
        "tally": tally(&replay.tally, nr_hottest),
        "ratios": {
            "refills": ratio(EventKind::ZoneLocked),
            "drains": ratio(EventKind::PcpuDrain),
            "hottest_uses": hottest,
        },
        "zone_lock_takings": replay.zone_lock_takings,
        "failed": replay.nr_failed,
        "failed_in_trace": {
            "refused": replay.failed_in_trace.nr_refused,
            "served": replay.failed_in_trace.nr_served,
        },
        "frees_from_before": replay.nr_frees_from_before,
        "frees_unknown": replay.nr_frees_unknown,
        "unplaced_free_pages": replay.nr_unplaced,
        "cma_pages": replay.nr_cma,
        "unknown_pages_on_lists": replay.nr_unknown_on_lists,
        "start": replay.start.iter().map(zone_free).collect::<Vec<_>>(),
        "end": replay.end.iter().map(zone_free).collect::<Vec<_>>(),
    })
}

fn tally(tally: &Tally, nr_hottest: usize) -> Value {
    let totals: Map<String, Value> = EventKind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_owned(), json!(tally.total(kind))))
        .collect();
    let by_order: Map<String, Value> = tally
        .by_order()
        .map(|(kind, order, n)| (format!("{} order={order}", kind.name()), json!(n)))
        .collect();
    let by_cpu: Map<String, Value> = tally
        .by_cpu()
        .map(|(kind, cpu, n)| (format!("{} cpu={cpu}", kind.name()), json!(n)))
        .collect();
    let allocations: Vec<_> = tally
        .allocations()
        .map(|(order, migratetype, n)| {
            json!({ "order": order, "migratetype": migratetype, "count": n })
        })
        .collect();
    let hottest: Vec<_> = tally
        .hottest(nr_hottest)
        .into_iter()
        .map(|b| json!({ "pfn": b.pfn, "order": b.order, "uses": b.uses }))
        .collect();
    json!({
        "events": totals,
        "events_by_order": by_order,
        "events_by_cpu": by_cpu,
        "allocations": allocations,
        "hottest": hottest,
        "distinct_blocks_by_order": tally.distinct(),
    })
}

fn zone_free(zone: &ZoneFree) -> Value {
    let by_type: Map<String, Value> = MigrateType::ALL
        .into_iter()
        .map(|t| (t.name().to_owned(), json!(zone.by_type[t.idx()])))
        .collect();
    let orders = 0..zone.nr_free.len();
    json!({
        "node": zone.node,
        "zone": zone.zone,
        "free_blocks": zone.nr_free,
        "free_blocks_by_type": by_type,
        "pages_on_per_cpu_lists": zone.nr_on_lists,
        "unusable_index": orders.clone().map(|o| zone.unusable_index(o)).collect::<Vec<_>>(),
        "fragmentation_index": orders.map(|o| zone.fragmentation_index(o)).collect::<Vec<_>>(),
    })
}
