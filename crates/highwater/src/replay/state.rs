//! The machine a trace was taken on, and the state it was in.
//!
//! From best to worst, where the machine comes from: `/proc` files captured beside the trace, the
//! command line, the trace itself. What was on per-CPU lists and which blocks were in use comes from
//! the trace in each case ([`Survey`]); frames keep their real numbers. [`super::place`] decides
//! where the free blocks of the captured counts lie.

use std::path::{Path, PathBuf};

use highwater_core::config::{Machine, NodeSpec, PcpSizing, Policy, Thp, ZoneSpec};
use highwater_core::host::Solo;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_alloc::PageAllocator;
use highwater_core::page_alloc::boot;
use highwater_core::zone::ZoneType;
use highwater_results::import::proc::{Buddyinfo, PageTypeInfo, Zoneinfo, ZoneinfoZone};

use super::survey::Survey;
use crate::input::InputError;
use crate::machine_file;

/// `/proc` files captured just before a trace.
#[derive(Clone, Debug, Default)]
pub struct Sidecars {
    /// `X.zoneinfo`: zones, and how full the per-CPU lists were.
    pub zoneinfo: Option<Zoneinfo>,
    /// `X.pagetypeinfo`: free blocks by type, pageblocks by type.
    pub pagetypeinfo: Option<PageTypeInfo>,
    /// `X.buddyinfo`: free blocks.
    pub buddyinfo: Option<Buddyinfo>,
    /// The files that were there.
    pub files: Vec<PathBuf>,
}

impl Sidecars {
    /// Reads what lies beside `X.trace.gz` (or `X.trace`, `X.txt`).
    ///
    /// # Errors
    /// If a file is there and cannot be read.
    pub fn beside(trace: &Path) -> Result<Sidecars, InputError> {
        let mut stem = trace.to_path_buf();
        if stem.extension().is_some_and(|e| e == "gz") {
            stem.set_extension("");
        }
        let mut found = Sidecars::default();
        let mut existing = |extension: &str| {
            let path = stem.with_extension(extension);
            let is_there = path.is_file() && path != trace;
            is_there.then(|| found.files.push(path.clone()));
            is_there.then_some(path)
        };
        let zoneinfo = existing("zoneinfo");
        let pagetypeinfo = existing("pagetypeinfo");
        let buddyinfo = existing("buddyinfo");
        found.zoneinfo = zoneinfo.map(Zoneinfo::read).transpose()?;
        found.pagetypeinfo = pagetypeinfo.map(PageTypeInfo::read).transpose()?;
        found.buddyinfo = buddyinfo.map(Buddyinfo::read).transpose()?;
        Ok(found)
    }
}

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
}

/// Batch and limit of per-CPU lists of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcpSizes {
    /// The zone by node and type; none: every zone large enough.
    pub zone: Option<(u16, ZoneType)>,
    /// Batch; none: as computed for the machine.
    pub batch: Option<u32>,
    /// Limit.
    pub high: ListLimit,
}

/// What is known of the limit of per-CPU lists.
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
    /// Sizes of per-CPU lists that are known better than the machine's other figures say.
    pub pcp_sizes: Vec<PcpSizes>,
}

impl Shape {
    /// The machine of a trace. `given` counts where no zoneinfo lies beside the trace.
    ///
    /// # Errors
    /// If no machine can be made of what there is, or the trace does not fit on it.
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
            },
            (None, None) => inferred(trace, survey)?,
        };
        machine_file::check_size(&shape.machine).map_err(|reason| {
            let reason = format!("pfn: the highest is {:#x}: {reason}", survey.end_pfn - 1);
            InputError::whole(trace, reason)
        })?;
        let nr_cpus = shape.machine.nr_cpus() as u32;
        if survey.nr_cpus > nr_cpus {
            let reason = format!(
                "events of CPU {}, but machine {} has CPUs 0 to {}",
                survey.nr_cpus - 1,
                shape.machine.name,
                nr_cpus - 1
            );
            return Err(InputError::whole(trace, reason));
        }
        Ok(shape)
    }

    /// Sets what is known of the sizes of per-CPU lists, for policies that compute them as the
    /// traced kernel did.
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

/// A machine like the one that zoneinfo was captured on.
fn captured(zoneinfo: &Zoneinfo, files: &[PathBuf]) -> Result<Shape, InputError> {
    let file = files.first().map_or_else(String::new, |f| f.display().to_string());
    let populated: Vec<_> = zoneinfo.zones.iter().filter(|z| z.is_populated()).collect();
    let nr_nodes = zoneinfo.zones.iter().map(|z| z.node + 1).max().unwrap_or(1) as usize;
    let nr_cpus =
        populated.iter().flat_map(|z| &z.pagesets).map(|p| p.cpu + 1).max().unwrap_or(1) as usize;
    let mut nodes = vec![NodeSpec::default(); nr_nodes.min(64)];
    for zone in &populated {
        let kind = zone_type(&zone.zone).ok_or_else(|| {
            InputError::whole(&file, format!("zone: \"{}\" is not a zone of x86-64", zone.zone))
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
    Ok(Shape { machine, source: MachineSource::Captured, pcp_sizes })
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

/// A machine just large enough for the highest frame and for the batch of the per-CPU lists, one
/// node.
fn inferred(trace: &str, survey: &Survey) -> Result<Shape, InputError> {
    const GIB_PAGES: u64 = 1 << 18;
    // The 1 GiB below 4 GiB are a hole: frames above it belong to the memory that comes next.
    let pages = match survey.end_pfn {
        end if end > 4 * GIB_PAGES => end - GIB_PAGES,
        end => end.min(3 * GIB_PAGES),
    };
    let pages = pages.max(survey.batch.map_or(0, pages_for_batch));
    let step = if pages < GIB_PAGES { GIB_PAGES / 4 } else { GIB_PAGES };
    let bytes = pages.div_ceil(step) * step * PAGE_SIZE as u64;
    let cpus = (0..survey.nr_cpus as u16).collect();
    let machine = Machine::from_sizes("inferred", &[(bytes, cpus)]).map_err(|error| {
        let reason = format!("pfn: the highest is {:#x}: {}", survey.end_pfn - 1, error.reason);
        InputError::whole(trace, reason)
    })?;
    let sizes = match (survey.batch, survey.high) {
        (Some(batch), Some(high)) if high >= 4 * batch => {
            PcpSizes { zone: None, batch: Some(batch), high: ListLimit::Known(high) }
        }
        _ => {
            let high = ListLimit::Above(survey.most_on_lists);
            PcpSizes { zone: None, batch: None, high }
        }
    };
    Ok(Shape { machine, source: MachineSource::Inferred, pcp_sizes: vec![sizes] })
}

/// Least memory of a zone whose per-CPU lists have this batch (rules/per-cpu-lists#sizes), with a
/// tenth for what is not managed.
fn pages_for_batch(batch: u32) -> u64 {
    // batch + 1 is the power of two at or below b + b/2, b a fourth of managed/1024.
    let least = u64::from(batch) + 1;
    let b = (least * 2).div_ceil(3);
    let managed = b * 4 * 1024;
    managed + managed / 10
}

/// The zone of a name that `/proc` prints.
pub(super) fn zone_type(name: &str) -> Option<ZoneType> {
    ZoneType::ALL.into_iter().find(|zone| zone.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(end_pfn: u64, nr_cpus: u32) -> Survey {
        Survey { end_pfn, nr_cpus, ..Survey::default() }
    }

    #[test]
    fn inferred_machines_hold_the_highest_frame() {
        for end in [5000, 1 << 17, (1 << 18) - 3, 700_000, 1 << 20, (1 << 20) + 5, 5 << 20] {
            let shape = Shape::of("t", &surveyed(end, 3), &Sidecars::default(), None).unwrap();
            assert_eq!(shape.source, MachineSource::Inferred);
            assert_eq!(shape.machine.nr_cpus(), 3);
            let hole = (3 << 18)..=(1 << 20);
            assert!(shape.machine.end_pfn() >= end || hole.contains(&end), "{end}");
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
        assert_eq!(error.to_string(), "t: events of CPU 2, but machine m has CPUs 0 to 1");
    }

    #[test]
    fn sidecars_have_the_stem_of_the_trace() {
        let dir = tempfile::tempdir().unwrap();
        let text = "Node 0, zone   Normal      1      0      0      0      0      0      0      0      0      0      0 \n";
        std::fs::write(dir.path().join("x.buddyinfo"), text).unwrap();
        for name in ["x.trace.gz", "x.trace", "x.txt.gz", "x.txt"] {
            let found = Sidecars::beside(&dir.path().join(name)).unwrap();
            assert!(found.buddyinfo.is_some() && found.zoneinfo.is_none(), "{name}");
        }
        assert!(Sidecars::beside(&dir.path().join("y.trace")).unwrap().files.is_empty());
    }
}
