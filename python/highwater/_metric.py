"""Figures of results by name, seed by seed."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum


@dataclass(frozen=True)
class Metric:
    """A figure of one policy on one machine at one point."""

    point: dict[str, str]
    """Values of the keys that vary."""
    machine: str
    """Name of the machine."""
    policy: str
    """Name of the policy."""
    label: str
    """Heading of the policy's column in reports."""
    seeds: list[int]
    """The seeds, in the order of `values`."""
    values: list[float | None]
    """Its value in each seed; `None`: there is none, for example because no operation ended."""
    unit: str
    """Unit in words, such as `microseconds`; empty for counts."""
    better: str
    """`higher`, `lower`, or `neither`: a count without a better direction."""

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; `None` if a seed has no value."""
        known = [value for value in self.values if value is not None]
        return fsum(known) / len(known) if known and len(known) == len(self.values) else None
