//! The machine file: zone by zone, as the kernel has them, with its settings.

use std::fmt::Write as _;

use highwater_core::config::Tunables;
use highwater_core::swap::Slot;
use highwater_results::import::linux61::{Static, Zone};

use super::settings;
use super::{MeasuredCosts, MeasuredDisk, System};
use highwater_files::input::InputError;
use highwater_files::input::size::size_text;

/// The cost table for an emulated processor, and for others.
const COSTS_EMULATED: &str = "qemu-tcg";
const COSTS: &str = "server-3ghz";
/// The header of a swap area, which `/proc/swaps` does not count.
const SWAP_HEADER_KIB: u64 = 4;

/// The text of the file.
///
/// # Errors
/// If the model cannot represent a setting.
pub(super) fn to_toml(
    system: &System,
    captured: &Static,
    measured: Option<&MeasuredCosts>,
) -> Result<String, InputError> {
    let mut text = String::new();
    // Writing to a string does not fail.
    head(&mut text, system, measured);
    let _ = writeln!(
        text,
        "summary = \"captured: {} MiB, {} CPUs, {}\"",
        system.bytes() >> 20,
        system.nr_cpus,
        system.kernel
    );
    let _ = match measured {
        Some(measured) => writeln!(text, "costs = {:?}", measured.file),
        None => writeln!(
            text,
            "# A guess: what operations cost was not measured, and this is the table that comes nearest.\n\
             costs = \"{}\"",
            costs(system)
        ),
    };
    let distances: Vec<&Vec<u32>> = system.nodes.iter().map(|node| &node.distances).collect();
    let _ = writeln!(text, "distances = {distances:?}");
    for node in &system.nodes {
        let cpus: Vec<String> = node.cpus.iter().map(u32::to_string).collect();
        let sizes = system.node_meminfo.get(node.id as usize);
        let size = |name: &str| sizes.and_then(|sizes| sizes.get(name)).copied().unwrap_or(0);
        let _ = writeln!(text, "\n# Node {}: {}", node.id, {
            match size("MemTotal") {
                0 => "the kernel does not report its sizes".to_owned(),
                total => format!("{} MiB, {} of them free", total >> 10, size("MemFree") >> 10),
            }
        });
        let _ = writeln!(text, "[[node]]\ncpus = \"{}\"", cpus.join(","));
        let zones: Vec<&Zone> = captured.zones.iter().filter(|z| z.node == node.id).collect();
        if !zones.is_empty() {
            let rows: Vec<String> = zones.into_iter().map(zone).collect();
            let _ = writeln!(text, "zones = [\n{}]", rows.concat());
        }
    }
    tunables(&mut text, captured)?;
    caches(&mut text, system);
    disks(&mut text, system, used(system, measured));
    Ok(text)
}

fn head(text: &mut String, system: &System, measured: Option<&MeasuredCosts>) {
    let guesses = match measured {
        None => "Guesses: what operations cost, what the disks can do.",
        Some(_) if used(system, measured).is_none() => {
            "Measured: what operations cost. A guess: what the disks can do."
        }
        Some(_) => {
            "Measured: what operations cost, reads of a disk. A guess: the rest of the disks."
        }
    };
    let _ = writeln!(
        text,
        "# A machine captured from {} by `highwater capture`: zones, nodes, CPUs, settings and caches as its kernel\n\
         # says. {guesses}",
        system.kernel
    );
    let types = system.pagetypeinfo.iter().flat_map(|info| &info.pageblocks);
    for row in types {
        let some = row.nr_blocks.iter().filter(|(_, nr)| *nr > 0);
        let some: Vec<String> = some.map(|(name, nr)| format!("{nr} {name}")).collect();
        let _ = writeln!(
            text,
            "# Pageblocks at the time, node {} {}: {}",
            row.node,
            row.zone,
            some.join(", ")
        );
    }
}

pub(super) fn costs(system: &System) -> &'static str {
    let is_emulated =
        system.cpu_model.contains("QEMU TCG") || system.cpu_model.contains("QEMU Virtual");
    if is_emulated { COSTS_EMULATED } else { COSTS }
}

fn zone(zone: &Zone) -> String {
    let at_boot = match zone.managed_at_boot {
        None => String::new(),
        Some(pages) => format!(", managed-at-boot = {pages}"),
    };
    format!(
        "    {{ zone = \"{}\", start-pfn = {}, spanned = {}, present = {}, managed = {}{at_boot} }},\n",
        zone.zone, zone.start_pfn, zone.spanned, zone.present, zone.managed
    )
}

/// Settings that differ from the kernel's defaults.
fn tunables(text: &mut String, captured: &Static) -> Result<(), InputError> {
    let default = toml::Table::try_from(Tunables::default()).unwrap_or_default();
    let mut adopted = Tunables::default();
    let refused = |refused: settings::Refused| InputError::whole(refused.name, refused.reason);
    settings::adopt(&captured.settings, &mut adopted).map_err(refused)?;
    text.push_str("\n# As the kernel is set; other settings have their defaults.\n[tunables]\n");
    for (name, key) in settings::SETTINGS {
        let Some(said) = captured.settings.get(*name) else { continue };
        let value = settings::value(key, said);
        if default.get(*key) != Some(&value) {
            let _ = writeln!(text, "{key} = {value}");
        }
        if *name == settings::MIN_FREE {
            text.push_str("# (set by hand, or computed otherwise than by the preset nearest to this kernel)\n");
        }
    }
    Ok(())
}

fn caches(text: &mut String, system: &System) {
    let Some(caches) = system.caches else {
        text.push_str(
            "\n# No [cache]: the kernel does not tell its caches; they are a generic server's.\n",
        );
        return;
    };
    let source = "/sys/devices/system/cpu";
    let _ = writeln!(text, "\n[cache]");
    for (name, bytes) in [("l1", caches.l1), ("l2", caches.l2), ("llc", caches.llc)] {
        let _ = writeln!(text, "{name} = {{ bytes = {bytes}, source = \"{source}\" }}");
    }
    let _ = writeln!(text, "sockets = {{ count = {}, source = \"{source}\" }}", system.nr_sockets);
}

/// Whether a model's reads are those of a solid-state disk, with figures of its own.
fn has_figures(model: &str) -> bool {
    ["nvme", "ssd"].contains(&model)
}

/// The measured disk, if it is one of the machine's and its model can have the figures.
fn used<'a>(system: &System, measured: Option<&'a MeasuredCosts>) -> Option<&'a MeasuredDisk> {
    let measured = measured?.disk.as_ref()?;
    let disk = system.disks.iter().find(|disk| disk.name == measured.name)?;
    has_figures(model(&disk.name, disk.is_rotational).0).then_some(measured)
}

fn disks(text: &mut String, system: &System, measured: Option<&MeasuredDisk>) {
    for disk in &system.disks {
        let (model, guess) = model(&disk.name, disk.is_rotational);
        // Only a solid-state model has the measured figures.
        let measured = measured.filter(|m| m.name == disk.name && has_figures(model));
        let source = match measured {
            None => format!("guess: {guess}"),
            Some(measured) => format!("{}; a guess: writes ({guess})", measured.source),
        };
        let _ = write!(
            text,
            "\n[[disk]]\nname = {:?}\nmodel = \"{model}\"\nsize = \"{}K\"\nsource = {source:?}\n",
            disk.name,
            disk.bytes >> 12 << 2
        );
        for line in measured.iter().flat_map(|measured| &measured.lines) {
            let _ = writeln!(text, "{line}");
        }
        if disk.is_rotational != (model == "hdd") {
            let _ = writeln!(text, "rotational = {}", disk.is_rotational);
        }
        match disk.scheduler.as_deref() {
            Some("none") => text.push_str("scheduler = \"none\"\n"),
            Some("mq-deadline") => text.push_str("scheduler = \"deadline\"\n"),
            Some(other) => {
                let _ = writeln!(text, "# Its scheduler is {other}, which is not modelled.");
            }
            None => {}
        }
        if let (Some(depth @ 1..), Some("mq-deadline")) =
            (disk.nr_requests, disk.scheduler.as_deref())
        {
            let _ = writeln!(text, "depth = {depth}");
        }
        if let Some(segments) =
            disk.max_segments.filter(|&segments| u32::try_from(segments).is_ok())
        {
            let _ = writeln!(text, "max-segments = {segments}");
        }
        if let Some(kb) = disk.read_ahead_kb.filter(|&kb| kb != 128 && kb <= 1 << 20) {
            let _ = writeln!(text, "read-ahead-kb = {kb}");
        }
    }
    if system.disks.is_empty() {
        text.push_str(
            "\n# The kernel reports no disk, and files need one.\n[[disk]]\nname = \"data\"\nmodel = \"ssd\"\nsize = \"256G\"\n\
             source = \"guess: the kernel reports no disk\"\n",
        );
    }
    let first = system.disks.first();
    for (at, area) in system.swaps.iter().enumerate().take(Slot::MAX_AREAS) {
        let most = (u64::from(Slot::MAX_OFFSET) + 1) * 4;
        let kib = (area.kib.saturating_add(SWAP_HEADER_KIB) / 4 * 4).clamp(8, most);
        let (model, guess) = match (area.is_in_memory, first) {
            (true, _) => ("ram", "swap in memory; compression is not modelled".to_owned()),
            (false, None) => ("ssd", "the kernel reports no disk".to_owned()),
            (false, Some(disk)) => {
                let (model, guess) = model(&disk.name, disk.is_rotational);
                (model, format!("as the largest disk, of which it may be a part: {guess}"))
            }
        };
        let size = size_text(kib * 1024);
        let _ = write!(
            text,
            "\n# {} MiB of it were in use.\n[[disk]]\nname = \"swap{at}\"\nmodel = \"{model}\"\nsize = \"{size}\"\n\
             source = \"guess: {guess}\"\n\n[[swap]]\ndisk = \"swap{at}\"\npriority = {}\n",
            area.used_kib >> 10,
            area.priority.clamp(i64::from(i16::MIN), i64::from(i16::MAX))
        );
    }
}

/// The model of a disk, and why.
fn model(name: &str, is_rotational: bool) -> (&'static str, &'static str) {
    let is_virtual = name.starts_with("vd") || name.starts_with("xvd");
    match (name, is_rotational) {
        _ if name.starts_with("nvme") => ("nvme", "it is called so; the model's figures"),
        _ if name.starts_with("pmem") => ("ram", "it is called so; the model's figures"),
        (_, true) if is_virtual => (
            "ssd",
            "a virtual disk, which reports itself as rotational whatever is below it; the model's figures",
        ),
        (_, true) => ("hdd", "it reports itself as rotational; the model's figures"),
        (_, false) => ("ssd", "it does not turn; the model's figures"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_what_they_say_unless_they_are_virtual() {
        let is = |name, turns| model(name, turns).0;
        assert_eq!([is("sda", true), is("sda", false), is("vda", true)], ["hdd", "ssd", "ssd"]);
        assert_eq!([is("nvme0n1", false), is("pmem0", false)], ["nvme", "ram"]);
    }
}
