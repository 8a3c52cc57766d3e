//! The policies of captured kernels: 6.1, and the rules of later kernels that we have.
//!
//! No preset stands for 6.12 and 7.2 yet, because some of their rules are missing. Their captures
//! are compared with 6.1 and the rules below, and a note says so.

use std::collections::BTreeMap;

use highwater_core::config::Policy;
use highwater_files::input::InputError;
use highwater_files::policy_file;

/// Kernels, and the switches of each that differ from 6.1.
const KERNELS: [(&str, &[Switches]); 3] =
    [("6.1", &[]), ("6.12", &[SINCE_6_12]), ("7.2", &[SINCE_6_12, SINCE_7_2])];
/// The same under the multi-generational LRU.
const MGLRU: [(&str, &[Switches]); 3] =
    [("6.1", &[]), ("6.12", &[MGLRU_SINCE_6_12]), ("7.2", &[MGLRU_SINCE_6_12, MGLRU_SINCE_7_2])];
type Switches = &'static [(&'static str, &'static str)];
const SINCE_6_12: Switches = &[
    ("memcg.walk", r#""partial""#),
    ("memcg.reclaim-batch", r#""quarter""#),
    ("memcg.target-protected", r#""never""#),
    ("memcg.stats", r#""rstat-per-group""#),
    ("reclaim.balance", r#""cost-rotations""#),
    ("reclaim.lru-batch", "31"),
    ("reclaim.recency-guard", r#""seq-rand-noreuse""#),
    ("reclaim.kswapd.retries-trimming", "true"),
    ("reclaim.kswapd.slab-is-progress", "true"),
    ("fault.count-retries", "false"),
    ("fault.mmap-miss", r#""page-not-ws""#),
    ("readahead", r#""restart""#),
    ("folio.file", r#""xfs""#),
    ("folio.order1", "true"),
    ("unmap.free-order", r#""highest""#),
    ("swap.zero-pages", r#""flag""#),
    ("block.plug-flush", r#""oldest""#),
    ("fallback", r#""claim-steal""#),
    ("merge", r#""mergeable-retype""#),
    ("pcp.sizing", r#""auto""#),
    ("pcp.free-factor", r#""free-count""#),
    ("pcp.high-order-free", r#""limited-batch""#),
    ("pcp.drain-type", r#""pageblock""#),
    ("tree-nodes", r#""after-grace-period""#),
    ("compaction.scan-count", r#""frames""#),
    ("compaction.isolated-limit", r#""eighth-with-fs""#),
    ("compaction.capture-movable", "true"),
    ("folio.compact-moves", r#""below-target""#),
];
/// A switch that an earlier kernel changed too has the later value.
const SINCE_7_2: Switches = &[
    ("memcg.stock-slots", "7"),
    ("memcg.scan-events", r#""node""#),
    ("memcg.reparent-lru", "true"),
    ("memcg.sock-throttled", "true"),
    ("memcg.soft-limit", "false"),
    ("pcp.high-order-free", r#""limited-half-min""#),
    ("pcp.drain-portion", r#""batch""#),
    ("pcp.highatomic-refills", "false"),
    ("reclaim.kswapd.failures-end", r#""balanced""#),
    ("fault.mmap-miss", r#""fault""#),
    ("readahead", r#""restart-aligned""#),
    ("folio.file", r#""all""#),
    ("folio.fault-maps", r#""folio""#),
    ("folio.truncate", r#""halves""#),
    ("unmap.drains-lru", "false"),
    ("swap.slot-cache", "false"),
    ("swap.write-frees-slot", "false"),
    ("writeback.wb-thresh-floor", r#""share""#),
    ("compaction.gap-max", "32"),
    ("compaction.suitable-mark", r#""named""#),
    ("compaction.ready", r#""high-mark-by-cost""#),
];
const MGLRU_SINCE_6_12: Switches = &[
    ("reclaim.mglru.active-keeps-marks", "false"),
    ("reclaim.mglru.kswapd-ages", "false"),
    ("reclaim.mglru.dirty-tail", r#""judged""#),
    ("reclaim.mglru.flusher-wake", r#""per-pass""#),
    ("reclaim.mglru.recent", r#""oldest-and-count""#),
    ("reclaim.mglru.group-turns", "true"),
];
const MGLRU_SINCE_7_2: Switches = &[
    ("reclaim.mglru.read-entry", r#""by-marks""#),
    ("reclaim.mglru.first-use", r#""marks""#),
    ("reclaim.mglru.aging", r#""count""#),
    ("reclaim.mglru.type-choice", r#""refaults""#),
    ("reclaim.mglru.oldest", r#""one-apart""#),
    ("reclaim.mglru.flusher-wake", r#""per-batch""#),
    ("reclaim.mglru.recent", r#""four-generations""#),
    ("reclaim.mglru.shares-protection", "true"),
];

/// The version in a captured kernel's name, as "6.12" in "Linux 6.12 (Debian 6.12.95)" and "6.1" in
/// "Linux 6.1.192, own configuration".
fn version_of(kernel: &str) -> &str {
    let version = kernel.strip_prefix("Linux ").unwrap_or(kernel);
    let end = version.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(version.len());
    let version = &version[..end];
    // Of a stable release, major and minor.
    version.match_indices('.').nth(1).map_or(version, |(at, _)| &version[..at])
}

/// The bits of `lru_gen/enabled` in captured settings.
fn lru_gen(settings: &BTreeMap<String, String>) -> u32 {
    let text = settings.get("lru_gen.enabled").and_then(|text| text.strip_prefix("0x"));
    text.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// The policy of a captured kernel with its settings, and a remark if it stands for another one;
/// none for a kernel of which no rules are known. `more`: further lines of the policy file.
///
/// # Errors
/// If `more` has a rule that does not exist.
pub(super) fn policy(
    kernel: &str,
    settings: &BTreeMap<String, String>,
    more: &str,
) -> Result<Option<(Policy, Option<String>)>, InputError> {
    let version = version_of(kernel);
    let of = |table: &'static [(&str, &[Switches])]| {
        table.iter().find(|(known, _)| *known == version).map(|(_, rules)| *rules)
    };
    let Some(rules) = of(&KERNELS) else { return Ok(None) };
    let mut switches: BTreeMap<&str, &str> =
        rules.iter().flat_map(|some| some.iter().copied()).collect();
    let bits = lru_gen(settings);
    if bits & 1 != 0 {
        switches.insert("reclaim.algorithm", r#""mglru""#);
        let bit = |bit: u32| if bits & bit != 0 { "true" } else { "false" };
        switches.insert("reclaim.mglru.walks", bit(2));
        switches.insert("reclaim.mglru.skips-unused-tables", bit(4));
        let rules = of(&MGLRU).unwrap_or_default();
        switches.extend(rules.iter().flat_map(|some| some.iter().copied()));
    }
    let mut text = String::from("base = \"6.1\"\n");
    for (key, value) in switches {
        text += &format!("{key} = {value}\n");
    }
    text += more;
    let note = (!rules.is_empty())
        .then(|| format!("policy: 6.1 with the rules of {version} that we have"));
    Ok(Some((policy_file::parse("6.1", &text)?, note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_releases_are_of_their_version() {
        for (kernel, version) in [
            ("Linux 6.12 (Debian 6.12.95)", "6.12"),
            ("Linux 6.1.192, own configuration", "6.1"),
            ("Linux 6.1.192 rebuilt", "6.1"),
            ("7.2", "7.2"),
            ("FreeBSD", ""),
        ] {
            assert_eq!(version_of(kernel), version, "{kernel}");
        }
    }
}
