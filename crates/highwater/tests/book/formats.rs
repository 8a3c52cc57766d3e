//! The formats of files: their published schemas, and the pages that are made of them.

use highwater::schema::Kind;
use highwater::workload::Registry;

use super::markdown::{Style, tables};
use super::{hold, read, with_part};

#[test]
fn the_published_schemas_are_those_of_the_program() {
    for kind in Kind::ALL {
        hold(&format!("docs/schemas/{}.json", kind.name()), &kind.text(&Registry::default()));
    }
}

#[test]
fn the_pages_about_formats_say_what_the_schemas_say() {
    for kind in Kind::ALL {
        let style = match kind {
            Kind::Results | Kind::Columns | Kind::Explanation | Kind::Bisect | Kind::Sweep => {
                Style::Json
            }
            Kind::Experiment | Kind::Machine | Kind::Policy | Kind::Plan => Style::Toml,
        };
        let page = format!("docs/src/formats/{}.md", kind.name());
        let schema = kind.schema(&Registry::default()).to_value();
        hold(&page, &with_part(&read(&page), "keys", &tables(&schema, style)));
    }
}
