//! Sums in the place of figures: `{mean(before, again-1) / 1000 | 2}` is a mean in thousandths, with two decimals.
//!
//! Numbers, `+ - * /`, brackets, and functions whose arguments are plain text up to the next comma or bracket. What
//! functions there are is the caller's business. After `|` stands the form: the number of decimals, with a `+` before
//! it where the sign is shown; or a bound, `<1`, which is printed as it is if the value is below it. Thousands are grouped, and minus is what the book prints: `−`.

/// Looks a function up: its name and arguments.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str, &[&str]) -> Result<f64, String>;

/// A text with every sum in braces replaced by its value.
///
/// # Errors
/// If a sum is not one, or asks for what is not there.
pub(crate) fn fill(text: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, behind) = after.split_once('}').ok_or("a brace is not closed")?;
        let (sum, form) = inside.rsplit_once('|').unwrap_or((inside, "0"));
        let value = value(sum, lookup).map_err(|error| format!("{{{inside}}}: {error}"))?;
        filled += before;
        filled += &form_of(value, form.trim()).ok_or(format!("{{{inside}}}: no such form"))?;
        rest = behind;
    }
    Ok(filled + rest)
}

/// A value in a form.
fn form_of(value: f64, form: &str) -> Option<String> {
    if let Some(bound) = form.strip_prefix('<') {
        let holds = value < bound.parse().ok()?;
        return if holds { Some(bound.to_owned()) } else { form_of(value, "3") };
    }
    let (is_signed, decimals) = match form.strip_prefix('+') {
        Some(decimals) => (true, decimals),
        None => (false, form),
    };
    let decimals: usize = decimals.parse().ok()?;
    let digits = format!("{:.decimals$}", value.abs());
    let (whole, part) =
        digits.split_once('.').map_or((digits.as_str(), None), |(w, p)| (w, Some(p)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(part) = part {
        grouped += ".";
        grouped += part;
    }
    let is_zero = digits.chars().all(|digit| matches!(digit, '0' | '.'));
    let sign = match (value < 0.0 && !is_zero, is_signed && !is_zero) {
        (true, _) => "−",
        (false, true) => "+",
        (false, false) => "",
    };
    Some(format!("{sign}{grouped}"))
}

/// The value of a sum.
pub(crate) fn value(sum: &str, lookup: Lookup<'_>) -> Result<f64, String> {
    let mut reader = Reader { rest: sum.trim(), lookup };
    let value = reader.sum()?;
    let is_number = value.is_finite() && reader.rest.is_empty();
    if is_number { Ok(value) } else { Err(format!("no number before \"{}\"", reader.rest)) }
}

struct Reader<'a> {
    rest: &'a str,
    lookup: Lookup<'a>,
}

impl Reader<'_> {
    /// Takes a sign if it is next.
    fn takes(&mut self, sign: char) -> bool {
        let after = self.rest.strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest).trim_start();
        after.is_some()
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut total = self.product()?;
        loop {
            if self.takes('+') {
                total += self.product()?;
            } else if self.takes('-') {
                total -= self.product()?;
            } else {
                return Ok(total);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut total = self.factor()?;
        loop {
            if self.takes('*') {
                total *= self.factor()?;
            } else if self.takes('/') {
                total /= self.factor()?;
            } else {
                return Ok(total);
            }
        }
    }

    fn factor(&mut self) -> Result<f64, String> {
        if self.takes('-') {
            return self.factor().map(|value| -value);
        }
        if self.takes('(') {
            let value = self.sum()?;
            return if self.takes(')') { Ok(value) } else { Err("a bracket is not closed".into()) };
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, after) = self.rest.split_at(end);
        self.rest = after.trim_start();
        if !self.takes('(') {
            return word.parse().map_err(|_| format!("\"{word}\" is no number"));
        }
        let (inside, after) = self.rest.split_once(')').ok_or("a bracket is not closed")?;
        self.rest = after.trim_start();
        let arguments: Vec<&str> = inside.split(',').map(str::trim).collect();
        (self.lookup)(word, &arguments)
    }
}

#[test]
fn sums_are_filled_in() {
    let lookup = |name: &str, arguments: &[&str]| match (name, arguments) {
        ("mean", ["run a", "op-1: x"]) => Ok(1234.567),
        ("loss", _) => Ok(-0.914),
        _ => Err(format!("no {name}")),
    };
    let fill = |text: &str| fill(text, &lookup);
    let ok = |text: &str| Ok(text.to_owned());
    assert_eq!(fill("no sum"), ok("no sum"));
    assert_eq!(fill("{mean(run a, op-1: x)} ms"), ok("1,235 ms"));
    assert_eq!(fill("{mean(run a, op-1: x) / 1000 | 2}, {2}"), ok("1.23, 2"));
    assert_eq!(fill("{100 * loss() | +0} %, {-100 * loss() | +1} %"), ok("−91 %, +91.4 %"));
    assert_eq!(fill("{(1 + 2) * 3 - 8 / 4 / 2}"), ok("8"));
    assert_eq!(fill("{0.001 - 0.0011 | +2} {1234567}"), ok("0.00 1,234,567"));
    assert_eq!(fill("within {0.12 | <1} %, {1.5 | <1.5}"), ok("within 1 %, 1.500"));
    assert_eq!(fill("{worst()}"), Err("{worst()}: no worst".to_owned()));
    for wrong in ["{1 +}", "{1 2}", "{(1}", "{1 / 0}", "{1 | x}", "{1"] {
        assert!(fill(wrong).is_err(), "{wrong}");
    }
}
