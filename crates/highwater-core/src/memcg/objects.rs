//! Charges of kernel objects by bytes: tokens, and the stock of bytes of a CPU.
//!
//! A kernel object holds a *token* of its group and not the group. When the group is removed, the
//! token passes to the parent, and the objects follow without being touched. Objects are smaller
//! than pages, so a CPU keeps the rest of a charged page for the next objects of the same token.
//! When the CPU turns to another token, whole pages go back to the stock of pages
//! ([`super::stock`]), and the rest is parked in the token for the next CPU that serves it.
//!
//! The stock also holds back changes of the slab statistics until they exceed a page.
//!
//! Key types: [`Tokens`], [`ObjectStock`]; [`Released`] (what a stock gives back).
//!
//! Synchronisation: a stock belongs to its CPU. Parked bytes are swapped atomically.

use alloc::boxed::Box;
use core::fmt;
use core::iter;

use arrayvec::ArrayVec;

use crate::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};
use crate::units::{GroupId, NodeId, PAGE_SHIFT, PAGE_SIZE};

/// Bytes of a page.
const PAGE: u32 = PAGE_SIZE as u32;

/// Bytes that an object's pointer to its token adds to its charge.
pub(crate) const TOKEN_BYTES: u32 = 8;

/// Number of a token. A token lives as long as its last object, so it may outlive its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TokenId(pub u16);

impl TokenId {
    /// As an index.
    #[inline(always)]
    pub(crate) const fn idx(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0)
    }
}

/// All tokens.
#[doc(alias = "obj_cgroup")]
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Groups that pay for the objects.
    owners: Box<[AtomicU16]>,
    /// Charged bytes that no CPU has in its stock. A CPU parks less than a page at a time.
    parked: Box<[AtomicU32]>,
}

impl Tokens {
    /// Tokens of the root.
    pub(crate) fn new(capacity: usize) -> Tokens {
        Tokens {
            owners: iter::repeat_with(|| AtomicU16::new(0)).take(capacity).collect(),
            parked: iter::repeat_with(|| AtomicU32::new(0)).take(capacity).collect(),
        }
    }

    /// The group that pays for a token's objects.
    pub(crate) fn owner(&self, token: TokenId) -> GroupId {
        GroupId(self.owners[token.idx()].load(Relaxed))
    }

    /// Gives a token to a group: to a new one, or to the parent of one that is removed.
    #[doc(alias = "memcg_reparent_objcgs")]
    pub(crate) fn give(&self, token: TokenId, group: GroupId) {
        self.owners[token.idx()].store(group.0, Relaxed);
    }

    /// Bytes that are parked in a token.
    pub(crate) fn parked(&self, token: TokenId) -> u32 {
        self.parked[token.idx()].load(Relaxed)
    }

    /// Takes all bytes that are parked in a token.
    fn take(&self, token: TokenId) -> u32 {
        self.parked[token.idx()].swap(0, Relaxed)
    }

    fn park(&self, token: TokenId, bytes: u32) {
        self.parked[token.idx()].fetch_add(bytes, Relaxed);
    }

    /// Ends a token without objects. Returns its pages, which are to be uncharged: parked bytes add
    /// up to whole pages once nothing is in use.
    #[doc(alias = "obj_cgroup_release")]
    pub(crate) fn end(&self, token: TokenId) -> u64 {
        u64::from(self.take(token) >> PAGE_SHIFT)
    }
}

/// Slab memory by what its objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlabKind {
    /// `slab_reclaimable`: shrinkers free the objects.
    Reclaimable = 0,
    /// `slab_unreclaimable`.
    Unreclaimable = 1,
}

/// A change of a slab statistic, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlabChange {
    /// Token whose owner it counts for.
    pub token: TokenId,
    /// The node of the objects' memory.
    pub node: NodeId,
    /// Which statistic.
    pub kind: SlabKind,
    /// More or less.
    pub bytes: i64,
}

/// Pages and statistics that a stock of bytes gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Whole pages, which go to the stock of pages of the token's owner, in this order.
    pub pages: ArrayVec<(TokenId, u64), 2>,
    /// Statistics that are due.
    pub slab: ArrayVec<SlabChange, 2>,
}

impl Released {
    fn add_pages(&mut self, token: TokenId, pages: u32) {
        if pages > 0 {
            self.pages.push((token, u64::from(pages)));
        }
    }
}

/// The pages to charge for an object of `bytes` that the stock has no room for, and the bytes of
/// them that are left over.
pub(crate) const fn pages_for(bytes: u32) -> (u64, u32) {
    let pages = bytes.div_ceil(PAGE);
    (pages as u64, pages * PAGE - bytes)
}

/// The stock of bytes of a CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectStock {
    token: Option<TokenId>,
    bytes: u32,
    /// The node that the held statistics are about.
    node: NodeId,
    /// Changes held back, by [`SlabKind`]; at most a page each, or one larger update.
    held: [i64; 2],
}

impl ObjectStock {
    /// The token that the stock serves. It holds a reference to it.
    pub(crate) fn token(&self) -> Option<TokenId> {
        self.token
    }

    /// Bytes in the stock.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Takes bytes for an object; false if the token's stock has not enough. The caller then
    /// charges [`pages_for`] it and puts the rest in by [`Self::put_rest`].
    #[doc(alias = "consume_obj_stock")]
    #[inline]
    pub(crate) fn consume(&mut self, token: TokenId, bytes: u32) -> bool {
        let is_enough = self.token == Some(token) && self.bytes >= bytes;
        if is_enough {
            self.bytes -= bytes;
        }
        is_enough
    }

    /// Puts in the rest of pages that were charged for an object. Pages of the same token stay.
    pub(crate) fn put_rest(&mut self, tokens: &Tokens, token: TokenId, bytes: u32) -> Released {
        let released = self.switch(tokens, token);
        self.bytes += bytes;
        released
    }

    /// Puts in the bytes of a freed object. Above a page, whole pages go back.
    #[doc(alias = "refill_obj_stock")]
    pub(crate) fn free(&mut self, tokens: &Tokens, token: TokenId, bytes: u32) -> Released {
        let mut released = self.switch(tokens, token);
        self.bytes += bytes;
        if self.bytes > PAGE {
            released.add_pages(token, self.bytes >> PAGE_SHIFT);
            self.bytes %= PAGE;
        }
        released
    }

    /// Notes a change of a slab statistic. The first one is held back whatever its size.
    #[doc(alias = "mod_objcg_state")]
    pub(crate) fn note(&mut self, tokens: &Tokens, change: SlabChange) -> Released {
        let SlabChange { token, node, kind, bytes } = change;
        let mut released = self.switch(tokens, token);
        if self.node != node {
            self.push_held(token, &mut released);
            self.node = node;
        }
        let held = &mut self.held[kind as usize];
        let is_first = *held == 0;
        *held += bytes;
        if !is_first && held.unsigned_abs() > u64::from(PAGE) {
            released.slab.push(SlabChange { bytes: *held, ..change });
            *held = 0;
        }
        released
    }

    /// Empties the stock.
    #[doc(alias = "drain_obj_stock")]
    pub(crate) fn drain(&mut self, tokens: &Tokens) -> Released {
        let mut released = Released::default();
        let Some(token) = self.token.take() else { return released };
        released.add_pages(token, self.bytes >> PAGE_SHIFT);
        tokens.park(token, self.bytes % PAGE);
        self.bytes = 0;
        self.push_held(token, &mut released);
        released
    }

    /// Turns the stock to a token, whose parked bytes it takes up.
    fn switch(&mut self, tokens: &Tokens, token: TokenId) -> Released {
        if self.token == Some(token) {
            return Released::default();
        }
        let released = self.drain(tokens);
        self.token = Some(token);
        self.bytes = tokens.take(token);
        released
    }

    fn push_held(&mut self, token: TokenId, released: &mut Released) {
        for kind in [SlabKind::Reclaimable, SlabKind::Unreclaimable] {
            let bytes = core::mem::take(&mut self.held[kind as usize]);
            if bytes != 0 {
                released.slab.push(SlabChange { token, node: self.node, kind, bytes });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TokenId = TokenId(1);
    const B: TokenId = TokenId(2);
    /// A dentry's slot and the pointer to its token.
    const DENTRY: u32 = 192 + TOKEN_BYTES;

    /// Charges an object: the pages that were charged for it, and what came back.
    fn alloc(stock: &mut ObjectStock, tokens: &Tokens, token: TokenId, b: u32) -> (u64, Released) {
        if stock.consume(token, b) {
            return (0, Released::default());
        }
        let (pages, rest) = pages_for(b);
        (pages, stock.put_rest(tokens, token, rest))
    }

    #[test]
    fn twenty_dentries_share_a_page() {
        let (tokens, mut stock) = (Tokens::new(3), ObjectStock::default());
        let mut dentry = || (alloc(&mut stock, &tokens, A, DENTRY), stock.bytes());
        assert_eq!(dentry(), ((1, Released::default()), 3896));
        for nr in 1..=19 {
            assert_eq!(dentry(), ((0, Released::default()), 3896 - nr * DENTRY));
        }
        // Pages are not given back while an object is charged.
        assert_eq!(dentry(), ((1, Released::default()), 3992));
        let released = stock.free(&tokens, A, DENTRY);
        assert_eq!((released.pages.as_slice(), stock.bytes()), (&[(A, 1)][..], 96));
    }

    #[test]
    fn the_rest_of_a_page_is_parked_in_the_token() {
        let (tokens, mut stock) = (Tokens::new(3), ObjectStock::default());
        alloc(&mut stock, &tokens, A, DENTRY);
        let (pages, released) = alloc(&mut stock, &tokens, B, DENTRY);
        assert_eq!((pages, released), (1, Released::default()));
        assert_eq!((tokens.parked(A), tokens.parked(B), stock.bytes()), (3896, 0, 3896));
        // Another CPU takes it up; its first charge takes a page all the same.
        let mut other = ObjectStock::default();
        let (pages, released) = alloc(&mut other, &tokens, A, DENTRY);
        assert_eq!((pages, released), (1, Released::default()));
        assert_eq!((tokens.parked(A), other.bytes()), (0, 2 * 3896));
        // A switch gives the whole page back.
        let released = other.free(&tokens, B, DENTRY);
        assert_eq!((released.pages.as_slice(), tokens.parked(A)), (&[(A, 1)][..], 3696));
        assert_eq!((other.token(), other.bytes()), (Some(B), DENTRY));
        // After the last free everything that was charged is whole pages again.
        for _ in 0..2 {
            other.free(&tokens, A, DENTRY);
        }
        assert_eq!((other.bytes(), tokens.parked(A)), (PAGE, 0));
        assert_eq!(other.drain(&tokens).pages.as_slice(), [(A, 1)]);
        assert_eq!((other.token(), tokens.end(A)), (None, 0));
    }

    #[test]
    fn large_objects_are_charged_by_whole_pages() {
        assert_eq!(pages_for(4096), (1, 0));
        assert_eq!(pages_for(4097), (2, 4095));
        let (tokens, mut stock) = (Tokens::new(3), ObjectStock::default());
        assert_eq!(alloc(&mut stock, &tokens, A, 10_000).0, 3);
        assert_eq!(stock.bytes(), 2288);
        let released = stock.free(&tokens, A, 10_000);
        assert_eq!((released.pages.as_slice(), stock.bytes()), (&[(A, 3)][..], 0));
        tokens.give(A, GroupId(5));
        assert_eq!(tokens.owner(A), GroupId(5));
    }

    #[test]
    fn slab_statistics_are_held_back() {
        let (tokens, mut stock) = (Tokens::new(3), ObjectStock::default());
        let change = |token, bytes| SlabChange {
            token,
            node: NodeId(0),
            kind: SlabKind::Reclaimable,
            bytes,
        };
        for _ in 0..20 {
            assert_eq!(stock.note(&tokens, change(A, 200)), Released::default());
        }
        assert_eq!(stock.note(&tokens, change(A, 200)).slab.as_slice(), [change(A, 4200)]);
        // A first update waits, however large.
        assert_eq!(stock.note(&tokens, change(A, -9000)), Released::default());
        let other = SlabChange { node: NodeId(1), ..change(A, 10) };
        assert_eq!(stock.note(&tokens, other).slab.as_slice(), [change(A, -9000)]);
        let unreclaimable = SlabChange { kind: SlabKind::Unreclaimable, ..other };
        assert_eq!(stock.note(&tokens, unreclaimable), Released::default());
        assert_eq!(stock.note(&tokens, change(B, 1)).slab.as_slice(), [other, unreclaimable]);
        assert_eq!(
            stock.drain(&tokens).slab.as_slice(),
            [SlabChange { node: NodeId(0), ..change(B, 1) }]
        );
    }
}
