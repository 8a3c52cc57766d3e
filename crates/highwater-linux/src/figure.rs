//! A figure of a real kernel beside the model's.

use serde::Serialize;

/// How near a figure has to be to the real one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Equal.
    Exact,
    /// At most this factor larger or smaller.
    Factor(f64),
    /// Within a share of the real figure, or within a number of events where that is more.
    Share {
        /// The share.
        share: f64,
        /// The number of events.
        events: u64,
    },
    /// Within this distance.
    Distance(f64),
    /// Shares in percent, within this many percentage points.
    Points(f64),
    /// Numbers of events: at most this factor larger or smaller, or as far away as chance brings so few.
    FactorOrChance(f64),
}

impl Limit {
    /// Is the model near enough?
    pub fn holds(self, real: u64, model: u64) -> bool {
        match self {
            Limit::Exact => real == model,
            Limit::Factor(factor) | Limit::FactorOrChance(factor) => {
                let (low, high) = (real.min(model) as f64, real.max(model) as f64);
                high <= low * factor
            }
            Limit::Share { share, events } => {
                let distance = real.abs_diff(model);
                distance <= events || distance as f64 <= real as f64 * share
            }
            Limit::Distance(most) | Limit::Points(most) => real.abs_diff(model) as f64 <= most,
        }
    }

    /// The limit in words.
    pub fn text(self) -> String {
        match self {
            Limit::Exact => "exact".to_owned(),
            Limit::Factor(factor) => format!("within a factor {factor}"),
            Limit::Share { share, events } => {
                format!("within {} % or {events} events", share * 100.0)
            }
            Limit::Distance(most) => format!("within {most:.0}"),
            Limit::Points(most) => format!("within {most:.0} points"),
            Limit::FactorOrChance(factor) => format!("within a factor {factor}, or chance"),
        }
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the figure, such as `node 0 DMA32: high`.
    pub field: String,
    /// Linux's value; text if the field is a list.
    pub real: String,
    /// The model's value.
    pub model: String,
    /// How near it has to be.
    pub limit: Limit,
    /// Whether the figure agrees.
    pub agrees: bool,
    /// The figure agrees only because a few events are always allowed; relative limits alone would
    /// not hold.
    #[serde(skip_serializing_if = "is_false")]
    pub only_by_events: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(is: &bool) -> bool {
    !*is
}

impl Figure {
    /// Compares two numbers.
    pub fn number(field: impl Into<String>, real: u64, model: u64, limit: Limit) -> Figure {
        let agrees = limit.holds(real, model);
        let (real, model) = (real.to_string(), model.to_string());
        let only_by_events = false;
        Figure { field: field.into(), real, model, limit, agrees, only_by_events }
    }

    /// Differs, or is near but not equal to something that happened.
    pub(crate) fn is_worth_a_line(&self) -> bool {
        let nothing = self.real == "0" && self.model == "0";
        !self.agrees || (self.limit != Limit::Exact && !nothing)
    }

    /// Compares two lists with one entry per zone. Kernels may have fewer or more zones than the
    /// model. The lists are equal if the longer one only repeats the last entry of the shorter one.
    pub fn entries(field: impl Into<String>, real: &[u64], model: &[u64]) -> Figure {
        let text = |list: &[u64]| list.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let nr = real.len().min(model.len());
        let rest = [&real[nr..], &model[nr..]].concat();
        let last = model[..nr].last().copied().unwrap_or(0);
        let goes_on = rest.iter().all(|entry| *entry == last);
        let shown = if goes_on && real[..nr] == model[..nr] { real } else { model };
        Figure::text(field, text(real), text(shown))
    }

    /// Compares two texts.
    pub fn text(field: impl Into<String>, real: String, model: String) -> Figure {
        let agrees = real == model;
        let (limit, only_by_events) = (Limit::Exact, false);
        Figure { field: field.into(), real, model, limit, agrees, only_by_events }
    }
}
