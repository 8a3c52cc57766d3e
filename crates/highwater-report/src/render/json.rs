//! JSON: tables as data. [`document`] is what `--format json` prints: the document with its derived
//! tables.

use highwater_results::Document;
use serde::Serialize;

use super::Render;
use crate::claims::Claim;
use crate::table::Table;

/// The JSON renderer: a table as an object, several as an array.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Render for Json {
    fn table(&self, table: &Table) -> String {
        pretty(table)
    }

    fn tables(&self, tables: &[Table]) -> String {
        pretty(&tables)
    }
}

/// The document with its derived tables under `tables`, and the published claims under `claims`.
/// Readers of documents skip both.
pub fn document(document: &Document, tables: &[Table], claims: &[Claim]) -> String {
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        document: &'a Document,
        tables: &'a [Table],
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        claims: &'a [Claim],
    }
    pretty(&Whole { document, tables, claims })
}

/// Two documents that were compared, and their comparison under `tables`.
pub fn against(before: &Document, after: &Document, tables: &[Table]) -> String {
    #[derive(Serialize)]
    struct Whole<'a> {
        before: &'a Document,
        after: &'a Document,
        tables: &'a [Table],
    }
    pretty(&Whole { before, after, tables })
}

/// Several documents, their summary, and the published claims of all.
pub fn several(documents: &[Document], summary: &Table, claims: &[Claim]) -> String {
    #[derive(Serialize)]
    struct Whole<'a> {
        experiments: &'a [Document],
        summary: &'a Table,
        claims: &'a [Claim],
    }
    pretty(&Whole { experiments: documents, summary, claims })
}

fn pretty(value: &impl Serialize) -> String {
    // Only a map with keys that are not text can fail, and there is none.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;
    use crate::table::Layout;

    #[test]
    fn a_table_is_data() {
        let value: serde_json::Value =
            serde_json::from_str(&Json.table(&sample(Layout::Fitted))).unwrap();
        assert_eq!(value["columns"][1], "6.1-b|c");
        assert_eq!(value["rows"][0]["labels"][1], "x,y");
        let cell = &value["rows"][0]["cells"][1];
        assert_eq!(
            (cell["cell"].as_str(), cell["significant"].as_bool()),
            (Some("change"), Some(true))
        );
        assert_eq!(cell["percent"], 50.0);
        assert_eq!(value["rows"][1]["cells"][0]["cell"], "missing");
    }

    #[test]
    fn a_document_with_tables_is_still_a_document() {
        let original = Document::new("0.1.0", "x", "sim", 3);
        let text = document(&original, &[sample(Layout::Fitted)], &[]);
        let back: Document = serde_json::from_str(&text).unwrap();
        assert_eq!(back, original);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["tables"][0]["title"], "t, \"x\" | y");
        assert_eq!(value["schema"], "highwater.compare/2");
    }
}
