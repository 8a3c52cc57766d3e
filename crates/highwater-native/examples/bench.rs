//! Prints the micro-benchmarks, all of them or those that the arguments select: `cargo run
//! --release --features bench --example bench -- [quick] [own] [pages] [repeat|bulk|rand] [1T|2T]
//! [0..10] [nodes=N] [policy=NAME]...`

use highwater_core::config::preset;
use highwater_core::page::Order;
use highwater_native::bench::{BenchOptions, Pattern, run_pages, run_with};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = BenchOptions::default();
    let (mut orders, mut patterns, mut threads) = (Vec::new(), Vec::new(), Vec::new());
    let mut pages = false;
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "quick" => options.quick = true,
            "own" => options.compare = false,
            "pages" => pages = true,
            "1T" => threads.push(1),
            "2T" => threads.push(2),
            name if name.starts_with("nodes=") => options.nodes = name[6..].parse()?,
            name if name.starts_with("policy=") => {
                options.policy = Some(preset(&name[7..]).ok_or("no such policy")?)
            }
            name => match Pattern::ALL.into_iter().find(|p| p.name() == name) {
                Some(pattern) => patterns.push(pattern),
                None => orders.push(Order(name.parse()?)),
            },
        }
    }
    if pages {
        return print_pages(options.quick);
    }
    if !orders.is_empty() {
        options.orders = orders;
    }
    if !patterns.is_empty() {
        options.patterns = patterns;
    }
    if !threads.is_empty() {
        options.threads = threads;
    }
    println!(
        "{:<24} {:>5} {:>8} {:>7} {:>8} {:>8} {:>8}",
        "allocator", "order", "pattern", "threads", "ns/pair", "best", "elapsed"
    );
    run_with(&options, |row| {
        println!(
            "{:<24} {:>5} {:>8} {:>7} {:>8.1} {:>8.1} {:>8.1}  {}",
            row.allocator,
            row.order.0,
            row.pattern,
            row.threads,
            row.ns_per_pair,
            row.ns_per_pair_min,
            row.wall_ns_per_pair,
            row.note
        );
    })?;
    Ok(())
}

/// Page cache and faults, compared with this computer's own kernel.
fn print_pages(quick: bool) -> Result<(), Box<dyn std::error::Error>> {
    let policy = preset("6.1").ok_or("no such preset")?;
    println!("{:<18} {:>8} {:>8} {:>8} {:>8}", "ns/page", "ours", "best", "system", "best");
    for row in run_pages(&policy, quick)? {
        println!(
            "{:<18} {:>8.1} {:>8.1} {:>8.1} {:>8.1}",
            row.operation, row.ours_ns, row.ours_ns_min, row.system_ns, row.system_ns_min
        );
    }
    Ok(())
}
