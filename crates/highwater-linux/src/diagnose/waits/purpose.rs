//! The purpose of a stall and what came of it, as far as its events say.

use highwater_results::import::events::Event;
use serde::Serialize;

use super::cause::Cause;

/// Longest text of flags that is kept.
const FLAGS_MAX: usize = 400;
/// Longest text of flags that is shown.
const FLAGS_SHOWN: usize = 60;

/// Purpose and outcome of one stall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Purpose {
    /// Order of the allocation.
    pub order: Option<u64>,
    /// Its flags, as printed.
    pub gfp_flags: Option<String>,
    /// Pages that reclaim freed.
    pub nr_reclaimed: Option<u64>,
    /// Status of compaction, as printed.
    pub status: Option<String>,
    /// The reclaim or compaction in which the task slept.
    pub inside: Option<Cause>,
}

/// Statuses of compaction that leave the request without a block.
const IN_VAIN: [&str; 8] = [
    "complete",
    "partial_skipped",
    "no_suitable_page",
    "not_suitable_zone",
    "not_suitable",
    "contended",
    "skipped",
    "deferred",
];

impl Purpose {
    /// The purpose, from a begin or an attempt.
    pub(super) fn of(event: &Event<'_>) -> Purpose {
        let flags = event.word("gfp_flags").or_else(|| event.word("gfp_mask"));
        let gfp_flags = flags.map(|flags| flags.chars().take(FLAGS_MAX).collect());
        Purpose { order: event.number("order"), gfp_flags, ..Purpose::default() }
    }

    /// Adds the outcome.
    pub(super) fn ended(mut self, event: &Event<'_>) -> Purpose {
        self.nr_reclaimed = event.number("nr_reclaimed");
        self.status = event.word("status").map(|status| status.chars().take(40).collect());
        self
    }

    /// True if nothing came of it; `None` if the events do not say.
    pub(super) fn is_in_vain(&self) -> Option<bool> {
        match (self.nr_reclaimed, self.status.as_deref()) {
            (Some(nr), _) => Some(nr == 0),
            (None, Some("success" | "partial")) => Some(false),
            (None, Some(status)) => IN_VAIN.contains(&status).then_some(true),
            (None, None) => None,
        }
    }

    /// `order 9 GFP_TRANSHUGE, reclaimed 0 pages: in vain, for a huge page`; empty if nothing is
    /// known.
    pub(super) fn text(&self) -> String {
        let flags = self.gfp_flags.as_deref().unwrap_or("");
        let mut parts: Vec<String> = Vec::new();
        let shown: String = flags.chars().filter(|c| !c.is_control()).take(FLAGS_SHOWN).collect();
        let cut = if flags.chars().count() > FLAGS_SHOWN { "..." } else { "" };
        match self.order {
            Some(order) if shown.is_empty() => parts.push(format!("order {order}")),
            Some(order) => parts.push(format!("order {order} {shown}{cut}")),
            None if !shown.is_empty() => parts.push(format!("{shown}{cut}")),
            None => {}
        }
        let mut outcome = Vec::new();
        if let Some(nr) = self.nr_reclaimed {
            outcome.push(format!("reclaimed {nr} {}", if nr == 1 { "page" } else { "pages" }));
        }
        if let Some(status) = &self.status {
            let status: String = status.chars().filter(|c| !c.is_control()).collect();
            outcome.push(format!("status {status}"));
        }
        let vain = if self.is_in_vain() == Some(true) { ": in vain" } else { "" };
        if !outcome.is_empty() {
            parts.push(outcome.join(", ") + vain);
        }
        // The flags of transparent huge pages; an order alone may be anything.
        if flags.split('|').any(|flag| flag.starts_with("GFP_TRANSHUGE")) {
            parts.push("for a huge page".to_owned());
        }
        if let Some(inside) = self.inside {
            parts.push(format!("inside {}", inside.text()));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_purpose_and_outcome() {
        let huge = Purpose {
            order: Some(9),
            gfp_flags: Some("GFP_TRANSHUGE|__GFP_NOWARN".to_owned()),
            nr_reclaimed: Some(0),
            ..Purpose::default()
        };
        assert_eq!(
            huge.text(),
            "order 9 GFP_TRANSHUGE|__GFP_NOWARN, reclaimed 0 pages: in vain, for a huge page"
        );
        let status =
            |status: &str| Purpose { status: Some(status.to_owned()), ..Purpose::default() };
        assert_eq!(status("no_suitable_page").text(), "status no_suitable_page: in vain");
        assert_eq!(status("success").text(), "status success");
        assert_eq!(status("continue").is_in_vain(), None);
        assert_eq!(Purpose::default().text(), "");
        let long = Purpose { gfp_flags: Some("X".repeat(100)), ..Purpose::default() };
        assert!(long.text().len() < 70);
    }
}
