use super::*;
use crate::host::{CpuId, Solo};

const RULES: RwSemRules =
    RwSemRules { readers_pass_writers: true, hands_off: true, newcomers: Newcomers::Steal };

#[test]
fn tries_that_fail_change_nothing() {
    let host = Solo::default();
    let cx = Cx::new(&host, CpuId(0));
    let sem = RwSem::new(&host, RULES, "a test");
    let writer = sem.write(&cx);
    assert!(sem.try_read(&cx).is_none() && sem.try_write(&cx).is_none());
    let reader = writer.downgrade();
    assert!(sem.try_write(&cx).is_none());
    sem.state.fetch_or(WAITERS, SeqCst);
    assert!(sem.try_read(&cx).is_none(), "a writer waits");
    sem.state.fetch_and(!WAITERS, SeqCst);
    let other = sem.try_read(&cx).expect("readers share");
    drop(reader);
    assert!(sem.try_write(&cx).is_none());
    drop(other);
    assert!(sem.try_write(&cx).is_some());
    assert_eq!(sem.state.load(SeqCst), 0);
}
