//! Writes to sysctls of a running kernel.
//!
//! Most settings are read where they are used, so a write stores them. Marks, reserves and the
//! sizes of per-CPU lists are computed from theirs, so a write computes them again.

use super::PageAllocator;
use crate::config::{MachineError, Tunables};
use crate::host::Host;
use crate::sync::atomic::Ordering::Relaxed;

impl<H: Host> PageAllocator<H> {
    /// Puts these sysctls in force, as `sysctl -w` of each that differs from the one in force.
    ///
    /// Of two settings of one limit (`vm.dirty_bytes` and `vm.dirty_ratio`) a write to one zeroes
    /// the other. Without a value `vm.min_free_kbytes` stays as it is. Tasks that sleep are not
    /// woken: a flusher's current wait ends as it was begun.
    ///
    /// # Errors
    /// A setting that this kernel lacks, would refuse, or takes at boot only. Nothing changes then.
    #[doc(alias = "watermark_scale_factor_sysctl_handler")]
    #[doc(alias = "lowmem_reserve_ratio_sysctl_handler")]
    #[doc(alias = "percpu_pagelist_high_fraction_sysctl_handler")]
    #[doc(alias = "dirty_bytes_handler")]
    #[doc(alias = "dirty_ratio_handler")]
    pub fn write_sysctls(&self, wanted: &Tunables) -> Result<(), MachineError> {
        let before = self.tunables.now();
        let kernel = self.policy.kernel;
        for field in before.changed(wanted) {
            let refused = |reason: &str| {
                let field = alloc::format!("tunables.{}", field.key);
                Err(MachineError { field, reason: reason.into() })
            };
            if field.is_boot {
                return refused("cannot change while the kernel runs");
            }
            if !field.is_in(kernel) {
                return refused(&alloc::format!("{kernel} does not have it"));
            }
        }
        wanted.validate()?;
        wanted.validate_in(kernel)?;
        let mut wanted = wanted.clone();
        let is_written = |key: &str| before.changed(&wanted).any(|field| field.key == key);
        let of_limit = [is_written("dirty_bytes"), is_written("dirty_ratio")];
        let of_background =
            [is_written("dirty_background_bytes"), is_written("dirty_background_ratio")];
        match of_limit {
            [true, _] if wanted.dirty_bytes != 0 => wanted.dirty_ratio = 0,
            [_, true] => wanted.dirty_bytes = 0,
            _ => {}
        }
        match of_background {
            [true, _] if wanted.dirty_background_bytes != 0 => wanted.dirty_background_ratio = 0,
            [_, true] => wanted.dirty_background_bytes = 0,
            _ => {}
        }
        let is_new = |key: &str| before.changed(&wanted).any(|field| field.key == key);
        self.tunables.set(&wanted);
        if is_new("watermark_boost_factor") {
            let factor = wanted.watermark_boost_factor;
            self.populated_zones().for_each(|zone| zone.set_boost_factor(factor));
        }
        let kbytes = wanted.min_free_kbytes.filter(|_| is_new("min_free_kbytes"));
        if let Some(kbytes) = kbytes {
            self.min_free_kbytes.store(kbytes, Relaxed);
        }
        if kbytes.is_some() || is_new("watermark_scale_factor") {
            self.rebuild_watermarks();
        } else if is_new("percpu_pagelist_high_fraction") || is_new("percpu_pagelist_fraction") {
            self.populated_zones().for_each(|zone| self.resize_pcp(zone));
        }
        if is_new("lowmem_reserve_ratio") {
            self.rebuild_lowmem_reserve();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::super::boot;
    use super::*;
    use crate::config::{Machine, Thp, preset};
    use crate::host::Solo;
    use crate::zone::{Mark, NodeId, ZoneType};

    fn memory(host: &Solo, kernel: &str) -> PageAllocator<Solo> {
        let machine = Machine::from_sizes("m", &[(8 << 30, vec![0, 1])]).unwrap();
        boot(host, &machine, &preset(kernel).unwrap()).unwrap()
    }

    /// A written setting has the same effect as one that the kernel booted with.
    #[test]
    fn what_is_written_is_as_if_booted_with_it() {
        let host = Solo::default();
        for kernel in ["5.4", "6.1"] {
            let memory = memory(&host, kernel);
            let written = Tunables {
                min_free_kbytes: Some(100_000),
                watermark_scale_factor: 200,
                watermark_boost_factor: 0,
                lowmem_reserve_ratio: [128, 64, 32, 0],
                swappiness: 10,
                ..memory.tunables.now()
            };
            memory.write_sysctls(&written).unwrap();
            let mut machine = Machine::from_sizes("m", &[(8 << 30, vec![0, 1])]).unwrap();
            machine.tunables = written.clone();
            let booted = boot(&host, &machine, &preset(kernel).unwrap()).unwrap();
            assert_eq!(memory.tunables.now(), booted.tunables.now(), "{kernel}");
            assert_eq!(memory.min_free_kbytes(), 100_000);
            for (zone, other) in memory.populated_zones().zip(booted.populated_zones()) {
                assert_eq!(zone.marks(), other.marks(), "{kernel}");
                assert_eq!(zone.lowmem_reserves(), other.lowmem_reserves(), "{kernel}");
                assert_eq!(zone.boost_factor(), other.boost_factor(), "{kernel}");
                let sizes = |zone: &crate::zone::Zone<Solo>| (zone.pcp_batch(), zone.pcp_high());
                assert_eq!(sizes(zone), sizes(other), "{kernel}");
            }
        }
    }

    #[test]
    fn one_of_two_settings_of_a_limit_holds() {
        let host = Solo::default();
        let memory = memory(&host, "6.1");
        let write = |change: fn(&mut Tunables)| {
            let mut wanted = memory.tunables.now();
            change(&mut wanted);
            memory.write_sysctls(&wanted).unwrap();
            let now = memory.tunables.now();
            (now.dirty_bytes, now.dirty_ratio, now.dirty_background_bytes)
        };
        assert_eq!(write(|t| t.dirty_bytes = 1 << 20), (1 << 20, 0, 0));
        assert_eq!(write(|t| t.dirty_ratio = 30), (0, 30, 0));
        assert_eq!(write(|t| t.dirty_background_bytes = 8192), (0, 30, 8192));
        assert_eq!(memory.tunables.now().dirty_background_ratio, 0);
    }

    #[test]
    fn what_a_kernel_refuses_changes_nothing() {
        let host = Solo::default();
        let memory = memory(&host, "5.4");
        let before = memory.tunables.now();
        let low = |memory: &PageAllocator<Solo>| {
            memory.zone(NodeId(0), ZoneType::Normal).unwrap().mark(Mark::Low)
        };
        let mark = low(&memory);
        let refused = |change: fn(&mut Tunables)| {
            let mut wanted = Tunables { watermark_scale_factor: 500, ..before.clone() };
            change(&mut wanted);
            let error = memory.write_sysctls(&wanted).unwrap_err().to_string();
            assert_eq!((memory.tunables.now(), low(&memory)), (before.clone(), mark));
            error
        };
        let never = refused(|t| t.thp = Thp::Never);
        assert!(never.contains("tunables.thp") && never.contains("while the kernel runs"));
        assert!(refused(|t| t.swappiness = 150).contains("between 0 and 100"));
        let lacks = refused(|t| t.compaction_proactiveness = 50);
        assert!(lacks.contains("5.4 does not have it"), "{lacks}");
    }
}
