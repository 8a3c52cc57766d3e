//! Zone types, node numbers, sets of nodes.

use core::fmt;

/// A zone of the x86-64 layout (rules/zones#zone-types).
#[doc(alias = "zone_type")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum ZoneType {
    /// Below 16 MiB.
    #[cfg_attr(feature = "serde", serde(rename = "DMA"))]
    Dma = 0,
    /// Below 4 GiB.
    #[cfg_attr(feature = "serde", serde(rename = "DMA32"))]
    Dma32 = 1,
    /// The rest.
    #[cfg_attr(feature = "serde", serde(rename = "Normal"))]
    Normal = 2,
    /// Movable pages only; empty unless configured.
    #[cfg_attr(feature = "serde", serde(rename = "Movable"))]
    Movable = 3,
    /// Device memory; never allocated from.
    #[cfg_attr(feature = "serde", serde(rename = "Device"))]
    Device = 4,
}

impl ZoneType {
    /// Number of zone types.
    pub const COUNT: usize = 5;
    /// All, by index.
    pub const ALL: [ZoneType; Self::COUNT] =
        [ZoneType::Dma, ZoneType::Dma32, ZoneType::Normal, ZoneType::Movable, ZoneType::Device];

    /// As an index.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self as usize
    }

    /// The name `/proc` prints.
    pub const fn name(self) -> &'static str {
        match self {
            ZoneType::Dma => "DMA",
            ZoneType::Dma32 => "DMA32",
            ZoneType::Normal => "Normal",
            ZoneType::Movable => "Movable",
            ZoneType::Device => "Device",
        }
    }
}

impl fmt::Display for ZoneType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Node number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u16);

impl NodeId {
    /// As an index.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }
}

/// Number of a zone among all zones of a machine: the zones of node 0 by type, then node 1's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(u16);

impl ZoneId {
    /// The zone of a type of a node.
    #[inline(always)]
    pub const fn new(node: NodeId, zone: ZoneType) -> ZoneId {
        ZoneId(node.0 * ZoneType::COUNT as u16 + zone as u16)
    }

    /// The same from the fields of a page word.
    #[inline(always)]
    pub(crate) const fn from_parts(node: u32, zone: u32) -> ZoneId {
        ZoneId((node * ZoneType::COUNT as u32 + zone) as u16)
    }

    /// Number of zones of a machine with this many nodes, populated or not.
    pub const fn count(nr_nodes: usize) -> usize {
        nr_nodes * ZoneType::COUNT
    }

    /// All zones of a node, by type.
    pub fn of_node(node: NodeId) -> impl Iterator<Item = ZoneId> {
        ZoneType::ALL.into_iter().map(move |zone| ZoneId::new(node, zone))
    }

    /// Its node.
    #[inline(always)]
    pub const fn node(self) -> NodeId {
        NodeId(self.0 / ZoneType::COUNT as u16)
    }

    /// Its type.
    #[inline(always)]
    pub const fn zone_type(self) -> ZoneType {
        ZoneType::ALL[self.0 as usize % ZoneType::COUNT]
    }

    /// As an index into a table of all zones.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N{}.{}", self.node().0, self.zone_type())
    }
}

/// A set of nodes.
#[doc(alias = "nodemask_t")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeMask(u64);

impl NodeMask {
    /// Most nodes a machine may have.
    pub const MAX_NODES: usize = 64;
    /// All nodes.
    pub const ALL: NodeMask = NodeMask(u64::MAX);
    /// No node.
    pub const EMPTY: NodeMask = NodeMask(0);

    /// The set of one node.
    pub const fn of(node: NodeId) -> NodeMask {
        NodeMask(1 << node.0)
    }

    /// This set and another node.
    #[must_use]
    pub const fn with(self, node: NodeId) -> NodeMask {
        NodeMask(self.0 | 1 << node.0)
    }

    /// Membership; no set has a node beyond [`Self::MAX_NODES`].
    #[inline(always)]
    pub const fn contains(self, node: NodeId) -> bool {
        (node.0 as usize) < Self::MAX_NODES && self.0 >> node.0 & 1 != 0
    }

    /// A bit for each node, node 0 lowest.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set of [`Self::bits`].
    pub const fn from_bits(bits: u64) -> NodeMask {
        NodeMask(bits)
    }

    /// No node at all.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of nodes.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The nodes that both sets have.
    #[must_use]
    pub const fn and(self, other: NodeMask) -> NodeMask {
        NodeMask(self.0 & other.0)
    }

    /// The node with the lowest number.
    pub fn first(self) -> Option<NodeId> {
        self.iter().next()
    }

    /// The nodes, ascending.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..Self::MAX_NODES as u16).map(NodeId).filter(move |&node| self.contains(node))
    }

    /// The node after another one, round and round; none of an empty set.
    pub fn after(self, node: NodeId) -> Option<NodeId> {
        self.iter().find(|next| *next > node).or_else(|| self.first())
    }

    /// The node of a rank, from 0, round and round; none of an empty set.
    pub fn nth(self, rank: u32) -> Option<NodeId> {
        self.iter().nth((rank % self.len().max(1)) as usize)
    }

    /// The set with each node of `old` replaced by the one of the same rank in `new`; others stay.
    #[must_use]
    pub fn remapped(self, old: NodeMask, new: NodeMask) -> NodeMask {
        self.iter().fold(NodeMask::EMPTY, |mask, node| {
            let rank = old.iter().take_while(|other| *other < node).count() as u32;
            let to = if old.contains(node) { new.nth(rank) } else { None };
            mask.with(to.unwrap_or(node))
        })
    }
}

impl fmt::Debug for NodeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N{:x}", self.0)
    }
}
