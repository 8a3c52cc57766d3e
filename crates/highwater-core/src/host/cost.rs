//! Charge points: the operations whose time a simulated machine models.
//!
//! The keys are those of a machine's cost table. What each costs, and where the figure comes from,
//! belongs to the machine; the core only says how often.

macro_rules! costs {
    ($($(#[$doc:meta])* $name:ident = $key:literal,)*) => {
        /// One kind of work.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Cost { $($(#[$doc])* $name,)* }

        impl Cost {
            /// Every charge point, in table order.
            pub const ALL: &'static [Cost] = &[$(Cost::$name,)*];
            /// Number of charge points.
            pub const COUNT: usize = Self::ALL.len();
            /// The key in a machine's cost table.
            pub const fn key(self) -> &'static str {
                match self { $(Cost::$name => $key,)* }
            }
        }
    };
}

costs! {
    /// Taking a block from a per-CPU list (watermark test included).
    PcpAlloc = "pcp_alloc",
    /// Putting a block on a per-CPU list.
    PcpFree = "pcp_free",
    /// Taking one block from the buddy lists, zone lock held.
    BuddyRemove = "buddy_remove",
    /// Giving one block back to the buddy lists, zone lock held.
    BuddyFree = "buddy_free",
    /// Entering and leaving a system call.
    Syscall = "syscall",
    /// Protocol work of one packet on the sending side.
    PacketSend = "packet_send",
    /// Protocol work of one packet on the receiving side.
    PacketReceive = "packet_receive",
    /// Waking a task that sleeps (paid by the waker).
    Wakeup = "wakeup",
}
