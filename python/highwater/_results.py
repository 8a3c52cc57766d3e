"""Results of a plan: the verdict, tables, pages, files and observations."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from . import _highwater
from ._highwater import HighwaterError
from ._metric import Metric

if TYPE_CHECKING:
    import pandas
    import polars


class Observations:
    """Measured values as one table: a row for each observation.

    Any library that reads the Arrow PyCapsule interface takes it (`polars.DataFrame(observations)`,
    `pyarrow.table(observations)`, DuckDB, Narwhals); Arrow buffers are handed over, not copied.

    | column | type | is |
    |---|---|---|
    | the keys that vary | text | their values; `machine` is a column anyway |
    | `experiment`, `host`, `machine`, `policy`, `label` | text | the run; the label is its heading in tables |
    | `seed`, `iteration` | u64, u32 | the seed; the iteration of the run, from 0 |
    | `kind` | text | `sample`, `counter` or `time` |
    | `metric`, `operation` | text | of a sample; a counter is an operation of `vmstat`, a time one of `time` |
    | `unit` | text | unit of the value: the metric's, `count`, `ns` |
    | `value` | f64 | the value |

    The rows are those of `highwater report --format csv`, in its order.
    """

    __slots__ = ("_observations",)

    def __init__(self, observations: _highwater.Observations) -> None:
        self._observations = observations

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._observations.columns

    def __len__(self) -> int:
        """Number of observations."""
        return len(self._observations)

    def __repr__(self) -> str:
        return f"<{len(self)} observations: {', '.join(self.columns)}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of Arrow batches, by the Arrow PyCapsule interface."""
        return self._observations.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """A polars DataFrame.

        Raises:
            HighwaterError: If polars is not installed.
        """
        try:
            import polars
        except ImportError:
            raise _missing("polars", "polars") from None
        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame. Text columns stay text, also names such as `5.17`.

        Raises:
            HighwaterError: If pandas or pyarrow is not installed.
        """
        try:
            import pandas  # noqa: F401
            import pyarrow
        except ImportError:
            raise _missing("pandas and pyarrow", "pandas") from None
        frame: pandas.DataFrame = pyarrow.table(self).to_pandas()
        return frame


def _missing(what: str, extra: str) -> HighwaterError:
    return HighwaterError(f"{what}: not installed; pip install 'highwater[{extra}]'")


class Results:
    """Results of a plan: of one comparison, or of a grid with a point for each combination of values.

    They can be pickled, and are Arrow data themselves: `polars.DataFrame(results)`.
    """

    __slots__ = ("_documents", "_results")

    def __init__(self, results: _highwater.Results) -> None:
        self._results = results
        self._documents: list[dict[str, Any]] | None = None

    @property
    def verdict(self) -> str:
        """The verdict as text: the largest significant changes, or of a grid how much each key
        matters. Percentages are changes against the first policy; positive is better."""
        return self._results.verdict()

    def table(self, format: str = "terminal", *, all: bool = False, width: int | None = None) -> str:
        """The text that `highwater compare` prints.

        Args:
            format: `terminal`, `markdown`, `csv` or `json`.
            all: Show all evidence, also of figures that did not change.
            width: Columns of a line; default: those of a page.

        Raises:
            HighwaterError: If there is no such format.
        """
        return self._results.text(format, all, width)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page that needs no other file, as `highwater report -o FILE`. Plans with
        `story=True` give it charts over time and the causes of slow operations."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._results.page())

    def write(self, dir: str | os.PathLike[str]) -> None:
        """Writes the files of `--out DIR`: `results.json` and `report.txt`, of a grid those of each
        point and `grid.csv`. Existing results are replaced; `highwater report DIR` shows them."""
        self._results.write(dir)

    @property
    def keys(self) -> list[str]:
        """Keys that vary; empty for a single comparison."""
        return self._results.keys

    @property
    def points(self) -> list[dict[str, str]]:
        """The values of the keys at each point; one without values for a single comparison."""
        keys = self.keys
        return [dict(zip(keys, values)) for values in self._results.points]

    @property
    def documents(self) -> list[dict[str, Any]]:
        """A document for each point: everything that was measured, with the definitions of machines,
        policies and workload. `highwater show schema results` describes it; times are in nanoseconds."""
        if self._documents is None:
            all_points = range(len(self._results.points))
            self._documents = [json.loads(self._results.json(point)) for point in all_points]
        return self._documents

    @property
    def document(self) -> dict[str, Any]:
        """The document of a single comparison.

        Raises:
            HighwaterError: If there are several points; `documents` has theirs.
        """
        if len(self.documents) != 1:
            nr = len(self.documents)
            raise HighwaterError(f"document: there are {nr} points; documents has one for each")
        return self.documents[0]

    def metric(self, name: str) -> list[Metric]:
        """A figure by the name that `fit` and `bisect` take, seed by seed: one for each policy on each
        machine at each point.

        Args:
            name: Of an operation (`"reader.get.p99"`), a share of time (`"memory.some"`), a counter
                (`"pgmajfault"`), a sum of several or a rate (`"pswpin.rate"`), or `"time.system"`.

        Raises:
            HighwaterError: If there is no such figure; it names similar ones.
        """
        points = self.points
        return [Metric(points[of[0]], *of[1:]) for of in self._results.metric(name)]

    def json(self, point: int = 0) -> str:
        """The document of a point as text: the bytes of `highwater compare --format json`."""
        return self._results.json(point)

    def observations(self) -> Observations:
        """All measured values, as a table."""
        return Observations(self._results.observations())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The observations as a stream of Arrow batches."""
        return self._results.observations().__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """The observations as a polars DataFrame."""
        return self.observations().to_polars()

    def to_pandas(self) -> pandas.DataFrame:
        """The observations as a pandas DataFrame."""
        return self.observations().to_pandas()

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        nr = len(self._results.points)
        of = f", {nr} points of {', '.join(self.keys)}" if self.keys else ""
        return f"<Results{of}; print() shows their tables>"

    def _repr_html_(self) -> str:
        """For notebooks: the verdict, and all tables to unfold."""
        return self._results.fragment()

    def __reduce__(self) -> tuple[object, ...]:
        return (_loads, (self._results.dumps(),))


def _loads(data: bytes) -> Results:
    return Results(_highwater.Results.loads(data))
