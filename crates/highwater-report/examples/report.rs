//! Prints every table of a made-up comparison, in one of the formats:
//! `cargo run --example report -- markdown`.

use highwater_report::Format;
use highwater_report::report::{Shown, tables, usual_sections};
use highwater_results::{Better, Document, MachineFigures, Metric, Run, TableKind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let format: Format = std::env::args().nth(1).as_deref().unwrap_or("terminal").parse()?;
    let mut document = Document::new("0.1.0", "002-pcp-high-order", "sim", 1);
    document.metrics.push(Metric::new(
        "netperf-tcp",
        "10^6 bit/s",
        Better::Higher,
        TableKind::Multi,
    ));
    for (label, factor) in [("5.17-vanilla", 1.0), ("5.17-revert-highpcp", 0.97)] {
        let mut run = Run::new("skylake-1s", label, label);
        run.seeds = vec![1, 2, 3];
        for (operation, base) in [("64", 840.0), ("16384", 39_000.0)] {
            for seed in 1..=3u32 {
                for iteration in 0..5u32 {
                    let noise = f64::from((seed * 7 + iteration * 3) % 5) / 1000.0;
                    run.push(operation, iteration, u64::from(seed), base * (factor + noise));
                }
            }
        }
        run.times.elapsed_ns = 30_000_000_000;
        run.counters = [("pgfault", 120_000), ("pgalloc_normal", 4_000_000)].into_iter().collect();
        document.runs.push(run);
    }
    document.iterations = 3;
    document.sections = usual_sections(&document.metrics);
    // Published columns are the study's two policies.
    document.published_policies = document.runs.iter().map(|run| run.policy.clone()).collect();
    document.published.push(MachineFigures {
        name: "skylake-1s".to_owned(),
        published: vec!["002.netperf-tcp.skylake".to_owned()],
        ..MachineFigures::default()
    });
    let all = tables(&document, Shown::Changes)?;
    print!("{}", format.renderer().tables(&all));
    Ok(())
}
