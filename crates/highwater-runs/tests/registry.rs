//! The workloads that come with the program, by name.

use highwater_runs::workload::{Entry, Param, Registry, STANDARD, unmap};
use toml::de::DeTable;

#[test]
fn templates_are_the_defaults_with_their_docs() {
    for entry in STANDARD {
        let text = entry.template();
        let table: toml::Table = text.parse().unwrap();
        let keys: Vec<String> = entry.params.iter().map(Param::key).collect();
        let section = table[entry.name].as_table().unwrap();
        assert_eq!(section.len(), keys.len(), "{}", entry.name);
        assert!(keys.iter().all(|key| section.contains_key(key)), "{}", entry.name);
        let text = entry.defaults().definition().definition;
        let job = entry.job(DeTable::parse(&text).unwrap()).unwrap();
        assert_eq!(job.definition(), entry.defaults().definition());
    }
}

#[test]
fn a_later_workload_of_a_name_counts() {
    let registry = Registry::with(&[Entry::of::<unmap::Unmap>()]);
    assert_eq!(registry.entries().len(), STANDARD.len());
    let names =
        ["netperf-tcp", "stress-highalloc", "pagealloc", "stutter", "stutterp", "job", "unmap"];
    assert_eq!(registry.names(), names);
    assert!(registry.find("nothing").is_none());
}
