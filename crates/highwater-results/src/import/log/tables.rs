//! Tables of a report: processes, and slab caches that cannot be reclaimed.
//!
//! ```text
//! [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name
//! [  271]     0   271    40771     5120      63       44             0 librarian
//! ```
//!
//! The columns vary by version, so a row is kept under the names of its header.

use std::collections::BTreeMap;

use serde::Serialize;

use super::zone::{kb, number};

/// The table of processes that the OOM killer may choose from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskTable {
    /// Names of the columns as printed, from `pid` to `name`; empty if the header is missing.
    pub columns: Vec<String>,
    /// The processes.
    pub rows: Vec<TaskRow>,
}

/// A process. Sizes are pages, `pgtables_bytes` is bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskRow {
    /// Process id.
    pub pid: u64,
    /// Name.
    pub name: String,
    /// `oom_score_adj`, where the table has it.
    pub oom_score_adj: Option<i64>,
    /// Other columns by name: `uid`, `tgid`, `total_vm`, `rss`, `nr_ptes`, `pgtables_bytes`,
    /// `swapents`, ... Columns of a table without a header are `2`, `3`, ...
    pub values: BTreeMap<String, i64>,
}

/// A slab cache that cannot be reclaimed (since 4.15). Sizes are kB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlabRow {
    /// Name of the cache.
    pub name: String,
    /// In use, kB.
    pub used_kb: u64,
    /// All of its slabs, kB.
    pub total_kb: u64,
}

/// A place in the kernel's code that allocates, with what it holds (kernels with
/// `CONFIG_MEM_ALLOC_PROFILING`, since 6.10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteRow {
    /// Function.
    pub function: String,
    /// Module; none for the kernel itself.
    pub module: Option<String>,
    /// kB.
    pub kb: u64,
    /// Allocations that are not freed.
    pub count: u64,
}

impl TaskTable {
    /// Reads the header.
    pub(super) fn header(&mut self, text: &str) {
        let words = text.split(|c: char| c.is_whitespace() || c == '[' || c == ']');
        self.columns = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
    }

    /// Reads a row. One with fewer columns than the header is cut, and left out.
    pub(super) fn row(&mut self, text: &str, is_open_ended: bool) {
        let Some((pid, rest)) = text.trim_start_matches('[').split_once(']') else { return };
        let Some(pid) = number(pid.trim()) else { return };
        let cells: Vec<&str> = rest.split_whitespace().collect();
        let nr_numbers = match self.columns.len() {
            0 => cells.iter().take_while(|cell| cell.parse::<i64>().is_ok()).count(),
            columns => columns.saturating_sub(2),
        };
        if cells.len() <= nr_numbers || (self.columns.is_empty() && nr_numbers < 4) {
            return;
        }
        // A number there is one of another column: the header is cut, or a number is broken.
        let is_shifted = cells.len() > nr_numbers + 1 && cells[nr_numbers].parse::<i64>().is_ok();
        if is_shifted {
            return;
        }
        let mut row = TaskRow { pid, name: cells[nr_numbers..].join(" "), ..TaskRow::default() };
        for (index, cell) in cells[..nr_numbers].iter().enumerate() {
            let Ok(value) = cell.parse::<i64>() else { return };
            match self.columns.get(index + 1).map(String::as_str) {
                Some("oom_score_adj") => row.oom_score_adj = Some(value),
                Some(name) => drop(row.values.insert(name.to_owned(), value)),
                None => drop(row.values.insert((index + 2).to_string(), value)),
            }
        }
        if !is_open_ended {
            self.rows.push(row);
        }
    }
}

impl SlabRow {
    /// Reads `name 4KB 8KB`.
    pub(super) fn read(tokens: &[String]) -> Option<SlabRow> {
        let [name, used, total] = tokens else { return None };
        Some(SlabRow { name: name.clone(), used_kb: kb(used)?, total_kb: kb(total)? })
    }
}

impl SiteRow {
    /// Reads `4096 1 fs/a.c:1 [module] func:name`. Later kernels print `4.00 KiB` for the bytes.
    pub(super) fn read(tokens: &[String]) -> Option<SiteRow> {
        let function = tokens.iter().find_map(|token| token.strip_prefix("func:"))?;
        let module = tokens.iter().find_map(|token| token.strip_prefix('[')?.strip_suffix(']'));
        let unit = ["B", "KiB", "MiB", "GiB", "TiB"]
            .iter()
            .position(|unit| tokens.get(1).is_some_and(|token| token == unit));
        let (bytes, count) = match unit {
            Some(unit) => {
                let size: f64 = tokens[0].parse().ok().filter(|size| *size >= 0.0)?;
                ((size * f64::from(1_u32 << 10).powi(unit as i32)) as u64, tokens.get(2)?)
            }
            None => (number(&tokens[0])?, tokens.get(1)?),
        };
        Some(SiteRow {
            function: function.to_owned(),
            module: module.map(str::to_owned),
            kb: bytes / 1024,
            count: number(count)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_their_header() {
        let mut table = TaskTable::default();
        table.header("[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name");
        table
            .row("[  271]     0   271    40771     5120      63       44         -1000 a b", false);
        table.row("[  272]     0   272    40771", false);
        table.row("[  273]     0   273    407 71     5120      63       44    0 a", false);
        let row = &table.rows[0];
        assert_eq!((table.rows.len(), row.pid, row.name.as_str()), (1, 271, "a b"));
        assert_eq!((row.oom_score_adj, row.values["nr_ptes"]), (Some(-1000), 63));
    }

    #[test]
    fn rows_without_a_header_have_numbered_columns() {
        let mut table = TaskTable::default();
        table.row("[  271]     0   271    40771     5120      63       44             0 a", false);
        assert_eq!((table.rows[0].values["4"], table.rows[0].name.as_str()), (40771, "a"));
        assert_eq!(table.rows[0].oom_score_adj, None);
    }

    #[test]
    fn sites_in_bytes_and_in_units() {
        let read = |text: &str| {
            let tokens: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            SiteRow::read(&tokens)
        };
        let row = read("1047212032 511334 fs/xfs/xfs_icache.c:82 [xfs] func:xfs_inode_alloc");
        let row = row.expect("a row");
        assert_eq!(
            (row.function.as_str(), row.module.as_deref()),
            ("xfs_inode_alloc", Some("xfs"))
        );
        assert_eq!((row.kb, row.count), (1_022_668, 511_334));
        let row = read("1.50 MiB 384 mm/slub.c:2264 func:alloc_slab_page").expect("a row");
        assert_eq!((row.kb, row.count, row.module), (1536, 384, None));
        assert_eq!(read("x 1 a.c:1 func:a"), None);
    }
}
