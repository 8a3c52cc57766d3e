//! Memory cgroups: a group's usage is what names it: pages, slots, objects, and what CPUs hold
//! back (rules/memory-cgroups).

use alloc::collections::BTreeMap;
use alloc::format;

use super::kernel::{Found, KernelAudit};
use super::{AuditError, Rule};
use crate::host::{Devices, Lock};
use crate::memcg::objects::TokenId;
use crate::memcg::{GroupLife, Kept};
use crate::page::{BlockFlags, PAGE_SIZE};
use crate::slab::CacheKind;
use crate::units::{GroupId, LruKind, NodeId};
use crate::vmstat::{GroupStat, NodeStat, USER_LEVELS};

/// Memory and slots that name a group.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    user_pages: u64,
    kernel_pages: u64,
    object_bytes: u64,
    /// Sockets, and pages of their buffers.
    nr_sockets: u64,
    socket_pages: u64,
    /// Pages in stocks of CPUs.
    stocked: u64,
    slots: u64,
}

impl<H: Devices> KernelAudit<'_, '_, H> {
    pub(super) fn groups(&self) -> Result<(), AuditError> {
        if !self.k.mem.groups.is_on() {
            return Ok(());
        }
        let mut named: BTreeMap<GroupId, Named> = BTreeMap::new();
        self.name_pages(&mut named);
        self.name_objects(&mut named);
        self.name_slots(&mut named);
        self.name_sockets(&mut named);
        for cpu in self.k.mem.cpus() {
            let stock = self.k.memcg.stocks[cpu.idx()].lock(self.cx.cpu());
            // A group's place in a stock may outlast its pages, and the group.
            let holds = |group: &GroupId| stock.pages.pages(*group) != 0;
            for group in stock.pages.groups().filter(holds) {
                named.entry(group).or_default().stocked += stock.pages.pages(group);
            }
            if let Some(token) = stock.objects.token() {
                named.entry(GroupId(token.0)).or_default().object_bytes +=
                    u64::from(stock.objects.bytes());
            }
        }
        // Bytes that CPUs parked may outlast all objects.
        let tokens = &self.k.memcg.tokens;
        for group in self.k.memcg.all().filter(|group| tokens.parked(TokenId(group.0)) != 0) {
            named.entry(group).or_default();
        }
        for group in named.keys().filter(|group| !group.is_root()) {
            if self.k.memcg.life(*group) == GroupLife::Free {
                let found = format!("{group:?} is no group, and named: {:?}", named[group]);
                return self.broken(None, Rule::Group, found);
            }
        }
        for group in self.k.memcg.all().filter(|group| !group.is_root()) {
            self.group(group, &named)?;
        }
        self.group_levels()
    }

    /// One group: what it says against what names it and those below it.
    fn group(&self, group: GroupId, named: &BTreeMap<GroupId, Named>) -> Result<(), AuditError> {
        let (memcg, counters) = (&self.k.memcg, &self.k.mem.groups);
        let own = named.get(&group).copied().unwrap_or_default();
        let kept = [Kept::User, Kept::Kernel].map(|kind| memcg.kept(group, kind));
        if kept != [own.user_pages, own.kernel_pages] {
            let found = format!("{group:?} keeps {kept:?} pages (users, kernel), named: {own:?}");
            return self.broken(None, Rule::Group, found);
        }
        let kept = [Kept::Sockets, Kept::SocketPages].map(|kind| memcg.kept(group, kind));
        let counted = counters.own_count(group, NodeId(0), GroupStat::Sock);
        if kept != [own.nr_sockets, own.socket_pages] || counted != own.socket_pages as i64 {
            let found = format!(
                "{group:?} keeps {kept:?} (sockets, pages of them) and shows {counted} pages, named: {own:?}"
            );
            return self.broken(None, Rule::Group, found);
        }
        // A removed group's kernel memory is its parent's to pay.
        if !memcg.is_online(group) {
            return Ok(());
        }
        let within = |other: GroupId| counters.memory.is_within(other, group);
        let pays = |other: GroupId| within(memcg.tokens.owner(TokenId(other.0)));
        let mut pages = 0;
        let mut slots = 0;
        for (&other, named) in named {
            let is_below = within(other);
            let exact = named.user_pages + named.socket_pages + named.stocked;
            pages += if is_below { exact } else { 0 };
            pages += if pays(other) { named.kernel_pages } else { 0 };
            slots += if is_below { named.slots } else { 0 };
            if pays(other) {
                let bytes = named.object_bytes + u64::from(memcg.tokens.parked(TokenId(other.0)));
                if bytes % PAGE_SIZE as u64 != 0 {
                    let found = format!("{bytes} bytes of objects name {other:?}: no whole pages");
                    return self.broken(None, Rule::Group, found);
                }
                pages += bytes / PAGE_SIZE as u64;
            }
        }
        let (usage, swap) = (counters.memory[group].usage(), counters.swap[group].usage());
        let memsw = counters.memory.memsw().map_or(pages + slots, |memsw| memsw[group].usage());
        if memsw != pages + slots {
            let found = format!(
                "{group:?} uses {memsw} of memory and swap together; {pages} pages and {slots} \
                 slots were found: {named:?}"
            );
            return self.broken(None, Rule::Group, found);
        }
        if usage != pages || swap != slots {
            let found = format!(
                "{group:?} uses {usage} pages and {swap} slots; {pages} and {slots} were found: \
                 {named:?}"
            );
            return self.broken(None, Rule::Group, found);
        }
        Ok(())
    }

    fn name_pages(&self, named: &mut BTreeMap<GroupId, Named>) {
        for pfn in self.k.mem.map.touched() {
            let owner = self.k.mem.groups.owner(pfn);
            let page = self.page(pfn);
            // The owner of a folio's other frames is not looked at.
            let is_head = page.has(BlockFlags::USED);
            if owner.is_root() || !is_head {
                continue;
            }
            let (is, pages) = (self.uses[pfn].is, page.order().pages());
            let named = named.entry(owner).or_default();
            match is.intersects(Found::TABLE | Found::STACK) {
                true => named.kernel_pages += pages,
                false => named.user_pages += pages,
            }
        }
    }

    fn name_objects(&self, named: &mut BTreeMap<GroupId, Named>) {
        for &kind in CacheKind::ALL {
            let bytes = kind.object_bytes() as u64 + 8;
            let cache = self.k.slab(kind).lock(self.cx.cpu());
            for owner in cache.owners().filter(|owner| !owner.is_root()) {
                named.entry(owner).or_default().object_bytes += bytes;
            }
        }
    }

    fn name_slots(&self, named: &mut BTreeMap<GroupId, Named>) {
        for area in &self.k.swap.areas {
            let slots = area.slots.lock(self.cx.cpu());
            for id in (1..area.spec.pages).map(|offset| slots.owner(offset)) {
                if let Some(group) = self.k.memcg.by_id(id).filter(|_| id != 0) {
                    named.entry(group).or_default().slots += 1;
                }
            }
        }
    }

    /// Each end of an open connection names its group, for the pages that it is charged for.
    fn name_sockets(&self, named: &mut BTreeMap<GroupId, Named>) {
        let open = self.k.connections.lock(self.cx.cpu());
        for connection in open.open.values() {
            for (group, pages) in connection.holds(self.cx.cpu()).ends {
                if !group.is_root() {
                    let named = named.entry(group).or_default();
                    named.nr_sockets += 1;
                    named.socket_pages += pages;
                }
            }
        }
    }

    /// All groups together count what the nodes count.
    fn group_levels(&self) -> Result<(), AuditError> {
        for node in self.k.mem.nodes() {
            let of_lists = LruKind::ALL.map(LruKind::node_stat);
            let of_kernel = [NodeStat::PageTablePages, NodeStat::KernelStack];
            for item in of_lists.into_iter().chain(USER_LEVELS).chain(of_kernel) {
                let groups = self.k.memcg.all().map(|g| self.k.mem.groups.own(g, node.id, item));
                let of_node = |item: NodeStat| node.stats.read_exact(item as usize);
                // A group's pages of files are those of the page cache alone.
                let counted = match item {
                    NodeStat::FilePages => of_node(item) - of_node(NodeStat::Swapcached),
                    _ => of_node(item),
                };
                let sum = groups.sum::<i64>();
                if sum != counted as i64 {
                    let found = format!(
                        "groups count {sum} of {} on node {}, which counts {counted}",
                        item.name(),
                        node.id.0
                    );
                    return self.broken(None, Rule::Group, found);
                }
            }
        }
        Ok(())
    }
}
