//! Halving a range.

/// What a search ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The least that was good, and the most below it that was not.
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

/// Halves a range until it is no wider than `within` of its upper end, in steps of `grain`; `is_good` is asked at each
/// point once.
///
/// # Errors
/// As `is_good`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
