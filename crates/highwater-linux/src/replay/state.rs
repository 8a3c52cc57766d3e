//! The machine on which a trace was taken, and its state.
//!
//! Sources of the machine, from best to worst: `/proc` files captured beside the trace, the command
//! line, the trace itself. The contents of per-CPU lists and the blocks in use always come from the
//! trace ([`Survey`]). Frames keep their real numbers. [`highwater_runs::start::place`] decides where
//! the free blocks of the captured counts lie.

use std::path::{Path, PathBuf};

use highwater_core::config::{Machine, NodeSpec, PcpSizing, Policy, Thp, ZoneSpec};
use highwater_core::host::Solo;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_alloc::PageAllocator;
use highwater_core::page_alloc::boot;
use highwater_core::zone::ZoneType;
use highwater_core::zone::watermark::Marks;
use highwater_results::import::proc::{KernelZones, Zoneinfo, ZoneinfoZone};

use super::survey::{LOW_END, Survey};
use highwater_files::input::InputError;
use highwater_files::machine_file;
/// `/proc` files captured just before a trace.
pub use highwater_files::machine_file::state_texts::StateTexts as Sidecars;
use highwater_files::machine_file::state_texts::zone_type;

/// Where the machine of a replay comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineSource {
    /// Captured beside the trace.
    Captured,
    /// Given by the user.
    Given,
    /// Guessed from the trace.
    Inferred,
}

impl MachineSource {
    /// A word for reports.
    pub const fn name(self) -> &'static str {
        match self {
            MachineSource::Captured => "captured beside the trace",
            MachineSource::Given => "given",
            MachineSource::Inferred => "inferred from the trace",
        }
    }

    /// Advice for a trace that does not fit the machine, as the end of a sentence.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            MachineSource::Captured => {
                ": the files beside the trace are of another machine, or memory or CPUs came later; \
                 --no-sidecars replays without them"
            }
            MachineSource::Given => "; without a machine, one is inferred from the trace",
            MachineSource::Inferred => "",
        }
    }
}

/// Batch and limit of per-CPU lists of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcpSizes {
    /// The zone by node and type; `None`: every zone that is large enough.
    pub zone: Option<(u16, ZoneType)>,
    /// Batch; `None`: as computed for the machine.
    pub batch: Option<u32>,
    /// Limit.
    pub high: ListLimit,
}

/// Known limits of per-CPU lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListLimit {
    /// Its value.
    Known(u32),
    /// A number of pages that they held without giving any back.
    Above(u32),
}

/// The machine of a replay.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The machine.
    pub machine: Machine,
    /// Where it comes from.
    pub source: MachineSource,
    /// Sizes of per-CPU lists that are known more precisely than the machine's other figures imply.
    pub pcp_sizes: Vec<PcpSizes>,
    /// Marks and reserves of zones as captured; their inputs are known less precisely.
    pub zone_sizes: Vec<ZoneSizes>,
}

/// Marks and reserves of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSizes {
    /// Node.
    pub node: u16,
    /// Which zone.
    pub zone: ZoneType,
    /// Min, low, high, with the boost of the moment.
    pub marks: [u64; 3],
    /// Pages kept from requests for each zone.
    pub reserves: [u64; 5],
}

impl Shape {
    /// The machine of a trace. `given` counts if there is no zoneinfo beside the trace.
    ///
    /// # Errors
    /// If the facts do not describe a machine, or the trace does not fit it.
    pub fn of(
        trace: &str,
        survey: &Survey,
        sidecars: &Sidecars,
        given: Option<&Machine>,
    ) -> Result<Shape, InputError> {
        let shape = match (&sidecars.zoneinfo, given) {
            (Some(zoneinfo), _) => captured(zoneinfo, &sidecars.files)?,
            (None, Some(machine)) => Shape {
                machine: machine.clone(),
                source: MachineSource::Given,
                pcp_sizes: Vec::new(),
                zone_sizes: Vec::new(),
            },
            (None, None) => inferred(trace, survey)?,
        };
        machine_file::check_size(&shape.machine).map_err(|reason| {
            let reason = match (shape.source, survey.end_pfn.checked_sub(1)) {
                (MachineSource::Inferred, Some(last)) => {
                    format!("pfn: the highest is {last:#x}: {reason}")
                }
                _ => reason,
            };
            InputError::whole(trace, reason)
        })?;
        let nr_cpus = shape.machine.nr_cpus() as u32;
        if survey.nr_cpus > nr_cpus {
            let reason = format!(
                "events of CPU {}, but machine {} has CPUs 0 to {}{}",
                survey.nr_cpus - 1,
                shape.machine.name,
                nr_cpus - 1,
                shape.source.advice()
            );
            return Err(InputError::whole(trace, reason));
        }
        Ok(shape)
    }

    /// Sets marks and reserves as captured.
    pub fn apply_zone_sizes<S>(&self, memory: &PageAllocator<Solo<S>>)
    where
        Solo<S>: highwater_core::host::Host,
    {
        for sizes in &self.zone_sizes {
            let node = highwater_core::zone::NodeId(sizes.node);
            let Some(zone) = memory.zone(node, sizes.zone) else { continue };
            let [min, low, high] = sizes.marks;
            zone.set_marks(&Marks { min, low, high, promo: high.max(zone.marks().promo) });
            zone.set_lowmem_reserves(&sizes.reserves);
        }
        memory.refresh_reserves();
    }

    /// Applies the known sizes of per-CPU lists, for policies that compute them as the traced
    /// kernel did.
    pub fn apply_pcp_sizes<S>(&self, policy: &Policy, memory: &PageAllocator<Solo<S>>)
    where
        Solo<S>: highwater_core::host::Host,
    {
        if policy.pcp.sizing != PcpSizing::LowWatermark {
            return;
        }
        for zone in memory.populated_zones() {
            let is_for = |sizes: &&PcpSizes| match sizes.zone {
                Some((node, kind)) => (node, kind) == (zone.node.0, zone.zone),
                None => zone.zone != ZoneType::Dma,
            };
            if let Some(sizes) = self.pcp_sizes.iter().find(is_for) {
                let high = match sizes.high {
                    ListLimit::Known(high) => high,
                    ListLimit::Above(pages) => zone.pcp_high().max(pages + 1),
                };
                zone.set_pcp_sizes(sizes.batch.unwrap_or(zone.pcp_batch()), high);
            }
        }
    }
}

/// A machine like the one of the captured zoneinfo.
fn captured(zoneinfo: &Zoneinfo, files: &[PathBuf]) -> Result<Shape, InputError> {
    let file = files.first().map_or_else(String::new, |f| f.display().to_string());
    let populated: Vec<_> = zoneinfo.zones.iter().filter(has_memory).collect();
    let nr_nodes = zoneinfo.zones.iter().map(|z| z.node + 1).max().unwrap_or(1) as usize;
    let nr_cpus =
        populated.iter().flat_map(|z| &z.pagesets).map(|p| p.cpu + 1).max().unwrap_or(1) as usize;
    let mut nodes = vec![NodeSpec::default(); nr_nodes.min(64)];
    for zone in &populated {
        let kind = zone_type(&zone.zone).ok_or_else(|| {
            let reason = machine_file::no_such_zone(&zone.zone);
            InputError { field: Some("zone".to_owned()), ..InputError::whole(&file, reason) }
        })?;
        if let Some(node) = nodes.get_mut(zone.node as usize) {
            node.zones.push(ZoneSpec {
                zone: kind,
                start_pfn: zone.start_pfn.unwrap_or(0),
                spanned: zone.spanned,
                present: zone.present,
                managed_at_boot: zone.managed,
                managed: zone.managed,
            });
        }
    }
    // zoneinfo does not say which node a CPU belongs to: equal shares, in order.
    let with_memory: Vec<usize> =
        (0..nodes.len()).filter(|&n| !nodes[n].zones.is_empty()).collect();
    for cpu in 0..nr_cpus {
        if let Some(&node) = with_memory.get(cpu * with_memory.len() / nr_cpus) {
            nodes[node].cpus.push(cpu as u16);
        }
    }
    let mut machine = Machine { name: "captured".to_owned(), ..Machine::default() };
    machine.distances = (0..nodes.len())
        .map(|i| (0..nodes.len()).map(|j| if i == j { 10 } else { 20 }).collect())
        .collect();
    machine.nodes = nodes;
    machine.validate().map_err(|error| InputError::whole(&file, error.to_string()))?;
    machine.tunables.thp = captured_thp(&machine, &populated);
    let pcp_sizes = populated.iter().filter_map(|zone| {
        let set = zone.pagesets.first()?;
        let batch = Some(u32::try_from(set.batch).ok()?);
        let high = ListLimit::Known(u32::try_from(set.high).ok()?);
        Some(PcpSizes { zone: Some((zone.node as u16, zone_type(&zone.zone)?)), batch, high })
    });
    let pcp_sizes = pcp_sizes.collect();
    let kernel_zones = KernelZones::of(zoneinfo);
    let sizes = populated.iter().filter_map(|zone| zone_sizes(zone, kernel_zones.as_ref()));
    let zone_sizes = sizes.collect();
    Ok(Shape { machine, source: MachineSource::Captured, pcp_sizes, zone_sizes })
}

/// Device pages are never free, and a zone with no managed pages is left out.
fn has_memory(zone: &&ZoneinfoZone) -> bool {
    zone.is_populated() && zone.managed > 0
}

/// Marks and reserves from a zone's file, unchanged: they include a watermark boost, which the
/// replay never takes away.
fn zone_sizes(zone: &ZoneinfoZone, zones: Option<&KernelZones>) -> Option<ZoneSizes> {
    let names = ZoneType::ALL.map(ZoneType::name);
    let reserves = zones.map(|zones| zones.reserves(&zone.zone, &zone.protection, &names));
    let mut all = [0; ZoneType::ALL.len()];
    for (slot, pages) in all.iter_mut().zip(reserves.as_ref().unwrap_or(&zone.protection)) {
        *slot = *pages;
    }
    Some(ZoneSizes {
        node: u16::try_from(zone.node).ok()?,
        zone: zone_type(&zone.zone)?,
        marks: [zone.min, zone.low, zone.high],
        reserves: all,
    })
}

/// Transparent huge pages raise the watermarks (rules/watermarks#thp-min-free): which setting
/// gives marks nearer to the captured ones?
fn captured_thp(machine: &Machine, zones: &[&ZoneinfoZone]) -> Thp {
    let Some(policy) = highwater_core::config::preset("6.1") else { return Thp::Always };
    let distance = |thp: Thp| {
        let mut machine = machine.clone();
        machine.tunables.thp = thp;
        let host = Solo::default();
        let Ok(memory) = boot(&host, &machine, &policy) else { return u64::MAX };
        let of_zone = |zone: &&ZoneinfoZone| {
            let kind = zone_type(&zone.zone)?;
            let node = highwater_core::zone::NodeId(zone.node as u16);
            Some(memory.zone(node, kind)?.marks().min.abs_diff(zone.min - zone.boost.min(zone.min)))
        };
        zones.iter().filter_map(of_zone).sum()
    };
    if distance(Thp::Never) < distance(Thp::Always) { Thp::Never } else { Thp::Always }
}

/// A machine with one node, just large enough for the highest frame and for the batch of the
/// per-CPU lists. PCs have no memory between 3 and 4 GiB; frames there are memory if the trace has
/// some.
fn inferred(trace: &str, survey: &Survey) -> Result<Shape, InputError> {
    const GIB_PAGES: u64 = 1 << 18;
    let cpus: Vec<u16> = (0..survey.nr_cpus as u16).collect();
    let Some(last) = survey.end_pfn.checked_sub(1) else {
        let beside = Path::new(trace).with_extension("zoneinfo");
        let reason = format!(
            "no frame in the trace (an allocation that failed names none), so nothing says what its machine is: \
             `highwater replay --machine NAME` (or --mem) says it, or {}, a copy of /proc/zoneinfo",
            beside.display()
        );
        return Err(InputError::whole(trace, reason));
    };
    let refused =
        |reason: &str| InputError::whole(trace, format!("pfn: the highest is {last:#x}: {reason}"));
    let first = survey.first_pfn.unwrap_or(0);
    let is_far_up = survey.end_pfn.saturating_mul(PAGE_SIZE as u64) > machine_file::BYTES_MAX / 8;
    let machine = if is_far_up && first >= LOW_END && survey.end_pfn - first < first / 4 {
        // All frames are far above 4 GiB, as on some boards.
        let start = first / GIB_PAGES * GIB_PAGES;
        let end = survey.end_pfn.max(start + survey.batch.map_or(0, pages_for_batch));
        let pages = end.next_multiple_of(GIB_PAGES) - start;
        let zones = vec![ZoneSpec::full(ZoneType::Normal, start, pages)];
        Machine::of_nodes("inferred", vec![NodeSpec { cpus, zones }])
    } else {
        // The 1 GiB below 4 GiB is a hole: frames above it continue the memory.
        let pages = match survey.end_pfn {
            end if end > LOW_END => end - GIB_PAGES,
            end => end.min(3 * GIB_PAGES),
        };
        let pages = pages.max(survey.batch.map_or(0, pages_for_batch));
        let step = if pages < GIB_PAGES { GIB_PAGES / 4 } else { GIB_PAGES };
        let bytes = pages.div_ceil(step) * step * PAGE_SIZE as u64;
        Machine::from_sizes("inferred", &[(bytes, cpus)]).map(|mut machine| {
            let in_hole = survey.low_end_pfn.saturating_sub(3 * GIB_PAGES);
            let zones = machine.nodes.iter_mut().flat_map(|node| &mut node.zones);
            if let Some(zone) = zones.into_iter().find(|z| z.zone == ZoneType::Dma32 && in_hole > 0)
            {
                let more = in_hole.next_multiple_of(GIB_PAGES / 4);
                zone.spanned += more;
                zone.present += more;
                zone.managed_at_boot += more;
                zone.managed += more;
            }
            machine
        })
    };
    let machine = machine.map_err(|error| refused(&error.reason))?;
    let sizes = match (survey.batch, survey.high) {
        (Some(batch), Some(high)) if high >= 4 * batch => {
            PcpSizes { zone: None, batch: Some(batch), high: ListLimit::Known(high) }
        }
        _ => {
            let high = ListLimit::Above(survey.most_on_lists);
            PcpSizes { zone: None, batch: None, high }
        }
    };
    let source = MachineSource::Inferred;
    Ok(Shape { machine, source, pcp_sizes: vec![sizes], zone_sizes: Vec::new() })
}

/// Least memory of a zone whose per-CPU lists have this batch (rules/per-cpu-lists#sizes), plus a
/// tenth for unmanaged pages.
fn pages_for_batch(batch: u32) -> u64 {
    // batch + 1 is the power of two at or below b + b/2, b a fourth of managed/1024.
    let least = u64::from(batch) + 1;
    let b = (least * 2).div_ceil(3);
    let managed = b * 4 * 1024;
    managed + managed / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(end_pfn: u64, nr_cpus: u32) -> Survey {
        let low_end_pfn = if end_pfn > LOW_END { 0 } else { end_pfn };
        Survey { end_pfn, low_end_pfn, nr_cpus, ..Survey::default() }
    }

    #[test]
    fn inferred_machines_hold_the_highest_frame() {
        for end in [5000, 1 << 17, (1 << 18) - 3, 700_000, 970_746, 1 << 20, (1 << 20) + 5, 5 << 20]
        {
            let shape = Shape::of("t", &surveyed(end, 3), &Sidecars::default(), None).unwrap();
            assert_eq!(shape.source, MachineSource::Inferred);
            assert_eq!(shape.machine.nr_cpus(), 3);
            assert!(shape.machine.end_pfn() >= end, "{end}");
        }
    }

    #[test]
    fn inferred_machines_have_the_batch_that_was_seen() {
        for batch in [3, 15, 31, 63] {
            let survey = Survey { batch: Some(batch), ..surveyed(5000, 2) };
            let shape = Shape::of("t", &survey, &Sidecars::default(), None).unwrap();
            let policy = highwater_core::config::preset("6.1").unwrap();
            let memory = boot(&Solo::default(), &shape.machine, &policy).unwrap();
            let zone = memory.zone(highwater_core::zone::NodeId(0), ZoneType::Dma32).unwrap();
            assert!(zone.pcp_batch() >= batch, "{batch}: {}", zone.pcp_batch());
        }
    }

    #[test]
    fn a_trace_of_more_cpus_does_not_fit() {
        let machine = Machine::from_sizes("m", &[(1 << 30, vec![0, 1])]).unwrap();
        let error =
            Shape::of("t", &surveyed(9000, 3), &Sidecars::default(), Some(&machine)).unwrap_err();
        let text = "t: events of CPU 2, but machine m has CPUs 0 to 1; without a machine, one is inferred from the trace";
        assert_eq!(error.to_string(), text);
    }
}
