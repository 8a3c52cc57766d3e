//! `--vary KEY=A,B,..`: the points of a grid.
//!
//! A point is the experiment with `--set KEY=VALUE` for each key, so a key is one of `--set`. One more key,
//! [`MACHINE`], has machines for values; it varies slowest, wherever it stands. All points are resolved before the
//! first one runs, so a wrong value is refused at once. They run one after the other, each on all jobs, so results do
//! not depend on the number of jobs.

use std::fmt;

use super::PlanError;

/// Most points of a grid.
pub const POINTS_MAX: usize = 10_000;
/// The key whose values are machines, by name or file.
pub const MACHINE: &str = "machine";
/// Words that name no key, and the options that do what they ask for.
const NO_KEYS: [(&str, &str); 4] =
    [("seed", SEEDS), ("seeds", SEEDS), ("policy", POLICIES), ("policies", POLICIES)];
const SEEDS: &str =
    "every point runs the same seeds; --iterations N sets their number, --seed S the first";
const POLICIES: &str = "every point compares the same policies; name each with --policy";

/// A key and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// A key of `--set`, or [`MACHINE`].
    pub key: String,
    /// Its values, as `--set` takes them; a list has brackets. Of [`MACHINE`] names or files.
    pub values: Vec<String>,
}

impl fmt::Display for Factor {
    /// As `--vary` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.values.join(","))
    }
}

impl Factor {
    /// A key with these values.
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Factor {
        let value = |value: V| {
            let text: String = value.into();
            match parts(&text).len() {
                0 | 1 => text,
                _ => format!("[{text}]"),
            }
        };
        Factor { key: key.into(), values: values.into_iter().map(value).collect() }
    }

    /// Reads `KEY=A,B,..`. A value that is a list has brackets.
    ///
    /// # Errors
    /// If the text has another form, or a value comes twice.
    pub fn parse(text: &str) -> Result<Factor, PlanError> {
        let Some((key, list)) = text.split_once('=') else { return Err(no_factor(text)) };
        let factor = Factor::new(key.trim(), parts(list).iter().map(|value| value.trim()));
        factor.check(text)?;
        Ok(factor)
    }

    /// Refuses values that make no grid; `text` is the user's text.
    pub(super) fn check(&self, text: &str) -> Result<(), PlanError> {
        let Factor { key, values } = self;
        if key.is_empty() || values.is_empty() || values.iter().any(String::is_empty) {
            return Err(no_factor(text));
        }
        if let Some((_, instead)) = NO_KEYS.iter().find(|(name, _)| name == key) {
            return Err(PlanError::refused(format!("--vary {key}"), *instead));
        }
        for (at, value) in values.iter().enumerate() {
            if values[..at].contains(value) {
                let reason = format!("{value} comes twice");
                return Err(PlanError::refused(format!("--vary {text}"), reason));
            }
        }
        Ok(())
    }
}

/// A list's parts, between the commas outside brackets.
fn parts(list: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_u32;
    for letter in list.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (letter, parts.last_mut()) {
            (',', _) if depth == 0 => parts.push(String::new()),
            (_, Some(part)) => part.push(letter),
            (_, None) => {}
        }
    }
    parts
}

fn no_factor(text: &str) -> PlanError {
    PlanError::refused(format!("--vary {text}"), "must be KEY=VALUE,VALUE,..")
}

/// The factors in the order in which they vary, the slowest first: machines, then as they were given.
pub(super) fn slowest_first(factors: &[Factor]) -> Vec<Factor> {
    let (mut ordered, others): (Vec<_>, Vec<_>) =
        factors.iter().cloned().partition(|factor| factor.key == MACHINE);
    ordered.extend(others);
    ordered
}

/// Every combination, the last key's values next to each other.
pub(super) fn combinations(factors: &[Factor]) -> Result<Vec<Vec<String>>, PlanError> {
    for (at, factor) in factors.iter().enumerate() {
        factor.check(&factor.to_string())?;
        if factors[..at].iter().any(|other| other.key == factor.key) {
            let option = format!("--vary {}", factor.key);
            return Err(PlanError::refused(option, "is varied twice"));
        }
    }
    let sizes = factors.iter().map(|factor| factor.values.len());
    let size = sizes.fold(1_usize, usize::saturating_mul);
    if size > POINTS_MAX {
        let reason = format!("{size} points; {POINTS_MAX} at most");
        return Err(PlanError::refused("--vary", reason));
    }
    Ok(factors.iter().fold(vec![Vec::new()], |points, factor| {
        let with = |point: &Vec<String>| {
            let point = point.clone();
            factor
                .values
                .iter()
                .map(move |value| [&point[..], std::slice::from_ref(value)].concat())
        };
        points.iter().flat_map(with).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_at_commas_outside_brackets() {
        let values = |text: &str| Factor::parse(text).unwrap().values;
        assert_eq!(values("machine.memory=2G,4G, 8G"), ["2G", "4G", "8G"]);
        assert_eq!(values("unmap.processes=[1,2],[4]"), ["[1,2]", "[4]"]);
        // A program need not know that a list has brackets.
        let lists = Factor::new("unmap.processes", ["1,2", "[3]", "4"]);
        assert_eq!(lists.to_string(), "unmap.processes=[1,2],[3],4");
        let wrong = |text: &str| Factor::parse(text).unwrap_err().to_string();
        assert_eq!(wrong("x"), "--vary x: must be KEY=VALUE,VALUE,..");
        assert_eq!(wrong("x=1,,2"), "--vary x=1,,2: must be KEY=VALUE,VALUE,..");
        assert_eq!(wrong("x=1,1"), "--vary x=1,1: 1 comes twice");
    }

    #[test]
    fn every_combination_once() {
        let factors = ["a=1,2", "b=x,y,z"].map(|text| Factor::parse(text).unwrap());
        let points = combinations(&factors).unwrap();
        let texts: Vec<String> = points.iter().map(|point| point.concat()).collect();
        assert_eq!(texts, ["1x", "1y", "1z", "2x", "2y", "2z"]);
        let twice = ["a=1,2", "a=3"].map(|text| Factor::parse(text).unwrap());
        assert_eq!(combinations(&twice).unwrap_err().to_string(), "--vary a: is varied twice");
        let values: Vec<String> = (0..101).map(|n| n.to_string()).collect();
        let of = |key: &str| Factor { key: key.to_owned(), values: values.clone() };
        assert!(combinations(&[of("a"), of("b")]).is_err(), "10,201 points");
    }

    #[test]
    fn machines_vary_slowest_and_seeds_and_policies_are_options() {
        let factors = ["a=1,2", "machine=x,y"].map(|text| Factor::parse(text).unwrap());
        let keys = slowest_first(&factors).into_iter().map(|factor| factor.key);
        assert_eq!(keys.collect::<Vec<_>>(), ["machine", "a"]);
        let wrong = |text: &str| Factor::parse(text).unwrap_err().to_string();
        assert!(
            wrong("seed=1,2").starts_with("--vary seed: ")
                && wrong("seed=1").contains("--iterations N")
        );
        assert!(wrong("policy=5.4,6.1").ends_with("name each with --policy"));
        assert!(Factor::parse("policy.watermark.boost=true,false").is_ok());
    }
}
