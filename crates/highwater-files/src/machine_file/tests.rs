//! Machine files from their text to machines.

use super::*;

#[test]
fn embedded_machines_are_valid_and_sorted() {
    let machines = MachineFile::embedded().unwrap();
    assert!(machines.is_sorted_by_key(|m| m.name.clone()));
    for (machine, (name, _)) in machines.iter().zip(CATALOGUE.texts) {
        assert_eq!(machine.name, *name);
        assert!(!machine.summary.is_empty(), "{name} says nothing about itself");
        machine.costs().unwrap();
    }
}

#[test]
fn errors_name_line_and_field() {
    let error = |text| MachineFile::parse("m.toml", text).unwrap_err().to_string();
    let text = "[[node]]\nmemory = \"1G\"\ncpu = \"0\"\n";
    assert!(error(text).starts_with("m.toml:3: cpu: unknown field"), "{}", error(text));
    let text = "\n[[node]]\nmemory = \"lots\"\ncpus = \"0\"\n";
    assert!(error(text).starts_with("m.toml:3: memory: \"lots\" is not"), "{}", error(text));
    let text = "[[node]]\nmemory = \"1G\"\ncpus = \"0,2\"\n";
    assert!(error(text).starts_with("m.toml:3: nodes[0].cpus[1]: CPU 2"), "{}", error(text));
    let node = "[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n";
    let text = format!("{node}[tunables]\n\nswappiness = 900\n");
    assert_eq!(
        error(&text),
        "m.toml:6: tunables.swappiness: 900 is not between 0 and 200",
        "the value's line, not the node's"
    );
    let text = format!("costs = \"server-3ghz\"\n{node}[cost]\ntick = {{ ns = 3 }}\n");
    assert!(error(&text).starts_with("m.toml:6: cost.tick"), "{}", error(&text));
    let text = format!("costs = \"server-4ghz\"\n{node}");
    let meant = "m.toml:1: costs: unknown cost table \"server-4ghz\"; did you mean server-3ghz?";
    assert!(error(&text).starts_with(meant), "{}", error(&text));
    let text = "[[node]]\nmemory = \"0\"\ncpus = \"0\"\n";
    assert!(error(text).contains("a machine needs memory"), "{}", error(text));
    let zone =
        "{ zone = \"DMA32\", start-pfn = 4096, spanned = 9000, present = 9000, managed = 9000 }";
    let other = zone.replace("DMA32", "Movable");
    let text = format!("[[node]]\ncpus = \"0\"\nzones = [\n{zone},\n{other}\n]\n");
    assert!(error(&text).starts_with("m.toml:5: nodes[0].zones[1]: overlaps"), "{}", error(&text));
}

#[test]
fn a_machine_names_its_scheduler() {
    let node = "[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n";
    let parse = |text: &str| MachineFile::parse("m.toml", text);
    let sched = |machine: &MachineFile| machine.costs().unwrap().sched_named;
    let default = parse(node).unwrap();
    assert_eq!(sched(&default), None, "the kernel's");
    assert!(!default.definition().definition.contains("sched"), "it names none");
    for policy in SchedPolicy::ALL {
        let machine = parse(&format!("sched = \"{}\"\n{node}", policy.name())).unwrap();
        assert_eq!(sched(&machine), Some(policy));
        // A run can be repeated from its definition.
        let again = parse(&machine.definition().definition).unwrap();
        assert_eq!(sched(&again), Some(policy));
    }
    let error = parse(&format!("sched = \"csf\"\n{node}")).unwrap_err().to_string();
    assert!(error.starts_with("m.toml:1: sched: unknown scheduler \"csf\"; "), "{error}");
}

#[test]
fn of_bytes_and_ratio_the_last_one_written_holds() {
    let limits = |lines: &str| {
        let text = format!("[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n[tunables]\n{lines}");
        let tunables = MachineFile::parse("m.toml", &text).unwrap().machine.tunables;
        (tunables.dirty_bytes, tunables.dirty_ratio)
    };
    assert_eq!(limits("dirty_bytes = 1048576\n"), (1 << 20, 0));
    assert_eq!(limits("dirty_ratio = 30\ndirty_bytes = 1048576\n"), (1 << 20, 0));
    assert_eq!(limits("dirty_bytes = 1048576\ndirty_ratio = 30\n"), (0, 30));
    // As a kernel shows them: one of them is 0.
    assert_eq!(limits("dirty_bytes = 1048576\ndirty_ratio = 0\n"), (1 << 20, 0));
    assert_eq!(limits("dirty_ratio = 30\ndirty_bytes = 0\n"), (0, 30));
    assert_eq!(limits("dirty_ratio = 0\n"), (0, 0));
}

#[test]
fn nodes_are_given_as_for_virtme() {
    let arg = MachineArg {
        numa: vec!["4G,cpus=0-1".into(), "0,cpus=2-3".into(), "1G".into()],
        numa_distance: vec!["0,1=21".into()],
        ..MachineArg::default()
    };
    let machine = arg.resolve().unwrap().unwrap().machine;
    assert_eq!(machine.nodes[1].cpus, [2, 3]);
    assert!(machine.nodes[1].zones.is_empty());
    assert_eq!(machine.distances, [[10, 21, 20], [21, 10, 20], [20, 20, 10]]);
    let shape = arg.resolve().unwrap().unwrap();
    let again = MachineFile::parse("x.toml", &shape.definition().definition).unwrap();
    assert_eq!((again.machine, again.name), (shape.machine, shape.name));
    for bad in ["4G,cpu=1", "x", "4G,cpus=1-0"] {
        let arg = MachineArg { numa: vec![bad.into()], ..MachineArg::default() };
        assert!(arg.resolve().is_err(), "{bad}");
    }
}
