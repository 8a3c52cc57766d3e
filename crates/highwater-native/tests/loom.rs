//! Every interleaving of small cases of the two locks (bounded pre-emptions).
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p highwater-native --test loom --release`.
//!
//! The biased lock runs with [`Barrier::Fence`]: the system call of the other form fences *other*
//! threads, which loom cannot model. Both forms are the same code except for the barrier. The pair
//! of compiler fence and membarrier is equivalent to a sequentially consistent fence on each side.

#![cfg(loom)]

use std::sync::Arc;

use highwater_core::host::CpuId;
use highwater_native::cpu::Cpus;
use highwater_native::lock::{Barrier, CpuLock, SpinLock};
use loom::model::Builder;
use loom::thread;

fn model(pre_emptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(pre_emptions);
    builder.check(f);
}

/// Adds to both halves; loom also reports any access that the lock does not order.
fn add(pair: &mut (u32, u32)) {
    assert_eq!(pair.0, pair.1);
    pair.0 += 1;
    thread::yield_now();
    pair.1 += 1;
}

#[test]
fn spin_lock_excludes() {
    model(3, || {
        let lock = Arc::new(SpinLock::new((0, 0)));
        let other = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || add(&mut lock.take()))
        };
        add(&mut lock.take());
        let third = lock.try_take_guard().map(|mut pair| add(&mut pair)).is_some();
        other.join().unwrap();
        assert_eq!(*lock.take(), if third { (3, 3) } else { (2, 2) });
    });
}

struct Machine {
    cpus: Arc<Cpus>,
    lock: CpuLock<(u32, u32)>,
}

fn machine() -> Arc<Machine> {
    let cpus = Cpus::new(1, false).unwrap();
    let lock = CpuLock::new((0, 0), &cpus, CpuId(0), Barrier::Fence);
    Arc::new(Machine { cpus, lock })
}

#[test]
fn owner_and_remote_exclude_each_other() {
    model(3, || {
        let m = machine();
        let remote = {
            let m = Arc::clone(&m);
            thread::spawn(move || add(&mut m.lock.take()))
        };
        let lease = m.cpus.enter(CpuId(0)).unwrap();
        add(&mut m.lock.take());
        add(&mut m.lock.take());
        drop(lease);
        remote.join().unwrap();
        assert_eq!(*m.lock.take(), (3, 3));
    });
}

#[test]
fn try_lock_of_both_sides_never_lets_both_in() {
    model(4, || {
        let m = machine();
        let remote = {
            let m = Arc::clone(&m);
            thread::spawn(move || m.lock.try_take().map(|mut pair| add(&mut pair)).is_some())
        };
        let lease = m.cpus.enter(CpuId(0)).unwrap();
        let mine = m.lock.try_take().map(|mut pair| add(&mut pair)).is_some();
        drop(lease);
        let theirs = remote.join().unwrap();
        let n = u32::from(mine) + u32::from(theirs);
        assert_eq!(*m.lock.take(), (n, n));
    });
}

#[test]
fn three_sides_never_get_in_together() {
    // Without waiting: three threads that spin for each other have no bounded set of schedules.
    model(2, || {
        let m = machine();
        let remotes = [0, 1].map(|_| {
            let m = Arc::clone(&m);
            thread::spawn(move || m.lock.try_take().map(|mut pair| add(&mut pair)).is_some())
        });
        let lease = m.cpus.enter(CpuId(0)).unwrap();
        let mine = m.lock.try_take().map(|mut pair| add(&mut pair)).is_some();
        drop(lease);
        let theirs = remotes.map(|r| u32::from(r.join().unwrap()));
        let n = u32::from(mine) + theirs[0] + theirs[1];
        assert_eq!(*m.lock.take(), (n, n));
    });
}

#[test]
fn remotes_wait_for_each_other() {
    model(3, || {
        let m = machine();
        let remote = {
            let m = Arc::clone(&m);
            thread::spawn(move || add(&mut m.lock.take()))
        };
        add(&mut m.lock.take());
        remote.join().unwrap();
        assert_eq!(*m.lock.take(), (2, 2));
    });
}

#[test]
fn a_cpu_changes_hands() {
    model(3, || {
        let m = machine();
        let next = {
            let m = Arc::clone(&m);
            thread::spawn(move || {
                let _lease = m.cpus.enter(CpuId(0)).unwrap();
                add(&mut m.lock.take());
            })
        };
        {
            let _lease = m.cpus.enter(CpuId(0)).unwrap();
            add(&mut m.lock.take());
        }
        next.join().unwrap();
        assert_eq!(*m.lock.take(), (2, 2));
    });
}

#[test]
fn a_guard_that_outlives_its_lease_still_excludes() {
    model(3, || {
        let m = machine();
        let lease = m.cpus.enter(CpuId(0)).unwrap();
        let mut guard = m.lock.take();
        drop(lease);
        let next = {
            let m = Arc::clone(&m);
            thread::spawn(move || {
                let _lease = m.cpus.enter(CpuId(0)).unwrap();
                m.lock.try_take().map(|mut pair| add(&mut pair)).is_some()
            })
        };
        add(&mut guard);
        drop(guard);
        let n = 1 + u32::from(next.join().unwrap());
        assert_eq!(*m.lock.take(), (n, n));
    });
}
