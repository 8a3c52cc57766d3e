//! Reads any bytes as a trace. The result must be events within their bounds or a one-line error.
#![no_main]

use std::io::Cursor;

use highwater_results::import::kmem::{
    KmemKind, KmemReader, MIGRATETYPE_MAX, ORDER_MAX, PFN_LIMIT,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = match KmemReader::from_reader("fuzz", Cursor::new(bytes.to_vec())) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().contains('\n')),
    };
    for event in reader.by_ref() {
        match event {
            Ok(event) => {
                assert!(event.kind.pfn().is_none_or(|pfn| pfn < PFN_LIMIT));
                if let KmemKind::Alloc { order, migratetype, .. } = event.kind {
                    assert!(order <= ORDER_MAX && migratetype <= MIGRATETYPE_MAX);
                }
            }
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
    assert!(reader.next().is_none());
});
