//! Version and architecture of the kernel, as far as the text tells.

use serde::Serialize;

/// The kernel that printed a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelRelease {
    /// As printed, such as `5.4.0-42-generic`.
    pub release: String,
    /// Its first two or three numbers.
    pub version: Option<Version>,
}

/// A version that compares as its numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Version {
    /// 5 of 5.4.30.
    pub major: u32,
    /// 4 of 5.4.30.
    pub minor: u32,
    /// 30 of 5.4.30; 0 if not printed.
    pub patch: u32,
}

impl Version {
    /// Reads the numbers at the start of a release.
    #[must_use]
    pub fn of(release: &str) -> Option<Version> {
        let mut numbers = release.split(['.', '-', '+', '_', '~']).map_while(|part| {
            let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| part.parse::<u32>().ok()).flatten()
        });
        let (major, minor) = (numbers.next()?, numbers.next()?);
        Some(Version { major, minor, patch: numbers.next().unwrap_or(0) })
    }
}

impl KernelRelease {
    /// Finds the release in a line with `Not tainted` or `Tainted: ...`.
    pub(super) fn in_tainted(text: &str) -> Option<KernelRelease> {
        let at = text.find("ainted")?;
        let tokens: Vec<&str> = text[at + "ainted".len()..].split_whitespace().collect();
        let index = tokens.iter().position(|token| is_release(token.trim_start_matches('(')))?;
        // The last token of the text may be cut.
        (index + 1 < tokens.len())
            .then(|| KernelRelease::new(tokens[index].trim_start_matches('(')))
    }

    /// A line `Linux version 5.4.0 (...)`.
    pub(super) fn in_banner(text: &str) -> Option<KernelRelease> {
        let mut tokens = text.strip_prefix("Linux version ")?.split_whitespace();
        let release = tokens.next().filter(|token| is_release(token))?;
        tokens.next().map(|_| KernelRelease::new(release))
    }

    /// A line `== 6.1 on small-vm, seed 1`: the policy of a run, if it is named after a version.
    pub(super) fn in_heading(text: &str) -> Option<KernelRelease> {
        let (policy, _) = text.strip_prefix("== ")?.split_once(" on ")?;
        is_release(policy).then(|| KernelRelease::new(policy))
    }

    fn new(release: &str) -> KernelRelease {
        KernelRelease { release: release.to_owned(), version: Version::of(release) }
    }
}

fn is_release(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit()) && Version::of(token).is_some()
}

/// Words of a release that name an architecture.
const IN_RELEASE: [(&str, &str); 22] = [
    ("x86_64", "x86-64"),
    ("amd64", "x86-64"),
    ("i386", "x86-32"),
    ("i586", "x86-32"),
    ("i686", "x86-32"),
    ("686-pae", "x86-32"),
    ("aarch64", "arm64"),
    ("arm64", "arm64"),
    ("android", "arm64"),
    ("-gki", "arm64"),
    ("armv", "arm"),
    ("armhf", "arm"),
    ("powerpc", "powerpc"),
    ("ppc64", "powerpc"),
    ("PowerMac", "powerpc"),
    ("PMac", "powerpc"),
    ("s390", "s390"),
    ("riscv", "riscv"),
    ("mips", "mips"),
    ("parisc", "parisc"),
    ("sparc", "sparc"),
    ("loong", "loongarch"),
];

/// Words of traces and registers that name an architecture.
const IN_TRACE: [(&str, &str); 23] = [
    ("entry_SYSCALL_64", "x86-64"),
    ("do_syscall_64", "x86-64"),
    ("__x64_sys_", "x86-64"),
    ("ORIG_RAX:", "x86-64"),
    ("RSP: 00", "x86-64"),
    ("[<ffffffff8", "x86-64"),
    ("[<ffffffff9", "x86-64"),
    ("do_fast_syscall_32", "x86-32"),
    ("EIP: ", "x86-32"),
    ("EAX: ", "x86-32"),
    ("[<ffffffc0", "arm64"),
    ("[<ffff0000", "arm64"),
    ("el0_svc", "arm64"),
    ("el0t_64", "arm64"),
    ("__arm64_sys", "arm64"),
    ("ret_fast_syscall", "arm"),
    ("(unwind_backtrace) from [<", "arm"),
    ("NIP: ", "powerpc"),
    ("rv64", "riscv"),
    ("rv32", "riscv"),
    ("do_trap_ecall_u", "riscv"),
    ("epc : ", "riscv"),
    ("Krnl PSW", "s390"),
];

/// The architecture that a release names.
pub(super) fn arch_of_release(release: &str) -> Option<&'static str> {
    IN_RELEASE.iter().find(|(word, _)| release.contains(word)).map(|(_, arch)| *arch)
}

/// The architecture that a line of a trace names.
pub(super) fn arch_of_trace(text: &str) -> Option<&'static str> {
    IN_TRACE.iter().find(|(word, _)| text.contains(word)).map(|(_, arch)| *arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_releases() {
        let version = |text| Version::of(text).map(|v| (v.major, v.minor, v.patch));
        assert_eq!(version("2.6.32-642.el6.x86_64"), Some((2, 6, 32)));
        assert_eq!(version("6.12.0-rc5-next"), Some((6, 12, 0)));
        assert_eq!(version("5.9-rc1"), Some((5, 9, 0)));
        assert_eq!(version("4.1.18"), Some((4, 1, 18)));
        assert_eq!(version("5"), None);
        assert_eq!(version("v5.4"), None);
    }

    #[test]
    fn releases_of_lines() {
        let release = |text| KernelRelease::in_tainted(text).map(|k| k.release);
        let long = "CPU: 1 PID: 2 Comm: a Tainted: G        W  OE     5.4.30-arm64 #5";
        assert_eq!(release(long).as_deref(), Some("5.4.30-arm64"));
        assert_eq!(
            release("Pid: 2, comm: a Not tainted (2.6.18-8 #1)").as_deref(),
            Some("2.6.18-8")
        );
        assert_eq!(release("tainted 5.4.30 #5").as_deref(), Some("5.4.30"));
        assert_eq!(release("CPU: 1 PID: 2 Comm: a Not tainted 5.4.3"), None, "may be cut");
        let new = "Tainted: [W]=WARN, [O]=OOT_MODULE 6.13.0 #1 PREEMPT";
        assert_eq!(release(new).as_deref(), Some("6.13.0"));
    }

    #[test]
    fn architectures() {
        assert_eq!(arch_of_release("5.4.0-1.x86_64"), Some("x86-64"));
        assert_eq!(arch_of_release("5.4.0"), None);
        assert_eq!(arch_of_trace(" entry_SYSCALL_64_after_hwframe+0x1/0x2"), Some("x86-64"));
        assert_eq!(arch_of_trace("[<8010ff30>] (unwind_backtrace) from [<8010"), Some("arm"));
    }
}
