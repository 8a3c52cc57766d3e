"""Results: the bytes of the command, also from other threads and directories; frames."""

from __future__ import annotations

import csv
import io
import json
import pickle
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import highwater as hw
import pytest
from conftest import JOB, SMALL

Command = Callable[..., "subprocess.CompletedProcess[str]"]
STUDY: dict[str, Any] = {"quick": True, "seeds": 2, "mem": "64M", "cpus": 2}
WORDS = ["compare", "003", "--quick", "--iterations", "2", "--mem", "64M", "--cpus", "2"]


@pytest.fixture(scope="module")
def results() -> hw.Results:
    return hw.compare("003", **STUDY, progress=False)


def test_documents_and_tables_are_the_bytes_of_the_command(
    results: hw.Results, command: Command, in_tmp: Path
) -> None:
    assert command(*WORDS, "--format", "json").stdout == results.json()
    assert command(*WORDS).stdout == results.table()
    assert command(*WORDS, "--format", "csv").stdout == results.table("csv")
    assert results.document["experiment"] == "003-unmap-accessed"
    assert results.verdict in results.table() and str(results) == results.table()


@pytest.mark.slow
def test_a_study_as_the_book_shows_it_has_the_bytes_of_the_command(command: Command) -> None:
    whole = hw.compare("003", quick=True, progress=False)
    assert command("compare", "003", "--quick", "--format", "json").stdout == whole.json()


def test_threads_of_python_get_the_same_bytes(results: hw.Results) -> None:
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(hw.compare, "003", jobs=1, progress=False, **STUDY) for _ in range(3)]
        assert all(run.result().json() == results.json() for run in runs)


def test_units_from_two_directories_are_the_same_results(results: hw.Results, tmp_path: Path) -> None:
    plan = hw.plan("003", **STUDY)
    ids = [unit.id for unit in plan.units()]
    told: list[tuple[int, int]] = []
    plan.run_units(ids[:1], tmp_path / "a", progress=lambda *now: told.append(now))
    with pytest.raises(hw.HighwaterError, match="units are not in the stores; the first: "):
        plan.collect(tmp_path / "a")
    plan.run_units(ids[1:], tmp_path / "b", jobs=None)
    assert told[-1] == (1, 1)
    assert plan.collect(tmp_path / "a", tmp_path / "b").json() == results.json()
    with pytest.raises(hw.HighwaterError, match="64 hexadecimal digits"):
        plan.run_units(["x"], tmp_path / "a")


def test_results_survive_pickling_and_are_written_as_the_command_writes_them(
    results: hw.Results, command: Command, in_tmp: Path
) -> None:
    again: hw.Results = pickle.loads(pickle.dumps(results))
    assert again.json() == results.json() and again.table("csv") == results.table("csv")
    storied = hw.compare("003", story=True, progress=False, **STUDY)
    pickle.loads(pickle.dumps(storied)).write("python")
    command(*WORDS, "--out", "command")
    files = sorted(path.name for path in Path("command").iterdir() if path.is_file())
    assert files == sorted(path.name for path in Path("python").iterdir() if path.is_file())
    for name in files:
        assert Path("command", name).read_bytes() == Path("python", name).read_bytes(), name
    storied.report("python.html")
    command("report", "command", "-o", "command.html")
    assert Path("command.html").read_bytes() == Path("python.html").read_bytes()


def test_a_grid_has_a_point_for_each_combination(command: Command, in_tmp: Path) -> None:
    vary = {"vm.swappiness": [0, 60], "unmap.rounds": [1, 2]}
    grid = hw.compare("003", vary=vary, progress=False, **STUDY)
    words = [*WORDS, "--vary", "vm.swappiness=0,60", "--vary", "unmap.rounds=1,2"]
    assert command(*words, "--format", "csv").stdout == grid.table("csv")
    assert command(*words).stdout == grid.table()
    assert grid.points[1] == {"vm.swappiness": "0", "unmap.rounds": "2"} and len(grid.documents) == 4
    with pytest.raises(hw.HighwaterError, match="there are 4 points"):
        _ = grid.document
    assert grid.observations().columns[:3] == ["vm.swappiness", "unmap.rounds", "experiment"]
    assert grid.verdict.strip() and "<table>" in grid._repr_html_()
    grid.write("grid")
    assert Path("grid/grid.csv").read_text() == grid.table("csv")


def test_observations_are_the_rows_of_the_csv(results: hw.Results) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(results)
    rows = list(csv.DictReader(io.StringIO(results.table("csv"))))
    assert table.column_names == list(rows[0]) and len(table) == len(rows) == len(results.observations())
    assert table.schema.field("seed").type == pyarrow.uint64()
    assert table.schema.field("iteration").type == pyarrow.uint32()
    for found, row in zip(table.to_pylist(), rows):
        assert found == {
            **row,
            "seed": int(row["seed"]),
            "iteration": int(row["iteration"]),
            "value": float(row["value"]),
        }


def test_polars_and_pandas_take_them_and_policies_stay_text() -> None:
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    results = hw.compare(JOB, machine=SMALL, policies=["5.17", "6.1"], progress=False)
    frame = polars.DataFrame(results)
    assert frame.equals(results.to_polars()) and frame.schema["policy"] == polars.String
    assert frame["policy"].unique().sort().to_list() == ["5.17", "6.1"]
    samples = frame.filter(polars.col("kind") == "sample")
    assert "reader.get p99" in samples["operation"].unique().to_list()
    taken = results.to_pandas()
    assert set(taken["policy"]) == {"5.17", "6.1"} and taken["value"].dtype == "float64"
    assert pandas.api.types.is_integer_dtype(taken["seed"]) and len(taken) == len(frame)


def test_a_notebook_sees_the_verdict(results: hw.Results) -> None:
    text = results._repr_html_()
    assert text.startswith('<div class="highwater">') and "<script" not in text
    assert "<summary>All tables</summary>" in text
    assert "nothing to compare" in hw.compare(JOB, machine=SMALL, progress=False).verdict


def test_the_document_is_as_its_schema_says(results: hw.Results, command: Command) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(command("show", "schema", "results").stdout)
    jsonschema.validate(results.document, schema)
