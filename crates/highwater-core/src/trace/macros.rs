//! What a declaration of tracepoints becomes.
//!
//! A group of tracepoints (a *system* in ftrace's words) is a file; the file is a macro that hands
//! what was declared before it, and its own declarations, to the next group's. The last in the
//! chain is [`tracepoints!`], which sees all of them and makes one flat enum.

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
/// The text names fields, and values that follow from fields (after `where`): each is printed as
/// its type's [`TraceField`](crate::trace::TraceField) says. A field the text leaves out is an
/// unused variable, and warned of as such.
///
/// The tracepoints of earlier versions have `digest 2 [order, pfn]` before the text: a number, and
/// values made of fields, each field standing for its word. Digests that those versions printed
/// (the notes of results have some) stay comparable, because such an event keeps the words it had.
/// A new tracepoint needs no such clause: its words are made of its name and all its fields.
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

            /// An event of this kind with made-up fields, each made of the next number that `draw`
            /// gives. For tests of what has to work with every tracepoint, exporters for one.
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

            /// The event as words, for digests: what stands for the tracepoint, and the fields. No
            /// two events have the same, nor is one's the beginning of another's; save where a
            /// `digest` clause lays fields over each other, so that changes of several may cancel
            /// out.
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

/// The words of an event: of all its fields, or of what its `digest` clause makes of them.
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
