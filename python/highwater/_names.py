"""Names that come with the program, each with a line about it."""

from __future__ import annotations

from . import _highwater


def experiments() -> dict[str, str]:
    """The experiments, by name. A study's name begins with its number."""
    return dict(_highwater.experiments())


def machines() -> dict[str, str]:
    """The machines, by name."""
    return dict(_highwater.machines())


def policies() -> dict[str, str]:
    """The policies, by name: Linux versions, and variants of them."""
    return dict(_highwater.policies())


def workloads() -> dict[str, str]:
    """The workloads and jobs, by name."""
    return dict(_highwater.workloads())
