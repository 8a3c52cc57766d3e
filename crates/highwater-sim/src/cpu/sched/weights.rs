//! Weights of nice values, virtual time, and parameters that grow with the number of CPUs
//! (rules/scheduler#weights, rules/scheduler#parameters).

use crate::cpu::Nice;

/// Weight by nice value, from -20 on.
#[doc(alias = "sched_prio_to_weight")]
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
/// The weight of nice 0: its virtual time is wall time.
const NICE_0: u32 = 1024;
/// Weights whose inverse the kernel's table rounds down; all others are rounded to nearest.
const ROUNDED_DOWN: [u32; 4] = [56, 45, 29, 23];

/// The weight of a task and its inverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    weight: u32,
    inverse: u32,
}

impl Weight {
    /// The weight of a nice value.
    pub(crate) fn of(nice: Nice) -> Weight {
        let weight = WEIGHTS[usize::from((nice.value() + 20).unsigned_abs())];
        let (whole, rest) = ((1 << 32) / u64::from(weight), (1 << 32) % u64::from(weight));
        let rounds_up = rest * 2 >= u64::from(weight) && !ROUNDED_DOWN.contains(&weight);
        Weight { weight, inverse: (whole + u64::from(rounds_up)) as u32 }
    }

    /// The weight itself, 1,024 for nice 0.
    pub(crate) fn get(self) -> u64 {
        u64::from(self.weight)
    }

    /// Virtual time of `ns` of run time; up to a few nanoseconds low.
    #[doc(alias = "calc_delta_fair")]
    pub(crate) fn fair(self, ns: u64) -> i64 {
        match self.weight {
            NICE_0 => ns as i64,
            _ => scale(ns, u64::from(NICE_0) * u64::from(self.inverse)) as i64,
        }
    }

    /// The share of this weight in `ns` that tasks of `total` weight divide; up to a few
    /// nanoseconds low.
    #[doc(alias = "__calc_delta")]
    pub(crate) fn part(self, ns: u64, total: u64) -> u64 {
        scale(ns, self.get() * (u64::from(u32::MAX) / total))
    }
}

/// `ns * factor / 2^32`, with as many bits of the factor as the kernel keeps (32).
fn scale(ns: u64, factor: u64) -> u64 {
    let spare = u64::BITS - (factor >> 32).leading_zeros();
    ((u128::from(ns) * u128::from(factor >> spare)) >> (32 - spare)) as u64
}

/// Factor of latency, granularities and base slice on a machine with `nr_cpus` CPUs.
#[doc(alias = "get_update_sysctl_factor")]
pub(crate) fn factor(nr_cpus: usize) -> u64 {
    1 + u64::from(nr_cpus.clamp(1, 8).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nice: i8) -> Weight {
        Weight::of(Nice::new(nice).expect("nice"))
    }

    #[test]
    fn inverses() {
        let inverse = |nice| of(nice).inverse;
        assert_eq!(
            [19, 10, 5, -5, -20, 13].map(inverse),
            [286_331_153, 39_045_157, 12_820_798, 1_376_151, 48_388, 76_695_844]
        );
    }

    #[test]
    fn virtual_time_of_a_millisecond_and_of_a_base_slice() {
        let nice = [19, 10, 5, -5, -20];
        assert_eq!(
            nice.map(|nice| of(nice).fair(1_000_000)),
            [68_266_666, 9_309_090, 3_056_716, 328_099, 11_536]
        );
        assert_eq!(
            nice.map(|nice| of(nice).fair(2_100_000)),
            [143_359_999, 19_549_090, 6_419_104, 689_009, 24_226]
        );
        assert_eq!(of(0).fair(123), 123);
    }

    #[test]
    fn parts_of_a_period() {
        assert_eq!(of(0).part(18_000_000, 2048), 8_999_995);
        assert_eq!(of(5).part(18_000_000, 1024 + 335), 4_437_086);
    }

    #[test]
    fn factors() {
        let factors: Vec<u64> = (1..=9).chain([64]).map(factor).collect();
        assert_eq!(factors, [1, 2, 2, 3, 3, 3, 3, 4, 4, 4]);
    }

    /// A step is a factor of about 1.25.
    #[test]
    fn the_table_is_near_the_formula() {
        for nice in -20..=19_i8 {
            let formula = 1024.0 * 1.25_f64.powi(-i32::from(nice));
            let off = (of(nice).get() as f64 / formula - 1.0).abs();
            assert!(off < 0.032, "{nice}: {off}");
        }
    }
}
