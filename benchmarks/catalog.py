"""All cases by name, including those of the comparison with Flink."""

from __future__ import annotations

from benchmarks.cases import Case, SumCount
from benchmarks.flink.workloads import WORKLOADS
from benchmarks.functions.cases import FRAME_CASES, FUNCTION_CASES
from benchmarks.limits.cases import REFIRED
from benchmarks.rolling import ROLLING_CASES

SUM_COUNT_CASES = {
    case.name: case
    for case in (
        SumCount("sliding", 60_000, 1_000),
        SumCount("tumbling", 10_000, 10_000),
        SumCount("sliding-10-2", 10_000, 2_000),
    )
}
CASES: dict[str, Case] = {**SUM_COUNT_CASES, **FUNCTION_CASES, **FRAME_CASES, **ROLLING_CASES, REFIRED.name: REFIRED}


def case_of(name: str) -> Case:
    """Return a case, or the case of a workload for Flink (``a`` to ``f``)."""
    return CASES[name] if name in CASES else WORKLOADS[name].case
