//! How long throttled tasks slept, counted as it is traced.
//!
//! Events are kept by their text without the node, as the study counted them:
//! `usec_timeout=100000 usect_delayed=0 reason=VMSCAN_THROTTLE_WRITEBACK`.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use highwater_core::trace::Event;
use highwater_results::Histogram;
use highwater_sim::engine::Sim;
use highwater_sim::host::TraceSink;

/// The events.
const EVENTS: [&str; 3] =
    ["mm_vmscan_throttled", "writeback_congestion_wait", "writeback_wait_iff_congested"];
/// Context of the kernel threads that reclaim; they are called this and their node's number.
pub(crate) const KSWAPD: &str = "kswapd";
/// Context of all other tasks, flushers that need memory among them.
const DIRECT: &str = "direct reclaim";

/// Event, context and text.
type Key = (&'static str, &'static str, String);

/// What was counted so far.
#[derive(Clone, Default)]
pub(super) struct Stalls {
    counts: Rc<RefCell<BTreeMap<Key, u64>>>,
    sim: Rc<OnceCell<Sim>>,
}

impl Stalls {
    /// A sink for a machine's trace events.
    pub(super) fn sink(&self) -> TraceSink {
        let stalls = self.clone();
        Box::new(move |_, _, event| stalls.see(event))
    }

    /// Who is running is asked of this simulation.
    pub(super) fn watch(&self, sim: &Sim) {
        // Told twice, the first stays.
        let _ = self.sim.set(sim.clone());
    }

    fn see(&self, event: &Event) {
        let name = event.name();
        let Some(name) = EVENTS.iter().find(|&&known| known == name) else { return };
        let context = self.sim.get().map_or(DIRECT, context);
        let key = (*name, context, text(&event.to_string()));
        *self.counts.borrow_mut().entry(key).or_default() += 1;
    }

    /// A histogram for each event and context.
    pub(super) fn histograms(&self) -> Vec<Histogram> {
        let mut histograms: Vec<Histogram> = Vec::new();
        for ((event, context, text), count) in &*self.counts.borrow() {
            let last = histograms.last_mut();
            match last.filter(|h| h.event == *event && h.context == *context) {
                Some(histogram) => histogram.record(text, *count),
                None => {
                    let name = format!("{context}: {event}");
                    let mut histogram = Histogram::new(&name, event, context);
                    histogram.record(text, *count);
                    histograms.push(histogram);
                }
            }
        }
        histograms
    }
}

/// In which context the running task is throttled.
pub(crate) fn context(sim: &Sim) -> &'static str {
    let name = sim.current().filter(|&task| sim.is_kernel_thread(task));
    let name = name.and_then(|task| sim.task_name(task));
    name.map_or(DIRECT, |name| context_of_thread(&name))
}

/// The same of a kernel thread by its name.
fn context_of_thread(name: &str) -> &'static str {
    let number = name.strip_prefix(KSWAPD);
    let is_kswapd = number.is_some_and(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
    if is_kswapd { KSWAPD } else { DIRECT }
}

/// An event's text without its name and its node.
fn text(event: &str) -> String {
    let fields = event.split_once(": ").map_or(event, |(_, fields)| fields);
    let kept = fields.split_whitespace().filter(|field| !field.starts_with("nid="));
    kept.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use highwater_core::reclaim::ThrottleReason;
    use highwater_core::trace::VmscanEvent;
    use highwater_core::zone::NodeId;

    use super::*;

    #[test]
    fn kernel_threads_other_than_kswapd_reclaim_directly() {
        assert_eq!(["kswapd0", "kswapd12"].map(context_of_thread), [KSWAPD; 2]);
        let others = ["flusher/0", "kswapd/file", "writer/1", "kcompactd0"];
        assert_eq!(others.map(context_of_thread), [DIRECT; 4]);
    }

    #[test]
    fn delays_are_counted_by_text_without_the_node() {
        let stalls = Stalls::default();
        let sink = stalls.sink();
        // Spec 05 §7, vector 14.
        for (nid, delay) in [(0, 0), (1, 4000), (0, 0), (1, 100_000), (0, 4000), (1, 0)] {
            let event = VmscanEvent::Throttled {
                nid: NodeId(nid),
                usec_timeout: 100_000,
                usec_delayed: delay,
                reason: ThrottleReason::Writeback,
            };
            sink(0, highwater_core::host::CpuId(0), &Event::Vmscan(event));
        }
        let other = Event::Vmscan(VmscanEvent::KswapdSleep { nid: NodeId(0) });
        sink(0, highwater_core::host::CpuId(0), &other);
        let histograms = stalls.histograms();
        assert_eq!(histograms.len(), 1);
        assert_eq!((histograms[0].context.as_str(), histograms[0].total), (DIRECT, 6));
        let text = |delay: u32| {
            format!("usec_timeout=100000 usect_delayed={delay} reason=VMSCAN_THROTTLE_WRITEBACK")
        };
        let count = |delay| histograms[0].buckets.get(&text(delay)).copied();
        assert_eq!([count(0), count(4000), count(100_000)], [Some(3), Some(2), Some(1)]);
    }
}
