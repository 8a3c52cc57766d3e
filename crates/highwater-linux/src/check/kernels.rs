//! The policies of captured kernels: the presets of their versions, and what their settings say.

use std::collections::BTreeMap;

use highwater_core::config::Policy;
use highwater_files::input::InputError;
use highwater_files::policy_file;

/// Kernels, and their presets with the two lists and with MGLRU.
const KERNELS: [(&str, [&str; 2]); 3] = [
    ("6.1", ["6.1", "6.1-mglru"]),
    ("6.12", ["6.12-two-lists", "6.12"]),
    ("7.2", ["7.2-two-lists", "7.2"]),
];

/// The version in a captured kernel's name, as "6.12" in "Linux 6.12 (Debian 6.12.95)" and "6.1" in
/// "Linux 6.1.192, own configuration".
fn version_of(kernel: &str) -> &str {
    let version = kernel.strip_prefix("Linux ").unwrap_or(kernel);
    let end = version.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(version.len());
    let version = &version[..end];
    // Of a stable release, major and minor.
    version.match_indices('.').nth(1).map_or(version, |(at, _)| &version[..at])
}

/// The bits of `lru_gen/enabled` in captured settings.
fn lru_gen(settings: &BTreeMap<String, String>) -> u32 {
    let text = settings.get("lru_gen.enabled").and_then(|text| text.strip_prefix("0x"));
    text.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
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
    let version = version_of(kernel);
    let Some((_, [two_lists, mglru])) = KERNELS.iter().find(|(known, _)| *known == version) else {
        return Ok(None);
    };
    let bits = lru_gen(settings);
    let base = if bits & 1 != 0 { mglru } else { two_lists };
    let [walks, skips] = [2, 4].map(|bit| bits & bit != 0);
    let text = format!(
        "base = \"{base}\"\nreclaim.mglru.walks = {walks}\n\
         reclaim.mglru.skips-unused-tables = {skips}\n{more}"
    );
    // Without MGLRU its switches have no effect.
    let policy = policy_file::parse(base, &text)?;
    Ok(Some((policy, (*base != version).then(|| format!("policy: the preset {base}")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_releases_are_of_their_version() {
        for (kernel, version) in [
            ("Linux 6.12 (Debian 6.12.95)", "6.12"),
            ("Linux 6.1.192, own configuration", "6.1"),
            ("Linux 6.1.192 rebuilt", "6.1"),
            ("7.2", "7.2"),
            ("FreeBSD", ""),
        ] {
            assert_eq!(version_of(kernel), version, "{kernel}");
        }
    }
}
