//! Texts that a kernel prints: traces, `/proc`, captured reference files.

use std::io::Cursor;

use highwater_results::import::ImportError;
use highwater_results::import::kmem::{
    KmemKind, KmemReader, MIGRATETYPE_MAX, ORDER_MAX, OnDamage, PFN_LIMIT,
};
use highwater_results::import::linux61::Reference;
use highwater_results::import::proc::{Buddyinfo, PageTypeInfo, Vmstat, Zoneinfo};

use crate::is_one_line;

/// A trace: events within their bounds, or an error that ends the reading. With `--partial`, which
/// skips unreadable lines, no line is an error.
pub fn kmem_trace(bytes: &[u8]) {
    for on_damage in [OnDamage::Refuse, OnDamage::UseWhole] {
        let reader = KmemReader::from_reader("fuzz", Cursor::new(bytes.to_vec()));
        let mut reader = match reader {
            Ok(reader) => reader.on_damage(on_damage),
            Err(error) => return is_one_line(&error.to_string()),
        };
        for event in reader.by_ref() {
            match event {
                Ok(event) => {
                    assert!(event.kind.pfn().is_none_or(|pfn| pfn < PFN_LIMIT));
                    if let KmemKind::Alloc { order, migratetype, .. } = event.kind {
                        assert!(order <= ORDER_MAX && migratetype <= MIGRATETYPE_MAX);
                    }
                }
                Err(error) => is_one_line(&error.to_string()),
            }
        }
        assert!(reader.next().is_none(), "an error is the end");
        for (name, _) in reader.skipped().unknown_gfp_names {
            is_one_line(&name);
        }
    }
}

/// Each of the `/proc` texts: a value, or an error with line and field.
pub fn zoneinfo(bytes: &[u8]) {
    match Zoneinfo::parse("fuzz", bytes) {
        Ok(info) => {
            assert!(!info.zones.is_empty());
            for zone in &info.zones {
                assert!(zone.managed <= zone.present && zone.present <= zone.spanned);
            }
        }
        Err(error) => has_place(&error),
    }
    match Buddyinfo::parse("fuzz", bytes) {
        Ok(info) => info.zones.iter().for_each(|zone| {
            std::hint::black_box(zone.nr_pages());
        }),
        Err(error) => has_place(&error),
    }
    if let Err(error) = PageTypeInfo::parse("fuzz", bytes) {
        has_place(&error);
    }
    if let Err(error) = Vmstat::parse("fuzz", bytes) {
        has_place(&error);
    }
}

/// A reference file: a machine that can be, or an error.
pub fn static_json(bytes: &[u8]) {
    match Reference::parse("fuzz", bytes) {
        Ok(Reference::Static(machine)) => {
            assert!(machine.cpus > 0 && !machine.nodes.is_empty());
            assert!(machine.zones.iter().map(|zone| zone.managed).sum::<u64>() > 0);
            assert!(machine.nodes.iter().enumerate().all(|(i, node)| node.distances[i] == 10));
        }
        Ok(_) => {}
        Err(error) => is_one_line(&error.to_string()),
    }
}

fn has_place(error: &ImportError) {
    assert!(error.line().is_some() && error.field().is_some());
    is_one_line(&error.to_string());
}
