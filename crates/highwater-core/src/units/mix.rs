//! Mixing of numbers.

/// The step from one state of SplitMix64 to the next (Steele, Lea, Flood 2014).
pub const SPLITMIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output of SplitMix64 for a state: a one-to-one mapping of numbers in which every input bit
/// matters.
pub const fn splitmix(state: u64) -> u64 {
    let mut z = state.wrapping_add(SPLITMIX_STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the generator with seed 0, as published with its reference code.
    #[test]
    fn outputs_are_those_of_the_generator() {
        let states = (0..3).map(|n: u64| n.wrapping_mul(SPLITMIX_STEP));
        let expected = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert!(states.map(splitmix).eq(expected));
    }
}
