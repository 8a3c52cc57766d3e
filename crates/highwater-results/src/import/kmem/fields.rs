//! The `key=value` pairs after an event's colon.
//!
//! Pairs may come in any order and among others. Text without `=` is skipped: trace-cmd prints
//! `[FAILED TO PARSE]` there when it lacks the kernel's formulas, and then prints all values as
//! plain numbers.

use super::gfp::GfpDecoder;
use super::header::EventName;
use super::{KmemKind, MIGRATETYPE_MAX, ORDER_MAX, PFN_LIMIT};
use crate::import::error::{FieldProblem, parse_u64, shown};

/// Names of the pairs that are read; the position is the slot in [`Pairs`].
const KEYS: [&str; 11] = [
    "page",
    "pfn",
    "order",
    "migratetype",
    "gfp_flags",
    "percpu_refill",
    "alloc_order",
    "fallback_order",
    "alloc_migratetype",
    "fallback_migratetype",
    "change_ownership",
];
const PAGE: usize = 0;
const PFN: usize = 1;
const ORDER: usize = 2;
const MIGRATETYPE: usize = 3;
const GFP_FLAGS: usize = 4;
const PERCPU_REFILL: usize = 5;
const ALLOC_ORDER: usize = 6;
const FALLBACK_ORDER: usize = 7;
const ALLOC_MIGRATETYPE: usize = 8;
const FALLBACK_MIGRATETYPE: usize = 9;
const CHANGE_OWNERSHIP: usize = 10;

/// Reads the fields that `event` needs. `None` if the event has no block: kernels before 4.7 report
/// a failed removal from the buddy lists as `mm_page_alloc_zone_locked` without a page.
#[inline]
pub(super) fn decode(
    event: EventName,
    text: &[u8],
    gfp: &mut GfpDecoder,
) -> Result<Option<KmemKind>, FieldProblem> {
    let pairs = Pairs::scan(text)?;
    let frame = pairs.frame()?;
    let kind = match event {
        EventName::Alloc => {
            let order = pairs.order(ORDER)?;
            let migratetype = pairs.migratetype(MIGRATETYPE)?;
            let flags = pairs.required(GFP_FLAGS)?;
            let gfp = gfp.decode(flags).map_err(|problem| pairs.problem(GFP_FLAGS, problem))?;
            match frame {
                Some(pfn) => KmemKind::Alloc { pfn, order, migratetype, gfp },
                None => KmemKind::AllocFailed { order, migratetype, gfp },
            }
        }
        EventName::Free => KmemKind::Free { pfn: pairs.block(frame)?, order: pairs.order(ORDER)? },
        EventName::FreeBatched => {
            if pairs.slots[ORDER].is_some() {
                pairs.order(ORDER)?;
            }
            KmemKind::FreeBatched { pfn: pairs.block(frame)? }
        }
        EventName::ZoneLocked => {
            let order = pairs.order(ORDER)?;
            let migratetype = pairs.migratetype(MIGRATETYPE)?;
            let percpu_refill = match pairs.slots[PERCPU_REFILL] {
                Some(_) => Some(pairs.flag(PERCPU_REFILL)?),
                None => None,
            };
            let Some(pfn) = frame else { return Ok(None) };
            KmemKind::ZoneLocked { pfn, order, migratetype, percpu_refill }
        }
        EventName::PcpuDrain => KmemKind::PcpuDrain {
            pfn: pairs.block(frame)?,
            order: pairs.order(ORDER)?,
            migratetype: pairs.migratetype(MIGRATETYPE)?,
        },
        EventName::ExtFrag => KmemKind::ExtFrag {
            pfn: pairs.block(frame)?,
            alloc_order: pairs.order(ALLOC_ORDER)?,
            fallback_order: pairs.order(FALLBACK_ORDER)?,
            alloc_migratetype: pairs.migratetype(ALLOC_MIGRATETYPE)?,
            fallback_migratetype: pairs.migratetype(FALLBACK_MIGRATETYPE)?,
            change_ownership: pairs.flag(CHANGE_OWNERSHIP)?,
        },
    };
    Ok(Some(kind))
}

/// The values found, still as text.
struct Pairs<'l> {
    slots: [Option<&'l [u8]>; KEYS.len()],
}

impl<'l> Pairs<'l> {
    fn scan(text: &'l [u8]) -> Result<Self, FieldProblem> {
        let mut slots = [None; KEYS.len()];
        let mut open_page = false;
        for token in text.split(|&b| b == b' ' || b == b'\t').filter(|token| !token.is_empty()) {
            let Some(equals) = token.iter().position(|&b| b == b'=') else {
                // Kernels before 4.15 pad a null page: `page=          (null)`.
                if open_page {
                    slots[PAGE] = Some(token);
                    open_page = false;
                }
                continue;
            };
            let (key, value) = (&token[..equals], &token[equals + 1..]);
            let Some(slot) = slot_of(key) else { continue };
            if slots[slot].is_some() {
                return Err(FieldProblem::new(KEYS[slot], "given twice"));
            }
            slots[slot] = Some(value);
            open_page = slot == PAGE && value.is_empty();
        }
        Ok(Self { slots })
    }

    /// The frame; `None` if the event has no page.
    fn frame(&self) -> Result<Option<u64>, FieldProblem> {
        let text = self.required(PFN)?;
        if text == b"-1" {
            return Ok(None);
        }
        let pfn = parse_u64(text).map_err(|problem| self.problem(PFN, problem))?;
        if pfn == u64::MAX || (pfn == 0 && self.slots[PAGE].is_some_and(is_null_pointer)) {
            return Ok(None);
        }
        if pfn >= PFN_LIMIT {
            return Err(
                self.problem(PFN, format!("{} is not a page frame (2^40 or more)", shown(text)))
            );
        }
        Ok(Some(pfn))
    }

    fn block(&self, frame: Option<u64>) -> Result<u64, FieldProblem> {
        frame.ok_or_else(|| {
            self.problem(PFN, "no page, although only an allocation can fail".to_owned())
        })
    }

    fn order(&self, slot: usize) -> Result<u8, FieldProblem> {
        let order = self.small(slot, ORDER_MAX);
        order.map_err(|mut error| {
            if error.problem.ends_with(&format!("is above {ORDER_MAX}")) {
                error.problem += ", the largest order that is modelled";
            }
            error
        })
    }

    fn migratetype(&self, slot: usize) -> Result<u8, FieldProblem> {
        self.small(slot, MIGRATETYPE_MAX)
    }

    fn flag(&self, slot: usize) -> Result<bool, FieldProblem> {
        self.small(slot, 1).map(|value| value == 1)
    }

    #[inline]
    fn small(&self, slot: usize, max: u8) -> Result<u8, FieldProblem> {
        let value =
            parse_u64(self.required(slot)?).map_err(|problem| self.problem(slot, problem))?;
        match u8::try_from(value) {
            Ok(value) if value <= max => Ok(value),
            _ => Err(self.problem(slot, format!("{value} is above {max}"))),
        }
    }

    #[inline]
    fn required(&self, slot: usize) -> Result<&'l [u8], FieldProblem> {
        self.slots[slot].ok_or_else(|| FieldProblem::missing(KEYS[slot]))
    }

    #[cold]
    fn problem(&self, slot: usize, problem: String) -> FieldProblem {
        FieldProblem::new(KEYS[slot], problem)
    }
}

fn slot_of(key: &[u8]) -> Option<usize> {
    Some(match key {
        b"page" => PAGE,
        b"pfn" => PFN,
        b"order" => ORDER,
        b"migratetype" => MIGRATETYPE,
        b"gfp_flags" => GFP_FLAGS,
        b"percpu_refill" => PERCPU_REFILL,
        b"alloc_order" => ALLOC_ORDER,
        b"fallback_order" => FALLBACK_ORDER,
        b"alloc_migratetype" => ALLOC_MIGRATETYPE,
        b"fallback_migratetype" => FALLBACK_MIGRATETYPE,
        b"change_ownership" => CHANGE_OWNERSHIP,
        _ => return None,
    })
}

/// `(null)`, `(nil)`, `0x(nil)`, `0x0`, `0000000000000000`.
fn is_null_pointer(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let bare = text.strip_prefix(b"(").and_then(|t| t.strip_suffix(b")")).unwrap_or(text);
    matches!(bare, b"null" | b"nil") || (!bare.is_empty() && bare.iter().all(|&b| b == b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(text: &str) -> Result<Option<KmemKind>, FieldProblem> {
        decode(EventName::Alloc, text.as_bytes(), &mut GfpDecoder::default())
    }

    #[test]
    fn every_way_to_write_a_failed_allocation() {
        let rest = "order=3 migratetype=0 gfp_flags=GFP_NOWAIT";
        for page in [
            "page=(null) pfn=0",
            "page=(null) pfn=0x0",
            "page=          (null) pfn=0",
            "page=0x(nil) pfn=0",
            "page=0000000000000000 pfn=0x0",
            "page=(nil) pfn=18446744073709551615",
            "page=00000000abcdef01 pfn=0xffffffffffffffff",
            "page=(null) pfn=-1",
            "pfn=-1",
        ] {
            let expected = KmemKind::AllocFailed { order: 3, migratetype: 0, gfp: 0x800 };
            assert_eq!(alloc(&format!("{page} {rest}")), Ok(Some(expected)), "{page}");
        }
        let frame_zero = KmemKind::Alloc { pfn: 0, order: 3, migratetype: 0, gfp: 0x800 };
        assert_eq!(alloc(&format!("page=00000000abcdef01 pfn=0x0 {rest}")), Ok(Some(frame_zero)));
        assert_eq!(alloc(&format!("pfn=0 {rest}")), Ok(Some(frame_zero)));
    }

    #[test]
    fn only_an_allocation_can_fail() {
        let mut gfp = GfpDecoder::default();
        for event in [EventName::Free, EventName::FreeBatched, EventName::PcpuDrain] {
            let error =
                decode(event, b"page=(null) pfn=0 order=0 migratetype=0", &mut gfp).unwrap_err();
            assert_eq!(error.field, "pfn");
        }
        let locked =
            decode(EventName::ZoneLocked, b"page=(null) pfn=0 order=0 migratetype=0", &mut gfp);
        assert_eq!(locked, Ok(None));
    }

    #[test]
    fn plain_numbers_and_passed_over_text() {
        let kind =
            alloc(" [FAILED TO PARSE] pfn=4096 order=0 gfp_flags=3264 migratetype=1 extra=x");
        assert_eq!(
            kind,
            Ok(Some(KmemKind::Alloc { pfn: 4096, order: 0, migratetype: 1, gfp: 0xcc0 }))
        );
    }

    #[test]
    fn impossible_fields_are_named() {
        for (text, field) in [
            ("order=0 migratetype=0 gfp_flags=0x0", "pfn"),
            ("pfn=0x1 migratetype=0 gfp_flags=0x0", "order"),
            ("pfn=0x1 order=0 gfp_flags=0x0", "migratetype"),
            ("pfn=0x1 order=0 migratetype=0", "gfp_flags"),
            ("pfn=1bb59 order=0 migratetype=0 gfp_flags=0x0", "pfn"),
            ("pfn=-2 order=0 migratetype=0 gfp_flags=0x0", "pfn"),
            ("pfn=0x10000000000 order=0 migratetype=0 gfp_flags=0x0", "pfn"),
            ("pfn=1 pfn=1 order=0 migratetype=0 gfp_flags=0x0", "pfn"),
            ("pfn=1 order=-1 migratetype=0 gfp_flags=0x0", "order"),
            ("pfn=1 order=11 migratetype=0 gfp_flags=0x0", "order"),
            ("pfn=1 order= migratetype=0 gfp_flags=0x0", "order"),
            ("pfn=1 order=256 migratetype=0 gfp_flags=0x0", "order"),
            ("pfn=1 order=0 migratetype=6 gfp_flags=0x0", "migratetype"),
            ("pfn=1 order=0 migratetype=0 gfp_flags=0x100000000", "gfp_flags"),
            ("pfn=1 order=0 migratetype=0 gfp_flags=", "gfp_flags"),
        ] {
            assert_eq!(alloc(text).unwrap_err().field, field, "{text}");
        }
        assert!(alloc("pfn=0xffffffffff order=10 migratetype=5 gfp_flags=0xffffffff").is_ok());
    }
}
