"""The protocol of a query under test, with its engine and expected results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from panestream.testing.simulation.disk import OutputRow
from panestream.testing.simulation.engines import Engine
from panestream.testing.simulation.process import SimulatedJob
from panestream.testing.simulation.schedule import Settings

Answer = Mapping[str, Any]
"""The actual or expected results of a micro-batch by output, in a form that is equal for equivalent rows."""


class Subject(Protocol):
    """A query for the explorer."""

    @property
    def job(self) -> SimulatedJob:
        """The query without its settings."""

    @property
    def settings(self) -> Settings:
        """The settings of the first run."""

    def engine(self, settings: Settings, groups: int | None = None) -> Engine:
        """Return the engine, optionally with another number of key groups."""

    def must_be(self, settings: Sequence[Settings], restarts: Iterable[int]) -> list[tuple[Answer, Mapping[str, int]]] | None:
        """Return the expected rows and counters of each micro-batch, or None if only an undisturbed run defines them."""

    def answer(self, tag: str, rows: Sequence[OutputRow]) -> Any:
        """Return rows of an output in a form that is equal for equivalent rows."""

    def recut(self, number: int, *, at_once: bool) -> Subject | None:
        """Return the same rows with other micro-batches after ``number``, or None if their results are not known."""

    def may_stay(self, settings: Sequence[Settings]) -> set[Any] | None:
        """Return the keys that may have state at the end, or None if all may."""

    def check_whole(self, rows: Sequence[OutputRow]) -> None:
        """Check all main rows of an undisturbed run; raise ``AssertionError`` if they are wrong."""
