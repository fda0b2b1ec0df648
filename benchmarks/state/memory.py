"""Split memory into the driver (its Python and its JVM) and the executor (its JVM and its Python workers)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import psutil

from benchmarks.harness import _memory

_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Peaks:
    """The largest resident sets in bytes. Python workers have the largest sum at one moment, with shared pages once."""

    driver_python: int = 0
    driver_jvm: int = 0
    executor_jvm: int = 0
    workers: int = 0

    def megabytes(self) -> dict[str, float]:
        """Return the peaks in MB, by name."""
        return {name: round(value / 2**20, 1) for name, value in vars(self).items()}


@dataclass
class Watcher(threading.Thread):
    """Sample all descendants of this process several times a second, for a session of ``local-cluster[1,…]``."""

    period: float = 0.2
    peaks: Peaks = field(default_factory=Peaks)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._halt = threading.Event()

    # Compare threads by identity. The dataclass would compare fields.
    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        while not self._halt.wait(self.period):
            self.look()

    def stop(self) -> Peaks:
        """Stop sampling, and return the peaks."""
        self._halt.set()
        self.join()
        return self.peaks

    def look(self) -> None:
        """Take one sample. Processes may end meanwhile."""
        me, peaks, workers = psutil.Process(), self.peaks, 0
        peaks.driver_python = max(peaks.driver_python, me.memory_info().rss)
        for process in me.children(recursive=True):
            try:
                name, of = process.name(), process.cmdline()
                if "java" in name and any(_EXECUTOR in word for word in of):
                    peaks.executor_jvm = max(peaks.executor_jvm, process.memory_info().rss)
                elif "java" in name:
                    peaks.driver_jvm = max(peaks.driver_jvm, process.memory_info().rss)
                elif "python" in name:
                    workers += _memory(process)
            except psutil.Error:
                continue
        peaks.workers = max(peaks.workers, workers)
