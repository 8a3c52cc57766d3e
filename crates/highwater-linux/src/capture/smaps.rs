//! The VMAs of a process as `/proc/PID/smaps` has them, added up by what they map.
//!
//! | kind | VMAs |
//! |---|---|
//! | [`Kind::Anon`] | private memory: heap, stacks, anonymous `mmap`, and pages of a private file mapping that were written |
//! | [`Kind::Shared`] | shared memory: `/dev/zero (deleted)` (anonymous `MAP_SHARED`), `/SYSV...`, `/memfd:...`, `/dev/shm/...` |
//! | [`Kind::File`] | files: programs, libraries, data |
//!
//! Shared memory and files have an identity, their device and inode: two processes that map the same one share its pages.

use std::collections::BTreeMap;

use super::proc::kilobytes;
use highwater_files::input::InputError;

const KIB: u64 = 1024;

/// The kind of memory of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Private memory.
    Anon,
    /// Memory that processes may share.
    Shared,
    /// A file.
    File,
}

/// VMAs of a process that map the same thing, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// The kind of memory.
    pub kind: Kind,
    /// Device and inode; the same in every process that maps it. Empty of private memory.
    pub key: String,
    /// The path as the kernel writes it; empty of private memory.
    pub path: String,
    /// Address space.
    pub size: u64,
    /// In memory and mapped.
    pub rss: u64,
    /// The share of this process: a page that n processes map counts 1/n.
    pub pss: u64,
    /// In swap.
    pub swap: u64,
    /// The part of `rss` that was touched since the referenced bits were cleared, or ever.
    pub referenced: u64,
    /// Of `rss`, in huge pages.
    pub huge: u64,
}

impl Area {
    /// A mapping with unknown sizes.
    pub(super) fn new(kind: Kind, key: &str, path: &str) -> Area {
        let (key, path) = (key.to_owned(), path.to_owned());
        Area { kind, key, path, size: 0, rss: 0, pss: 0, swap: 0, referenced: 0, huge: 0 }
    }

    fn add(&mut self, other: &Area) {
        self.size = self.size.saturating_add(other.size);
        self.rss = self.rss.saturating_add(other.rss);
        self.pss = self.pss.saturating_add(other.pss);
        self.swap = self.swap.saturating_add(other.swap);
        self.referenced = self.referenced.saturating_add(other.referenced);
        self.huge = self.huge.saturating_add(other.huge);
    }
}

/// A path of memory that has no disk, mapped shared or passed on as a descriptor.
pub(super) fn is_shared_memory(path: &str) -> bool {
    let named = ["/dev/shm/", "/run/shm/", "/SYSV", "/memfd:", "/dev/zero", "[anon_shmem"];
    named.iter().any(|start| path.starts_with(start))
}

/// The mappings of a `smaps` file, private memory first.
///
/// # Errors
/// If a size is not a number.
pub(super) fn areas(file: &str, text: &str) -> Result<Vec<Area>, InputError> {
    let mut all: BTreeMap<(Kind, String), Area> = BTreeMap::new();
    let mut vma: Option<Vma> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(next) = Vma::parse(line) {
            vma.replace(next).into_iter().for_each(|vma| vma.add_to(&mut all));
            continue;
        }
        let (Some(vma), Some((name, rest))) = (vma.as_mut(), line.split_once(':')) else {
            continue;
        };
        let Some(field) = vma.field(name) else { continue };
        let Some(value) = kilobytes((file, at + 1), name, rest)? else { continue };
        *field = value.saturating_mul(KIB);
    }
    vma.into_iter().for_each(|vma| vma.add_to(&mut all));
    Ok(all.into_values().collect())
}

/// A VMA whose lines are being read.
#[derive(Default)]
struct Vma {
    is_shared: bool,
    key: String,
    path: String,
    size: u64,
    rss: u64,
    pss: u64,
    swap: u64,
    referenced: u64,
    huge: u64,
    anon: u64,
}

impl Vma {
    /// The line that begins a VMA: addresses, permissions, offset, device, inode, path.
    fn parse(line: &str) -> Option<Vma> {
        let mut rest = line;
        let mut word = || {
            let (word, behind) = rest.split_once(' ')?;
            rest = behind.trim_start();
            Some(word)
        };
        let (start, end) = word()?.split_once('-')?;
        let is_address = |text: &str| u64::from_str_radix(text, 16).is_ok();
        if !is_address(start) || !is_address(end) {
            return None;
        }
        let permissions = word()?;
        word()?;
        let device = word()?;
        let (inode, path) = rest.split_once(' ').map_or((rest, ""), |(i, p)| (i, p.trim()));
        Some(Vma {
            is_shared: permissions.ends_with('s'),
            key: format!("{device} {inode}"),
            path: path.to_owned(),
            ..Vma::default()
        })
    }

    fn field(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "Size" => &mut self.size,
            "Rss" => &mut self.rss,
            "Pss" => &mut self.pss,
            "Swap" => &mut self.swap,
            "Referenced" => &mut self.referenced,
            "AnonHugePages" => &mut self.huge,
            "Anonymous" => &mut self.anon,
            _ => return None,
        })
    }

    /// The kind of memory of a mapping, apart from its private pages.
    fn kind(&self) -> Kind {
        match () {
            () if is_shared_memory(&self.path) => Kind::Shared,
            () if self.path.starts_with('/') => Kind::File,
            // A shared mapping always has a file; one without a path is as good as shared memory.
            () if self.is_shared => Kind::Shared,
            () => Kind::Anon,
        }
    }

    fn add_to(self, all: &mut BTreeMap<(Kind, String), Area>) {
        let kind = self.kind();
        let mut put = |kind: Kind, area: Area| {
            let key = (kind, area.key.clone());
            let known = all.entry(key).or_insert_with(|| Area::new(kind, &area.key, &area.path));
            known.add(&area);
        };
        let part = |of: u64, whole: u64, all: u64| match whole {
            0 => 0,
            _ => (u128::from(all) * u128::from(of) / u128::from(whole)) as u64,
        };
        // For private memory all resident pages; for other kinds the pages that `smaps` lists as
        // anonymous.
        let anon = if kind == Kind::Anon { self.rss } else { self.anon.min(self.rss) };
        if kind == Kind::Anon || anon > 0 {
            put(
                Kind::Anon,
                Area {
                    size: if kind == Kind::Anon { self.size } else { anon },
                    rss: anon,
                    pss: part(anon, self.rss, self.pss),
                    swap: if kind == Kind::Shared { 0 } else { self.swap },
                    referenced: part(anon, self.rss, self.referenced),
                    huge: self.huge,
                    ..Area::new(Kind::Anon, "", "")
                },
            );
        }
        if kind != Kind::Anon {
            let rss = self.rss - anon;
            put(
                kind,
                Area {
                    size: self.size,
                    rss,
                    pss: part(rss, self.rss, self.pss),
                    swap: if kind == Kind::Shared { self.swap } else { 0 },
                    referenced: part(rss, self.rss, self.referenced),
                    ..Area::new(kind, &self.key, &self.path)
                },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55a0-55b0 r-xp 00000000 fe:00 10 /usr/bin/a program\n\
Size: 64 kB\nRss: 40 kB\nPss: 20 kB\nReferenced: 40 kB\nAnonymous: 8 kB\nSwap: 4 kB\n\
55b0-55c0 rw-p 00000000 00:00 0 [heap]\n\
Size: 128 kB\nRss: 100 kB\nPss: 100 kB\nReferenced: 60 kB\nAnonymous: 100 kB\nSwap: 12 kB\nLocked: 0 kB\n\
7f00-7f10 rw-s 00000000 00:01 32 /dev/zero (deleted)\n\
Size: 2048 kB\nRss: 1024 kB\nPss: 256 kB\nReferenced: 512 kB\nAnonymous: 0 kB\nSwap: 16 kB\n\
7f10-7f20 rw-s 00000000 00:01 32 /dev/zero (deleted)\n\
Size: 8 kB\nRss: 8 kB\nPss: 8 kB\nReferenced: 0 kB\nAnonymous: 0 kB\nVmFlags: rd wr sh\n";

    #[test]
    fn vmas_are_added_up_by_what_they_map() {
        let areas = areas("f", TEXT).unwrap();
        let kinds: Vec<Kind> = areas.iter().map(|area| area.kind).collect();
        assert_eq!(kinds, [Kind::Anon, Kind::Shared, Kind::File]);
        let [anon, shared, file] = &areas[..] else { panic!("{areas:?}") };
        // The heap, and two written pages of the program.
        assert_eq!((anon.rss, anon.swap, anon.referenced), (108 * KIB, 16 * KIB, 68 * KIB));
        assert_eq!((shared.size, shared.rss, shared.pss), (2056 * KIB, 1032 * KIB, 264 * KIB));
        assert_eq!((shared.swap, shared.referenced), (16 * KIB, 512 * KIB));
        assert_eq!(
            (shared.key.as_str(), shared.path.as_str()),
            ("00:01 32", "/dev/zero (deleted)")
        );
        assert_eq!(
            (file.rss, file.pss, file.path.as_str()),
            (32 * KIB, 16 * KIB, "/usr/bin/a program")
        );
    }

    #[test]
    fn shared_memory_has_known_names() {
        for path in
            ["/dev/zero (deleted)", "/SYSV0052e2c1 (deleted)", "/memfd:x (deleted)", "/dev/shm/a"]
        {
            assert!(is_shared_memory(path), "{path}");
        }
        assert!(!is_shared_memory("/usr/lib/x.so") && !is_shared_memory("[heap]"));
        let error = areas("f", "0-1 rw-p 0 00:00 0 \nRss: x kB\n").unwrap_err().to_string();
        assert_eq!(error, "f:2: Rss: \"x\" is no number of kB");
    }
}
