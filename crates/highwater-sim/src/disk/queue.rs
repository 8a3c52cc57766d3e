//! The requests that wait for a disk, and the order in which it serves them
//! (rules/block#scheduler).
//!
//! | scheduler | order |
//! |---|---|
//! | [`Scheduler::None`] | as submitted |
//! | [`Scheduler::Deadline`] | reads before writes, in runs of ascending position; nothing waits for ever |
//!
//! Every call passes the current time to the queue; no call asks about the past. Finished requests
//! wait in the queue, by the CPU that submitted them, until that CPU's interrupt takes them.

use std::collections::{BTreeMap, VecDeque};

use highwater_core::host::{CpuId, IoDirection, IoError, IoRequest};

use super::{DiskModel, PerDirection, Transfer};

/// Choice of the next waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// First come, first served.
    None,
    /// mq-deadline.
    Deadline,
}

/// A request that is done.
#[derive(Debug)]
pub struct Finished {
    /// The request.
    pub request: IoRequest,
    /// Its result.
    pub result: Result<(), IoError>,
    /// Time of submission.
    pub submitted_ns: u64,
    /// Time at which the disk began to serve it; before that it waited in the queue.
    pub begun_ns: u64,
    /// Time at which it was done.
    pub done_ns: u64,
}

/// Counts of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DiskStats {
    /// Requests done.
    pub nr_done: u64,
    /// Requests that failed, included in `nr_done`.
    pub nr_failed: u64,
    /// Pages moved (pages requested, if the request failed).
    pub nr_pages: u64,
    /// Time from submission to the end, over all requests.
    pub total_ns: u64,
}

struct Waiting {
    request: IoRequest,
    cpu: CpuId,
    submitted_ns: u64,
}

struct InService {
    waiting: Waiting,
    begun_ns: u64,
    result: Result<(), IoError>,
}

/// A disk with its queue.
pub struct DiskQueue {
    model: Box<dyn DiskModel>,
    waiting: Order,
    /// Keyed by end time, then by order of beginning.
    in_service: BTreeMap<(u64, u64), InService>,
    next_ticket: u64,
    done: VecDeque<(CpuId, Finished)>,
    stats: PerDirection<DiskStats>,
}

impl DiskQueue {
    /// An empty queue.
    pub fn new(model: Box<dyn DiskModel>, scheduler: Scheduler) -> Self {
        let waiting = match scheduler {
            Scheduler::None => Order::Arrival(VecDeque::new()),
            Scheduler::Deadline => Order::Deadline(Deadline::default()),
        };
        DiskQueue {
            model,
            waiting,
            in_service: BTreeMap::new(),
            next_ticket: 0,
            done: VecDeque::new(),
            stats: PerDirection::default(),
        }
    }

    /// Ends the disk's faults ([`DiskModel::heal`]).
    pub fn heal(&mut self) {
        self.model.heal();
    }

    /// Queues a request that arrives from `cpu`.
    pub fn submit(&mut self, now_ns: u64, cpu: CpuId, request: IoRequest) {
        self.advance(now_ns);
        self.waiting.push(Waiting { request, cpu, submitted_ns: now_ns });
        self.begin(now_ns);
    }

    /// Serves a request on a disk that works in the submitter's own time, and returns its result.
    pub fn move_at_once(&mut self, now_ns: u64, request: &IoRequest) -> Result<(), IoError> {
        let result = self.model.serve(now_ns, &transfer_of(request)).result;
        self.count(request, result, 0);
        result
    }

    /// Ends the requests that are done by now and begins those that waited for a channel.
    pub fn advance(&mut self, now_ns: u64) {
        while let Some(entry) = self.in_service.first_entry()
            && entry.key().0 <= now_ns
        {
            let ((done_ns, _), InService { waiting, begun_ns, result }) = entry.remove_entry();
            let Waiting { request, cpu, submitted_ns } = waiting;
            self.count(&request, result, done_ns - submitted_ns);
            let finished = Finished { request, result, submitted_ns, begun_ns, done_ns };
            self.done.push_back((cpu, finished));
            self.begin(done_ns);
        }
    }

    /// The next finished request of `cpu`, oldest first.
    pub fn take_done(&mut self, cpu: CpuId) -> Option<Finished> {
        let at = self.done.iter().position(|&(owner, _)| owner == cpu)?;
        self.done.remove(at).map(|(_, finished)| finished)
    }

    /// Time at which the next request in service is done, and the CPU that submitted it.
    pub fn next_done(&self) -> Option<(u64, CpuId)> {
        self.in_service.first_key_value().map(|(key, entry)| (key.0, entry.waiting.cpu))
    }

    /// CPUs with a request that is done and was not taken.
    pub fn cpus_with_done(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.done.iter().map(|&(cpu, _)| cpu)
    }

    /// Requests that wait or are in service.
    pub fn nr_pending(&self) -> usize {
        self.waiting.len() + self.in_service.len()
    }

    /// Counts so far.
    pub fn stats(&self) -> PerDirection<DiskStats> {
        self.stats
    }

    fn begin(&mut self, now_ns: u64) {
        while self.in_service.len() < self.model.channels()
            && let Some(waiting) = self.waiting.next(now_ns)
        {
            let service = self.model.serve(now_ns, &transfer_of(&waiting.request));
            let key = (service.done_ns, self.next_ticket);
            self.next_ticket += 1;
            let (begun_ns, result) = (now_ns, service.result);
            self.in_service.insert(key, InService { waiting, begun_ns, result });
        }
    }

    fn count(&mut self, request: &IoRequest, result: Result<(), IoError>, took_ns: u64) {
        let stats = match request.direction {
            IoDirection::Read => &mut self.stats.read,
            IoDirection::Write => &mut self.stats.write,
        };
        stats.nr_done += 1;
        stats.nr_failed += u64::from(result.is_err());
        stats.nr_pages += u64::from(request.nr_pages);
        stats.total_ns += took_ns;
    }
}

fn transfer_of(request: &IoRequest) -> Transfer {
    Transfer { direction: request.direction, start: request.start, nr_pages: request.nr_pages }
}

/// Waiting requests.
enum Order {
    Arrival(VecDeque<Waiting>),
    Deadline(Deadline),
}

impl Order {
    fn push(&mut self, waiting: Waiting) {
        match self {
            Order::Arrival(queue) => queue.push_back(waiting),
            Order::Deadline(deadline) => deadline.push(waiting),
        }
    }

    fn next(&mut self, now_ns: u64) -> Option<Waiting> {
        match self {
            Order::Arrival(queue) => queue.pop_front(),
            Order::Deadline(deadline) => deadline.next(now_ns),
        }
    }

    fn len(&self) -> usize {
        match self {
            Order::Arrival(queue) => queue.len(),
            Order::Deadline(deadline) => deadline.sides.iter().map(|side| side.sorted.len()).sum(),
        }
    }
}

/// Requests served in one direction before the other gets a turn.
const BATCH: u32 = 16;
/// Batches of reads that may pass a waiting write.
const WRITES_STARVED_MAX: u32 = 2;
/// Wait after which a request is served next in its direction.
const EXPIRY_NS: [u64; 2] = [500_000_000, 5_000_000_000];

/// mq-deadline's requests of two directions: reads, writes.
#[doc(alias = "deadline_data")]
#[derive(Default)]
struct Deadline {
    sides: [Side; 2],
    batch_side: usize,
    batch_left: u32,
    writes_starved: u32,
    next_ticket: u64,
}

/// One direction: by position, and by age.
#[derive(Default)]
struct Side {
    sorted: BTreeMap<(u64, u64), Waiting>,
    /// Ticket to position.
    oldest: BTreeMap<u64, u64>,
    /// End position of the last request of this direction.
    position: u64,
}

impl Deadline {
    fn push(&mut self, waiting: Waiting) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let side = &mut self.sides[waiting.request.direction as usize];
        side.oldest.insert(ticket, waiting.request.start);
        side.sorted.insert((waiting.request.start, ticket), waiting);
    }

    /// Takes the request to serve next: the batch goes on, or the other direction gets its turn.
    #[doc(alias = "dd_dispatch_request")]
    fn next(&mut self, now_ns: u64) -> Option<Waiting> {
        let batch = &self.sides[self.batch_side];
        if self.batch_left > 0
            && let Some(key) = batch.ahead()
        {
            self.batch_left -= 1;
            return self.sides[self.batch_side].take(key);
        }
        let [reads, writes] = &self.sides;
        let (has_reads, has_writes) = (!reads.sorted.is_empty(), !writes.sorted.is_empty());
        self.batch_side = match (has_reads, has_writes) {
            (false, false) => return None,
            (true, true) if self.writes_starved < WRITES_STARVED_MAX => {
                self.writes_starved += 1;
                0
            }
            (true, false) => 0,
            (_, true) => {
                self.writes_starved = 0;
                1
            }
        };
        let side = &mut self.sides[self.batch_side];
        let key = side.expired(now_ns, EXPIRY_NS[self.batch_side]).or_else(|| side.ahead());
        // Nothing ahead: back to the oldest.
        let key = key.or_else(|| side.oldest.first_key_value().map(|(&t, &at)| (at, t)))?;
        self.batch_left = BATCH - 1;
        side.take(key)
    }
}

impl Side {
    /// The next request in ascending position.
    fn ahead(&self) -> Option<(u64, u64)> {
        self.sorted.range((self.position, 0)..).next().map(|(&key, _)| key)
    }

    /// Returns the oldest request, if it waited too long.
    #[doc(alias = "deadline_check_fifo")]
    fn expired(&self, now_ns: u64, expiry_ns: u64) -> Option<(u64, u64)> {
        let (&ticket, &start) = self.oldest.first_key_value()?;
        let waiting = self.sorted.get(&(start, ticket))?;
        (now_ns >= waiting.submitted_ns + expiry_ns).then_some((start, ticket))
    }

    fn take(&mut self, key: (u64, u64)) -> Option<Waiting> {
        self.oldest.remove(&key.1);
        let waiting = self.sorted.remove(&key)?;
        self.position = transfer_of(&waiting.request).end();
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::block::{DeviceId, WriteClass};
    use highwater_core::host::IoDirection::{Read, Write};
    use highwater_core::host::Urgency;

    use super::super::{Hdd, HddSpec, Service, Ssd, SsdSpec};
    use super::*;

    fn request(id: u64, direction: IoDirection, start: u64) -> IoRequest {
        let device = DeviceId(0);
        IoRequest {
            id,
            device,
            direction,
            start,
            nr_pages: 1,
            urgency: Urgency::Sync,
            write_class: WriteClass::Free,
            bios: Vec::new(),
        }
    }

    /// One channel, 1000 ns each.
    struct Slow;

    impl DiskModel for Slow {
        fn channels(&self) -> usize {
            1
        }

        fn serve(&mut self, now_ns: u64, _: &Transfer) -> Service {
            Service { done_ns: now_ns + 1000, result: Ok(()) }
        }
    }

    fn order(scheduler: Scheduler, requests: &[(IoDirection, u64)]) -> Vec<u64> {
        let mut queue = DiskQueue::new(Box::new(Slow), scheduler);
        for (id, &(direction, start)) in requests.iter().enumerate() {
            queue.submit(0, CpuId(0), request(id as u64, direction, start));
        }
        queue.advance(u64::MAX);
        let mut ids = Vec::new();
        while let Some(finished) = queue.take_done(CpuId(0)) {
            assert_eq!(finished.done_ns, 1000 * (ids.len() as u64 + 1));
            ids.push(finished.request.id);
        }
        assert_eq!(queue.nr_pending(), 0);
        ids
    }

    #[test]
    fn without_a_scheduler_requests_go_in_order() {
        let all = [(Write, 5), (Read, 9), (Read, 1)];
        assert_eq!(order(Scheduler::None, &all), [0, 1, 2]);
    }

    #[test]
    fn deadline_serves_reads_first_in_ascending_runs() {
        // The first is in service when the others come.
        let all = [(Read, 50), (Write, 60), (Read, 90), (Read, 70), (Read, 10), (Write, 5)];
        assert_eq!(order(Scheduler::Deadline, &all), [0, 3, 2, 4, 5, 1]);
    }

    #[test]
    fn two_batches_of_reads_may_pass_a_write() {
        let mut all = vec![(Read, 0), (Write, 7)];
        // Descending positions: each is a separate run, so a batch ends when nothing is ahead.
        all.extend((0..6).map(|i| (Read, 1000 - i * 10)));
        let ids = order(Scheduler::Deadline, &all);
        let write_at = ids.iter().position(|&id| id == 1).expect("served");
        // The run upwards from 0 to the last request, which is all of them.
        assert_eq!(write_at, 7);
        let mut many = vec![(Read, 0), (Write, 7)];
        many.extend((1..100).map(|i| (Read, i * 10)));
        let ids = order(Scheduler::Deadline, &many);
        let write_at = ids.iter().position(|&id| id == 1).expect("served");
        // The first ran alone, so the rest of its batch of 16 follows it; one more batch passes.
        assert!((16..=48).contains(&write_at), "{write_at}");
    }

    #[test]
    fn an_expired_request_is_served_whatever_its_position() {
        let mut queue = DiskQueue::new(Box::new(Slow), Scheduler::Deadline);
        queue.submit(0, CpuId(0), request(0, Read, 500));
        queue.submit(1, CpuId(0), request(1, Read, 3));
        let mut now_ns = 0;
        let mut nr_before = 0;
        // A stream of requests ahead of the head, always one waiting.
        for id in 2..2_000_000u64 {
            queue.submit(now_ns + 2, CpuId(0), request(id, Read, 500 + id));
            now_ns += 1000;
            queue.advance(now_ns);
            let done = queue.take_done(CpuId(0)).expect("one a microsecond");
            if done.request.id == 1 {
                break;
            }
            nr_before += 1;
        }
        // Batches of 16 end, but the next one goes on ahead until 500 ms have passed.
        assert!((500_000..500_100).contains(&nr_before), "{nr_before}");
    }

    #[test]
    fn requests_come_back_to_the_cpu_that_submitted_them() {
        let mut queue = DiskQueue::new(Box::new(Ssd::new(SsdSpec::NVME, 1, 0)), Scheduler::None);
        for id in 0..6 {
            queue.submit(id, CpuId(id as u16 % 2), request(id, Read, id * 100));
        }
        assert!(queue.next_done().is_some_and(|(at, _)| at > 70_000));
        queue.advance(200_000);
        assert_eq!(queue.nr_pending(), 0);
        let ids = |queue: &mut DiskQueue, cpu| {
            let mut ids: Vec<u64> =
                std::iter::from_fn(|| queue.take_done(cpu)).map(|f| f.request.id).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids(&mut queue, CpuId(1)), [1, 3, 5]);
        assert_eq!(ids(&mut queue, CpuId(0)), [0, 2, 4]);
        let stats = queue.stats().read;
        assert_eq!((stats.nr_done, stats.nr_pages, stats.nr_failed), (6, 6, 0));
    }

    #[test]
    fn sorting_makes_a_rotating_disk_faster() {
        let time = |scheduler| {
            let mut queue =
                DiskQueue::new(Box::new(Hdd::new(HddSpec::DESKTOP, 1 << 26, 1, 0)), scheduler);
            for id in 0..64u64 {
                queue.submit(0, CpuId(0), request(id, Read, (id * 37 % 64) << 20));
            }
            queue.advance(u64::MAX);
            let all: Vec<_> = std::iter::from_fn(|| queue.take_done(CpuId(0))).collect();
            assert_eq!(all.len(), 64);
            all.iter().map(|f| f.done_ns).max().expect("some")
        };
        assert!(time(Scheduler::Deadline) * 10 < time(Scheduler::None) * 9);
    }
}
