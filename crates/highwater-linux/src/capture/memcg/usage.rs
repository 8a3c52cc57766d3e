//! The memory of a group, and how much of it the captured processes explain.

use std::collections::BTreeMap;

use super::super::process::{Process, Told};
use super::settings::Files;
use highwater_files::input::InputError;

/// Kernel memory of version 2 before 5.18, item by item.
const KERNEL_ITEMS: [&str; 4] = ["kernel_stack", "pagetables", "percpu", "slab"];

/// Bytes that a group and those below it are charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All memory: `memory.current`.
    pub charged: u64,
    /// The most that it ever was; `None`: the kernel does not say.
    pub peak: Option<u64>,
    /// In swap.
    pub swap: u64,
    /// Private memory.
    pub anon: u64,
    /// Page cache, shared memory included.
    pub file: u64,
    /// The kernel's own memory.
    pub kernel: u64,
}

/// Charged bytes, divided by owner. The parts are at most [`Usage::charged`] together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Private and mapped memory of the captured processes.
    pub captured: u64,
    /// Private memory of others.
    pub others: u64,
    /// Page cache that no captured process maps.
    pub cache: u64,
    /// The kernel's own memory.
    pub kernel: u64,
    /// Bytes in no statistic: sockets, and pages charged ahead for a CPU.
    pub rest: u64,
}

/// Memory of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    private: u64,
    mapped: u64,
}

impl Held {
    /// Adds a process: a page that several processes have counts once among them.
    pub(super) fn add(&mut self, process: &Process) {
        let memory = &process.last.memory;
        // Without shares the sums are all that is known.
        let mapped = match process.last.told {
            Told::Status => memory.file.saturating_add(memory.shared),
            Told::Smaps | Told::Rollup => memory.pss,
        };
        self.private = self.private.saturating_add(memory.anon_share);
        self.mapped = self.mapped.saturating_add(mapped);
    }
}

impl Usage {
    /// Divides the charged bytes. Memory of the processes that another group pays for is not
    /// among them.
    pub(super) fn parts(&self, held: Held) -> Parts {
        let mut left = self.charged;
        let mut take = |bytes: u64| {
            let taken = bytes.min(left);
            left -= taken;
            taken
        };
        let private = take(held.private.min(self.anon));
        let mapped = take(held.mapped.min(self.file));
        Parts {
            captured: private + mapped,
            others: take(self.anon.saturating_sub(held.private)),
            cache: take(self.file.saturating_sub(held.mapped)),
            kernel: take(self.kernel),
            rest: left,
        }
    }
}

/// The items of `memory.stat`.
fn items(files: &mut Files<'_>) -> Result<BTreeMap<String, u64>, InputError> {
    let text = files.text("memory.stat")?.unwrap_or_default();
    let mut items = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let value = value.parse().map_err(|_| InputError {
            line: Some(at + 1),
            field: Some(name.to_owned()),
            ..files.malformed("memory.stat", value, "a number of bytes")
        })?;
        items.insert(name.to_owned(), value);
    }
    Ok(items)
}

/// The memory of a group; `None`: the kernel does not say.
///
/// # Errors
/// If a file cannot be read or parsed.
pub(super) fn read(files: &mut Files<'_>, is_v2: bool) -> Result<Option<Usage>, InputError> {
    let [charged, peak] = match is_v2 {
        true => ["memory.current", "memory.peak"],
        false => ["memory.usage_in_bytes", "memory.max_usage_in_bytes"],
    };
    let Some(charged) = files.bytes(charged)? else { return Ok(None) };
    let peak = files.bytes(peak)?;
    let items = items(files)?;
    let item = |name: &str| items.get(name).copied();
    // Version 1 has a group's own pages, and those of all groups below it too.
    let all = |name: &str| item(&format!("total_{name}")).or(item(name)).unwrap_or(0);
    let slabs = || KERNEL_ITEMS.iter().filter_map(|name| item(name)).fold(0, u64::saturating_add);
    Ok(Some(match is_v2 {
        true => Usage {
            charged,
            peak,
            swap: files.bytes("memory.swap.current")?.unwrap_or(0),
            anon: item("anon").unwrap_or(0),
            file: item("file").unwrap_or(0),
            kernel: item("kernel").unwrap_or_else(slabs),
        },
        false => Usage {
            charged,
            peak,
            swap: all("swap"),
            anon: all("rss"),
            file: all("cache"),
            kernel: files.bytes("memory.kmem.usage_in_bytes")?.unwrap_or(0),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_never_more_than_the_whole() {
        let usage = Usage { charged: 100, anon: 40, file: 30, kernel: 20, ..Usage::default() };
        let parts = usage.parts(Held { private: 25, mapped: 10 });
        let expected = Parts { captured: 35, others: 15, cache: 20, kernel: 20, rest: 10 };
        assert_eq!(parts, expected);
        // Mapped files that another group pays for, and statistics that are late.
        let parts = usage.parts(Held { private: 60, mapped: 90 });
        assert_eq!((parts.captured, parts.others, parts.cache), (70, 0, 0));
        let late = Usage { anon: 90, ..usage };
        let parts = late.parts(Held { private: 60, mapped: 0 });
        let expected = Parts { captured: 60, others: 30, cache: 10, kernel: 0, rest: 0 };
        assert_eq!(parts, expected);
    }
}
