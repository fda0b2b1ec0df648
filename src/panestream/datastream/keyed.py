"""The start of a query: a stream of events, and its keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from panestream.datastream.as_of_join import AsOfJoin
from panestream.datastream.chain import Upstream, unchanged
from panestream.datastream.co_grouped import CoGroupedStream, IntervalJoin
from panestream.datastream.events import Events, KeyedEvents, Options
from panestream.datastream.inputs import no_assigner, one_by_one, resolve_gap, resolve_predicates
from panestream.datastream.process import BroadcastConnectedStream, connected, processed_result
from panestream.datastream.result import WindowedResult
from panestream.datastream.starting import checked_tag
from panestream.datastream.two_streams import merge_streams
from panestream.datastream.windowed import Schema, WindowedStream, with_schema
from panestream.engine.plan import MAIN, RESERVED, WindowQuery
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.columns import Names, key_of, micros_of, order_of, quoted, shown_names, type_of
from panestream.spark.session import check_version
from panestream.spark.types import check_bytewise
from panestream.windowing.assigners import MergingWindowAssigner, RollingWindows, WindowAssigner
from panestream.windowing.assigners.base import SeveralWindows, label_of
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.foreign_names import advised
from panestream.windowing.process_functions import KeyedProcessFunction
from panestream.windowing.signatures import check_methods
from panestream.windowing.time import Duration
from panestream.windowing.watermarks import WatermarkStrategy

if TYPE_CHECKING:
    from typing_extensions import Unpack


def stream(
    df: DataFrame | WindowedResult,
    time: str | Column | None = None,
    *,
    out_of_orderness: Duration | None = None,
    watermark: WatermarkStrategy | None = None,
    unit: str | None = None,
    transform: Callable[[DataFrame], DataFrame] | None = None,
) -> DataStream:
    """Start a windowed query over a streaming or batch DataFrame, or over the results of other windows in the same query.

    With ``time`` it is short for ``stream(df).assign_timestamps(time, strategy, unit=unit)``.

    Args:
        df: the rows. Or what ``.aggregate``, ``.apply`` or ``.pairs`` returned: then its main rows are the rows, and ``start``
            knows both operators, for savepoints and key groups. With ``.main`` it knows the last only.
        time: the event time of each row, as a timestamp column, SQL, a Column, or a number with ``unit``. Without it the query
            does not have event time.
        out_of_orderness: the maximum delay of a row behind newer rows, e.g. ``"5 seconds"``. Spark:
            ``withWatermark(time, out_of_orderness)``.
        watermark: another watermark strategy, instead of ``out_of_orderness``.
        unit: ``"seconds"``, ``"milliseconds"`` or ``"microseconds"`` since the epoch, if ``time`` is a number.
        transform: for the results of other windows, a function of their main rows that returns the rows of this stream, such as
            ``lambda rows: rows.where("n > 1")``. It may be called several times.

    Raises:
        InvalidPlanError: it is not a DataFrame or has duplicate column names, or only one of ``time`` and a watermark is given.
            Also for ``transform`` with a DataFrame.
        InvalidEventTimeError: the column is not a time.
        EnvironmentNotReadyError: Spark is older than 4.0.

    Examples:
        >>> clicks = pst.stream(df, time="ts", out_of_orderness="5 seconds")
        >>> clicks.group_by("user", pst.sliding("1 hour", "5 minutes")).agg(F.sum("price").alias("total")).main.columns
        ['user', 'window_start', 'window_end', 'total']
        >>> hourly = hours.aggregate(agg.count().alias("n"))
        >>> results = pst.stream(hourly, "window_end - INTERVAL 1 MICROSECOND", out_of_orderness="0 seconds")
        >>> results.key_by("user").window(pst.tumbling("1 day")).aggregate(agg.max("n").alias("most")).main.columns
        ['user', 'window_start', 'window_end', 'most']
    """
    upstream = None
    if isinstance(df, WindowedResult):
        upstream = Upstream(df, transform or unchanged)
        df = upstream.transform(df.output_over(df.windowed.keyed.source.df, MAIN, quiet=True))
    elif transform is not None:
        raise InvalidPlanError("stream: transform is for the results of other windows. Of a DataFrame write df.transform(f)")
    if not isinstance(df, DataFrame):
        raise InvalidPlanError(f"stream needs a DataFrame such as spark.readStream.schema(...).parquet('clicks'), got {df!r}")
    check_version(df.sparkSession)
    doubled = Names.of(df.sparkSession).doubled(df.columns)
    if doubled is not None:
        raise InvalidPlanError(f"the DataFrame has more than one column {shown_names(*doubled)}: rename or drop one")
    events = DataStream(df, upstream=upstream)
    strategies = [strategy for strategy in (out_of_orderness, watermark) if strategy is not None]
    if time is None and not strategies and unit is None:
        return events
    if time is None or len(strategies) != 1:
        raise InvalidPlanError(
            "stream needs a time and how late rows may be, e.g. stream(df, time='ts', out_of_orderness='5 seconds'); or a "
            "strategy, stream(df, time='ts', watermark=WatermarkStrategy.for_monotonous_timestamps())"
        )
    return events.assign_timestamps(time, strategies[0], unit=unit)


class DataStream(Events):
    """Events without a key. Flink: ``DataStream``.

    >>> clicks = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    >>> clicks.side_output_invalid("invalid").window_all(pst.tumbling("1 hour")).aggregate(agg.count().alias("n")).main.columns
    ['window_start', 'window_end', 'n']
    """

    def assign_timestamps(
        self, column: str | Column, strategy: WatermarkStrategy | Duration, *, unit: str | None = None
    ) -> DataStream:
        """Set the event time and the watermark strategy. Flink: ``assignTimestampsAndWatermarks``.

        Args:
            column: a timestamp column, SQL, a Column, or a number with ``unit``. A timestamp without time zone is read as UTC,
                whatever the session's time zone.
            strategy: a watermark strategy, or the maximum delay of rows. ``"5 seconds"`` is short for
                ``WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")``.
            unit: ``"seconds"``, ``"milliseconds"`` or ``"microseconds"`` since the epoch, for a number.

        Raises:
            InvalidEventTimeError: the column is not a time.
            InvalidPlanError: the column, or the column of ``strategy.per_partition``, does not exist.
            InvalidDurationError: the strategy is a string that is not a duration.
        """
        strategy = WatermarkStrategy.given_as(strategy)
        micros_of(self.df, column, unit)
        partition = strategy.partition_column
        if partition is not None:
            if Names.of(self.df.sparkSession).find(partition, self.df.columns) is None:
                hint = did_you_mean(partition, self.df.columns)
                raise InvalidPlanError(f"per_partition: there is no column {partition!r}; {hint}")
            check_bytewise(type_of(self.df, self.df[quoted(partition)]), "per_partition: the column", partition)
        return replace(self, event_time=column, unit=unit, watermark=strategy)

    def processing_time_from(self, column: str | Column, *, unit: str | None = None) -> DataStream:
        """Take processing time from the data (e.g. from when each row was received) instead of from Spark's clock.

        For replays and tests: the same micro-batches give the same windows whenever they run, even with ``availableNow``. The
        clock of a micro-batch is the largest value in it. It never goes back, and without rows it does not advance. A batch is
        one micro-batch. ``column`` and ``unit`` are as for :meth:`assign_timestamps`, with the same errors.
        """
        micros_of(self.df, column, unit)
        return replace(self, processing_time=column, processing_time_unit=unit)

    def arrival_order(self, *columns: str | Column) -> DataStream:
        """Set the order in which rows arrive, for results that depend on it. Not in Flink, which processes rows as they come.

        Count windows, count triggers, evictors and functions over rows depend on the order of arrival. So do aggregates such as
        ``first`` and ``collect_list`` for equal event times (docs/how-to/arrival-order.md has the list). Spark does not keep an
        order: a batch follows its partitions, and so the sizes of files. A stream follows its micro-batches, and their
        partitions.

        With these columns, a batch and each micro-batch are read in their order. Nulls come last, and rows that are equal in all
        columns stay as Spark has them. Batch and stream then agree if no micro-batch has rows of a key that precede earlier
        micro-batches' rows of that key.

        Queries that do not depend on the order pay nothing. For others, Spark shuffles and sorts a batch. The rows of a
        micro-batch cross the shuffle unreduced, with these columns, and are sorted in their key group. The order may be changed
        on an existing checkpoint.

        Args:
            *columns: columns, SQL expressions or Columns, e.g. ``"partition", "offset"`` for Kafka, ``*pst.order.FILE`` for
                files.

        Raises:
            InvalidPlanError: ``columns`` is empty, a column does not exist, or its values cannot be ordered.
        """
        columns = one_by_one(columns)
        if not columns:
            raise InvalidPlanError('arrival_order wants at least one column, e.g. "partition", "offset" or *pst.order.FILE')
        order_of(self.df, columns)
        return replace(self, order=columns)

    def side_output_invalid(self, tag: str) -> DataStream:
        """Send whole rows without usable event time to the output ``tag``, instead of failing the query.

        Unusable is null, not readable, beyond the year 140,000, or further ahead than ``WatermarkStrategy.max_ahead`` allows.
        """
        return replace(self, invalid_tag=checked_tag(tag))

    def key_by(self, *keys: str | Column) -> KeyedStream:
        """Key the events by columns, SQL expressions (``"lower(name) AS name"``) or Columns. A null key is a key.

        Pass e.g. ``"user_id"``, ``df.user_id``, ``F.lower("name").alias("name")``, or one list. An expression is evaluated once
        per row, even a random one (``"cast(floor(rand() * 4) AS int) AS salt"``). A micro-batch that is repeated after a failure
        draws again, so its rows may get other keys. Raises InvalidPlanError if ``keys`` is empty, a column does not exist, two
        have the same name, or a type cannot be a key.
        """
        keys = one_by_one(keys)
        if not keys:
            raise InvalidPlanError("key_by needs at least one column; for windows over all rows use .window_all(assigner)")
        names, naming = [key_of(self.df, key)[0] for key in keys], Names.of(self.df.sparkSession)
        doubled = naming.doubled(names)
        if doubled is not None:
            raise InvalidPlanError(f"two keys are named {shown_names(*doubled)}: give one another name with AS")
        for name in names:
            if naming.find(name, RESERVED) is not None:
                raise InvalidPlanError(
                    f"a key cannot be named {name!r}, results have such a column: rename it, e.g. '{name} AS my_{name}'"
                )
        return KeyedStream(self, keys)

    def group_by(self, *columns: str | Column | WindowAssigner | CountWindows) -> WindowedStream:
        """Key the events and put them into windows, as ``df.groupBy("user", F.window(...))`` does in PySpark.

        It is short for ``.key_by(columns).window(windows)``, or without columns for ``.window_all(windows)``. Pass key columns
        (see :meth:`key_by`) and one or more windows; otherwise it raises InvalidPlanError.

        Examples:
            >>> clicks.group_by("user", pst.sliding("1 hour", "5 minutes")).agg(F.sum("price").alias("total")).main.columns
            ['user', 'window_start', 'window_end', 'total']
        """
        columns = one_by_one(columns)
        windows = [column for column in columns if isinstance(column, (WindowAssigner, CountWindows))]
        keys = [column for column in columns if not isinstance(column, (WindowAssigner, CountWindows))]
        if not windows:
            raise InvalidPlanError(
                "group_by needs windows, e.g. .group_by('user', pst.tumbling('1 hour')) for F.window('ts', '1 hour'). "
                "To choose them in a separate call, write .key_by('user').window(...)"
            )
        keyed = self.key_by(*keys) if keys else KeyedStream(self, ())
        return keyed.window(*windows)

    def window_all(self, assigner: WindowAssigner) -> WindowedStream:
        """Put all rows together into windows. One task fires them, after parallel pre-aggregation. Flink: ``windowAll``."""
        return KeyedStream(self, ()).window(assigner)

    def count_window_all(self, size: int, slide: int | None = None) -> WindowedStream:
        """Put all rows together into count windows; see :meth:`KeyedStream.count_window`. Flink: ``countWindowAll``."""
        return KeyedStream(self, ()).count_window(size, slide)


class KeyedStream(KeyedEvents):
    """Events with a key. Flink: ``KeyedStream``.

    >>> keyed = clicks.key_by("user", "upper(page) AS page")
    >>> keyed.window(pst.tumbling("1 hour")).aggregate(agg.count().alias("n")).main.columns
    ['user', 'page', 'window_start', 'window_end', 'n']
    """

    def window(self, assigner: WindowAssigner | CountWindows, *others: WindowAssigner | CountWindows) -> WindowedStream:
        """Put the events of each key into windows.

        Args:
            assigner: e.g. ``TumblingEventTimeWindows.of("1 hour")``, or a user-defined assigner.
            *others: further kinds of windows over the same events, in one pass (see :meth:`windows`). Their labels are their
                sizes and slides, e.g. ``1 hour`` or ``1 day / 5 minutes``.

        Raises:
            InvalidPlanError: it is not an assigner, event time is needed but not assigned, or two labels are the same.
        """
        if isinstance(assigner, CountWindows) and not others:
            return self.count_window(assigner.size, assigner.slide)
        every = (assigner, *others)
        if not isinstance(assigner, WindowAssigner) or not all(isinstance(kind, WindowAssigner) for kind in others):
            raise no_assigner(every)
        if others:
            several = [kind for kind in every if isinstance(kind, WindowAssigner)]
            labels = [label_of(kind) for kind in several]
            if len(set(labels)) != len(labels):
                raise InvalidPlanError(
                    f"several windows are called the same, {labels}: name them, .windows({{'label': assigner}})"
                )
            return self.windows(dict(zip(labels, several, strict=True)))
        check_methods(assigner, MergingWindowAssigner if isinstance(assigner, MergingWindowAssigner) else WindowAssigner)
        if self.source.event_time is None and assigner.is_event_time:
            raise InvalidPlanError(
                "event-time windows need event times: write .assign_timestamps('ts', '5 minutes') before .key_by(...)"
            )
        assigner, gap = resolve_gap(self.source.df, assigner)
        assigner, predicates = resolve_predicates(self.source.df, assigner)
        windowing = WindowQuery(assigner, per_key=self.source.watermark.of_keys is not None)
        return WindowedStream(self, windowing, gap=gap, predicates=predicates)

    def windows(self, windows: Mapping[str, WindowAssigner]) -> WindowedStream:
        """Put the events of each key into several kinds of windows, in one pass over the data and with one state.

        ``main`` has the rows of all, with their label in the column ``window``. The windows share panes, so a row is aggregated
        once. They must be tumbling, sliding or cumulating, with one kind of time for all. Look-backs
        (:class:`~panestream.LookBackWindows`) also work; each row then gets the results of all, with the label appended to their
        names.

        Args:
            windows: by label, e.g. ``{"1h": SlidingEventTimeWindows.of("1 hour", "1 minute"), "24h": …}``.

        Raises:
            InvalidPlanError: the windows cannot be combined, or a key is named ``window``.
        """
        if Names.of(self.source.df.sparkSession).find("window", self.key_schema.names) is not None:
            raise InvalidPlanError("results have a column 'window' with the label. Rename the key with AS")
        return self.window(SeveralWindows.of(windows))

    @advised(with_schema)
    def process(
        self,
        function: KeyedProcessFunction,
        schema: Schema,
        *,
        side_outputs: Mapping[str, Schema] | None = None,
        **options: Unpack[Options],
    ) -> WindowedResult:
        """Process the rows of each key one by one, without windows, with state and timers. Flink: ``KeyedStream.process``.

        ``.main`` has the key columns and the columns of ``schema``. Within a micro-batch, the rows of a key come first, in order
        of arrival, then the watermark moves and its timers fire. No row is late. In a batch all timers fire after the last row,
        with the watermark at ``MAX_TIMESTAMP``; so results agree with a stream if they do not depend on which rows came before a
        timer.

        Args:
            function: a :class:`~panestream.functions.KeyedProcessFunction`.
            schema: the columns of the results. A result is a tuple, a dict, or the bare value of a single column.
            side_outputs: the columns of each output that the function writes to with ``ctx.output(tag, value)``, after the keys.
            **options: ``key_groups``, ``tasks``, ``memory_limit`` and ``allow_pickled_state``; see
                :class:`~panestream.datastream.Options`.

        Raises:
            InvalidPlanError: it is not such a function, a column is named like a key, or an option is unknown.

        Examples:
            >>> import panestream as pst
            >>> class Gaps(pst.functions.KeyedProcessFunction):
            ...     def process_element(self, value, ctx):
            ...         last = ctx.get_state(pst.state.ValueStateDescriptor("last"))
            ...         if last.value() is not None:
            ...             yield value.ts - last.value()
            ...         last.update(value.ts)
            >>> keyed.process(Gaps(), "gap interval day to second").main.columns
            ['user', 'gap']
        """
        return processed_result(self, function, schema, side_outputs, options)

    def connect(self, rules: DataStream) -> BroadcastConnectedStream:
        """Give every key a second stream of rules: then call ``.process(function, schema)``. Flink: ``KeyedStream.connect``.

        Args:
            rules: a small stream without a key, e.g. of limits or settings. If it has event time, so has this stream. With the
                strategy ``no_watermarks()`` the rows alone move the watermark. Otherwise the smaller watermark counts, and silent
                rules hold it back until they are idle, so their strategy needs ``with_idleness``.

        Raises:
            InvalidPlanError: the streams cannot be combined. The message gives the reason.

        Examples:
            >>> class Latest(pst.functions.KeyedBroadcastProcessFunction):
            ...     RULE = pst.state.MapStateDescriptor("rule")
            ...     def process_element(self, value, ctx):
            ...         yield value.price, ctx.get_broadcast_state(self.RULE).get("page")
            ...     def process_broadcast_element(self, value, ctx):
            ...         ctx.get_broadcast_state(self.RULE).put("page", value.page)
            >>> keyed.connect(rules).process(Latest(), "price double, rule string").main.columns
            ['user', 'price', 'rule']
        """
        return connected(self, rules)

    def rolling(self, windows: Mapping[str, Duration | None], *, every: Duration) -> WindowedStream:
        """Compute the current values of each key: over the last hour, the last day, ever. Not in Flink.

        ``main`` has the key columns, ``as_of``, and each aggregate for each window, with the label after its name
        (``clicks_1h``). A row of a key comes out only when its values change, because rows entered or left a window. It holds
        from ``as_of`` until the next row of the key. When the last row of a key has left all windows, the key gets the values of
        no rows; ``.changelog()`` then deletes it. :class:`~panestream.MergeSink` keeps one row per key.

        A row is late once the watermark has passed its step. A row within :meth:`WindowedStream.allowed_lateness` corrects the
        current values at once.

        Args:
            windows: the length of each window by its label, e.g. ``{"1h": "1 hour", "24h": "24 hours", "ever": None}``. None
                means all time.
            every: the step of time at which rows enter and leave. It must divide all lengths.

        Raises:
            InvalidWindowError: a length is not a positive multiple of ``every``.
            InvalidPlanError: event times are not assigned.

        Examples:
            >>> keyed.rolling({"1h": "1 hour", "ever": None}, every="1 minute").agg(F.sum("price").alias("sum")).main.columns
            ['user', 'as_of', 'sum_1h', 'sum_ever']
        """
        return self.window(RollingWindows.of(windows, every=every))

    def join(self, right: KeyedStream) -> CoGroupedStream:
        """Join two streams in the same windows: ``.window(...)``, then ``.pairs("inner")`` or another kind of join.

        As with :meth:`co_group`, the two streams become one stream with the rows of each on its side. Each stream has its own
        event time, watermark strategy and output for invalid rows. The smaller watermark counts, and it starts once both have
        rows. A silent stream holds it back unless its strategy has ``with_idleness``. Flink: ``join``.

        Args:
            right: the other stream, with the same number and types of keys. Results have the key names of this stream.

        Raises:
            InvalidPlanError: the streams cannot be combined. The message gives the reason.
        """
        return CoGroupedStream(keyed := KeyedStream(*merge_streams(self, right, "join")), keyed)

    def co_group(self, right: KeyedStream) -> CoGroupedStream:
        """Put the rows of two streams into the same windows, for a function or aggregates over both. Flink: ``coGroup``.

        Then call ``.window(...)``, and ``.apply(f, schema)`` with a function of key, window and two lists of rows,
        ``.apply_arrow`` with two tables, or ``.aggregate(agg.sum("left.price"), agg.count("right.id"))``. In a row of one stream,
        the other's column is null. Aggregates do not store rows. Arguments and errors are as for :meth:`join`.
        """
        return CoGroupedStream(keyed := KeyedStream(*merge_streams(self, right, "co_group")), keyed)

    def interval_join(self, right: KeyedStream) -> IntervalJoin:
        """Join each row with the rows of another stream around its time. Flink: ``intervalJoin``.

        Call ``.between("-1 hour", "0 seconds")``, then ``.pairs(how)``. It does not use windows: a pair is emitted once both rows
        have arrived, and a row without a partner when the watermark has passed its interval. Both streams need event time.
        Arguments, errors, time, invalid rows and keys are as for :meth:`join`.
        """
        return IntervalJoin(self.join(right))

    def asof_join(
        self,
        right: KeyedStream,
        *,
        direction: str = "backward",
        tolerance: Duration | None = None,
        deletes: str | Column | None = None,
    ) -> AsOfJoin:
        """Join each row with the row of another stream that is nearest in time, e.g. an order with the price of its time.

        Then call ``.pairs(how)``. A row is emitted once, when the watermark shows that no better partner can come. So the result
        does not depend on the order in which rows arrive, except if several right rows of a key have the same time: the last to
        arrive counts (see :meth:`DataStream.arrival_order`). Both streams need event time. Time, invalid rows and keys are as for
        :meth:`join`. Give a right stream that is often silent ``with_idleness``.

        Args:
            right: the other stream, e.g. the versions of a table.
            direction: ``"backward"`` for the newest right row at or before the time of the row, ``"forward"`` for the first at or
                after it, ``"nearest"`` for the nearer of both, and the earlier if both are equally near.
            tolerance: the largest distance in time, inclusive. Without it every distance is near enough.
            deletes: a condition over the right stream, as SQL or a Column. From the event time of a right row
                that meets it, its key has no value. Only with ``"backward"``.

        Raises:
            InvalidPlanError: the streams cannot be combined, or an argument is not one of these. The message gives the reason.

        Examples:
            >>> orders.asof_join(prices, tolerance="1 hour").pairs("left", suffixes=("", "_price")).main.columns
            ['user', 'page', 'price', 'ts', 'page_price', 'price_price', 'ts_price']
        """
        keyed = KeyedStream(*merge_streams(self, right, "asof_join", deletes=deletes))
        return AsOfJoin.of(CoGroupedStream(keyed, keyed), direction, tolerance, deletes=deletes is not None)

    def count_window(self, size: int, slide: int | None = None) -> WindowedStream:
        """Put every ``size`` events of a key into a window, or after every ``slide`` events emit the last ``size``.

        With ``slide`` the first firings have fewer. An incomplete remainder is never emitted. The window's bounds are null.
        Raises InvalidWindowError if a number is negative or not an integer. Flink: ``countWindow``.
        """
        assigner, trigger, evictor = CountWindows(size, slide).parts
        windowed = self.window(assigner).trigger(trigger)
        return windowed if evictor is None else windowed.evictor(evictor)
