//! The pages as a reader sees them: blocks of code, and in those the commands with what they print.

use std::fs;
use std::path::Path;

use crate::root;

/// What a comment says right before a block that shows what a command prints.
const PRINTED_BY: &str = "<!-- printed by: ";

/// A page of the book, or the README.
pub(crate) struct Page {
    /// Path from the root.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A block of code.
pub(crate) struct Block {
    /// `PAGE:LINE` of its first line.
    pub(crate) place: String,
    /// Path of the page.
    pub(crate) page: String,
    /// What the fence says: `console`, `text`, `toml`.
    pub(crate) language: String,
    /// Its lines, without the indentation of the fence.
    pub(crate) lines: Vec<String>,
    /// The command that prints it, if a comment says so.
    pub(crate) printed_by: Option<String>,
}

/// A command in a `console` block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    /// `PAGE:LINE`.
    pub(crate) place: String,
    /// What is typed, without the comment behind it.
    pub(crate) line: String,
    /// Where it is typed, if a command before it changed the directory.
    pub(crate) dir: Option<String>,
    /// The lines below it.
    pub(crate) output: Vec<String>,
}

/// README and book.
pub(crate) fn pages() -> Vec<Page> {
    let (mut dirs, mut paths) = (vec![root().join("docs/src")], vec![root().join("README.md")]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("readable") {
            let path = entry.expect("readable").path();
            match path.extension() {
                _ if path.is_dir() => dirs.push(path),
                Some(extension) if extension == "md" => paths.push(path),
                _ => {}
            }
        }
    }
    paths.sort();
    assert!(paths.len() > 60, "the pages were found");
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Page {
    let name = path.strip_prefix(root()).expect("inside").to_string_lossy().into_owned();
    Page { name, text: fs::read_to_string(path).expect("readable") }
}

/// The blocks of all pages.
pub(crate) fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(Page::blocks).collect()
}

impl Page {
    /// Its blocks of code.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().zip(1..);
        let mut before = "";
        while let Some((line, _)) = lines.next() {
            let Some(language) = line.trim_start().strip_prefix("```") else {
                before = if line.trim().is_empty() { before } else { line };
                continue;
            };
            let indent = line.len() - line.trim_start().len();
            let mut block = Block {
                place: String::new(),
                page: self.name.clone(),
                language: language.to_owned(),
                lines: Vec::new(),
                printed_by: before.trim_start().strip_prefix(PRINTED_BY).map(|command| {
                    command.strip_suffix(" -->").expect("a comment on one line").to_owned()
                }),
            };
            for (line, number) in lines.by_ref() {
                if line.trim() == "```" {
                    break;
                }
                if block.lines.is_empty() {
                    block.place = format!("{}:{number}", self.name);
                }
                let is_indented = line.get(..indent).is_some_and(|start| start.trim().is_empty());
                let line = if is_indented { &line[indent..] } else { line.trim_start() };
                block.lines.push(line.to_owned());
            }
            blocks.push(block);
            before = "";
        }
        blocks
    }
}

impl Block {
    /// The commands of a `console` block. What root types on another machine (`# ...`) is none of ours.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut dir = None;
        let (page, first) = self.place.rsplit_once(':').unwrap_or((&self.place, "0"));
        for (line, number) in self.lines.iter().zip(first.parse::<usize>().unwrap_or(0)..) {
            if self.language != "console" || line.starts_with("# ") {
                continue;
            }
            let Some(typed) = line.strip_prefix("$ ") else {
                let command = commands.last_mut().expect("output has a command above it");
                command.output.push(line.clone());
                continue;
            };
            let line = typed.split(" # ").next().unwrap_or_default().trim().to_owned();
            let changed = line.strip_prefix("cd ").map(str::to_owned);
            let place = format!("{page}:{number}");
            commands.push(Command { place, line, dir: dir.clone(), output: Vec::new() });
            dir = changed.or(dir);
        }
        commands
    }
}

#[test]
fn blocks_and_commands_are_understood() {
    let text = "Text.\n\n<!-- printed by: highwater list -->\n\n```text\na\n  b\n```\n* Item:\n\n  \
                ```console\n  # echo 1 > /sys/x\n  $ cd dir\n  $ cargo run -- x   # a comment\n    out\n  ...\n  ```\n";
    let page = Page { name: "page.md".to_owned(), text: text.to_owned() };
    let blocks = page.blocks();
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].printed_by.as_deref(), Some("highwater list"));
    assert_eq!(blocks[0].lines, ["a", "  b"]);
    assert_eq!((blocks[0].place.as_str(), blocks[0].commands().len()), ("page.md:6", 0));
    assert_eq!(blocks[1].printed_by, None);
    let commands = blocks[1].commands();
    assert_eq!(commands[0].line, "cd dir");
    assert_eq!(commands[0].dir, None);
    assert_eq!(commands[1].line, "cargo run -- x");
    assert_eq!(commands[1].place, "page.md:14");
    assert_eq!(commands[1].dir.as_deref(), Some("dir"));
    assert_eq!(commands[1].output, ["  out", "..."]);
}
