//! The page about all claims of the five studies: from `record/claims.json`, what the studies computed
//! when it was written, `record/full.json`, the same with `--full`, and `docs/causes.toml`, why a
//! claim did not come out.

use std::collections::BTreeSet;
use std::fmt::Write;

use highwater_report::claims::{Claim, Tally};
use highwater_report::repeats::{Class, Repeats};
use highwater_results::words::count;
use serde::Deserialize;

use super::{hold, read, with_part};

const PAGE: &str = "docs/src/reproduced.md";
const CAUSES: &str = "docs/causes.toml";
const RECORD: &str = "record/claims.json";
/// The same of runs with `--full`.
const FULL: &str = "record/full.json";
/// Text of a claim without a cause.
const NOT_KNOWN: &str = "not known";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Causes {
    cause: Vec<Cause>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cause {
    machine: String,
    figures: Vec<String>,
    run: Option<String>,
    why: String,
    see: String,
}

impl Cause {
    fn is_of(&self, claim: &Claim) -> bool {
        let is_run = self.run.as_ref().is_none_or(|run| *run == claim.run);
        self.machine == claim.machine && is_run && self.figures.contains(&claim.figure)
    }
}

fn causes() -> Vec<Cause> {
    let causes: Causes = toml::from_str(&read(CAUSES)).expect(CAUSES);
    causes.cause
}

fn claims(record: &str) -> Vec<Claim> {
    serde_json::from_str(&read(record)).expect(record)
}

/// The machines of a list of claims, in its order.
fn machines(claims: &[Claim]) -> Vec<(&str, &str)> {
    let mut machines: Vec<(&str, &str)> = Vec::new();
    for claim in claims {
        let machine = (claim.experiment.as_str(), claim.machine.as_str());
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    machines
}

/// The number of a study and its page.
fn study(experiment: &str) -> (&str, String) {
    let number = experiment.split('-').next().unwrap_or_default();
    (number, format!("study-{number}.md"))
}

/// A value, in as many digits as a reader needs.
fn value(value: f64) -> String {
    let decimals = match value.abs() {
        whole if whole.fract() == 0.0 => 0,
        ..10.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, part) = text.split_once('.').map_or((&*text, ""), |(whole, part)| (whole, part));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if part.is_empty() { grouped } else { format!("{grouped}.{part}") }
}

/// Two values and their ratio.
fn change(before: Option<f64>, after: Option<f64>) -> [String; 2] {
    match (before, after) {
        (Some(before), Some(after)) => {
            let values = format!("{} → {}", value(before), value(after));
            [values, ratio(before, after)]
        }
        (Some(one), None) => [value(one), String::new()],
        _ => [String::new(), String::new()],
    }
}

/// A ratio; more digits where it is close to 1 or to 0.
fn ratio(before: f64, after: f64) -> String {
    if before <= 0.0 {
        return String::new();
    }
    let ratio = after / before;
    let decimals = match ratio {
        ..0.01 => 4,
        ..0.1 | 0.9..1.1 => 3,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{ratio:.decimals$}")
}

/// The ratios of other postings; those of other machines in brackets.
fn elsewhere(claim: &Claim) -> String {
    let ratios = claim.elsewhere.iter().map(|one| {
        let ratio = ratio(one.before, one.after);
        if one.is_same_machine { ratio } else { format!("({ratio})") }
    });
    ratios.collect::<Vec<_>>().join(", ")
}

/// The number of a claim's cause in the list of causes below its table; empty if the claim came out, or
/// is not judged. A new cause joins the list.
fn cause<'c>(claim: &Claim, causes: &'c [Cause], listed: &mut Vec<&'c Cause>) -> String {
    if !matches!(claim.class, Class::Missed | Class::DirectionOnly) {
        return String::new();
    }
    let Some(cause) = causes.iter().find(|cause| cause.is_of(claim)) else {
        return NOT_KNOWN.to_owned();
    };
    let at = listed.iter().position(|known| std::ptr::eq(*known, cause)).unwrap_or_else(|| {
        listed.push(cause);
        listed.len() - 1
    });
    format!("({})", at + 1)
}

/// Claims of a machine of an experiment.
fn of_machine<'c>(claims: &'c [Claim], machine: &(&str, &str)) -> Vec<&'c Claim> {
    let (experiment, machine) = *machine;
    let is_its = |claim: &&Claim| claim.experiment == experiment && claim.machine == machine;
    claims.iter().filter(is_its).collect()
}

/// How many claims are of which class, by machine.
fn in_numbers(claims: &[Claim]) -> String {
    let mut text = "| study | machine | judged |".to_owned();
    for class in Class::ALL {
        write!(text, " {class} |").unwrap();
    }
    text += "\n|---|---|---|---|---|---|---|---|---|\n";
    let mut row = |name: &str, machine: &str, tally: Tally| {
        write!(text, "| {name} | {machine} | {} |", tally.judged()).unwrap();
        for class in Class::ALL {
            write!(text, " {} |", tally.of(class)).unwrap();
        }
        text += "\n";
    };
    for machine in machines(claims) {
        let tally: Tally = of_machine(claims, &machine).iter().map(|claim| claim.class).collect();
        let (number, page) = study(machine.0);
        row(&format!("[{number}]({page})"), machine.1, tally);
    }
    let all: Tally = claims.iter().map(|claim| claim.class).collect();
    row("**all**", "", all);
    text
}

/// Claims of runs with `--full`: numbers, and each beside what it is by default.
fn in_full(full: &[Claim], claims: &[Claim]) -> String {
    let mut text = in_numbers(full);
    text += "\n| study | machine | figure | published | by default | with `--full` | class |\n";
    text += "|---|---|---|---|---|---|---|\n";
    let ratio_of = |claim: &Claim| change(claim.before, claim.after)[1].clone();
    for claim in full {
        let is_same = |other: &&Claim| {
            (&other.experiment, &other.machine, &other.figure, &other.run)
                == (&claim.experiment, &claim.machine, &claim.figure, &claim.run)
        };
        let short = claims.iter().find(is_same).expect("runs by default have the same claims");
        let class = match short.class == claim.class {
            true => claim.class.to_string(),
            false => format!("{} → {}", short.class, claim.class),
        };
        let published = change(claim.published_before, claim.published_after)[1].clone();
        writeln!(
            text,
            "| {} | {} | {} | {published} | {} | {} | {class} |",
            study(&claim.experiment).0,
            claim.machine,
            claim.figure,
            ratio_of(short),
            ratio_of(claim),
        )
        .unwrap();
    }
    text
}

/// The tables of the page.
fn part(claims: &[Claim], causes: &[Cause]) -> String {
    let mut text = "\n## In numbers\n\n".to_owned();
    text += &in_numbers(claims);
    let all: Tally = claims.iter().map(|claim| claim.class).collect();
    text += "\n";
    text += &in_words(claims, all);
    for machine in machines(claims) {
        let (number, _) = study(machine.0);
        write!(text, "\n## {number}: {}\n\n", machine.1).unwrap();
        text += "| figure | class | ours | ratio | published | ratio | elsewhere | cause |\n";
        text += "|---|---|---|---|---|---|---|---|\n";
        let of_machine = of_machine(claims, &machine);
        let runs: BTreeSet<&str> = of_machine.iter().map(|claim| claim.run.as_str()).collect();
        let mut listed = Vec::new();
        for claim in &of_machine {
            let run = match runs.len() {
                1 => String::new(),
                _ => format!(" of {}", claim.run),
            };
            let [ours, our_ratio] = change(claim.before, claim.after);
            let [theirs, their_ratio] = match claim.published.is_empty() {
                true => change(claim.published_before, claim.published_after),
                false => [claim.published.clone(), String::new()],
            };
            writeln!(
                text,
                "| {}{run} | {} | {ours} | {our_ratio} | {theirs} | {their_ratio} | {} | {} |",
                claim.figure,
                claim.class,
                elsewhere(claim),
                cause(claim, causes, &mut listed),
            )
            .unwrap();
        }
        for (number, cause) in (1..).zip(listed) {
            write!(text, "\n({number}) {} ([more]({}))\n", cause.why, cause.see).unwrap();
        }
    }
    text
}

/// The sums of the table, in words.
fn in_words(claims: &[Claim], all: Tally) -> String {
    let judged = all.judged();
    let missed = all.of(Class::Missed);
    let sized = all.of(Class::Reproduced) + all.of(Class::DirectionOnly);
    let has_size = |claim: &&Claim| {
        claim.class.is_judged() && matches!(claim.repeats, Repeats::Size | Repeats::Unknown)
    };
    let with_size = claims.iter().filter(has_size).count();
    let percent = |part: u32, of: u32| f64::from(100 * part) / f64::from(of.max(1));
    let share = percent(all.of(Class::Reproduced), u32::try_from(with_size).unwrap_or(u32::MAX));
    let is_003 = |claim: &&Claim| claim.experiment.starts_with("003");
    let of_003 =
        u32::try_from(claims.iter().filter(is_003).filter(|c| c.class.is_judged()).count());
    let of_003 = of_003.unwrap_or(u32::MAX);
    let noise = all.of(Class::Noise);
    let lucky = claims.iter().filter(|c| c.class == Class::Noise && c.is_same_way == Some(true));
    let lucky = u32::try_from(lucky.count()).unwrap_or(u32::MAX);
    let with_noise = judged - missed + lucky;
    format!(
        "Of {} {} have the published direction ({:.0} %) and {missed} do not. {} of the judged claims have a size \
         that can be judged: {} of them come out within a factor of 2 ({share:.0} %), {} in direction only, and the \
         others are missed. {} within the published noise do not count: {lucky} of them have the published direction, so with them \
         it would be {with_noise} of {} ({:.0} %). Without study 003, whose costs were chosen by it, {} of {} have the \
         direction, and {} of {} the size.\n",
        count(judged as usize, "judged claim"),
        judged - missed,
        percent(judged - missed, judged),
        with_size,
        all.of(Class::Reproduced),
        sized - all.of(Class::Reproduced),
        count(noise as usize, "claim"),
        judged + noise,
        percent(with_noise, judged + noise),
        judged - missed - of_003,
        judged - of_003,
        all.of(Class::Reproduced) - of_003,
        with_size as u32 - of_003,
    )
}

#[test]
fn the_page_about_all_claims_is_what_is_on_record() {
    let (claims, full) = (claims(RECORD), claims(FULL));
    let page = with_part(&read(PAGE), "claims", &part(&claims, &causes()));
    let full = format!("\n{}\n", in_full(&full, &claims));
    hold(PAGE, &with_part(&page, "full claims", &full));
}

/// A cause whose claim is gone would explain nothing.
#[test]
fn every_cause_is_of_a_claim() {
    let claims = claims(RECORD);
    for cause in causes() {
        for figure in &cause.figures {
            let is_it = |claim: &&Claim| cause.is_of(claim) && claim.figure == *figure;
            let found = claims.iter().find(is_it);
            assert!(found.is_some(), "{CAUSES}: no claim {figure} of {}", cause.machine);
        }
        let page = cause.see.split('#').next().unwrap_or_default();
        assert!(!read(&format!("docs/src/{page}")).is_empty(), "{CAUSES}: no page {page}");
    }
}

#[test]
fn values_are_for_readers() {
    let values = [0.5, 2.0, 31.36, 999.94, 24_447.6, 1_887_662.0, 0.004].map(value);
    assert_eq!(values, ["0.50", "2", "31.4", "999.9", "24,448", "1,887,662", "0.00"]);
    assert_eq!(change(Some(4.5), Some(1.0)), ["4.50 → 1", "0.22"]);
    assert_eq!(change(Some(4.0), None), ["4", ""]);
    assert_eq!(change(Some(0.0), Some(0.0)), ["0 → 0", ""]);
    let ratios = [0.0004, 0.0961, 0.5283, 1.0027, 13.3243, 111.5].map(|after| ratio(1.0, after));
    assert_eq!(ratios, ["0.0004", "0.096", "0.53", "1.003", "13.3", "112"]);
}
