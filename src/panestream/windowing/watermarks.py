"""How far event time has come: strategies that turn the event times seen into a watermark.

A watermark *t* says: no row with an event time of *t* or less is expected any more. panestream keeps its own watermark
(not Spark's): rows of a micro-batch are judged against the watermark as it stood before the batch, then it advances and windows
fire in the same batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from panestream.errors import InvalidPlanError
from panestream.windowing.foreign_names import ForeignNamesOfClass
from panestream.windowing.signatures import check_generator, check_methods
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros

_SHOWN = 4
"""Of so many expected partitions the ``repr`` tells."""


@dataclass(slots=True)
class WatermarkOutput:
    """Where a generator puts its watermarks. Flink: ``WatermarkOutput``.

    Attributes:
        watermark: the largest one so far, or None.
    """

    watermark: int | None = None

    def emit_watermark(self, timestamp: int) -> None:
        """No row with an event time of ``timestamp`` (microseconds since the epoch) or less is expected any more.

        One that is not larger than those before it changes nothing.
        """
        self.watermark = timestamp if self.watermark is None else max(self.watermark, timestamp)


class WatermarkGenerator(ABC):
    """A watermark strategy of the user's own. Flink: ``WatermarkGenerator``.

    One generator serves one source partition (or part of the input) for **one micro-batch**: it begins anew with the next,
    while the watermark itself is kept and never goes back. In Flink a generator lives as long as the task does (and forgets
    everything at a restart). What it emits takes effect after the rows of the micro-batch: they are judged by the watermark
    before.

    >>> class EndMarkers(WatermarkGenerator):
    ...     "Punctuated: certain rows say that all before them has come."
    ...
    ...     def on_event(self, element, timestamp, output):
    ...         if element.kind == "end of hour":
    ...             output.emit_watermark(timestamp)
    >>> WatermarkStrategy.for_generator(EndMarkers)
    WatermarkStrategy.for_generator(EndMarkers)
    """

    @abstractmethod
    def on_event(self, element: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Called for every row, in the order of arrival.

        Args:
            element: the row: ``element.name``, ``element["name"]``.
            timestamp: its event time, microseconds since the epoch.
            output: takes watermarks.
        """

    def on_periodic_emit(self, output: WatermarkOutput) -> None:  # noqa: B027 - punctuated generators have nothing to do here
        """Called once at the end of each micro-batch."""


@dataclass(frozen=True, slots=True)
class WatermarkStrategy(metaclass=ForeignNamesOfClass):
    """An immutable recipe for watermarks. Flink: ``WatermarkStrategy``.

    Attributes:
        delay: how far the watermark stays behind the largest event time seen, in engine units; None: no watermarks at all.
        partition_column: the column whose values each keep a watermark of their own; the smallest counts.
        idle_timeout: after how long without rows a partition no longer holds the watermark back, in engine units.
        generator: makes the user's own generators; None: there is none.
        max_ahead_by: how far event times may be ahead, in engine units; None: as far as they like.
        max_ahead_of: of what: ``clock`` or ``rows``.
        expected: partitions that hold the watermark back before their first row.
        closes_after: for how long all input must be silent until the watermark follows the clock, in engine units; None: it waits
            for rows.
        sides: of two streams that are one, what each is called and its strategy; empty: it is one stream.

    >>> WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").per_partition("partition")
    WatermarkStrategy.for_bounded_out_of_orderness('5 seconds').per_partition('partition')
    """

    delay: int | None
    partition_column: str | None = None
    idle_timeout: int | None = None
    generator: Callable[[], WatermarkGenerator] | None = None
    max_ahead_by: int | None = None
    max_ahead_of: str = "clock"
    expected: tuple[str, ...] = ()
    closes_after: int | None = None
    sides: tuple[tuple[str, WatermarkStrategy], ...] = ()

    def __post_init__(self) -> None:
        lengths = (self.delay, self.idle_timeout, self.max_ahead_by, self.closes_after)
        given = [length for length in lengths if length is not None]
        check_micros("WatermarkStrategy.for_bounded_out_of_orderness('5 minutes')", *given)

    @classmethod
    def given_as(cls, strategy: WatermarkStrategy | Duration) -> WatermarkStrategy:
        """The strategy that was given, or that of :meth:`for_bounded_out_of_orderness` if it was a duration.

        Raises:
            InvalidPlanError: it is neither.
            InvalidDurationError: a text that is no duration.
        """
        if isinstance(strategy, WatermarkStrategy):
            return strategy
        if not isinstance(strategy, (str, timedelta)):
            raise InvalidPlanError(
                f"assign_timestamps wants a WatermarkStrategy, or how late rows may be, e.g. '5 minutes', got {strategy!r}"
            )
        return cls.for_bounded_out_of_orderness(strategy)

    @classmethod
    def for_generator(cls, generator: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks of the user's own making.

        Every row then becomes a Python object on its way: some 100,000 rows a second and core. Flink: ``forGenerator``.

        Args:
            generator: a :class:`WatermarkGenerator` class, or a function that makes one.

        Raises:
            InvalidPlanError: it cannot be called without arguments, or the class has methods that take others than are given.
        """
        if not callable(generator) or isinstance(generator, WatermarkGenerator):
            raise InvalidPlanError(
                f"for_generator wants a WatermarkGenerator class or a function that makes one, got {generator!r}"
            )
        if isinstance(generator, type) and issubclass(generator, WatermarkGenerator):
            check_methods(generator, WatermarkGenerator)
        check_generator(generator)
        return cls(None, generator=generator)

    @classmethod
    def for_bounded_out_of_orderness(cls, max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Rows may come up to ``max_out_of_orderness`` later than rows with a larger event time."""
        delay = to_micros(max_out_of_orderness, "max_out_of_orderness")
        if delay < 0:
            raise InvalidPlanError(f"max_out_of_orderness must not be negative, got {max_out_of_orderness!r}")
        return cls(delay)

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy:
        """Event times never go back (from one micro-batch to the next; within one, order does not matter)."""
        return cls(0)

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy:
        """Never a watermark: on a stream no event-time window fires; in batch all do, at the end of input."""
        return cls(None)

    def per_partition(self, column: str, expected: Iterable[str] = ()) -> WatermarkStrategy:
        """One watermark per value of ``column`` (e.g. Kafka's ``partition``); the smallest of them counts.

        A value that was never seen does not hold the watermark back, unless it is ``expected``: then there is no watermark before
        its first row, as in Flink, which knows its splits. One that falls silent, or is expected and never comes, holds it back
        for ever, unless :meth:`with_idleness` is given.

        May be given to, taken from or changed on an existing checkpoint: the watermark stays, and what was seen of the values of
        another column is forgotten. So may ``expected``.

        Args:
            column: its name.
            expected: values of it, as strings, that will come.

        Raises:
            InvalidPlanError: the one is no name, or the others are no strings.
        """
        if not isinstance(column, str) or not column:
            raise InvalidPlanError(f"per_partition wants the name of a column, got {column!r}")
        values = (expected,) if isinstance(expected, str) else tuple(expected)
        if isinstance(expected, str) or not all(isinstance(value, str) for value in values):
            raise InvalidPlanError(f"per_partition: expected wants values of {column!r} as a list of strings, got {expected!r}")
        return replace(self, partition_column=column, expected=values)

    def with_idleness(self, timeout: Duration) -> WatermarkStrategy:
        """A partition that is silent for ``timeout`` no longer holds the watermark back; it counts again with its next row.

        Only what the source was asked for in vain is silence. It begins with the first micro-batch that has no rows of the
        partition, and goes on by processing time (Spark's batch time) from one such micro-batch to the next, where

        - the time between two micro-batches counts for at most half the timeout: slow micro-batches, in which a partition may
          have had no chance to be read, make nobody idle before the third that has no rows of it;
        - each run of the query begins anew: the time that it was down is not silence, and a backlog is read before its partition
          is idle. A query whose runs are short (``availableNow``) may therefore never find a partition idle;
        - only micro-batches with rows count: if all partitions are silent, none becomes idle, and the watermark stays at the
          slowest. (In Flink all become idle, and the largest watermark counts.) :meth:`closing_after` is for that silence.

        If a micro-batch finds every partition idle, since its rows lack an event time, the largest watermark counts.

        What it cannot know: a source that is read in portions (``maxFilesPerTrigger``) may leave out a partition in many
        micro-batches though it has rows. Give a timeout longer than that. Flink: ``withIdleness``.

        Args:
            timeout: at least a few times the interval between micro-batches.

        Raises:
            InvalidPlanError: it is not positive.
        """
        micros = to_micros(timeout, "idleness timeout")
        if micros <= 0:
            raise InvalidPlanError(f"the idleness timeout must be positive, got {timeout!r}")
        return replace(self, idle_timeout=micros)

    def closing_after(self, silence: Duration) -> WatermarkStrategy:
        """Once **all** input has been silent for ``silence``, by the clock, the watermark follows the clock.

        Without it the last window waits for a row that may never come. With it event time goes on from the last row as the clock
        does: ``s`` after it the watermark stands where that row put it, plus ``s``. Nothing of it is taken back when rows come
        again: what is behind it by then is late in the ordinary way.

        - Each source partition goes on from its own last row; the furthest behind counts, as with rows, but for those that are
          idle (:meth:`with_idleness`; of idle ones alone, the furthest ahead) or never had a row.
        - Silence is what the source was asked for in vain, by Spark's batch time. The time that the query was down is none of it.
          A restart keeps the silence that was counted, but for the time around it: windows may close after three
          times the silence. A run with a single micro-batch counts nothing.
        - Data of the past go on at the pace of the clock, too: a day of theirs takes a day.

        It needs a query that runs without end (``trigger="10 seconds"``). One that ends by itself (``availableNow``) has no
        silence to wait for: ``start(fire_at_end=True)`` takes the end of what is there for it. A batch closes all windows at its
        end, with or without this. Flink has no counterpart: its ``withIdleness`` holds the watermark when all is idle.

        Args:
            silence: longer than any pause after which rows still come with older times than the clock would have them.

        Raises:
            InvalidPlanError: it is not positive or no whole milliseconds; or the strategy makes no watermarks.

        >>> WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").closing_after("30 seconds")
        WatermarkStrategy.for_bounded_out_of_orderness('5 seconds').closing_after('30 seconds')
        """
        micros = to_micros(silence, "closing_after")
        if micros <= 0 or micros % 1000:
            raise InvalidPlanError(
                f"closing_after wants a positive time of whole milliseconds, e.g. '30 seconds', got {silence!r}: Spark's clock "
                "has no others"
            )
        if self.delay is None and self.generator is None:
            raise InvalidPlanError("closing_after moves the watermark, and no_watermarks() makes none: take another strategy")
        return replace(self, closes_after=micros)

    def max_ahead(self, most: Duration, *, of: str = "clock") -> WatermarkStrategy:
        """Makes rows invalid whose event time is more than ``most`` ahead.

        They go to the output of ``side_output_invalid``, or fail the query with a message that shows one such time.

        Without it a single row of the year 9999 takes the watermark there, for ever, and all that comes after it is late. (A
        micro-batch that moves the watermark by more than a day then makes ``start()`` warn; so does a first one that takes it
        more than a day ahead of the clock.) Flink has no counterpart.

        Args:
            most: how far ahead a row may be.
            of: ``"clock"``: of processing time, which is Spark's time of the micro-batch (in a batch the time of the query), or
                the row's own in the column of ``processing_time_from``. For live data.
                ``"rows"``: of the other rows, for data of the past, which the clock says nothing about. Rows are looked at as
                they are read: those of a task in a micro-batch, at most about a million at a time. In order of time, from
                their median on, the first gap of more than ``most`` ends what is valid. So ``most`` must be longer than any
                pause of the source; a row that is read alone is always valid; and how the input is cut decides which rows are
                compared, so that a batch and a stream over the same rows may differ.

        Raises:
            InvalidPlanError: ``most`` is negative; or ``of`` is something else.

        >>> WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").max_ahead("1 hour")
        WatermarkStrategy.for_bounded_out_of_orderness('5 seconds').max_ahead('1 hour')
        """
        micros = to_micros(most, "max_ahead")
        if micros < 0:
            raise InvalidPlanError(f"max_ahead must not be negative, got {most!r}")
        if of not in ("clock", "rows"):
            raise InvalidPlanError(f"max_ahead is of 'clock' or of 'rows', got of={of!r}")
        return replace(self, max_ahead_by=micros, max_ahead_of=of)

    @classmethod
    def of_sides(cls, sides: Mapping[str, WatermarkStrategy], column: str) -> WatermarkStrategy:
        """The strategy of several streams that are one: the smallest of their watermarks counts, as in Flink.

        Args:
            sides: by what each is called, its strategy.
            column: says of each row of which it is: the name, and where its strategy has partitions, ``/`` and the partition.

        Raises:
            InvalidPlanError: one has a generator of the user's own, or closes on silence where another does not.
        """
        every = list(sides.values())
        if any(one.generator is not None for one in every):
            raise InvalidPlanError(
                "two streams in one take no generators of watermarks: for_bounded_out_of_orderness on both sides, with "
                "per_partition, with_idleness and max_ahead as each needs them"
            )
        closing = [one.closes_after for one in every]
        if None in closing and any(closing):
            raise InvalidPlanError(
                "closing_after follows the clock when all input is silent: give it to both streams, or to neither"
            )
        delays = [one.delay for one in every]
        expected: list[str] = []
        for name, one in sides.items():
            expected += [f"{name}/{partition}" for partition in one.expected] or [name]
        return cls(
            None if None in delays else max(delay for delay in delays if delay is not None),
            partition_column=column,
            expected=tuple(expected),
            closes_after=max((one for one in closing if one is not None), default=None),
            sides=tuple(sides.items()),
        )

    def of_partition(self, partition: str) -> WatermarkStrategy:
        """The strategy that holds for a source partition."""
        return next((one for name, one in self.sides if partition == name or partition.startswith(f"{name}/")), self)

    @property
    def limits_ahead(self) -> bool:
        """Whether rows may be invalid since they are too far ahead."""
        return self.max_ahead_by is not None or any(one.limits_ahead for _, one in self.sides)

    @property
    def uses_processing_time(self) -> bool:
        """Whether processing time has to be known."""
        if any(one.uses_processing_time for _, one in self.sides):
            return True
        return self.idle_timeout is not None or (self.max_ahead_by is not None and self.max_ahead_of == "clock")

    def __repr__(self) -> str:
        if self.sides:
            return "; ".join(f"{name}: {one!r}" for name, one in self.sides)
        if self.generator is not None:
            text = f"WatermarkStrategy.for_generator({getattr(self.generator, '__qualname__', repr(self.generator))})"
        elif self.delay is None:
            text = "WatermarkStrategy.no_watermarks()"
        elif self.delay == 0:
            text = "WatermarkStrategy.for_monotonous_timestamps()"
        else:
            text = f"WatermarkStrategy.for_bounded_out_of_orderness({format_duration(self.delay)!r})"
        if self.partition_column is not None:
            values = ", ".join(map(repr, self.expected[:_SHOWN])) + (", ..." if len(self.expected) > _SHOWN else "")
            text += f".per_partition({self.partition_column!r}{f', expected=[{values}]' if values else ''})"
        if self.idle_timeout is not None:
            text += f".with_idleness({format_duration(self.idle_timeout)!r})"
        if self.max_ahead_by is not None:
            of = "" if self.max_ahead_of == "clock" else f", of={self.max_ahead_of!r}"
            text += f".max_ahead({format_duration(self.max_ahead_by)!r}{of})"
        if self.closes_after is not None:
            text += f".closing_after({format_duration(self.closes_after)!r})"
        return text


__all__ = [
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]
