//! Names of memory cgroups, for reports: the kernel knows numbers.

use std::collections::BTreeMap;
use std::rc::Rc;

use highwater_core::units::GroupId;

use crate::engine::Sim;

/// The names of a run's groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupNames {
    all: BTreeMap<GroupId, Rc<str>>,
}

impl GroupNames {
    /// The name of a group: the one it was given, or its number.
    pub fn of(&self, group: GroupId) -> String {
        match self.all.get(&group) {
            Some(name) => name.to_string(),
            None => format!("group {}", group.0),
        }
    }
}

impl Sim {
    /// Reports call a group by this name from now on.
    pub fn name_group(&self, group: GroupId, name: &str) {
        let state = &mut *self.inner.state.borrow_mut();
        state.group_names.all.insert(group, name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineConfig};

    #[test]
    fn a_group_without_a_name_has_its_number() {
        let engine = Engine::new(&EngineConfig::new(1));
        engine.sim().open_ledger();
        engine.sim().name_group(GroupId(1), "web");
        let names = engine.sim().close_ledger().groups;
        assert_eq!((names.of(GroupId(1)), names.of(GroupId(2))), ("web".into(), "group 2".into()));
    }
}
