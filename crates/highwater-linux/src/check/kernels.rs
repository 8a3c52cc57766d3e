//! The policies of captured kernels: the presets of their versions, and what their settings say.

use std::collections::BTreeMap;

use highwater_core::config::{Algorithm, Policy, preset_with};
use highwater_files::input::InputError;
use highwater_files::policy_file;

use crate::capture::{KernelVersion, lru_gen_bits};

/// The preset of a captured kernel's version, with the LRU that the settings say; none if there is
/// no such preset.
pub(super) fn preset_of(kernel: &str, settings: &BTreeMap<String, String>) -> Option<&'static str> {
    let version = KernelVersion::find(kernel)?;
    let algorithm = match lru_gen(settings) & 1 {
        0 => Algorithm::TwoList,
        _ => Algorithm::Mglru,
    };
    preset_with(&version.to_string(), algorithm)
}

/// A remark about a preset whose name is not only a version.
pub(super) fn remark(preset: &str) -> Option<String> {
    KernelVersion::of_preset(preset).is_none().then(|| format!("policy: the preset {preset}"))
}

fn lru_gen(settings: &BTreeMap<String, String>) -> u32 {
    settings.get("lru_gen.enabled").and_then(|text| lru_gen_bits(text)).unwrap_or(0)
}

/// The policy of a captured kernel with its settings, and a remark if it is not the preset of the
/// version's name; none for a kernel without a preset. `more`: further lines of the policy file.
///
/// # Errors
/// If `more` has a rule that does not exist.
pub(super) fn policy(
    kernel: &str,
    settings: &BTreeMap<String, String>,
    more: &str,
) -> Result<Option<(Policy, Option<String>)>, InputError> {
    let Some(base) = preset_of(kernel, settings) else { return Ok(None) };
    let bits = lru_gen(settings);
    let [walks, skips] = [2, 4].map(|bit| bits & bit != 0);
    let text = format!(
        "base = \"{base}\"\nreclaim.mglru.walks = {walks}\n\
         reclaim.mglru.skips-unused-tables = {skips}\n{more}"
    );
    // Without MGLRU its switches have no effect.
    let policy = policy_file::parse(base, &text)?;
    Ok(Some((policy, remark(base))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_have_the_preset_of_their_version_and_lru() {
        let of = |kernel: &str, bits: &str| {
            preset_of(kernel, &BTreeMap::from([("lru_gen.enabled".to_owned(), bits.to_owned())]))
        };
        assert_eq!(of("Linux 6.12 (Debian 6.12.95)", "0x0007"), Some("6.12"));
        assert_eq!(of("Linux 6.12 (Debian 6.12.95)", "0x0000"), Some("6.12-two-lists"));
        assert_eq!(of("Linux 6.1.192, own configuration", "0x0001"), Some("6.1-mglru"));
        assert_eq!(preset_of("Linux 5.10 (Debian)", &BTreeMap::new()), Some("5.10"));
        assert_eq!(of("Linux 5.10 (Debian)", "0x0007"), None, "it has no such LRU");
        assert_eq!([of("FreeBSD", ""), of("Linux 2.6 (old)", "")], [None, None]);
    }
}
