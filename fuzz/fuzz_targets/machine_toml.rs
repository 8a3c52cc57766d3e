#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| highwater_fuzz::machine_toml(bytes));
