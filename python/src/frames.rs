//! Observations as Arrow: a row for each, with the columns of `report --format csv` and, before
//! them, the keys that vary.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};
use highwater::plan;
use highwater::report::render::observations::{COLUMNS, Observation, rows};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::Failed;

/// Columns that are numbers; all others are text.
const SEED: &str = "seed";
const ITERATION: &str = "iteration";
const VALUE: &str = "value";

/// All observations of some results, as one batch.
#[pyclass(frozen, module = "highwater._highwater")]
pub(crate) struct Observations {
    batch: RecordBatch,
}

#[pymethods]
impl Observations {
    /// The stream of the Arrow PyCapsule interface. The schema that a reader asks for is not
    /// followed, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        // Readers share the buffers.
        let batches = [Ok::<_, ArrowError>(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

impl Observations {
    pub(crate) fn of(results: &plan::Results) -> Result<Observations, Failed> {
        let points = results.points.iter().map(|point| (&*point.values, rows(&point.ran.document)));
        let points: Vec<(&[String], Vec<Observation<'_>>)> = points.collect();
        let all = || points.iter().flat_map(|(_, rows)| rows);
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        // A key that is a column already, as the machine is, says the same there.
        let keys = results.keys.iter().enumerate();
        for (at, key) in keys.filter(|(_, key)| !COLUMNS.contains(&key.as_str())) {
            let mut column = StringViewBuilder::new().with_deduplicate_strings();
            for (values, rows) in &points {
                (0..rows.len()).for_each(|_| column.append_value(&values[at]));
            }
            columns.push((key.clone(), Arc::new(column.finish())));
        }
        let text = |of: for<'a> fn(&'a Observation<'a>) -> &'a str| -> ArrayRef {
            let mut column = StringViewBuilder::new().with_deduplicate_strings();
            all().for_each(|row| column.append_value(of(row)));
            Arc::new(column.finish())
        };
        for name in COLUMNS {
            let column: ArrayRef = match name {
                SEED => Arc::new(all().map(|row| row.seed).collect::<UInt64Array>()),
                ITERATION => Arc::new(all().map(|row| row.iteration).collect::<UInt32Array>()),
                VALUE => Arc::new(all().map(|row| row.value.as_f64()).collect::<Float64Array>()),
                "experiment" => text(|row| row.experiment),
                "host" => text(|row| row.host),
                "machine" => text(|row| row.machine),
                "policy" => text(|row| row.policy),
                "label" => text(|row| row.label),
                "kind" => text(|row| row.kind),
                "metric" => text(|row| row.metric),
                "operation" => text(|row| row.operation),
                "unit" => text(|row| row.unit),
                other => return Err(Failed::said(format!("no column {other}"))),
            };
            columns.push((name.to_owned(), column));
        }
        let field = |(name, column): &(String, ArrayRef)| {
            Field::new(name, column.data_type().clone(), false)
        };
        let fields: Vec<Field> = columns.iter().map(field).collect();
        let arrays = columns.into_iter().map(|(_, column)| column).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        Ok(Observations { batch: batch.map_err(|error| Failed::said(error.to_string()))? })
    }
}
