"""Python's search for garbage cycles, out of the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_frozen = False


def freeze_modules_once() -> None:
    """Takes what is in memory now out of the search for garbage cycles, once in the life of a process.

    Spark's Python workers search through everything after each task: every module that was ever imported, 50 ms each time. So
    this is called in a worker when its first task is done, and all modules are there.
    """
    global _frozen  # noqa: PLW0603 - the process has one collector
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses the search for garbage cycles.

    A micro-batch of rows makes many objects that stay, and none of them in cycles; the search takes half of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
