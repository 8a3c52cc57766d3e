//! Published figures of a document's machines, beside our runs on them.
//!
//! Published columns belong to the experiment's own policies; runs of other policies have none.

use highwater_results::published::{Claim, PublishedError, PublishedHistogram};
use highwater_results::words::count;
use highwater_results::{
    ClaimBeside, Document, Histogram, MachineFigures, Metric, Postings, Published, Run, Section,
};

use crate::claims::Judged;
use crate::headline::{self, EQUAL_PERCENT, Figure, Leading, Verdict, headline as headline_table};
use crate::published::{Pairing, claimed, side_by_side};
use crate::repeats::Repeats;
use crate::table::{Cell, Layout, Table};

/// The published figures that the document names for a machine.
fn figures_of<'a>(document: &'a Document, machine: &str) -> Option<&'a MachineFigures> {
    document.published.iter().find(|figures| figures.name == machine)
}

/// The published column of a run's policy.
fn column(document: &Document, run: &Run) -> Option<usize> {
    document.published_policies.iter().position(|policy| *policy == run.policy)
}

/// Pairs each run with the published column of its policy.
fn pairs<'a>(document: &Document, runs: &[&'a Run]) -> Vec<Pairing<'a>> {
    let pair = |&run: &&'a Run| Some(Pairing { run, column: column(document, run)? });
    runs.iter().filter_map(pair).collect()
}

/// Our changes of a metric beside each published table of that metric.
///
/// # Errors
/// If the document names a table that was not published.
pub fn published(
    document: &Document,
    metric: &Metric,
    machine: &str,
    runs: &[&Run],
) -> Result<Vec<Table>, PublishedError> {
    let (known, postings) = (Published::load()?, Postings::load()?);
    let mut tables = Vec::new();
    let pairs = pairs(document, runs);
    for id in figures_of(document, machine).map_or(&[][..], |figures| &figures.published) {
        let table = known.table(id)?;
        if pairs.len() > 1 {
            tables.push(side_by_side(metric, &pairs, table, &postings));
        }
    }
    Ok(tables)
}

/// Our figures beside the published figures that the study is about. None if the document names
/// none for this machine, or if the policies are not the experiment's.
///
/// # Errors
/// If the document names a table or row that was not published.
pub fn headline(
    document: &Document,
    metric: &Metric,
    machine: &str,
    runs: &[&Run],
) -> Result<Option<Table>, PublishedError> {
    let known = Published::load()?;
    let figures = headline_figures(document, machine, &known)?;
    let pairs = headline_pairs(document, runs, &figures);
    let postings = Postings::load()?;
    Ok(pairs.map(|pairs| headline_table(metric, &pairs, &figures, &postings)))
}

/// The main figure of the study, for each run except the baseline. None if the document names none
/// for this machine, or if the policies are not the experiment's.
///
/// # Errors
/// If the document names a table or row that was not published.
pub(crate) fn leading(
    document: &Document,
    machine: &str,
    runs: &[&Run],
) -> Result<Vec<Leading>, PublishedError> {
    let known = Published::load()?;
    let figures = headline_figures(document, machine, &known)?;
    let pairs = headline_pairs(document, runs, &figures);
    let all = pairs.zip(document.metrics.first());
    Ok(all.map_or_else(Vec::new, |(pairs, metric)| headline::leading(metric, &pairs, &figures)))
}

/// The published figures that the study is about.
fn headline_figures<'a>(
    document: &Document,
    machine: &str,
    known: &'a Published,
) -> Result<Vec<Figure<'a>>, PublishedError> {
    let mut figures = Vec::new();
    for beside in figures_of(document, machine).map_or(&[][..], |figures| &figures.beside) {
        let table = known.table(&beside.table)?;
        let figure = Figure::find(table, &beside.row, &beside.operation);
        let figure = figure.ok_or_else(|| PublishedError::Unknown {
            what: "row",
            id: format!("{} {} {}", beside.table, beside.row, beside.operation),
            known: table.id.clone(),
        })?;
        figures.push(figure);
    }
    Ok(figures)
}

/// The runs that these figures belong to: only runs with a published column, the baseline first.
fn headline_pairs<'a>(
    document: &Document,
    runs: &[&'a Run],
    figures: &[Figure<'_>],
) -> Option<Vec<Pairing<'a>>> {
    let nr_columns = figures.iter().map(|f| f.table.columns.len()).min().unwrap_or(0);
    let mut pairs = pairs(document, runs);
    pairs.retain(|pair| pair.column < nr_columns);
    (pairs.len() > 1 && pairs[0].column == 0).then_some(pairs)
}

/// All published claims about a machine, each with ours.
///
/// Claims are the figures that the study is about, or what its tables show if it names none; single
/// figures; and how often the hottest block was used. A single figure has no direction: it is as
/// published, or not.
///
/// # Errors
/// If the document names something that was not published.
pub(crate) fn all_claims(
    document: &Document,
    machine: &str,
    runs: &[&Run],
) -> Result<Vec<Judged>, PublishedError> {
    let (known, postings) = (Published::load()?, Postings::load()?);
    let mut all = Vec::new();
    let figures = headline_figures(document, machine, &known)?;
    if let Some(metric) = document.metrics.first() {
        let pairs = pairs(document, runs);
        if let Some(pairs) = headline_pairs(document, runs, &figures) {
            all.extend(headline::judge(metric, &pairs, &figures, &postings));
        } else if pairs.len() > 1 {
            for id in figures_of(document, machine).map_or(&[][..], |figures| &figures.published) {
                all.extend(claimed(metric, &pairs, known.table(id)?, &postings));
            }
        }
    }
    if let Some(baseline) = runs.first().filter(|run| column(document, run) == Some(0)) {
        for (claim, ours) in single_claims(document, machine, runs, &known)? {
            let is_right = ours.and_then(|ours| is_as_claimed(claim, ours));
            let verdict = |is_right| Verdict { is_same_way: is_right, is_same_size: is_right };
            all.push(Judged {
                label: claim.what.clone(),
                run: baseline.label.clone(),
                table: String::new(),
                ours: [ours, None],
                theirs: [None; 2],
                text: format!("{} {}", claim.figure(), claim.unit),
                posted: Vec::new(),
                repeats: Repeats::Unknown,
                verdict: is_right.map(verdict),
            });
        }
    }
    for section in &document.sections {
        if let Section::Hottest { histogram } = section {
            all.extend(hottest_claims(document, histogram, machine, runs, &known)?);
        }
    }
    Ok(all)
}

/// How often the hottest block was used, for each run except the baseline.
fn hottest_claims(
    document: &Document,
    histogram: &str,
    machine: &str,
    runs: &[&Run],
    known: &Published,
) -> Result<Vec<Judged>, PublishedError> {
    let ids = figures_of(document, machine).map_or(&[][..], |figures| &figures.hottest);
    let mut hottest = Vec::new();
    for run in runs {
        let Some(id) = column(document, run).and_then(|column| ids.get(column)) else {
            continue;
        };
        let ours = run.histograms.iter().find(|h| h.name == histogram);
        let ours = ours.and_then(|h| top(h, 1).first().copied());
        let theirs = known.histogram(id)?.buckets.iter().map(|bucket| bucket.count).max();
        let value = |count: Option<u64>| count.map(|count| count as f64);
        hottest.push((run, id, value(ours), value(theirs)));
    }
    let Some(((_, _, our_base, their_base), others)) = hottest.split_first() else {
        return Ok(Vec::new());
    };
    let claim = |(run, id, ours, theirs): &(&&Run, &String, Option<f64>, Option<f64>)| {
        let (ours, theirs) = ([*our_base, *ours], [*their_base, *theirs]);
        let both = |[before, after]: [Option<f64>; 2]| before.zip(after);
        let verdict = both(ours).zip(both(theirs));
        Judged {
            label: "hottest block".to_owned(),
            run: run.label.clone(),
            table: (*id).clone(),
            ours,
            theirs,
            text: String::new(),
            posted: Vec::new(),
            repeats: Repeats::Unknown,
            verdict: verdict.and_then(|(ours, theirs)| Verdict::new(ours, theirs)),
        }
    };
    Ok(others.iter().map(claim).collect())
}

/// How long throttled tasks slept under each policy, with published delays beside ours. None if no
/// task was throttled and nothing was published.
///
/// # Errors
/// If the document names a histogram that was not published.
pub fn stalls(
    document: &Document,
    machine: &str,
    runs: &[&Run],
) -> Result<Option<Table>, PublishedError> {
    let wanted = figures_of(document, machine).map_or(&[][..], |figures| &figures.stalls);
    let known = Published::load()?;
    let mut with_published = Vec::new();
    for &run in runs {
        let of_run = wanted.iter().filter(|stall| stall.policy == run.policy);
        let histograms: Vec<&PublishedHistogram> =
            of_run.map(|stall| known.histogram(&stall.histogram)).collect::<Result<_, _>>()?;
        with_published.push((run, histograms));
    }
    let table = crate::stalls::table(&with_published);
    Ok((!table.rows.is_empty()).then_some(table))
}

/// Single published figures beside our baseline's figures. None if the document names none for this
/// machine.
///
/// # Errors
/// If the document names a figure that was not published.
pub fn claims(
    document: &Document,
    machine: &str,
    runs: &[&Run],
) -> Result<Option<Table>, PublishedError> {
    let known = Published::load()?;
    let claims = single_claims(document, machine, runs, &known)?;
    let Some(baseline) = runs.first().filter(|_| !claims.is_empty()) else { return Ok(None) };
    let mut table = Table::new(
        format!("Beside what was published of {}", baseline.label),
        &["figure"],
        ["ours", "published", "as published"].map(str::to_owned).to_vec(),
        Layout::Fitted,
    );
    let (mut nr_judged, mut nr_right) = (0, 0);
    for (claim, ours) in claims {
        let is_right = ours.and_then(|ours| is_as_claimed(claim, ours));
        nr_judged += u32::from(is_right.is_some());
        nr_right += u32::from(is_right == Some(true));
        let word = |is_right| Cell::text(if is_right { "yes" } else { "NO" });
        let label = format!("{} ({})", claim.what, claim.unit);
        table.push(
            &[&label],
            vec![
                ours.map_or(Cell::Missing, |ours| Cell::number(ours, 2)),
                Cell::text(claim.figure()),
                is_right.map_or(Cell::Missing, word),
            ],
        );
    }
    if nr_judged > 0 {
        table.notes.push(format!(
            "{nr_right} of {} as published: in the range, or within {EQUAL_PERCENT:.0} % of the figure",
            count(nr_judged, "figure")
        ));
    }
    Ok(Some(table))
}

/// Single figures published for a machine, each with the baseline's mean.
fn single_claims<'a>(
    document: &Document,
    machine: &str,
    runs: &[&Run],
    known: &'a Published,
) -> Result<Vec<(&'a Claim, Option<f64>)>, PublishedError> {
    let claims = figures_of(document, machine).map_or(&[][..], |figures| &figures.claims);
    let Some(baseline) = runs.first() else { return Ok(Vec::new()) };
    let of = |wanted: &ClaimBeside| {
        let claim = known.claim(&wanted.study, wanted.line, &wanted.unit)?;
        let values = baseline.values(&wanted.operation);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Ok((claim, (!values.is_empty()).then_some(mean * wanted.factor)))
    };
    claims.iter().map(of).collect()
}

/// Whether a figure lies in the published range, or close to the published figure. None if the
/// published text is not a number.
fn is_as_claimed(claim: &Claim, ours: f64) -> Option<bool> {
    let number = |text: &Option<String>| text.as_ref()?.trim().parse::<f64>().ok();
    let range = number(&claim.low).zip(number(&claim.high));
    let (low, high) = range.or_else(|| {
        let value = number(&claim.value)?;
        let about = value.abs() * EQUAL_PERCENT / 100.0;
        Some((value - about, value + about))
    })?;
    Some((low..=high).contains(&ours))
}

/// The hottest block of each policy, and how many blocks were in circulation. Published counts
/// stand beside ours where they exist. None if the baseline has no such histogram.
///
/// # Errors
/// If the document names a histogram that was not published.
pub fn hottest(
    document: &Document,
    histogram: &str,
    machine: &str,
    runs: &[&Run],
) -> Result<Option<Table>, PublishedError> {
    let known = Published::load()?;
    let ids = figures_of(document, machine).map_or(&[][..], |figures| &figures.hottest);
    let mut published = Vec::new();
    for run in runs {
        let id = column(document, run).and_then(|column| ids.get(column));
        published.push(id.map(|id| known.histogram(id)).transpose()?);
    }
    Ok(hottest_table(runs, histogram, &published))
}

fn hottest_table(
    runs: &[&Run],
    histogram: &str,
    published: &[Option<&PublishedHistogram>],
) -> Option<Table> {
    let of = |run: &Run| run.histograms.iter().find(|h| h.name == histogram).cloned();
    let first = of(runs.first()?)?;
    let baseline = top(&first, 1).first().copied().unwrap_or(0);
    let columns = ["hottest", "fifth", "blocks", "allocations", "times baseline", "published"];
    let mut table = Table::new(
        "Most used page frames: allocations of the hottest block".to_owned(),
        &["policy"],
        columns.iter().map(|&c| c.to_owned()).collect(),
        Layout::Fitted,
    );
    let published_top = |h: &PublishedHistogram| h.buckets.iter().map(|b| b.count).max();
    let published_base = published.first().copied().flatten().and_then(published_top);
    for (run, theirs) in runs.iter().zip(published) {
        let Some(histogram) = of(run) else { continue };
        let uses = top(&histogram, 5);
        let hottest = uses.first().copied().unwrap_or(0);
        let fifth = uses.last().copied().unwrap_or(0);
        let ratio = hottest as f64 / baseline.max(1) as f64;
        let theirs = theirs.and_then(published_top).zip(published_base);
        let theirs = theirs.map(|(top, base)| top as f64 / base as f64);
        let count = |n: u64| Cell::number(n as f64, 0);
        table.push(
            &[&run.label],
            vec![
                count(hottest),
                count(fifth),
                count(histogram.buckets.len() as u64),
                count(histogram.total),
                Cell::number(ratio, 1),
                theirs.map_or(Cell::Missing, |t| Cell::number(t, 1)),
            ],
        );
    }
    table.notes.push("blocks of order 3, first seed, measured phases only".to_owned());
    Some(table)
}

/// The `n` largest counts, descending.
fn top(histogram: &Histogram, n: usize) -> Vec<u64> {
    let mut counts: Vec<u64> = histogram.buckets.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.truncate(n);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_ranges_or_figures() {
        let text = |text: &str| Some(text.to_owned());
        let claim = |value: Option<String>, range: [Option<String>; 2]| {
            let [low, high] = range;
            let (seed, what, unit) = (String::new(), String::new(), String::new());
            Claim { seed, line: 1, what, unit, before: None, after: None, value, low, high }
        };
        let single = claim(text("2"), [None, None]);
        for (ours, expected) in [(1.79, false), (1.8, true), (2.2, true), (2.21, false)] {
            assert_eq!(is_as_claimed(&single, ours), Some(expected), "{ours}");
        }
        let range = claim(None, [text("35"), text("40")]);
        for (ours, expected) in [(34.9, false), (35.0, true), (40.0, true), (40.1, false)] {
            assert_eq!(is_as_claimed(&range, ours), Some(expected), "{ours}");
        }
        assert_eq!(is_as_claimed(&claim(text("a few"), [None, None]), 3.0), None);
    }
}
