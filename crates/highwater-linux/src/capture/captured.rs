//! A captured machine as the model's.

use highwater_core::config::{Machine, NodeSpec, ZoneSpec};
use highwater_core::zone::ZoneType;
use highwater_results::import::linux61::{Node, Zone};

/// Nodes, CPUs and zones as captured; without nodes, one with all CPUs.
pub(crate) fn captured_machine(name: &str, cpus: u32, listed: &[Node], zones: &[Zone]) -> Machine {
    let cpu = |cpu: u32| u16::try_from(cpu).unwrap_or(u16::MAX);
    let nr_nodes = listed.iter().map(|n| n.id as usize + 1).max().unwrap_or(1);
    let mut nodes = vec![NodeSpec::default(); nr_nodes];
    let mut distances = vec![vec![0; nr_nodes]; nr_nodes];
    for node in listed {
        let id = node.id as usize;
        nodes[id].cpus = node.cpus.iter().map(|&c| cpu(c)).collect();
        for (to, &distance) in listed.iter().zip(&node.distances) {
            distances[id][to.id as usize] = u16::try_from(distance).unwrap_or(u16::MAX);
        }
    }
    if listed.is_empty() {
        nodes[0].cpus = (0..cpus).map(cpu).collect();
        distances[0][0] = 10;
    }
    for zone in zones {
        if let Some(node) = nodes.get_mut(zone.node as usize) {
            node.zones.push(ZoneSpec {
                zone: ZoneType::ALL[zone.zone.index()],
                start_pfn: zone.start_pfn,
                spanned: zone.spanned,
                present: zone.present,
                managed_at_boot: zone.managed_for_sizing(),
                managed: zone.managed,
            });
        }
    }
    Machine { name: name.to_owned(), nodes, distances, ..Machine::default() }
}
