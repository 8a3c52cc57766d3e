//! A value of a setting: read once, as TOML, in the forms that a value of another kind may want.

use toml::de::DeTable;
use toml::{Table, Value};

/// A value as it was written, and what it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    /// As it was written.
    pub(crate) text: String,
    /// Its form: a number, a truth value, text in quotes, a list, a table.
    literal: Option<Value>,
    /// The elements of a list without its brackets.
    listed: Option<Value>,
}

impl Written {
    pub(crate) fn new(text: &str) -> Written {
        let (literal, listed) = (literal(text), literal(&format!("[{text}]")));
        Written { text: text.to_owned(), literal, listed }
    }

    fn bare(&self) -> Value {
        Value::String(self.text.clone())
    }

    /// As it looks: text needs no quotes, and commas make a list.
    pub(crate) fn value(&self) -> Value {
        let listed = || self.listed.clone().filter(|_| self.text.contains(','));
        self.literal.clone().or_else(listed).unwrap_or_else(|| self.bare())
    }

    /// The value in the place of another one: as text where there is text, as a list where there is one, else as it looks.
    pub(crate) fn like(&self, old: Option<&Value>) -> Value {
        match old {
            Some(Value::String(_)) => match &self.literal {
                Some(text @ Value::String(_)) => text.clone(),
                _ => self.bare(),
            },
            Some(Value::Array(_)) if !self.text.starts_with('[') => {
                self.listed.clone().unwrap_or_else(|| self.bare())
            }
            _ => self.value(),
        }
    }

    /// All that it can be in the place of another one, or of none, the likeliest first: a size is text or a share.
    pub(crate) fn candidates(&self, old: Option<&Value>) -> Vec<Value> {
        let mut all = vec![self.like(old)];
        let flag = match self.literal {
            Some(Value::Integer(nr @ (0 | 1))) => Some(Value::Boolean(nr == 1)),
            _ => None,
        };
        for other in [Some(self.value()), flag, Some(self.bare())].into_iter().flatten() {
            if !all.contains(&other) {
                all.push(other);
            }
        }
        all
    }
}

/// A text as TOML, if nothing follows it: no comment, no other key.
fn literal(text: &str) -> Option<Value> {
    let line = format!("x = {text}");
    let span = DeTable::parse(&line).ok()?.get_ref().get("x")?.span();
    let is_whole = span.end == line.len();
    let mut table: Table = toml::from_str(&line).ok().filter(|_| is_whole)?;
    table.remove("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_the_form_of_the_one_in_its_place() {
        let like = |text: &str, old: Value| Written::new(text).like(Some(&old));
        let list = || Value::Array(vec![Value::Integer(1)]);
        let text = |text: &str| Value::String(text.to_owned());
        assert_eq!(like("512", text("a")), text("512"));
        assert_eq!(like("\"512\"", text("a")), text("512"));
        assert_eq!(like("1", list()), list());
        assert_eq!(like("[1]", list()), list());
        assert_eq!(like("3", Value::Integer(1)), Value::Integer(3));
        assert_eq!(like("3 # x", Value::Integer(1)), text("3 # x"));
        assert_eq!(like("2G", Value::Integer(1)), text("2G"));
    }

    #[test]
    fn where_nothing_stands_a_value_is_what_fits() {
        let of = |text: &str| Written::new(text).candidates(None);
        assert_eq!(of("25%"), [Value::String("25%".to_owned())]);
        let nr = |nr| Value::Integer(nr);
        assert_eq!(of("3"), [nr(3), Value::String("3".to_owned())]);
        assert_eq!(of("1"), [nr(1), Value::Boolean(true), Value::String("1".to_owned())]);
        let old = Value::String("48M".to_owned());
        let share = Written::new("0.5").candidates(Some(&old));
        assert_eq!(share, [Value::String("0.5".to_owned()), Value::Float(0.5)]);
    }
}
