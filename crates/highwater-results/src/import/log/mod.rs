//! Memory reports in kernel logs: failed allocations, OOM kills, stalls, dumps.
//!
//! [`Log::read`] takes the text as people post it: with the prefix of any logger, quoted and
//! wrapped by mail programs, cut by terminals, with the head or the tail missing. It reads reports
//! of Linux 2.6.32 to 7.x. Layers, from the outside in:
//!
//! ```text
//! lines    quoted-printable, quote marks, #012, widths     bytes    -> lines
//! prefix   time stamps, host names, levels, callers        line     -> prefix and text
//! split    tokens on lines of their own, joined lines      lines    -> lines
//! kind     what a line is about                            line     -> kind
//! record   wrapped lines                                   lines    -> messages
//! joint    tokens that a line end broke                    tokens   -> token
//! build    which report a message belongs to               messages -> drafts
//! kills    which report a kill belongs to                  messages -> drafts
//! late     dumps and requests in the wrong order           drafts   -> drafts
//! zone, request, comm, kill, memcg, tables, gfp, kernel    message  -> fields
//! draft    what follows from the whole report              draft    -> report
//! zone_types                                               zones    -> names of columns
//! relations                                                reports  -> how they relate
//! ```
//!
//! Rules of this module:
//! * It never invents. What the text does not have is `None`, and listed in
//!   [`Report::missing`]. A number whose end may be cut is left out.
//! * It never fails and never panics: any bytes give a `Log`, perhaps without reports.
//! * Its time is linear in the length of the text.
//!
//! Sources of the dialects: posted logs of all versions (facts, not copied), the tables of
//! rules/requests, and OOMAnalyser (MIT) for flag bits.

mod build;
mod comm;
mod draft;
mod gfp;
mod joint;
mod kernel;
mod kill;
mod kills;
mod kind;
mod late;
mod lines;
mod memcg;
mod prefix;
mod record;
mod relations;
mod report;
mod request;
mod split;
mod tables;
mod zone;
mod zone_types;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use gfp::{Gfp, GfpRules};
pub use kernel::{KernelRelease, Version};
pub use kill::Kill;
pub use memcg::{Memcg, MemcgLimit};
pub use relations::{Relation, RelationKind};
pub use report::{Context, Finding, Report, Request, Swap};
pub use request::{MachinePages, ReportKind, Task, Vmalloc};
pub use tables::{SiteRow, SlabRow, TaskRow, TaskTable};
pub use zone::{FreeBlocks, FreeList, HugePages, Node, ZONE_NAMES, Zone};
pub use zone_types::highest_zone;

/// All reports of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Log {
    /// Number of lines of the text.
    pub lines: usize,
    /// The reports, in the order of the text.
    pub reports: Vec<Report>,
    /// How they relate.
    pub relations: Vec<Relation>,
}

impl Log {
    /// Reads a text. Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Log {
        let lines = lines::split(bytes);
        let nr_lines = lines.last().map_or(0, |line| line.number);
        let records = record::assemble(lines);
        let reports = build::build(&records);
        let relations = relations::relate(&reports);
        Log { lines: nr_lines, reports, relations }
    }
}
