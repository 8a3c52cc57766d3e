//! Sizes and orders in words.

/// A size of so many kB: `460 MiB`, `5.3 GiB`, `84 kB`.
pub(super) fn kb_text(kb: u64) -> String {
    let kb = kb as f64;
    match kb {
        kb if kb < 10_240.0 => format!("{kb} kB"),
        kb if kb < 10_240.0 * 1024.0 => format!("{:.0} MiB", kb / 1024.0),
        kb if kb < 10_240.0 * 1024.0 * 1024.0 => format!("{:.1} GiB", kb / (1024.0 * 1024.0)),
        kb => format!("{:.1} TiB", kb / (1024.0 * 1024.0 * 1024.0)),
    }
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
        assert_eq!([3, 9, 18].map(|o| block_text(o, 4096)), ["32 kB", "2 MiB", "1 GiB"]);
    }
}
