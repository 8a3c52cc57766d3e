//! Run-time settings: the vm sysctls that the core reads, at their 6.1 defaults.
//!
//! Each is declared once, by `tunables!`: its field and its key in files, which kernels have it, its default, and the
//! values that a kernel accepts. [`Tunables::FIELDS`] has them as data, [`Tunables::validate_in`] and
//! [`Tunables::not_in`] judge by a kernel's version. The book's page "How to add a sysctl" goes through one.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;
use core::ops::RangeInclusive;

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use super::live::{Live, Value};
use super::{Choice, KernelVersion, MachineError};

/// More dirty bytes than any machine here has memory.
const DIRTY_BYTES_MAX: u64 = 1 << 44;
/// More than any machine here has memory, KiB.
const OVERCOMMIT_KBYTES_MAX: u64 = 1 << 34;

/// Memory below which the kernel turns huge pages off when it starts, 512 MiB; it then raises
/// nothing for them (rules/watermarks#thp-min-free).
#[doc(alias = "hugepage_init")]
const THP_MIN_PAGES: u64 = 512 << 8;

/// Declares a setting that is one of several words: `/// What this one does. Name = "word",` each; one that came later
/// says since when: `Name = "word" since "4.11",`.
macro_rules! words {
    ($(#[$about:meta])* $name:ident {
        $(#[doc = $doc:literal] $word:ident = $text:literal $(since $since:literal)?,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum $name {
            $(#[doc = $doc] #[cfg_attr(feature = "serde", serde(rename = $text))] $word,)*
        }

        impl $name {
            /// Every value with its name in files.
            pub const CHOICES: &'static [Choice] =
                &[$(Choice { name: $text, doc: $doc.trim_ascii() },)*];
        }

        impl Setting for $name {
            const FORM: TunableForm = TunableForm::Word(Self::CHOICES);
            const NEWER: &'static [(&'static str, KernelVersion)] =
                &[$($(($text, KernelVersion::of($since)),)?)*];

            fn word(&self) -> Option<&'static str> {
                match self { $($name::$word => Some($text),)* }
            }
        }

        impl Value for $name {
            type Cell = AtomicU8;

            fn cell(&self) -> AtomicU8 {
                AtomicU8::new(*self as u8)
            }

            fn load(cell: &AtomicU8) -> $name {
                const ALL: &[$name] = &[$($name::$word,)*];
                ALL[usize::from(cell.load(Relaxed))]
            }

            fn store(&self, cell: &AtomicU8) {
                cell.store(*self as u8, Relaxed);
            }
        }
    };
}

words! {
    /// Programs that get transparent huge pages; unless it is `never`, khugepaged raises
    /// min_free_kbytes at boot (rules/watermarks#thp-min-free).
    Thp {
        /// All programs, for all anonymous memory that has room for one.
        Always = "always",
        /// Programs that ask for them (MADV_HUGEPAGE).
        Madvise = "madvise",
        /// No program.
        Never = "never",
    }
}

words! {
    /// How hard a fault tries to get a huge page (rules/huge-pages#defrag).
    ThpDefrag {
        /// The default of the policy's kernel.
        Kernel = "kernel",
        /// Reclaims and compacts.
        Always = "always",
        /// Wakes kswapd; takes a huge page only if one is free.
        Defer = "defer" since "4.6",
        /// As `always` where a program asks for huge pages, elsewhere as `defer`.
        DeferMadvise = "defer+madvise" since "4.11",
        /// As `always` where a program asks for huge pages, elsewhere as `never`.
        Madvise = "madvise",
        /// Takes a huge page only if one is free.
        Never = "never",
    }
}

/// One setting, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunableField {
    /// Its key in files.
    pub key: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// Its form.
    pub form: TunableForm,
    /// For a number: its valid ranges. The last range is the usual one, earlier ones are single
    /// values with a special meaning. Empty: any value.
    pub ranges: &'static [RangeInclusive<u64>],
    /// The first kernel that has it; none: all kernels here that are not too new for it.
    pub since: Option<KernelVersion>,
    /// The first kernel that has it no more.
    pub until: Option<KernelVersion>,
    /// Where it may be in kernels before one.
    pub older: Option<(KernelVersion, RangeInclusive<u64>)>,
    /// A running kernel does not change it.
    pub is_boot: bool,
    /// For a word: values that later kernels added, each with the first kernel.
    pub newer_words: &'static [(&'static str, KernelVersion)],
}

impl TunableField {
    /// Whether a kernel has it.
    pub fn is_in(&self, kernel: KernelVersion) -> bool {
        self.since.is_none_or(|since| kernel >= since)
            && self.until.is_none_or(|until| kernel < until)
    }

    /// When it was added, and its earlier ranges, as sentences for users; empty if every kernel
    /// here has it unchanged.
    pub fn history(&self) -> String {
        let mut text = String::new();
        let mut say = |sentence: core::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = write!(text, "{}{sentence}", if text.is_empty() { "" } else { " " });
        };
        if let Some(since) = self.since {
            say(format_args!("Since {since}."));
        }
        if let Some(until) = self.until {
            say(format_args!("Before {until}."));
        }
        if let Some((before, range)) = &self.older {
            say(format_args!("Before {before} from {} to {}.", range.start(), range.end()));
        }
        for (word, since) in self.newer_words {
            say(format_args!("`{word}` since {since}."));
        }
        text
    }
}

/// The form of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunableForm {
    /// A number.
    Number,
    /// A list of this many numbers.
    Numbers(usize),
    /// True or false.
    Bool,
    /// One of these words.
    Word(&'static [Choice]),
}

/// The type of a setting.
trait Setting {
    const FORM: TunableForm;
    /// Words that came with a kernel.
    const NEWER: &'static [(&'static str, KernelVersion)] = &[];

    /// The word that it is set to, if it is one of several.
    fn word(&self) -> Option<&'static str> {
        None
    }

    /// The number that its range is about; none if nothing is set, or it is no number.
    fn number(&self) -> Option<u64> {
        None
    }
}

impl Setting for u64 {
    const FORM: TunableForm = TunableForm::Number;

    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Setting for u8 {
    const FORM: TunableForm = TunableForm::Number;

    fn number(&self) -> Option<u64> {
        Some((*self).into())
    }
}

impl Setting for Option<u64> {
    const FORM: TunableForm = TunableForm::Number;

    fn number(&self) -> Option<u64> {
        *self
    }
}

impl<const N: usize> Setting for [u64; N] {
    const FORM: TunableForm = TunableForm::Numbers(N);
}

impl Setting for bool {
    const FORM: TunableForm = TunableForm::Bool;
}

/// Refuses a number outside all ranges. The message names the last range; earlier ones are single
/// values with a special meaning (0 = off).
fn check(
    field: &str,
    setting: &impl Setting,
    ranges: &[RangeInclusive<u64>],
) -> Result<(), MachineError> {
    let (Some(value), Some(usual)) = (setting.number(), ranges.last()) else { return Ok(()) };
    if ranges.iter().any(|range| range.contains(&value)) {
        return Ok(());
    }
    Err(MachineError {
        field: format!("tunables.{field}"),
        reason: format!("{value} is not between {} and {}", usual.start(), usual.end()),
    })
}

/// Refuses a value that this kernel would refuse, for a setting that it has.
fn check_in(
    field: &TunableField,
    setting: &impl Setting,
    kernel: KernelVersion,
) -> Result<(), MachineError> {
    let refused = |reason| Err(MachineError { field: format!("tunables.{}", field.key), reason });
    if let (Some((before, range)), Some(value)) = (&field.older, setting.number())
        && kernel < *before
        && !range.contains(&value)
    {
        let (least, most) = (range.start(), range.end());
        return refused(format!(
            "{value} is not between {least} and {most}, where it may be before {before}"
        ));
    }
    let newer = |word| field.newer_words.iter().find(|(known, _)| *known == word);
    match setting.word().and_then(newer) {
        Some((word, since)) if kernel < *since => refused(format!("\"{word}\" came with {since}")),
        _ => Ok(()),
    }
}

/// Declares the sysctls: `name: type = default => [ranges it may be in],` each. Of one that not every kernel has, or not
/// with all its values:
///
/// ```text
/// name since "4.6": type = default,
/// name until "5.14": type = default,                        // the first kernel without it
/// name since "4.8" else 0: type = default,                  // what kernels without it do
/// name: type = default => [ranges] before "5.8" [range],
/// name at boot: type = default,                             // a running kernel does not change it
/// ```
macro_rules! tunables {
    (
        $(#[$about:meta])*
        $name:ident, $(#[$about_live:meta])* $live:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident $(at $boot:ident)? $(since $since:literal)? $(until $until:literal)? $(else $absent:literal)?: $type:ty
                    = $default:expr $(=> [$($range:expr),+] $(before $older:literal [$was:expr])?)?,
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            /// Every setting, in the order of their declarations.
            pub const FIELDS: &'static [TunableField] = &[$(TunableField {
                key: stringify!($field),
                doc: concat!($($doc),*).trim_ascii(),
                form: <$type as Setting>::FORM,
                ranges: &[$($($range),+)?],
                since: tunables!(@version $($since)?),
                until: tunables!(@version $($until)?),
                older: tunables!(@older $($($older, $was)?)?),
                is_boot: tunables!(@boot $($boot)?),
                newer_words: <$type as Setting>::NEWER,
            },)*];

            /// Checks that every setting is one that some kernel would accept.
            ///
            /// # Errors
            /// Names the first setting that is not.
            pub fn validate(&self) -> Result<(), MachineError> {
                $($(check(stringify!($field), &self.$field, &[$($range),+])?;)?)*
                Ok(())
            }

            /// Checks that a kernel would accept every setting that it has.
            ///
            /// # Errors
            /// Names the first setting that it would refuse.
            pub fn validate_in(&self, kernel: KernelVersion) -> Result<(), MachineError> {
                let mut fields = Self::FIELDS.iter();
                // In the order of their declarations, both.
                $(if let Some(field) = fields.next().filter(|field| field.is_in(kernel)) {
                    check_in(field, &self.$field, kernel)?;
                })*
                Ok(())
            }

            /// Settings that were changed and that a kernel does not have.
            pub fn not_in(
                &self,
                kernel: KernelVersion,
            ) -> impl Iterator<Item = &'static TunableField> {
                let usual = Self::default();
                let changed = [$(self.$field != usual.$field),*];
                let fields = Self::FIELDS.iter().zip(changed);
                fields.filter(move |(field, is)| *is && !field.is_in(kernel)).map(|(f, _)| f)
            }

            /// The settings as a kernel has them: a setting that it lacks has its default, or the
            /// value after `else`.
            pub(crate) fn of_kernel(&self, kernel: KernelVersion) -> Self {
                let usual = Self::default();
                let mut fields = Self::FIELDS.iter();
                let mut has = || fields.next().is_some_and(|field| field.is_in(kernel));
                // In the order of their declarations, both.
                $name { $($field: match has() {
                    true => self.$field.clone(),
                    false => tunables!(@absent usual.$field $(, $absent)?),
                },)* }
            }

            /// Settings that have other values in `other`.
            pub fn changed(&self, other: &Self) -> impl Iterator<Item = &'static TunableField> {
                let changed = [$(self.$field != other.$field),*];
                Self::FIELDS.iter().zip(changed).filter(|(_, is)| *is).map(|(field, _)| field)
            }
        }

        $(#[$about_live])*
        #[derive(Debug)]
        pub struct $live {
            $($(#[doc = $doc])* pub $field: Live<$type>,)*
        }

        impl $live {
            pub(crate) fn new(first: &$name) -> $live {
                $live { $($field: Live::new(&first.$field),)* }
            }

            /// The settings in force.
            pub fn now(&self) -> $name {
                $name { $($field: self.$field.get(),)* }
            }

            pub(crate) fn set(&self, to: &$name) {
                $(self.$field.set(&to.$field);)*
            }
        }
    };
    (@boot) => { false };
    (@boot boot) => { true };
    (@absent $usual:expr) => { $usual };
    (@absent $usual:expr, $absent:literal) => { $absent };
    (@version) => { None };
    (@version $version:literal) => { Some(KernelVersion::of($version)) };
    (@older) => { None };
    (@older $version:literal, $range:expr) => { Some((KernelVersion::of($version), $range)) };
}

/// The largest C int.
const INT_MAX: u64 = i32::MAX as u64;

tunables! {
    /// The vm sysctls.
    Tunables,
    /// The same of a running kernel.
    LiveTunables {
        /// `transparent_hugepage/enabled`.
        thp at boot: Thp = Thp::Madvise,
        /// `transparent_hugepage/defrag`.
        thp_defrag: ThpDefrag = ThpDefrag::Kernel,
        /// `transparent_hugepage/use_zero_page`.
        thp_zero_page: bool = true,
        /// `khugepaged/defrag`: khugepaged reclaims and compacts for its huge pages.
        khugepaged_defrag: bool = true,
        /// `khugepaged/pages_to_scan`: pages that a round scans.
        khugepaged_pages_to_scan: u64 = 4096 => [1..=INT_MAX],
        /// `khugepaged/scan_sleep_millisecs`: milliseconds between rounds.
        khugepaged_scan_sleep_millisecs: u64 = 10_000 => [0..=INT_MAX],
        /// `khugepaged/alloc_sleep_millisecs`: milliseconds of sleep after a failed allocation.
        khugepaged_alloc_sleep_millisecs: u64 = 60_000 => [0..=INT_MAX],
        /// `khugepaged/max_ptes_none`: pages of a range that may be missing.
        khugepaged_max_ptes_none: u64 = 511 => [0..=511],
        /// `khugepaged/max_ptes_swap`: pages of a range that may be swapped out.
        khugepaged_max_ptes_swap since "4.8" else 0: u64 = 64 => [0..=511],
        /// `khugepaged/max_ptes_shared`: pages of a range that other address spaces may map too.
        khugepaged_max_ptes_shared since "5.8" else 0: u64 = 256 => [0..=511],
        /// `vm.min_free_kbytes`, in KiB; none = computed at boot.
        min_free_kbytes: Option<u64> = None => [0..=INT_MAX],
        /// `vm.watermark_scale_factor`, in 1/10000 of managed pages.
        watermark_scale_factor since "4.6": u64 = 10 => [1..=3000] before "5.18" [1..=1000],
        /// `vm.watermark_boost_factor`, in 1/10000 of the high watermark; 0 = off.
        watermark_boost_factor since "5.0": u64 = 15_000 => [0..=INT_MAX],
        /// `vm.percpu_pagelist_high_fraction`; 0 = sizes are computed.
        percpu_pagelist_high_fraction since "5.14": u64 = 0 => [0..=0, 8..=INT_MAX],
        /// `vm.percpu_pagelist_fraction`, which `percpu_pagelist_high_fraction` replaced; 0 = sizes
        /// are computed.
        percpu_pagelist_fraction until "5.14": u64 = 0 => [0..=0, 8..=INT_MAX],
        /// `vm.lowmem_reserve_ratio` for DMA, DMA32, NORMAL, MOVABLE.
        lowmem_reserve_ratio: [u64; 4] = [256, 256, 32, 0],
        /// `vm.zone_reclaim_mode`: bit 0 reclaims in the zone, bit 1 also writes, bit 2 also
        /// unmaps.
        zone_reclaim_mode: u8 = 0 => [0..=7],
        /// `vm.dirty_ratio`, percent.
        dirty_ratio: u64 = 20 => [0..=100],
        /// `vm.dirty_bytes`; 0 = use the ratio.
        dirty_bytes: u64 = 0 => [0..=0, 8192..=DIRTY_BYTES_MAX],
        /// `vm.dirty_background_ratio`, percent.
        dirty_background_ratio: u64 = 10 => [0..=100],
        /// `vm.dirty_background_bytes`; 0 = use the ratio.
        dirty_background_bytes: u64 = 0 => [0..=DIRTY_BYTES_MAX],
        /// `vm.dirty_expire_centisecs`.
        dirty_expire_centisecs: u64 = 3000 => [0..=INT_MAX],
        /// `vm.dirty_writeback_centisecs`; 0 = no periodic writeback.
        dirty_writeback_centisecs: u64 = 500 => [0..=INT_MAX],
        /// `vm.swappiness`.
        swappiness: u64 = 60 => [0..=200] before "5.8" [0..=100],
        /// `vm.vfs_cache_pressure`: reclaim pressure on inodes and dentries, in percent of the
        /// pressure on pages; 0 = none are freed.
        vfs_cache_pressure: u64 = 100 => [0..=INT_MAX],
        /// `vm.overcommit_memory`: 0 = refuse a request larger than all memory and swap, 1 = refuse
        /// none, 2 = limit memory that programs may write to CommitLimit.
        overcommit_memory: u8 = 0 => [0..=2],
        /// `vm.overcommit_ratio`: percent of memory that CommitLimit adds to swap.
        overcommit_ratio: u64 = 50 => [0..=INT_MAX],
        /// `vm.overcommit_kbytes`: KiB that CommitLimit adds to swap, instead of the ratio; 0 = use
        /// the ratio.
        overcommit_kbytes: u64 = 0 => [0..=OVERCOMMIT_KBYTES_MAX],
        /// `vm.panic_on_oom`: 1 = the kernel panics instead of killing a program, unless the
        /// request is limited to some nodes; 2 = it panics then too.
        panic_on_oom: u8 = 0 => [0..=2],
        /// `vm.oom_kill_allocating_task`: 1 = the OOM killer kills the task that found no memory,
        /// not the task with the most memory.
        oom_kill_allocating_task: u8 = 0 => [0..=1],
        /// `vm.page-cluster`: swap readahead reads 2^n pages.
        page_cluster: u64 = 3 => [0..=10],
        /// `vm.min_unmapped_ratio`, percent of managed pages per zone.
        min_unmapped_ratio: u64 = 1 => [0..=100],
        /// `vm.min_slab_ratio`, percent of managed pages per zone.
        min_slab_ratio: u64 = 5 => [0..=100],
        /// `vm.compaction_proactiveness`: how hard kcompactd works before a request asks for it,
        /// percent; 0 = not at all.
        compaction_proactiveness since "5.9": u64 = 20 => [0..=100],
        /// `vm.extfrag_threshold`: fragmentation index up to which a failed request lacks memory,
        /// not contiguous memory.
        extfrag_threshold: u64 = 500 => [0..=1000],
        /// `vm.compact_unevictable_allowed`: compaction moves pages that are locked into memory.
        compact_unevictable_allowed: bool = true,
        /// Writeback throttling: block queues bound the writes in flight (`queue/wbt_lat_usec` is
        /// not 0).
        wbt at boot since "4.10": bool = true,
        /// Cpusets are in use: a task's allowed nodes are enforced.
        cpusets at boot: bool = false,
    }
}

impl Tunables {
    /// Limits in bytes with the same as a share: a write to one zeroes the other, so the last one holds.
    pub const EITHER: [[&'static str; 2]; 2] =
        [["dirty_bytes", "dirty_ratio"], ["dirty_background_bytes", "dirty_background_ratio"]];
}

impl Thp {
    /// The mode on a machine with this many managed pages: `Never` below [`THP_MIN_PAGES`], else
    /// the setting.
    pub(crate) fn with(self, managed: u64) -> Thp {
        if managed < THP_MIN_PAGES { Thp::Never } else { self }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn settings_are_described() {
        let field = |key| Tunables::FIELDS.iter().find(|field| field.key == key).expect("declared");
        assert_eq!(field("swappiness").ranges, [0..=200]);
        assert_eq!(field("lowmem_reserve_ratio").form, TunableForm::Numbers(4));
        assert_eq!(field("wbt").form, TunableForm::Bool);
        let TunableForm::Word(words) = field("thp").form else { panic!("thp is a word") };
        assert_eq!(
            words.iter().map(|word| word.name).collect::<Vec<_>>(),
            ["always", "madvise", "never"]
        );
        for field in Tunables::FIELDS {
            assert!(field.doc.ends_with('.'), "{}", field.key);
            assert!(field.ranges.is_empty() || field.form == TunableForm::Number, "{}", field.key);
        }
    }

    #[test]
    fn a_kernel_has_what_there_was_by_then() {
        let changed = Tunables {
            swappiness: 150,
            watermark_scale_factor: 2000,
            watermark_boost_factor: 0,
            percpu_pagelist_fraction: 8,
            thp_defrag: ThpDefrag::DeferMadvise,
            ..Tunables::default()
        };
        let missing = |version| {
            let missing = changed.not_in(KernelVersion::of(version)).map(|field| field.key);
            missing.collect::<Vec<_>>()
        };
        assert_eq!(missing("4.3"), ["watermark_scale_factor", "watermark_boost_factor"]);
        assert_eq!(missing("4.6"), ["watermark_boost_factor"]);
        assert_eq!(missing("5.10"), [""; 0]);
        assert_eq!(missing("6.1"), ["percpu_pagelist_fraction"]);
        let old = changed.of_kernel(KernelVersion::of("4.3"));
        assert_eq!((old.watermark_scale_factor, old.watermark_boost_factor), (10, 15_000));
        assert_eq!((old.swappiness, old.percpu_pagelist_fraction), (150, 8));
        // Before these came khugepaged left a range at the first entry of the kind.
        let of_khugepaged = |version| {
            let t = changed.of_kernel(KernelVersion::of(version));
            (t.khugepaged_max_ptes_swap, t.khugepaged_max_ptes_shared)
        };
        assert_eq!(["4.3", "5.4", "5.10"].map(of_khugepaged), [(0, 0), (64, 0), (64, 256)]);
        let refused = |tunables: &Tunables, version| {
            tunables.validate_in(KernelVersion::of(version)).unwrap_err().to_string()
        };
        let range = "150 is not between 0 and 100, where it may be before 5.8";
        let swappy = Tunables { swappiness: 150, ..Tunables::default() };
        assert!(refused(&swappy, "5.4").contains(range), "{}", refused(&swappy, "5.4"));
        let scale = Tunables { swappiness: 100, ..changed.clone() };
        assert!(refused(&scale, "5.17").contains("watermark_scale_factor: 2000"));
        // It does not have the scale factor: that is no wrong value there.
        assert!(refused(&scale, "4.3").contains("thp_defrag: \"defer+madvise\" came with 4.11"));
        assert_eq!(scale.validate_in(KernelVersion::of("5.18")), Ok(()));
    }

    #[test]
    fn a_field_says_when_it_came() {
        let history = |key| {
            Tunables::FIELDS.iter().find(|field| field.key == key).expect("declared").history()
        };
        assert_eq!(history("swappiness"), "Before 5.8 from 0 to 100.");
        let scale = "Since 4.6. Before 5.18 from 1 to 1000.";
        assert_eq!(history("watermark_scale_factor"), scale);
        assert_eq!(history("percpu_pagelist_fraction"), "Before 5.14.");
        assert_eq!(history("thp_defrag"), "`defer` since 4.6. `defer+madvise` since 4.11.");
        assert_eq!(history("dirty_ratio"), "");
    }

    #[test]
    fn what_no_kernel_accepts_is_named() {
        assert_eq!(Tunables::default().validate(), Ok(()));
        let refused = |set: fn(&mut Tunables)| {
            let mut tunables = Tunables::default();
            set(&mut tunables);
            tunables.validate().unwrap_err().to_string()
        };
        let text = refused(|t| t.swappiness = 201);
        assert!(
            text.contains("tunables.swappiness") && text.contains("201 is not between 0 and 200")
        );
        let text = refused(|t| t.percpu_pagelist_high_fraction = 7);
        assert!(text.contains("7 is not between 8 and 2147483647"), "{text}");
        let text = refused(|t| t.dirty_bytes = 4096);
        assert!(text.contains("4096 is not between 8192 and"), "two pages at least: {text}");
        let text = refused(|t| t.min_free_kbytes = Some(1 << 31));
        assert!(text.contains("tunables.min_free_kbytes"), "{text}");
        let mut off = Tunables::default();
        (off.percpu_pagelist_high_fraction, off.min_free_kbytes) = (0, Some(0));
        assert_eq!(off.validate(), Ok(()));
    }
}
