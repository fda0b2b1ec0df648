"""Control of Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_frozen = False


def freeze_modules_once() -> None:
    """Exclude everything now in memory from garbage collection, once per process.

    Spark's Python workers search everything after each task, including all imported modules, which takes 50 ms each time. So a
    worker calls this after its first task, when all modules are loaded.
    """
    global _frozen  # noqa: PLW0603 - the process has one collector
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a micro-batch creates many lasting objects without cycles, and searching doubles its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
