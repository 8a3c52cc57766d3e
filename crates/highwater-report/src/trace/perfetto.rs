//! A recording as Perfetto's protobuf, for ui.perfetto.dev.
//!
//! | shown | from |
//! |---|---|
//! | CPUs with their tasks | `sched_switch`, as ftrace's bundles |
//! | a thread for each task: its phases, waits and operations | slices |
//! | wakeups | flows from an instant of the waker to one of the woken |
//! | tracepoints, under their Linux names | instants on the thread, each field an argument with its type |
//! | free pages and watermarks of each zone, LRU sizes, dirty pages, events | counters (only those that change) |
//!
//! Packets are made in order and encoded one by one, because a recording is large and its trace is
//! smaller. Times are virtual, since boot.

use std::collections::BTreeSet;

use highwater_results::Column;
use highwater_results::column::Kind;
use highwater_results::recording::{FieldValue, Happening, NameId, Recording, Row};
use prost::Message;

use super::ftrace::{PRIO, who};
use super::pid;
use super::proto::{
    CounterDescriptor, DebugAnnotation, FtraceEvent, FtraceEventBundle, Interned, InternedData,
    Packets, ProcessDescriptor, SchedSwitch, SchedWaking, ThreadDescriptor, TracePacket,
    TrackDescriptor, TrackEvent, Type,
};
use super::sched::{Cpus, Switch};

/// All packets have the same writer.
const SEQUENCE: u32 = 1;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// The process that all tasks are threads of.
const PROCESS_PID: i32 = 1;
const PROCESS_TRACK: u64 = 1;
const FIRST_TASK_TRACK: u64 = 1 << 16;
const FIRST_COUNTER_TRACK: u64 = 1 << 40;

/// The kernel's number of no page frame.
const NO_FRAME: i64 = -1;

/// Names that the writer adds after the recording's names.
#[derive(Clone, Copy)]
enum Own {
    WaitsForCpu,
    Interrupt,
    Wakes,
    WokenByTime,
    Operation,
}

impl Own {
    const ALL: [(Own, &'static str); 5] = [
        (Own::WaitsForCpu, "waiting for a CPU"),
        (Own::Interrupt, "interrupt"),
        (Own::Wakes, "wakes"),
        (Own::WokenByTime, "woken"),
        (Own::Operation, "operation"),
    ];
}

/// Categories of slices and instants, for filters.
#[derive(Clone, Copy)]
enum Category {
    Phase = 1,
    Wait,
    Operation,
    Wake,
    Tracepoint,
    Interrupt,
}

const CATEGORIES: [(Category, &str); 6] = [
    (Category::Phase, "phase"),
    (Category::Wait, "wait"),
    (Category::Operation, "operation"),
    (Category::Wake, "wake"),
    (Category::Tracepoint, "tracepoint"),
    (Category::Interrupt, "interrupt"),
];

/// The bytes of a trace.
pub fn bytes(recording: &Recording) -> Vec<u8> {
    let mut writer = Writer {
        recording,
        out: Vec::new(),
        operations: operations(recording),
        tasks: vec![Task::default(); recording.tasks.len()],
        nr_flows: 0,
    };
    writer.describe();
    writer.counters();
    let mut cpus = Cpus::new(recording);
    let targets = Cpus::targets(recording);
    for (at, (row, &target)) in recording.rows.iter().zip(&targets).enumerate() {
        if let Some(switch) = cpus.step(row) {
            writer.switch(row.at_ns, switch);
        }
        if let Happening::Woken { by: Some(by) } = row.what {
            let on = cpus.cpu_of(by);
            writer.waking(row, by, on, target);
        }
        writer.row(at, row);
    }
    writer.close();
    writer.out
}

/// For each row that begins an operation: the operation's name, if it ends within the recording.
fn operations(recording: &Recording) -> Vec<(usize, NameId)> {
    let mut begun: Vec<Option<usize>> = vec![None; recording.tasks.len()];
    let mut named = Vec::new();
    for (at, row) in recording.rows.iter().enumerate() {
        match row.what {
            Happening::BeginsOperation => begun[row.task as usize] = Some(at),
            Happening::EndsOperation { name } => {
                named.extend(begun[row.task as usize].take().map(|begun| (begun, name)));
            }
            _ => {}
        }
    }
    named.sort_unstable();
    named
}

struct Writer<'a> {
    recording: &'a Recording,
    out: Vec<u8>,
    operations: Vec<(usize, NameId)>,
    tasks: Vec<Task>,
    nr_flows: u64,
}

/// Open slices of a task's track.
#[derive(Clone, Debug, Default)]
struct Task {
    /// Slices that have begun, outermost first.
    open: Vec<Open>,
    /// Start of the task's wait for a CPU.
    wants_cpu_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Phase,
    Operation,
    Wait,
    Interrupt,
}

impl Writer<'_> {
    fn packet(&mut self, at_ns: u64, packet: TracePacket) {
        let packet = TracePacket {
            timestamp: Some(at_ns),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(packet.sequence_flags.unwrap_or(NEEDS_STATE)),
            ..packet
        };
        // Encoding into a vector does not fail.
        let _ = Packets { packet: vec![packet] }.encode(&mut self.out);
    }

    fn event(&mut self, at_ns: u64, event: TrackEvent) {
        self.packet(at_ns, TracePacket { track_event: Some(event), ..TracePacket::default() });
    }

    fn own(&self, own: Own) -> u64 {
        name_iid(self.recording.names.len() as u32) + own as u64
    }

    /// Names and tracks.
    fn describe(&mut self) {
        let recording = self.recording;
        let interned =
            |iid: u64, name: &str| Interned { iid: Some(iid), name: Some(name.to_owned()) };
        let names = (0..).zip(&recording.names).map(|(at, name)| interned(name_iid(at), name));
        let fields: BTreeSet<NameId> = recording.fields.values().flatten().copied().collect();
        let fields = fields.into_iter().map(|id| interned(name_iid(id), recording.name(id)));
        let own = Own::ALL.iter().map(|&(own, name)| interned(self.own(own), name));
        let interned_data = InternedData {
            event_categories: CATEGORIES.map(|(c, name)| interned(c as u64, name)).to_vec(),
            event_names: names.chain(own).collect(),
            debug_annotation_names: fields.collect(),
        };
        self.packet(
            recording.from_ns,
            TracePacket {
                sequence_flags: Some(STATE_CLEARED),
                interned_data: Some(interned_data),
                ..TracePacket::default()
            },
        );
        let Recording { experiment, label, machine, seed, part, .. } = recording;
        let step = if part.is_empty() { String::new() } else { format!(", {part}") };
        let name = format!("{experiment}: {label} on {machine}, seed {seed}{step}");
        let process = ProcessDescriptor { pid: Some(PROCESS_PID), process_name: Some(name) };
        self.track(TrackDescriptor {
            uuid: Some(PROCESS_TRACK),
            process: Some(process),
            ..TrackDescriptor::default()
        });
        for (at, task) in (0..).zip(&recording.tasks) {
            let thread = ThreadDescriptor {
                pid: Some(PROCESS_PID),
                tid: Some(pid(at)),
                thread_name: Some(task.name.clone()),
            };
            self.track(TrackDescriptor {
                uuid: Some(task_track(at)),
                parent_uuid: Some(PROCESS_TRACK),
                thread: Some(thread),
                ..TrackDescriptor::default()
            });
        }
    }

    fn track(&mut self, track: TrackDescriptor) {
        let at_ns = self.recording.from_ns;
        self.packet(at_ns, TracePacket { track_descriptor: Some(track), ..TracePacket::default() });
    }

    /// Counters that change, at the times of their changes; limits always.
    fn counters(&mut self) {
        let series = &self.recording.counters;
        for (column, Column { name, unit, kind, .. }) in series.columns.iter().enumerate() {
            let Some((_, first)) = series.rows().next() else { return };
            let changes = series.rows().any(|(_, row)| row[column] != first[column]);
            if !changes && *kind != Kind::Limit {
                continue;
            }
            let uuid = FIRST_COUNTER_TRACK + column as u64;
            let unit_name = Some(unit.name().to_owned());
            self.track(TrackDescriptor {
                uuid: Some(uuid),
                name: Some(name.clone()),
                counter: Some(CounterDescriptor { unit_name }),
                ..TrackDescriptor::default()
            });
            let mut last = None;
            for (at_ns, row) in series.rows() {
                if last.replace(row[column]) != Some(row[column]) {
                    self.event(
                        at_ns,
                        TrackEvent {
                            r#type: Some(Type::Counter as i32),
                            track_uuid: Some(uuid),
                            counter_value: Some(i64::try_from(row[column]).unwrap_or(i64::MAX)),
                            ..TrackEvent::default()
                        },
                    );
                }
            }
        }
    }

    /// A CPU switches to another task.
    fn switch(&mut self, at_ns: u64, switch: Switch) {
        let Switch { cpu, prev, state, next } = switch;
        let (prev_comm, prev_pid) = who(self.recording, cpu, prev);
        let (next_comm, next_pid) = who(self.recording, cpu, next);
        let sched_switch = SchedSwitch {
            prev_comm: Some(prev_comm),
            prev_pid: Some(prev_pid),
            prev_prio: Some(PRIO),
            prev_state: Some(state.bits()),
            next_comm: Some(next_comm),
            next_pid: Some(next_pid),
            next_prio: Some(PRIO),
        };
        self.ftrace(at_ns, cpu, prev_pid, |event| event.sched_switch = Some(sched_switch));
    }

    /// A task is woken by another.
    fn waking(&mut self, row: &Row, by: u32, on: u16, target: u16) {
        let (comm, pid) = who(self.recording, target, Some(row.task));
        let sched_waking = SchedWaking {
            comm: Some(comm),
            pid: Some(pid),
            prio: Some(PRIO),
            success: Some(1),
            target_cpu: Some(target.into()),
        };
        self.ftrace(row.at_ns, on, super::pid(by), |event| {
            event.sched_waking = Some(sched_waking);
        });
    }

    fn ftrace(&mut self, at_ns: u64, cpu: u16, pid: i32, what: impl FnOnce(&mut FtraceEvent)) {
        let mut event = FtraceEvent {
            timestamp: Some(at_ns),
            pid: Some(pid.unsigned_abs()),
            ..FtraceEvent::default()
        };
        what(&mut event);
        let bundle = FtraceEventBundle { cpu: Some(cpu.into()), event: vec![event] };
        let packet = TracePacket { ftrace_events: Some(bundle), ..TracePacket::default() };
        self.packet(at_ns, packet);
    }

    /// Writes a row to its task's track.
    fn row(&mut self, at: usize, row: &Row) {
        let (at_ns, task) = (row.at_ns, row.task);
        match &row.what {
            Happening::Runs { .. } => {
                if let Some(since_ns) = self.tasks[task as usize].wants_cpu_ns.take()
                    && since_ns < at_ns
                {
                    self.slice(since_ns, task, self.own(Own::WaitsForCpu), Category::Wait);
                    self.end(at_ns, task);
                }
                self.end_if(at_ns, task, Open::Wait);
                if self.recording.tasks[task as usize].is_interrupt {
                    self.begin(at_ns, task, Open::Interrupt, self.own(Own::Interrupt));
                }
            }
            Happening::Preempted => self.tasks[task as usize].wants_cpu_ns = Some(at_ns),
            Happening::Waits { why, .. } => {
                self.end_if(at_ns, task, Open::Interrupt);
                self.begin(at_ns, task, Open::Wait, name_iid(*why));
            }
            Happening::Woken { by } => self.woken(row, *by),
            Happening::Enters { what } => self.begin(at_ns, task, Open::Phase, name_iid(*what)),
            Happening::Leaves => self.end_if(at_ns, task, Open::Phase),
            Happening::BeginsOperation => {
                let known = self.operations.binary_search_by_key(&at, |&(begun, _)| begun);
                let name = known.map(|known| name_iid(self.operations[known].1));
                let name = name.unwrap_or(self.own(Own::Operation));
                self.begin(at_ns, task, Open::Operation, name);
            }
            Happening::EndsOperation { .. } => self.end_if(at_ns, task, Open::Operation),
            Happening::Passes { name, values, .. } => {
                let fields = self.recording.fields.get(name).map_or(&[][..], Vec::as_slice);
                let fields = fields.iter().zip(values);
                let annotations = fields.map(|(&name, &value)| self.annotation(name, value));
                let annotations = annotations.collect();
                let event = TrackEvent {
                    debug_annotations: annotations,
                    ..instant(task, name_iid(*name), Category::Tracepoint)
                };
                self.event(at_ns, event);
            }
            Happening::Ends => self.end_all(at_ns, task),
        }
    }

    /// A field of a tracepoint.
    fn annotation(&self, name: NameId, value: FieldValue) -> DebugAnnotation {
        let annotation =
            DebugAnnotation { name_iid: Some(name_iid(name)), ..DebugAnnotation::default() };
        match value {
            FieldValue::Number(number) | FieldValue::Frame(number) => {
                DebugAnnotation { uint_value: Some(number), ..annotation }
            }
            FieldValue::NoFrame => DebugAnnotation { int_value: Some(NO_FRAME), ..annotation },
            FieldValue::Flag(is_set) => DebugAnnotation { bool_value: Some(is_set), ..annotation },
            FieldValue::Words(words) => {
                let words = self.recording.name(words).to_owned();
                DebugAnnotation { string_value: Some(words), ..annotation }
            }
        }
    }

    /// A wait ends; an arrow connects the waker and the woken task.
    fn woken(&mut self, row: &Row, by: Option<u32>) {
        let (at_ns, task) = (row.at_ns, row.task);
        self.end_if(at_ns, task, Open::Wait);
        self.tasks[task as usize].wants_cpu_ns = Some(at_ns);
        let Some(by) = by.filter(|&by| by != task) else { return };
        self.nr_flows += 1;
        let flow = vec![self.nr_flows];
        let wakes = instant(by, self.own(Own::Wakes), Category::Wake);
        self.event(at_ns, TrackEvent { flow_ids: flow.clone(), ..wakes });
        let woken = instant(task, self.own(Own::WokenByTime), Category::Wake);
        self.event(at_ns, TrackEvent { terminating_flow_ids: flow, ..woken });
    }

    fn begin(&mut self, at_ns: u64, task: u32, open: Open, name: u64) {
        let category = match open {
            Open::Phase => Category::Phase,
            Open::Operation => Category::Operation,
            Open::Wait => Category::Wait,
            Open::Interrupt => Category::Interrupt,
        };
        self.tasks[task as usize].open.push(open);
        self.slice(at_ns, task, name, category);
    }

    fn slice(&mut self, at_ns: u64, task: u32, name: u64, category: Category) {
        let slice = instant(task, name, category);
        self.event(at_ns, TrackEvent { r#type: Some(Type::SliceBegin as i32), ..slice });
    }

    /// Ends the innermost slice, if it is one of this kind.
    fn end_if(&mut self, at_ns: u64, task: u32, open: Open) {
        let slices = &mut self.tasks[task as usize].open;
        if slices.pop_if(|last| *last == open).is_some() {
            self.end(at_ns, task);
        }
    }

    fn end_all(&mut self, at_ns: u64, task: u32) {
        while self.tasks[task as usize].open.pop().is_some() {
            self.end(at_ns, task);
        }
    }

    fn end(&mut self, at_ns: u64, task: u32) {
        let end = TrackEvent {
            r#type: Some(Type::SliceEnd as i32),
            track_uuid: Some(task_track(task)),
            ..TrackEvent::default()
        };
        self.event(at_ns, end);
    }

    /// Slices that are still open end with the recording.
    fn close(&mut self) {
        let end_ns = self.recording.to_ns;
        for task in 0..self.tasks.len() as u32 {
            if let Some(since_ns) = self.tasks[task as usize].wants_cpu_ns.take()
                && since_ns < end_ns
            {
                self.slice(since_ns, task, self.own(Own::WaitsForCpu), Category::Wait);
                self.end(end_ns, task);
            }
            self.end_all(end_ns, task);
        }
    }
}

fn instant(task: u32, name: u64, category: Category) -> TrackEvent {
    TrackEvent {
        category_iids: vec![category as u64],
        r#type: Some(Type::Instant as i32),
        name_iid: Some(name),
        track_uuid: Some(task_track(task)),
        ..TrackEvent::default()
    }
}

/// 0 stands for no name.
const fn name_iid(name: NameId) -> u64 {
    name as u64 + 1
}

const fn task_track(task: u32) -> u64 {
    FIRST_TASK_TRACK + task as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use highwater_results::Series;
    use highwater_results::column::{Owner, Unit};
    use highwater_results::recording::RecordedTask;

    use super::*;

    fn rows(of: impl IntoIterator<Item = (u64, u32, Happening)>) -> Vec<Row> {
        of.into_iter().map(|(at_ns, task, what)| Row { at_ns, task, what }).collect()
    }

    const NAMES: [&str; 10] = [
        "fault",
        "a page lock",
        "vmscan",
        "mm_x",
        "mmap-4",
        "nid",
        "pfn",
        "is_file",
        "gfp_flags",
        "GFP_KERNEL",
    ];

    fn passes() -> Happening {
        let values = [
            FieldValue::Number(3),
            FieldValue::Frame(0x1870),
            FieldValue::NoFrame,
            FieldValue::Flag(true),
            FieldValue::Words(9),
        ];
        Happening::Passes {
            cpu: 0,
            system: 2,
            name: 3,
            text: "nid=3".into(),
            values: values.into(),
        }
    }

    fn recording() -> Recording {
        let task = |name: &str| RecordedTask { name: name.to_owned(), ..RecordedTask::default() };
        let column = |name, unit, kind| Column::new(Owner::Machine, name, unit, kind);
        // Names say nothing about units.
        let mut counters = Series::new(vec![
            column("nr_dirty", Unit::Pages, Kind::Level),
            column("still", Unit::Pages, Kind::Level),
            column("low", Unit::Pages, Kind::Limit),
            column("pressure/memory/some", Unit::Microseconds, Kind::Total),
            column("nr_full", Unit::Percent, Kind::Level),
            column("pgfault", Unit::Events, Kind::Total),
        ]);
        for (at, dirty) in [(0, 5), (10, 5), (20, 7)] {
            counters.push(at, [dirty, 1, 9, at, dirty, dirty]);
        }
        Recording {
            nr_cpus: 1,
            to_ns: 100,
            tasks: vec![task("a"), task("b")],
            fields: BTreeMap::from([(3, vec![5, 6, 6, 7, 8])]),
            names: NAMES.map(str::to_owned).to_vec(),
            rows: rows([
                (0, 0, Happening::Runs { cpu: 0 }),
                (5, 0, Happening::BeginsOperation),
                (6, 0, Happening::Enters { what: 0 }),
                (7, 0, passes()),
                (8, 0, Happening::Waits { why: 1, is_sleep: false }),
                (20, 1, Happening::Runs { cpu: 0 }),
                (30, 0, Happening::Woken { by: Some(1) }),
                (40, 1, Happening::Preempted),
                (45, 0, Happening::Runs { cpu: 0 }),
                (50, 0, Happening::Leaves),
                (51, 0, Happening::EndsOperation { name: 4 }),
            ]),
            counters,
            ..Recording::default()
        }
    }

    /// Events of a type, as time, track and name.
    fn events(packets: &Packets, of: Type) -> Vec<(u64, u64, Option<u64>)> {
        let events = packets.packet.iter().filter_map(|packet| {
            let event = packet.track_event.as_ref()?;
            let is_wanted = event.r#type == Some(of as i32);
            is_wanted.then_some((packet.timestamp?, event.track_uuid?, event.name_iid))
        });
        events.collect()
    }

    #[test]
    fn a_trace_is_read_back_slice_by_slice() {
        let recording = recording();
        let bytes = super::bytes(&recording);
        assert_eq!(bytes, super::bytes(&recording));
        let packets = Packets::decode(bytes.as_slice()).unwrap();
        let waits = name_iid(NAMES.len() as NameId);
        let [a, b] = [task_track(0), task_track(1)];
        let begun = [
            (5, a, Some(name_iid(4))),
            (6, a, Some(name_iid(0))),
            (8, a, Some(name_iid(1))),
            (30, a, Some(waits)),
            (40, b, Some(waits)),
        ];
        assert_eq!(events(&packets, Type::SliceBegin), begun);
        let ended: Vec<_> =
            events(&packets, Type::SliceEnd).iter().map(|&(at, track, _)| (at, track)).collect();
        assert_eq!(ended, [(30, a), (45, a), (50, a), (51, a), (100, b)]);
        let instants: Vec<_> =
            events(&packets, Type::Instant).iter().map(|&(at, track, _)| (at, track)).collect();
        assert_eq!(instants, [(7, a), (30, b), (30, a)]);
        // Counters that never change are left out, except limits.
        assert_eq!(events(&packets, Type::Counter).len(), 2 + 1 + 3 + 2 + 2);
        let switches = packets.packet.iter().filter(|packet| {
            let bundle = packet.ftrace_events.iter().flat_map(|bundle| &bundle.event);
            bundle.filter(|event| event.sched_switch.is_some()).count() > 0
        });
        assert_eq!(switches.count(), 5);
    }

    #[test]
    fn counters_have_the_unit_that_their_column_declares() {
        let packets = Packets::decode(super::bytes(&recording()).as_slice()).unwrap();
        let tracks = packets.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        let units = tracks.filter_map(|track| {
            Some((track.name.as_deref()?, track.counter.as_ref()?.unit_name.as_deref()?))
        });
        let expected = [
            ("nr_dirty", "pages"),
            ("low", "pages"),
            ("pressure/memory/some", "microseconds"),
            ("nr_full", "percent"),
            ("pgfault", "events"),
        ];
        assert_eq!(units.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn fields_of_tracepoints_keep_their_types() {
        let packets = Packets::decode(super::bytes(&recording()).as_slice()).unwrap();
        let data = packets.packet.iter().find_map(|packet| packet.interned_data.as_ref()).unwrap();
        let named = |iid| {
            let names = data.debug_annotation_names.iter();
            names.clone().find(|name| name.iid == iid).and_then(|name| name.name.as_deref())
        };
        assert_eq!(data.debug_annotation_names.len(), 4, "those of fields");
        let events = packets.packet.iter().filter_map(|packet| packet.track_event.as_ref());
        let fields: Vec<_> = events.flat_map(|event| &event.debug_annotations).collect();
        let names: Vec<_> = fields.iter().filter_map(|field| named(field.name_iid)).collect();
        assert_eq!(names, ["nid", "pfn", "pfn", "is_file", "gfp_flags"]);
        let uints: Vec<_> = fields.iter().map(|field| field.uint_value).collect();
        assert_eq!(uints, [Some(3), Some(0x1870), None, None, None]);
        assert_eq!(fields[2].int_value, Some(-1));
        assert_eq!(fields[3].bool_value, Some(true));
        assert_eq!(fields[4].string_value.as_deref(), Some("GFP_KERNEL"));
        assert!(fields[..4].iter().all(|field| field.string_value.is_none()));
    }

    #[test]
    fn every_name_has_a_number_of_its_own() {
        for (at, (own, _)) in Own::ALL.iter().enumerate() {
            assert_eq!(*own as usize, at);
        }
    }
}
