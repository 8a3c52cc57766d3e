//! Places in a machine's text: a key of a table, an element of a list by number or name.

use toml::{Table, Value};

use highwater_files::input::names::unknown;

/// The names of a list's elements that have one.
pub(crate) fn names(list: &[Value]) -> impl Iterator<Item = String> {
    let name = |value: &Value| {
        ["name", "disk"].iter().find_map(|key| Some(value.get(key)?.as_str()?.to_owned()))
    };
    list.iter().filter_map(name)
}

/// A place in a table to go down from.
pub(crate) enum Node<'a> {
    Table(&'a mut Table),
    List(&'a mut Vec<Value>),
}

impl<'a> Node<'a> {
    /// A table or a list; none of a plain value.
    pub(crate) fn of(value: &'a mut Value) -> Option<Node<'a>> {
        match value {
            Value::Table(table) => Some(Node::Table(table)),
            Value::Array(list) => Some(Node::List(list)),
            _ => None,
        }
    }

    /// The part of this name; of a list the element of this number or name.
    pub(crate) fn below(self, part: &str) -> Result<Node<'a>, String> {
        let value = match self {
            Node::Table(table) => {
                let keys: Vec<String> = table.keys().cloned().collect();
                table.get_mut(part).ok_or_else(|| {
                    let known: Vec<&str> = keys.iter().map(String::as_str).collect();
                    unknown("key", part, &known)
                })?
            }
            Node::List(list) => {
                let all: Vec<String> = names(list).collect();
                let at = all.iter().position(|name| name == part).or_else(|| part.parse().ok());
                let nr = list.len();
                at.and_then(|at| list.get_mut(at)).ok_or_else(|| {
                    let known: Vec<&str> = all.iter().map(String::as_str).collect();
                    match known.is_empty() {
                        true => format!("there is no number {part}; there are {nr}, from 0"),
                        false => unknown("name", part, &known),
                    }
                })?
            }
        };
        Node::of(value).ok_or_else(|| format!("{part} is a value and has no keys"))
    }
}
