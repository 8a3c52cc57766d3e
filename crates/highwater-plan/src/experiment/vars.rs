//! Variables of a job file: named values that the user can change from outside.
//!
//! ```toml
//! [var]
//! file = 0.8
//! passes = 3
//! pages = 1
//!
//! [choice]                     # a number stands for one of these
//! pages = ["nohugepage", "hugepage"]
//! ```
//!
//! `"$file"` anywhere in the file is the value, with its type. Within a longer text (`"zipf
//! $skew"`) it is the value's digits. Values keep the place at which they are used, so an error
//! about one has its line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use highwater_files::input::names::unknown;
use highwater_files::input::{InputError, Source};

/// A value from outside, in every form that the one in the file may have.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    name: String,
    text: String,
    /// Lines of TOML.
    literal: String,
    quoted: String,
    integer: Option<String>,
    float: Option<String>,
}

impl Given {
    pub(crate) fn new(name: &str, text: &str) -> Given {
        let line = |value: &str| format!("x = {value}");
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        let whole = number.filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
        Given {
            name: name.to_owned(),
            text: text.to_owned(),
            literal: line(text),
            quoted: line(&toml::Value::String(text.to_owned()).to_string()),
            integer: whole.map(|number| line(&format!("{number:.0}"))),
            float: number.map(|number| line(&format!("{number:?}"))),
        }
    }

    /// The value, of the kind that the file's own has.
    fn like<'a>(&'a self, old: &DeValue<'_>) -> Option<DeValue<'a>> {
        let read = |line: &'a str| {
            let mut table = DeTable::parse(line).ok()?.into_inner();
            (table.len() == 1).then(|| table.remove("x")).flatten().map(Spanned::into_inner)
        };
        match old {
            DeValue::Integer(_) => read(self.integer.as_deref()?),
            DeValue::Float(_) => read(self.float.as_deref()?),
            DeValue::String(_) => read(&self.quoted),
            _ => read(&self.literal),
        }
    }
}

/// Variables by name.
type Values<'a> = BTreeMap<String, DeValue<'a>>;

/// The variables that a file has, in the order in which captured files give their values (`args`).
pub(super) fn arguments(root: &DeTable<'_>) -> Vec<String> {
    let names = root.get("args").and_then(|args| args.get_ref().as_array());
    let names = names.into_iter().flat_map(|names| names.iter());
    names.filter_map(|name| name.get_ref().as_str().map(str::to_owned)).collect()
}

/// Puts the values of variables in the places of their names.
pub(super) fn resolve<'a>(
    root: &mut DeTable<'a>,
    given: &'a [Given],
    source: Source<'_>,
) -> Result<(), InputError> {
    let vars = root.remove("var");
    let choices = root.remove("choice");
    root.remove("args");
    let table = |value: Option<Spanned<DeValue<'a>>>, name: &str| match value
        .map(|v| (v.span(), v.into_inner()))
    {
        None => Ok(DeTable::new()),
        Some((_, DeValue::Table(table))) => Ok(table),
        Some((span, _)) => Err(source.at(span, name, "expected a table of values")),
    };
    let (vars, choices) = (table(vars, "var")?, table(choices, "choice")?);
    let known: Vec<String> = vars.keys().map(|key| key.get_ref().to_string()).collect();
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut values = Values::new();
    for (key, value) in vars {
        let (span, name) = (key.span(), key.into_inner().into_owned());
        let mut value = value.into_inner();
        if matches!(value, DeValue::Table(_) | DeValue::Array(_)) {
            return Err(source.at(span, &name, "a variable is a number, a text or a truth"));
        }
        if let Some(given) = given.iter().find(|given| given.name == name) {
            let kind = match value {
                DeValue::Integer(_) => "a whole number",
                DeValue::Float(_) => "a number",
                _ => "a value",
            };
            // A choice may be given by its number or by itself.
            let is_choice = choices.contains_key(name.as_str());
            let like = given.like(&value);
            let by_name =
                || is_choice.then_some(DeValue::String(Cow::Borrowed(given.text.as_str())));
            value = like.or_else(by_name).ok_or_else(|| {
                InputError::whole(format!("{name}={}", given.text), format!("is not {kind}"))
            })?;
        }
        if let Some(choice) = choices.get(name.as_str()) {
            value = chosen(&value, choice.get_ref())
                .map_err(|reason| source.at(choice.span(), &name, reason))?;
        }
        values.insert(name, value);
    }
    if let Some(given) = given.iter().find(|given| !values.contains_key(&given.name)) {
        let name = &given.name;
        return Err(InputError::whole(source.file, unknown("variable", name, &names)));
    }
    for (_, value) in root.iter_mut() {
        put(value, &values, source)?;
    }
    Ok(())
}

/// The choice that a number or a name selects.
fn chosen<'a>(value: &DeValue<'a>, choice: &DeValue<'a>) -> Result<DeValue<'a>, String> {
    let all = choice.as_array().ok_or("expected a list")?;
    let names: Vec<&str> = all.iter().filter_map(|one| one.get_ref().as_str()).collect();
    let at = match value {
        DeValue::Integer(number) => number.as_str().parse::<usize>().ok(),
        DeValue::String(name) => match names.iter().position(|known| *known == name.as_ref()) {
            None => return Err(unknown("choice", name, &names)),
            at => at,
        },
        _ => None,
    };
    let one = at.and_then(|at| all.get(at)).map(|one| one.get_ref().clone());
    one.ok_or_else(|| format!("is one of {}: by its number, from 0", names.join(", ")))
}

fn put<'a>(
    value: &mut Spanned<DeValue<'a>>,
    values: &Values<'a>,
    source: Source<'_>,
) -> Result<(), InputError> {
    let span = value.span();
    let new = match value.get_mut() {
        DeValue::Table(table) => {
            return table.iter_mut().try_for_each(|(_, value)| put(value, values, source));
        }
        DeValue::Array(array) => {
            return array.iter_mut().try_for_each(|value| put(value, values, source));
        }
        DeValue::String(text) if text.contains('$') => {
            named(text, values).map_err(|reason| source.at(span, &**text, reason))?
        }
        _ => return Ok(()),
    };
    *value.get_mut() = new;
    Ok(())
}

/// Replaces variables in a text. A text that is only one variable becomes that variable's value.
fn named<'a>(text: &str, values: &Values<'a>) -> Result<DeValue<'a>, String> {
    let names: Vec<&str> = values.keys().map(String::as_str).collect();
    let find = |name: &str| values.get(name).ok_or_else(|| unknown("variable", name, &names));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        let end = behind.find(|c| !is_name(c)).unwrap_or(behind.len());
        let value = find(&behind[..end])?;
        if end + 1 == text.len() {
            return Ok(value.clone());
        }
        whole += before;
        whole += match value {
            DeValue::String(text) => text,
            DeValue::Integer(number) => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            DeValue::Boolean(true) => "true",
            DeValue::Boolean(false) => "false",
            _ => "",
        };
        rest = &behind[end..];
    }
    Ok(DeValue::String((whole + rest).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "size = \"$file\"\ntimes = [\"$n\", 7]\npattern = \"zipf $skew of $n\"\nadvice = \"$huge\"\n\
                        [var]\nfile = 0.5\nn = 3\nskew = 0.99\nhuge = 1\n[choice]\nhuge = [\"no\", \"yes\"]\n";

    fn resolved(text: &str, given: &[Given]) -> Result<toml::Table, String> {
        let mut root = DeTable::parse(text).unwrap().into_inner();
        resolve(&mut root, given, Source { file: "x.toml", text }).map_err(|e| e.to_string())?;
        let value = Spanned::new(0..0, DeValue::Table(root));
        let value = toml::de::ValueDeserializer::from(value);
        Ok(<toml::Table as serde::Deserialize>::deserialize(value).unwrap())
    }

    #[test]
    fn values_stand_in_the_places_of_their_names() {
        let expected = |size: &str, n: &str, huge: &str| {
            let text = format!(
                "size = {size}\ntimes = [{n}, 7]\npattern = \"zipf 0.99 of {n}\"\nadvice = \"{huge}\"\n"
            );
            text.parse::<toml::Table>().unwrap()
        };
        assert_eq!(resolved(TEXT, &[]).unwrap(), expected("0.5", "3", "yes"));
        // A given value takes the type of the file's own.
        let given = [Given::new("file", "2"), Given::new("n", "4.0"), Given::new("huge", "no")];
        assert_eq!(resolved(TEXT, &given).unwrap(), expected("2.0", "4", "no"));
        let zero = [Given::new("huge", "0")];
        assert_eq!(resolved(TEXT, &zero).unwrap(), expected("0.5", "3", "no"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let wrong = |text: &str, given: &[Given]| resolved(text, given).unwrap_err();
        assert!(wrong("a = 1\nb = \"$x\"\n", &[]).contains("x.toml:2"));
        let typo = wrong(TEXT, &[Given::new("fil", "2")]);
        assert!(typo.contains("did you mean file?"), "{typo}");
        assert!(wrong(TEXT, &[Given::new("n", "1.5")]).contains("is not a whole number"));
        assert!(wrong(TEXT, &[Given::new("huge", "maybe")]).contains("unknown choice"));
        assert!(wrong(TEXT, &[Given::new("huge", "2")]).contains("one of no, yes"));
        assert!(wrong("[var]\nx = [1]\n", &[]).contains("a variable is a number"));
    }
}
