//! Reclaim's scan loop over memory that is nearly all in one state, and the machine of all loops that need one.

use super::Units;
use super::stage::{Stage, State, Work, boot, one_request, run, wake_kswapd_for};

/// Memory of the machine.
const MIB: u64 = 256;
/// Pages that are filled before a scan: so few that nobody has to reclaim yet.
const FILLED: u64 = (MIB << 8) / 2;

/// Runs a program, alone but for the daemons, which ends the process.
pub(super) fn on_machine(body: impl FnOnce(&Stage<'_, '_>) -> Units + 'static) -> Units {
    run(&mut boot(MIB, true), move |stage| -> Units { body(stage).tell() })
}

/// Scans, with memory in one state, of which `is_right` has to think what it should.
fn scan(
    state: State,
    reclaim: impl FnOnce(&Stage<'_, '_>) + 'static,
    is_right: impl FnOnce(Work) -> bool + 'static,
) -> Units {
    on_machine(move |stage| {
        state.fill(stage, FILLED);
        stage.kernel.lru_add_drain_all(stage.cx);
        let before = Work::now(stage);
        reclaim(stage);
        let work = Work::now(stage).since(before);
        assert!(is_right(work), "{state:?}: {work:?}");
        Units(work.scans())
    })
}

/// Kswapd frees so many pages.
fn freed(state: State, pages: u64) -> Units {
    scan(state, move |stage| wake_kswapd_for(stage, pages), move |work| work.stolen >= pages - 64)
}

/// So many requests go over all of memory, down to the last priority, where nothing can be had.
fn kept(state: State, requests: u64) -> Units {
    let reclaim = move |stage: &Stage<'_, '_>| (0..requests).for_each(|_| one_request(stage));
    let is_right = move |work: Work| work.scans() >= requests * FILLED && work.stolen < FILLED / 10;
    scan(state, reclaim, is_right)
}

/// Clean cache, read once: freed at the first look.
pub(super) fn clean(pages: u64) -> Units {
    freed(State::Cache, pages)
}

/// Clean cache, read twice: aged, then freed.
pub(super) fn active(pages: u64) -> Units {
    freed(State::ActiveCache, pages)
}

/// Clean cache that a program has mapped and used since: kept.
pub(super) fn mapped(requests: u64) -> Units {
    kept(State::MappedCache, requests)
}

/// Written anonymous memory, used since: kept.
pub(super) fn anon(requests: u64) -> Units {
    kept(State::Anon, requests)
}

/// Cache that somebody holds: kept.
pub(super) fn held(requests: u64) -> Units {
    kept(State::Held, requests)
}
