//! Custom rules of an embedding program, as code: for what no switch can express.
//!
//! A policy is a value: a preset with some switches changed. To use another *rule* without changing
//! this crate, give the policy an [`Own`]. At three places the kernel passes it the policy's
//! decision, and uses the returned decision instead.
//!
//! | function | called | decides |
//! |---|---|---|
//! | [`Answers::page`] | for each page at an inactive tail, once its uses are known (not under `fifo`, MADV_PAGEOUT or the ageing of active lists) | evict the page? |
//! | [`Answers::weights`] | when a pass over a set of lists begins, unless a fixed rule applies (no swap, priority 0, almost no cache: rules/scan-budget#mode) | anonymous memory or page cache? |
//! | [`Answers::after_pass`] | after a direct reclaimer's pass over one node or all, if the policy has it consider waiting (5.16 and later) | wait or not? |
//!
//! An implementation is called without any lock that it could need, from several tasks at once. Its
//! result may depend only on its arguments and its own state: with a clock or another source of
//! randomness a simulation would not repeat. It must not allocate from the calling machine.
//!
//! Each machine that boots gets its own implementation ([`OwnAnswers::make`]), so its state belongs
//! to one run.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::table::{Section, Switch};

/// The meaning of a page's uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// It is in use: it moves to the active list, if there is one.
    Activate,
    /// It stays where it is.
    Keep,
    /// It is evicted.
    Reclaim,
    /// It is evicted only if clean: it was used, but only once and not through a mapping.
    ReclaimClean,
}

/// A page that reclaim looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageUses {
    /// VMAs in which its mapping was young; none: a lock was contended.
    pub users: Option<u32>,
    /// Its referenced flag was set: it was read, or found in use before.
    pub was_referenced: bool,
    /// Page cache, or lazily freed memory.
    pub is_file: bool,
    /// It is newer than its copy on the device.
    pub is_dirty: bool,
    /// It was active once and was deactivated, or it came back soon after it had been reclaimed.
    pub is_workingset: bool,
    /// Its number of pages: more than one for a huge page.
    pub pages: u64,
}

/// The shares of anonymous memory and page cache in a scan: `anon` and `file` parts of `over`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Of the anonymous lists.
    pub anon: u64,
    /// Of the file lists.
    pub file: u64,
    /// The denominator of the weights.
    pub over: u64,
}

/// The lists that a pass begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListSizes {
    /// Pages on the anonymous lists.
    pub anon: u64,
    /// Pages on those of the page cache.
    pub file: u64,
    /// `vm.swappiness`.
    pub swappiness: u64,
}

/// Progress of a direct reclaimer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// From 12, a gentle pass, down to 0, everything.
    pub priority: u8,
    /// Pages that it scanned at this priority.
    pub scanned: u64,
    /// Pages that it reclaimed at all priorities.
    pub reclaimed: u64,
}

/// The action after a direct reclaimer's pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterPass {
    /// Others that wait for progress may go on.
    Wake,
    /// It waits for others' progress.
    Wait,
    /// Neither.
    GoOn,
}

/// Custom rules. Each gets the policy's decision, `usual`, and returns it by default.
pub trait Answers: Send + Sync {
    /// Decides whether reclaim evicts a page. An mlocked page stays in any case, and so does one that
    /// cannot be unmapped or written.
    fn page(&self, _page: &PageUses, usual: References) -> References {
        usual
    }

    /// Decides how a pass shares its scanning. Weights with `over` 0 count as equal, a weight above
    /// `over` counts as all.
    fn weights(&self, _lists: &ListSizes, usual: Weights) -> Weights {
        usual
    }

    /// Decides what a direct reclaimer does next.
    fn after_pass(&self, _progress: &Progress, usual: AfterPass) -> AfterPass {
        usual
    }
}

/// Custom rules by name.
#[derive(Clone, Copy)]
pub struct OwnAnswers {
    /// Name, for reports; it distinguishes two policies that are otherwise equal.
    pub name: &'static str,
    /// Makes the rules for one machine.
    pub make: fn() -> Box<dyn Answers>,
}

/// A policy's [`OwnAnswers`]: usually none. It is not a switch: a file cannot set it, but can have
/// a policy with it as its base.
#[derive(Clone, Copy, Default)]
pub struct Own(Option<OwnAnswers>);

impl Own {
    /// Custom rules from an implementation.
    pub const fn new(answers: OwnAnswers) -> Own {
        Own(Some(answers))
    }

    /// Their name; none: there are none.
    pub fn name(&self) -> Option<&'static str> {
        self.0.map(|answers| answers.name)
    }

    /// For a machine that boots.
    pub(crate) fn make(&self) -> Option<Box<dyn Answers>> {
        self.0.map(|answers| (answers.make)())
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.name()).finish()
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Own) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Own {}

/// No switch.
impl Section for Own {
    fn visit(&mut self, _: &str, _: &mut dyn FnMut(Switch<'_>)) {}
    fn sections(_: &str, _: &mut dyn FnMut(String, &'static str)) {}
}

/// Its name, so that a policy's text shows that it has code.
#[cfg(feature = "serde")]
impl serde::Serialize for Own {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.name() {
            None => serializer.serialize_none(),
            Some(name) => serializer.serialize_str(name),
        }
    }
}

/// Nothing: code does not come out of a text.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Own {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Own, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(Own::default()),
            Some(name) => Err(serde::de::Error::custom(alloc::format!(
                "{name}: code of a program, which a text does not bring"
            ))),
        }
    }
}
