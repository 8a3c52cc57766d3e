"""The package itself: the command, the versions that it is built from, its examples."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import highwater as hw
import pytest
from conftest import ROOT

Command = Callable[..., "subprocess.CompletedProcess[str]"]
# Libraries of which another version might compute another number (crates/highwater-plan/build.rs).
MODEL = ["hdrhistogram", "libm", "rand_core", "rand_xoshiro"]


def versions(lock: Path) -> dict[str, set[str]]:
    """Versions of each package in a lock file of cargo."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r'\[\[package\]\]\nname = "(.*)"\nversion = "(.*)"', lock.read_text()):
        found.setdefault(name, set()).add(version)
    return found


def test_the_extension_has_the_libraries_of_the_command() -> None:
    here, workspace = versions(ROOT / "python/Cargo.lock"), versions(ROOT / "Cargo.lock")
    # A library may be there twice, because another one wants an older version.
    differ = {name for name in here if name in workspace and not workspace[name] & here[name]}
    differ |= {name for name in MODEL if not here[name] <= workspace[name]}
    assert differ == set(), "cargo update -p NAME --precise VERSION, in python/"
    assert f'version = "{hw.version}"' in (ROOT / "Cargo.toml").read_text()


def test_the_command_is_the_same(command: Command) -> None:
    assert command("--version").stdout == f"highwater {hw.version}\n"
    assert command("list", "policies").stdout.count("\n") > len(hw.policies())
    wrong = command("compare", "nosuch", code=2)
    assert wrong.stderr.startswith("error: experiment: unknown experiment") and wrong.stdout == ""
    script = shutil.which("highwater", path=str(Path(sys.executable).parent))
    assert script is not None
    words = ["show", "policy", "6.1", "--against", "5.4"]
    ran = subprocess.run([script, *words], capture_output=True, text=True, env=os.environ)
    assert ran.stdout == command(*words).stdout == hw.command(*words)
    with pytest.raises(hw.HighwaterError, match="^experiment: unknown experiment"):
        hw.command("compare", "nosuch")


def test_every_public_name_says_what_it_is() -> None:
    for name in hw.__all__:
        thing = getattr(hw, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name
    assert set(hw.__all__) <= set(dir(hw))
    names = inspect.signature(hw.compare).parameters
    assert list(names)[:3] == ["what", "jobs", "progress"] and "seeds" in names and "options" not in names


def test_examples_in_docstrings_run() -> None:
    from highwater import _plan, _sweep

    for module in (hw, _plan, _sweep):
        result = doctest.testmod(module)
        assert result.attempted > 0 and result.failed == 0, module.__name__


def test_importing_loads_no_frame_and_is_fast() -> None:
    code = "import sys, highwater; print(*[m for m in ('polars', 'pandas', 'pyarrow', 'ray') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "\n"
