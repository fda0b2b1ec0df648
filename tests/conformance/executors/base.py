"""The protocol of an executor of scenarios, and its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.conformance.scenario_format import Scenario


@dataclass(slots=True)
class Observed:
    """The report of a scenario in the terms of the format, with one list per completed step.

    Attributes:
        steps: ``{"key", "start", "end", "value"}`` of every firing, per step.
        late: the late elements per step.
        late_dropped: the number of late elements that were only counted.
        error: the refusal, or None.
        complaints: violations of invariants that hold in every scenario.
        cuts: the number of steps in each micro-batch, if steps ran in micro-batches. ``steps`` and ``late`` then have an entry
            for each micro-batch. A micro-batch that failed has no entry.
    """

    steps: list[list[dict[str, Any]]] = field(default_factory=list)
    late: list[list[dict[str, Any]]] = field(default_factory=list)
    late_dropped: int = 0
    error: str | None = None
    complaints: list[str] = field(default_factory=list)
    cuts: list[int] | None = None


class Executor(Protocol):
    """Runs scenarios."""

    def run(self, scenario: Scenario) -> Observed:
        """Run a scenario. A refusal becomes the ``error`` of the report."""
