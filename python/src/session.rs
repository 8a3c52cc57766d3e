//! A simulated run that Python takes step by step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use highwater::input::held::{self, Texts};
use highwater::session;
use highwater::sim::pressure::{Reading, Resource};
use highwater::watching::{Frame, Pace, Watcher};
use highwater::workload::Registry;
use pyo3::prelude::*;

use crate::error::Failed;
use crate::spec::Given;
use crate::work::Caller;

/// A zone: name, managed and free pages, the marks min, low and high, free blocks by order.
type ZoneSeen = (String, u64, u64, [u64; 3], Vec<u64>);
/// A task: name, whether it is a kernel thread, its CPU, its phases.
type TaskSeen = (String, bool, Option<u16>, String);
/// Microseconds of pressure by name; none if the kernel does not measure it.
type Stalls = Option<Vec<(&'static str, u64)>>;
/// A group: name, charged pages, pages in swap, limits by name, pressure.
type GroupSeen = (String, u64, u64, Vec<(&'static str, Option<u64>)>, Stalls);
/// A look: virtual nanoseconds, counters, pressure, zones, tasks, sysctls as JSON, groups.
type Seen = (
    u64,
    BTreeMap<&'static str, u64>,
    Stalls,
    Vec<ZoneSeen>,
    Vec<TaskSeen>,
    String,
    Vec<GroupSeen>,
);
/// How a run ended: its samples by operation, counters, and user, system and elapsed nanoseconds.
type Ended = (Vec<(String, f64)>, Vec<(String, i64)>, (u64, u64, u64), Vec<String>);

/// A run that stands still between two looks.
#[pyclass(frozen, module = "highwater._highwater")]
pub(crate) struct Session {
    /// None once it is closed or has ended.
    session: Arc<Mutex<Option<session::Session>>>,
    /// The run in words.
    #[pyo3(get)]
    title: String,
    /// Remarks about names and values that were added, dropped or ignored.
    #[pyo3(get)]
    remarks: Vec<String>,
}

/// Nobody waits: a step and a write are one after the other.
fn lock(session: &Mutex<Option<session::Session>>) -> MutexGuard<'_, Option<session::Session>> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed() -> Failed {
    Failed::said("the session is closed")
}

#[pymethods]
impl Session {
    #[new]
    fn new(
        py: Python<'_>,
        spec: String,
        texts: Texts,
        every_ns: u64,
        step: Option<String>,
    ) -> PyResult<Session> {
        let made = py.detach(|| -> Result<_, Failed> {
            let given = Given::new(&spec, texts)?;
            let options = given.spec.one_run()?;
            let registry = Registry::default();
            let mut remarks = Vec::new();
            let (plan, _) = held::with(&given.texts, || {
                options.plan(&registry, &mut |line| remarks.push(line))
            });
            let watcher = Watcher::new(every_ns);
            watcher.set_pace(Pace::Paused);
            Ok((session::Session::start(plan?, step.as_deref(), watcher)?, remarks))
        });
        let (session, mut remarks) = made?;
        remarks.dedup();
        let title = session.title().to_owned();
        Ok(Session { session: Arc::new(Mutex::new(Some(session))), title, remarks })
    }

    /// Goes on to the next look; none if the run ends before it.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Seen>> {
        let session = Arc::clone(&self.session);
        let caller = Caller { tell: None, stop: None };
        caller.wait(py, move |_| {
            let mut session = lock(&session);
            let frame = session.as_mut().ok_or_else(closed)?.next_frame();
            frame.as_deref().map(seen).transpose()
        })
    }

    /// Writes sysctls and settings of groups, each `KEY=VALUE`.
    fn set(&self, py: Python<'_>, said: Vec<String>) -> PyResult<()> {
        Ok(py.detach(|| -> Result<(), Failed> {
            let said: Vec<&str> = said.iter().map(String::as_str).collect();
            Ok(lock(&self.session).as_ref().ok_or_else(closed)?.set(&said)?)
        })?)
    }

    /// Runs to the end.
    fn finish(&self, py: Python<'_>) -> PyResult<Ended> {
        let session = Arc::clone(&self.session);
        let caller = Caller { tell: None, stop: None };
        caller.wait(py, move |_| {
            let session = lock(&session).take().ok_or_else(closed)?;
            let outcome = session.finish().map_err(highwater::plan::PlanError::from)?;
            let counters = outcome.counters.iter().map(|(name, nr)| (name.to_owned(), nr));
            let times = &outcome.times;
            let times = (times.user_ns, times.system_ns, times.elapsed_ns);
            Ok((outcome.samples, counters.collect(), times, outcome.notes))
        })
    }

    /// Ends the run where it is.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.session).take()));
    }
}

/// A look, for Python.
fn seen(frame: &Frame) -> Result<Seen, Failed> {
    let zones = frame
        .zones
        .iter()
        .map(|zone| (zone.name.clone(), zone.managed, zone.free, zone.marks, zone.blocks.clone()));
    let tasks = frame
        .tasks
        .iter()
        .map(|task| (task.name.clone(), task.is_daemon, task.cpu, task.doing.clone()));
    let sysctls =
        serde_json::to_string(&frame.sysctls).map_err(|error| Failed::said(error.to_string()))?;
    let groups = frame.groups.iter().map(|group| {
        let limits = group.limits;
        let limits = vec![
            ("min", limits.min),
            ("low", limits.low),
            ("high", limits.high),
            ("max", limits.max),
            ("swap-high", limits.swap_high),
            ("swap-max", limits.swap_max),
        ];
        (group.name.clone(), group.current, group.swap, limits, stalls(group.pressure.as_ref()))
    });
    let (counters, pressure) = (frame.counters.clone(), stalls(frame.pressure.as_ref()));
    let (zones, tasks) = (zones.collect(), tasks.collect());
    Ok((frame.at_ns, counters, pressure, zones, tasks, sysctls, groups.collect()))
}

/// The pressure of a machine or a group.
fn stalls(reading: Option<&Reading>) -> Stalls {
    let reading = reading?;
    let [cpu, memory, io] =
        [Resource::Cpu, Resource::Memory, Resource::Io].map(|resource| reading.of(resource));
    Some(vec![
        ("cpu.some", cpu.some.total_us),
        ("memory.some", memory.some.total_us),
        ("memory.full", memory.full.total_us),
        ("io.some", io.some.total_us),
        ("io.full", io.full.total_us),
    ])
}
