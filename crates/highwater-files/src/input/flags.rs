//! Flags in input files: true and false, or 1 and 0 as in a Linux sysctl.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Replaces 1 or 0 by true or false for each flag in a table, and in tables and lists below it.
/// `is_flag` says which keys are flags.
pub fn read_flags(table: &mut DeTable<'_>, is_flag: &dyn Fn(&str) -> bool) {
    for (key, value) in table.iter_mut() {
        let is_one = is_flag(key.get_ref());
        read_flag(value, is_one, is_flag);
    }
}

/// The same for one value, which may itself be a flag.
pub fn read_flag(value: &mut Spanned<DeValue<'_>>, is_one: bool, is_flag: &dyn Fn(&str) -> bool) {
    let value = value.get_mut();
    match value {
        DeValue::Integer(number) if is_one => {
            let flag = match number.as_str() {
                "0" => false,
                "1" => true,
                _ => return,
            };
            *value = DeValue::Boolean(flag);
        }
        DeValue::Table(inner) => read_flags(inner, is_flag),
        DeValue::Array(list) => {
            list.iter_mut().for_each(|value| read_flag(value, is_one, is_flag));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_zero_are_flags_where_a_flag_stands() {
        let text = "on = 1\nnr = 1\noff = 0\nmore = 2\n[[list]]\non = 0\nx = { on = 1 }\n";
        let mut table = DeTable::parse(text).unwrap().into_inner();
        read_flags(&mut table, &|key| ["on", "off", "more"].contains(&key));
        let flag = |value: &DeValue<'_>| value.as_bool();
        let top = ["on", "off", "more", "nr"].map(|key| flag(table[key].get_ref()));
        assert_eq!(top, [Some(true), Some(false), None, None]);
        let list = table["list"].get_ref().as_array().unwrap();
        let inner = list[0].get_ref().as_table().unwrap();
        assert_eq!(flag(inner["on"].get_ref()), Some(false));
        assert_eq!(flag(inner["x"].get_ref().as_table().unwrap()["on"].get_ref()), Some(true));
    }
}
