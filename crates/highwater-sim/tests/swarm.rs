//! Random machines under random load, by seed: see [`highwater_sim::swarm`]. `highwater swarm` runs
//! any seed.

use highwater_sim::digest::DigestPlan;
use highwater_sim::swarm::{FullMachine, Options, ROOM, Summary, run, verdict};

/// Seeds that every test run tries; the gate (`.ci/run`) tries more of them.
const SLICE: std::ops::Range<u64> = 0..15;

fn passes(seed: u64) -> Summary {
    verdict(seed).unwrap_or_else(|failure| {
        panic!("{}\n\nseed {seed}: {failure}\n\nhighwater swarm {seed}", Options::draw(seed))
    })
}

#[test]
fn slice() {
    let summaries: Vec<Summary> = SLICE.map(passes).collect();
    for summary in &summaries {
        assert!(summary.healed_ns > 0 && summary.healed_ns < summary.virtual_ns, "{summary}");
        assert!(summary.nr_finished + summary.nr_cut_short > 0, "{summary}");
        assert!(summary.nr_live_ops >= 6 * summary.nr_finished, "{summary}");
    }
    assert!(summaries.iter().any(|summary| summary.nr_failed_transfers > 0), "some disks fail");
}

/// Faults end with the safety phase: a disk that fails every write fails none afterwards.
#[test]
fn disks_that_always_fail_are_healed() {
    let mut seeds = (0..200).map(Options::draw);
    let mut options = seeds.find(|options| options.swap.is_empty() && options.ballast > 0).unwrap();
    for disk in &mut options.disks {
        let mut faults = disk.faults.take().unwrap_or_default();
        faults.errors.write = 1.0;
        (faults.pages, faults.nr_good_first) = (None, 0);
        disk.faults = Some(faults);
    }
    let summary = run(&options, DigestPlan::default(), None).result.unwrap();
    assert!(summary.nr_finished > 0, "{summary}");
}

/// Files in memory fill this machine, it has no swap, and the OOM killer has killed every task.
/// Programs start once the machine is at rest.
#[test]
fn a_full_machine_starts_its_last_programs_at_rest() {
    let summary = passes(99);
    assert!(summary.nr_finished + summary.nr_cut_short > 0, "{summary:?}");
}

/// The low zone of this machine keeps all of its pages for requests that need them. Ballast leaves
/// room in the zone above it.
#[test]
fn ballast_leaves_room_that_programs_can_use() {
    let summary = passes(287);
    assert!(!summary.has_made_room && summary.nr_finished > 0, "{summary:?}");
}

/// Pages that a disk could not read from swap fail the tasks that need them, also once the disk
/// works.
#[test]
fn a_failed_swap_in_outlasts_its_fault() {
    let summary = passes(190);
    assert!(summary.nr_io_errors > 0, "{summary:?}");
}

/// The policy of this machine has a kswapd that runs for ever if a small zone stays short.
#[test]
fn a_kswapd_without_an_end_is_not_audited() {
    let summary = passes(2);
    assert!(summary.nr_missed > 0 && summary.nr_audits > 0, "{summary:?}");
}

/// A task swaps a page of a file in memory in while another one deletes the file. The page must go
/// with the file.
#[test]
fn a_page_swapped_in_during_a_deletion_goes_with_the_file() {
    passes(444);
}

/// A machine whose memory is full, and stays full when per-CPU lists have been flushed.
fn full_machine() -> FullMachine {
    let mut machine = FullMachine::boot().unwrap();
    machine.fill().unwrap();
    machine
}

#[test]
fn a_machine_full_of_files_in_memory_gets_room() {
    let mut machine = full_machine();
    assert_eq!(machine.usable_pages(), 0);
    machine.make_room().unwrap();
    assert!(machine.usable_pages() >= ROOM, "{}", machine.usable_pages());
    machine.let_finish().unwrap();
}

#[test]
fn a_kernel_that_refuses_programs_with_memory_free_fails() {
    let error = FullMachine::boot().unwrap().check_refusal().unwrap_err();
    assert!(error.to_string().contains("pages are free above the marks"), "{error}");
    assert_eq!(full_machine().check_refusal(), Ok(()));
}
