//! Why a text has no answer, in one line.

use highwater_files::input::InputError;
use highwater_results::import::KernelText;
use highwater_results::words::count;

/// Lines of a log by which a journal without reports is known.
const LINES: usize = 400;

/// The refusal of a text without a report.
pub(super) fn of(name: &str, text: &[u8], nr_lines: usize) -> InputError {
    let head = &text[..text.len().min(KernelText::HEAD_BYTES)];
    let shown = String::from_utf8_lossy(head);
    let lines = count(nr_lines, "line");
    let problem = match KernelText::of_bytes(text) {
        _ if text.iter().all(u8::is_ascii_whitespace) => "the text is empty".to_owned(),
        _ if is_binary(head) => "binary data, not a text".to_owned(),
        Some(KernelText::Log) | None if is_log(&shown) => {
            format!("no memory failure in this kernel log ({lines})")
        }
        Some(KernelText::Trace) => {
            "this is a trace without events that highwater diagnose knows".to_owned()
        }
        Some(KernelText::Meminfo) => {
            "this is /proc/meminfo, which has no free blocks: /proc/buddyinfo has".to_owned()
        }
        // A program's source may have words of a log.
        Some(KernelText::Log) | None => format!(
            "no report of failed or killed memory in {lines}, nor another text that is known here"
        ),
        Some(kind) => format!("this is {}, which highwater diagnose does not read", kind.name()),
    };
    InputError::whole(name, problem)
}

/// A text has no zero bytes. Logs after a crash have some, so they are looked at last.
fn is_binary(head: &[u8]) -> bool {
    let nr_zero = head.iter().filter(|byte| **byte == 0).count();
    let nr_odd = head.iter().filter(|byte| **byte < 32 && !byte.is_ascii_whitespace()).count();
    nr_zero * 50 > head.len() || nr_odd * 10 > head.len()
}

/// Most lines are the kernel's: `[    1.000000] text`, or `Nov 01 10:00:00 host kernel: text` as a
/// journal has them.
fn is_log(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).take(LINES);
    let is_stamped = |line: &str| {
        let line = line.split_once('>').filter(|_| line.starts_with('<')).map_or(line, |it| it.1);
        let inner = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        inner
            .is_some_and(|(stamp, _)| stamp.trim().starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    let (nr, nr_kernel) = lines.fold((0, 0), |(nr, of_kernel), line| {
        (nr + 1, of_kernel + usize::from(line.contains(" kernel: ") || is_stamped(line)))
    });
    nr_kernel * 2 > nr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_an_answer_is_named() {
        for (text, words) in [
            (&b"\n \n"[..], "t: the text is empty"),
            (b"\x7fELF\0\0\0\0\0\0", "t: binary data, not a text"),
            (
                b"[    1.000000] Linux version 6.1\n",
                "t: no memory failure in this kernel log (1 line)",
            ),
            (
                b"Nov 01 10:00:00 host kernel: usb 1-1: new device\n",
                "t: no memory failure in this kernel log (1 line)",
            ),
            (b"MemTotal:  8164548 kB\n", "t: this is /proc/meminfo, which has no free blocks"),
            (
                b"nr_free_pages 12\nnr_dirty 0\n",
                "t: this is /proc/vmstat, which highwater diagnose does not read",
            ),
            (
                b"printk(\"page allocation failure: order:%d\", order);\n",
                "t: no report of failed or killed memory in 1 line",
            ),
            (b"hello\n", "t: no report of failed or killed memory in 1 line, nor another text"),
        ] {
            let said = of("t", text, 1).to_string();
            assert!(said.starts_with(words), "{said}");
            assert_eq!(said.lines().count(), 1);
        }
    }
}
