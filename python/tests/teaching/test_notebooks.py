"""The notebooks run from their first cell to the last, and are kept without outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import highwater as hw
import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]
#: Seconds that a notebook may take on a loaded computer.
SECONDS_MAX = 600


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def text_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_it_is_kept_without_outputs(path: Path) -> None:
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert code and all(not cell["outputs"] for cell in code)
    assert all(cell["execution_count"] is None for cell in code)


def test_notebooks_link_to_notebooks_and_name_every_exercise() -> None:
    assert len(NOTEBOOKS) == 7
    texts = {path.name: "\n".join(map(text_of, cells(path))) for path in NOTEBOOKS}
    links = {link for text in texts.values() for link in re.findall(r"\]\(([^)]+\.ipynb)\)", text)}
    assert links <= set(texts)
    asked = [
        name for text in texts.values() for name in re.findall(r'check_answer\("([^"]+)"', text)
    ]
    assert sorted(asked) == sorted(hw.exercises())


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    nbclient: Any = pytest.importorskip("nbclient")
    nbformat: Any = pytest.importorskip("nbformat")
    pytest.importorskip("matplotlib")
    if path.stem == "tuning":
        pytest.importorskip("optuna")
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    # A cell that fails raises here, with its traceback.
    nbclient.NotebookClient(notebook, timeout=SECONDS_MAX, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert figures, "each notebook has a figure"
    warned = [output.text for output in outputs if output.get("name") == "stderr"]
    assert not [text for text in warned if "Traceback" in text]
