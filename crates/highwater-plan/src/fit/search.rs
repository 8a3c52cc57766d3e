//! Halving a range.

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The least good value, and the largest value below it that was not good.
    Between {
        /// It is not enough.
        bad: u64,
        /// It is.
        good: u64,
    },
    /// Even the least is enough.
    Least(u64),
    /// Not even the most is.
    Nothing(u64),
}

/// Halves a range until it is no wider than `within` of its upper end, in steps of `grain`.
/// `is_good` is called once per point.
///
/// # Errors
/// The errors of `is_good`.
pub fn search<E>(
    (from, to): (u64, u64),
    grain: u64,
    within: f64,
    mut is_good: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Found, E> {
    if !is_good(to)? {
        return Ok(Found::Nothing(to));
    }
    if is_good(from)? {
        return Ok(Found::Least(from));
    }
    let (mut bad, mut good) = (from, to);
    loop {
        let middle = (bad + (good - bad) / 2) / grain * grain;
        let is_narrow = (good - bad) as f64 <= within * good as f64;
        if is_narrow || middle <= bad || middle >= good {
            return Ok(Found::Between { bad, good });
        }
        match is_good(middle)? {
            true => good = middle,
            false => bad = middle,
        }
    }
}

/// Untried values above an answer, to check that they are good too: an eighth, a quarter and a half
/// more. If the least value was good and only the ends were tried, also the middle.
pub fn above(found: Found, to: u64, grain: u64, tried: &[u64]) -> Vec<u64> {
    let (good, is_least) = match found {
        Found::Between { good, .. } => (good, false),
        Found::Least(good) => (good, true),
        Found::Nothing(_) => return Vec::new(),
    };
    let mut values: Vec<u64> = [8, 4, 2].map(|part| good + good / part).to_vec();
    values.extend(is_least.then_some(good + (to.max(good) - good) / 2));
    let mut news: Vec<u64> = Vec::new();
    for value in values.into_iter().map(|value| value / grain * grain) {
        // A value within 1/32 of a tried one adds nothing.
        let is_near = |&known: &u64| known.abs_diff(value) <= value / 32;
        if value < to && !tried.iter().chain(&news).any(is_near) {
            news.push(value);
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_above_the_answer_lie_between_those_that_were_tried() {
        let found = Found::Between { bad: 799, good: 800 };
        assert_eq!(above(found, 4096, 1, &[4096, 2048, 1210, 800, 799]), [900, 1000]);
        assert_eq!(above(found, 950, 64, &[950, 800]), [896]);
        assert_eq!(above(Found::Least(64), 1024, 1, &[1024, 64]), [72, 80, 96, 544]);
        assert_eq!(above(Found::Least(0), 10, 1, &[10, 0]), [5]);
        assert_eq!(above(Found::Nothing(64), 64, 1, &[64]), [0; 0]);
    }

    #[test]
    fn a_range_is_halved() {
        let mut asked = Vec::new();
        let mut run = |range, grain, within| {
            asked.clear();
            let found = search(range, grain, within, |at| {
                asked.push(at);
                Ok::<_, ()>(at >= 300)
            });
            (found.unwrap(), asked.len())
        };
        let (found, count) = run((0, 1024), 1, 0.01);
        assert!(matches!(found, Found::Between { bad: 297..300, good: 300..303 }), "{found:?}");
        assert!(count < 12, "{count}");
        assert_eq!(run((0, 1024), 64, 0.0).0, Found::Between { bad: 256, good: 320 });
        assert_eq!(run((400, 1024), 1, 0.01), (Found::Least(400), 2));
        assert_eq!(run((0, 200), 1, 0.01), (Found::Nothing(200), 1));
    }
}
