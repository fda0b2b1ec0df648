"""Sliding windows that fire again for late rows, as a changelog so that the answer can be checked."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.cases import SumCount


@dataclass(frozen=True)
class Refired(SumCount):
    """Sum and count per key and window. A late row makes its windows fire again.

    The output consists of changes, with a sign in their total and count. Added up, they give the last results, which is the
    answer for all rows including late ones. (The number of rows is the number of changes, and is not compared.)

    Attributes:
        lateness_ms: the maximum lateness of rows.
    """

    lateness_ms: int = 60_000

    contestants = {"panestream": "benchmarks.limits.panestream_job"}  # noqa: RUF012 - the ClassVar is declared above

    @property
    def span_ms(self) -> int:
        return self.size_ms + self.lateness_ms


REFIRED = Refired("refired", 60_000, 10_000)
