//! Checks the sysctls of machines against the kernels of policies. Kernels differ in the sysctls
//! that they have, and in the values that they accept.
//!
//! The sysctls' declarations say which kernels have them ([`Tunables::FIELDS`]). A kernel without a
//! sysctl runs with the default; the core ensures this at boot. This module informs the user:
//!
//! | a sysctl that was set | then |
//! |---|---|
//! | on the command line, and no policy's kernel has it | an error |
//! | and some have it, or it is set in a machine's file | a remark that names the policies that ignore it |
//! | to a value that a policy's kernel refuses | an error |

use highwater_core::config::{Policy, TunableField, Tunables};

use crate::settings::Settings;
use highwater_files::input::InputError;
use highwater_files::machine_file::MachineFile;

/// Checks the machines' sysctls against the policies' kernels. Returns a remark for each sysctl
/// that some of them do not have.
///
/// # Errors
/// If a sysctl of the command line has no effect under any policy, or a kernel refuses a value.
pub fn judge(
    machines: &[MachineFile],
    policies: &[(Policy, String)],
    settings: &Settings,
) -> Result<Vec<String>, InputError> {
    let mut remarks: Vec<String> = Vec::new();
    for machine in machines {
        for (policy, label) in policies {
            refused(machine, policy, label, settings)?;
        }
        for field in Tunables::FIELDS {
            let text = settings.of_sysctl(field.key);
            let is_missing = |policy: &Policy| match text {
                Some(_) => !field.is_in(policy.kernel),
                None => machine.machine.tunables.not_in(policy.kernel).any(|one| one == field),
            };
            let without: Vec<&str> = policies
                .iter()
                .filter(|(policy, _)| is_missing(policy))
                .map(|(_, label)| label.as_str())
                .collect();
            if without.is_empty() {
                continue;
            }
            let missing = missing(field, &without);
            match text {
                Some(said) if without.len() == policies.len() => {
                    return Err(InputError::whole(said.to_string(), missing));
                }
                Some(said) => remarks.push(format!("{said}: {missing}: ignored there")),
                None => {
                    let (name, key) = (&machine.name, field.key);
                    remarks.push(format!("machine {name}: {key}: {missing}: ignored there"));
                }
            }
        }
    }
    remarks.dedup();
    Ok(remarks)
}

/// Why a change between two policies cannot be taken apart on these machines: a sysctl that the
/// user set has an effect under only one of them. A policy in between has the sysctl, so switches
/// would be blamed for its effect.
pub fn of_one_end(
    machines: &[MachineFile],
    from: &(Policy, String),
    to: &(Policy, String),
) -> Option<String> {
    machines.iter().find_map(|machine| {
        let only_of = |(with, name): &(Policy, String), (without, other): &(Policy, String)| {
            let mut lacking = machine.machine.tunables.not_in(without.kernel);
            lacking.find(|field| field.is_in(with.kernel)).map(|field| {
                format!(
                    "vm.{} acts under {name} and not under {other}: no switch explains what it does; leave it \
                     out, or compare kernels that both have it",
                    field.key
                )
            })
        };
        only_of(to, from).or_else(|| only_of(from, to))
    })
}

/// The remark in a run's notes about sysctls that its policy's kernel does not have.
pub fn note(machine: &MachineFile, policy: &Policy) -> Option<String> {
    let missing: Vec<&str> =
        machine.machine.tunables.not_in(policy.kernel).map(|field| field.key).collect();
    (!missing.is_empty()).then(|| {
        let kernel = policy.kernel;
        format!(
            "Linux {kernel} does not have {}: set for this machine, ignored",
            missing.join(", ")
        )
    })
}

/// The sentence about policies whose kernels do not have a sysctl.
fn missing(field: &TunableField, without: &[&str]) -> String {
    let who = match without {
        [one] => format!("{one} does not have it"),
        [first @ .., last] => format!("{} and {last} do not have it", first.join(", ")),
        [] => String::new(),
    };
    let when = match (field.since, field.until) {
        (Some(since), _) => format!(" (it came with {since})"),
        (_, Some(until)) => format!(" (it went with {until})"),
        _ => String::new(),
    };
    who + &when
}

/// Says so if the policy's kernel would refuse a value.
fn refused(
    machine: &MachineFile,
    policy: &Policy,
    label: &str,
    settings: &Settings,
) -> Result<(), InputError> {
    machine.machine.tunables.validate_in(policy.kernel).map_err(|error| {
        let key = error.field.trim_start_matches("tunables.");
        let what = match settings.of_sysctl(key) {
            Some(said) => said.to_string(),
            None => format!("machine {}: {}", machine.name, error.field),
        };
        let (kernel, reason) = (policy.kernel, error.reason);
        let who = match label == kernel.to_string() {
            true => label.to_owned(),
            false => format!("{label} (Linux {kernel})"),
        };
        InputError::whole(what, format!("{who} refuses it: {reason}"))
    })
}

#[cfg(test)]
mod tests {
    use highwater_core::config::{TunableForm, preset};

    use super::*;

    fn policies(names: &[&str]) -> Vec<(Policy, String)> {
        names.iter().map(|name| (preset(name).unwrap(), (*name).to_owned())).collect()
    }

    /// Remarks about settings on the command line.
    fn set(texts: &[&str], names: &[&str]) -> Result<Vec<String>, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let settings = Settings::parse(&texts, "unmap").unwrap();
        let machine = settings.set_machine(MachineFile::load("small-vm").unwrap()).unwrap();
        judge(&[machine], &policies(names), &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn what_no_kernel_has_is_refused_and_what_some_have_is_told() {
        let scale = "vm.watermark_scale_factor=100";
        assert_eq!(
            set(&[scale], &["4.3"]).unwrap_err(),
            "--set vm.watermark_scale_factor=100: 4.3 does not have it (it came with 4.6)"
        );
        assert_eq!(
            set(&[scale], &["4.3", "kcompactd", "6.1"]).unwrap(),
            [
                "--set vm.watermark_scale_factor=100: 4.3 and kcompactd do not have it (it came with 4.6): \
              ignored there"
            ]
        );
        // The same if it is set to its default.
        assert!(set(&["vm.watermark_scale_factor=10"], &["4.3"]).is_err());
        assert_eq!(set(&[scale], &["5.4", "6.1"]), Ok(Vec::new()));
        let went = set(&["vm.percpu_pagelist_fraction=8"], &["6.1"]).unwrap_err();
        assert!(went.ends_with("6.1 does not have it (it went with 5.14)"), "{went}");
    }

    #[test]
    fn a_value_that_a_kernel_refuses_is_an_error() {
        assert_eq!(
            set(&["vm.swappiness=200"], &["6.1", "4.3"]).unwrap_err(),
            "--set vm.swappiness=200: 4.3 refuses it: 200 is not between 0 and 100, where it may be before 5.8"
        );
        assert_eq!(set(&["vm.swappiness=200"], &["6.1"]), Ok(Vec::new()));
        let word = set(&["vm.thp_defrag=defer+madvise"], &["kcompactd"]).unwrap_err();
        assert!(
            word.contains("kcompactd (Linux 4.5) refuses it: \"defer+madvise\" came with 4.11")
        );
    }

    #[test]
    fn a_machines_file_is_told_by_its_name() {
        let text =
            "[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n[tunables]\nwatermark_boost_factor = 0\n";
        let machine = MachineFile::parse("m.toml", text).unwrap();
        let none = Settings::default();
        let machines = [machine.clone()];
        let told = judge(&machines, &policies(&["4.3", "6.1"]), &none).unwrap();
        let missing = "4.3 does not have it (it came with 5.0): ignored there";
        assert_eq!(told, [format!("machine m: watermark_boost_factor: {missing}")]);
        let noted = note(&machine, &preset("4.3").unwrap()).unwrap();
        assert!(noted.contains("Linux 4.3 does not have watermark_boost_factor"), "{noted}");
        assert_eq!(note(&machine, &preset("6.1").unwrap()), None);
        let text = text.replace("watermark_boost_factor = 0", "swappiness = 150");
        let machine = MachineFile::parse("m.toml", &text).unwrap();
        let error = judge(&[machine], &policies(&["5.4"]), &none).unwrap_err().to_string();
        assert!(error.starts_with("machine m: tunables.swappiness: 5.4 refuses it: "), "{error}");
    }

    /// A value that differs from the default, as text.
    fn another(field: &TunableField) -> String {
        let usual = toml::Table::try_from(Tunables::default()).unwrap();
        let usual = usual.get(field.key);
        match field.form {
            TunableForm::Bool => (usual != Some(&true.into())).to_string(),
            TunableForm::Numbers(count) => vec!["7"; count].join(","),
            TunableForm::Word(words) => {
                let mut words = words.iter().map(|word| word.name);
                words.find(|word| usual != Some(&(*word).into())).unwrap().to_owned()
            }
            TunableForm::Number => {
                let bounds = field.ranges.last().map(|range| [*range.start(), *range.end()]);
                let mut values = bounds.unwrap_or([1, 2]).into_iter();
                let is_other = |value: &u64| usual != Some(&(*value as i64).into());
                values.find(is_other).unwrap().to_string()
            }
        }
    }

    /// Each sysctl that is accepted changes the machine that boots, or a policy's kernel is said not to have it.
    #[test]
    fn every_sysctl_acts_or_is_refused() {
        let small = MachineFile::load("small-vm").unwrap();
        for field in Tunables::FIELDS {
            let text = format!("vm.{}={}", field.key, another(field));
            let settings = Settings::parse(std::slice::from_ref(&text), "unmap").unwrap();
            let machine = match settings.set_machine(small.clone()) {
                Ok(machine) => machine,
                // A kernel reports 0 but does not accept it.
                Err(error) => {
                    assert!(error.to_string().contains("Linux refuses 0"), "{error}");
                    continue;
                }
            };
            assert_ne!(machine.machine.tunables, small.machine.tunables, "{text}");
            let host = highwater_core::host::Solo::default();
            for name in ["4.3", "5.4", "6.1"] {
                let policy = preset(name).unwrap();
                let booted = |machine: &MachineFile| {
                    highwater_core::page_alloc::boot(&host, &machine.machine, &policy)
                        .map(|memory| memory.tunables.now())
                };
                let judged = judge(
                    std::slice::from_ref(&machine),
                    &[(policy.clone(), name.to_owned())],
                    &settings,
                );
                match judged {
                    Ok(remarks) => {
                        assert!(remarks.is_empty(), "one policy: it acts or is refused");
                        assert_ne!(booted(&machine), booted(&small), "{text} under {name}");
                    }
                    Err(_) => assert!(
                        !field.is_in(policy.kernel) || field.older.is_some(),
                        "{text} under {name}"
                    ),
                }
            }
        }
    }

    /// A sysctl or switch that the core never reads would have no effect.
    #[test]
    fn the_core_asks_for_every_sysctl_and_every_switch() {
        let core = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../highwater-core/src");
        let (mut texts, mut of_policy) = (String::new(), String::new());
        let mut folders = vec![core];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let is_config = path.components().any(|part| part.as_os_str() == "config");
                    *if is_config { &mut of_policy } else { &mut texts } += &text;
                }
            }
        }
        let is_asked = |key: &str| {
            let access = format!(".{key}");
            let is_whole = |at: usize| {
                let rest = &texts[at + access.len()..];
                !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            };
            texts.match_indices(&access).any(|(at, _)| is_whole(at))
        };
        for field in Tunables::FIELDS {
            assert!(is_asked(field.key), "nothing in the core asks for {}", field.key);
        }
        for field in Policy::describe() {
            let key = field.path.replace('-', "_");
            let key = key.rsplit('.').next().unwrap_or_default();
            // A section of the policy may put several into one rule.
            let by_rule = || of_policy.contains(&format!("self.{key}"));
            assert!(is_asked(key) || by_rule(), "nothing in the core asks for {}", field.path);
        }
    }
}
