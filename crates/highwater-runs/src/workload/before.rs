//! Columns of results that an earlier version wrote: these have names alone, without declarations.
//!
//! Earlier versions named columns exactly as this one does, so a name leads back to the declaration that makes it. A name
//! that no declaration makes leads to none.

use highwater_core::vmstat;
use highwater_results::Column;

use super::job::task_columns;
use crate::sampling::{counter, pressure_columns, zone_columns};

/// The column that has this name.
pub fn column(name: &str) -> Option<Column> {
    let made = match name.split('/').collect::<Vec<_>>()[..] {
        [name] => vmstat::meaning(name).map(|_| counter(name)).into_iter().collect(),
        ["pressure", ..] => pressure_columns(),
        ["task", ..] => task_columns(name.strip_prefix("task/")?.rsplit_once('/')?.0).to_vec(),
        [node, place, what] => {
            let node = node.strip_prefix("node")?.parse().ok()?;
            let from_ms = what.strip_prefix("from_").and_then(|age| age.strip_suffix("ms"));
            match from_ms.and_then(|ms| ms.parse().ok()) {
                Some(from_ms) => vec![Column::aged(node, place, from_ms)],
                None => zone_columns(node, place),
            }
        }
        _ => Vec::new(),
    };
    made.into_iter().find(|column| column.name == name)
}

#[cfg(test)]
mod tests {
    use highwater_core::vmstat::names;
    use highwater_results::column::{Kind, Unit};

    use super::*;

    #[test]
    fn a_name_leads_to_its_declaration() {
        let meaning = |name: &str| column(name).map(|column| (column.unit, column.kind));
        let pages = |kind| Some((Unit::Pages, kind));
        assert_eq!(meaning("nr_free_pages"), pages(Kind::Level));
        assert_eq!(meaning("node0/DMA32/low"), pages(Kind::Limit));
        assert_eq!(meaning("node0/DMA32/order9"), Some((Unit::Blocks { order: 9 }, Kind::Level)));
        let total = Some((Unit::Microseconds, Kind::Total));
        assert_eq!(meaning("pressure/memory/full"), total);
        assert_eq!(meaning("task/a/b/anon"), pages(Kind::Level));
        assert_eq!(column("node1/active_file/from_64ms"), Some(Column::aged(1, "active_file", 64)));
        let foreign =
            ["x", "pressure/cpu/full", "task/a", "task/a/x", "node0/DMA/order99", "a/b/c"];
        assert_eq!(foreign.map(meaning), [None; 6]);
    }

    #[test]
    fn every_counter_of_the_core_is_declared() {
        assert!(names().all(|(name, _)| column(name).is_some()));
    }
}
