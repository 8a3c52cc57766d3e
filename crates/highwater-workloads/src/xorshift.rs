//! Uniform numbers: 64-bit xorshift, as the captured programs drew them.

/// The state; 0 would only give 0.
pub struct Xorshift(u64);

impl Xorshift {
    /// Starts at a state, which must not be 0.
    pub const fn new(state: u64) -> Self {
        Xorshift(state)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_the_captured_programs() {
        let mut numbers = Xorshift::new(1);
        let drawn: [u64; 3] = std::array::from_fn(|_| numbers.below(u64::MAX));
        assert_eq!(drawn, [0x4082_2041, 0x1000_4106_0c01_1441, 0x9b1e_842f_6e86_2629]);
    }
}
