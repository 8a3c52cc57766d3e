//! A JSON Schema as Markdown: a table for each table of the format, a row for each key.

use std::fmt::Write;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// How a format spells keys and values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Written by hand, as TOML.
    Toml,
    /// Written by the program, as JSON.
    Json,
}

/// A table of the format.
struct Section<'s> {
    /// Where it stands; several if tables of one kind stand in several places.
    paths: Vec<String>,
    /// The name of its definition; none if it has no other place.
    name: Option<&'s str>,
    schema: &'s Value,
}

/// Everything about a schema, section by section.
pub(super) fn tables(schema: &Value, style: Style) -> String {
    let mut page = Page { root: schema, style, sections: Vec::new() };
    page.sections.push(Section { paths: vec![String::new()], name: None, schema });
    page.visit(0);
    let mut headings: Vec<String> = page.sections.iter().map(|s| page.anchor(s)).collect();
    headings.sort_unstable();
    assert!(headings.windows(2).all(|pair| pair[0] != pair[1]), "two sections of one name");
    page.sections.iter().map(|section| page.section(section)).collect()
}

struct Page<'s> {
    root: &'s Value,
    style: Style,
    sections: Vec<Section<'s>>,
}

impl<'s> Page<'s> {
    /// What a schema refers to, and the name of that.
    fn resolve(&self, schema: &'s Value) -> (&'s Value, Option<&'s str>) {
        let Some(target) = schema["$ref"].as_str() else { return (schema, None) };
        let name = target.strip_prefix("#/$defs/").expect("definitions are in the schema");
        (&self.root["$defs"][name], Some(name))
    }

    /// The table that a key holds, or a list of, if it gets a section: how it is spelt, its schema and its name.
    fn table_of(
        &self,
        schema: &'s Value,
        path: &str,
    ) -> Option<(String, &'s Value, Option<&'s str>)> {
        let (inner, name) = self.resolve(schema);
        if inner["type"] == "array" {
            let list = match self.style {
                Style::Toml => path.to_owned(),
                Style::Json => format!("{path}[]"),
            };
            return self.table_of(&inner["items"], &list);
        }
        let has_keys = inner["properties"].is_object() || is_tagged(inner);
        (has_keys && (name.is_some() || !is_plain(inner))).then(|| (path.to_owned(), inner, name))
    }

    /// Finds the sections below one: first those of its own keys, then those below each.
    fn visit(&mut self, index: usize) {
        let section = &self.sections[index];
        let (schema, parent) = (section.schema, section.paths[0].clone());
        let mut own = Vec::new();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = if parent.is_empty() { key.clone() } else { format!("{parent}.{key}") };
            let Some((path, schema, name)) = self.table_of(property, &path) else { continue };
            let known = self.sections.iter().chain(&own).any(|s| name.is_some() && s.name == name);
            if known {
                let all = self.sections.iter_mut().chain(&mut own);
                let found = all.filter(|section| section.name == name);
                found.for_each(|section| section.paths.push(path.clone()));
            } else {
                own.push(Section { paths: vec![path], name, schema });
            }
        }
        // All of them are known before the first one's own are looked for.
        let names: Vec<Vec<String>> = own.iter().map(|section| section.paths.clone()).collect();
        let first = self.sections.len();
        self.sections.extend(own);
        for at in 0..names.len() {
            self.visit(first + at);
        }
    }

    /// How a file spells the place of a table.
    fn spelt(&self, path: &str, is_list: bool) -> String {
        match self.style {
            _ if path.is_empty() => "The file".to_owned(),
            Style::Json => format!("`{path}`"),
            Style::Toml if is_list => format!("`[[{path}]]`"),
            Style::Toml => format!("`[{path}]`"),
        }
    }

    /// Whether a place of a table is a list of such.
    fn is_list(&self, path: &str) -> bool {
        let mut schema = self.root;
        let mut is_list = false;
        for key in path.split('.').filter(|key| !key.is_empty()) {
            schema = self.resolve(&schema["properties"][key.trim_end_matches("[]")]).0;
            is_list = schema["type"] == "array";
            while schema["type"] == "array" {
                schema = self.resolve(&schema["items"]).0;
            }
        }
        is_list
    }

    fn heading(&self, section: &Section<'_>) -> String {
        self.spelt(&section.paths[0], self.is_list(&section.paths[0]))
    }

    /// The heading's address on the page, as mdBook makes it.
    fn anchor(&self, section: &Section<'_>) -> String {
        let heading = self.heading(section);
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    }

    /// One table of the page.
    fn section(&self, section: &Section<'_>) -> String {
        let mut text = format!("\n## {}\n", self.heading(section));
        let about = section.schema["description"].as_str().unwrap_or_default();
        let others: Vec<String> =
            section.paths[1..].iter().map(|path| self.spelt(path, self.is_list(path))).collect();
        let also = match &others[..] {
            [] => String::new(),
            others => format!("Of the same form: {}.", others.join(", ")),
        };
        for paragraph in [words(about), also].iter().filter(|text| !text.is_empty()) {
            write!(text, "\n{paragraph}\n").unwrap();
        }
        text += "\n";
        if is_tagged(section.schema) {
            return text + &self.variants(section.schema);
        }
        text += match self.style {
            Style::Toml => "| key | value | default | what it is |\n|---|---|---|---|\n",
            Style::Json => "| key | value | there | what it is |\n|---|---|---|---|\n",
        };
        let required = section.schema["required"].as_array();
        for (key, property) in section.schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.is_some_and(|all| all.iter().any(|one| one == key));
            let default = match (self.style, &property["default"]) {
                (Style::Toml, _) if is_required => "must be there".to_owned(),
                (Style::Toml, Value::Null) => String::new(),
                (Style::Toml, value) => format!("`{value}`"),
                (Style::Json, _) if is_required => "always".to_owned(),
                (Style::Json, _) => "may be missing".to_owned(),
            };
            let about = property["description"].as_str();
            let about = about.or(self.resolve(property).0["description"].as_str());
            let (value, about) = (self.value(property), words(about.unwrap_or_default()));
            assert!(!about.is_empty(), "{}: {key} says what it is", section.paths[0]);
            writeln!(text, "| `{key}` | {value} | {default} | {about} |").unwrap();
        }
        text
    }

    /// Objects that say in one of their keys which they are.
    fn variants(&self, schema: &'s Value) -> String {
        let (says, _) = tag(&schema["oneOf"][0]).expect("it is tagged");
        let mut text = format!("| `{says}` | other keys | what it is |\n|---|---|---|\n");
        for variant in schema["oneOf"].as_array().into_iter().flatten() {
            let (_, name) = tag(variant).expect("all of them are");
            let others = variant["properties"].as_object().expect("keys");
            let others = others.iter().filter(|(key, _)| *key != says).map(|(key, property)| {
                let about = property["description"].as_str().unwrap_or_default();
                format!("`{key}`: {}; {}", self.value(property), words(about))
            });
            let others = others.collect::<Vec<_>>().join("<br>");
            let about = words(variant["description"].as_str().unwrap_or_default());
            writeln!(text, "| `{name}` | {others} | {about} |").unwrap();
        }
        text
    }

    /// What a key may be.
    fn value(&self, schema: &'s Value) -> String {
        if let Some((path, inner, name)) = self.table_of(schema, "") {
            let list = if self.resolve(schema).0["type"] == "array" { "list of " } else { "" };
            let is_it = |s: &&Section<'_>| match name {
                Some(_) => s.name == name,
                None => std::ptr::eq(s.schema, inner),
            };
            let section = self.sections.iter().find(is_it).unwrap_or_else(|| panic!("{path}"));
            let what = if self.style == Style::Toml { "table" } else { "object" };
            return format!("{list}[{what}](#{})", self.anchor(section));
        }
        let (schema, _) = self.resolve(schema);
        let several = |key: &str| schema[key].as_array();
        if let Some(choices) = several("oneOf") {
            let choice = |one: &Value| match one["description"].as_str() {
                Some(about) => format!("`{}`: {}", one["const"], words(about)),
                None => format!("`{}`", one["const"]),
            };
            return choices.iter().map(choice).collect::<Vec<_>>().join("<br>");
        }
        if let Some(choices) = several("enum") {
            return choices.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
        }
        if let Some(choices) = several("anyOf") {
            let one = |one: &'s Value| match one.get("minimum") {
                Some(_) => range(one),
                None => self.value(one),
            };
            return choices.iter().map(one).collect::<Vec<_>>().join(", or ");
        }
        if let Some(one) = schema.get("const") {
            return format!("`{one}`");
        }
        let kinds = schema["type"].as_array().map_or(&[][..], Vec::as_slice);
        let or_null = if kinds.iter().any(|kind| kind == "null") { ", or `null`" } else { "" };
        let kind = kinds.iter().find(|kind| *kind != "null").unwrap_or(&schema["type"]);
        self.of_type(schema, kind.as_str()) + or_null
    }

    /// A value of a type.
    fn of_type(&self, schema: &'s Value, kind: Option<&str>) -> String {
        match kind {
            Some("boolean") => "`true`, `false`".to_owned(),
            Some("integer" | "number") => match (schema.get("minimum"), schema.get("maximum")) {
                (None, None) => kind.unwrap_or_default().to_owned(),
                _ => range(schema),
            },
            Some("string") => match schema["format"].as_str() {
                Some("size") => "size: `\"64K\"`, `\"512M\"`, `\"8G\"`".to_owned(),
                Some("ranges") => format!("numbers: `{}`", schema["examples"][0]),
                Some("costs") => {
                    let examples = schema["examples"].as_array().map_or(&[][..], Vec::as_slice);
                    let examples: Vec<_> = examples.iter().map(|one| format!("`{one}`")).collect();
                    format!("name or file: {}", examples.join(", "))
                }
                _ => "text".to_owned(),
            },
            Some("array") => {
                // Of a pair both are of a kind.
                let pair = schema.get("prefixItems").map(|pair| &pair[0]);
                let items = self.value(pair.unwrap_or(&schema["items"]));
                match schema["minItems"].as_u64() {
                    Some(count) if schema["maxItems"] == count => {
                        format!("list of {count}: {items}")
                    }
                    _ => format!("list: {items}"),
                }
            }
            Some("object") => match schema.get("properties") {
                Some(Value::Object(keys)) => {
                    let key = |(key, inner): (&String, &'s Value)| {
                        format!("`{key}` {}", self.value(inner))
                    };
                    format!("table: {}", keys.iter().map(key).collect::<Vec<_>>().join(", "))
                }
                _ if schema["format"] == "settings" => "table: `KEY = VALUE`".to_owned(),
                _ if schema["format"] == "factors" => "table: `KEY = [VALUE, ..]`".to_owned(),
                _ => match schema.get("additionalProperties") {
                    Some(each) => format!("object: by name, {}", self.value(each)),
                    None => "object".to_owned(),
                },
            },
            other => panic!("a schema of {other:?} has no words"),
        }
    }
}

/// A number's type and where it may be.
fn range(schema: &Value) -> String {
    let what = schema["type"].as_str().unwrap_or("integer");
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => format!("{what} from {least} to {most}"),
        (Some(least), None) => format!("{what} from {least}"),
        (None, Some(most)) => format!("{what} up to {most}"),
        (None, None) => what.to_owned(),
    }
}

/// The key that says which of several objects one is, and what it says.
fn tag(schema: &Value) -> Option<(&str, &str)> {
    let keys = schema["properties"].as_object()?;
    keys.iter().find_map(|(key, inner)| Some((key.as_str(), inner["const"].as_str()?)))
}

fn is_tagged(schema: &Value) -> bool {
    schema["oneOf"].as_array().is_some_and(|all| all.iter().all(|one| tag(one).is_some()))
}

/// A table that is written in its place: all of its keys must be there, and none of them is a table.
fn is_plain(schema: &Value) -> bool {
    let Some(keys) = schema["properties"].as_object() else { return false };
    let nr_required = schema["required"].as_array().map_or(0, Vec::len);
    let is_simple = |inner: &Value| ["integer", "string"].iter().any(|one| inner["type"] == *one);
    nr_required == keys.len() && keys.values().all(is_simple)
}

/// A description for a cell of a table, citations of the rules as links.
pub(super) fn words(text: &str) -> String {
    static RULE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"rules/([a-z-]+)#([a-z-]+)").expect("a pattern"));
    let linked = RULE.replace_all(text, "[$0](../rules/$1.md#$2)");
    linked.replace('|', "\\|")
}

#[test]
fn a_schema_becomes_tables() {
    let schema: Value = serde_json::from_str(
        r##"{
            "description": "All of it.",
            "properties": {
                "name": { "type": "string", "description": "A name (rules/lru#x)." },
                "share": { "type": "number", "default": 0.5, "description": "A share." },
                "part": { "type": "array", "items": { "$ref": "#/$defs/Part" }, "description": "Parts." },
                "cost": {
                    "type": "object", "required": ["ns"], "description": "What it costs.",
                    "properties": { "ns": { "type": "integer", "minimum": 0 } }
                }
            },
            "required": ["name"],
            "$defs": { "Part": {
                "properties": {
                    "inner": { "type": "array", "items": { "$ref": "#/$defs/Part" }, "description": "Inner ones." },
                    "kind": { "description": "A | B.", "oneOf": [{ "const": "a", "description": "First." }, { "const": "b" }] }
                }
            } }
        }"##,
    )
    .expect("JSON");
    let expected = "\n## The file\n\nAll of it.\n\n\
        | key | value | default | what it is |\n|---|---|---|---|\n\
        | `name` | text | must be there | A name ([rules/lru#x](../rules/lru.md#x)). |\n\
        | `share` | number | `0.5` | A share. |\n\
        | `part` | list of [table](#part) |  | Parts. |\n\
        | `cost` | table: `ns` integer from 0 |  | What it costs. |\n\
        \n## `[[part]]`\n\nOf the same form: `[[part.inner]]`.\n\n\
        | key | value | default | what it is |\n|---|---|---|---|\n\
        | `inner` | list of [table](#part) |  | Inner ones. |\n\
        | `kind` | `\"a\"`: First.<br>`\"b\"` |  | A \\| B. |\n";
    assert_eq!(tables(&schema, Style::Toml), expected);
}
