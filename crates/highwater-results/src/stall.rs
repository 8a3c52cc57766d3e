//! Stalls as keys of a [`Histogram`](crate::Histogram): how long a task was throttled, and why.
//!
//! A key is the text of the event as the studies print it, without the node:
//! `usec_timeout=100000 usect_delayed=0 reason=VMSCAN_THROTTLE_WRITEBACK`. Code that counts stalls,
//! or reads them back from stored results, uses [`Stall`] and never handles the text.

/// The event whose delay field is misspelt in the kernel. Highwater keeps the spelling
/// (rules/reclaim-events#trace-waits).
const MISSPELT: &str = "mm_vmscan_throttled";

/// A stall. Published histograms do not give all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stall<'a> {
    /// Longest time that it may last, microseconds.
    pub usec_timeout: Option<u64>,
    /// Time that it lasted, microseconds.
    pub usec_delayed: Option<u64>,
    /// The reason, if the event has one.
    pub reason: Option<&'a str>,
}

impl<'a> Stall<'a> {
    /// The key in a histogram of an event.
    pub fn key(&self, event: &str) -> String {
        let delayed = if event == MISSPELT { "usect_delayed" } else { "usec_delayed" };
        let mut words = Vec::new();
        words.extend(self.usec_timeout.map(|usec| format!("usec_timeout={usec}")));
        words.extend(self.usec_delayed.map(|usec| format!("{delayed}={usec}")));
        words.extend(self.reason.map(|reason| format!("reason={reason}")));
        words.join(" ")
    }

    /// Parses a key. The fields of a key that is not a stall are empty.
    pub fn from_key(key: &'a str) -> Stall<'a> {
        let mut stall = Stall { usec_timeout: None, usec_delayed: None, reason: None };
        for (name, value) in key.split_whitespace().filter_map(|word| word.split_once('=')) {
            match name {
                "usec_timeout" => stall.usec_timeout = value.parse().ok(),
                "usect_delayed" | "usec_delayed" => stall.usec_delayed = value.parse().ok(),
                "reason" => stall.reason = Some(value),
                _ => {}
            }
        }
        stall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_the_studies_print() {
        let reason = Some("VMSCAN_THROTTLE_WRITEBACK");
        let mut stall = Stall { usec_timeout: Some(100_000), usec_delayed: Some(4000), reason };
        let key = "usec_timeout=100000 usect_delayed=4000 reason=VMSCAN_THROTTLE_WRITEBACK";
        assert_eq!(stall.key("mm_vmscan_throttled"), key);
        stall.reason = None;
        let key = "usec_timeout=100000 usec_delayed=4000";
        assert_eq!(stall.key("writeback_congestion_wait"), key);
    }

    #[test]
    fn keys_are_read_back() {
        for event in ["mm_vmscan_throttled", "writeback_congestion_wait"] {
            for reason in [None, Some("VMSCAN_THROTTLE_NOPROGRESS")] {
                for usec_delayed in [None, Some(0), Some(104_000)] {
                    let stall = Stall { usec_timeout: Some(100_000), usec_delayed, reason };
                    assert_eq!(Stall::from_key(&stall.key(event)), stall);
                }
            }
        }
        let nothing = Stall { usec_timeout: None, usec_delayed: None, reason: None };
        assert_eq!(["0x111a30", "9", ""].map(Stall::from_key), [nothing; 3]);
    }
}
