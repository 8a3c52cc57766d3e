"""The Python of the book's page runs as it stands, and so does that of the README."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT


def python_of(page: Path) -> str:
    """The page's Python. Other lines are empty, so that a failure names the page's line."""
    lines, is_python = [], False
    for line in page.read_text().splitlines():
        is_fence = line.startswith("```")
        lines.append(line if is_python and not is_fence else "")
        if is_fence:
            is_python = line == "```python"
    assert any(lines), page
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/src/python.md", "python/README.md"])
def test_the_page_runs(page: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("polars")
    names = {"__name__": "page"}
    exec(compile(python_of(ROOT / page), page, "exec"), names)
    assert "frame" in names
