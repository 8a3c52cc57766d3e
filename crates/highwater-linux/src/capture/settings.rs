//! How a kernel is set: Linux's names, where each is read, and the machine's key.

use std::collections::BTreeMap;

use highwater_core::config::{TunableForm, Tunables};
use highwater_core::zone::ZoneType;
use highwater_results::import::proc::KernelZones;

use super::Source;
use highwater_files::input::one_line;

/// Settings of a kernel that the model has: Linux's name, and the machine's key.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    ("transparent_hugepage.enabled", "thp"),
    ("transparent_hugepage.defrag", "thp_defrag"),
    ("transparent_hugepage.use_zero_page", "thp_zero_page"),
    ("khugepaged.defrag", "khugepaged_defrag"),
    ("khugepaged.pages_to_scan", "khugepaged_pages_to_scan"),
    ("khugepaged.scan_sleep_millisecs", "khugepaged_scan_sleep_millisecs"),
    ("khugepaged.alloc_sleep_millisecs", "khugepaged_alloc_sleep_millisecs"),
    ("khugepaged.max_ptes_none", "khugepaged_max_ptes_none"),
    ("khugepaged.max_ptes_swap", "khugepaged_max_ptes_swap"),
    ("khugepaged.max_ptes_shared", "khugepaged_max_ptes_shared"),
    (MIN_FREE, "min_free_kbytes"),
    ("vm.compact_unevictable_allowed", "compact_unevictable_allowed"),
    ("vm.compaction_proactiveness", "compaction_proactiveness"),
    ("vm.dirty_background_bytes", "dirty_background_bytes"),
    ("vm.dirty_background_ratio", "dirty_background_ratio"),
    ("vm.dirty_bytes", "dirty_bytes"),
    ("vm.dirty_expire_centisecs", "dirty_expire_centisecs"),
    ("vm.dirty_ratio", "dirty_ratio"),
    ("vm.dirty_writeback_centisecs", "dirty_writeback_centisecs"),
    ("vm.extfrag_threshold", "extfrag_threshold"),
    (RESERVE_RATIO, "lowmem_reserve_ratio"),
    ("vm.min_slab_ratio", "min_slab_ratio"),
    ("vm.min_unmapped_ratio", "min_unmapped_ratio"),
    ("vm.page-cluster", "page_cluster"),
    ("vm.percpu_pagelist_high_fraction", "percpu_pagelist_high_fraction"),
    ("vm.swappiness", "swappiness"),
    ("vm.watermark_boost_factor", "watermark_boost_factor"),
    ("vm.watermark_scale_factor", "watermark_scale_factor"),
    ("vm.zone_reclaim_mode", "zone_reclaim_mode"),
];

/// The setting that has a number for each zone that the kernel may have.
pub(super) const RESERVE_RATIO: &str = "vm.lowmem_reserve_ratio";

/// The ratios of the zones that the model has. The kernel may have other zones; a model zone that
/// it lacks keeps the default.
fn ratios(text: &str, zones: &KernelZones) -> String {
    let list: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let Some(list) = list else { return text.to_owned() };
    let usual = Tunables::default().lowmem_reserve_ratio;
    let of = |(zone, usual): (&ZoneType, u64)| zones.value(&list, zone.name()).unwrap_or(usual);
    let all: Vec<String> = ZoneType::ALL.iter().zip(usual).map(of).map(|r| r.to_string()).collect();
    all.join(" ")
}

/// The setting that the kernel computes unless the user sets it.
pub(crate) const MIN_FREE: &str = "vm.min_free_kbytes";

/// A setting of Android's kernels that has no place in the model.
const EXTRA_FREE: &str = "vm.extra_free_kbytes";

/// Where a kernel shows a setting.
fn path(name: &str) -> String {
    let huge = "sys/kernel/mm/transparent_hugepage";
    match name.split_once('.') {
        Some(("vm", rest)) => format!("proc/sys/vm/{rest}"),
        Some(("khugepaged", rest)) => format!("{huge}/khugepaged/{rest}"),
        Some((_, rest)) => format!("{huge}/{rest}"),
        None => name.to_owned(),
    }
}

/// Every setting that the kernel reports. Of a choice (`always [madvise] never`), the selected
/// word. A setting that the model refuses is left out with a note.
pub(super) fn read(
    source: &Source,
    zones: Option<&KernelZones>,
    notes: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let value = |name: &str| {
        let text = source.word(&path(name))?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let chosen = chosen.map_or(text.as_str(), |(word, _)| word);
        let words: Vec<&str> = chosen.split_whitespace().collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    let mut settings = BTreeMap::new();
    for (name, _) in SETTINGS {
        let Some(mut value) = value(name) else { continue };
        if *name == RESERVE_RATIO
            && let Some(zones) = zones
        {
            value = ratios(&value, zones);
        }
        let alone = BTreeMap::from([((*name).to_owned(), value)]);
        match adopt(&alone, &mut Tunables::default()) {
            Ok(()) => settings.extend(alone),
            Err(refused) => {
                let file = source.name(&path(name));
                notes.push(format!("{file}: {}: it is taken as a kernel comes", refused.reason));
            }
        }
    }
    if let Some(kbytes) = value(EXTRA_FREE).filter(|kbytes| kbytes != "0") {
        notes.push(format!(
            "{EXTRA_FREE} is {kbytes} (Android): that kernel adds it to the low and high marks; it is not modelled, so \
             these differ"
        ));
    }
    settings
}

/// A setting that the model cannot take, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Linux's name.
    pub(crate) name: &'static str,
    /// What is wrong with the value.
    pub(crate) reason: String,
}

/// Applies a kernel's settings to a machine. Settings that the model does not have are left out.
///
/// # Errors
/// The first setting with an impossible value.
pub(crate) fn adopt(
    settings: &BTreeMap<String, String>,
    tunables: &mut Tunables,
) -> Result<(), Refused> {
    for &(name, key) in SETTINGS {
        let Some(text) = settings.get(name) else { continue };
        let wrong = |reason: String| Refused { name, reason };
        let mut table =
            toml::Table::try_from(&*tunables).map_err(|error| wrong(error.to_string()))?;
        table.insert(key.to_owned(), value(key, text));
        let adopted: Tunables =
            table.try_into().map_err(|error| wrong(one_line(&error.to_string()).to_owned()))?;
        adopted.validate().map_err(|error| wrong(error.reason))?;
        *tunables = adopted;
    }
    Ok(())
}

/// A value as machine files have it.
pub(super) fn value(key: &str, text: &str) -> toml::Value {
    let number = |text: &str| match text.parse::<i64>() {
        Ok(number) => toml::Value::Integer(number),
        Err(_) => toml::Value::String(text.to_owned()),
    };
    let form = Tunables::FIELDS.iter().find(|field| field.key == key).map(|field| field.form);
    match (form, text) {
        (Some(TunableForm::Bool), "0" | "1") => toml::Value::Boolean(text == "1"),
        // A kernel with more zones than the model has more numbers.
        (Some(TunableForm::Numbers(nr)), _) => {
            text.split_whitespace().take(nr).map(number).collect::<Vec<_>>().into()
        }
        _ => number(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_key_of_machines() {
        for (name, key) in SETTINGS {
            assert!(Tunables::FIELDS.iter().any(|field| field.key == *key), "{name}: {key}");
        }
    }

    #[test]
    fn settings_are_adopted_in_their_forms() {
        let settings = |list: &[(&str, &str)]| {
            list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let mut tunables = Tunables::default();
        let list = settings(&[
            ("transparent_hugepage.enabled", "madvise"),
            ("khugepaged.defrag", "0"),
            ("vm.lowmem_reserve_ratio", "256 256 16 0 0"),
            ("vm.swappiness", "100"),
            ("vm.unheard_of", "x"),
        ]);
        adopt(&list, &mut tunables).unwrap();
        assert_eq!(tunables.lowmem_reserve_ratio, [256, 256, 16, 0]);
        assert!(!tunables.khugepaged_defrag && tunables.swappiness == 100);
        for (name, text) in [("vm.swappiness", "1000"), ("vm.dirty_ratio", "much")] {
            let refused = adopt(&settings(&[(name, text)]), &mut tunables).unwrap_err();
            assert_eq!(refused.name, name);
        }
    }

    #[test]
    fn a_choice_is_the_word_in_brackets() {
        let dir = tempfile::tempdir().unwrap();
        let huge = dir.path().join("sys/kernel/mm/transparent_hugepage");
        std::fs::create_dir_all(&huge).unwrap();
        std::fs::write(huge.join("enabled"), "always [madvise] never\n").unwrap();
        std::fs::write(huge.join("defrag"), "never [harder]\n").unwrap();
        let mut notes = Vec::new();
        let settings = read(&Source::recorded(dir.path()), None, &mut notes);
        assert_eq!(settings["transparent_hugepage.enabled"], "madvise");
        assert_eq!(settings.len(), 1);
        assert!(matches!(&notes[..], [note] if note.contains("defrag: ")), "{notes:?}");
    }
}
