//! Kinds of LRU lists (rules/lru#lists).

/// Anonymous or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PageType {
    /// Backed by swap.
    Anon = 0,
    /// Page cache, and anonymous memory freed lazily.
    File = 1,
}

impl PageType {
    /// Both, by index.
    pub const ALL: [PageType; 2] = [PageType::Anon, PageType::File];
}

/// One of the five LRU lists.
#[doc(alias = "lru_list")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LruKind {
    /// List 0.
    InactiveAnon = 0,
    /// List 1.
    ActiveAnon = 1,
    /// List 2.
    InactiveFile = 2,
    /// List 3.
    ActiveFile = 3,
    /// List 4: counted, not linked.
    Unevictable = 4,
}

impl LruKind {
    /// Number of lists.
    pub const COUNT: usize = 5;
    /// All, by index.
    pub const ALL: [LruKind; Self::COUNT] = [
        LruKind::InactiveAnon,
        LruKind::ActiveAnon,
        LruKind::InactiveFile,
        LruKind::ActiveFile,
        LruKind::Unevictable,
    ];

    /// The list of a type.
    #[inline(always)]
    pub const fn new(page_type: PageType, active: bool) -> LruKind {
        Self::ALL[page_type as usize * 2 + active as usize]
    }

    /// As trace events name it.
    pub const fn name(self) -> &'static str {
        match self {
            LruKind::InactiveAnon => "inactive_anon",
            LruKind::ActiveAnon => "active_anon",
            LruKind::InactiveFile => "inactive_file",
            LruKind::ActiveFile => "active_file",
            LruKind::Unevictable => "unevictable",
        }
    }

    /// The type of its pages; `None` for the unevictable list, which holds both.
    pub const fn page_type(self) -> Option<PageType> {
        match self {
            LruKind::InactiveAnon | LruKind::ActiveAnon => Some(PageType::Anon),
            LruKind::InactiveFile | LruKind::ActiveFile => Some(PageType::File),
            LruKind::Unevictable => None,
        }
    }
}
