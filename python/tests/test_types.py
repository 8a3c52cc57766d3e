"""Types of the package and of its examples, as two checkers see them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.parametrize(
    ("module", "words"),
    [("mypy", ["--no-error-summary"]), ("pyright", ["--pythonpath", sys.executable])],
)
def test_types(module: str, words: list[str]) -> None:
    pytest.importorskip(module)
    checker = [sys.executable, "-m", module, *words]
    ran = subprocess.run(checker, cwd=ROOT / "python", capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
