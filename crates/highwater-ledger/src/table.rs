//! Tables of rows as Parquet: columns of text, whole numbers and floats, without missing values.
//!
//! The same rows make the same bytes: settings are fixed, and no file names a time, a computer or the version of a
//! library.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

/// The writer that files name.
const CREATED_BY: &str = "highwater";
/// The name of the schema's root, which readers do not show.
const ROOT: &str = "highwater";

/// The values of a column.
#[derive(Clone, Debug)]
pub(crate) enum Column<'a> {
    /// Text, dictionary encoded.
    Text(Vec<&'a str>),
    /// Whole numbers of 64 bits.
    U64(Vec<u64>),
    /// Whole numbers of 32 bits.
    U32(Vec<u32>),
    /// Floats.
    F64(Vec<f64>),
}

impl Column<'_> {
    /// The type of the column of this name in the file's schema.
    fn of_schema(&self, name: &str) -> Result<Type, ParquetError> {
        let (physical, logical) = match self {
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Column::U64(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Column::U32(_) => (Physical::INT32, Some(LogicalType::integer(32, false))),
            Column::F64(_) => (Physical::DOUBLE, None),
        };
        let column = Type::primitive_type_builder(name, physical);
        column.with_repetition(Repetition::REQUIRED).with_logical_type(logical).build()
    }
}

/// A table that is written group by group.
pub(crate) struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> Writer<W> {
    /// Begins a table with the columns of this first group, whose rows are not written yet. The file
    /// keeps the pairs of names and texts beside the rows.
    pub(crate) fn new(
        out: W,
        columns: &[(&str, Column<'_>)],
        metadata: Vec<(&str, String)>,
    ) -> Result<Writer<W>, ParquetError> {
        let mut fields = Vec::new();
        let mut settings = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        for (name, column) in columns {
            fields.push(Arc::new(column.of_schema(name)?));
            if let Column::F64(_) = column {
                // Measured values hardly repeat.
                let path = ColumnPath::new(vec![(*name).to_owned()]);
                settings = settings.set_column_dictionary_enabled(path, false);
            }
        }
        let pair = |(key, value): (&str, String)| KeyValue::new(key.to_owned(), value);
        let pairs: Vec<KeyValue> = metadata.into_iter().map(pair).collect();
        let settings = settings.set_key_value_metadata((!pairs.is_empty()).then_some(pairs));
        let schema = Arc::new(Type::group_type_builder(ROOT).with_fields(fields).build()?);
        let file = SerializedFileWriter::new(out, schema, Arc::new(settings.build()))?;
        Ok(Writer { file })
    }

    /// Adds a group of rows: the values of every column, in the order of the schema.
    pub(crate) fn rows(&mut self, columns: &[Column<'_>]) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in columns {
            let Some(mut writer) = group.next_column()? else {
                return Err(ParquetError::General("more columns than the schema has".to_owned()));
            };
            match column {
                Column::Text(texts) => {
                    writer.typed::<ByteArrayType>().write_batch(&bytes(texts), None, None)?
                }
                Column::U64(numbers) => {
                    // The schema says that the bits are of an unsigned number.
                    let bits: Vec<i64> =
                        numbers.iter().map(|number| number.cast_signed()).collect();
                    writer.typed::<Int64Type>().write_batch(&bits, None, None)?
                }
                Column::U32(numbers) => {
                    let bits: Vec<i32> =
                        numbers.iter().map(|number| number.cast_signed()).collect();
                    writer.typed::<Int32Type>().write_batch(&bits, None, None)?
                }
                Column::F64(values) => {
                    writer.typed::<DoubleType>().write_batch(values, None, None)?
                }
            };
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the end of the file.
    pub(crate) fn finish(self) -> Result<(), ParquetError> {
        self.file.close().map(drop)
    }
}

/// Texts as Parquet has them; equal ones share their bytes.
fn bytes<'a>(texts: &[&'a str]) -> Vec<ByteArray> {
    let mut known: HashMap<&'a str, ByteArray> = HashMap::new();
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        let bytes = known.entry(text).or_insert_with(|| ByteArray::from(*text));
        all.push(bytes.clone());
    }
    all
}
