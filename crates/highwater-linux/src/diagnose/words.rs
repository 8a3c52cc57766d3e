//! Sizes and orders in words.

/// A size in words, from kB: `460 MiB`, `5.3 GiB`, `84 kB`.
pub(super) fn kb_text(kb: u64) -> String {
    let kb = kb as f64;
    match kb {
        kb if kb < 10_240.0 => format!("{kb} kB"),
        kb if kb < 10_240.0 * 1024.0 => format!("{:.0} MiB", kb / 1024.0),
        kb if kb < 10_240.0 * 1024.0 * 1024.0 => format!("{:.1} GiB", kb / (1024.0 * 1024.0)),
        kb => format!("{:.1} TiB", kb / (1024.0 * 1024.0 * 1024.0)),
    }
}

/// The sum of sizes from a text, which may be any numbers.
pub(super) fn total(sizes: impl IntoIterator<Item = u64>) -> u64 {
    sizes.into_iter().fold(0, u64::saturating_add)
}

/// Pages with their size: `17 pages (68 kB)`.
pub(super) fn pages_text(pages: u64, page_size: u64) -> String {
    let noun = if pages == 1 { "page" } else { "pages" };
    format!("{pages} {noun} ({})", kb_text(pages.saturating_mul(page_size) / 1024))
}

/// An order with its size: `order 3 (32 kB)`.
pub(super) fn order_text(order: u32, page_size: u64) -> String {
    let bytes = page_size.checked_shl(order).unwrap_or(u64::MAX);
    format!("order {order} ({})", kb_text(bytes / 1024))
}

/// The size of a block in the largest unit that has no fraction: `64 kB`, `2 MiB`.
pub(super) fn block_text(order: u32, page_size: u64) -> String {
    let kb = page_size.checked_shl(order).unwrap_or(u64::MAX) / 1024;
    match kb {
        kb if kb % (1 << 20) == 0 => format!("{} GiB", kb >> 20),
        kb if kb % 1024 == 0 => format!("{} MiB", kb >> 10),
        kb => format!("{kb} kB"),
    }
}

/// A time of so many nanoseconds: `12.5 us`, `900 ms`, `3.20 s`.
pub(super) fn time_text(ns: u64) -> String {
    let three = |value: f64| match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    };
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", three(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three(value / 1e6)),
        _ => format!("{} s", three(value / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_that_fits() {
        assert_eq!(kb_text(84), "84 kB");
        assert_eq!(kb_text(470_628), "460 MiB");
        assert_eq!(kb_text(12_621_824), "12.0 GiB");
        assert_eq!(pages_text(1, 4096), "1 page (4 kB)");
        assert_eq!(order_text(3, 65_536), "order 3 (512 kB)");
        let times = [7, 12_500, 900_000_000, 3_200_000_000, 400_000_000_000].map(time_text);
        assert_eq!(times, ["7 ns", "12.5 us", "900 ms", "3.20 s", "400 s"]);
        assert_eq!([3, 9, 18].map(|o| block_text(o, 4096)), ["32 kB", "2 MiB", "1 GiB"]);
    }
}
