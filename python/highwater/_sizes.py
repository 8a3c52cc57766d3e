"""Sizes as settings and jobs have them: `96M`."""

from __future__ import annotations

import re
from typing import Any

PAGE = 4096
"""Bytes of a page."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(0|[1-9][0-9]*)([KMGT]?)")


def size_text(size: int) -> str:
    """A size as settings have it: `96M`."""
    if size == 0:
        return "0"
    unit = max((u for u in _UNITS if size % _UNITS[u] == 0), key=lambda u: _UNITS[u])
    return f"{size // _UNITS[unit]}{unit}"


def size_of(text: Any) -> int | None:
    """A size in bytes; none if the text is no size such as `512M`."""
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    return int(match[1]) * _UNITS[match[2]] if match else None
