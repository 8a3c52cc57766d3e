//! `swarm`: random machines under random load, by seed.

use super::{highwater, stdout};

#[test]
fn a_seed_shows_its_options_and_both_phases() {
    let text = stdout(&["swarm", "3"]);
    for part in [
        "seed 3\nnode 0: CPUs",
        "\ncosts ",
        "\npolicy ",
        "\nmix ",
        "\nsafety, with faults: ",
        "\nliveness, faults off: ",
        "\nchecked: ",
        "\nseed 3: passed\n",
    ] {
        assert!(text.contains(part), "{part:?}: {text}");
    }
    assert_eq!(stdout(&["swarm", "3"]), text, "the same seed, the same bytes");
}

#[test]
fn several_seeds_have_a_line_each_in_order() {
    let text = stdout(&["swarm", "1", "--seeds", "3", "--jobs", "2"]);
    let seeds: Vec<&str> = text.lines().filter(|line| line.contains(": passed; ")).collect();
    assert_eq!(seeds.len(), 3, "{text}");
    for (nth, line) in (1..).zip(&seeds) {
        assert!(line.starts_with(&format!("seed {nth}: passed; ")), "{line}");
    }
    assert!(text.contains("\n3 seeds; seeds with ") && text.ends_with("\nall passed\n"), "{text}");
    assert_eq!(stdout(&["swarm", "1", "--seeds", "3", "--jobs", "1"]), text);
}

#[test]
fn a_word_is_a_seed() {
    let text = stdout(&["swarm", "1145dee"]);
    let number = text.lines().next().unwrap().strip_prefix("seed 1145dee: ").unwrap();
    assert!(text.contains(&format!("\nseed {number}\n")), "its options: {text}");
    assert!(text.ends_with(&format!("\nseed {number}: passed\n")), "{text}");
}

#[test]
fn wrong_numbers_are_refused() {
    for wrong in [["--seeds", "0"], ["--seeds", "x"], ["--jobs", "0"]] {
        let output = highwater(&["swarm", "1", wrong[0], wrong[1]]);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{wrong:?}");
    }
}
