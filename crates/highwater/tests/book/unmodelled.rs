//! What is not modelled: the table of the page is that of the program.

use std::fmt::Write;

use highwater::input::unmodelled::{FEATURES, PAGE, kernels};

use super::{hold, read, with_part};

#[test]
fn the_page_about_what_is_not_modelled_is_the_programs_table() {
    let mut table = String::from(
        "| what | in Linux since | the nearest thing here | asked for as |\n|---|---|---|---|\n",
    );
    for feature in FEATURES {
        let names: Vec<String> =
            feature.patterns.iter().map(|pattern| format!("`{pattern}`")).collect();
        let (anchor, name, since, nearest, names) =
            (feature.anchor, feature.name, feature.since, feature.nearest, names.join(", "));
        writeln!(table, "| <a id=\"{anchor}\"></a>{name} | {since} | {nearest} | {names} |")
            .unwrap();
    }
    let page = with_part(&read(PAGE), "features", &table);
    let versions: Vec<String> = kernels().iter().map(ToString::to_string).collect();
    hold(PAGE, &with_part(&page, "kernels", &format!("{}.", versions.join(", "))));
}
