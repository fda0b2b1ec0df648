"""What each micro-batch did: the same numbers whichever way a query runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.exchange.group_run import METRICS
from panestream.engine.explain import small_table
from panestream.engine.plan import FIRINGS, WindowPlan
from panestream.inspection.values import iso

OBSERVED = "panestream"
"""The name of the counters in the progress that Spark reports."""


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """How far one source partition is after a micro-batch; times in microseconds since the epoch.

    Attributes:
        name: the value of the column of ``per_partition``; empty: the whole source has one watermark.
        max_event_time: its largest event time so far; None: it is expected (``per_partition``), and had no rows yet.
        watermark: what its rows say; None: nothing yet. (The query's own is the smallest of those that are not idle.)
        idle: whether it was silent for so long that it holds the query's watermark back no more.
    """

    name: str
    max_event_time: int | None
    watermark: int | None
    idle: bool


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """What one micro-batch did. A row is counted once: ``rows`` = ``windowed_rows + late_rows + invalid_rows + outside_rows``.

    Attributes:
        batch_id: Spark's number of the micro-batch.
        rows: input rows.
        duration_ms: from the start of the operator to the last sink.
        rows_per_second: the two divided.
        watermark, max_event_time: microseconds since the epoch; None: unknown yet.
        watermark_before: the watermark before this micro-batch.
        windowed_rows: rows that at least one window took: also one that came too late for others of its windows.
        late_rows: rows that no window takes any more, behind the watermark.
        dropped_rows: those of them that nobody takes: the query has no output for late rows, or ``start`` no sink for it.
        invalid_rows: rows without usable event time, or too far ahead.
        outside_rows: rows that lie in no window, such as between two windows with a pause, and are not late.
        history_rows: rows that are left out, since they are in the history from which the query started
            (:meth:`WindowedResult.bootstrap` with ``until``); none of the four above, and not among ``rows``.
        spark_dropped_rows: rows that Spark's own operators in the same query (joins, ``dropDuplicates``, ``groupBy`` with
            ``withWatermark``) dropped behind Spark's watermark, before the windows or behind them; none of the four above. 0 in
            ``on_progress``, which is called before Spark knows them (not so through Spark Connect).
        fired_rows: results: of a join, and of functions over rows, the keys and windows that fired (of an interval join the
            rows that met others, or none); how many rows came of them is in ``output_rows``.
        fired_windows: distinct windows that fired, where all keys have the same ones; else 0.
        early_firings, on_time_firings, late_firings: firings of a key and window: before its end, at it, after it because of
            late rows; those of the global window are early. Operators on columns emit the last one of a micro-batch only.
        output_rows: how many rows the key groups gave, by output tag; of ``.top`` each group's own largest.
        open_windows: windows that have rows and have not ended, where all keys have the same ones. Of sessions, count windows and
            on the row operator the windows of all keys that are kept, be it only for late rows; None: unknown.
        state_bytes: size of what is kept, over all key groups.
        state_calls: calls of the state store; so are ``state_read_bytes`` and ``state_written_bytes`` what they moved.
        groups: the number of key groups.
        groups_reporting: how many took part: all where there were rows. Where the clock woke some, state and open windows are
            those of these only.
        most_rows, most_rows_group: of the key group with the most rows: how many, and its number (-1: no rows).
        most_bytes, most_bytes_group: of the key group with the largest state.
        operator_us: the time in the operators in microseconds, over all key groups.
        most_us, most_us_group: of the key group that took longest.
        partition_count, idle_partitions: how many source partitions are known, and idle.
        partitions: the source partitions, the furthest behind first; a thousand at most.
        stages: Spark's own times of the micro-batch's parts in milliseconds (``addBatch``, ``walCommit``, …); empty in
            ``on_progress``, which is called before Spark knows them (not so through Spark Connect).
    """

    batch_id: int
    rows: int
    duration_ms: int
    rows_per_second: float
    watermark: int | None
    max_event_time: int | None
    late_rows: int
    invalid_rows: int
    fired_rows: int
    fired_windows: int
    open_windows: int | None
    state_bytes: int
    state_calls: int
    watermark_before: int | None = None
    windowed_rows: int = 0
    dropped_rows: int = 0
    outside_rows: int = 0
    history_rows: int = 0
    spark_dropped_rows: int = 0
    early_firings: int = 0
    on_time_firings: int = 0
    late_firings: int = 0
    output_rows: Mapping[str, int] = field(default_factory=dict)
    state_read_bytes: int = 0
    state_written_bytes: int = 0
    groups: int = 1
    groups_reporting: int = 0
    most_rows: int = 0
    most_rows_group: int = -1
    most_bytes: int = 0
    most_bytes_group: int = -1
    operator_us: int = 0
    most_us: int = 0
    most_us_group: int = -1
    partition_count: int = 0
    idle_partitions: int = 0
    partitions: tuple[PartitionProgress, ...] = ()
    stages: Mapping[str, int] = field(default_factory=dict)

    @property
    def firings(self) -> int:
        """Firings of all kinds."""
        return self.early_firings + self.on_time_firings + self.late_firings

    def _repr_html_(self) -> str:
        """For notebooks: what there was, a line each."""
        said = [(name.replace("_", " "), f"{getattr(self, name):,}") for name in _COUNTS if getattr(self, name)]
        times = [(name, iso(getattr(self, name)) or "") for name in ("watermark", "max_event_time")]
        rate = f"{self.rows:,} in {self.duration_ms:,} ms, {self.rows_per_second:,.0f} a second"
        open_windows = "?" if self.open_windows is None else f"{self.open_windows:,}"
        told = [
            ("rows", rate),
            *said,
            ("open windows", open_windows),
            *((name.replace("_", " "), text) for name, text in times if text),
        ]
        return small_table(f"Micro-batch {self.batch_id}", [*told, ("state", f"{self.state_bytes:,} bytes")])

    @classmethod
    def of(
        cls, batch_id: int, seconds: float, reports: list[dict[str, Any]], plan: WindowPlan, *, late_kept: bool
    ) -> BatchProgress:
        """From the metrics of the key groups.

        Args:
            batch_id: the micro-batch.
            seconds: how long it took.
            reports: the metrics; a group that had rows and was woken by the clock as well comes twice.
            plan: the query.
            late_kept: whether somebody takes the output for late rows.
        """
        rows = max((one["input_rows"] for one in reports), default=0)
        # What a group keeps that comes twice is what it kept the second time, when the clock woke it.
        latest = {one["key_group"]: one for one in sorted(reports, key=lambda one: bool(one["woken"]))}
        spans = [one["open_windows"] for one in latest.values() if one["open_windows"] is not None]
        kept = [one["kept_windows"] for one in latest.values()]
        numbered = max(span[1] for span in spans) - min(span[0] for span in spans) + 1 if spans else 0
        ours: dict[str, Any] = {name: sum(one[theirs] for one in reports) for name, theirs in _SUMS.items()}
        ours |= {name: max((one[name] for one in reports if one[name] is not None), default=None) for name in _MAY_BE_UNKNOWN}
        ours |= {name: max((one[name] for one in reports), default=0) for name in _SAME}
        ours |= {f"{kind}_firings": sum(one["firings"].get(kind, 0) for one in reports) for kind in FIRINGS}
        for name, them, of in (("rows", reports, _came), ("bytes", latest.values(), _state_bytes), ("us", reports, _took)):
            # Of equals the first group.
            most, group = max(((of(one), -one["key_group"]) for one in them), default=(0, 1))
            ours |= {f"most_{name}": most, f"most_{name}_group": -group}
        partitions = next((one["partitions"] for one in reports if one["partitions"] is not None), ())
        return cls(
            batch_id=batch_id,
            rows=rows,
            duration_ms=round(seconds * 1000),
            rows_per_second=rows / seconds if seconds > 0 else 0.0,
            fired_windows=len(set().union(*(one["fired_windows"] for one in reports))),
            open_windows=None if None in kept else numbered + sum(kept),
            state_bytes=sum(map(_state_bytes, latest.values())),
            dropped_rows=0 if late_kept else ours["late_rows"],
            output_rows={tag: sum(one["outputs"].get(tag, 0) for one in reports) for tag in plan.tags},
            groups=plan.groups,
            groups_reporting=len(latest),
            partitions=tuple(PartitionProgress(*one) for one in partitions),
            **ours,
        )

    @classmethod
    def of_spark(cls, progress: Mapping[str, Any], name: str = "panestream") -> BatchProgress | None:
        """From an entry of Spark's ``recentProgress``; None where no micro-batch ran, or none of panestream's.

        A micro-batch of which no row came to the windows, as all were filtered away before them, counts nothing, and says
        nothing of what is kept: no key group took part.

        Args:
            progress: the entry, as classic Spark or Spark Connect gives it.
            name: what the operator's counters are called in it, where the query has several.
        """
        counters = _as_dict((progress["observedMetrics"] or {}).get(name))
        took = progress["durationMs"].get("addBatch")
        if took is None or counters is None:
            return None
        dropped = sum(one["numRowsDroppedByWatermark"] for one in progress.get("stateOperators") or ())
        rows = counters.get("input_rows") or 0
        known = {each.name: counters[each.name] for each in fields(cls) if each.name in counters}
        written = {name: json.loads(known.pop(name) or empty) for name, empty in (("output_rows", "{}"), ("partitions", "[]"))}
        return cls(
            batch_id=progress["batchId"],
            rows=rows,
            duration_ms=took,
            rows_per_second=rows / took * 1000 if took > 0 else 0.0,
            output_rows=written["output_rows"],
            partitions=tuple(PartitionProgress(*one) for one in written["partitions"]),
            stages=dict(progress["durationMs"]),
            spark_dropped_rows=dropped,
            **{name: _NOTHING.get(name, 0) if value is None else value for name, value in known.items()},
        )


_COUNTS = (
    *("windowed_rows", "late_rows", "dropped_rows", "invalid_rows", "outside_rows", "history_rows"),
    *("fired_rows", "early_firings", "on_time_firings", "late_firings"),
)
"""What a notebook shows of a micro-batch, where it is not zero."""
_SUMS = {
    "late_rows": "late_rows",
    "windowed_rows": "windowed_rows",
    "outside_rows": "outside_rows",
    "fired_rows": "fired_rows",
    "state_calls": "state_calls",
    "state_read_bytes": "bytes_read",
    "state_written_bytes": "bytes_written",
    "operator_us": "operator_us",
}
"""What is the sum over the key groups, and what they call it."""
_SAME = ("invalid_rows", "history_rows", "partition_count", "idle_partitions")
"""What all key groups say alike, beside ``input_rows``; one that the clock woke says less."""
_MAY_BE_UNKNOWN = ("watermark", "watermark_before", "max_event_time")
_NOTHING: Mapping[str, Any] = {
    **dict.fromkeys((*_MAY_BE_UNKNOWN, "open_windows")),
    **{f"most_{name}_group": -1 for name in ("rows", "bytes", "us")},
}
"""What a counter is of which nobody said anything, where that is not 0."""


_TOLD = "__panestream_told"
"""The column with what a key group tells of itself, beside the rows while they are observed."""
_LONGS = (*("input_rows", "key_group", "state_bytes", "kept_windows"), *_SAME, *_MAY_BE_UNKNOWN, *_SUMS.values())
_REPORT = T.StructType(
    [
        *(T.StructField(name, T.LongType()) for name in _LONGS),
        T.StructField("woken", T.BooleanType()),
        *(T.StructField(name, T.ArrayType(T.LongType())) for name in ("fired_windows", "open_windows")),
        *(T.StructField(name, T.MapType(T.StringType(), T.LongType())) for name in ("firings", "outputs")),
        # As it is written: lists of lists of several types.
        T.StructField("partitions", T.StringType()),
    ]
)
"""What is observed of the metrics of a key group."""


def _came(report: Mapping[str, Any]) -> int:
    """The rows of the micro-batch that came to a key group."""
    return int(report["windowed_rows"] + report["late_rows"] + report["outside_rows"])


def _state_bytes(report: Mapping[str, Any]) -> int:
    return int(report["state_bytes"])


def _took(report: Mapping[str, Any]) -> int:
    return int(report["operator_us"])


def _as_dict(row: Any) -> dict[str, Any] | None:
    """The counters of one progress. Through Spark Connect a row comes as its values beside its schema."""
    if row is None:
        return None
    counters: dict[str, Any] = row.asDict()
    if set(counters) != {"values", "schema"}:
        return counters
    return dict(zip([each["name"] for each in counters["schema"]["fields"]], counters["values"], strict=True))


def observed(operated: DataFrame, plan: WindowPlan, name: str = OBSERVED, *, late_kept: bool) -> DataFrame:
    """Operator rows whose counters Spark shows in each progress of the query, under ``observedMetrics[name]``.

    Args:
        operated: what the operators gave.
        plan: the query.
        name: what the counters are called, where the query has several operators.
        late_kept: whether somebody takes the output for late rows.
    """
    # Read once, and beside the rows: what is observed is evaluated by itself, each counter would read the text anew.
    told = F.when(F.col("tag") == METRICS, F.from_json(F.col("body").cast("string"), _REPORT))
    counters = _counters(plan, late_kept=late_kept)
    # As text: each function of a Column asks Java a dozen times, and there were hundreds of them.
    columns = [F.expr(f"{text} AS {name}") for name, text in counters.items()]
    return operated.select("*", told.alias(_TOLD)).observe(name, *columns).drop(_TOLD)


def _counters(plan: WindowPlan, *, late_kept: bool) -> dict[str, str]:
    """The counters, in SQL over what key groups tell. (Tags are Python's identifiers: nothing in them is to be escaped.)"""
    found = {name: f"max({_TOLD}.{name})" for name in ("input_rows", *_SAME, *_MAY_BE_UNKNOWN)}
    found |= {name: f"sum({_TOLD}.{theirs})" for name, theirs in _SUMS.items()}
    found |= {f"{kind}_firings": f"sum({_TOLD}.firings['{kind}'])" for kind in FIRINGS}
    found["dropped_rows"] = "0L" if late_kept else f"sum({_TOLD}.late_rows)"
    # The key groups fire the same windows: their numbers are counted once.
    found["fired_windows"] = f"CAST(size(array_distinct(flatten(collect_list({_TOLD}.fired_windows)))) AS BIGINT)"
    by_tag = ", ".join(f"sum(coalesce({_TOLD}.outputs['{tag}'], 0L)) AS `{tag}`" for tag in plan.tags)
    found["output_rows"] = f"to_json(struct({by_tag}))"
    found["partitions"] = f"max({_TOLD}.partitions)"
    found["groups"] = str(plan.groups)
    came = f"{_TOLD}.windowed_rows + {_TOLD}.late_rows + {_TOLD}.outside_rows"
    for name, most in (("rows", came), ("us", f"{_TOLD}.operator_us")):
        found |= _most(name, f"max(struct({most} AS most, -{_TOLD}.key_group AS key_group))")
    return {**found, **_kept()}


def _kept() -> dict[str, str]:
    """What the key groups keep: of one that comes twice, since the clock woke it as well, what it kept in the end."""
    names = ("woken", "key_group", "state_bytes", "kept_windows", "open_windows[0] AS low", "open_windows[1] AS high")
    said = ", ".join(f"{_TOLD}.{name}" for name in names)
    reports = f"collect_list(CASE WHEN tag = '{METRICS}' THEN struct({said}) END)"
    groups = f"array_distinct(transform({reports}, one -> one.key_group))"
    latest = f"transform({groups}, number -> array_max(filter({reports}, one -> one.key_group = number)))"
    span = f"array_max(transform({latest}, one -> one.high)) - array_min(transform({latest}, one -> one.low))"
    open_windows = f"coalesce({span} + 1, 0) + {_total(latest, 'kept_windows')}"
    most = f"array_max(transform({latest}, one -> struct(one.state_bytes AS most, -one.key_group AS key_group)))"
    return {
        "groups_reporting": f"size({latest})",
        "state_bytes": _total(latest, "state_bytes"),
        "open_windows": open_windows,
        **_most("bytes", most),
    }


def _total(reports: str, name: str) -> str:
    return f"aggregate({reports}, 0L, (total, one) -> total + one.{name})"


def _most(name: str, found: str) -> dict[str, str]:
    """Of the key group that has most of something: how much, and its number."""
    return {f"most_{name}": f"{found}.most", f"most_{name}_group": f"-{found}.key_group"}


def metrics_of(bodies: Iterable[str]) -> list[dict[str, Any]]:
    """What the key groups counted, from the bodies of their rows of metrics."""
    return [json.loads(body) for body in bodies]
