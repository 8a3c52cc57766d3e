//! Types that fields of tracepoints may have.
//!
//! One `impl` of [`TraceField`] makes a type usable in tracepoints: how it is packed for digests,
//! how it is printed, and an example.

use core::fmt;

use crate::units::{CompactPriority, CompactResult};
use crate::units::{Gfp, LruKind, PageType, ThrottleReason};
use crate::units::{MigrateType, Order, Pfn};
use crate::units::{NodeId, ZoneType};

/// A value that an event may carry.
pub trait TraceField: Copy {
    /// Bits that [`word`](Self::word) may have set, from the lowest on; at most 64.
    const BITS: u32;

    /// The value as a number below `2^BITS`, another for each.
    fn word(self) -> u64;

    /// The value as exporters get it and as text shows it.
    fn value(self) -> Value;

    /// A value made of a number, as varied as the type allows.
    fn example(n: u64) -> Self;
}

/// The value of a field, of whatever type. Its text is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A count, an index, a time: decimal.
    Number(u64),
    /// Yes or no: 1 or 0.
    Bool(bool),
    /// A page frame, hexadecimal; none is the kernel's pfn −1.
    Pfn(Option<Pfn>),
    /// Request flags, symbolic.
    Gfp(Gfp),
    /// One of a few words.
    Name(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Bool(is_set) => write!(f, "{}", u8::from(is_set)),
            Value::Pfn(pfn) => write!(f, "{:#x}", pfn.map_or(u64::MAX, Pfn::get)),
            Value::Gfp(gfp) => write!(f, "{gfp}"),
            Value::Name(name) => f.write_str(name),
        }
    }
}

/// A count for a narrow field.
pub(crate) fn narrow<N: TryFrom<u64>>(count: u64, max: N) -> N {
    N::try_from(count).unwrap_or(max)
}

macro_rules! number {
    ($($ty:ty)*) => { $(
        impl TraceField for $ty {
            const BITS: u32 = <$ty>::BITS;

            #[inline(always)]
            fn word(self) -> u64 {
                u64::from(self)
            }

            fn value(self) -> Value {
                Value::Number(self.into())
            }

            fn example(n: u64) -> Self {
                n as $ty
            }
        }
    )* };
}

number! { u8 u16 u32 u64 }

/// Enums that are an index: printed as a number, or by a name.
macro_rules! index {
    ($($ty:ty: $value:expr;)*) => { $(
        impl TraceField for $ty {
            const BITS: u32 = u8::BITS;

            #[inline(always)]
            fn word(self) -> u64 {
                self as u64
            }

            fn value(self) -> Value {
                let value: fn($ty) -> Value = $value;
                value(self)
            }

            fn example(n: u64) -> Self {
                Self::ALL[(n % Self::ALL.len() as u64) as usize]
            }
        }
    )* };
}

index! {
    MigrateType: |migratetype| Value::Number(migratetype as u64);
    ZoneType: |zone| Value::Number(zone as u64);
    CompactPriority: |priority| Value::Number(priority as u64);
    CompactResult: |result| Value::Name(result.name());
    ThrottleReason: |reason| Value::Name(reason.name());
    LruKind: |lru| Value::Name(lru.name());
    // The kernel names the type of pages by flags of the operation.
    PageType: |page_type| Value::Name(match page_type {
        PageType::Anon => "RECLAIM_WB_ANON|RECLAIM_WB_ASYNC",
        PageType::File => "RECLAIM_WB_FILE|RECLAIM_WB_ASYNC",
    });
}

impl TraceField for bool {
    const BITS: u32 = 1;

    #[inline(always)]
    fn word(self) -> u64 {
        self.into()
    }

    fn value(self) -> Value {
        Value::Bool(self)
    }

    fn example(n: u64) -> Self {
        n % 2 == 1
    }
}

impl TraceField for Order {
    const BITS: u32 = u8::BITS;

    #[inline(always)]
    fn word(self) -> u64 {
        self.0.into()
    }

    fn value(self) -> Value {
        Value::Number(self.0.into())
    }

    fn example(n: u64) -> Self {
        Order((n % (Order::MAX.0 as u64 + 1)) as u8)
    }
}

impl TraceField for NodeId {
    const BITS: u32 = u16::BITS;

    #[inline(always)]
    fn word(self) -> u64 {
        self.0.into()
    }

    fn value(self) -> Value {
        Value::Number(self.0.into())
    }

    fn example(n: u64) -> Self {
        NodeId(n as u16)
    }
}

impl TraceField for Pfn {
    const BITS: u32 = u32::BITS;

    #[inline(always)]
    fn word(self) -> u64 {
        self.get()
    }

    fn value(self) -> Value {
        Value::Pfn(Some(self))
    }

    fn example(n: u64) -> Self {
        Pfn(n as u32)
    }
}

impl TraceField for Option<Pfn> {
    const BITS: u32 = u64::BITS;

    /// None is the kernel's pfn −1.
    #[inline(always)]
    fn word(self) -> u64 {
        self.map_or(u64::MAX, Pfn::get)
    }

    fn value(self) -> Value {
        Value::Pfn(self)
    }

    fn example(n: u64) -> Self {
        (!n.is_multiple_of(4)).then(|| Pfn::example(n))
    }
}

impl TraceField for Gfp {
    const BITS: u32 = u32::BITS;

    #[inline(always)]
    fn word(self) -> u64 {
        self.bits().into()
    }

    fn value(self) -> Value {
        Value::Gfp(self)
    }

    fn example(n: u64) -> Self {
        Gfp::from_bits_truncate(n as u32)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn values_are_printed_as_the_kernel_does() {
        let text = |value: Value| value.to_string();
        assert_eq!(text(Pfn(0x1870).value()), "0x1870");
        assert_eq!(text(None::<Pfn>.value()), "0xffffffffffffffff");
        assert_eq!([true, false].map(|b| text(b.value())), ["1", "0"]);
        assert_eq!(text(ZoneType::Normal.value()), "2");
        assert_eq!(text(LruKind::ActiveFile.value()), "active_file");
        assert_eq!(text((Gfp::GFP_KERNEL | Gfp::ZERO).value()), "GFP_KERNEL|__GFP_ZERO");
    }

    #[test]
    fn narrow_fields_saturate() {
        assert_eq!(narrow(70_000, u16::MAX), u16::MAX);
        assert_eq!(narrow(70_000, u32::MAX), 70_000);
    }
}
