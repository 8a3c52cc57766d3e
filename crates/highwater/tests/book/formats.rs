//! The formats of files: their published schemas.

use highwater::schema::Kind;
use highwater::workload::Registry;

use super::hold;

#[test]
fn the_published_schemas_are_those_of_the_program() {
    for kind in Kind::ALL {
        hold(&format!("docs/schemas/{}.json", kind.name()), &kind.text(&Registry::default()));
    }
}
