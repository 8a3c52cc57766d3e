//! Reclaim's scan loop over memory that is nearly all in one state, and the machine for all loops
//! that need one.

use highwater_core::units::GroupId;
use highwater_sim::disk::DiskSpec;
use highwater_sim::machine::SimMachine;

use super::Units;
use super::stage::{
    Stage, State, Work, boot, boot_for_groups, boot_with, one_request, run, wake_kswapd_for,
};

/// Memory of the machine.
pub(super) const MIB: u64 = 256;
/// Pages that are filled before a scan: few enough that no task has to reclaim yet.
const FILLED: u64 = (MIB << 8) / 2;

/// Runs a program, alone but for the daemons. The program ends the process.
pub(super) fn on_machine(body: impl FnOnce(&Stage<'_, '_>) -> Units + 'static) -> Units {
    on(boot(MIB, true), body)
}

fn on(mut machine: SimMachine, body: impl FnOnce(&Stage<'_, '_>) -> Units + 'static) -> Units {
    run(&mut machine, move |stage| -> Units { body(stage).tell() })
}

/// Scans memory in one state; `asked` is the argument for [`State::is_right`].
fn scan(state: State, asked: u64, reclaim: impl FnOnce(&Stage<'_, '_>) + 'static) -> Units {
    let machine = match state {
        // A slow disk: writing the pages takes longer than the reclaim does.
        State::Dirty => boot_with(MIB, true, DiskSpec::hdd("data", MIB << 9)),
        _ => boot(MIB, true),
    };
    on(machine, move |stage| {
        state.fill(stage, FILLED);
        stage.kernel.lru_add_drain_all(stage.cx);
        let before = Work::now(stage);
        reclaim(stage);
        let work = Work::now(stage).since(before);
        assert!(state.is_right(asked, work), "{state:?}: {work:?}");
        Units(work.scans())
    })
}

/// kswapd frees `pages` pages.
fn freed(state: State, pages: u64) -> Units {
    scan(state, pages, move |stage| wake_kswapd_for(stage, pages))
}

/// `requests` requests scan all of memory, down to the last priority, and free nothing.
fn kept(state: State, requests: u64) -> Units {
    scan(state, requests * FILLED, move |stage| (0..requests).for_each(|_| one_request(stage)))
}

/// Clean cache, read once: freed at the first look.
pub(super) fn clean(pages: u64) -> Units {
    freed(State::Cache, pages)
}

/// Memory of the machine with groups, and their number.
const GROUPS_MIB: u64 = 1024;
const GROUPS: u64 = 1000;

/// As [`clean`] on a larger machine, its cache spread over 1,000 memory cgroups: kswapd visits all of
/// them in each pass.
pub(super) fn groups(pages: u64) -> Units {
    let data = DiskSpec::ram("data", GROUPS_MIB << 9);
    let machine = boot_for_groups(GROUPS_MIB, true, data, GROUPS as u16 + 1);
    on(machine, move |stage| {
        let of_each = (GROUPS_MIB << 8) / 2 / GROUPS;
        for _ in 0..GROUPS {
            let group = stage.kernel.make_group(stage.cx, GroupId::ROOT).expect("room");
            stage.kernel.join_group(stage.cx, None, group).expect("it is there");
            stage.read(&stage.file(of_each), of_each);
        }
        stage.kernel.join_group(stage.cx, None, GroupId::ROOT).expect("it is there");
        reclaimed(stage, pages)
    })
}

/// The same memory without groups, to compare [`groups`] with.
pub(super) fn ungrouped(pages: u64) -> Units {
    on(boot(GROUPS_MIB, true), move |stage| {
        State::Cache.fill(stage, (GROUPS_MIB << 8) / 2);
        reclaimed(stage, pages)
    })
}

fn reclaimed(stage: &Stage<'_, '_>, pages: u64) -> Units {
    stage.kernel.lru_add_drain_all(stage.cx);
    let before = Work::now(stage);
    wake_kswapd_for(stage, pages);
    let work = Work::now(stage).since(before);
    assert!(work.stolen + 64 >= pages, "{work:?}");
    Units(work.scans())
}

/// Clean cache, read twice: aged, then freed.
pub(super) fn active(pages: u64) -> Units {
    freed(State::ActiveCache, pages)
}

/// Clean cache, mapped and used since by a program: kept.
pub(super) fn mapped(requests: u64) -> Units {
    kept(State::MappedCache, requests)
}

/// Written anonymous memory, used since: kept.
pub(super) fn anon(requests: u64) -> Units {
    kept(State::Anon, requests)
}

/// Cache with references held: kept.
pub(super) fn held(requests: u64) -> Units {
    kept(State::Held, requests)
}

/// Written cache that is not on disk yet: marked, and moved out of the way.
pub(super) fn dirty(requests: u64) -> Units {
    kept(State::Dirty, requests)
}
