//! Run-time settings: the vm sysctls that the core reads, at their 6.1 defaults.
//!
//! Each is declared once, by `tunables!`: its field and its key in files, its default, and the values
//! that a kernel accepts. [`Tunables::FIELDS`] has them as data. The book's page "How to add a sysctl" goes through
//! one.

use alloc::format;
use core::ops::RangeInclusive;

use super::{Choice, MachineError};

/// More dirty bytes than any machine here has memory.
const DIRTY_BYTES_MAX: u64 = 1 << 44;

/// Declares a setting that is one of several words: `/// What this one does. Name = "word",` each.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $(#[doc = $doc:literal] $word:ident = $text:literal,)* }) => {
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
        }
    };
}

words! {
    /// Transparent huge page setting; it raises min_free_kbytes at boot
    /// (rules/watermarks#thp-min-free), and with `thp_faults` programs get huge pages.
    Thp {
        /// Enabled for all mappings.
        Always = "always",
        /// Enabled where a program asks for it.
        Madvise = "madvise",
        /// Off.
        Never = "never",
    }
}

words! {
    /// How hard a fault tries to get a huge page (rules/huge-pages#defrag).
    ThpDefrag {
        /// As the policy's kernel has it.
        Kernel = "kernel",
        /// Reclaims and compacts.
        Always = "always",
        /// Wakes kswapd and takes what there is.
        Defer = "defer",
        /// As `always` where a program asks for huge pages, elsewhere as `defer`.
        DeferMadvise = "defer+madvise",
        /// As `always` where a program asks for huge pages, elsewhere as `never`.
        Madvise = "madvise",
        /// Takes what there is.
        Never = "never",
    }
}

/// One setting, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunableField {
    /// Its key in files.
    pub key: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// What is written.
    pub form: TunableForm,
    /// Of a number: where it may be. The last range is the usual one, any before it are single values with a
    /// meaning of their own. None: anywhere.
    pub ranges: &'static [RangeInclusive<u64>],
}

/// What a setting is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunableForm {
    /// A number.
    Number,
    /// So many numbers.
    Numbers(usize),
    /// True or false.
    Bool,
    /// One of these words.
    Word(&'static [Choice]),
}

/// The type of a setting.
trait Setting {
    const FORM: TunableForm;

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

/// Refuses a number outside all of the ranges. The last one is what the message names; any before it
/// are single values with a meaning of their own (0 = off).
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

/// Declares the sysctls: `name: type = default => [ranges it may be in],` each.
macro_rules! tunables {
    (
        $(#[$about:meta])*
        $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty = $default:expr $(=> [$($range:expr),+])?,
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
            },)*];

            /// Checks that every setting is one that the kernel would accept.
            ///
            /// # Errors
            /// Names the first setting that is not.
            pub fn validate(&self) -> Result<(), MachineError> {
                $($(check(stringify!($field), &self.$field, &[$($range),+])?;)?)*
                Ok(())
            }
        }
    };
}

/// The largest C int.
const INT_MAX: u64 = i32::MAX as u64;

tunables! {
    /// The vm sysctls.
    Tunables {
        /// `transparent_hugepage/enabled`.
        thp: Thp = Thp::Always,
        /// Programs get huge pages where `thp` says so; false: `thp` only raises the watermarks.
        thp_faults: bool = false,
        /// `transparent_hugepage/defrag`.
        thp_defrag: ThpDefrag = ThpDefrag::Kernel,
        /// `transparent_hugepage/use_zero_page`.
        thp_zero_page: bool = true,
        /// `khugepaged/defrag`: it reclaims and compacts for its huge pages.
        khugepaged_defrag: bool = true,
        /// `khugepaged/pages_to_scan` of a round.
        khugepaged_pages_to_scan: u64 = 4096 => [1..=INT_MAX],
        /// `khugepaged/scan_sleep_millisecs` between rounds.
        khugepaged_scan_sleep_millisecs: u64 = 10_000 => [0..=INT_MAX],
        /// `khugepaged/alloc_sleep_millisecs` after an allocation that failed.
        khugepaged_alloc_sleep_millisecs: u64 = 60_000 => [0..=INT_MAX],
        /// `khugepaged/max_ptes_none`: pages of a range that may be missing.
        khugepaged_max_ptes_none: u64 = 511 => [0..=511],
        /// `khugepaged/max_ptes_swap`: pages of a range that may be swapped out.
        khugepaged_max_ptes_swap: u64 = 64 => [0..=511],
        /// `khugepaged/max_ptes_shared`: pages of a range that others may map too.
        khugepaged_max_ptes_shared: u64 = 256 => [0..=511],
        /// `vm.min_free_kbytes` as a user would write it; none = computed.
        min_free_kbytes: Option<u64> = None => [0..=INT_MAX],
        /// `vm.watermark_scale_factor`, in 1/10000 of managed pages.
        watermark_scale_factor: u64 = 10 => [1..=3000],
        /// `vm.watermark_boost_factor`, in 1/10000 of the high watermark; 0 = off.
        watermark_boost_factor: u64 = 15_000 => [0..=INT_MAX],
        /// `vm.percpu_pagelist_high_fraction`; 0 = sizes are computed.
        percpu_pagelist_high_fraction: u64 = 0 => [0..=0, 8..=INT_MAX],
        /// `vm.lowmem_reserve_ratio` for DMA, DMA32, NORMAL, MOVABLE.
        lowmem_reserve_ratio: [u64; 4] = [256, 256, 32, 0],
        /// `vm.zone_reclaim_mode`: bit 0 zone, 1 write, 2 unmap.
        zone_reclaim_mode: u8 = 0 => [0..=7],
        /// `vm.dirty_ratio`, percent.
        dirty_ratio: u64 = 20 => [0..=100],
        /// `vm.dirty_bytes`; 0 = use the ratio.
        dirty_bytes: u64 = 0 => [0..=DIRTY_BYTES_MAX],
        /// `vm.dirty_background_ratio`, percent.
        dirty_background_ratio: u64 = 10 => [0..=100],
        /// `vm.dirty_background_bytes`; 0 = use the ratio.
        dirty_background_bytes: u64 = 0 => [0..=DIRTY_BYTES_MAX],
        /// `vm.dirty_expire_centisecs`.
        dirty_expire_centisecs: u64 = 3000 => [0..=INT_MAX],
        /// `vm.dirty_writeback_centisecs`; 0 = no periodic writeback.
        dirty_writeback_centisecs: u64 = 500 => [0..=INT_MAX],
        /// `vm.swappiness`.
        swappiness: u64 = 60 => [0..=200],
        /// `vm.page-cluster`: swap readahead of 2^n pages.
        page_cluster: u64 = 3 => [0..=10],
        /// `vm.min_unmapped_ratio`, percent of managed pages per zone.
        min_unmapped_ratio: u64 = 1 => [0..=100],
        /// `vm.min_slab_ratio`, percent of managed pages per zone.
        min_slab_ratio: u64 = 5 => [0..=100],
        /// `vm.compaction_proactiveness`: how hard free memory is kept in one piece, percent; 0 = not at all.
        compaction_proactiveness: u64 = 20 => [0..=100],
        /// `vm.extfrag_threshold`: up to this index a request fails for lack of memory, not of order.
        extfrag_threshold: u64 = 500 => [0..=1000],
        /// `vm.compact_unevictable_allowed`: pages locked into memory are moved.
        compact_unevictable_allowed: bool = true,
        /// Block queues bound the writes in flight (`queue/wbt_lat_usec` is not 0).
        wbt: bool = true,
        /// Cpusets are in use (a task's allowed nodes are enforced).
        cpusets: bool = false,
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
        let text = refused(|t| t.min_free_kbytes = Some(1 << 31));
        assert!(text.contains("tunables.min_free_kbytes"), "{text}");
        let mut off = Tunables::default();
        (off.percpu_pagelist_high_fraction, off.min_free_kbytes) = (0, Some(0));
        assert_eq!(off.validate(), Ok(()));
    }
}
