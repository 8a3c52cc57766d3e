//! Prints the micro-benchmarks: `cargo run --release --features bench --example bench [quick|own]`.

use highwater_native::bench::{BenchOptions, run_with};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let options =
        BenchOptions { quick: mode == "quick", compare: mode != "own", ..BenchOptions::default() };
    println!(
        "{:<24} {:>5} {:>8} {:>7} {:>10}",
        "allocator", "order", "pattern", "threads", "ns/pair"
    );
    run_with(&options, |row| {
        let (order, pattern) = (row.order.0, row.pattern);
        println!(
            "{:<24} {order:>5} {pattern:>8} {:>7} {:>10.1}  {}",
            row.allocator, row.threads, row.ns_per_pair, row.note
        );
    })?;
    Ok(())
}
