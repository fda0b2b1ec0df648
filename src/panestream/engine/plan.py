"""The frozen recipe of one windowed query: all that the exchange and an operator need, and nothing of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from panestream.engine.aggregation import Aggregation
from panestream.engine.payload import FORMAT_VERSION
from panestream.engine.slicing import PaneGrid
from panestream.errors import PlanMismatchError
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.watermarks import WatermarkStrategy

MAIN = "main"
"""The tag of the windows' results."""


@dataclass(frozen=True, slots=True)
class Top:
    """Of each window, only the ``n`` rows with the largest ``by``; ties go to the smaller key."""

    n: int
    by: str


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """What one windowed query does.

    Attributes:
        keys: the key columns as users wrote them (names or SQL), in the order of ``aggregation``'s key columns.
        assigner: the windows.
        grid: their panes.
        watermark: the strategy.
        aggregates: the recipes; ``aggregation`` is what runs them.
        allowed_lateness: how long after its end a window still takes rows, in engine units. (Only 0 so far.)
        late_tag, invalid_tag: where late rows and rows without event time go; None: counted, or an error.
        row_schema: the input's columns, where a tag wants whole rows; else None.
        event_time: the event time as the user wrote it, for errors.
        top: keep only the largest rows of each window, or None.
        groups: the number of key groups.
    """

    keys: tuple[str, ...]
    assigner: WindowAssigner
    grid: PaneGrid
    watermark: WatermarkStrategy
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation
    event_time: str
    groups: int
    allowed_lateness: int = 0
    late_tag: str | None = None
    invalid_tag: str | None = None
    row_schema: pa.Schema | None = field(default=None)
    top: Top | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The outputs of the query, main first."""
        return (MAIN, *(tag for tag in (self.late_tag, self.invalid_tag) if tag is not None))

    @property
    def main_schema(self) -> pa.Schema:
        """The columns of the main output: keys, window_start, window_end, results."""
        instant = pa.timestamp("us", tz="UTC")
        return pa.schema(
            [
                *self.aggregation.key_schema,
                pa.field("window_start", instant, nullable=False),
                pa.field("window_end", instant, nullable=False),
                *self.aggregation.output_schema,
            ]
        )

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key columns' names in the results."""
        return tuple(self.aggregation.key_schema.names)

    def identity(self) -> dict[str, str]:
        """What a checkpoint is tied to. Watermark strategy, lateness, tags, top and sinks are free to change."""
        partial = self.aggregation.partial_schema
        return {
            "state format": str(FORMAT_VERSION),
            "key": ", ".join(f"{text} ({key.type})" for text, key in zip(self.keys, self.aggregation.key_schema, strict=True))
            or "none",
            "windows": repr(self.assigner),
            "aggregates": ", ".join(repr(aggregate) for aggregate in self.aggregates),
            "partials": ", ".join(f"{field.name} {field.type}" for field in list(partial)[len(self.keys) :]),
            "event time": self.event_time,
            "key groups": str(self.groups),
        }


def check_identity(saved: Mapping[str, str], now: Mapping[str, str], where: str) -> None:
    """Refuses to go on with the state of another plan.

    Raises:
        PlanMismatchError: naming every difference, what may change, and what to do.
    """
    changed = [name for name in sorted({*saved, *now}) if saved.get(name) != now.get(name)]
    if not changed:
        return
    lines = [f"  {name}: {saved.get(name, '(absent)')}  ->  {now.get(name, '(absent)')}" for name in changed]
    raise PlanMismatchError(
        f"{where} belongs to another plan. What changed (then -> now):\n"
        + "\n".join(lines)
        + "\nStart with the old plan, or on a new checkpoint. (The watermark strategy, output tags, top and sinks may change.)"
    )
