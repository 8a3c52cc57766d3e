//! [`Options`] as the text of a plan file.

use std::fmt::Write as _;

use toml::Value;

use super::{Options, Size, What};
use crate::experiment::HostKind;
use highwater_results::setting;

impl Options {
    /// The plan file of these options, which [`Options::from_toml`] reads as the same. Keys that have
    /// their defaults are left out. A plan file has no place for the ends of a search
    /// ([`Options::ends`]), [`Options::iterations_unless_set`] and [`Options::said`].
    ///
    /// Files are named as the options name them: the text belongs into the directory from which these
    /// names lead to them.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        };
        let word = |word: &Option<String>| word.clone().map(Value::String);
        let words = |words: &[String]| {
            let list = words.iter().cloned().map(Value::String).collect();
            (!words.is_empty()).then_some(Value::Array(list))
        };
        let flag = |is_on: bool| is_on.then_some(Value::Boolean(true));
        let number = |number: Option<u64>| {
            number.map(|number| match i64::try_from(number) {
                Ok(number) => Value::Integer(number),
                Err(_) => Value::String(number.to_string()),
            })
        };
        let key = match self.what {
            What::Experiment(_) => "experiment",
            What::Workload(_) => "run",
        };
        line(key, Some(Value::String(self.what.name().to_owned())));
        line("quick", flag(self.size == Size::Quick));
        line("full", flag(self.size == Size::Full));
        let arg = &self.machine.arg;
        line("machine", word(&arg.name));
        line("mem", word(&arg.mem));
        line("cpus", number(arg.cpus.map(u64::from)));
        line("numa", words(&arg.numa));
        line("numa-distance", words(&arg.numa_distance));
        line("disk", word(&self.machine.storage.disk));
        line("swap", word(&self.machine.storage.swap));
        line("state", word(&self.machine.state));
        line("policies", words(&self.policies));
        line("beyond", flag(self.beyond));
        line("ablate", flag(self.ablate));
        line("seeds", number(self.iterations.map(u64::from)));
        line("seed", number(Some(self.seed).filter(|seed| *seed != Options::compare("").seed)));
        line("jobs", number(self.jobs.and_then(|jobs| jobs.try_into().ok())));
        let is_native = self.host == HostKind::Native;
        line("host", is_native.then(|| Value::String(self.host.name().to_owned())));
        line("sample-every", number(self.sample_every_ms));
        line("story", flag(self.story));
        line("histograms", flag(self.histograms));
        if !self.settings.is_empty() {
            text += "\n[set]\n";
        }
        for said in &self.settings {
            let (key, value) = setting::split(&said.text).unwrap_or((&said.text, ""));
            let _ = writeln!(text, "{} = {}", quoted(key), literal(value));
        }
        if !self.vary.is_empty() {
            text += "\n[vary]\n";
        }
        for factor in &self.vary {
            let values: Vec<String> = factor.values.iter().map(|value| literal(value)).collect();
            let _ = writeln!(text, "{} = [{}]", quoted(&factor.key), values.join(", "));
        }
        text
    }
}

/// A text in quotes, of one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// A value of `--set`: numbers and truths as they are, and all else in quotes, so that it comes back letter by letter.
fn literal(text: &str) -> String {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').map_or((digits, None), |(w, part)| (w, Some(part)));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_whole = is_digits(whole) && (whole == "0" || !whole.starts_with('0'));
    // TOML's whole numbers have 64 bits.
    let is_short = whole.len() <= 18;
    let is_number = is_whole && is_short && part.is_none_or(is_digits);
    match is_number || ["true", "false"].contains(&text) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Factor;

    #[test]
    fn options_come_back_from_their_file() {
        let mut all = Options::compare("003")
            .full()
            .machine("laptop")
            .disk("nvme")
            .swap("2G")
            .state("odd state")
            .policy("5.4")
            .policy("6.1")
            .ablate()
            .iterations(12)
            .seed(u64::MAX)
            .jobs(3)
            .host(HostKind::Native)
            .story();
        all.histograms = true;
        let set = ["vm.swappiness=10", "unmap.processes=[1,2]", "policy.watermark.boost=false"];
        let odd = ["job.var.a=007", "job.var.b=-0.50", "job.var.c=a \"b\" \\c", "job.var.d=1,2"];
        all.settings = set.iter().chain(&odd).map(|text| (*text).into()).collect();
        all = all.vary("unmap.rounds", ["1", "2"]).vary("unmap.processes", ["1,2", "4"]);
        all.vary.push(Factor::new("a-b", ["x y", "1e3", "18446744073709551615"]));
        let node = ["1G,cpus=0-1".to_owned(), "1G,cpus=2-3".to_owned()];
        let mut nodes = Options::run("unmap").sample_every_ms(5);
        nodes.machine.arg.numa = node.to_vec();
        nodes.machine.arg.numa_distance = vec!["0,1=21".to_owned()];
        let quick = Options::compare("a/b.toml").quick().machine_of("64M", 2).beyond();
        for options in [all, nodes, quick, Options::compare("it's \"x\"")] {
            let text = options.to_toml();
            assert_eq!(Options::from_toml("plan.toml", &text), Ok(options), "{text}");
        }
    }

    #[test]
    fn a_plan_is_short() {
        let options = Options::compare("003").quick().set("vm.swappiness=10");
        let text = options.vary("unmap.rounds", ["1", "2"]).to_toml();
        let expected = "experiment = \"003\"\nquick = true\n\n[set]\n\"vm.swappiness\" = 10\n\n\
                        [vary]\n\"unmap.rounds\" = [1, 2]\n";
        assert_eq!(text, expected);
    }
}
