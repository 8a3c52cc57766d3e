//! Names of tasks and files: letters, digits and dashes, each once in a job.

/// The names that a job has.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: Vec<String>,
}

impl Names {
    /// The task of a process.
    pub(super) fn task(&mut self, comm: &str, pid: u32) -> String {
        let plain = plain(comm);
        let name = if plain.is_empty() { "process".to_owned() } else { plain };
        match self.taken.contains(&name) {
            true => self.numbered(&format!("{name}-{pid}")),
            false => self.numbered(&name),
        }
    }

    /// A file.
    pub(super) fn file(&mut self, wanted: &str) -> String {
        self.or(wanted, "file")
    }

    /// A group.
    pub(super) fn group(&mut self, wanted: &str) -> String {
        self.or(wanted, "group")
    }

    /// The wanted name, or `otherwise` if nothing of it can stay.
    fn or(&mut self, wanted: &str, otherwise: &str) -> String {
        let plain = plain(wanted);
        let name = if plain.is_empty() { otherwise.to_owned() } else { plain };
        self.numbered(&name)
    }

    /// The name, or with a number behind it.
    fn numbered(&mut self, name: &str) -> String {
        let mut all = (2..).map(|n| format!("{name}-{n}"));
        let mut found = name.to_owned();
        while self.taken.contains(&found) {
            found = all.next().unwrap_or_default();
        }
        self.taken.push(found.clone());
        found
    }
}

fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    text.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_different() {
        let mut names = Names::default();
        assert_eq!(names.task("a b/(c)", 7), "a-b--c");
        assert_eq!(names.task("a b/(c)", 7), "a-b--c-7");
        assert_eq!(names.task("()", 8), "process");
        assert_eq!([names.file("/x/"), names.file("x"), names.file("x")], ["x", "x-2", "x-3"]);
    }
}
