"""Watermark strategies, which turn the observed event times into the progress of event time.

A watermark *t* means that rows with an event time of *t* or less are not expected any more. panestream keeps its own watermark
(not Spark's). Rows of a micro-batch are compared with the watermark before it. Then it advances, and windows fire in the same
batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

from panestream.errors import InvalidPlanError
from panestream.windowing.foreign_names import ForeignNamesOfClass
from panestream.windowing.signatures import check_generator, check_methods
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros

_SHOWN = 4
"""The number of expected partitions that the ``repr`` shows."""


@dataclass(slots=True)
class WatermarkOutput:
    """Receives the watermarks of a generator, and holds the largest. Flink: ``WatermarkOutput``.

    >>> output = WatermarkOutput()
    >>> output.emit_watermark(5), output.emit_watermark(3)
    (None, None)
    >>> output.watermark
    5
    """

    watermark: int | None = None

    def emit_watermark(self, timestamp: int) -> None:
        """Declare that rows up to ``timestamp`` (microseconds since the epoch) have come; the largest such time counts."""
        self.watermark = timestamp if self.watermark is None else max(self.watermark, timestamp)


class WatermarkGenerator(ABC):
    """A user-defined watermark strategy. Flink: ``WatermarkGenerator``.

    A generator serves one source partition (or part of the input) for **one micro-batch**, and the next micro-batch creates a new
    one, while the watermark is kept. (In Flink a generator lives as long as the task, and forgets everything at a restart.) An
    emitted watermark takes effect after the rows of the micro-batch, which are compared with the preceding one.

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
        """Process a row (``element.name``, ``element["name"]``) and its event time in microseconds, in the order of arrival."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:  # noqa: B027 - punctuated generators have nothing to do here
        """Emit a watermark if needed; called once at the end of each micro-batch."""


class KeyWatermarks(NamedTuple):
    """How the watermark of a key follows its rows and the stream, in microseconds; see :meth:`WatermarkStrategy.per_key`."""

    delay: int
    idle_after: int


@dataclass(frozen=True, slots=True)
class WatermarkStrategy(metaclass=ForeignNamesOfClass):
    """An immutable recipe for watermarks. Flink: ``WatermarkStrategy``. All durations are in microseconds.

    Attributes:
        delay: the distance of the watermark from the largest event time, or None without watermarks.
        partition_column: each of its values has a watermark, and the smallest counts.
        idle_timeout: the time without rows after which a partition does not hold the watermark back.
        generator: creates user-defined generators, or None.
        max_ahead_by, max_ahead_of: how far event times may be ahead of ``clock`` or ``rows``, or None without a limit.
        expected: partitions that hold the watermark back before their first row.
        closes_after: the silence of all input after which the watermark follows the clock, or None to wait for rows.
        sides: for two streams as one, the name and strategy of each.
        key_idle_after: how far the watermark of a key may be behind that of the stream, or None if keys have none of their own.
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
    key_idle_after: int | None = None

    def __post_init__(self) -> None:
        lengths = (self.delay, self.idle_timeout, self.max_ahead_by, self.closes_after, self.key_idle_after)
        given = [length for length in lengths if length is not None]
        check_micros("WatermarkStrategy.for_bounded_out_of_orderness('5 minutes')", *given)

    @classmethod
    def given_as(cls, strategy: WatermarkStrategy | Duration) -> WatermarkStrategy:
        """Return the strategy, or for a duration the one of :meth:`for_bounded_out_of_orderness`."""
        if isinstance(strategy, WatermarkStrategy):
            return strategy
        if not isinstance(strategy, (str, timedelta)):
            raise InvalidPlanError(
                f"assign_timestamps needs a WatermarkStrategy, or how late rows may be, e.g. '5 minutes', got {strategy!r}"
            )
        return cls.for_bounded_out_of_orderness(strategy)

    @classmethod
    def for_generator(cls, generator: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Use a user-defined :class:`WatermarkGenerator` class, or a function that creates one. Flink: ``forGenerator``.

        Every row becomes a Python object, at some 100,000 rows per second and core. Raises InvalidPlanError if it cannot be
        called without arguments, or if methods of the class accept other arguments.
        """
        if not callable(generator) or isinstance(generator, WatermarkGenerator):
            raise InvalidPlanError(
                f"for_generator needs a WatermarkGenerator class or a function that makes one, got {generator!r}"
            )
        if isinstance(generator, type) and issubclass(generator, WatermarkGenerator):
            check_methods(generator, WatermarkGenerator)
        check_generator(generator)
        return cls(None, generator=generator)

    @classmethod
    def for_bounded_out_of_orderness(cls, max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Accept rows up to ``max_out_of_orderness`` later than rows with a larger event time."""
        delay = to_micros(max_out_of_orderness, "max_out_of_orderness")
        if delay < 0:
            raise InvalidPlanError(f"max_out_of_orderness must not be negative, got {max_out_of_orderness!r}")
        return cls(delay)

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy:
        """Expect event times that never go back from one micro-batch to the next; within one, order does not matter."""
        return cls(0)

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy:
        """Never emit a watermark: on a stream no event-time window fires, in a batch all fire at the end of input.

        As the strategy of :meth:`~panestream.datastream.KeyedStream.connect`'s rules: the rows alone move the watermark.
        """
        return cls(None)

    def per_partition(self, column: str, expected: Iterable[str] = ()) -> WatermarkStrategy:
        """Keep one watermark per value of ``column`` (e.g. Kafka's ``partition``); the smallest counts.

        A value that has not occurred does not hold the watermark back, unless it is in ``expected`` (as strings). Then the
        watermark starts with its first row, as in Flink, which knows its splits. A silent or missing value holds it back forever
        without :meth:`with_idleness`.

        Column and ``expected`` may be added, removed or changed on an existing checkpoint: the watermark stays, and the progress
        per value of another column is forgotten. Raises InvalidPlanError if the column is not a name, or values are not strings.
        """
        if not isinstance(column, str) or not column:
            raise InvalidPlanError(f"per_partition needs the name of a column, got {column!r}")
        values = (expected,) if isinstance(expected, str) else tuple(expected)
        if isinstance(expected, str) or not all(isinstance(value, str) for value in values):
            raise InvalidPlanError(f"per_partition: expected needs values of {column!r} as a list of strings, got {expected!r}")
        return replace(self, partition_column=column, expected=values)

    def per_key(self, idle_after: Duration) -> WatermarkStrategy:
        """Give each key its own watermark, so that no key makes the rows of another late. Not in Flink.

        The watermark of a key is the newest event time of its own rows, minus the out-of-orderness. Its windows fire, and its
        rows are late, by this watermark alone. It never goes back. A device that uploads the hours of a dead zone is therefore
        in time, although other devices are hours ahead.

        A key is idle once its watermark is ``idle_after`` of event time behind the watermark of the stream, which all rows move
        as without this method. From then on its watermark stays that far behind the stream, so its last windows fire. When the
        key has rows again, only those behind this point are late. A key without earlier rows starts there too. Choose the
        longest time for which a key may hold back its rows. A key that is idle and has no open window leaves the state.

        The other methods move the watermark of the stream: :meth:`per_partition`, :meth:`with_idleness`, :meth:`closing_after`.
        Such a query runs on the row operator, and a checkpoint is tied to it; ``idle_after`` may change. It is for windows of
        event time. Raises InvalidPlanError if ``idle_after`` is not positive, or the strategy is not by bounded
        out-of-orderness; the query raises it for two streams, keyed process functions, look-backs and other windows that run as
        columns only.

        >>> WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").per_key(idle_after="6 hours")
        WatermarkStrategy.for_bounded_out_of_orderness('5 seconds').per_key(idle_after='6 hours')
        """
        micros = to_micros(idle_after, "per_key: idle_after")
        if micros <= 0:
            raise InvalidPlanError(f"per_key: idle_after must be positive, got {idle_after!r}")
        if self.delay is None:
            raise InvalidPlanError(
                f"per_key derives the watermark of a key from its rows, but {self!r} does not. Use for_bounded_out_of_orderness"
            )
        return replace(self, key_idle_after=micros)

    def with_idleness(self, timeout: Duration) -> WatermarkStrategy:
        """Stop a partition that is silent for ``timeout`` from holding the watermark back, until its next row.

        Only a source that was read without result is silent. Silence starts with the first micro-batch without rows of the
        partition, and lasts by processing time (Spark's batch time) from each such micro-batch to the next.

        - The time between two micro-batches counts for at most half the timeout. Slow micro-batches may not have read a
          partition, so none becomes idle before the third without its rows.
        - Silence starts again in each run of the query, since downtime is not silence, and a backlog is read before its partition
          is idle. A query with short runs (``availableNow``) may therefore never find a partition idle.
        - Only micro-batches with rows count. If all partitions are silent, none becomes idle, and the watermark stays at the
          slowest. (In Flink all become idle, and the largest watermark counts.) :meth:`closing_after` is for that silence. If a
          micro-batch finds every partition idle, since its rows lack an event time, the largest watermark counts.
        - A source that is read in portions (``maxFilesPerTrigger``) may skip a partition in many micro-batches though it has
          rows. Choose a longer timeout, at least a few times the interval of micro-batches; it must be positive.
          Flink: ``withIdleness``.
        """
        micros = to_micros(timeout, "idleness timeout")
        if micros <= 0:
            raise InvalidPlanError(f"the idleness timeout must be positive, got {timeout!r}")
        return replace(self, idle_timeout=micros)

    def closing_after(self, silence: Duration) -> WatermarkStrategy:
        """Let the watermark follow the clock once **all** input has been silent for ``silence``. Not in Flink.

        Without it the last window waits for a row that may never come. With it, at a time ``s`` after the last row, the watermark
        is where that row put it, plus ``s``. It does not go back when rows come again; rows before it are then late as usual.

        - Each source partition continues from its own last row. The furthest behind counts, as with rows, except idle partitions
          (:meth:`with_idleness`; if all are idle, the furthest ahead) and partitions that never had a row.
        - A source that was read without result is silent, by Spark's batch time. The downtime of the query does not count. A
          restart keeps the counted silence, except for the time around it, so windows may close after three times the silence. A
          run with a single micro-batch counts nothing.
        - Old data also advances at the pace of the clock: a day of it takes a day.

        It needs a query that runs without end (``trigger="10 seconds"``). For a query that ends (``availableNow``) use
        ``start(fire_at_end=True)``; a batch always closes all windows at its end. ``silence`` must be longer than any pause after
        which rows come with times that are older than the clock would predict. Raises InvalidPlanError if it is not a positive
        number of whole milliseconds, or the strategy does not emit watermarks.

        >>> WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").closing_after("30 seconds")
        WatermarkStrategy.for_bounded_out_of_orderness('5 seconds').closing_after('30 seconds')
        """
        micros = to_micros(silence, "closing_after")
        if micros <= 0 or micros % 1000:
            raise InvalidPlanError(
                f"closing_after needs a positive time of whole milliseconds, e.g. '30 seconds', got {silence!r}: Spark's clock "
                f"counts whole milliseconds"
            )
        if not self.has_watermarks:
            raise InvalidPlanError(
                "closing_after moves the watermark, but no_watermarks() does not have one. Use another strategy"
            )
        return replace(self, closes_after=micros)

    def max_ahead(self, most: Duration, *, of: str = "clock") -> WatermarkStrategy:
        """Make rows invalid whose event time is more than ``most`` ahead, sent to ``side_output_invalid`` or failing the query.

        Without it a single row of the year 9999 moves the watermark there forever, and all later rows are late. (``start()`` then
        warns of a micro-batch that moves the watermark by more than a day, or of a first micro-batch that moves it that far ahead
        of the clock.) Not in Flink. ``most`` must not be negative. ``of`` is the reference; another value raises
        InvalidPlanError:

        - ``"clock"``, for live data, is processing time: Spark's time of the micro-batch (in a batch the time of the query) or
          the row's value of ``processing_time_from``.
        - ``"rows"``, for old data, compares rows that are read together: rows of a task in a micro-batch, at most about a
          million. In order of time, from their median on, the first gap of more than ``most`` ends the valid rows. So ``most``
          must be longer than any pause of the source, and a row that is read alone is always valid. A batch and a stream over the
          same rows may differ.

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
    def of_sides(cls, sides: Mapping[str, WatermarkStrategy], column: str, *, follower: str | None = None) -> WatermarkStrategy:
        """Return the strategy of several streams as one, whose smallest watermark counts, as in Flink.

        ``column`` has the name of each row's stream, followed by ``/`` and the partition if there is one. If the stream
        ``follower`` does not have watermarks, only the others count. Raises InvalidPlanError for user-defined generators, for
        watermarks per key, or if only one closes on silence.
        """
        every = list(sides.values())
        if any(one.generator is not None for one in every):
            raise InvalidPlanError(
                "a join of two streams does not support watermark generators. Use for_bounded_out_of_orderness on both sides, "
                "with per_partition, with_idleness and max_ahead as needed"
            )
        if any(one.of_keys is not None for one in every):
            raise InvalidPlanError("a join of two streams has one watermark for all keys. Leave out per_key on both sides")
        leading = {name: one for name, one in sides.items() if name != follower or one.has_watermarks}
        closing = [one.closes_after for one in leading.values()]
        if None in closing and any(closing):
            raise InvalidPlanError(
                "closing_after follows the clock when all input is silent: give it to both streams, or to neither"
            )
        delays = [one.delay for one in leading.values()]
        expected: list[str] = []
        for name, one in leading.items():
            expected += [f"{name}/{partition}" for partition in one.expected] or [name]
        return cls(
            None if None in delays else max(delay for delay in delays if delay is not None),
            partition_column=column,
            expected=tuple(expected),
            closes_after=max((one for one in closing if one is not None), default=None),
            sides=tuple(sides.items()),
        )

    def of_partition(self, partition: str) -> WatermarkStrategy:
        """Return the strategy of a source partition."""
        return next((one for name, one in self.sides if partition == name or partition.startswith(f"{name}/")), self)

    @property
    def has_watermarks(self) -> bool:
        """Whether the strategy emits watermarks: all do but :meth:`no_watermarks`."""
        return self.delay is not None or self.generator is not None

    @property
    def of_keys(self) -> KeyWatermarks | None:
        """How each key has its own watermark, or None if all keys have that of the stream."""
        if self.delay is None or self.key_idle_after is None:
            return None
        return KeyWatermarks(self.delay, self.key_idle_after)

    @property
    def limits_ahead(self) -> bool:
        """True if rows can be invalid because they are too far ahead."""
        return self.max_ahead_by is not None or any(one.limits_ahead for _, one in self.sides)

    @property
    def uses_processing_time(self) -> bool:
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
        if self.key_idle_after is not None:
            text += f".per_key(idle_after={format_duration(self.key_idle_after)!r})"
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
