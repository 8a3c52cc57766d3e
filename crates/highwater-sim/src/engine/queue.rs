//! The event queue: a hierarchical wheel that pops in exact `(time, insertion)` order.
//!
//! Eleven levels of 64 slots cover all of `u64`. An event sits at the level of the highest 6-bit
//! digit in which its time differs from the wheel's position, in the slot of that digit:
//!
//! ```text
//! time      0b...| d3 | d2 | d1 | d0 |        level 0: events that share d1.. with the position,
//! position  0b...| d3 | d2 | p1 | p0 |                 one slot per nanosecond
//!                           ^ first difference: level 1, slot d1
//! ```
//!
//! Three facts give the order for free. Lower levels hold earlier events than higher ones, so the
//! earliest event is in the first occupied slot of the lowest occupied level. Two events with equal
//! times are always in the same slot, because where an event sits depends only on its time and the
//! position. Slots are first-in first-out lists, and a cascade keeps their order. No sequence
//! number is stored.
//!
//! Each event has a small dense id (a task's index) and is pending at most once, so cancelling is
//! unlinking. All operations are constant time apart from cascades, at most ten per event.

/// Identifies the owner of an event; dense and small (the queue keeps one node per id).
pub type EventId = u32;

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 64_usize.div_ceil(DIGIT_BITS as usize);
/// Nodes `0..SENTINELS` are the list heads of the slots; event `id` is node `SENTINELS + id`.
const SENTINELS: usize = SLOTS * LEVELS;
/// `next` of a node that is in no list.
const UNLINKED: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    time_ns: u64,
    next: u32,
    prev: u32,
}

/// Pending events, each an id and a time.
pub struct Queue {
    /// Sentinels first, then one node per event id.
    nodes: Vec<Node>,
    /// Not later than any pending event.
    position_ns: u64,
    /// Bit `s` of `occupied[l]`: slot `s` of level `l` is not empty.
    occupied: [u64; LEVELS],
    /// Bit `l`: level `l` is not empty.
    levels: u32,
    nr_pending: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        let nodes = (0..SENTINELS as u32).map(|i| Node { time_ns: 0, next: i, prev: i }).collect();
        Queue { nodes, position_ns: 0, occupied: [0; LEVELS], levels: 0, nr_pending: 0 }
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.nr_pending
    }

    /// True if nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.nr_pending == 0
    }

    /// Makes room for the ids below `nr_ids`.
    pub fn reserve_ids(&mut self, nr_ids: usize) {
        let wanted = SENTINELS + nr_ids;
        if wanted > self.nodes.len() {
            self.nodes.resize(wanted, Node { time_ns: 0, next: UNLINKED, prev: UNLINKED });
        }
    }

    /// The earliest time at which an event can be added.
    pub(super) fn position_ns(&self) -> u64 {
        self.position_ns
    }

    /// Adds an event. It comes after all pending events of the same time.
    ///
    /// `id` must not be pending. `time_ns` must not be earlier than the last event popped, nor than
    /// a bound that [`Queue::has_before`] was asked for.
    #[inline]
    pub fn insert(&mut self, id: EventId, time_ns: u64) {
        let node = SENTINELS as u32 + id;
        debug_assert_eq!(self.nodes[node as usize].next, UNLINKED, "event {id} is pending");
        debug_assert!(time_ns >= self.position_ns, "event in the past");
        self.link(node, time_ns.max(self.position_ns));
        self.nr_pending += 1;
    }

    /// Removes a pending event; false if it was not pending.
    #[inline]
    pub fn cancel(&mut self, id: EventId) -> bool {
        let node = SENTINELS as u32 + id;
        if self.nodes[node as usize].next == UNLINKED {
            return false;
        }
        self.unlink(node);
        self.nr_pending -= 1;
        true
    }

    /// True if `id` is pending.
    pub fn is_pending(&self, id: EventId) -> bool {
        self.nodes[SENTINELS + id as usize].next != UNLINKED
    }

    /// Time at which a pending event is due.
    pub fn time_of(&self, id: EventId) -> Option<u64> {
        let node = &self.nodes[SENTINELS + id as usize];
        (node.next != UNLINKED).then_some(node.time_ns)
    }

    /// Removes and returns the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, EventId)> {
        self.pop_until(u64::MAX)
    }

    /// Removes and returns the earliest event if it is not later than `limit_ns`. If it is later,
    /// the caller must not insert any event before the limit afterwards, as for
    /// [`Queue::has_before`].
    #[inline]
    pub fn pop_until(&mut self, limit_ns: u64) -> Option<(u64, EventId)> {
        while self.levels != 0 {
            let (level, slot) = self.first_slot();
            let head = slot_index(level, slot);
            let first = self.nodes[head as usize].next;
            let Node { time_ns, next, .. } = self.nodes[first as usize];
            // A slot with one event needs no cascade: nothing else is that early.
            if level == 0 || next == head {
                if time_ns > limit_ns {
                    return None;
                }
                self.unlink(first);
                self.nr_pending -= 1;
                self.position_ns = time_ns;
                return Some((time_ns, first - SENTINELS as u32));
            }
            // The position must not go beyond the limit: events inserted afterwards may lie
            // between.
            if self.slot_start(level, slot) > limit_ns {
                return None;
            }
            self.cascade(level, slot);
        }
        None
    }

    /// True if an event earlier than `time_ns` is pending; moves the wheel as [`Queue::bound_unless_before`] does.
    #[inline]
    pub fn has_before(&mut self, time_ns: u64) -> bool {
        self.bound_unless_before(time_ns).is_none()
    }

    /// None if an event earlier than `time_ns` is pending; if not, the value of
    /// [`Queue::lower_bound`] after the move.
    ///
    /// May move the wheel's position up to `time_ns`, so no event may be inserted before that time
    /// afterwards. The executor guarantees it: a running task asks for its own clock and inserts
    /// nothing earlier.
    #[inline]
    pub fn bound_unless_before(&mut self, time_ns: u64) -> Option<u64> {
        while self.levels != 0 {
            let (level, slot) = self.first_slot();
            let start_ns = self.slot_start(level, slot);
            let Node { next, prev, .. } = self.nodes[slot_index(level, slot) as usize];
            if level == 0 || next == prev {
                let first_ns = self.nodes[next as usize].time_ns;
                return (first_ns >= time_ns).then_some(first_ns);
            }
            if start_ns >= time_ns {
                return Some(start_ns);
            }
            self.cascade(level, slot);
        }
        Some(u64::MAX)
    }

    /// A time that no pending event precedes (`u64::MAX` if none is pending). Exact when events
    /// are sparse, else up to a slot's width early.
    #[inline]
    pub fn lower_bound(&self) -> u64 {
        self.peek().0
    }

    /// [`Queue::lower_bound`] and the event that probably comes next: the first event of the
    /// earliest slot.
    #[inline]
    pub fn peek(&self) -> (u64, Option<EventId>) {
        if self.levels == 0 {
            return (u64::MAX, None);
        }
        let (level, slot) = self.first_slot();
        let Node { next, prev, .. } = self.nodes[slot_index(level, slot) as usize];
        let bound_ns = if next == prev {
            self.nodes[next as usize].time_ns
        } else {
            self.slot_start(level, slot)
        };
        (bound_ns, Some(next - SENTINELS as u32))
    }

    #[inline]
    fn first_slot(&self) -> (u32, u32) {
        let level = self.levels.trailing_zeros();
        (level, self.occupied[level as usize].trailing_zeros())
    }

    /// First time that belongs to a slot, given the position.
    #[inline]
    fn slot_start(&self, level: u32, slot: u32) -> u64 {
        let shift = level * DIGIT_BITS;
        let below = u64::from(slot) << shift;
        match (u64::MAX).checked_shl(shift + DIGIT_BITS) {
            Some(high) => (self.position_ns & high) | below,
            None => below,
        }
    }

    /// Moves a slot's events to lower levels, in order.
    #[cold]
    #[inline(never)]
    fn cascade(&mut self, level: u32, slot: u32) {
        self.position_ns = self.slot_start(level, slot);
        let head = slot_index(level, slot);
        let mut node = self.nodes[head as usize].next;
        self.nodes[head as usize] = Node { time_ns: 0, next: head, prev: head };
        self.clear_slot(head);
        while node != head {
            let Node { time_ns, next, .. } = self.nodes[node as usize];
            self.link(node, time_ns);
            node = next;
        }
    }

    #[inline]
    fn link(&mut self, node: u32, time_ns: u64) {
        let difference = time_ns ^ self.position_ns;
        let level = (63 - (difference | 1).leading_zeros()) / DIGIT_BITS;
        let slot = (time_ns >> (level * DIGIT_BITS)) as u32 % SLOTS as u32;
        let head = slot_index(level, slot);
        let prev = self.nodes[head as usize].prev;
        self.nodes[prev as usize].next = node;
        self.nodes[node as usize] = Node { time_ns, next: head, prev };
        self.nodes[head as usize].prev = node;
        self.occupied[level as usize] |= 1 << slot;
        self.levels |= 1 << level;
    }

    #[inline]
    fn unlink(&mut self, node: u32) {
        let Node { next, prev, .. } = self.nodes[node as usize];
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        self.nodes[node as usize].next = UNLINKED;
        // Both neighbours the same: that is the sentinel, and the slot is empty now.
        if next == prev {
            self.clear_slot(next);
        }
    }

    #[inline]
    fn clear_slot(&mut self, head: u32) {
        let level = head as usize / SLOTS;
        self.occupied[level] &= !(1 << (head as usize % SLOTS));
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }
}

#[inline]
const fn slot_index(level: u32, slot: u32) -> u32 {
    level * SLOTS as u32 + slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn equal_times_pop_in_insertion_order_across_levels() {
        let mut queue = Queue::new();
        queue.reserve_ids(4);
        queue.insert(3, 1_000_000);
        queue.insert(2, 999_999);
        assert_eq!(queue.pop(), Some((999_999, 2)));
        // Inserted when the wheel is close to it: still behind event 3.
        queue.insert(1, 1_000_000);
        queue.insert(0, 1_000_000);
        assert_eq!(queue.pop(), Some((1_000_000, 3)));
        assert_eq!(queue.pop(), Some((1_000_000, 1)));
        assert_eq!(queue.pop(), Some((1_000_000, 0)));
        assert_eq!(queue.pop(), None);
    }

    /// `pop_until` that finds nothing keeps the position low enough for events before the limit.
    #[test]
    fn a_limit_is_kept_across_levels() {
        let mut queue = Queue::new();
        queue.reserve_ids(4);
        queue.insert(0, 1_000_000);
        queue.insert(1, 1_000_001);
        assert_eq!(queue.pop_until(999_950), None);
        queue.insert(2, 999_951);
        assert_eq!(queue.pop_until(999_950), None);
        assert_eq!(queue.pop_until(999_951), Some((999_951, 2)));
        queue.insert(3, 999_990);
        assert_eq!(queue.pop_until(999_999), Some((999_990, 3)));
        assert_eq!(queue.pop_until(1_000_000), Some((1_000_000, 0)));
        assert_eq!(queue.pop_until(1_000_000), None);
        assert_eq!(queue.pop_until(u64::MAX), Some((1_000_001, 1)));
    }

    #[test]
    fn far_ends_of_time() {
        let mut queue = Queue::new();
        queue.reserve_ids(3);
        queue.insert(0, u64::MAX);
        queue.insert(1, 0);
        queue.insert(2, u64::MAX - 1);
        assert!(queue.has_before(1));
        assert_eq!(queue.pop(), Some((0, 1)));
        assert!(!queue.has_before(u64::MAX - 1));
        assert_eq!(queue.pop(), Some((u64::MAX - 1, 2)));
        assert_eq!(queue.pop(), Some((u64::MAX, 0)));
        assert_eq!(queue.lower_bound(), u64::MAX);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u32, u64),
        Cancel(u32),
        Pop,
        HasBefore(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        // Delays from single nanoseconds to minutes, so that every level takes part.
        let delay = (0u32..37, any::<u64>()).prop_map(|(bits, raw)| raw & ((1u64 << bits) - 1));
        prop_oneof![
            4 => (0u32..40, delay.clone()).prop_map(|(id, d)| Op::Insert(id, d)),
            1 => (0u32..40).prop_map(Op::Cancel),
            3 => Just(Op::Pop),
            2 => delay.prop_map(Op::HasBefore),
        ]
    }

    proptest! {
        /// The wheel against an ordered map keyed by (time, sequence).
        #[test]
        fn agrees_with_ordered_map(ops in proptest::collection::vec(op(), 1..400)) {
            let mut queue = Queue::new();
            queue.reserve_ids(40);
            let mut model: BTreeMap<(u64, u64), u32> = BTreeMap::new();
            let mut now = 0u64;
            for (seq, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Insert(id, delay) => {
                        if !model.values().any(|&i| i == id) {
                            queue.insert(id, now + delay);
                            model.insert((now + delay, seq as u64), id);
                        }
                    }
                    Op::Cancel(id) => {
                        let key = model.iter().find(|&(_, &i)| i == id).map(|(&k, _)| k);
                        prop_assert_eq!(queue.is_pending(id), key.is_some());
                        prop_assert_eq!(queue.cancel(id), key.is_some());
                        if let Some(key) = key {
                            model.remove(&key);
                        }
                    }
                    Op::Pop => {
                        let expected = model.pop_first().map(|((time, _), id)| (time, id));
                        let got = queue.pop();
                        prop_assert_eq!(got, expected);
                        if let Some((time, _)) = got {
                            now = time;
                        }
                    }
                    Op::HasBefore(delay) => {
                        let earliest = model.first_key_value().map_or(u64::MAX, |(k, _)| k.0);
                        prop_assert!(queue.lower_bound() <= earliest);
                        let bound = now + delay;
                        let found = queue.bound_unless_before(bound);
                        prop_assert_eq!(found.is_none(), earliest < bound);
                        prop_assert!(found.is_none_or(|found| found == queue.lower_bound()));
                        // The executor's guarantee: nothing earlier is inserted from here on.
                        now = bound.min(earliest).max(now);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
