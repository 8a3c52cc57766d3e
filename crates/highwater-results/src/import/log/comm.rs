//! The name of a process before the words of its request, and the words themselves.
//!
//! The kernel prints `name: page allocation failure: ...` and `name invoked oom-killer: ...`.
//! People write the same words in mails: `Subject: Re: name: page allocation failure`, and `I hit
//! some page allocation failures`. Only the first form is a report.

use super::request::ReportKind;

/// Words of a request that stand behind the name of the process, and the kind of their report.
const WORDS: [(&str, ReportKind); 10] = [
    (" invoked oom-killer", ReportKind::Oom),
    (" invoked OOM-killer", ReportKind::Oom),
    ("oom-killer: gfp_mask", ReportKind::Oom),
    ("page allocation failure", ReportKind::PageAllocationFailure),
    ("page allocation stalls for", ReportKind::Stall),
    // The kernel's own spelling in 4.8 and 4.9 before their release.
    ("page alloction stalls for", ReportKind::Stall),
    ("vmalloc error:", ReportKind::Vmalloc),
    ("vmalloc: allocation failure", ReportKind::Vmalloc),
    ("vmap allocation for size", ReportKind::Vmalloc),
    ("vmalloc_node_range for size", ReportKind::Vmalloc),
];

/// Characters of a name: the kernel keeps 15.
const NAME_CHARS_MAX: usize = 15;
/// Characters of the name of a kworker, which the kernel extends by that of its work queue.
const KWORKER_CHARS_MAX: usize = 64;

/// The words of a request in a line: where they begin, their kind, and the words.
pub(super) fn words(text: &str) -> Option<(usize, ReportKind, &'static str)> {
    if is_mail_header(text) {
        return None;
    }
    let found = WORDS.iter().find_map(|(words, kind)| Some((text.find(words)?, *kind, *words)));
    found.filter(|&(at, _, words)| !words.starts_with("page ") || is_printed(text, at, words))
}

/// True if the words stand as the kernel prints them: behind a colon, or first on the line, with
/// a mark or a blank behind them.
fn is_printed(text: &str, at: usize, words: &str) -> bool {
    let before = text[..at].trim_end();
    let after = &text[at + words.len()..];
    (before.is_empty() || before.ends_with(':')) && !after.starts_with(char::is_alphabetic)
}

/// True for a header of a mail, or for the subject of one without the word.
fn is_mail_header(text: &str) -> bool {
    const HEADERS: [&str; 8] =
        ["Subject:", "Re:", "RE:", "Fwd:", "FW:", "References:", "In-Reply-To:", "Thread-Topic:"];
    let text = text.trim_start();
    HEADERS.iter().any(|header| text.starts_with(header)) || text.contains(" Subject: ")
}

/// The name in the text before the words. `None` if the text is longer than a name, and does not
/// say where the name begins.
pub(super) fn name(before: &str) -> Option<&str> {
    let before = before.trim().trim_end_matches(':').trim();
    if is_name(before) {
        return Some(before);
    }
    // A prefix of an unknown logger ends in one of these.
    let starts = [": ", "] ", "> ", "; ", "| "].iter().filter_map(|end| before.rfind(end));
    let name = before[starts.max()? + 2..].trim();
    is_name(name).then_some(name)
}

fn is_name(text: &str) -> bool {
    let max = if text.starts_with("kworker/") { KWORKER_CHARS_MAX } else { NAME_CHARS_MAX };
    !text.is_empty() && text.chars().count() <= max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        assert_eq!(name("weaver:"), Some("weaver"));
        assert_eq!(name("Web Content"), Some("Web Content"));
        assert_eq!(name("kworker/u16:3+loom_unbound_wq:"), Some("kworker/u16:3+loom_unbound_wq"));
        assert_eq!(name("shed42.example 7f3a| weaver:"), Some("weaver"));
        assert_eq!(name("a name with more than 15 characters"), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn words_as_the_kernel_prints_them() {
        for text in [
            "weaver: page allocation failure: order:0, mode:0x20",
            "weaver: page allocation failure. order:0, mode:0x20",
            "page allocation failure: order:0, mode:0x20",
            "weaver: page alloction stalls for 10001ms, order:0",
            "weaver: vmalloc error: size 4096",
        ] {
            assert!(words(text).is_some(), "{text}");
        }
    }

    #[test]
    fn words_of_people_are_no_request() {
        for text in [
            "While weaving I hit some page allocation failures",
            "weaver: page allocation failures on mount",
            "it ends in a page allocation failure: order:0, mode:0x20",
            "Subject: weaver: page allocation failure: order:0, mode:0x20",
            "Re: weaver: page allocation failure: order:0, mode:0x20",
            "To: a@example.org Subject: Re: weaver invoked oom-killer: gfp_mask=0xd0, order=0",
        ] {
            assert_eq!(words(text), None, "{text}");
        }
    }
}
