//! The programs, step by step.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::OpenFile;
use highwater_core::syscall::MemoryAdvice;
use highwater_core::vm::{Access, AreaFlags, Backing, Space};
use highwater_core::zone::MemoryPolicy;

use super::files::called;
use super::{Ground, Scenario, ScenarioError};
use crate::process;
use crate::xorshift::Xorshift;

/// A moment at which the counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment<'a> {
    /// Before the first step.
    Start,
    /// A step is over.
    Step(&'a str),
}

/// Pages of a huge page.
const HUGE_PAGES: u32 = 512;
/// Of memory that is broken up, one page in so many stays, unless the program says.
const KEPT_EVERY: u32 = 8;
/// Seconds between two looks, and of all of them, where nothing is done but to look on.
const LOOK_EVERY: u64 = 2;
const LOOK_UNTIL: u64 = 20;
/// Seconds after which things are settled.
const SETTLE: u64 = 3;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// One run of a program.
struct Run<'a, 'g, 'h, H: Devices> {
    ground: &'a Ground<'g, H>,
    cx: &'a Cx<'h, H>,
    at: &'a mut dyn FnMut(Moment<'_>),
}

pub(super) fn run<H: Devices>(
    scenario: &Scenario,
    ground: &Ground<'_, H>,
    cx: &Cx<'_, H>,
    at: &mut dyn FnMut(Moment<'_>),
) -> Result<(), ScenarioError> {
    let mut run = Run { ground, cx, at };
    match *scenario {
        Scenario::Cyclic { file, passes } => run.cyclic(file, passes),
        Scenario::HotCold { hot, rounds, cold } => run.hotcold(hot, rounds, cold),
        Scenario::Anon { size, passes } => run.anon(size, passes),
        Scenario::AnonRand { size, touches } => run.anonrand(size, touches),
        Scenario::Mixed { anon, file, rounds } => run.mixed(anon, file, rounds),
        Scenario::RandWrite { file, writes } => run.randwrite(file, writes),
        Scenario::Thp { anon, cache, fragment } => run.thp(anon, cache, fragment),
        Scenario::CompactManual { fragment, stride, cache } => {
            run.compact_manual(fragment, stride, cache)
        }
        Scenario::CompactProactive { fragment, stride, percent } => {
            run.compact_proactive(fragment, stride, percent)
        }
        Scenario::CompactThp { anon, fragment, cache, advise } => {
            run.compact_thp(anon, fragment, cache, advise)
        }
        Scenario::NumaAnon { size, policy } => run.numa_anon(size, policy.policy()),
        Scenario::NumaFileAnon { file, anon } => run.numa_fileanon(file, anon),
        Scenario::Zap { file, maps, cold } => run.zap(file, maps, cold),
    }
}

impl<H: Devices> Run<'_, '_, '_, H> {
    fn start(&mut self) {
        (self.at)(Moment::Start);
    }

    fn step(&mut self, label: &str) {
        (self.at)(Moment::Step(label));
    }

    fn cyclic(&mut self, file: f64, passes: u32) -> Result<(), ScenarioError> {
        let file = self.ground.make_file(self.cx, self.ground.pages(file))?;
        self.start();
        for pass in 1..=passes {
            self.ground.read_all(self.cx, &file)?;
            self.step(&format!("pass{pass}"));
        }
        Ok(())
    }

    fn hotcold(&mut self, hot: f64, rounds: u32, cold: f64) -> Result<(), ScenarioError> {
        let hot = self.ground.make_file(self.cx, self.ground.pages(hot))?;
        let cold = self.ground.make_file(self.cx, self.ground.pages(cold))?;
        self.start();
        self.ground.read_all(self.cx, &hot)?;
        self.ground.read_all(self.cx, &hot)?;
        self.step("hot");
        for round in 1..=rounds {
            self.ground.read_all(self.cx, &cold)?;
            self.step(&format!("cold{round}"));
            self.ground.read_all(self.cx, &hot)?;
            self.step(&format!("hot{round}"));
        }
        Ok(())
    }

    fn anon(&mut self, size: f64, passes: u32) -> Result<(), ScenarioError> {
        let memory = self.map_anon(size)?;
        self.start();
        for pass in 1..=passes {
            memory.touch_all(self)?;
            self.step(&format!("pass{pass}"));
        }
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let unmapped = kernel.munmap(cx, &memory.space, memory.start, memory.pages);
        called("munmap", unmapped)?;
        self.step("unmapped");
        process::end(kernel, cx, &memory.space);
        Ok(())
    }

    fn anonrand(&mut self, size: f64, touches: f64) -> Result<(), ScenarioError> {
        let memory = self.map_anon(size)?;
        memory.touch_all(self)?;
        self.start();
        let nr_touches = (touches * f64::from(memory.pages)) as u64;
        let mut random = Xorshift::new(self.ground.seed);
        for _ in 0..nr_touches {
            memory.touch(self, random.below(u64::from(memory.pages)) as u32)?;
        }
        self.step("after");
        process::end(self.ground.kernel, self.cx, &memory.space);
        Ok(())
    }

    fn mixed(&mut self, anon: f64, file: f64, rounds: u32) -> Result<(), ScenarioError> {
        let file = self.ground.make_file(self.cx, self.ground.pages(file))?;
        let memory = self.map_anon(anon)?;
        self.start();
        for round in 1..=rounds {
            memory.touch_all(self)?;
            self.ground.read_all(self.cx, &file)?;
            self.step(&format!("round{round}"));
        }
        process::end(self.ground.kernel, self.cx, &memory.space);
        Ok(())
    }

    fn randwrite(&mut self, file: f64, writes: f64) -> Result<(), ScenarioError> {
        let pages = self.ground.pages(file);
        let file = self.ground.make_file_to_write(self.cx, pages)?;
        self.start();
        let mut random = Xorshift::new(self.ground.seed);
        let (kernel, cx, page) = (self.ground.kernel, self.cx, PAGE_SIZE as u64);
        for _ in 0..(writes * pages as f64) as u64 {
            let pos = random.below(pages) * page;
            called("pwrite", kernel.file_write(cx, &file, pos, page))?;
        }
        self.step("after");
        called("fsync", kernel.fsync(cx, &file))?;
        self.step("synced");
        Ok(())
    }

    fn thp(&mut self, anon: f64, cache: f64, fragment: f64) -> Result<(), ScenarioError> {
        let holes = self.break_up(fragment, KEPT_EVERY, cache)?;
        self.start();
        let memory = self.touch_huge(anon, AreaFlags::HUGEPAGE)?;
        self.step("after");
        self.end(memory);
        holes.into_iter().for_each(|holes| self.end(holes));
        Ok(())
    }

    fn compact_manual(
        &mut self,
        fragment: f64,
        stride: u32,
        cache: f64,
    ) -> Result<(), ScenarioError> {
        let holes = self.break_up(fragment, stride, cache)?;
        self.start();
        for label in ["compact1", "compact2"] {
            self.ground.kernel.compact_memory(self.cx);
            self.step(label);
        }
        holes.into_iter().for_each(|holes| self.end(holes));
        Ok(())
    }

    fn compact_proactive(
        &mut self,
        fragment: f64,
        stride: u32,
        percent: u32,
    ) -> Result<(), ScenarioError> {
        let holes = self.break_up(fragment, stride, 0.0)?;
        self.start();
        self.ground.kernel.set_compaction_proactiveness(self.cx, percent.into());
        for seconds in (LOOK_EVERY..=LOOK_UNTIL).step_by(LOOK_EVERY as usize) {
            self.cx.host.sleep_ns(LOOK_EVERY * NS_PER_SECOND);
            self.step(&format!("t{seconds}"));
        }
        holes.into_iter().for_each(|holes| self.end(holes));
        Ok(())
    }

    fn compact_thp(
        &mut self,
        anon: f64,
        fragment: f64,
        cache: f64,
        advise: bool,
    ) -> Result<(), ScenarioError> {
        let holes = self.break_up(fragment, KEPT_EVERY, cache)?;
        self.start();
        let advice = if advise { AreaFlags::HUGEPAGE } else { AreaFlags::empty() };
        let memory = self.touch_huge(anon, advice)?;
        self.step("after");
        self.cx.host.sleep_ns(SETTLE * NS_PER_SECOND);
        self.step("settled");
        self.end(memory);
        holes.into_iter().for_each(|holes| self.end(holes));
        Ok(())
    }

    /// Breaks memory up, if any is given, and reads a file, if one is.
    fn break_up(
        &self,
        fragment: f64,
        stride: u32,
        cache: f64,
    ) -> Result<Option<Memory<H>>, ScenarioError> {
        let file = match cache > 0.0 {
            true => Some(self.ground.make_file(self.cx, self.ground.pages(cache))?),
            false => None,
        };
        let holes = if fragment > 0.0 { Some(self.fragment(fragment, stride)?) } else { None };
        if let Some(file) = &file {
            self.ground.read_all(self.cx, file)?;
        }
        Ok(holes)
    }

    /// Memory aligned to huge pages, each page stored to, not read before.
    fn touch_huge(&self, size: f64, advice: AreaFlags) -> Result<Memory<H>, ScenarioError> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let flags = AreaFlags::READ | AreaFlags::WRITE | advice;
        let memory = self.map(size, HUGE_PAGES, flags)?;
        for page in 0..memory.pages {
            let vpn = memory.start + page;
            called("touching memory", kernel.touch(cx, &memory.space, vpn, Access::Write))?;
        }
        Ok(memory)
    }

    /// The process whose memory it is ends.
    fn end(&self, memory: Memory<H>) {
        process::end(self.ground.kernel, self.cx, &memory.space);
    }

    /// Touches memory and gives all of it back but for one page in `stride`, a page a call.
    fn fragment(&self, size: f64, stride: u32) -> Result<Memory<H>, ScenarioError> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let memory = self.map_anon(size)?;
        memory.touch_all(self)?;
        for page in (0..memory.pages).filter(|page| !page.is_multiple_of(stride)) {
            let vpn = memory.start + page;
            let dropped = kernel.madvise(cx, &memory.space, vpn, 1, MemoryAdvice::DontNeed);
            called("madvise", dropped)?;
        }
        Ok(memory)
    }

    fn numa_anon(&mut self, size: f64, policy: MemoryPolicy) -> Result<(), ScenarioError> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        called("set_mempolicy", kernel.set_memory_policy(cx, policy))?;
        let memory = self.map_anon(size)?;
        self.start();
        memory.touch_all(self)?;
        self.step("touch");
        memory.touch_all(self)?;
        self.step("again");
        called("munmap", kernel.munmap(cx, &memory.space, memory.start, memory.pages))?;
        self.step("unmapped");
        self.end(memory);
        Ok(())
    }

    fn numa_fileanon(&mut self, file: f64, anon: f64) -> Result<(), ScenarioError> {
        let file = self.ground.make_file(self.cx, self.ground.pages(file))?;
        let memory = self.map_anon(anon)?;
        self.start();
        for (read, touch) in [("read1", "touch"), ("read2", "again")] {
            self.ground.read_all(self.cx, &file)?;
            self.step(read);
            memory.touch_all(self)?;
            self.step(touch);
        }
        self.end(memory);
        Ok(())
    }

    fn zap(&mut self, file: f64, maps: u32, cold: f64) -> Result<(), ScenarioError> {
        let file = self.ground.make_file(self.cx, self.ground.pages(file))?;
        let cold = self.ground.make_file(self.cx, self.ground.pages(cold))?;
        let space = called("a new process", process::start(self.ground.kernel, self.cx))?;
        self.start();
        for map in 1..=maps {
            self.map_touch_unmap(&space, &file)?;
            self.step(&format!("map{map}"));
        }
        self.ground.read_all(self.cx, &cold)?;
        self.step("cold");
        self.map_touch_unmap(&space, &file)?;
        self.step("remap");
        process::end(self.ground.kernel, self.cx, &space);
        Ok(())
    }

    fn map_touch_unmap(
        &self,
        space: &Space<H>,
        file: &Arc<OpenFile<H>>,
    ) -> Result<(), ScenarioError> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        // A process opens the file anew each time.
        let open = kernel.open(cx, &file.file);
        let pages = file.file.spec.max_pages;
        let flags = AreaFlags::READ | AreaFlags::SHARED;
        let backing = Backing::File { open, page: 0 };
        let start = called("mmap", kernel.mmap(cx, space, pages, 1, flags, backing))?;
        for vpn in start..start + pages {
            called("reading mapped memory", kernel.touch(cx, space, vpn, Access::Read))?;
        }
        called("munmap", kernel.munmap(cx, space, start, pages))
    }

    fn map_anon(&self, size: f64) -> Result<Memory<H>, ScenarioError> {
        self.map(size, 1, AreaFlags::READ | AreaFlags::WRITE | AreaFlags::NOHUGEPAGE)
    }

    fn map(&self, size: f64, align: u32, flags: AreaFlags) -> Result<Memory<H>, ScenarioError> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let space = called("a new process", process::start(kernel, cx))?;
        let pages = u32::try_from(self.ground.pages(size)).unwrap_or(u32::MAX);
        let start = called("mmap", kernel.mmap(cx, &space, pages, align, flags, Backing::Anon))?;
        Ok(Memory { space, start, pages })
    }
}

/// Private anonymous memory of the program.
struct Memory<H: Devices> {
    space: Arc<Space<H>>,
    start: u32,
    pages: u32,
}

impl<H: Devices> Memory<H> {
    /// Reads a byte, adds one, writes it back: a load and a store.
    fn touch(&self, run: &Run<'_, '_, '_, H>, page: u32) -> Result<(), ScenarioError> {
        let kernel = run.ground.kernel;
        for access in [Access::Read, Access::Write] {
            let touched = kernel.touch(run.cx, &self.space, self.start + page, access);
            called("touching memory", touched)?;
        }
        Ok(())
    }

    fn touch_all(&self, run: &Run<'_, '_, '_, H>) -> Result<(), ScenarioError> {
        (0..self.pages).try_for_each(|page| self.touch(run, page))
    }
}
