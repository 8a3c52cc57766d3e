//! Parameters of the workload that runs: `stutterp.seconds=10`, `job.task.0.count=3`.
//!
//! Parameters are a table of typed values; a setting replaces one of them or adds one, and the
//! workload reads the table again. A part of a path is a key of a table, or a number or a name of a
//! list's element.

use toml::{Table, Value};

use super::file::Experiment;
use crate::settings::Setting;
use crate::settings::place::{Node, names};
use highwater_files::input::names::{there, unknown};
use highwater_files::input::{InputError, one_line};

/// Most elements of a list that an error names one by one.
const NAMED_MAX: usize = 12;

impl Experiment {
    /// Sets a parameter of the workload.
    pub(super) fn set_param(&mut self, setting: &Setting) -> Result<(), InputError> {
        let wrong = |reason: String| setting.wrong(one_line(&reason));
        let mut params = self.job.params().map_err(wrong)?;
        // A list that is empty may be left out there, and a number that is its default.
        for param in self.job.entry().params {
            params.entry(param.key()).or_insert_with(|| param.value_left_out());
        }
        let (table, numbers) = self.place(setting, &mut params).map_err(wrong)?;
        let key = numbers.last().cloned().unwrap_or_default();
        let old = table.get(&key).cloned();
        let mut first = None;
        for value in setting.value.candidates(old.as_ref()) {
            let mut params = params.clone();
            if let Ok((table, _)) = self.place(setting, &mut params) {
                table.insert(key.clone(), value);
            }
            match self.set_params(params) {
                Ok(()) => {
                    self.keep_said(numbers.join("."), setting.said.to_string());
                    return Ok(());
                }
                Err(reason) => first = first.or(Some(reason)),
            }
        }
        first.map_or(Ok(()), |reason| Err(wrong(reason)))
    }

    /// The table in which the setting's last key stands, and its path with numbers for names.
    fn place<'a>(
        &self,
        setting: &Setting,
        params: &'a mut Table,
    ) -> Result<(&'a mut Table, Vec<String>), String> {
        let parts: Vec<&str> = setting.key.path().split('.').collect();
        let (mut at, mut numbers) = (Node::Table(params), Vec::<String>::new());
        for (depth, part) in parts.iter().enumerate() {
            let below = [setting.key.head()].into_iter().chain(numbers.iter().map(String::as_str));
            let path = below.collect::<Vec<_>>().join(".");
            let is_last = depth + 1 == parts.len();
            match at {
                Node::Table(table) if is_last => {
                    // The workload itself says all of its parameters; what stands below may leave
                    // some out.
                    if depth == 0 && !table.contains_key(*part) {
                        let keys: Vec<&str> = table.keys().map(String::as_str).collect();
                        return Err(unknown("parameter", part, &keys));
                    }
                    numbers.push((*part).to_owned());
                    return Ok((table, numbers));
                }
                Node::Table(table) => {
                    let what = if depth == 0 { "parameter" } else { "key" };
                    let keys: Vec<String> = table.keys().cloned().collect();
                    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                    let value = table.get_mut(*part);
                    let value = value.ok_or_else(|| unknown(what, part, &keys))?;
                    at = Node::of(value)
                        .ok_or_else(|| format!("{path}.{part} is a value and has no keys"))?;
                    numbers.push((*part).to_owned());
                }
                Node::List(list)
                    if list.iter().all(|value| !value.is_table()) && !list.is_empty() =>
                {
                    return Err(format!("is a list of values: set all of it, {path}=[..]"));
                }
                Node::List(list) => {
                    let file = self.called();
                    let number = index(list, part).ok_or_else(|| {
                        let what = numbers.last().map_or("element", String::as_str);
                        none_such(list, &file, &path, what, part)
                    })?;
                    let element = format!("{path}.{number}");
                    if is_last {
                        let keys = list[number].as_table().into_iter().flat_map(Table::keys);
                        let keys: Vec<&str> = keys.map(String::as_str).collect();
                        return Err(format!("which key of {element}? {}", there("", &keys)));
                    }
                    at = Node::of(&mut list[number])
                        .ok_or_else(|| format!("{element} is a value and has no keys"))?;
                    numbers.push(number.to_string());
                }
            }
        }
        Err(format!("{}: which key of it?", setting.key.head()))
    }
}

/// The number of a list's element, by its number or its name.
fn index(list: &[Value], part: &str) -> Option<usize> {
    let name = |value: &Value| Some(value.get("name")?.as_str()? == part);
    let by_name = list.iter().position(|value| name(value).unwrap_or(false));
    by_name.or_else(|| part.parse().ok().filter(|at| *at < list.len()))
}

/// Which elements there are: `job.toml has 2 tasks: job.task.0 and job.task.1`.
fn none_such(list: &[Value], file: &str, path: &str, what: &str, part: &str) -> String {
    let nr = list.len();
    let all: Vec<String> = (0..nr).map(|at| format!("{path}.{at}")).collect();
    let paths = match all.as_slice() {
        [] => return format!("{file} has no {what}s"),
        [one] => one.clone(),
        [first, .., last] if nr > NAMED_MAX => format!("{first} to {last}"),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    };
    let has = match nr {
        1 => format!("{file} has 1 {what}: {paths}"),
        _ => format!("{file} has {nr} {what}s: {paths}"),
    };
    let known: Vec<String> = names(list).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    match part.parse::<usize>() {
        Err(_) if !known.is_empty() => format!("{has}; {}", unknown("name", part, &known)),
        _ => has,
    }
}
