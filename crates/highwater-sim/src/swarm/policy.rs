//! Policies of a swarm: a preset, often with switches in combinations that no kernel ever had.

use highwater_core::config::{
    AgingRule, Algorithm, DirtyTail, FaultMaps, FileFolios, FirstUse, FlusherWake, FolioCut,
    KernelVersion, LruTopology, MglruPolicy, OldestRule, PRESETS, Policy, ReadEntry, ReadaheadRule,
    RecentRule, TypeChoice, preset,
};

use super::draw::Draw;
use crate::rng::Stream;

/// The suffix of a preset's name with other switches.
pub(super) const TURNED: &str = ", turned";

/// A policy.
pub(super) fn draw(stream: &mut Stream) -> Policy {
    let name = match stream.below(3) {
        0 => "6.1",
        _ => stream.pick(&presets(|policy| !is_later(policy))),
    };
    let mut policy = preset(name).expect("it is listed");
    // One switch in `rarity` is changed; `None`: the preset unchanged.
    if let Some(rarity) = stream.pick(&[None, Some(10), Some(3)]) {
        turn(stream, rarity, &mut policy);
        policy.name.push_str(TURNED);
    }
    policy
}

/// The rules of a kernel after 6.1, or MGLRU, in one run of five. Such presets have this draw of
/// their own, so that a new one leaves most seeds alone.
pub(super) fn draw_later(stream: &mut Stream, policy: &mut Policy) {
    if stream.one_in(5) {
        let name = stream.pick(&presets(is_later));
        *policy = preset(name).expect("it is listed");
    }
}

fn presets(is_meant: impl Fn(&Policy) -> bool) -> Vec<&'static str> {
    let names = PRESETS.iter().map(|(name, _)| *name);
    names.filter(|name| preset(name).is_some_and(|policy| is_meant(&policy))).collect()
}

fn is_later(policy: &Policy) -> bool {
    policy.kernel > KernelVersion::of("6.1") || policy.reclaim.algorithm == Algorithm::Mglru
}

/// Gives the files large folios, in one run of four.
pub(super) fn draw_folios(stream: &mut Stream, policy: &mut Policy) {
    if !stream.one_in(4) {
        return;
    }
    let folio = &mut policy.folio;
    let files = [FileFolios::All, FileFolios::All, FileFolios::Xfs, FileFolios::XfsReads];
    folio.file = stream.pick(&files);
    folio.order1 = stream.one_in(2);
    folio.fault_maps = stream.pick(&[FaultMaps::Window, FaultMaps::Folio]);
    folio.truncate = stream.pick(&[FolioCut::Pages, FolioCut::Halves]);
    let rules = [ReadaheadRule::Continue, ReadaheadRule::Restart, ReadaheadRule::RestartAligned];
    policy.readahead = stream.pick(&rules);
    if !policy.name.ends_with(TURNED) {
        policy.name.push_str(TURNED);
    }
}

/// Runs MGLRU, in one run of four with lists of nodes: as 6.1, 6.12 or 7.2 have it, or with
/// switches that no kernel has together.
pub(super) fn draw_mglru(stream: &mut Stream, policy: &mut Policy) {
    if !stream.one_in(4) || policy.reclaim.lru == LruTopology::Zone {
        return;
    }
    policy.reclaim.algorithm = Algorithm::Mglru;
    let version = stream.below(4);
    let mglru = &mut policy.reclaim.mglru;
    *mglru = MglruPolicy::default();
    if version >= 1 {
        mglru.active_keeps_marks = false;
        mglru.kswapd_ages = false;
        mglru.dirty_tail = DirtyTail::Judged;
        mglru.flusher_wake = FlusherWake::PerPass;
        mglru.recent = RecentRule::OldestAndCount;
        mglru.group_turns = true;
    }
    if version >= 2 {
        mglru.read_entry = ReadEntry::ByMarks;
        mglru.first_use = FirstUse::Marks;
        mglru.aging = AgingRule::Count;
        mglru.type_choice = TypeChoice::Refaults;
        mglru.oldest = OldestRule::OneApart;
        mglru.flusher_wake = FlusherWake::PerBatch;
        mglru.recent = RecentRule::FourGenerations;
        mglru.shares_protection = true;
    }
    if version == 3 {
        for field in Policy::describe() {
            if field.path.starts_with("reclaim.mglru.") {
                let rank = stream.below(field.values.nr_drawn() as u64) as usize;
                policy.set(&field.path, field.values.drawn(rank)).expect("a value of its own");
            }
        }
    }
    if !policy.name.ends_with(TURNED) {
        policy.name.push_str(TURNED);
    }
}

/// Sets one in `rarity` of all switches to a random one of its values. Each has draws of its own,
/// so a seed means the same when the kernel gets another switch.
fn turn(stream: &mut Stream, rarity: u64, policy: &mut Policy) {
    let seed = stream.next_u64();
    for field in Policy::describe() {
        let mut stream = Stream::new(seed, &field.path);
        if stream.one_in(rarity) {
            let rank = stream.below(field.values.nr_drawn() as u64) as usize;
            policy.set(&field.path, field.values.drawn(rank)).expect("a value of its own");
        }
    }
    // No kernel has generations of zones, and none boots with them.
    if policy.reclaim.lru == LruTopology::Zone && policy.reclaim.algorithm == Algorithm::Mglru {
        policy.reclaim.algorithm = Algorithm::Clock;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_switch_is_turned_to_every_value() {
        let mut stream = Stream::new(7, "turn");
        let mut seen = BTreeSet::new();
        for _ in 0..300 {
            let mut policy = preset("6.1").unwrap();
            turn(&mut stream, 3, &mut policy);
            seen.extend(policy.values().into_iter().map(|(path, v)| (path, v.to_string())));
        }
        for field in Policy::describe() {
            for rank in 0..field.values.nr_drawn() {
                let value = field.values.drawn(rank).to_string();
                assert!(
                    seen.contains(&(field.path.clone(), value.clone())),
                    "{}={value}",
                    field.path
                );
            }
        }
    }
}
