//! The expansion of tracepoint declarations.
//!
//! A group of tracepoints (a *system* in ftrace's words) is a file. The file is a macro that passes
//! all earlier declarations, and its own, to the macro of the next group. The last in the chain is
//! [`tracepoints!`], which sees all of them and makes one flat enum.

/// Makes `Event`, `Kind` and `TRACEPOINTS` of declarations like this, grouped by system:
///
/// ```text
/// kmem {
///     /// What it means.
///     PageFree = "mm_page_free" {
///         /// What the field means.
///         pfn: Pfn,
///         /// Order.
///         order: Order,
///     } => "pfn={pfn} order={order} is_page={is_page}" where is_page = order == Order::ZERO;
/// }
/// ```
///
/// The text names fields, and values computed from fields (after `where`). Each is printed by its
/// type's [`TraceField`](crate::trace::TraceField). A field that the text omits is an unused
/// variable, and the compiler warns about it.
///
/// The tracepoints of earlier versions have `digest 2 [order, pfn]` before the text: a number, and
/// values computed from fields, in which a field means its word. Such an event keeps the words of
/// those versions, so digests that they printed (some notes of results have them) stay comparable.
/// A new tracepoint needs no such clause: its words come from its name and all its fields.
macro_rules! tracepoints {
    ([] $($system:ident { $(
        $(#[doc = $doc:literal])+
        $event:ident = $name:literal {
            $($(#[doc = $field_doc:literal])+ $field:ident: $ty:ty,)*
        } $(digest $number:literal [$($word:expr),+ $(,)?])?
          => $text:literal $(where $($derived:ident = $value:expr),+)?;
    )* })*) => {
        /// Something that happened: a tracepoint and the values of its fields.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Event { $($(
            $(#[doc = $doc])+
            $event { $($(#[doc = $field_doc])+ $field: $ty,)* },
        )*)* }

        /// A tracepoint, as an index: which kind of event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind { $($( $(#[doc = $doc])+ $event, )*)* }

        /// Every tracepoint, by [`Kind`].
        pub static TRACEPOINTS: [$crate::trace::Tracepoint; Kind::COUNT] = [$($(
            $crate::trace::Tracepoint {
                name: $name,
                system: stringify!($system),
                doc: concat!($($doc),+).trim_ascii(),
                text: $text,
                tag: $crate::trace::words::tag($name, &[$($number)?]),
                fields: &[$(
                    $crate::trace::Field {
                        name: stringify!($field),
                        type_name: stringify!($ty),
                        bits: <$ty as $crate::trace::TraceField>::BITS,
                        doc: concat!($($field_doc),+).trim_ascii(),
                    },
                )*],
            },
        )*)*];

        impl Kind {
            /// Every tracepoint, by index.
            pub const ALL: &'static [Kind] = &[$($(Kind::$event,)*)*];
            /// Number of tracepoints.
            pub const COUNT: usize = Self::ALL.len();

            /// Its declaration.
            #[inline]
            pub const fn tracepoint(self) -> &'static $crate::trace::Tracepoint {
                &TRACEPOINTS[self as usize]
            }

            /// An event of this kind with made-up fields, each from the next number of `draw`. For
            /// tests that must cover every tracepoint, for example of exporters.
            pub fn example(self, mut draw: impl FnMut() -> u64) -> Event {
                match self { $($(
                    Kind::$event => Event::$event {
                        $($field: $crate::trace::TraceField::example(draw()),)*
                    },
                )*)* }
            }
        }

        impl Event {
            const FIELDS_MAX: usize = $crate::trace::fields_max(&TRACEPOINTS);
            const WORDS_MAX: usize = $crate::trace::words::words_max(&TRACEPOINTS);

            /// Its tracepoint.
            #[inline]
            pub const fn kind(&self) -> Kind {
                match self { $($( Event::$event { .. } => Kind::$event, )*)* }
            }

            /// The tracepoint's name: `mm_page_alloc`.
            #[inline]
            pub const fn name(&self) -> &'static str {
                self.kind().tracepoint().name
            }

            /// The tracepoint's system: `kmem`.
            #[inline]
            pub const fn system(&self) -> &'static str {
                self.kind().tracepoint().system
            }

            /// The event as words, for digests: the tracepoint's number, and the fields. Words of
            /// different events differ, and no event's words are a prefix of another's. The
            /// exception: a `digest` clause may overlay fields, so that changes of several may
            /// cancel out.
            #[inline]
            pub fn words(&self) -> impl Iterator<Item = u64> + use<> {
                use $crate::trace::words::Words;
                let words: Words<{ Event::WORDS_MAX }> = match *self { $($(
                    Event::$event { $($field),* } => $crate::trace::macros::words!(
                        Kind::$event, [$($field)*] $(, [$($word),+])?
                    ),
                )*)* };
                words.into_iter()
            }

            /// Names and values of the fields, in the order of their declaration.
            pub fn fields(&self)
                -> impl Iterator<Item = (&'static str, $crate::trace::Value)> + use<>
            {
                let mut values = [$crate::trace::Value::Number(0); Self::FIELDS_MAX];
                match *self { $($(
                    Event::$event { $($field),* } => {
                        let fields = [$($crate::trace::TraceField::value($field)),*];
                        values[..fields.len()].copy_from_slice(&fields);
                    }
                )*)* }
                self.kind().tracepoint().fields.iter().map(|field| field.name).zip(values)
            }
        }

        impl core::fmt::Display for Event {
            /// `name: text`, as ftrace prints it after the time stamp; without addresses
            /// (`page=`), which are not reproducible.
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}: ", self.name())?;
                match *self { $($(
                    Event::$event { $($field),* } => {
                        $($(let $derived = $crate::trace::TraceField::value($value);)+)?
                        $(let $field = $crate::trace::TraceField::value($field);)*
                        write!(f, $text)
                    }
                )*)* }
            }
        }
    };
}
pub(super) use tracepoints;

/// The words of an event: from all its fields, or from its `digest` clause.
macro_rules! words {
    ($kind:expr, [$($field:ident)*]) => {{
        let mut words = const { Words::of($kind.tracepoint().tag) };
        $(words.push($field);)*
        words
    }};
    ($kind:expr, [$($field:ident)*], [$($word:expr),+]) => {{
        $(let $field = $crate::trace::TraceField::word($field);)*
        Words::folded(const { $kind.tracepoint().tag }, [$($word),+])
    }};
}
pub(super) use words;
