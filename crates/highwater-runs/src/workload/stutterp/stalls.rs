//! How long throttled tasks slept, from trace events; all nodes together, as in the study.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use highwater_core::trace::{Event, Kind};
use highwater_results::{Histogram, Stall};
use highwater_sim::engine::Sim;
use highwater_sim::host::TraceSink;
use highwater_sim::ledger::KindSet;

/// Name prefix of the reclaiming kernel threads; their node's number follows.
pub const KSWAPD: &str = "kswapd";
/// Context of all other tasks, flushers that need memory among them.
const DIRECT: &str = "direct reclaim";

/// Event, context, and details.
type Key = (Kind, &'static str, Stall<'static>);

/// Counts so far.
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

    /// The simulation that knows the running task.
    pub(super) fn watch(&self, sim: &Sim) {
        // Told twice, the first stays.
        let _ = self.sim.set(sim.clone());
    }

    fn see(&self, event: &Event) {
        let Some(stall) = stall(event) else { return };
        let context = self.sim.get().map_or(DIRECT, context);
        *self.counts.borrow_mut().entry((event.kind(), context, stall)).or_default() += 1;
    }

    /// A histogram for each event and context.
    pub(super) fn histograms(&self) -> Vec<Histogram> {
        let mut histograms: Vec<Histogram> = Vec::new();
        for (&(kind, context, stall), &count) in &*self.counts.borrow() {
            let event = kind.tracepoint().name;
            let last = histograms.last_mut();
            match last.filter(|h| h.event == event && h.context == context) {
                Some(histogram) => histogram.record(&stall.key(event), count),
                None => {
                    let name = format!("{context}: {event}");
                    let mut histogram = Histogram::new(&name, event, context);
                    histogram.record(&stall.key(event), count);
                    histograms.push(histogram);
                }
            }
        }
        histograms
    }
}

/// In which context the running task is throttled.
pub fn context(sim: &Sim) -> &'static str {
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

/// Events about stalls: those that [`stall`] handles.
pub(super) const STALLS: KindSet =
    KindSet::NONE.with(Kind::Throttled).with(Kind::CongestionWait).with(Kind::WaitIffCongested);

/// The stall that an event reports, if it does.
fn stall(event: &Event) -> Option<Stall<'static>> {
    let (usec_timeout, usec_delayed, reason) = match *event {
        Event::Throttled { usec_timeout, usec_delayed, reason, .. } => {
            (usec_timeout, usec_delayed, Some(reason.name()))
        }
        Event::CongestionWait { usec_timeout, usec_delayed }
        | Event::WaitIffCongested { usec_timeout, usec_delayed } => {
            (usec_timeout, usec_delayed, None)
        }
        _ => return None,
    };
    let [usec_timeout, usec_delayed] = [usec_timeout, usec_delayed].map(|usec| Some(usec.into()));
    Some(Stall { usec_timeout, usec_delayed, reason })
}

#[cfg(test)]
mod tests {
    use highwater_core::reclaim::ThrottleReason;
    use highwater_core::zone::NodeId;

    use super::*;

    #[test]
    fn kernel_threads_other_than_kswapd_reclaim_directly() {
        assert_eq!(["kswapd0", "kswapd12"].map(context_of_thread), [KSWAPD; 2]);
        let others = ["flusher/0", "kswapd/file", "writer/1", "kcompactd0"];
        assert_eq!(others.map(context_of_thread), [DIRECT; 4]);
    }

    #[test]
    fn keys_are_the_events_texts_without_the_node() {
        let (usec_timeout, usec_delayed) = (100_000, 4000);
        let (nid, reason) = (NodeId(1), ThrottleReason::Congested);
        for event in [
            Event::Throttled { nid, usec_timeout, usec_delayed, reason },
            Event::CongestionWait { usec_timeout, usec_delayed },
            Event::WaitIffCongested { usec_timeout, usec_delayed },
        ] {
            let text = event.to_string().replace("nid=1 ", "");
            let key = stall(&event).map(|stall| stall.key(event.name()));
            assert_eq!(key.map(|key| format!("{}: {key}", event.name())), Some(text));
            assert!(STALLS.has(event.kind()));
        }
        assert_eq!(Kind::ALL.iter().filter(|&&kind| STALLS.has(kind)).count(), 3);
    }

    #[test]
    fn delays_of_all_nodes_are_counted_together() {
        let stalls = Stalls::default();
        let sink = stalls.sink();
        // rules/mmtests-tables#delay-histogram
        for (nid, delay) in [(0, 0), (1, 4000), (0, 0), (1, 100_000), (0, 4000), (1, 0)] {
            let event = Event::Throttled {
                nid: NodeId(nid),
                usec_timeout: 100_000,
                usec_delayed: delay,
                reason: ThrottleReason::Writeback,
            };
            sink(0, highwater_core::host::CpuId(0), &event);
        }
        let other = Event::KswapdSleep { nid: NodeId(0) };
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
