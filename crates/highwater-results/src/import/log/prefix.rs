//! The part of a line before the kernel's own text: time stamps, host names, log levels, callers.
//!
//! A prefix is a chain of components, each of which is recognised by its own shape. Chains that
//! occur in posted logs:
//!
//! ```text
//! [   12.345678] text                         dmesg
//! [   12.345678][ T123] text                  dmesg with the caller (task T or CPU C)
//! [Sat Apr 11 17:52:58 2020] text             dmesg -T
//! Apr 11 17:52:58 host kernel: text           syslog, journalctl
//! Apr 11 17:52:58 host kernel: [   12.345678] text
//! 4,1021,12345678,-,caller=T12;text           /dev/kmsg, netconsole
//! <4>[   12.345678] text                      serial, with the log level
//! 07-13 08:41:51.341 <4>[12.345678s][pid:12,cpu5,name]text    Android
//! ```

/// Components of a prefix, as bits of [`Prefix::form`].
pub(super) mod part {
    /// `[   12.345678]`: seconds since boot.
    pub(in super::super) const STAMP: u16 = 1;
    /// `[ T123]`, `[ C1]`: who printed the line.
    pub(in super::super) const CALLER: u16 = 1 << 1;
    /// `[Sat Apr 11 17:52:58 2020]`: wall time in brackets.
    pub(in super::super) const DAY_DATE: u16 = 1 << 2;
    /// `Apr 11 17:52:58 host kernel:`.
    pub(in super::super) const SYSLOG: u16 = 1 << 3;
    /// `4,1021,12345678,-;`.
    pub(in super::super) const KMSG: u16 = 1 << 4;
    /// `07-13 08:41:51.341`.
    pub(in super::super) const LOGCAT: u16 = 1 << 5;
    /// `<4>`.
    pub(in super::super) const LEVEL: u16 = 1 << 6;
    /// A colon before the time stamp, left by whatever carried the text.
    pub(in super::super) const COLON: u16 = 1 << 7;
    /// Something short before the time stamp that is none of the above.
    pub(in super::super) const OTHER: u16 = 1 << 8;
}

/// The prefix of one line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Prefix {
    /// Components, bits of [`part`]; 0 if there is no prefix.
    pub(super) form: u16,
    /// Seconds since boot.
    pub(super) time: Option<f64>,
    /// Wall time as printed.
    pub(super) clock: Option<String>,
    /// `T123` or `C1`, or the process number of an Android prefix as `T123`.
    pub(super) caller: Option<String>,
    /// CPU, where the prefix names it.
    pub(super) cpu: Option<u32>,
}

/// Bytes of a line in which a prefix may lie.
const PREFIX_BYTES_MAX: usize = 200;

impl Prefix {
    /// Takes the prefix off a line. Returns it and the rest, which keeps its leading blanks.
    pub(super) fn strip(line: &str) -> (Prefix, &str) {
        let mut found = Prefix::default();
        let mut rest = line;
        loop {
            let bare = rest.trim_start();
            match found.component(bare) {
                // A blank separates the prefix from the text, more of them belong to the text.
                Some(after) => rest = after,
                None => {
                    let rest = if found.form == 0 { line } else { rest };
                    return (found, rest);
                }
            }
        }
    }

    /// The name of the form, as users read it.
    pub(super) fn name(form: u16) -> &'static str {
        let has = |bits: u16| form & bits == bits;
        if has(part::LOGCAT) {
            "Android logcat"
        } else if has(part::KMSG) {
            "kmsg n,n,t,-;"
        } else if has(part::SYSLOG | part::STAMP) {
            "syslog host kernel: [t]"
        } else if has(part::SYSLOG) {
            "syslog host kernel:"
        } else if has(part::DAY_DATE) {
            "[day date]"
        } else if has(part::STAMP | part::CALLER) {
            "[t][ Tn]"
        } else if has(part::LEVEL | part::STAMP) {
            "<n>[t]"
        } else if has(part::STAMP) {
            "[t]"
        } else if has(part::LEVEL) {
            "<n>"
        } else if form == 0 {
            "none"
        } else {
            "other"
        }
    }

    /// Takes one component off, and notes what it says.
    fn component<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let bytes = text.as_bytes();
        match bytes.first()? {
            b'[' => self.bracket(text),
            b'<' if self.form & (part::LEVEL | part::STAMP) == 0 => {
                let end = text.find('>').filter(|&end| end <= 4)?;
                let is_level = bytes[1..end].iter().all(u8::is_ascii_digit) && end > 1;
                is_level.then(|| self.take(part::LEVEL, &text[end + 1..]))
            }
            b':' if self.form == 0 && text[1..].trim_start().starts_with('[') => {
                stamp(text[1..].trim_start())?;
                Some(self.take(part::COLON, &text[1..]))
            }
            b'0'..=b'9' if self.form & !(part::LEVEL | part::COLON) == 0 => self
                .kmsg(text)
                .or_else(|| self.logcat(text))
                .or_else(|| self.named(text))
                .or_else(|| self.before_stamp(text)),
            _ if self.form & (part::SYSLOG | part::STAMP | part::DAY_DATE | part::KMSG) == 0 => {
                self.named(text).or_else(|| self.before_stamp(text))
            }
            _ => None,
        }
    }

    fn take<'a>(&mut self, part: u16, rest: &'a str) -> &'a str {
        self.form |= part;
        rest
    }

    /// `[12.3]`, `[ T1]`, `[Sat Apr 11 17:52:58 2020]`, `[pid:12,cpu5,name]`.
    fn bracket<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if let Some((time, len)) = stamp(text) {
            if self.form & part::STAMP != 0 {
                return None;
            }
            self.time = Some(time);
            return Some(self.take(part::STAMP, &text[len..]));
        }
        let end = text.bytes().take(64).position(|b| b == b']')?;
        let (inside, rest) = (text[1..end].trim(), &text[end + 1..]);
        if inside.starts_with(['T', 'C']) && inside.len() > 1 {
            let digits = inside[1..].trim_start();
            if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                if let (true, Ok(cpu)) = (inside.starts_with('C'), digits.parse()) {
                    self.cpu = Some(cpu);
                }
                self.caller = Some(format!("{}{digits}", &inside[..1]));
                return Some(self.take(part::CALLER, rest));
            }
        }
        if self.form & part::STAMP == 0 && has_time_of_day(inside) {
            self.clock = Some(inside.to_owned());
            return Some(self.take(part::DAY_DATE, rest));
        }
        if let Some(fields) = inside.strip_prefix("pid:") {
            let mut fields = fields.split(',');
            let pid = fields.next().unwrap_or_default();
            if !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) {
                self.caller = Some(format!("T{pid}"));
            }
            self.cpu = fields.next().and_then(|cpu| cpu.strip_prefix("cpu")?.parse().ok());
            return Some(self.take(part::CALLER, rest));
        }
        None
    }

    /// `4,1021,12345678,-,caller=T12;text`: level, sequence number, microseconds.
    fn kmsg<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let end = text.bytes().take(PREFIX_BYTES_MAX).position(|b| b == b';')?;
        let mut fields = text[..end].split(',');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (_, _, micros) = (number()?, number()?, number()?);
        fields.next()?;
        #[allow(clippy::cast_precision_loss)]
        let seconds = micros as f64 / 1e6;
        self.time = Some(seconds);
        if let Some(caller) = fields.find_map(|field| field.strip_prefix("caller=")) {
            self.caller = Some(caller.to_owned());
        }
        Some(self.take(part::KMSG, &text[end + 1..]))
    }

    /// `07-13 08:41:51.341`, with what the logger adds up to its colon.
    fn logcat<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let bytes = text.as_bytes();
        let is_date = bytes.len() > 18
            && bytes[2] == b'-'
            && bytes[5] == b' '
            && bytes[14] == b'.'
            && time_of_day(&text.get(6..14)?);
        if !is_date {
            return None;
        }
        self.clock = Some(text.get(..18)?.to_owned());
        let rest = text.get(18..)?;
        let tag = rest.find("kernel").filter(|&at| at < 40).and_then(|at| {
            let colon = rest[at..].find(':').filter(|&colon| colon < 20)?;
            rest.get(at + colon + 1..)
        });
        Some(self.take(part::LOGCAT, tag.unwrap_or(rest)))
    }

    /// Everything up to `kernel:`, if it is nothing, one word, or has a time of day.
    fn named<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let head = head_of(text);
        let at = head.find("kernel:")?;
        let before = text[..at].trim_end();
        let is_start = at == 0 || text.as_bytes()[at - 1] == b' ';
        let is_host = !before.contains(' ') && !before.contains('=') && !before.ends_with(':');
        if !is_start || !(has_time_of_day(before) || is_host) {
            return None;
        }
        if !before.is_empty() {
            self.clock = Some(before.to_owned());
        }
        Some(self.take(part::SYSLOG, &text[at + "kernel:".len()..]))
    }

    /// A date, a line number or a prompt before a time stamp.
    fn before_stamp<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        const SHORT_BYTES_MAX: usize = 16;
        let head = head_of(text);
        let at = head
            .bytes()
            .enumerate()
            .find_map(|(at, byte)| (byte == b'[' && stamp(&text[at..]).is_some()).then_some(at))?;
        let before = text[..at].trim_end();
        let is_short = before.len() <= SHORT_BYTES_MAX
            && !before.bytes().any(|b| b == b'=' || b == b'(')
            && (before.ends_with([':', '|', '#', '$']) || !before.contains(char::is_alphabetic));
        if !(has_time_of_day(before) || is_short || before.ends_with("login:")) {
            return None;
        }
        self.clock = Some(before.to_owned());
        Some(self.take(part::OTHER, &text[at..]))
    }
}

/// The part of a line in which a prefix may lie.
fn head_of(text: &str) -> &str {
    let mut end = text.len().min(PREFIX_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `[   12.345678]` or `[12.345678s]` at the start: its seconds and its length.
pub(super) fn stamp(text: &str) -> Option<(f64, usize)> {
    const STAMP_BYTES_MAX: usize = 32;
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'[') {
        return None;
    }
    let end = bytes.iter().take(STAMP_BYTES_MAX).position(|&b| b == b']')?;
    let inside = text.get(1..end)?.trim_start();
    let inside = inside.strip_suffix('s').unwrap_or(inside);
    let (whole, part) = inside.split_once('.')?;
    // Some vendors add the CPU, or the wall time: `[1.234567,0]`, `[1.234567@0]`, `[1.23 / ...]`.
    let part = part.split([',', '@', ' ', '/']).next().unwrap_or_default();
    let inside = inside.get(..whole.len() + 1 + part.len())?;
    let are_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(whole) || !are_digits(part) {
        return None;
    }
    Some((inside.parse().ok()?, end + 1))
}

/// True for a line of another program in a log of syslog: a date, but not the kernel's.
pub(super) fn is_foreign(text: &str) -> bool {
    const DATE_BYTES_MAX: usize = 32;
    has_time_of_day(text.get(..DATE_BYTES_MAX).unwrap_or(text))
}

/// `17:52:58` at any place.
fn has_time_of_day(text: &str) -> bool {
    text.as_bytes().windows(8).any(is_time)
}

/// Exactly `17:52:58`.
fn time_of_day(text: &&str) -> bool {
    is_time(text.as_bytes())
}

fn is_time(bytes: &[u8]) -> bool {
    bytes.len() == 8
        && bytes.iter().enumerate().all(|(i, b)| match i {
            2 | 5 => *b == b':',
            _ => b.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(line: &str) -> (&'static str, String) {
        let (prefix, rest) = Prefix::strip(line);
        (Prefix::name(prefix.form), rest.trim().to_owned())
    }

    #[test]
    fn every_form_is_recognised() {
        for (line, name) in [
            ("Mem-Info:", "none"),
            ("[   12.345678] Mem-Info:", "[t]"),
            ("     [12.345678] Mem-Info:", "[t]"),
            ("[   12.345678][   T71] Mem-Info:", "[t][ Tn]"),
            (": [   12.345678][   T71] Mem-Info:", "[t][ Tn]"),
            ("[Wed Mar  3 07:08:09 2021] Mem-Info:", "[day date]"),
            ("[Mi Mär  3 07:08:09 2021] Mem-Info:", "[day date]"),
            ("Mar  3 07:08:09 box kernel: Mem-Info:", "syslog host kernel:"),
            ("Mar  3 07:08:09 kernel: Mem-Info:", "syslog host kernel:"),
            ("3月 03 07:08:09 box kernel: Mem-Info:", "syslog host kernel:"),
            ("2021-03-03T07:08:09.12+01:00 box kernel: Mem-Info:", "syslog host kernel:"),
            ("Mar  3 07:08:09 box kernel: [   12.345678] Mem-Info:", "syslog host kernel: [t]"),
            ("4,1021,12345678,-;Mem-Info:", "kmsg n,n,t,-;"),
            ("4,1021,12345678,-,caller=T71;Mem-Info:", "kmsg n,n,t,-;"),
            ("<4>[   12.345678] Mem-Info:", "<n>[t]"),
            ("<4>Mem-Info:", "<n>"),
            ("03-03 07:08:09.123 <4>[12.345678s][pid:71,cpu3,init]Mem-Info:", "Android logcat"),
            ("03-03 07:08:09.123     0     0 W kernel  : Mem-Info:", "Android logcat"),
            ("<4>Mar  3 07:08:09 kernel: Mem-Info:", "syslog host kernel:"),
            (
                "Thu Mar  3 07:08:09 2021 kern.warn kernel: [ 12.345678] Mem-Info:",
                "syslog host kernel: [t]",
            ),
            ("[   12.345678@1] Mem-Info:", "[t]"),
            ("[   12.345678,1] Mem-Info:", "[t]"),
            ("box login: [   12.345678] Mem-Info:", "[t]"),
        ] {
            assert_eq!(form(line), (name, "Mem-Info:".to_owned()), "{line}");
        }
    }

    #[test]
    fn rows_of_tables_and_plain_text_keep_their_start() {
        for line in [
            "[  271]     0   271    40771     5120      63       44             0 scribe",
            "Node 0 DMA free:4kB",
            "12 pages RAM",
            "0*4kB 1*8kB",
            "[c0ffee] __alloc_pages+0x1/0x2",
            "a: page allocation failure: order:0, mode:0x20",
        ] {
            assert_eq!(form(line), ("none", line.to_owned()));
        }
    }

    #[test]
    fn times_and_callers() {
        let (prefix, _) = Prefix::strip("4,1021,12345678,-,caller=C3;x");
        assert_eq!((prefix.time, prefix.caller.as_deref()), (Some(12.345678), Some("C3")));
        let (prefix, _) = Prefix::strip("[   12.345678][    C3] x");
        assert_eq!((prefix.time, prefix.cpu), (Some(12.345678), Some(3)));
        let (prefix, _) = Prefix::strip("03-03 07:08:09.123 <4>[12.5s][pid:71,cpu3,init]x");
        assert_eq!((prefix.caller.as_deref(), prefix.cpu), (Some("T71"), Some(3)));
    }
}
