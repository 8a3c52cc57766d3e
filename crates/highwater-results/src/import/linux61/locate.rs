//! Finds the line of a value in a JSON text, by its path.
//!
//! Used only for error messages about texts that serde_json has accepted. It stays within the text
//! on any input, and returns the line of the deepest part of the path that it finds.

/// Line, from 1, of the value at `path`, such as `zones[0].present`.
pub(super) fn line_of(text: &[u8], path: &str) -> u64 {
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip_blanks();
    let mut found = cursor.at;
    for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
        let reached = match step.strip_suffix(']').and_then(|index| index.parse().ok()) {
            Some(index) => cursor.enter_array(index),
            None => cursor.enter_object(step.as_bytes()),
        };
        if !reached {
            break;
        }
        found = cursor.at;
    }
    let before = &text[..found.min(text.len())];
    1 + before.iter().filter(|&&b| b == b'\n').count() as u64
}

struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Moves from `{` to the value of `key`.
    fn enter_object(&mut self, key: &[u8]) -> bool {
        if !self.eat(b'{') {
            return false;
        }
        loop {
            self.skip_blanks();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return false;
            }
            self.skip_value();
            let is_key =
                self.text[start..self.at].get(1..).and_then(|k| k.strip_suffix(b"\"")) == Some(key);
            if !self.eat(b':') {
                return false;
            }
            self.skip_blanks();
            if is_key {
                return true;
            }
            self.skip_value();
            if !self.eat(b',') {
                return false;
            }
        }
    }

    /// Moves from `[` to element `index`.
    fn enter_array(&mut self, index: usize) -> bool {
        if !self.eat(b'[') {
            return false;
        }
        for _ in 0..index {
            self.skip_value();
            if !self.eat(b',') {
                return false;
            }
        }
        self.skip_blanks();
        self.peek().is_some_and(|b| b != b']')
    }

    /// Skips one value with everything in it.
    fn skip_value(&mut self) {
        self.skip_blanks();
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.skip_string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' | b',' | b':' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
            if depth == 0
                && self.text[..self.at].last().is_some_and(|b| matches!(b, b'"' | b'}' | b']'))
            {
                return;
            }
        }
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        self.at = self.at.min(self.text.len());
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b"{\n \"a\": \"x}]\\\",\",\n \"b\": [\n  [1, 2],\n  {\"c\": 3,\n   \"a\": 4\n  }\n ]\n}\n";

    #[test]
    fn lines_of_paths() {
        for (path, line) in
            [("a", 2), ("b", 3), ("b[0]", 4), ("b[0][1]", 4), ("b[1].c", 5), ("b[1].a", 6)]
        {
            assert_eq!(line_of(TEXT, path), line, "{path}");
        }
    }

    #[test]
    fn what_is_not_there_falls_back_to_what_is() {
        for (path, line) in [("", 1), ("z", 1), ("b[7]", 3), ("b[1].z", 5), ("a.b", 2)] {
            assert_eq!(line_of(TEXT, path), line, "{path}");
        }
    }

    #[test]
    fn cut_texts_do_not_panic() {
        for end in 0..TEXT.len() {
            line_of(&TEXT[..end], "b[1].a");
        }
        line_of(b"\"\\", "a");
        line_of(b"{\"a\\", "a");
    }
}
