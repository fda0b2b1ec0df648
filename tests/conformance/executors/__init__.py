"""The executors of scenarios: the engine alone, the stateful processor without Spark, and Spark."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.executors.base import Executor, Observed
from tests.conformance.executors.harness import HarnessExecutor


def _processor(restore: bool) -> Executor:
    from tests.conformance.executors.processor import ProcessorExecutor

    return ProcessorExecutor(restore)


def _spark(restore: bool) -> Executor:
    from tests.conformance.executors.streaming import StreamingExecutor

    return StreamingExecutor(restore)


EXECUTORS: dict[str, Callable[[bool], Executor]] = {"harness": HarnessExecutor, "processor": _processor, "spark": _spark}
"""Factories of executors by name. The argument says whether to restore from a snapshot after every step or micro-batch."""

__all__ = ["EXECUTORS", "Executor", "HarnessExecutor", "Observed"]
