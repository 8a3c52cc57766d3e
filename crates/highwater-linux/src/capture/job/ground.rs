//! Memory that processes of a job share: shared memory and mapped files, each once.
//!
//! Shared memory becomes a file in memory (`memory = true`). Every process that maps it maps this
//! file, up to the size that it has touched (`Rss`). The file is as large as its resident part.
//! That is at least the largest `Rss`, and the sum of the shares (`Pss`) if this sum is larger.
//! Mapped files work the same way; files that the same processes map become one.

use std::collections::BTreeMap;

use super::super::process::Process;
use super::super::smaps::{Area, Kind};
use super::{names::Names, whole};
use highwater_runs::workload::job::{Amount, JobFile};

/// A mapping smaller than this is left out; a comment has the total of those left out.
const LEAST: u64 = 256 << 10;
const MIB: f64 = (1 << 20) as f64;

/// A process's mapping of a job's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    /// The file.
    pub(super) file: String,
    /// Shared memory; else files.
    pub(super) is_shared: bool,
    /// This many bytes of it, from its start.
    pub(super) bytes: u64,
    /// The process's mappings that it stands for.
    pub(super) areas: Vec<(Kind, String)>,
}

/// Files that processes map, and how much of them each maps.
#[derive(Debug, Default)]
pub(super) struct Ground {
    pub(super) files: Vec<JobFile>,
    pub(super) about: Vec<String>,
    /// By process.
    pub(super) mapped: Vec<Vec<Mapped>>,
}

/// A process's part of a mapping.
type Part<'a> = (usize, &'a Area);

/// Gathers what processes map.
pub(super) fn ground(processes: &[Process], names: &mut Names) -> Ground {
    let mut by_key: BTreeMap<(Kind, &str), Vec<Part<'_>>> = BTreeMap::new();
    for (at, process) in processes.iter().enumerate() {
        for area in process.last.areas.iter().filter(|area| area.rss > 0) {
            if area.kind != Kind::Anon {
                by_key.entry((area.kind, &area.key)).or_default().push((at, area));
            }
        }
    }
    let mut ground = Ground { mapped: vec![Vec::new(); processes.len()], ..Ground::default() };
    let mut groups: BTreeMap<Vec<usize>, Vec<Vec<Part<'_>>>> = BTreeMap::new();
    let mut left_out = 0;
    for ((kind, _), parts) in by_key {
        match kind {
            Kind::Shared if resident(&parts) < LEAST => left_out += resident(&parts),
            Kind::Shared => ground.add(processes, &[parts], names),
            _ => groups.entry(parts.iter().map(|part| part.0).collect()).or_default().push(parts),
        }
    }
    for parts in groups.into_values() {
        let bytes: u64 = parts.iter().map(|parts| resident(parts)).sum();
        match bytes < LEAST {
            true => left_out += bytes,
            false => ground.add(processes, &parts, names),
        }
    }
    if left_out > 0 {
        ground.about.push(format!(
            "Mappings below {} KiB are left out: {} KiB in all.",
            LEAST >> 10,
            left_out >> 10
        ));
    }
    ground
}

/// Resident bytes of a mapping: at least the largest `Rss`, and at least the sum of all `Pss`.
fn resident(parts: &[Part<'_>]) -> u64 {
    let most = parts.iter().map(|(_, area)| area.rss).max().unwrap_or(0);
    let shares: u64 = parts.iter().map(|(_, area)| area.pss).sum();
    let size = parts.iter().map(|(_, area)| area.size).max().unwrap_or(0);
    most.max(shares.min(size))
}

impl Ground {
    /// Adds a job file for mappings of one kind that the same processes map.
    fn add(&mut self, processes: &[Process], areas: &[Vec<Part<'_>>], names: &mut Names) {
        let Some((_, first)) = areas.first().and_then(|parts| parts.first()) else { return };
        let is_shared = first.kind == Kind::Shared;
        let bytes: u64 = areas.iter().map(|parts| whole(resident(parts))).sum();
        let name = match is_shared {
            true => names.file(&format!("shared-{}", last_part(&first.path))),
            false => names.file("mapped-files"),
        };
        // Resident bytes, share (`Pss`), mappings.
        type Share = (u64, u64, Vec<(Kind, String)>);
        let mut by_process: BTreeMap<usize, Share> = BTreeMap::new();
        for (at, area) in areas.iter().flatten() {
            let sum = by_process.entry(*at).or_default();
            sum.0 += whole(area.rss);
            sum.1 += area.pss;
            sum.2.push((area.kind, area.key.clone()));
        }
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / MIB);
        self.about.push(match is_shared {
            true => format!(
                "{name}: shared memory \"{}\" of {} address space, {} of it in memory. Each process maps what it has touched \
                 (its share by Pss):",
                first.path,
                mib(first.size),
                mib(bytes)
            ),
            false => {
                let largest = areas.iter().max_by_key(|parts| resident(parts));
                let path = largest.and_then(|parts| parts.first()).map_or("", |part| part.1.path.as_str());
                format!(
                    "{name}: {} mapped files, the largest {path}; {} in memory. Each process maps what it has touched (its \
                     share by Pss):",
                    areas.len(),
                    mib(bytes)
                )
            }
        });
        let all: Vec<String> = by_process
            .iter()
            .map(|(at, (rss, pss, _))| {
                format!(
                    "{} {}: {} ({})",
                    processes[*at].comm,
                    processes[*at].pid,
                    mib(*rss),
                    mib(*pss)
                )
            })
            .collect();
        self.about.extend(all.chunks(3).map(|some| format!("  {}", some.join(", "))));
        let most = by_process.values().map(|part| part.0).max().unwrap_or(0);
        if most < bytes - bytes / 20 {
            self.about.push(format!(
                "  No process has touched all of it: {} that different processes touched are in no task.",
                mib(bytes - most)
            ));
        }
        let memory = JobFile { memory: is_shared, ..JobFile::new(&*name, Amount::Bytes(bytes)) };
        self.files.push(memory);
        for (at, (rss, _, areas)) in by_process {
            let file = name.clone();
            self.mapped[at].push(Mapped { file, is_shared, bytes: rss.min(bytes), areas });
        }
    }
}

/// The last part of a path, without the kernel's ` (deleted)`.
fn last_part(path: &str) -> &str {
    let path = path.trim_end_matches(" (deleted)").trim_start_matches("/memfd:");
    match path {
        "/dev/zero" => "anonymous",
        path => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::process::Look;
    use super::*;

    fn process(pid: u32, areas: Vec<Area>) -> Process {
        Process::new(pid, "postgres".to_owned(), Look { areas, ..Look::default() }, 1.0)
    }

    fn area(kind: Kind, key: &str, rss: u64, pss: u64) -> Area {
        let path = if kind == Kind::Shared { "/dev/zero (deleted)" } else { "/usr/bin/postgres" };
        Area { size: 140 << 20, rss: rss << 20, pss: pss << 20, ..Area::new(kind, key, path) }
    }

    /// Three backends with the same buffers: 96 MiB once, not three times.
    #[test]
    fn shared_memory_is_there_once() {
        let backend = |pid, rss| {
            process(
                pid,
                vec![
                    area(Kind::Shared, "00:01 32", rss, 32),
                    area(Kind::File, "fe:00 7", 6, 2),
                    area(Kind::File, "fe:00 8", 3, 1),
                ],
            )
        };
        let all = [
            backend(1, 96),
            backend(2, 95),
            backend(3, 90),
            process(4, vec![area(Kind::File, "x", 1, 1)]),
        ];
        let ground = ground(&all, &mut Names::default());
        let files: Vec<_> =
            ground.files.iter().map(|f| (f.name.as_str(), f.size, f.memory)).collect();
        let mib = |n: u64| Amount::Bytes(n << 20);
        assert_eq!(
            files,
            [
                ("shared-anonymous", mib(96), true),
                ("mapped-files", mib(9), false),
                ("mapped-files-2", mib(1), false)
            ]
        );
        let shared = |at: usize| {
            ground.mapped[at].iter().find(|mapped| mapped.is_shared).map(|m| m.bytes >> 20)
        };
        assert_eq!([0, 1, 2, 3].map(shared), [Some(96), Some(95), Some(90), None]);
        assert!(ground.about[1].contains("postgres 1: 96.0 MiB (32.0 MiB)"), "{:?}", ground.about);
    }

    #[test]
    fn shares_make_it_as_large_as_they_are_together() {
        let part = |pid, rss, pss| process(pid, vec![area(Kind::Shared, "a", rss, pss)]);
        let ground = ground(&[part(1, 60, 50), part(2, 60, 50)], &mut Names::default());
        assert_eq!(ground.files[0].size, Amount::Bytes(100 << 20));
        assert!(
            ground.about.iter().any(|line| line.contains("40.0 MiB that different processes")),
            "{ground:?}"
        );
    }

    #[test]
    fn little_is_left_out_and_said() {
        let small = Area {
            rss: 4096,
            pss: 4096,
            size: 8192,
            ..Area::new(Kind::Shared, "s", "/SYSV0 (deleted)")
        };
        let ground = ground(&[process(1, vec![small])], &mut Names::default());
        assert_eq!(ground.about, ["Mappings below 256 KiB are left out: 4 KiB in all."]);
        for (path, name) in [
            ("/dev/shm/PostgreSQL.1", "PostgreSQL.1"),
            ("/memfd:buffers (deleted)", "buffers"),
            ("/SYSV0052e2c1 (deleted)", "SYSV0052e2c1"),
        ] {
            assert_eq!(last_part(path), name);
        }
    }
}
