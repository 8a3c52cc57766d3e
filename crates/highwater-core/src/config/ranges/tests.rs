extern crate std;

use std::string::ToString;

use super::*;

fn usable(bytes: Range<u64>) -> MemoryRange {
    MemoryRange::usable(bytes, NodeId(0))
}

fn of(ranges: &[MemoryRange]) -> Result<Machine, MachineError> {
    Machine::from_ranges("m", ranges, &[NodeId(0)])
}

fn refused(ranges: &[MemoryRange]) -> String {
    of(ranges).unwrap_err().to_string()
}

/// A machine of 2 GiB with the list that its firmware gave.
fn firmware_list() -> Vec<MemoryRange> {
    vec![
        usable(0x0..0x9_f000),
        MemoryRange::reserved(0x9_f000..0xa_0000),
        MemoryRange::reserved(0xf_0000..0x10_0000),
        usable(0x10_0000..0x7ffd_c000),
        MemoryRange::reserved(0x7ffd_c000..0x8000_0000),
        MemoryRange::reserved(0xfeff_c000..0xff00_0000),
        // The kernel's image.
        MemoryRange::reserved(0x100_0000..0x280_0000),
    ]
}

#[test]
fn a_firmware_list_becomes_zones_with_holes_and_reserved_frames() {
    let machine = of(&firmware_list()).unwrap();
    let zone = |zone, start_pfn, spanned, present, managed| ZoneSpec {
        zone,
        start_pfn,
        spanned,
        present,
        managed_at_boot: managed,
        managed,
    };
    assert_eq!(
        machine.nodes[0].zones,
        [
            zone(ZoneType::Dma, 0, 4096, 159 + 3840, 159 + 3840),
            zone(ZoneType::Dma32, 4096, 0x7ffdc - 4096, 0x7ffdc - 4096, 0x7ffdc - 0x2800),
        ]
    );
    assert_eq!(machine.usable, [0..0x9f, 0x100..0x1000, 0x2800..0x7ffdc]);
    assert_eq!(machine.managed_pages(), 159 + 3840 + 0x7ffdc - 0x2800);
    let mut shuffled = firmware_list();
    shuffled.reverse();
    assert_eq!(of(&shuffled), Ok(machine), "in any order");
}

#[test]
fn a_zone_that_is_reserved_as_a_whole_is_none() {
    let all_low = [usable(0..0x200_0000), MemoryRange::reserved(0..0x100_0000)];
    let machine = of(&all_low).unwrap();
    assert_eq!(machine.nodes[0].zones.len(), 1);
    assert_eq!((machine.managed_pages(), machine.nodes[0].zones[0].start_pfn), (4096, 4096));
}

#[test]
fn nodes_have_memory_or_cpus() {
    let far = MemoryRange::usable(0x1_0000_0000..0x1_4000_0000, NodeId(1));
    let ranges = [usable(0x10_0000..0x4000_0000), far.clone()];
    let machine = Machine::from_ranges("m", &ranges, &[NodeId(0), NodeId(2), NodeId(0)]).unwrap();
    let cpus: Vec<_> = machine.nodes.iter().map(|node| node.cpus.clone()).collect();
    assert_eq!(cpus, [vec![0, 2], vec![], vec![1]]);
    assert_eq!(machine.nodes[1].zones[0].zone, ZoneType::Normal);
    assert!(machine.nodes[2].zones.is_empty());
    let error = |ranges: &[MemoryRange], cpus: &[NodeId]| {
        Machine::from_ranges("m", ranges, cpus).unwrap_err().to_string()
    };
    assert_eq!(
        error(&[far], &[NodeId(1)]),
        "ranges: node 0 has neither memory nor CPUs, but node 1 has: number nodes without a gap"
    );
    assert_eq!(error(&ranges, &[]), "nodes: a machine needs at least one CPU");
    assert_eq!(
        error(&ranges, &[NodeId(0), NodeId(64)]),
        "cpus[1]: node 64: nodes are numbered 0 to 63"
    );
    let cpus = vec![NodeId(0); 8193];
    assert_eq!(error(&ranges, &cpus), "nodes: 8193 CPUs are more than 8192");
    assert!(error(&ranges, &vec![NodeId(0); 70_000]).contains("70000 CPUs are more than 8192"));
}

#[test]
fn ranges_are_made_of_whole_pages() {
    assert_eq!(
        refused(&[usable(0..0x9_fc00)]),
        "ranges[0]: usable 0x0..0x9fc00, node 0: is not made of whole pages (4096 bytes): round a \
         usable range inward, to 0x0..0x9f000"
    );
    assert_eq!(
        refused(&[usable(0..0x9_f000), MemoryRange::reserved(0x9_fc00..0xa_0000)]),
        "ranges[1]: reserved 0x9fc00..0xa0000: is not made of whole pages (4096 bytes): round a \
         reserved range outward, to 0x9f000..0xa0000"
    );
    assert!(refused(&[usable(1..4097)]).ends_with("has no whole page (4096 bytes): leave it out"));
    #[allow(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let backwards = usable(0x2000..0x1000);
    assert!(refused(&[backwards]).ends_with("its end must be above its start"));
    assert!(refused(&[usable(0x2000..0x2000)]).ends_with("its end must be above its start"));
    assert!(refused(&[usable(0..u64::MAX)]).ends_with("4 TiB, the most that is supported"));
    let far = MemoryRange::usable(0..0x10_0000, NodeId(64));
    assert_eq!(
        refused(&[far]),
        "ranges[0]: usable 0x0..0x100000, node 64: nodes are numbered 0 to 63"
    );
}

#[test]
fn overlaps_are_refused() {
    let ram = usable(0x10_0000..0x400_0000);
    assert_eq!(
        refused(&[ram.clone(), usable(0x3ff_f000..0x500_0000)]),
        "ranges[1]: usable 0x3fff000..0x5000000, node 0 overlaps ranges[0], usable \
         0x100000..0x4000000, node 0"
    );
    let image = MemoryRange::reserved(0x10_0000..0x20_0000);
    assert_eq!(
        refused(&[ram.clone(), image.clone(), MemoryRange::reserved(0x1f_f000..0x30_0000)]),
        "ranges[2]: reserved 0x1ff000..0x300000 overlaps ranges[1], reserved 0x100000..0x200000"
    );
    let border = MemoryRange::reserved(0xf_0000..0x11_0000);
    let text = "overlaps a part of ranges[0], usable 0x100000..0x4000000, node 0: a reserved range \
                lies inside a usable one or outside all of them, so split it at the border";
    assert!(refused(&[ram.clone(), border.clone()]).ends_with(text));
    assert!(refused(&[border, ram.clone()]).contains("overlaps a part of ranges[0], reserved"));
    assert!(of(&[ram, image]).is_ok());
}

#[test]
fn nodes_are_not_interleaved_in_a_zone() {
    let other = MemoryRange::usable(0x4000_0000..0x8000_0000, NodeId(1));
    let ranges = [usable(0x1000_0000..0x4000_0000), other, usable(0x8000_0000..0xa000_0000)];
    assert_eq!(
        refused(&ranges),
        "ranges[1]: usable 0x40000000..0x80000000, node 1 lies between ranges of node 0 in zone \
         DMA32: the memory of a node in a zone is not interleaved with another node's"
    );
    // In different zones they may be.
    let above = usable(0x1_0000_0000..0x1_4000_0000);
    assert!(of(&[ranges[0].clone(), ranges[1].clone(), above]).is_ok());
}

#[test]
fn too_little_memory_says_how_much_it_takes() {
    assert_eq!(refused(&[]), "ranges: name at least one usable range: a machine needs memory");
    assert!(refused(&[MemoryRange::reserved(0..0x1000)]).contains("name at least one usable"));
    assert_eq!(
        refused(&[usable(0..0x2_1000), MemoryRange::reserved(0x1000..0x2000)]),
        "ranges: 128 KiB are usable and not reserved; a machine needs at least 132 KiB, of which the \
         allocator keeps 128 KiB below the min mark"
    );
    assert!(of(&[usable(0..0x2_1000)]).is_ok());
}

#[test]
fn listed_frames_are_those_of_the_zones() {
    let good = of(&firmware_list()).unwrap();
    let broken = |change: fn(&mut Machine)| {
        let mut machine = good.clone();
        change(&mut machine);
        machine.validate().unwrap_err().to_string()
    };
    assert_eq!(
        broken(|m| m.usable[2].end -= 1),
        "nodes[0].zones[1].managed: 514011 of the zone's frames are listed as usable"
    );
    assert_eq!(broken(|m| m.usable.push(0x8_0000..0x8_0001)), "usable: 1 frames lie in no zone");
    assert!(broken(|m| m.usable.swap(0, 1)).starts_with("usable[1]: ranges of frames ascend"));
}
