//! Reads any bytes as a reference file. The result must be a possible machine or a one-line error.
#![no_main]

use highwater_results::import::linux61::Reference;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Reference::parse("fuzz", bytes) {
        Ok(Reference::Static(machine)) => {
            assert!(machine.cpus > 0 && !machine.nodes.is_empty());
            assert!(machine.zones.iter().map(|zone| zone.managed).sum::<u64>() > 0);
            assert!(machine.nodes.iter().enumerate().all(|(i, node)| node.distances[i] == 10));
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error:?}"),
    }
});
