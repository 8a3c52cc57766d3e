//! From the ledger's journal to rows: tasks, phases, locks and waits get their names.

use std::collections::BTreeMap;

use highwater_core::trace::{Event, Tracepoint, Value};
use highwater_results::recording::{FieldValue, Happening, NameId, RecordedTask, Recording, Row};
use highwater_sim::ledger::journal::{ENTRIES_MAX, Entry, Journal, What};
use highwater_sim::ledger::{GroupNames, Ledger, NodeKey, Window};

use crate::names::name;

/// The rows of a journal. The caller fills in machine, policy, seed and part.
pub(super) fn recording(ledger: &Ledger, journal: Journal, window: Window) -> Recording {
    let mut notes = Vec::new();
    if journal.nr_left_out > 0 {
        let (nr, from) = (journal.nr_left_out, seconds(window.from_ns));
        notes.push(format!(
            "the first {ENTRIES_MAX} changes from {from} s on are kept, {nr} are not: take a shorter part of the run \
             (--from, --to, --around-worst) or fewer tracepoints (--events)"
        ));
    }
    let tasks = ledger.tasks.iter().zip(&journal.roles).map(|(task, role)| RecordedTask {
        name: task.name.to_string(),
        is_kernel: role.is_kernel,
        is_interrupt: role.is_interrupt,
    });
    let mut rows = Rows::new(ledger);
    let tasks = tasks.collect();
    for Entry { at_ns, task, what } in journal.entries {
        let what = rows.happening(task, what);
        rows.rows.push(Row { at_ns, task, what });
    }
    let Rows { names, rows, fields, .. } = rows;
    Recording { tasks, names: names.all, fields, rows, notes, ..Recording::default() }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

struct Rows<'a> {
    groups: &'a GroupNames,
    names: Names,
    rows: Vec<Row>,
    /// Names of fields, by the name of their tracepoint.
    fields: BTreeMap<NameId, Vec<NameId>>,
    /// The open nodes of each task, outermost first.
    paths: Vec<Vec<NodeKey>>,
}

impl Rows<'_> {
    fn new(ledger: &Ledger) -> Rows<'_> {
        Rows {
            groups: &ledger.groups,
            names: Names::default(),
            rows: Vec::new(),
            fields: BTreeMap::new(),
            paths: vec![Vec::new(); ledger.tasks.len()],
        }
    }

    fn happening(&mut self, task: u32, what: What) -> Happening {
        let path = &mut self.paths[task as usize];
        match what {
            What::Runs(cpu) => Happening::Runs { cpu: cpu.0 },
            What::Stops(None) => Happening::Preempted,
            What::Stops(Some(leaf)) => {
                // A task enters a lock's node before it waits for the lock.
                let why = match path.last() == Some(&leaf) {
                    true => name(path, self.groups),
                    false => name(&[path.as_slice(), &[leaf]].concat(), self.groups),
                };
                let (why, is_sleep) = (self.names.id(&why), leaf == NodeKey::Sleep);
                Happening::Waits { why, is_sleep }
            }
            What::Wakes(by) => Happening::Woken { by: by.map(|(_, task)| task) },
            What::Enters(key) => {
                path.push(key);
                let what = name(path, self.groups);
                Happening::Enters { what: self.names.id(&what) }
            }
            What::Leaves(_) => {
                path.pop();
                Happening::Leaves
            }
            What::BeginsOp => Happening::BeginsOperation,
            What::EndsOp(name) => Happening::EndsOperation { name: self.names.id(&name) },
            What::Passes(cpu, event) => Happening::Passes {
                cpu: cpu.0,
                system: self.names.id(event.system()),
                name: self.names.id(event.name()),
                text: text(&event),
                values: self.values(&event),
            },
            What::Ends => Happening::Ends,
        }
    }

    /// The values of an event's fields; their names are noted once for each tracepoint.
    fn values(&mut self, event: &Event) -> Box<[FieldValue]> {
        let tracepoint = event.kind().tracepoint();
        let name = self.names.id(tracepoint.name);
        if !self.fields.contains_key(&name) {
            let fields = tracepoint.fields.iter();
            let names = fields.map(|field| self.names.id(linux_name(tracepoint, field.name)));
            let names = names.collect();
            self.fields.insert(name, names);
        }
        let values = event.fields().map(|(_, value)| match value {
            Value::Number(number) => FieldValue::Number(number),
            Value::Bool(is_set) => FieldValue::Flag(is_set),
            Value::Pfn(pfn) => pfn.map_or(FieldValue::NoFrame, |pfn| FieldValue::Frame(pfn.get())),
            Value::Name(word) => FieldValue::Words(self.names.id(word)),
            Value::Gfp(gfp) => FieldValue::Words(self.names.id(&gfp.to_string())),
        });
        values.collect()
    }
}

/// The name of a field in the kernel's own text: `gfp_flags` of `gfp_flags={gfp}`. A field that the text does not name
/// so keeps its own.
fn linux_name(tracepoint: &Tracepoint, field: &'static str) -> &'static str {
    let placeholder = format!("{{{field}}}");
    let mut words = tracepoint.text.split(' ').filter_map(|word| word.split_once('='));
    words.find(|(_, value)| *value == placeholder).map_or(field, |(name, _)| name)
}

/// An event's line without its name.
fn text(event: &Event) -> Box<str> {
    let line = event.to_string();
    line.split_once(": ").map_or("", |(_, text)| text).into()
}

/// Names, each once.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    ids: BTreeMap<String, NameId>,
}

impl Names {
    fn id(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.all.len() as NameId;
        self.all.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }
}
