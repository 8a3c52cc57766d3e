//! How many pages of each list to scan (spec 02 §5, §8): pure sums.
