"""What Python makes of results; called by .ci/python with the command, a folder of documents and one to work in.

The page of the book about Python (docs/src/how-to/csv-in-python.md) is run as it stands, once for each study. What it leaves is
compared with the documents, and documents and definitions are judged by the published schemas.
"""

import contextlib
import io
import json
import math
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pandas

ROOT = Path(__file__).resolve().parent.parent
STUDIES = ["001", "002", "003"]
COLUMNS = "experiment,host,machine,policy,label,seed,iteration,kind,metric,operation,unit,value".split(",")
INTEGERS = ["seed", "iteration"]


def check(is_true, message):
    if not is_true:
        sys.exit(f"{Path(__file__).name}: {message}")


def validator(name):
    schema = json.loads((ROOT / "docs/schemas" / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check_valid(name, value, place):
    for error in validator(name).iter_errors(value):
        check(False, f"{place}: {error.json_path}: {error.message[:300]}")


def check_schemas(documents, explanation):
    """Everything is as the published schemas say, and what is wrong is not."""
    for study, document in documents.items():
        check_valid("results", document, study)
        without_seed = {key: value for key, value in document.items() if key != "seed"}
        check(not validator("results").is_valid(without_seed), f"{study}: valid without its seed")
    check_valid("explanation", explanation, "explanation")
    check(not validator("explanation").is_valid(documents["003"]), "results are an explanation")
    for name in ["experiment", "machine", "policy"]:
        files = sorted((ROOT / {"policy": "policies"}.get(name, f"{name}s")).glob("*.toml"))
        check(len(files) >= 3, f"{name}: {len(files)} files")
        for file in files:
            value = tomllib.loads(file.read_text())
            check_valid(name, value, file)
            check(not validator(name).is_valid({**value, "no-such-key": 1}), f"{file}: any key will do")


def run_page(place):
    """Runs the page's Python in a folder; what it leaves, and what it printed."""
    page = (ROOT / "docs/src/how-to/csv-in-python.md").read_text()
    # Other lines are left empty, so that a failure names the page's.
    lines, is_python = [], False
    for line in page.splitlines():
        is_fence = line.startswith("```")
        lines.append(line if is_python and not is_fence else "")
        if is_fence:
            is_python = line == "```python"
    check(any("read_csv" in line for line in lines), "docs/src/how-to/csv-in-python.md: its Python was not found")
    names, printed = {}, io.StringIO()
    before = os.getcwd()
    os.chdir(place)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile("\n".join(lines), "docs/src/how-to/csv-in-python.md", "exec"), names)
    finally:
        os.chdir(before)
    return names, printed.getvalue()


def check_types(study, text, table):
    check(list(table.columns) == COLUMNS, f"{study}: columns {list(table.columns)}")
    check(not re.search("[%<]", text), f"{study}: a number with a sign that is none")
    for column in COLUMNS:
        values = table[column]
        if column in INTEGERS:
            is_right = pandas.api.types.is_integer_dtype(values)
        elif column == "value":
            is_right = pandas.api.types.is_numeric_dtype(values) and not values.isna().any()
        else:
            is_right = values.map(lambda value: isinstance(value, str)).all()
        check(is_right, f"{study}: column {column} is {values.dtype}")
    kinds = set(table["kind"])
    check(kinds == {"sample", "counter", "time"}, f"{study}: kinds {kinds}")


def same(study, what, found, expected):
    """Sums of numbers by key are the same but for rounding."""
    check(expected and found.keys() == expected.keys(), f"{study}: {what} of {found.keys() ^ expected.keys()}")
    for key, value in expected.items():
        is_same = math.isclose(found[key], value, rel_tol=1e-9, abs_tol=1e-9)
        check(is_same, f"{study}: {what} of {key}: {found[key]}, not {value}")


def check_values(study, document, table):
    """The table has what the document has."""
    samples, totals = {}, {}
    for run in document["runs"]:
        place = (run["machine"], run["policy"])
        for series in run["samples"]:
            samples.setdefault((*place, series["operation"]), []).extend(series["values"])
        for seed in run["per_seed"]:
            for time in ["user", "system", "elapsed"]:
                totals[(*place, seed["seed"], "time", time)] = seed["times"][f"{time}_ns"]
            for name, value in seed["counters"].items():
                totals[(*place, seed["seed"], "counter", name)] = value
    is_sample = table["kind"] == "sample"
    number = sum(map(len, samples.values()))
    check(is_sample.sum() == number, f"{study}: {is_sample.sum()} samples, not {number}")
    means = table[is_sample].groupby(["machine", "policy", "operation"])["value"].mean()
    expected = {key: math.fsum(values) / len(values) for key, values in samples.items()}
    same(study, "mean", means.to_dict(), expected)
    rest = table[~is_sample].groupby(["machine", "policy", "seed", "kind", "operation"])["value"]
    check(rest.size().max() == 1, f"{study}: a counter has two lines")
    same(study, "value", rest.sum().to_dict(), totals)


def main(highwater, documents_from, work):
    documents = {s: json.loads(Path(documents_from, f"{s}.json").read_text()) for s in STUDIES}
    check_schemas(documents, json.loads(Path(documents_from, "explain.json").read_text()))
    for study, document in documents.items():
        place = Path(work, study)
        place.mkdir()
        # As the page's commands leave it. The report of a kept document is what the run printed.
        Path(place, "results").mkdir()
        file = Path(place, "results/results.json")
        file.write_text(json.dumps(document))
        report = [highwater, "report", file, "--format", "csv"]
        text = subprocess.run(report, check=True, capture_output=True, text=True).stdout
        Path(place, "results.csv").write_text(text)
        schema = [highwater, "show", "schema", "results"]
        Path(place, "schema.json").write_bytes(subprocess.run(schema, check=True, capture_output=True).stdout)
        names, printed = run_page(place)
        check_types(study, text, names["observations"])
        check_values(study, document, names["observations"])
        check(document["policies"][0]["name"] in printed, f"{study}: the page prints no policy")
        print(f"{study}: {len(names['observations'])} observations, as in the document")


main(*sys.argv[1:])
