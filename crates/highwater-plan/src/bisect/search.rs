//! The search among sets of switches; it does not depend on what is measured.

use std::collections::BTreeMap;

use highwater_report::stats::paired::Paired;

/// A set is enough if it makes at least this part of the change.
pub const ENOUGH: f64 = 0.8;
/// Switches that make less of the change than this, both alone and left out, are not tried in
/// pairs.
pub(super) const LITTLE: f64 = 0.02;
/// Most switches of which all pairs are tried.
const PAIRED_MAX: usize = 8;

/// Numbers of the switches that have B's value, ascending; all others have A's.
pub type Set = Vec<usize>;

/// Measurements: for each set, the metric in each seed. All sets have the same seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    values: BTreeMap<Set, Vec<Option<f64>>>,
    nr_switches: usize,
}

impl Parts {
    /// No measurements yet, for this number of switches.
    pub fn new(nr_switches: usize) -> Parts {
        Parts { values: BTreeMap::new(), nr_switches }
    }

    /// The number of switches.
    pub fn nr_switches(&self) -> usize {
        self.nr_switches
    }

    /// Adds the measurement of a set.
    pub fn add(&mut self, set: Set, values: Vec<Option<f64>>) {
        self.values.insert(set, values);
    }

    /// The measured sets, smallest first.
    pub fn sets(&self) -> Vec<&Set> {
        let mut sets: Vec<&Set> = self.values.keys().collect();
        sets.sort_by_key(|set| set.len());
        sets
    }

    /// All switches.
    pub fn all(&self) -> Set {
        (0..self.nr_switches).collect()
    }

    /// All but these.
    pub fn without(&self, set: &[usize]) -> Set {
        (0..self.nr_switches).filter(|at| !set.contains(at)).collect()
    }

    /// The figure of a set in each seed.
    pub fn values(&self, set: &[usize]) -> Option<Vec<f64>> {
        self.values.get(set)?.iter().copied().collect()
    }

    /// The same, where some seeds may have no value.
    pub(super) fn raw(&self, set: &[usize]) -> Vec<Option<f64>> {
        self.values.get(set).cloned().unwrap_or_default()
    }

    /// The mean of a set; `None` if the set was not measured, or has no value in a seed.
    pub fn mean(&self, set: &[usize]) -> Option<f64> {
        let values = self.values(set).filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// How far the metric moves from A to a set, with its 95 % interval.
    pub fn change(&self, set: &[usize]) -> Option<(f64, Option<(f64, f64)>)> {
        self.scaled(set, 1.0)
    }

    /// The part of the whole change that a set makes, with its 95 % interval.
    pub fn part(&self, set: &[usize]) -> Option<(f64, Option<(f64, f64)>)> {
        let whole = self.mean(&self.all())? - self.mean(&[])?;
        if whole == 0.0 { None } else { self.scaled(set, whole) }
    }

    fn scaled(&self, set: &[usize], unit: f64) -> Option<(f64, Option<(f64, f64)>)> {
        let pairs: Vec<(f64, f64)> = self.values(&[])?.into_iter().zip(self.values(set)?).collect();
        let change = Paired::default().change_of_means(&pairs, |a, b| (b - a) / unit)?;
        Some((change.point, change.limits))
    }

    /// Whether the change from A to B is significant.
    pub fn is_changed(&self) -> bool {
        let limits = self.change(&self.all()).and_then(|(_, limits)| limits);
        limits.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    fn is_enough(&self, set: &[usize]) -> bool {
        self.part(set).is_some_and(|(part, _)| part >= ENOUGH)
    }

    /// The part that one switch makes alone, and the part that is lost without it.
    pub fn of_one(&self, at: usize) -> (f64, f64) {
        let part = |set: &[usize]| self.part(set).map(|(part, _)| part);
        (part(&[at]).unwrap_or(0.0), part(&self.without(&[at])).map_or(0.0, |part| 1.0 - part))
    }

    /// Switches, the largest effect first (alone or left out).
    pub fn ranked(&self) -> Vec<usize> {
        let weight = |at: usize| {
            let (alone, left_out) = self.of_one(at);
            alone.max(left_out)
        };
        let mut ranked = self.all();
        ranked.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)));
        ranked
    }

    /// Switches that are enough alone, the one nearest to the whole change first.
    pub fn enough_alone(&self) -> Vec<usize> {
        let mut alone: Vec<usize> = self.all();
        alone.retain(|&at| self.is_enough(&[at]));
        let far = |at: usize| (self.of_one(at).0 - 1.0).abs() - self.of_one(at).1;
        alone.sort_by(|&a, &b| far(a).total_cmp(&far(b)));
        alone
    }

    /// Switches without which almost nothing of the change is left.
    pub fn needed(&self) -> Set {
        (0..self.nr_switches).filter(|&at| self.of_one(at).1 >= ENOUGH).collect()
    }
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The metric does not differ significantly between A and B.
    NoChange,
    /// This switch is enough alone; so is each of the others.
    One(usize, Vec<usize>),
    /// These switches are enough together, and no smaller set is.
    Together(Set),
}

/// Searches. `measure` gets sets that are not measured yet, several at a time.
///
/// # Errors
/// The errors of `measure`.
pub fn find<E>(
    parts: &mut Parts,
    mut measure: impl FnMut(&mut Parts, Vec<Set>) -> Result<(), E>,
) -> Result<Found, E> {
    let mut need = |parts: &mut Parts, sets: Vec<Set>| {
        let mut news: Vec<Set> = Vec::new();
        for set in sets {
            if !parts.values.contains_key(&set) && !news.contains(&set) {
                news.push(set);
            }
        }
        if news.is_empty() { Ok(()) } else { measure(parts, news) }
    };
    let all = parts.all();
    need(parts, vec![Vec::new(), all.clone()])?;
    if !parts.is_changed() {
        return Ok(Found::NoChange);
    }
    // Measure each switch from both ends.
    let ones = all.iter().flat_map(|&at| [vec![at], parts.without(&[at])]).collect();
    need(parts, ones)?;
    let alone = parts.enough_alone();
    if let [first, others @ ..] = &alone[..] {
        let (first, others) = (*first, others.to_vec());
        need(parts, vec![parts.without(&[first])])?;
        return Ok(Found::One(first, others));
    }
    let together = together(parts, &mut need)?;
    need(parts, vec![parts.without(&together)])?;
    Ok(Found::Together(together))
}

/// No switch is enough alone: find the set that is.
fn together<E>(
    parts: &mut Parts,
    need: &mut impl FnMut(&mut Parts, Vec<Set>) -> Result<(), E>,
) -> Result<Set, E> {
    // Without any of these, B behaves like A. So every set that is enough contains all of them.
    let needed = parts.needed();
    if needed.len() > 1 {
        need(parts, vec![needed.clone()])?;
        if parts.is_enough(&needed) {
            return Ok(needed);
        }
    }
    let mut ranked = parts.ranked();
    ranked.retain(|&at| {
        let (alone, left_out) = parts.of_one(at);
        alone > LITTLE || left_out > LITTLE
    });
    let few = &ranked[..ranked.len().min(PAIRED_MAX)];
    let mut pairs: Vec<Set> = Vec::new();
    for (nr, &one) in few.iter().enumerate() {
        for &other in &few[nr + 1..] {
            let pair = vec![one.min(other), one.max(other)];
            if needed.iter().all(|at| pair.contains(at)) {
                pairs.push(pair);
            }
        }
    }
    need(parts, pairs.clone())?;
    let far = |set: &Set| parts.part(set).map_or(f64::MAX, |(part, _)| (part - 1.0).abs());
    pairs.retain(|pair| parts.is_enough(pair));
    pairs.sort_by(|a, b| far(a).total_cmp(&far(b)));
    if let Some(pair) = pairs.into_iter().next() {
        return Ok(pair);
    }
    // Start with the switches that have the largest effect, and add more until the set is enough.
    let mut set = parts.all();
    let mut nr = 3;
    while nr <= ranked.len() && ranked.len() < set.len() + 1 {
        let mut most: Set = ranked[..nr].to_vec();
        most.sort_unstable();
        need(parts, vec![most.clone()])?;
        if parts.is_enough(&most) {
            set = most;
            break;
        }
        if nr == ranked.len() {
            break;
        }
        nr = (nr * 2).min(ranked.len());
    }
    reduced(parts, need, set)
}

/// Delta debugging: drops switches that are not needed, first in halves, then in quarters, and so
/// on down to single switches.
fn reduced<E>(
    parts: &mut Parts,
    need: &mut impl FnMut(&mut Parts, Vec<Set>) -> Result<(), E>,
    mut set: Set,
) -> Result<Set, E> {
    let mut nr_chunks = 2;
    while set.len() > 2 {
        let size = set.len().div_ceil(nr_chunks);
        let rests: Vec<Set> = set
            .chunks(size)
            .map(|chunk| set.iter().copied().filter(|at| !chunk.contains(at)).collect())
            .collect();
        need(parts, rests.clone())?;
        let smaller = rests.into_iter().find(|rest| !rest.is_empty() && parts.is_enough(rest));
        match smaller {
            Some(smaller) => {
                set = smaller;
                nr_chunks = 2.max(nr_chunks - 1);
            }
            None if size == 1 => break,
            None => nr_chunks = (nr_chunks * 2).min(set.len()),
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search among `nr` switches. The metric of a set is `of`, plus some noise by seed.
    fn search(nr: usize, of: impl Fn(&[usize]) -> f64) -> (Found, Parts, usize) {
        let (mut parts, mut nr_trials) = (Parts::new(nr), 0);
        let found = find(&mut parts, |parts, sets| {
            for set in sets {
                nr_trials += 1;
                let value = of(&set);
                // Each seed adds the same noise to all sets, and each set adds a little of its own.
                let own = (set.iter().sum::<usize>() % 3) as f64 * 0.1;
                let seeds = (0..5).map(|seed| Some(value + f64::from(seed) + own)).collect();
                parts.add(set, seeds);
            }
            Ok::<_, ()>(())
        });
        (found.unwrap(), parts, nr_trials)
    }

    fn has(set: &[usize], all: &[usize]) -> bool {
        all.iter().all(|at| set.contains(at))
    }

    #[test]
    fn one_switch_is_found() {
        let (found, parts, nr) = search(12, |set| if has(set, &[7]) { 10.0 } else { 100.0 });
        assert_eq!(found, Found::One(7, Vec::new()));
        assert!((parts.of_one(7).0 - 1.0).abs() < 0.05 && (parts.of_one(7).1 - 1.0).abs() < 0.05);
        assert_eq!(nr, 2 + 2 * 12);
        // Two switches with the same effect: each is enough, and leaving out one changes nothing.
        let either =
            |set: &[usize]| if set.contains(&2) || set.contains(&5) { 10.0 } else { 100.0 };
        assert_eq!(search(8, either).0, Found::One(2, vec![5]));
    }

    #[test]
    fn two_that_need_each_other_are_found() {
        let (found, parts, nr) = search(12, |set| if has(set, &[3, 9]) { 10.0 } else { 100.0 });
        assert_eq!(found, Found::Together(vec![3, 9]));
        assert!(parts.of_one(3).0.abs() < 0.05 && parts.of_one(9).0.abs() < 0.05);
        // B needs these switches, so the search tried no pair.
        assert!(nr <= 2 + 24 + 2, "{nr}");
        // Two that add up.
        let sum = |set: &[usize]| {
            100.0
                - 40.0 * f64::from(u8::from(set.contains(&1)))
                - 50.0 * f64::from(u8::from(set.contains(&4)))
        };
        assert_eq!(search(6, sum).0, Found::Together(vec![1, 4]));
        // A pair in which another switch can replace one of the two.
        let spare = |set: &[usize]| {
            if set.contains(&0) && (set.contains(&3) || set.contains(&4)) { 10.0 } else { 100.0 }
        };
        assert!(
            matches!(search(9, spare).0, Found::Together(set) if set.len() == 2 && set[0] == 0)
        );
    }

    #[test]
    fn more_than_two_are_found() {
        let (found, ..) = search(14, |set| if has(set, &[2, 8, 11]) { 10.0 } else { 100.0 });
        assert_eq!(found, Found::Together(vec![2, 8, 11]));
        let thirds = |set: &[usize]| {
            100.0 - 30.0 * set.iter().filter(|at| [0, 6, 13].contains(at)).count() as f64
        };
        assert_eq!(search(14, thirds).0, Found::Together(vec![0, 6, 13]));
        // No switch has an effect alone, and none is missed alone: two of five are enough for each
        // half.
        let hidden = |set: &[usize]| {
            let of = |half: [usize; 3]| set.iter().filter(|at| half.contains(at)).count() >= 2;
            if of([0, 1, 2]) && of([3, 4, 5]) { 10.0 } else { 100.0 }
        };
        let Found::Together(set) = search(10, hidden).0 else { panic!("nothing") };
        assert_eq!(set.len(), 4, "{set:?}");
        assert!(hidden(&set) < 50.0);
    }

    #[test]
    fn chance_is_no_change() {
        let mut parts = Parts::new(3);
        let found = find(&mut parts, |parts, sets| {
            for set in sets {
                let sign = if set.is_empty() { 1.0 } else { -1.0 };
                let values = [3.0, -2.0, 1.5, -2.5, 0.5].map(|value| Some(100.0 + sign * value));
                parts.add(set, values.to_vec());
            }
            Ok::<_, ()>(())
        });
        assert_eq!(found, Ok(Found::NoChange));
        assert_eq!(parts.sets().len(), 2, "only the two ends ran");
    }

    #[test]
    fn a_set_without_a_value_is_not_enough() {
        let mut parts = Parts::new(2);
        let found = find(&mut parts, |parts, sets| {
            for set in sets {
                let value = if set == [0] { None } else { Some(100.0 - 10.0 * set.len() as f64) };
                parts.add(set, vec![value; 4]);
            }
            Ok::<_, ()>(())
        });
        assert_eq!(found, Ok(Found::Together(vec![0, 1])));
        assert_eq!(parts.part(&[0]), None);
    }
}
