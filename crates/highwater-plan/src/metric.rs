//! Metrics of a run, by name: objectives bound them (`fit`), and searches for a cause follow them
//! (`bisect`).
//!
//! | name | is, in each seed |
//! |---|---|
//! | `reader.get.p99`, `reader.p99`, `reader.get.rate` | a metric of a job's operation; the task's name is enough if it has one operation |
//! | `memory.some`, `io.full` | PSI as a share of the time, for jobs |
//! | `db.peak`, `db.oom-kills` | memory in MiB, and events, of a job's memory cgroup |
//! | `pgscan_direct`, `pgscan_direct+pgscan_kswapd` | growth of a `/proc/vmstat` counter, or the sum of several |
//! | `pgmajfault.rate` | the same for each second of the run |
//! | `time.system`, `time.user`, `time.elapsed` | seconds |
//! | `mmap-4`, `mmap-4.p99`, `mmap-4.max` | for other workloads: mean, percentile or maximum of an operation's samples |
//!
//! Key type: [`MetricName`].

use highwater_core::config::{KernelVersion, Policy};
use highwater_core::vmstat::since;
use highwater_report::stats::quantile::interpolated;
use highwater_results::{Better, Counters, Document, Run, SeedTotals};

use highwater_files::input::names::{nearest, unknown};
use highwater_files::machine_file::MachineFile;
use highwater_runs::workload::Job;
use highwater_runs::workload::job::{FIGURES, GROUP_TIMES, HITS, RATE as OF_ENDED};
use highwater_runs::workload::outcome::counter_names;

/// Suffix of a counter's name for its rate per second.
const RATE: &str = ".rate";
/// Times of a run.
const TIMES: [&str; 3] = ["time.system", "time.user", "time.elapsed"];
/// The largest sample.
const MAX: &str = "max";

/// The name of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricName {
    /// The name as written.
    pub text: String,
}

/// The figure of a name in a document.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    /// One sample a seed.
    Sample(String),
    /// A statistic of an operation's samples: the percentile at this share; `None`: the mean.
    Samples(String, Option<f64>),
    /// Counters together, for each second or for the run.
    Counters { names: String, is_rate: bool },
    /// A time, by its place in [`TIMES`].
    Time(usize),
}

impl MetricName {
    /// A name; whether the metric exists depends on the results.
    pub fn new(text: &str) -> MetricName {
        MetricName { text: text.trim().to_owned() }
    }

    /// Metric and source for a job's operation or a resource: `p99` and `reader.get`.
    pub fn of_operation(&self) -> Option<(&str, &'static str)> {
        // The longest that fits: p99.9 ends with a figure, too.
        let before = |figure: &str| self.text.strip_suffix(figure)?.strip_suffix('.');
        let fitting = FIGURES.iter().filter_map(|&figure| Some((before(figure)?, figure)));
        fitting.max_by_key(|(_, figure)| figure.len()).filter(|(of, _)| !of.is_empty())
    }

    /// Whether it can be a figure of a job: of an operation, a resource, a counter, or a time of the run.
    pub(crate) fn may_be_of_job(&self) -> bool {
        let names = self.text.strip_suffix(RATE).unwrap_or(&self.text);
        // A sum is one of counters.
        self.of_operation().is_some_and(|(of, _)| !of.contains('+'))
            || TIMES.contains(&&*self.text)
            || names.split('+').all(|name| counter_names().any(|known| known == name))
    }

    /// The names nearest to one that is of no figure, nearest first.
    pub(crate) fn nearest(&self) -> Vec<String> {
        let text = &*self.text;
        let (names, rate) = match text.strip_suffix(RATE) {
            Some(names) => (names, RATE),
            None => (text, ""),
        };
        // Of a sum, the first counter that is unknown.
        let is_known = |name: &str| counter_names().any(|known| known == name);
        let of = names.split('+').find(|name| !is_known(name)).unwrap_or(names);
        let counters = nearest(of, counter_names().chain(TIMES));
        let counters = counters.into_iter().map(|near| names.replacen(of, near, 1) + rate);
        let figures = text.match_indices('.').flat_map(|(at, _)| {
            let (operation, figure) = text.split_at(at + 1);
            nearest(figure, FIGURES).into_iter().map(move |near| format!("{operation}{near}"))
        });
        let is_counter = !names.contains('.');
        if is_counter { counters.collect() } else { figures.collect() }
    }

    /// The figure is a time in microseconds.
    pub fn is_time(&self) -> bool {
        // `p99`, but not `peak`.
        let is_percentile = |figure: &str| {
            figure
                .strip_prefix('p')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let is_time =
            |figure: &str| is_percentile(figure) || figure == MAX || GROUP_TIMES.contains(&figure);
        self.of_operation().is_some_and(|(_, figure)| is_time(figure))
    }

    /// Checks that a job with these metrics has this one.
    ///
    /// # Errors
    /// If it does not, or if several match.
    pub fn check(&self, metrics: &[highwater_results::Metric]) -> Result<(), String> {
        let mut document = Document::new("", "", "", 0);
        document.metrics = metrics.to_vec();
        self.source(&document).map(drop)
    }

    /// The unit of its values; empty for counts.
    pub fn unit(&self, document: &Document) -> String {
        match self.source(document) {
            Ok(Source::Sample(name) | Source::Samples(name, _)) => {
                table_of(document, &name).map(|metric| metric.unit.clone()).unwrap_or_default()
            }
            Ok(Source::Counters { is_rate: true, .. }) => "a second".to_owned(),
            Ok(Source::Time(_)) => "seconds".to_owned(),
            _ => String::new(),
        }
    }

    /// The better direction of its values; counters have none.
    pub fn better(&self, document: &Document) -> Better {
        match self.source(document) {
            Ok(Source::Sample(name) | Source::Samples(name, _)) => {
                table_of(document, &name).map_or(Better::Neither, |metric| metric.better)
            }
            Ok(Source::Time(_)) => Better::Lower,
            _ => Better::Neither,
        }
    }

    /// Whether the kernels of policies count it, in a job with these metrics.
    ///
    /// # Errors
    /// If one does not: which, and since when Linux does.
    pub fn check_counted<'a>(
        &self,
        job: &dyn Job,
        machines: &[MachineFile],
        policies: impl IntoIterator<Item = &'a (Policy, String)>,
    ) -> Result<(), String> {
        let mut document = Document::new("", "", "", 0);
        document.metrics = job.metrics(machines);
        // Other workloads name their operations only in results, and count them under every kernel.
        let Ok(source) = self.source(&document) else { return Ok(()) };
        let lacking = |kernel: KernelVersion| -> Option<(String, KernelVersion)> {
            match &source {
                Source::Sample(name) => {
                    let mut lacking = job.not_counted(kernel).into_iter();
                    lacking
                        .find(|(known, _)| known == name)
                        .map(|(_, since)| (self.text.clone(), since))
                }
                Source::Counters { names, .. } => {
                    let since = names.split('+').filter_map(|name| Some((name, since(name)?)));
                    let mut lacking = since.filter(|(_, since)| *since > kernel);
                    lacking.next().map(|(name, since)| (name.to_owned(), since))
                }
                Source::Samples(..) | Source::Time(_) => None,
            }
        };
        for (policy, label) in policies {
            if let Some((name, since)) = lacking(policy.counters()) {
                let next = "name another figure, or a policy whose kernel counts it";
                return Err(format!("{name} is not counted in {label} (since {since}); {next}"));
            }
        }
        Ok(())
    }

    /// Why the metric has no value in a seed of a run. A rate exists if an operation ended, or if
    /// arrivals were not served.
    pub(crate) fn why_none(&self, document: &Document, run: &Run) -> &'static str {
        let of = self.of_operation();
        let rate = of.map(|(of, _)| MetricName::new(&format!("{of}.{OF_ENDED}")));
        let rates = rate.and_then(|rate| rate.values(document, run).ok());
        match (rates, of) {
            (None, _) => "nothing was measured",
            (Some(rates), _) if rates.iter().any(Option::is_none) => "no operation ended",
            (_, Some((_, HITS))) => "no page was asked for",
            _ => "too many arrivals were never answered",
        }
    }

    /// Finds the figure of the name in a document.
    fn source(&self, document: &Document) -> Result<Source, String> {
        let text = &*self.text;
        if let Some(at) = TIMES.iter().position(|time| *time == text) {
            return Ok(Source::Time(at));
        }
        let all: Vec<&str> =
            document.metrics.iter().flat_map(|m| &m.operations).map(String::as_str).collect();
        let of_job = self.of_operation().map(|of| job_operation(of, &all)).transpose();
        if let Ok(Some(Some(name))) = of_job {
            return Ok(Source::Sample(name));
        }
        let samples = || document.runs.iter().flat_map(|run| run.operations());
        let (name, statistic) = match text.rsplit_once(".p") {
            Some((name, percent)) if percent.parse::<f64>().is_ok_and(|p| p <= 100.0) => {
                (name, percent.parse().ok().map(|percent: f64| percent / 100.0))
            }
            _ => match (text.strip_suffix(".max"), text.strip_suffix(".mean")) {
                (Some(name), _) => (name, Some(1.0)),
                (_, Some(name)) => (name, None),
                _ => (text, None),
            },
        };
        if samples().any(|known| known == name) {
            return Ok(Source::Samples(name.to_owned(), statistic));
        }
        let (names, is_rate) = match text.strip_suffix(RATE) {
            Some(names) => (names, true),
            None => (text, false),
        };
        let unknown_counter = names.split('+').find(|name| !is_counter(document, name));
        let Some(counter) = unknown_counter else {
            return Ok(Source::Counters { names: names.to_owned(), is_rate });
        };
        // Report the job's error if an operation has a similar name; otherwise try counters.
        of_job?;
        if let Some((of, figure)) = self.of_operation() {
            let names = operations(&all, None);
            let is_it = |name: &&str| *name == of || name.split('.').next() == Some(of);
            if let Some(name) = names.iter().find(|name| is_it(name)) {
                let has = |figure: &&str| all.contains(&format!("{name} {figure}").as_str());
                let figures: Vec<&str> = FIGURES.iter().copied().filter(has).collect();
                return Err(format!(
                    "{name} has no figure {figure}; it has {}",
                    figures.join(", ")
                ));
            }
            return Err(unknown("operation", of, &names));
        }
        // Before anything has run, too.
        let known: Vec<&str> = counter_names().collect();
        let figures = FIGURES.join(", ");
        let reason = match nearest(counter, known) {
            near if near.is_empty() => String::new(),
            near => format!("; did you mean {}?", near.join(" or ")),
        };
        Err(format!(
            "\"{text}\" is no figure{reason} (there are TASK.OP.FIGURE with {figures}; memory.some and \
             its like; counters of /proc/vmstat; {})",
            TIMES.join(", ")
        ))
    }

    /// The metric in each seed of a run; `None` without a value, for example if the operation never
    /// ended.
    ///
    /// # Errors
    /// If the document has no such metric, or several match.
    pub fn values(&self, document: &Document, run: &Run) -> Result<Vec<Option<f64>>, String> {
        let source = self.source(document)?;
        let of_seed = |seed: &u64| -> Option<f64> {
            let samples = |name: &str| -> Vec<f64> {
                let of = run.samples.iter().filter(|s| s.seed == *seed && s.operation == name);
                of.map(|sample| sample.value).collect()
            };
            let totals = || run.per_seed.iter().find(|totals| totals.seed == *seed);
            match &source {
                Source::Sample(name) => samples(name).first().copied(),
                Source::Samples(name, share) => {
                    let mut values = samples(name);
                    values.sort_by(f64::total_cmp);
                    match share {
                        Some(share) => interpolated(&values, *share),
                        None if values.is_empty() => None,
                        None => Some(values.iter().sum::<f64>() / values.len() as f64),
                    }
                }
                Source::Counters { names, is_rate } => totals().map(|totals| {
                    let sum = sum(&totals.counters, names);
                    if *is_rate { sum / seconds(totals) } else { sum }
                }),
                Source::Time(at) => totals().map(|SeedTotals { times, .. }| {
                    let all = [times.system_s(), times.user_s(), times.elapsed_s()];
                    all[*at]
                }),
            }
        };
        Ok(run.seeds.iter().map(of_seed).collect())
    }
}

/// The table that an operation belongs to.
fn table_of<'a>(document: &'a Document, name: &str) -> Option<&'a highwater_results::Metric> {
    let has = |metric: &&highwater_results::Metric| metric.operations.iter().any(|of| of == name);
    document.metrics.iter().find(has).or(document.metrics.first())
}

fn sum(counters: &Counters, names: &str) -> f64 {
    names.split('+').map(|name| counters.get(name) as f64).sum()
}

fn seconds(totals: &SeedTotals) -> f64 {
    totals.times.elapsed_s().max(1e-9)
}

/// Whether some kernel version has such a counter; it need not have moved.
fn is_counter(document: &Document, name: &str) -> bool {
    let moved = document.runs.iter().any(|run| run.counters.iter().any(|(known, _)| known == name));
    moved || counter_names().any(|known| known == name)
}

/// Operations of a job that have a figure, or any.
fn operations<'a>(all: &[&'a str], figure: Option<&str>) -> Vec<&'a str> {
    let of_figure = |name: &&'a str| -> Option<&'a str> {
        let (operation, of) = name.rsplit_once(' ')?;
        figure.is_none_or(|figure| figure == of).then_some(operation)
    };
    let mut names: Vec<&str> = all.iter().filter_map(of_figure).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The metric of a job's operation; `None` if no operation has that name.
fn job_operation((of, figure): (&str, &str), all: &[&str]) -> Result<Option<String>, String> {
    let names = operations(all, Some(figure));
    let named = |name: &str| Ok(Some(format!("{name} {figure}")));
    if names.contains(&of) {
        return named(of);
    }
    let mut fitting = names.iter().filter(|name| name.split('.').next() == Some(of));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => named(only),
        (Some(_), Some(_)) => {
            Err(format!("{of} has several operations; say which: {}", names.join(", ")))
        }
        (None, _) => Ok(None),
    }
}

/// A value as a reader has it, with its unit.
pub fn value_text(value: f64, unit: &str) -> String {
    let number = match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 1000.0 => thousands(value),
        small if small < 0.01 => format!("{value:.2e}"),
        _ => trimmed(format!("{value:.2}")),
    };
    match unit {
        // For "microseconds waited per process": the metric's name says what for.
        unit if unit.starts_with("microseconds") => time(value),
        unit if unit.starts_with("milliseconds") => time(value * 1e3),
        unit if unit.starts_with("seconds") => time(value * 1e6),
        "percent of the time" => format!("{number} % of the time"),
        "" => number,
        unit => format!("{number} {unit}"),
    }
}

/// A time in microseconds as a reader has it.
pub(crate) fn time(us: f64) -> String {
    let (value, unit) = match us.abs() {
        s if s >= 1e6 => (us / 1e6, "s"),
        ms if ms >= 1e3 => (us / 1e3, "ms"),
        us_ if us_ >= 1.0 || us_ == 0.0 => (us, "us"),
        _ => (us * 1e3, "ns"),
    };
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        _ => 2,
    };
    format!("{} {unit}", trimmed(format!("{value:.digits$}")))
}

/// Without trailing zeros.
fn trimmed(number: String) -> String {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number,
    }
}

/// With commas between thousands.
fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use highwater_results::{Metric, TableKind, Times};

    use super::*;

    fn document() -> Document {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        let mut metric = Metric::new("latency", "microseconds", Better::Lower, TableKind::Single);
        metric.operations =
            ["reader.get p99", "writer.put p99", "writer.sync p99"].map(str::to_owned).to_vec();
        document.metrics = vec![metric];
        let mut run = Run::new("m", "p", "p");
        run.seeds = vec![1, 2];
        run.push("reader.get p99", 0, 1, 7.0);
        [4.0, 1.0, 3.0, 2.0].into_iter().for_each(|value| run.push("mmap-4", 0, 1, value));
        for seed in [1, 2] {
            let times =
                Times { system_ns: 500_000_000, elapsed_ns: 2_000_000_000, ..Times::default() };
            let mut totals = SeedTotals { seed, times, ..SeedTotals::default() };
            totals.counters.set("pgscan_direct", 10 * seed as i64);
            totals.counters.set("pgscan_kswapd", 1);
            run.counters.merge(&totals.counters);
            run.per_seed.push(totals);
        }
        document.runs = vec![run];
        document
    }

    #[test]
    fn figures_have_names() {
        let document = document();
        let values = |name: &str| MetricName::new(name).values(&document, &document.runs[0]);
        assert_eq!(values("reader.get.p99"), Ok(vec![Some(7.0), None]));
        assert_eq!(values("reader.p99"), values("reader.get.p99"));
        assert_eq!(values("pgscan_direct"), Ok(vec![Some(10.0), Some(20.0)]));
        assert_eq!(values("pgscan_direct+pgscan_kswapd"), Ok(vec![Some(11.0), Some(21.0)]));
        assert_eq!(values("pgscan_direct.rate"), Ok(vec![Some(5.0), Some(10.0)]));
        assert_eq!(values("oom_kill"), Ok(vec![Some(0.0); 2]), "it stood still");
        assert_eq!(values("time.system"), Ok(vec![Some(0.5); 2]));
        assert_eq!(values("mmap-4"), Ok(vec![Some(2.5), None]));
        assert_eq!(values("mmap-4.p50"), Ok(vec![Some(2.5), None]));
        assert_eq!(values("mmap-4.max"), Ok(vec![Some(4.0), None]));
        let wrong = |name: &str| values(name).unwrap_err();
        assert!(wrong("writer.p99").contains("say which: reader.get, writer.put, writer.sync"));
        assert!(wrong("wroter.put.p99").contains("did you mean writer.put?"));
        assert!(
            wrong("pgscan_derict").contains("did you mean pgscan_direct"),
            "{}",
            wrong("pgscan_derict")
        );
    }

    #[test]
    fn counters_have_no_better_direction() {
        let document = document();
        let better = |name: &str| MetricName::new(name).better(&document);
        assert_eq!(better("reader.get.p99"), Better::Lower);
        assert_eq!(better("time.system"), Better::Lower);
        assert_eq!(better("pgscan_direct"), Better::Neither);
        assert_eq!(better("pgscan_direct.rate"), Better::Neither);
    }

    #[test]
    fn values_have_units() {
        let document = document();
        let text = |name: &str, value| value_text(value, &MetricName::new(name).unit(&document));
        assert_eq!(text("reader.get.p99", 3.81), "3.81 us");
        assert_eq!(text("reader.get.p99", 12_345.0), "12.3 ms");
        assert_eq!(text("reader.get.p99", 2_000_000.0), "2 s");
        assert_eq!(text("pgscan_direct", 1_234_567.0), "1,234,567");
        assert_eq!(text("pgscan_direct.rate", 2.5), "2.5 a second");
        assert_eq!(text("time.system", 0.25), "250 ms");
    }
}
