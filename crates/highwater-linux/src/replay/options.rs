//! The options of `replay`: a trace, policies and a machine by name.

use std::path::{Path, PathBuf};

use highwater_core::config::Policy;
use highwater_files::machine_file::MachineFile;
use highwater_files::policy_file;
use highwater_plan::plan::{MachineOptions, OPTION, PlanError, refuse_namesake};
use highwater_plan::settings::Settings;
use highwater_plan::sysctls;
use highwater_results::import::kmem::OnDamage;

use super::{Beside, Report, Sidecars, Trace, run_with};
use highwater_files::input::InputError;
use highwater_files::machine_file::state::StartState;

/// The policy of a replay that names none.
const DEFAULT_POLICY: &str = "6.1";

/// The trace to replay, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The trace.
    pub trace: PathBuf,
    /// Policies by name or file; none: 6.1.
    pub policies: Vec<String>,
    /// The machine; none: what lies beside the trace says it, or the trace itself.
    pub machine: MachineOptions,
    /// Use the files of `/proc` that lie beside the trace. A machine that is given comes before
    /// them, and so does a state.
    pub sidecars: bool,
    /// Replay an incomplete trace, too.
    pub partial: bool,
}

/// A replay that can begin.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// The policies, each of which has a replay.
    pub policies: Vec<Policy>,
    machine: Option<MachineFile>,
    trace: Trace,
    sidecars: Beside,
}

impl ReplayOptions {
    /// The replay of a trace under 6.1.
    pub fn new(trace: impl Into<PathBuf>) -> ReplayOptions {
        let (policies, machine) = (Vec::new(), MachineOptions::default());
        ReplayOptions { trace: trace.into(), policies, machine, sidecars: true, partial: false }
    }

    /// Resolves every name. Remarks go to `say`.
    ///
    /// # Errors
    /// Names the option that is wrong.
    pub fn plan(&self, say: &mut dyn FnMut(String)) -> Result<ReplayPlan, PlanError> {
        let policies = self.policies()?;
        let machine = self.machine.resolve()?;
        if !self.machine.storage.is_empty() {
            let reason = "a trace of the allocator has neither disks nor swap";
            say(format!("{}: ignored: {reason}", self.machine.storage.options()));
        }
        let labelled = policies.iter().map(|policy| (policy.clone(), policy.name.clone()));
        let labelled: Vec<_> = labelled.collect();
        let judged = sysctls::judge(machine.as_slice(), &labelled, &Settings::default())?;
        judged.into_iter().for_each(&mut *say);
        let sidecars = match &self.machine.state {
            Some(dir) => Beside::These(state_texts(dir, machine.as_ref(), say)?),
            // The user chose the machine, so it is not taken from the files beside the trace.
            None if self.sidecars && machine.is_none() => Beside::TheTrace,
            None => Beside::Nothing,
        };
        let on_damage = if self.partial { OnDamage::UseWhole } else { OnDamage::Refuse };
        let trace = Trace::file(&self.trace).on_damage(on_damage);
        Ok(ReplayPlan { policies, machine, trace, sidecars })
    }

    fn policies(&self) -> Result<Vec<Policy>, PlanError> {
        if self.policies.is_empty() {
            return Ok(vec![policy_file::load(DEFAULT_POLICY)?]);
        }
        let mut policies: Vec<Policy> = Vec::new();
        for name in &self.policies {
            let policy = policy_file::load(name)?;
            let others = policies.iter().map(|other| other.name.as_str());
            refuse_namesake(OPTION, &policy.name, name, others)?;
            policies.push(policy);
        }
        Ok(policies)
    }
}

impl ReplayPlan {
    /// Replays the trace. `done` is called after each policy with the number of finished ones.
    ///
    /// # Errors
    /// As [`super::run_trace`].
    pub fn run(self, done: impl Fn(usize)) -> Result<Report, InputError> {
        let machine = self.machine.as_ref().map(|machine| &machine.machine);
        run_with(self.trace, &self.policies, machine, self.sidecars, done)
    }
}

/// The texts of a state. With a machine they must fit it, and the zones' sizes and marks are the
/// machine's.
fn state_texts(
    dir: &str,
    machine: Option<&MachineFile>,
    say: &mut dyn FnMut(String),
) -> Result<Sidecars, InputError> {
    let Some(MachineFile { name, machine, .. }) = machine else {
        return Sidecars::of_dir(Path::new(dir));
    };
    let (mut texts, _, remarks) = StartState::load(dir, name, machine)?;
    remarks.into_iter().for_each(say);
    texts.zoneinfo = None;
    Ok(texts)
}
