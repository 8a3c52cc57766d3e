//! How free memory is broken up (rules/compaction#fragmentation-index, rules/compaction#unusable-index).

use highwater_core::Kernel;
use highwater_core::compaction::{fragmentation_index, unusable_index};
use highwater_core::host::Devices;
use highwater_core::page::MigrateType;
use highwater_core::page::{MAX_ORDER, Order};

/// Metrics.
pub(super) const UNUSABLE: &str = "unusable";
pub(super) const INDEX: &str = "fragmentation";
/// Ends of phases at which free memory is measured; pass N is measured before its blocks are freed.
pub(super) const POINTS: [&str; 5] = ["builds", "pass 1", "pass 2", "rest", "pass 3"];

/// Samples of a metric: phase and order, as reports take them apart.
pub(super) fn operations(metric: &str) -> Vec<String> {
    let of_point = |point: &&str| {
        let point = (*point).to_owned();
        (1..MAX_ORDER).map(move |order| operation(metric, &point, order))
    };
    POINTS.iter().flat_map(of_point).collect()
}

fn operation(metric: &str, point: &str, order: usize) -> String {
    format!("{metric} {point} at order {order}")
}

/// Free blocks of each order, of all zones together.
fn blocks<H: Devices>(kernel: &Kernel<H>) -> [u64; MAX_ORDER] {
    let zones = || kernel.mem.populated_zones();
    std::array::from_fn(|order| {
        zones().map(|zone| u64::from(zone.info.nr_free_blocks(Order(order as u8)))).sum()
    })
}

/// Both indices for each order at a point.
pub(super) fn samples<H: Devices>(kernel: &Kernel<H>, point: &str) -> Vec<(String, f64)> {
    let blocks = blocks(kernel);
    let mut samples = Vec::new();
    for order in 1..MAX_ORDER {
        let unusable = unusable_index(Order(order as u8), &blocks);
        let index = fragmentation_index(Order(order as u8), &blocks);
        samples.push((operation(UNUSABLE, point, order), unusable as f64));
        samples.push((operation(INDEX, point, order), index as f64));
    }
    samples
}

/// Percentage of pageblocks with an unmovable type.
pub(super) fn unmovable_percent<H: Devices>(kernel: &Kernel<H>) -> f64 {
    let (mut all, mut unmovable) = (0u64, 0u64);
    for zone in kernel.mem.populated_zones() {
        for pfn in zone.info.pageblock_samples() {
            let migratetype = zone.info.pageblock_type(pfn);
            all += 1;
            let types = [MigrateType::Unmovable, MigrateType::Reclaimable];
            unmovable += u64::from(types.contains(&migratetype));
        }
    }
    100.0 * unmovable as f64 / all.max(1) as f64
}
