//! A build: `make` with one job, until it is killed (rules/benchmarks#highalloc-builds).

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page_cache::File;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};

use super::compile::Source;
use super::shop::{Programs, Shop};
use super::{Disk, Entry, Tree};
use crate::process;
use crate::random::Random;
use crate::stop::Stop;

/// Anonymous pages of `make`, 4 MiB: the makefiles it has read.
const MAKE_PAGES: u32 = 1024;

/// A `make`.
pub struct Build<H: Devices, P> {
    /// The kernel.
    pub kernel: Rc<Kernel<H>>,
    /// The source tree.
    pub tree: Rc<Tree<H>>,
    /// The program text of the compiler.
    pub tools: Arc<File<H>>,
    /// The disk for objects.
    pub disk: Rc<Disk<H>>,
    /// Starts processes and passes CPU time.
    pub programs: P,
    /// Divisor of CPU times.
    pub compression: f64,
    /// Seed of its random choices.
    pub seed: u64,
}

/// Number of files that are linked into one: objects of a directory, and linked files of
/// subdirectories.
const LINKED: [usize; 2] = [16, 8];

/// Files that wait to be linked, by the number of links they have been through; each as an index of
/// the made files.
#[derive(Debug, Default)]
struct Unlinked([Vec<usize>; LINKED.len()]);

impl Unlinked {
    /// Adds a file of a level. A file above all levels is linked no further.
    fn add(&mut self, level: usize, file: usize) {
        if let Some(level) = self.0.get_mut(level) {
            level.push(file);
        }
    }

    /// Takes a full level: the files to link into one of the next level.
    fn due(&mut self) -> Option<(usize, Vec<usize>)> {
        let level = self.0.iter().zip(LINKED).position(|(files, nr)| files.len() == nr)?;
        Some((level, core::mem::take(&mut self.0[level])))
    }
}

/// The result of a build.
pub struct Built<H: Devices> {
    /// Sources that were compiled.
    pub compiles: u64,
    /// Files that it made.
    pub made: Vec<Entry<H>>,
}

impl<H: Devices> Default for Built<H> {
    fn default() -> Self {
        Built { compiles: 0, made: Vec::new() }
    }
}

impl<H: Devices + 'static, P: Programs<H>> Build<H, P> {
    /// Compiles one source after the other until it is killed: by `stop`, or by the OOM killer.
    ///
    /// # Errors
    /// If a call fails for another reason.
    pub fn run(&self, cx: &Cx<'_, H>, stop: &Rc<Stop>) -> Result<Built<H>, Error> {
        stop.enlist(cx);
        self.compile(cx, u64::MAX, stop)
    }

    /// Compiles `nr` sources: a module, or the programs that configure a tree.
    ///
    /// # Errors
    /// As [`Build::run`].
    pub fn some(&self, cx: &Cx<'_, H>, nr: u64) -> Result<Built<H>, Error> {
        self.compile(cx, nr, &Rc::default())
    }

    fn compile(&self, cx: &Cx<'_, H>, nr: u64, stop: &Rc<Stop>) -> Result<Built<H>, Error> {
        let make = match process::start(&self.kernel, cx) {
            Err(Error::Killed) => return Ok(Built::default()),
            made => made?,
        };
        let mut built = Built::default();
        let ended = self.compile_all(cx, &make, nr, stop, &mut built);
        process::end(&self.kernel, cx, &make);
        match ended {
            Ok(()) | Err(Error::Killed) => Ok(built),
            // A call that a signal ended fails like one without memory.
            Err(_) if cx.is_dying() => Ok(built),
            Err(error) => Err(error),
        }
    }

    fn compile_all(
        &self,
        cx: &Cx<'_, H>,
        make: &Mm<H>,
        nr: u64,
        stop: &Rc<Stop>,
        built: &mut Built<H>,
    ) -> Result<(), Error> {
        self.read_makefiles(cx, make)?;
        let shop = Rc::new(Shop {
            kernel: Rc::clone(&self.kernel),
            tree: Rc::clone(&self.tree),
            tools: Arc::clone(&self.tools),
            disk: Rc::clone(&self.disk),
            programs: self.programs.clone(),
            stop: Rc::clone(stop),
            compression: self.compression,
        });
        let mut random = Random::new(self.seed);
        let mut unlinked = Unlinked::default();
        for _ in 0..nr {
            if stop.is_set() {
                break;
            }
            let source = Source::choose(&mut random, self.tree.len());
            let [object, kept] = shop.compile(cx, make, source)?;
            unlinked.add(0, built.made.len());
            built.made.extend([object, kept]);
            built.compiles += 1;
            while let Some((level, inputs)) = unlinked.due() {
                let inputs = inputs.iter().map(|&file| built.made[file].clone()).collect();
                unlinked.add(level + 1, built.made.len());
                built.made.push(shop.link(cx, make, inputs)?);
            }
        }
        Ok(())
    }

    /// The memory of `make`.
    fn read_makefiles(&self, cx: &Cx<'_, H>, make: &Mm<H>) -> Result<(), Error> {
        let flags = VmaFlags::READ | VmaFlags::WRITE;
        let kernel = &*self.kernel;
        // A first page keeps the next mapping off a 2 MiB boundary, so that no huge page fits.
        kernel.mmap(cx, make, 1, 1, VmaFlags::READ, Backing::Anon)?;
        let start = kernel.mmap(cx, make, MAKE_PAGES / 4, 1, flags, Backing::Anon)?;
        kernel.touch_range(cx, make, start, MAKE_PAGES / 4, Access::Write)?;
        for _ in 1..4 {
            let new = kernel.grow_vma(cx, make, start, MAKE_PAGES / 4)?;
            kernel.touch_range(cx, make, new, MAKE_PAGES / 4, Access::Write)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rules/benchmarks#highalloc-builds.
    #[test]
    fn objects_are_linked_by_directories_and_directories_by_theirs() {
        let mut unlinked = Unlinked::default();
        let (mut made, mut links) = (0, Vec::new());
        for _ in 0..300 {
            unlinked.add(0, made);
            made += 1;
            while let Some((level, inputs)) = unlinked.due() {
                links.push((level, inputs.len()));
                unlinked.add(level + 1, made);
                made += 1;
            }
        }
        assert_eq!(links.len(), 18 + 2);
        assert_eq!(links[..9], [[(0, 16); 8].as_slice(), &[(1, 8)]].concat());
        assert_eq!(unlinked.0.map(|files| files.len()), [300 % 16, 18 % 8]);
    }
}
