"""Places where units run: threads, processes, a Ray cluster."""

from .base import Executor
from .processes import Processes
from .ray_ import Ray
from .threads import Threads

__all__ = ["Executor", "Processes", "Ray", "Threads"]
