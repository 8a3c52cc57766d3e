//! Start and end of tasks: spawning, exiting, joining.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::rc::Rc;

use super::executor::{Inner, Sim};
use super::stack::Coroutine;
use super::task::{Placement, Spawn, TaskId, TaskIndex, TaskState, WaitOn};
use crate::ledger::{END_OF_TASK, NodeKey, Pause};

/// Payload of the unwinding by which [`Sim::exit`] ends a task.
pub(super) struct ExitTask;

impl Sim {
    /// Starts a task. It becomes runnable at the caller's time.
    ///
    /// # Panics
    /// If the system has no memory for its stack, or the machine lacks the CPU that it is pinned
    /// to.
    pub fn spawn<T: 'static>(
        &self,
        spawn: Spawn,
        body: impl FnOnce(&Sim) -> T + 'static,
    ) -> JoinHandle<T> {
        self.sync();
        let result = Rc::new(RefCell::new(None));
        let (task_sim, task_result) = (self.clone(), Rc::clone(&result));
        let coroutine = Coroutine::new(spawn.stack, move || {
            let value = body(&task_sim);
            // The end is an event that others see.
            task_sim.sync();
            *task_result.borrow_mut() = Some(value);
        })
        .unwrap_or_else(|error| panic!("no stack for task {}: {error}", spawn.name));
        let inner = &*self.inner;
        let state = &mut *inner.state.borrow_mut();
        let spawn = Spawn { placement: state.sched.resolve(spawn.placement), ..spawn };
        let cpu = match spawn.placement {
            Placement::Pinned(cpu) | Placement::Interrupt(cpu) => cpu,
            Placement::Node(_) | Placement::Anywhere => inner.cpu.get(),
        };
        assert!(cpu.idx() < state.sched.cpus.len(), "task {}: no CPU {}", spawn.name, cpu.0);
        let id = state.tasks.add(&spawn, cpu);
        state.sched.begin(id.index, spawn.nice, cpu);
        state.queue.reserve_ids(id.index.idx() + 1);
        inner.set_coroutine(id.index, coroutine);
        // Between two parts of a run the queue may be ahead: a task asked for its own clock.
        let now_ns = match inner.running.get() {
            TaskIndex::NONE => inner.local_ns.get().max(state.queue.position_ns()),
            _ => inner.local_ns.get(),
        };
        let role = state.role(id.index);
        if let Some(book) = &mut state.book {
            book.begin(id.index, &spawn.name, role, now_ns, Pause::Queued);
        }
        state.wake(id, now_ns, inner.running.get());
        self.after_wake(state);
        JoinHandle { sim: self.clone(), id, result }
    }

    /// Ends the running task at once (its locals are dropped).
    pub fn exit(&self) -> ! {
        self.inner.expect_current("exit");
        self.sync();
        resume_unwind(Box::new(ExitTask))
    }
}

/// The future result of a task.
pub struct JoinHandle<T> {
    sim: Sim,
    id: TaskId,
    result: Rc<RefCell<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// The task.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The task's result, if the task ended normally and the result was not taken yet.
    pub fn take(&self) -> Option<T> {
        self.result.borrow_mut().take()
    }

    /// True if the task has ended, or is about to.
    pub fn is_over(&self) -> bool {
        self.result.borrow().is_some()
            || self.sim.inner.state.borrow().tasks.find(self.id).is_none()
    }

    /// Waits for the task to end. `None` if it ended through [`Sim::exit`].
    pub fn join(self) -> Option<T> {
        self.sim.sync();
        let inner = &*self.sim.inner;
        loop {
            {
                let mut state = inner.state.borrow_mut();
                if inner.teardown.get() || state.tasks.find(self.id).is_none() {
                    break;
                }
                let me = inner.expect_current("join");
                let me = state.tasks.id_of(me);
                state.tasks.info_mut(self.id.index).joiners.push(me);
            }
            self.sim.block_for_exit(self.id.index);
        }
        self.take()
    }
}

impl Sim {
    fn block_for_exit(&self, task: TaskIndex) {
        let inner = &*self.inner;
        let me = inner.expect_current("join");
        {
            let state = &mut *inner.state.borrow_mut();
            self.begin_wait(state, me);
            state.book_pause(me, Pause::Wait(NodeKey::Wait(END_OF_TASK)));
            state.tasks[me].state = TaskState::Parked;
            state.tasks.info_mut(me).wait_on = WaitOn::Exit(task);
            Inner::release_cpu(state, me);
        }
        inner.switch_away(me);
        inner.state.borrow_mut().tasks.info_mut(me).wait_on = WaitOn::Nothing;
    }
}
