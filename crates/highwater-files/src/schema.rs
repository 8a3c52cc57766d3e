//! Parts of JSON Schemas that several formats share. `highwater::schema` makes whole schemas of them.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

/// A switch that is on or off; Linux's own files have 1 and 0.
pub fn flag() -> Value {
    json!({ "enum": [true, false, 1, 0] })
}

/// A choice of words, each with its meaning.
pub fn choice<'a>(words: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Value> {
    let word = |(name, doc): (&str, &str)| {
        let mut word = json!({ "type": "string", "const": name });
        if !doc.is_empty() {
            word["description"] = doc.into();
        }
        word
    };
    words.into_iter().map(word).collect()
}

/// A size, such as 8G or 512M.
pub fn size() -> Schema {
    json_schema!({
        "type": "string",
        "format": "size",
        "pattern": r"^\s*((0+|[0-9]+\s*[KMGTkmgt])\s*([iI]?[bB])?|[0-9]+\s*[bB])\s*$",
    })
}
