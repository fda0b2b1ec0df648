"""The protocol of a query under test: what runs it, and what must come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from panestream.testing.simulation.disk import OutputRow
from panestream.testing.simulation.engines import Engine
from panestream.testing.simulation.process import Job
from panestream.testing.simulation.schedule import Settings

Answer = Mapping[str, Any]
"""What a micro-batch brought, or must bring, by output; in a form that is the same where it means the same."""


class Subject(Protocol):
    """A query as the explorer sees it."""

    @property
    def job(self) -> Job:
        """What is run."""

    @property
    def settings(self) -> Settings:
        """Of the first run."""

    def engine(self, settings: Settings, groups: int | None = None) -> Engine:
        """What runs it; with another number of key groups, where one is given."""

    def must_be(self, settings: Sequence[Settings], restarts: Iterable[int]) -> list[tuple[Answer, Mapping[str, int]]] | None:
        """What each micro-batch must bring and count; None: nobody knows but a run without disturbance."""

    def answer(self, tag: str, rows: Sequence[OutputRow]) -> Any:
        """Rows of an output in a form that is the same where they mean the same."""

    def recut(self, number: int, *, at_once: bool) -> Subject | None:
        """The same rows, those after a micro-batch cut otherwise; None: what that brings nobody knows."""

    def may_stay(self, settings: Sequence[Settings]) -> set[Any] | None:
        """The keys of which something may be left at the end; None: of any."""

    def check_whole(self, rows: Sequence[OutputRow]) -> None:
        """Looks at all main rows that a run without disturbance has given; raises ``AssertionError`` where they are wrong."""
