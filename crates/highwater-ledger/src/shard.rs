//! A finished unit as the bytes of a file: rows for other programs, and all of the result for this one.
//!
//! The rows are tidy, one for each observation of the unit, in the order of `report --format csv`:
//!
//! | column | type | is |
//! |---|---|---|
//! | unit | text | the unit's id |
//! | workload, machine, policy | text | names; a policy called 5.17 stays text |
//! | seed | unsigned, 64 bits | the seed |
//! | part | unsigned, 32 bits | number of the part of its cell, from 0 |
//! | kind | text | `sample`, `counter`, `time` |
//! | operation | text | the operation of a sample, the counter's name, or `user`, `system`, `elapsed` |
//! | value | float, 64 bits | of a sample in the unit of its metric, of a time in nanoseconds |
//!
//! A plan's labels, iterations and varied keys are not in it: units of two plans may have one id.
//!
//! The file's metadata has four texts: [`SCHEMA_KEY`], the recipe, the whole result as JSON ([`UnitRan`]), and the
//! SHA-256 of recipe and result, which tells damage from a result.

use parquet::file::metadata::ParquetMetaDataReader;
use sha2::{Digest, Sha256};
use thiserror::Error;

use highwater_plan::experiment::unit::{Recipe, UnitId, UnitNames, UnitRan};
use highwater_report::render::observations::{COUNTER, SAMPLE, TIME, times};

use crate::table::{Column, Writer};

/// Kind and version of the file.
pub const SCHEMA: &str = "highwater.shard/1";
/// Keys of the metadata.
pub const SCHEMA_KEY: &str = "highwater.schema";
/// The recipe's lines.
pub const RECIPE_KEY: &str = "highwater.recipe";
/// The result as JSON.
pub const UNIT_KEY: &str = "highwater.unit";
/// The SHA-256 of recipe and result, in hexadecimal digits.
pub const DIGEST_KEY: &str = "highwater.sha256";

/// Names of the columns.
pub const COLUMNS: [&str; 9] =
    ["unit", "workload", "machine", "policy", "seed", "part", "kind", "operation", "value"];

/// Bytes at the end of a Parquet file: the length of the metadata, and a mark.
const END: usize = 8;
const MARK: &[u8; 4] = b"PAR1";

/// Why bytes are no shard, or a result cannot be one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShardError {
    /// The end is missing, or it was never a Parquet file.
    #[error("is cut short, or is no Parquet file")]
    Cut,
    /// It is a Parquet file of something else.
    #[error("is a Parquet file of another program")]
    Foreign,
    /// Another version wrote it.
    #[error("has the form {0}; this version reads {SCHEMA}")]
    Version(String),
    /// Bytes of the result changed.
    #[error("is damaged: its digest does not fit its result")]
    Damaged,
    /// It has the name of another unit.
    #[error("holds the unit {0}")]
    Other(UnitId),
    /// A value of this operation is not a number, which JSON cannot hold.
    #[error("{0}: a value is not a number")]
    NoNumber(String),
    /// The result has no form in JSON, or the JSON no result.
    #[error("its result: {0}")]
    Json(#[from] serde_json::Error),
    /// The rows could not be written.
    #[error("{0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

/// A finished unit, read from the bytes of its file.
#[derive(Clone, Debug)]
pub struct Shard {
    /// The lines of its recipe.
    pub recipe: String,
    /// The unit's id, which follows from the recipe.
    pub id: UnitId,
    /// Its result.
    pub ran: UnitRan,
}

/// The bytes of a unit's file: the same for the same id, wherever they are made.
///
/// # Errors
/// If a value is not a number: the result has no form in JSON.
pub fn encode(recipe: &Recipe, ran: &UnitRan) -> Result<Vec<u8>, ShardError> {
    bytes_of(recipe.text(), recipe.names(), ran)
}

fn bytes_of(recipe: &str, names: &UnitNames, ran: &UnitRan) -> Result<Vec<u8>, ShardError> {
    let id = UnitId::of(recipe).to_string();
    let (mut kinds, mut operations, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut push = |kind: &'static str, operation, value: f64| {
        kinds.push(kind);
        operations.push(operation);
        values.push(value);
    };
    let outcome = &ran.outcome;
    for (operation, value) in &outcome.samples {
        if !names.not_counted.contains(operation) {
            push(SAMPLE, operation.as_str(), *value);
        }
    }
    for (name, ns) in times(&outcome.times) {
        push(TIME, name, ns as f64);
    }
    for (name, change) in outcome.counters.iter().filter(|(_, change)| *change != 0) {
        push(COUNTER, name, change as f64);
    }
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return Err(ShardError::NoNumber(operations[at].to_owned()));
    }
    let nr_rows = values.len();
    let columns = [
        Column::Text(vec![&id; nr_rows]),
        Column::Text(vec![&names.workload; nr_rows]),
        Column::Text(vec![&names.machine; nr_rows]),
        Column::Text(vec![&names.policy; nr_rows]),
        Column::U64(vec![names.seed; nr_rows]),
        Column::U32(vec![u32::try_from(names.part).unwrap_or(u32::MAX); nr_rows]),
        Column::Text(kinds),
        Column::Text(operations),
        Column::F64(values),
    ];
    let unit = serde_json::to_string(ran)?;
    let digest = digest(recipe, &unit);
    let metadata = vec![
        (SCHEMA_KEY, SCHEMA.to_owned()),
        (RECIPE_KEY, recipe.to_owned()),
        (UNIT_KEY, unit),
        (DIGEST_KEY, digest),
    ];
    let named: Vec<_> = COLUMNS.into_iter().zip(columns).collect();
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &named, metadata)?;
    let columns: Vec<Column<'_>> = named.into_iter().map(|(_, column)| column).collect();
    writer.rows(&columns)?;
    writer.finish()?;
    Ok(bytes)
}

/// Reads the bytes of a unit's file.
///
/// # Errors
/// If they are no whole and undamaged shard.
pub fn decode(bytes: &[u8]) -> Result<Shard, ShardError> {
    let Texts { recipe, unit } = texts(bytes)?;
    Ok(Shard { id: UnitId::of(&recipe), ran: serde_json::from_str(&unit)?, recipe })
}

/// The id of the unit whose file has these bytes: a quick test that they are a whole and undamaged
/// shard.
///
/// # Errors
/// If they are not.
pub fn check(bytes: &[u8]) -> Result<UnitId, ShardError> {
    Ok(UnitId::of(&texts(bytes)?.recipe))
}

/// The texts of a file beside its rows.
struct Texts {
    recipe: String,
    unit: String,
}

fn texts(bytes: &[u8]) -> Result<Texts, ShardError> {
    let end = bytes.len().checked_sub(END).ok_or(ShardError::Cut)?;
    let (length, mark) = bytes[end..].split_at(END - MARK.len());
    let length: [u8; 4] = length.try_into().map_err(|_| ShardError::Cut)?;
    let length = u32::from_le_bytes(length) as usize;
    let begin = end.checked_sub(length).filter(|_| mark == MARK).ok_or(ShardError::Cut)?;
    let metadata =
        ParquetMetaDataReader::decode_metadata(&bytes[begin..end]).map_err(|_| ShardError::Cut)?;
    let pairs = metadata.file_metadata().key_value_metadata();
    let text = |key: &str| {
        let found = pairs.into_iter().flatten().find(|pair| pair.key == key);
        found.and_then(|pair| pair.value.clone()).ok_or(ShardError::Foreign)
    };
    let schema = text(SCHEMA_KEY)?;
    if schema != SCHEMA {
        return Err(ShardError::Version(schema));
    }
    let (recipe, unit) = (text(RECIPE_KEY)?, text(UNIT_KEY)?);
    match text(DIGEST_KEY)? == digest(&recipe, &unit) {
        true => Ok(Texts { recipe, unit }),
        false => Err(ShardError::Damaged),
    }
}

/// Recipes end with a newline, so no other pair of texts has this digest.
fn digest(recipe: &str, unit: &str) -> String {
    let hash = Sha256::new().chain_update(recipe).chain_update(unit).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shards of one unit must not differ between versions of this program or of its libraries. If
    /// the bytes change, the number of [`SCHEMA`] has to change, too.
    #[test]
    fn bytes_are_those_of_every_version() {
        let names = UnitNames {
            workload: "unmap".to_owned(),
            machine: "m".to_owned(),
            policy: "5.17".to_owned(),
            seed: u64::MAX,
            part: 3,
            not_counted: vec!["b".to_owned()],
        };
        let mut ran = UnitRan::default();
        let samples = [("a", 1.0 / 3.0), ("b", 2.0), ("a", -0.0), ("c \u{e9}", 1e300)];
        ran.outcome.samples = samples.map(|(name, value)| (name.to_owned(), value)).to_vec();
        ran.outcome.times.elapsed_ns = 7;
        ran.outcome.counters.set("pgfault", -4);
        ran.outcome.counters.set("pswpin", 0);
        let bytes = bytes_of("highwater-unit 1\n", &names, &ran).unwrap();
        let shard = decode(&bytes).unwrap();
        assert_eq!(shard.ran.outcome.samples, ran.outcome.samples);
        assert_eq!(
            (check(&bytes).unwrap(), shard.id),
            (shard.id, UnitId::of("highwater-unit 1\n"))
        );
        let hash = Sha256::digest(&bytes);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hash,
            "9fbd3b030f0e6824f0566ef18a2814b992985eab36bb7a553997ad952ddddf7b",
            "{} bytes",
            bytes.len()
        );
    }

    #[test]
    fn a_value_that_is_no_number_is_no_result() {
        let mut ran = UnitRan::default();
        ran.outcome.samples.push(("a".to_owned(), f64::NAN));
        let error = bytes_of("x\n", &UnitNames::default(), &ran).unwrap_err();
        assert_eq!(error.to_string(), "a: a value is not a number");
    }
}
