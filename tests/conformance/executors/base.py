"""What an executor of scenarios is, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.conformance.scenario_format import Scenario


@dataclass(slots=True)
class Observed:
    """What an executor made of a scenario, in the words of the format; one list per step that it got through.

    Attributes:
        steps: per step, ``{"key", "start", "end", "value"}`` of everything that fired.
        late: per step, the late elements.
        late_dropped: how many were only counted.
        error: the refusal, or None.
        complaints: what must hold in every scenario and did not, in words.
        cuts: where steps went through in micro-batches: how many steps each had. ``steps`` and ``late`` then have an entry
            for each micro-batch, and where there was an error the micro-batch that failed has none.
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
        """What comes of it; refusals are caught and reported in ``error``."""
