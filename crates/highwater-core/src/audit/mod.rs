//! Checkers that stand outside the code they judge.
