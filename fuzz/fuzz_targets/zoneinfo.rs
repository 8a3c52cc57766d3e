//! Reads any bytes as each of the `/proc` texts. The result must be a value, or an error with line and field.
#![no_main]

use highwater_results::import::ImportError;
use highwater_results::import::proc::{Buddyinfo, PageTypeInfo, Vmstat, Zoneinfo};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Zoneinfo::parse("fuzz", bytes) {
        Ok(info) => {
            assert!(!info.zones.is_empty());
            for zone in &info.zones {
                assert!(zone.managed <= zone.present && zone.present <= zone.spanned);
            }
        }
        Err(error) => check(&error),
    }
    match Buddyinfo::parse("fuzz", bytes) {
        Ok(info) => info.zones.iter().for_each(|zone| drop(zone.nr_pages())),
        Err(error) => check(&error),
    }
    if let Err(error) = PageTypeInfo::parse("fuzz", bytes) {
        check(&error);
    }
    if let Err(error) = Vmstat::parse("fuzz", bytes) {
        check(&error);
    }
});

fn check(error: &ImportError) {
    assert!(error.line().is_some() && error.field().is_some());
    assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
}
