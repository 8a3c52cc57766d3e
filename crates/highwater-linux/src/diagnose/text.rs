//! Answers as JSON.

use highwater_results::import::log::Log;
use serde_json::{Value, json};

use super::{Answer, ZoneRow};

/// Schema of the JSON form.
pub const SCHEMA: &str = "highwater.diagnose/1";

/// The answers as JSON: a list `reports`, and how they relate. What the text does not say is
/// `null`.
#[must_use]
pub fn json(log: &Log, answers: &[Answer<'_>]) -> Value {
    json!({
        "schema": SCHEMA,
        "lines": log.lines,
        "reports": answers.iter().map(report).collect::<Vec<_>>(),
        "relations": log.relations,
    })
}

fn report(answer: &Answer<'_>) -> Value {
    let report = answer.report;
    let gfp = report.request.gfp.as_ref();
    let memory = report.memcg.as_ref().and_then(|memcg| memcg.memory);
    json!({
        "lines": [report.first_line, report.last_line],
        "kernel": report.kernel.as_ref().map(|kernel| &kernel.release),
        "arch": report.arch,
        "kind": report.kind,
        "order": report.request.order,
        "gfp": gfp.map(|gfp| &gfp.printed),
        "gfp_names": gfp.and_then(|gfp| gfp.names.as_ref()),
        "highest_zone": report.highest_zone.as_ref().or(report.zone_by_bits.as_ref()),
        "zone_types": Some(&report.zone_types).filter(|types| !types.is_empty()),
        "constraint": report.constraint,
        "page_size": report.page_size,
        "zones": answer.rows.iter().map(zone).collect::<Vec<_>>(),
        "swap": { "free_swap": report.swap.free, "total_swap": report.swap.total },
        "memcg": memory.map(|memory| json!({ "usage": memory.usage, "limit": memory.limit })),
        "slab_unreclaimable_pages": report.counters.get("slab_unreclaimable"),
        "ram_pages": report.pages.ram,
        "cause": answer.reasons.cause,
        "also": answer.reasons.also,
        "explanation": answer.sentence,
        "certain": if answer.reasons.is_certain { "yes" } else { "no" },
        "rules": answer.judge.policy.name,
        "missing": report.missing,
        "findings": report.findings,
        "damage": report.damage,
        "prefix": report.prefix,
    })
}

fn zone(row: &ZoneRow<'_>) -> Value {
    let zone = row.zone;
    json!({
        "node": zone.node,
        "name": zone.name,
        "free": zone.free,
        "min": zone.min,
        "low": zone.low,
        "high": zone.high,
        "boost": zone.boost,
        "reserve_for_request": row.reserve_pages,
        "managed": zone.managed,
        "unusable": { "cma": row.unusable_cma, "highatomic": row.unusable_highatomic },
        "allowed": row.allowed,
        "mark_pages": row.mark_pages,
        "spare_pages": row.spare_pages,
        "passes_watermark": row.passes,
        "largest_free_order": zone.largest_free_order(),
        "has_block_for_request": row.has_block,
    })
}
