//! The result: one sentence, and the trials that show it.

use highwater_core::config::Difference;
use highwater_report::table::Cell;
use highwater_report::{Layout, Table};
use highwater_results::words::count;
use schemars::JsonSchema;

use serde::{Deserialize, Serialize};

use super::SCHEMA;
use super::came::{Came, came};
use super::search::{ENOUGH, Found, LITTLE, Parts};
use crate::experiment::label;
use crate::metric::value_text;

/// Trials of single switches that the table shows.
const SHOWN: usize = 6;
/// A part above this: other switches take some of the change back.
const MORE: f64 = 1.25;
/// If more than this part is left without the answer's switches, other switches have the same
/// effect.
const LEFT: f64 = 0.2;

/// A search and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Kind and version of the file.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Version of Highwater that ran it.
    pub version: String,
    /// Name of the experiment or job.
    pub experiment: String,
    /// Name of the machine.
    pub machine: String,
    /// Settings that the user changed for this run alone, as `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Seeds of each trial.
    pub seeds: Vec<u64>,
    /// Name of the figure.
    pub metric: String,
    /// Unit of the figure; empty for counts.
    pub unit: String,
    /// Policy A.
    pub from: End,
    /// Policy B.
    pub to: End,
    /// Change of the mean from A to B.
    pub change: f64,
    /// Its 95 % interval.
    pub change_limits: Option<(f64, f64)>,
    /// True if the change is significant.
    pub is_significant: bool,
    /// The result as a sentence.
    pub sentence: String,
    /// The smallest set of switches that explains the change; empty without a significant change.
    pub answer: Vec<String>,
    /// Switches of which each one alone explains the change too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or: Vec<String>,
    /// The part of the change that B keeps without the answer's switches: other switches have the
    /// same effect.
    pub left_without: Option<f64>,
    /// Switches in which the policies differ, the one with the largest effect first.
    pub switches: Vec<Switch>,
    /// Policies that ran.
    pub trials: Vec<Trial>,
}

/// One of the two policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// Name of the policy.
    pub policy: String,
    /// Mean of the figure.
    pub mean: f64,
}

/// A switch in which the policies differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Switch {
    /// Section and key.
    pub path: String,
    /// A's value.
    pub from: String,
    /// B's value.
    pub to: String,
    /// When the newer of the two values came: "came with 5.9".
    pub came: String,
    /// The part of the change that A makes with this switch alone.
    pub alone: Option<f64>,
    /// The part of the change that B loses without this switch.
    pub left_out: Option<f64>,
}

impl Switch {
    /// Alone or left out it makes a difference.
    fn does_something(&self) -> bool {
        [self.alone, self.left_out].iter().flatten().any(|part| part.abs() > LITTLE)
    }
}

/// A policy between the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Name of the trial: `+KEY` is A with that switch of B, `-KEY` is B with that switch of A.
    pub name: String,
    /// Switches that have B's value.
    pub with: Vec<String>,
    /// The figure for each seed; none: it has no value there.
    pub values: Vec<Option<f64>>,
    /// Its mean.
    pub mean: Option<f64>,
    /// The part of the change that it makes: 0 is A, 1 is B.
    pub part: Option<f64>,
    /// Its 95 % interval.
    pub part_limits: Option<(f64, f64)>,
}

impl Report {
    /// Builds the report from a finished search.
    pub(super) fn new(
        metric: &str,
        unit: &str,
        [from, to]: [String; 2],
        points: &[Difference],
        parts: &Parts,
        found: &Found,
    ) -> Report {
        let all = parts.all();
        let mean = |set: &[usize]| parts.mean(set).unwrap_or_default();
        let (change, change_limits) = parts.change(&all).unwrap_or_default();
        let path = |&at: &usize| points[at].path.clone();
        let is_searched = *found != Found::NoChange;
        let known = |set: &[usize], value: f64| parts.part(set).is_some().then_some(value);
        let switch = |at: usize| {
            let (alone, left_out) = parts.of_one(at);
            Switch {
                path: points[at].path.clone(),
                from: points[at].from.to_string(),
                to: points[at].to.to_string(),
                came: came(&points[at]).to_string(),
                alone: known(&[at], alone).filter(|_| is_searched),
                left_out: known(&parts.without(&[at]), left_out).filter(|_| is_searched),
            }
        };
        let trial = |set: &Vec<usize>| {
            let (part, part_limits) = parts.part(set).unzip();
            Trial {
                name: match set.len() {
                    0 => from.clone(),
                    n if n == points.len() => to.clone(),
                    _ => label(points, set),
                },
                with: set.iter().map(path).collect(),
                values: parts.raw(set),
                mean: parts.mean(set),
                part,
                part_limits: part_limits.flatten(),
            }
        };
        let (mut answer, or) = match found {
            Found::NoChange => (Vec::new(), Vec::new()),
            Found::One(one, others) => (vec![*one], others.clone()),
            Found::Together(set) => (set.clone(), Vec::new()),
        };
        let ranked = parts.ranked();
        answer.sort_by_key(|at| ranked.iter().position(|known| known == at));
        let left_without = parts.part(&parts.without(&answer)).map(|(part, _)| part);
        let mut report = Report {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            from: End { policy: from.clone(), mean: mean(&[]) },
            to: End { policy: to.clone(), mean: mean(&all) },
            change,
            change_limits,
            is_significant: is_searched,
            answer: answer.iter().map(path).collect(),
            or: or.iter().map(path).collect(),
            left_without: left_without.filter(|_| is_searched && answer.len() < points.len()),
            switches: ranked.iter().map(|&at| switch(at)).collect(),
            trials: parts.sets().into_iter().map(trial).collect(),
            ..Report::default()
        };
        let came: Vec<Came> = answer.iter().map(|&at| came(&points[at])).collect();
        let of_answer = {
            let mut set = answer.clone();
            set.sort_unstable();
            parts.part(&set)
        };
        report.sentence = report.say(&came, of_answer.map(|(part, _)| part));
        report
    }

    /// "goes from A's value to B's", in words.
    pub(super) fn goes(&self) -> String {
        let value = |end: &End| format!("{} ({})", value_text(end.mean, &self.unit), end.policy);
        format!("`{}` goes from {} to {}", self.metric, value(&self.from), value(&self.to))
    }

    /// The sentence.
    fn say(&self, came: &[Came], part: Option<f64>) -> String {
        let goes = self.goes();
        if !self.is_significant {
            let value = |value| value_text(value, &self.unit);
            let between = match self.change_limits {
                Some((low, high)) => {
                    format!("the change is between {} and {} (95 %)", value(low), value(high))
                }
                None => "the change has no interval".to_owned(),
            };
            return match self.change_limits {
                Some((0.0, 0.0)) => format!("{goes}: it does not change."),
                _ => format!("{goes}, which may be chance: {between}."),
            };
        }
        let [names @ .., last] = &self.answer[..] else { return format!("{goes}.") };
        let quoted = |name: &String| format!("`{name}`");
        let list = |names: &[String]| names.iter().map(quoted).collect::<Vec<_>>().join(", ");
        let needs = match (names, &self.or[..], self.switches.len()) {
            (_, _, 1) => format!("the policies differ in {} alone", quoted(last)),
            ([], [], _) => format!("it needs {} alone", quoted(last)),
            ([], or, _) => format!("each of {} and {} does it alone", list(or), quoted(last)),
            ([one], ..) => {
                format!("it needs {} and {}, neither alone does it", quoted(one), quoted(last))
            }
            (names, _, all) if names.len() + 1 == all => {
                format!("it needs all {all} switches that differ, no fewer of those tried do it")
            }
            _ => format!(
                "it needs {} and {}, none of them can be missing",
                list(names),
                quoted(last)
            ),
        };
        let more = match (part, self.left_without) {
            (Some(part), _) if part > MORE => {
                let percent = 100.0 * part;
                format!(" ({percent:.0} % of the change: others take some of it back)")
            }
            (_, Some(left)) if left > LEFT && self.or.is_empty() => {
                let percent = 100.0 * left;
                format!(
                    " (without, {percent:.0} % of the change is left: others do some of it, too)"
                )
            }
            _ => String::new(),
        };
        format!("{goes}: {needs}{more}; {}.", self.say_came(came))
    }

    /// The kernel versions that introduced the answer's switches.
    fn say_came(&self, came: &[Came]) -> String {
        let [first, rest @ ..] = came else { return String::new() };
        // The answer's switches are alternatives: the sentence must hold for each.
        if !self.or.is_empty() || self.answer.len() > 4 {
            let of: Vec<String> = self
                .answer
                .iter()
                .chain(&self.or)
                .take(4)
                .filter_map(|path| self.switches.iter().find(|switch| switch.path == *path))
                .map(|switch| format!("`{}` {}", switch.path, switch.came))
                .collect();
            return of.join(", ");
        }
        match (rest, rest.iter().all(|other| other == first)) {
            ([], _) => format!("it {first}"),
            ([_], true) => format!("both {first}").replace("both is ", "both are "),
            (_, true) => format!("all {first}").replace("all is ", "all are "),
            _ => {
                let all = self.answer.iter().zip(came);
                let all: Vec<String> = all.map(|(path, came)| format!("`{path}` {came}")).collect();
                all.join(", ")
            }
        }
    }

    /// The trials that matter most: both ends, single switches with an effect, and the answer.
    pub fn table(&self) -> Table {
        let nr = self.switches.len();
        let title = format!(
            "{} on {}: {} of {}, {}",
            self.experiment,
            self.machine,
            count(self.trials.len(), "trial"),
            count(self.seeds.len(), "seed"),
            if nr == 1 { "of 1 switch".to_owned() } else { format!("between {nr} switches") }
        );
        let heads = ["mean", "part of the change", "95 % interval"].map(str::to_owned).to_vec();
        let mut table = Table::new(title, &["policy"], heads, Layout::Fitted);
        let shown = self.shown();
        for trial in &shown {
            let text = |value: Option<String>| value.map_or(Cell::Missing, Cell::text);
            let percent = |part: f64| format!("{:.0} %", 100.0 * part + 0.0);
            let limits = trial.part_limits.filter(|_| !trial.with.is_empty());
            table.push(
                &[&trial.name],
                vec![
                    text(trial.mean.map(|mean| value_text(mean, &self.unit))),
                    text(trial.part.map(|part| percent(part).replace("-0 %", "0 %"))),
                    text(
                        limits.map(|(low, high)| format!("{} .. {}", percent(low), percent(high))),
                    ),
                ],
            );
        }
        if self.trials.len() > shown.len() {
            let rest = self.trials.len() - shown.len();
            table.notes.push(format!("{}; --format json has all", count(rest, "more trial")));
        }
        let legend =
            "+KEY: the first policy with that switch of the last; -KEY: the last one without it";
        table.notes.push(legend.to_owned());
        table.notes.push(format!("enough: at least {:.0} % of the change", 100.0 * ENOUGH));
        table
    }

    fn shown(&self) -> Vec<&Trial> {
        let nr = self.switches.len();
        let find = |is_it: &dyn Fn(&Vec<String>) -> bool| {
            self.trials.iter().position(|trial| is_it(&trial.with))
        };
        let mut paths: Vec<&String> = self.answer.iter().chain(&self.or).collect();
        let nr_paths = SHOWN.max(paths.len().min(SHOWN + 2));
        for switch in self.switches.iter().filter(|switch| switch.does_something()) {
            if !paths.contains(&&switch.path) {
                paths.push(&switch.path);
            }
        }
        let mut shown = vec![find(&Vec::is_empty)];
        for path in paths.into_iter().take(nr_paths) {
            shown.push(find(&|with| with.len() == 1 && with[0] == *path));
            shown.push(find(&|with| with.len() + 1 == nr && !with.contains(path)));
        }
        let answer = &self.answer;
        shown.push(find(&|with| {
            with.len() == answer.len() && answer.iter().all(|path| with.contains(path))
        }));
        shown.push(find(&|with| {
            with.len() + answer.len() == nr && !answer.iter().any(|path| with.contains(path))
        }));
        let last = find(&|with| with.len() == nr);
        let mut once: Vec<usize> = Vec::new();
        for at in shown.into_iter().flatten().filter(|&at| Some(at) != last).chain(last) {
            if !once.contains(&at) {
                once.push(at);
            }
        }
        once.into_iter().map(|at| &self.trials[at]).collect()
    }

    /// Suggested next commands, one per line, with the job named as the user named it.
    pub fn next(&self, job: &str) -> Vec<String> {
        let (from, to) = (&self.from.policy, &self.to.policy);
        if !self.is_significant {
            return vec![
                "More seeds (--seeds) tell a small change from chance; a figure of more operations varies less."
                    .to_owned(),
            ];
        }
        let set: Vec<String> = self
            .answer
            .iter()
            .filter_map(|path| self.switches.iter().find(|switch| switch.path == *path))
            .take(4)
            .map(|switch| format!("--set policy.{}={}", switch.path, switch.to))
            .collect();
        vec![
            format!("What they decide: highwater show policy {to} --against {from}"),
            format!(
                "Where the time goes: highwater explain {job} --policy {from} {}",
                set.join(" ")
            ),
        ]
    }

    /// As JSON.
    pub fn json(&self) -> String {
        // Plain values: it cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
