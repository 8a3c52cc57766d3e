//! Shared parts of the `/proc` parsers: reading a whole small file, walking its lines, numbers with
//! a field name.

use std::path::Path;

use crate::import::ImportError;
use crate::import::error::{FieldProblem, parse_u64, printable, shown};
use crate::import::source::{Source, TEXT_BYTES_MAX};

/// Reads a file and hands name and text to `parse`.
pub(super) fn read<T>(
    path: &Path,
    parse: impl FnOnce(&str, &[u8]) -> Result<T, ImportError>,
) -> Result<T, ImportError> {
    let source = Source::open(path)?;
    let name = source.name().to_owned();
    let text = source.read_to_end(TEXT_BYTES_MAX)?;
    parse(&name, &text)
}

/// Runs `each` on every line that is not blank, and adds file and line to its errors. Bytes that
/// are not UTF-8 are replaced, so they fail as values and not as text. Returns the number of lines.
pub(super) fn for_each_line(
    file: &str,
    text: &[u8],
    mut each: impl FnMut(u64, &str) -> Result<(), FieldProblem>,
) -> Result<u64, ImportError> {
    let mut nr_lines = 0;
    for line in text.split(|&b| b == b'\n') {
        nr_lines += 1;
        let line = String::from_utf8_lossy(line);
        let line = unquoted(&line);
        if !line.trim().is_empty() && !is_pasted(line) {
            each(nr_lines, line).map_err(|problem| at(file, nr_lines, problem))?;
        }
    }
    Ok(nr_lines)
}

/// True for a line that was pasted with the text: the command that printed it, a remark, or the
/// prompt after it.
pub(super) fn is_pasted(line: &str) -> bool {
    line.starts_with(['#', '$', '%']) || line.contains("cat /proc/") || is_prompt(line)
}

/// A shell prompt, with or without a command after it: `root@host:~# exit`, `[me@host ~]$`, `/ #`.
fn is_prompt(line: &str) -> bool {
    let line = line.trim();
    let behind = || ["$ ", "# ", "% "].iter().any(|end| line.contains(end));
    line.ends_with(['#', '$', '%']) || (line.contains('@') && behind())
}

/// Removes the quote marks of a mail from a line.
pub(in crate::import) fn unquoted(line: &str) -> &str {
    if line.starts_with('>') { line.trim_start_matches(['>', ' ']) } else { line }
}

/// The problem of a line that does not belong to a text of kind `of`.
pub(super) fn foreign(line: &str, of: &str) -> FieldProblem {
    let shown = shown(line.trim().as_bytes());
    FieldProblem::new(
        "line",
        format!("{shown} is no line of {of}: delete it if it was copied along with the file"),
    )
}

/// A remark for each kind of line that the reader skipped: quotes of a mail, prompts of a shell.
#[must_use]
pub fn passed_over(text: &str) -> Vec<String> {
    let mut said = Vec::new();
    let nr_quoted = text.lines().filter(|line| line.starts_with('>')).count();
    if nr_quoted > 0 {
        said.push(match nr_quoted {
            1 => "1 line begins with `>`, as quotes in a mail: it is left out".to_owned(),
            _ => format!("{nr_quoted} lines begin with `>`, as quotes in a mail: it is left out"),
        });
    }
    for (at, line) in text.lines().enumerate() {
        if is_prompt(unquoted(line)) && !line.contains("cat /proc/") {
            let (at, shown) = (at + 1, shown(line.trim().as_bytes()));
            said.push(format!("line {at}, {shown}, is a shell's prompt: it is left out"));
        }
    }
    said
}

pub(super) fn at(file: &str, line: u64, problem: FieldProblem) -> ImportError {
    ImportError::in_field(&printable(file), line, problem)
}

/// A number; the error carries the field's name.
pub(super) fn number(field: &str, text: &str) -> Result<u64, FieldProblem> {
    parse_u64(text.as_bytes()).map_err(|problem| FieldProblem::new(field, problem))
}

/// A number that must fit into 32 bits (node, CPU).
pub(super) fn small_number(field: &str, text: &str) -> Result<u32, FieldProblem> {
    let value = number(field, text)?;
    u32::try_from(value)
        .map_err(|_| FieldProblem::new(field, format!("{value} does not fit into 32 bits")))
}

/// Stores a value that may be given only once.
pub(super) fn set<T>(slot: &mut Option<T>, field: &str, value: T) -> Result<(), FieldProblem> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(FieldProblem::new(field, "given twice")),
    }
}

/// `Node 0, zone   Normal <rest>`: node, zone name, rest. A text of a kernel without nodes may
/// begin with `zone`: that is node 0. `None` if the line starts with neither.
pub(super) fn zone_line(line: &str) -> Result<Option<(u32, &str, &str)>, FieldProblem> {
    let line = line.trim_start();
    let (node, rest) = match line.strip_prefix("Node ") {
        Some(rest) => {
            let (node, rest) = rest
                .split_once(',')
                .ok_or_else(|| FieldProblem::new("Node", "no `, zone` behind it"))?;
            let node = small_number("Node", node.trim())?;
            let rest = rest.trim_start().strip_prefix("zone");
            (node, rest.ok_or_else(|| FieldProblem::missing("zone"))?)
        }
        None => match line.strip_prefix("zone") {
            Some(rest) if rest.starts_with([' ', '\t']) => (0, rest),
            _ => return Ok(None),
        },
    };
    let rest = rest.trim_start();
    let end = rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
    let (zone, rest) = rest.split_at(end);
    if zone.is_empty() {
        return Err(FieldProblem::new("zone", "no name"));
    }
    Ok(Some((node, zone, rest)))
}

/// Refuses a zone beyond the limit, or one that `is_known` already.
pub(super) fn new_zone(
    node: u32,
    zone: &str,
    nr_zones: usize,
    is_known: bool,
) -> Result<(), FieldProblem> {
    if is_known {
        return Err(FieldProblem::new("zone", format!("{zone} of node {node} given twice")));
    }
    if nr_zones >= super::ZONES_MAX {
        return Err(FieldProblem::new("zone", format!("more than {} zones", super::ZONES_MAX)));
    }
    Ok(())
}

/// One number per order, as many as the row has. `like` is the number in the rows before, if there
/// were any; a row that was cut off is recognised by it.
pub(super) fn per_order<T>(
    rest: &str,
    like: Option<usize>,
    mut value: impl FnMut(&str, &str) -> Result<T, FieldProblem>,
) -> Result<Vec<T>, FieldProblem> {
    let mut blocks = Vec::with_capacity(super::NR_ORDERS);
    for text in rest.split_whitespace() {
        let field = format!("order {}", blocks.len());
        if blocks.len() == like.unwrap_or(super::NR_ORDERS_MAX) {
            let problem = match like {
                Some(like) => format!("more than the {like} orders of the rows before"),
                None => format!("more than {} orders", super::NR_ORDERS_MAX),
            };
            return Err(FieldProblem::new(field, problem));
        }
        blocks.push(value(&field, text)?);
    }
    let least = like.unwrap_or(super::NR_ORDERS_MIN);
    if blocks.len() < least {
        let problem = match like {
            Some(like) => format!("missing: the rows before have {like} orders"),
            None => format!("missing: a row has at least {least} orders"),
        };
        return Err(FieldProblem::new(format!("order {}", blocks.len()), problem));
    }
    Ok(blocks)
}
