//! Connections of tasks in groups, on a host whose devices finish at once
//! (rules/memory-cgroups#sockets).

use alloc::sync::Arc;

use super::{Connection, End};
use crate::audit::check_kernel;
use crate::block::DeviceSpec;
use crate::config::{Machine, preset};
use crate::host::{CpuId, Cx, Solo};
use crate::kernel::{Error, Kernel, KernelSpec};
use crate::memcg::{GroupEvent, GroupLife};
use crate::page::PAGE_SIZE;
use crate::page_alloc::boot;
use crate::reclaim::GroupSetting;
use crate::units::GroupId;

const CPU: CpuId = CpuId(0);
const PAGE: u64 = PAGE_SIZE as u64;
const MIB: u64 = 1 << 20;

struct Stage<'h> {
    cx: Cx<'h, Solo>,
    kernel: Kernel<Solo>,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo, is_throttling_counted: bool) -> Self {
        let machine = Machine::from_sizes("stage", &[(512 << 20, alloc::vec![0, 1])]).unwrap();
        let mut policy = preset("6.1").unwrap();
        policy.memcg.sock_throttled = is_throttling_counted;
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, &policy).unwrap();
        let devices = alloc::vec![DeviceSpec::nvme(1 << 20)];
        let spec = KernelSpec { devices, groups: 8, ..KernelSpec::default() };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        Stage { cx, kernel }
    }

    /// A group that the task is in from now on.
    fn group(&self, max: u64) -> GroupId {
        let group = self.kernel.make_group(&self.cx, GroupId::ROOT).unwrap();
        self.kernel.set_group(&self.cx, group, GroupSetting::Max(max)).unwrap();
        self.join(group);
        group
    }

    fn join(&self, group: GroupId) {
        self.kernel.join_group(&self.cx, None, group).unwrap();
    }

    fn connect(&self) -> Arc<Connection<Solo>> {
        let connection = self.kernel.tcp_connect(&self.cx);
        self.kernel.tcp_accept(&self.cx, &connection);
        connection
    }

    fn send(&self, connection: &Connection<Solo>, bytes: u64) -> Result<u64, Error> {
        self.kernel.tcp_send(&self.cx, connection, bytes)
    }

    fn close(&self, connection: &Connection<Solo>) {
        for end in [End::Sender, End::Receiver] {
            self.kernel.tcp_close(&self.cx, connection, end);
        }
    }

    /// `sock` of `memory.stat`, in pages, and `memory.current`.
    fn sock(&self, group: GroupId) -> (u64, u64) {
        self.kernel.mem.groups.flush_all(0);
        let lines = self.kernel.group_stat(&self.cx, group);
        let sock = lines.iter().find(|line| line.name == "sock").expect("a line of memory.stat");
        assert!(sock.is_level);
        (sock.value / PAGE, self.kernel.group_usage(group))
    }

    fn check(&self) {
        if let Err(broken) = check_kernel(&self.kernel, &self.cx) {
            panic!("{broken}");
        }
    }
}

/// Both ends pay in pages, beside the frames; usage moves in batches of 64, and a close puts the
/// pages into the CPU's stock, from which only more than a batch goes.
#[test]
fn both_ends_pay_for_their_buffers() {
    let host = Solo::default();
    let stage = Stage::new(&host, false);
    let group = stage.group(u64::MAX);
    let connection = stage.connect();
    assert_eq!(stage.send(&connection, MIB), Ok(MIB));
    let (sock, usage) = stage.sock(group);
    assert_eq!((sock, usage), (259 + 17, 5 * 64));
    assert_eq!(stage.sock(GroupId::ROOT).0, sock, "the root shows what is below it");
    assert_eq!(connection.nr_segments(CPU), 2);
    let blocks = connection.holds(CPU).blocks;
    let pages = blocks.iter().map(|(_, order)| order.pages()).sum::<u64>();
    assert_eq!(pages, MIB / PAGE, "the bytes lie in memory once");
    stage.check();
    stage.close(&connection);
    let (sock, usage) = stage.sock(group);
    assert_eq!(sock, 0);
    assert!(usage < 64, "{usage} pages in the stock");
    assert!(connection.holds(CPU).blocks.is_empty());
    stage.check();
}

#[test]
fn a_reader_takes_everything() {
    let host = Solo::default();
    let stage = Stage::new(&host, false);
    let group = stage.group(u64::MAX);
    let connection = stage.connect();
    assert_eq!(stage.send(&connection, MIB), Ok(MIB));
    stage.kernel.tcp_close(&stage.cx, &connection, End::Sender);
    let mut read = 0;
    while !connection.is_at_end(CPU) {
        read += stage.kernel.tcp_receive(&stage.cx, &connection, 10_000);
    }
    assert_eq!((read, stage.sock(group).0), (MIB, 0));
    assert_eq!(connection.nr_segments(CPU), 33);
    stage.kernel.tcp_close(&stage.cx, &connection, End::Receiver);
    stage.check();
}

/// A send buffer on the loopback device takes 2.5 MiB; a send that does not wait stops there.
#[test]
fn the_send_buffer_is_bounded() {
    let host = Solo::default();
    let stage = Stage::new(&host, false);
    let group = stage.group(u64::MAX);
    let connection = stage.connect();
    let sent = stage.send(&connection, 100 * MIB).unwrap();
    assert_eq!(stage.send(&connection, 1), Ok(0));
    let (sock, _) = stage.sock(group);
    assert!((2_500_000..2_626_560 + 65_483).contains(&sent), "{sent}");
    assert_eq!(sock, 2_626_560_u64.div_ceil(PAGE) + 17);
    stage.close(&connection);
    stage.check();
}

/// The program that sends reclaims for its charge; a receiver in a soft interrupt cannot. Its
/// segment is dropped and stays with the sender.
#[test]
fn a_group_at_its_limit_gets_no_segments() {
    let host = Solo::default();
    let stage = Stage::new(&host, true);
    let receiver = stage.group(12);
    let sender = stage.group(u64::MAX);
    let connection = stage.kernel.tcp_connect(&stage.cx);
    stage.join(receiver);
    stage.kernel.tcp_accept(&stage.cx, &connection);
    stage.join(sender);
    assert_eq!(stage.send(&connection, MIB), Ok(MIB));
    // One of two segments: 9 pages fit below 12, 17 do not.
    assert_eq!((connection.nr_segments(CPU), stage.sock(receiver).0), (1, 9));
    assert_eq!(stage.kernel.memcg.events(receiver, GroupEvent::SockThrottled), [1, 1]);
    assert_eq!(stage.kernel.memcg.events(receiver, GroupEvent::Max), [0, 0], "nobody reclaimed");
    // Before the retransmission timeout nothing is tried again.
    assert_eq!(stage.send(&connection, 0), Ok(0));
    assert_eq!(stage.kernel.memcg.events(receiver, GroupEvent::SockThrottled), [1, 1]);
    stage.check();
    stage.close(&connection);
    stage.check();
}

/// The first skb of a socket is charged above the limit, and counts as an event of the limit.
#[test]
fn the_first_segment_is_charged_above_the_limit() {
    let host = Solo::default();
    let stage = Stage::new(&host, true);
    let receiver = stage.group(1);
    let sender = stage.group(u64::MAX);
    let connection = stage.kernel.tcp_connect(&stage.cx);
    stage.join(receiver);
    stage.kernel.tcp_accept(&stage.cx, &connection);
    stage.join(sender);
    assert_eq!(stage.send(&connection, MIB), Ok(MIB));
    assert_eq!((connection.nr_segments(CPU), stage.sock(receiver)), (1, (9, 9)));
    assert_eq!(stage.kernel.memcg.events(receiver, GroupEvent::Max), [1, 1]);
    stage.close(&connection);
    stage.check();
}

/// Up to 6.12 no event counts refusals.
#[test]
fn refusals_are_counted_by_policy() {
    let host = Solo::default();
    let stage = Stage::new(&host, false);
    let receiver = stage.group(1);
    let sender = stage.group(u64::MAX);
    let connection = stage.kernel.tcp_connect(&stage.cx);
    stage.join(receiver);
    stage.kernel.tcp_accept(&stage.cx, &connection);
    stage.join(sender);
    assert_eq!(stage.send(&connection, MIB), Ok(MIB));
    assert_eq!(stage.kernel.memcg.events(receiver, GroupEvent::SockThrottled), [0, 0]);
    stage.close(&connection);
}

/// A sender in a group that has no room: its program reclaims, finds nothing, and nothing to kill.
/// The send buffer takes what fits.
#[test]
fn a_sender_at_its_limit_sends_less() {
    let host = Solo::default();
    let stage = Stage::new(&host, true);
    let receiver = stage.group(u64::MAX);
    let sender = stage.group(100);
    let connection = stage.kernel.tcp_connect(&stage.cx);
    stage.join(receiver);
    stage.kernel.tcp_accept(&stage.cx, &connection);
    stage.join(sender);
    let sent = stage.send(&connection, MIB).unwrap();
    let (sock, usage) = stage.sock(sender);
    assert_eq!((sock, usage), (100, 100));
    assert!((100 * 3900..MIB).contains(&sent), "{sent}");
    assert!(stage.kernel.memcg.events(sender, GroupEvent::Max)[0] > 0, "it reclaimed");
    assert_eq!(stage.kernel.memcg.events(sender, GroupEvent::SockThrottled), [1, 1]);
    stage.check();
    stage.close(&connection);
    stage.check();
}

/// A removed group stays with its charges until its last socket is closed.
#[test]
fn a_socket_keeps_its_group() {
    let host = Solo::default();
    let stage = Stage::new(&host, false);
    let group = stage.group(u64::MAX);
    let connection = stage.connect();
    assert_eq!(stage.send(&connection, MIB / 2), Ok(MIB / 2));
    let before = stage.sock(group).0;
    stage.join(GroupId::ROOT);
    stage.kernel.remove_group(&stage.cx, group).unwrap();
    assert_eq!(stage.kernel.memcg.life(group), GroupLife::Offline);
    assert_eq!(stage.kernel.group_usage(group), before, "its stock is gone");
    // The socket goes on charging it, page by page.
    assert_eq!(stage.send(&connection, MIB / 2), Ok(MIB / 2));
    assert_eq!(stage.kernel.group_usage(group), 276);
    stage.check();
    stage.kernel.tcp_close(&stage.cx, &connection, End::Sender);
    assert_eq!(stage.kernel.memcg.life(group), GroupLife::Offline);
    stage.kernel.tcp_close(&stage.cx, &connection, End::Receiver);
    assert_eq!(stage.kernel.memcg.life(group), GroupLife::Free);
    stage.check();
}

/// The receiving end has no group until it is accepted; then the group pays for what has arrived.
#[test]
fn who_accepts_pays() {
    let host = Solo::default();
    let stage = Stage::new(&host, false);
    let sender = stage.group(u64::MAX);
    let connection = stage.kernel.tcp_connect(&stage.cx);
    assert_eq!(stage.send(&connection, MIB), Ok(MIB));
    assert_eq!(stage.sock(sender).0, 259);
    let receiver = stage.group(4);
    stage.kernel.tcp_accept(&stage.cx, &connection);
    assert_eq!(stage.sock(receiver), (17, 17), "whatever its limit");
    stage.check();
    stage.close(&connection);
    stage.check();
}

/// Sockets of the root cost their frames, and nobody a charge.
#[test]
fn the_root_pays_nothing() {
    let host = Solo::default();
    let stage = Stage::new(&host, false);
    let connection = stage.connect();
    assert_eq!(stage.send(&connection, MIB), Ok(MIB));
    assert_eq!(stage.sock(GroupId::ROOT).0, 0);
    stage.kernel.tcp_close(&stage.cx, &connection, End::Receiver);
    assert_eq!(stage.send(&connection, 1), Err(Error::Invalid));
    stage.kernel.tcp_close(&stage.cx, &connection, End::Sender);
    stage.check();
}
