//! Statistics of a table by style: which rows, their names and their formulas
//! (rules/mmtests-tables#row-sets, rules/statistics#means).
//!
//! Key types: [`Statistic`] (one row), [`Rules`] (style, direction and table type together).
//! Neighbours: [`compare`] makes the table, [`published`] reads labels back.
//!
//! [`compare`]: crate::compare
//! [`published`]: crate::published

use highwater_results::{Better, Metric, TableKind};

use crate::Style;
use crate::stats::{Sorted, quantile, summary};

/// One row of a comparison table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Numerically smallest sample.
    Min,
    /// Percentile: the sample that this percentage of the samples does not exceed, counted from the
    /// best.
    Percentile(u8),
    /// Numerically largest sample.
    Max,
    /// Arithmetic mean, or harmonic where higher is better.
    Mean,
    /// Standard deviation.
    Stddev,
    /// Deviation in percent of the mean.
    CoeffVar,
    /// Mean of this share, in percent, of the best samples.
    BestMean(u8),
}

/// The style, direction and table kind that decide rows, names and formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Period of mmtests.
    pub style: Style,
    /// Direction.
    pub better: Better,
    /// Row set.
    pub kind: TableKind,
}

use Statistic::{BestMean, CoeffVar, Max, Mean, Min, Percentile, Stddev};

impl Rules {
    /// The rules for a metric.
    pub fn of(metric: &Metric, style: Style) -> Rules {
        Rules { style, better: metric.better, kind: metric.table }
    }

    /// The full row set, in order.
    pub fn rows(&self) -> Vec<Statistic> {
        let quartiles = [Percentile(25), Percentile(50), Percentile(75)];
        let mut rows = vec![Min];
        match (self.kind, self.style) {
            (TableKind::Single, _) => rows = vec![Mean],
            (TableKind::MinMeanMax, _) => rows.extend([Mean, Max]),
            (TableKind::VariableTime, Style::Y2015) => {
                rows.extend(quartiles);
                rows.extend([90, 93, 95, 99].map(Percentile));
                rows.extend([Max, Mean]);
                rows.extend([99, 95, 90, 50, 10, 5, 1].map(BestMean));
            }
            (TableKind::VariableTime, _) => {
                rows.extend(quartiles);
                rows.extend([1, 5, 10, 90, 95, 99].map(Percentile));
                rows.extend([Max, Mean, Stddev, CoeffVar]);
                rows.extend([99, 95, 90, 75, 50, 25].map(BestMean));
            }
            (TableKind::Multi, style) => {
                rows.extend([Mean, Stddev, CoeffVar, Max]);
                match style {
                    Style::Y2015 => {}
                    Style::Y2021 => rows.extend([50, 95, 99].map(BestMean)),
                    Style::Y2026 => rows.push(BestMean(95)),
                }
            }
        }
        rows
    }

    /// Name of a statistic.
    pub fn label(&self, statistic: Statistic) -> String {
        let kind = if self.harmonic() { 'H' } else { 'A' };
        let deviation = if self.harmonic() && self.style == Style::Y2026 { "H" } else { "" };
        match (statistic, self.style) {
            (Min, _) => "Min".to_owned(),
            (Max, _) => "Max".to_owned(),
            (Percentile(p), Style::Y2026) => format!("Pctile.{p}"),
            (Percentile(25), _) => "1st-qrtle".to_owned(),
            (Percentile(50), _) => "2nd-qrtle".to_owned(),
            (Percentile(75), _) => "3rd-qrtle".to_owned(),
            (Percentile(p), Style::Y2015) => format!("Max-{p}%"),
            (Percentile(p), Style::Y2021) => format!("Max-{p}"),
            (Mean, _) if self.plain_mean() => "Mean".to_owned(),
            (Mean, _) => format!("{kind}mean"),
            (Stddev, _) => format!("{deviation}Stddev"),
            (CoeffVar, _) => format!("{deviation}CoeffVar"),
            (BestMean(p), Style::Y2015) => format!("Best{p}%Mean"),
            (BestMean(p), Style::Y2021) => format!("B{kind}mean-{p}"),
            (BestMean(p), Style::Y2026) => format!("B{kind}mean.{p}"),
        }
    }

    /// Value of a statistic; `None` where the samples do not define it.
    pub fn value(&self, statistic: Statistic, samples: &Sorted) -> Option<f64> {
        let all = samples.best_first();
        match (statistic, self.style) {
            (Min, _) => samples.min(),
            (Max, _) => samples.max(),
            (Percentile(p), Style::Y2015) => quantile::percentile_2015(samples, p),
            (Percentile(p), _) => quantile::percentile(samples, p),
            (Mean, _) => self.mean(all),
            (Stddev, Style::Y2015) => summary::stddev_population(all),
            (Stddev, Style::Y2026) if self.harmonic() => summary::stddev_harmonic(all),
            (Stddev, _) => summary::stddev_sample(all),
            (CoeffVar, style) => {
                let shown =
                    if style == Style::Y2026 { self.mean(all)? } else { summary::amean(all)? };
                (shown != 0.0).then_some(100.0 * self.value(Stddev, samples)? / shown)
            }
            (BestMean(p), Style::Y2015) => quantile::best_mean_2015(samples, p),
            (BestMean(p), _) if self.harmonic() => quantile::best_hmean(samples, p),
            (BestMean(p), _) => quantile::best_amean(samples, p),
        }
    }

    /// Direction of a statistic: deviations are always better when lower.
    pub fn direction(&self, statistic: Statistic) -> Better {
        match statistic {
            Stddev | CoeffVar => Better::Lower,
            _ => self.better,
        }
    }

    /// True if this row carries the asterisks (rules/statistics#mark).
    pub fn carries_mark(&self, statistic: Statistic) -> bool {
        match (self.style, self.kind) {
            (Style::Y2015, _) | (_, TableKind::Single | TableKind::MinMeanMax) => false,
            (Style::Y2026, TableKind::VariableTime) => statistic == Percentile(95),
            _ => statistic == Mean,
        }
    }

    /// True if a value of this statistic is a harmonic mean, undefined for samples that are not
    /// positive.
    pub fn is_harmonic(&self, statistic: Statistic) -> bool {
        self.harmonic()
            && match statistic {
                Mean => true,
                BestMean(_) => self.style != Style::Y2015,
                _ => false,
            }
    }

    /// The statistic that a published label names, in whatever style.
    pub fn parse_label(label: &str) -> Option<Statistic> {
        let number = |text: &str| text.trim_end_matches('%').parse().ok();
        match label {
            "Min" => Some(Min),
            "Max" => Some(Max),
            "Mean" | "Amean" | "Hmean" => Some(Mean),
            "Stddev" | "HStddev" => Some(Stddev),
            "CoeffVar" | "HCoeffVar" => Some(CoeffVar),
            "1st-qrtle" => Some(Percentile(25)),
            "2nd-qrtle" => Some(Percentile(50)),
            "3rd-qrtle" => Some(Percentile(75)),
            _ => {
                if let Some(percent) =
                    label.strip_prefix("Max-").or_else(|| label.strip_prefix("Pctile."))
                {
                    return number(percent).map(Percentile);
                }
                if let Some(percent) =
                    label.strip_prefix("Best").and_then(|rest| rest.strip_suffix("Mean"))
                {
                    return number(percent).map(BestMean);
                }
                let rest = label.strip_prefix("BAmean").or_else(|| label.strip_prefix("BHmean"))?;
                number(rest.strip_prefix(['-', '.'])?).map(BestMean)
            }
        }
    }

    /// The mean of the table: harmonic where higher is better, but arithmetic under the plain name
    /// `Mean`.
    pub fn mean(&self, values: &[f64]) -> Option<f64> {
        if self.harmonic() { summary::hmean(values) } else { summary::amean(values) }
    }

    fn harmonic(&self) -> bool {
        self.better == Better::Higher && !self.plain_mean() && self.kind != TableKind::Single
    }

    fn plain_mean(&self) -> bool {
        self.kind == TableKind::MinMeanMax
            || (self.kind == TableKind::VariableTime && self.style == Style::Y2015)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(style: Style, better: Better, kind: TableKind) -> Vec<String> {
        let rules = Rules { style, better, kind };
        rules.rows().into_iter().map(|row| rules.label(row)).collect()
    }

    #[test]
    fn row_sets_by_style_and_table() {
        assert_eq!(
            labels(Style::Y2015, Better::Lower, TableKind::VariableTime).join(" "),
            "Min 1st-qrtle 2nd-qrtle 3rd-qrtle Max-90% Max-93% Max-95% Max-99% Max Mean Best99%Mean Best95%Mean \
             Best90%Mean Best50%Mean Best10%Mean Best5%Mean Best1%Mean"
        );
        assert_eq!(
            labels(Style::Y2021, Better::Lower, TableKind::VariableTime).join(" "),
            "Min 1st-qrtle 2nd-qrtle 3rd-qrtle Max-1 Max-5 Max-10 Max-90 Max-95 Max-99 Max Amean Stddev CoeffVar \
             BAmean-99 BAmean-95 BAmean-90 BAmean-75 BAmean-50 BAmean-25"
        );
        assert_eq!(
            labels(Style::Y2026, Better::Lower, TableKind::VariableTime)[..4].join(" "),
            "Min Pctile.25 Pctile.50 Pctile.75"
        );
        assert_eq!(
            labels(Style::Y2021, Better::Higher, TableKind::Multi).join(" "),
            "Min Hmean Stddev CoeffVar Max BHmean-50 BHmean-95 BHmean-99"
        );
        assert_eq!(
            labels(Style::Y2026, Better::Higher, TableKind::Multi).join(" "),
            "Min Hmean HStddev HCoeffVar Max BHmean.95"
        );
        assert_eq!(
            labels(Style::Y2015, Better::Lower, TableKind::Multi).join(" "),
            "Min Amean Stddev CoeffVar Max"
        );
        assert_eq!(
            labels(Style::Y2021, Better::Higher, TableKind::MinMeanMax).join(" "),
            "Min Mean Max"
        );
    }

    #[test]
    fn every_label_can_be_read_back() {
        for style in [Style::Y2015, Style::Y2021, Style::Y2026] {
            for better in [Better::Lower, Better::Higher] {
                for kind in [TableKind::Multi, TableKind::VariableTime, TableKind::MinMeanMax] {
                    let rules = Rules { style, better, kind };
                    for row in rules.rows() {
                        assert_eq!(Rules::parse_label(&rules.label(row)), Some(row));
                    }
                }
            }
        }
        assert_eq!(Rules::parse_label("Gmean"), None);
        assert_eq!(Rules::parse_label("Max-x"), None);
    }
}
