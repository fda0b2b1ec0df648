"""The progress of each micro-batch, with the same counters however a query runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.engine.exchange.group_run import METRICS
from panestream.engine.explain import small_table
from panestream.engine.plan import FIRINGS, WindowPlan
from panestream.engine.runtime.group_io import count_in_runs
from panestream.spark.compat import silence_analysis_errors
from panestream.windowing.time import iso

OBSERVED = "panestream"
"""The name of the counters in Spark's progress."""


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of one source partition after a micro-batch, with times in microseconds since the epoch.

    Attributes:
        name: the value of the ``per_partition`` column. Empty if the whole source has one watermark.
        max_event_time: the largest event time in it. None if it is expected (``per_partition``) but did not have rows yet.
        watermark: its own watermark, or None if unknown. (The query's watermark is the smallest that is not idle.)
        idle: whether it has been silent long enough that it does not hold back the query's watermark.

    Examples:
        >>> partitions = [PartitionProgress("clicks-0", 90, 60, idle=False), PartitionProgress("clicks-1", None, None, idle=True)]
        >>> [partition.name for partition in partitions if partition.idle]
        ['clicks-1']
    """

    name: str
    max_event_time: int | None
    watermark: int | None
    idle: bool


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The counters of one micro-batch.

    Each row counts once: ``rows`` = ``windowed_rows + late_rows + invalid_rows + outside_rows``.

    Attributes:
        batch_id, rows: Spark's number of the micro-batch, and its input rows.
        duration_ms: the time from the start of the operator to the end of the last sink.
        rows_per_second: ``rows`` divided by the duration.
        watermark, watermark_before, max_event_time: microseconds since the epoch, or None. ``watermark_before`` is the watermark
            before this micro-batch.
        windowed_rows: rows that entered at least one window, even if they were too late for others of their windows.
        late_rows: rows behind the watermark that cannot enter any window.
        dropped_rows: late rows that are dropped, for lack of an output for late rows or of its sink in ``start``.
        invalid_rows: rows without usable event time, or too far ahead.
        outside_rows: rows outside every window, e.g. in a gap between two windows, that are not late.
        history_rows: rows skipped because the history (:meth:`WindowedResult.bootstrap` with ``until``) has them; not in
            ``rows``.
        spark_dropped_rows: rows behind Spark's watermark that Spark's own operators in the query (joins, ``dropDuplicates``,
            ``groupBy`` with ``withWatermark``) dropped before or after the windows. They are not in ``rows``. In ``on_progress``
            it is 0, except through Spark Connect.
        fired_rows: results. For joins and functions over rows: the keys and windows that fired (for an interval join, the rows
            that had partners, or 0). ``output_rows`` has the number of their rows.
        fired_windows: distinct windows that fired, if all keys have the same windows, otherwise 0.
        early_firings, on_time_firings, late_firings: firings per key and window, before its end, at its end, or later because of
            late rows. Firings of the global window are early. Operators on columns emit only the last firing in a micro-batch.
        output_rows: rows from the key groups, by output tag. For ``.top``, each group's own largest.
        open_windows: windows with rows that have not ended, if all keys have the same windows. For sessions, count windows and
            the row operator, the stored windows of all keys, even those kept only for late rows. None if unknown.
        state_bytes: size of the state, over all key groups.
        state_calls, state_read_bytes, state_written_bytes: calls of the state store, and their volume.
        groups: the number of key groups.
        groups_reporting: key groups that took part. Without rows the clock wakes only some, and then state and open windows cover
            only these.
        most_rows, most_rows_group: rows and number of the key group with the most rows (number -1 without rows).
        most_bytes, most_bytes_group: size and number of the key group with the largest state.
        operator_us: microseconds in the operators, over all key groups.
        most_us, most_us_group: microseconds and number of the slowest key group.
        partition_count, idle_partitions: the number of known and of idle source partitions.
        partitions: the source partitions, the furthest behind first, at most 1000.
        stages: milliseconds of Spark's own phases (``addBatch``, ``walCommit``, …). In ``on_progress`` empty, except through
            Connect.

    Examples:
        >>> progress = query.last_progress
        >>> progress.rows, progress.windowed_rows, progress.late_rows, progress.fired_rows
        (3, 3, 0, 2)
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
        counts = [(name.replace("_", " "), f"{getattr(self, name):,}") for name in _COUNTS if getattr(self, name)]
        times = [(name, iso(getattr(self, name)) or "") for name in ("watermark", "max_event_time")]
        rate = f"{self.rows:,} in {self.duration_ms:,} ms, {self.rows_per_second:,.0f} a second"
        open_windows = "?" if self.open_windows is None else f"{self.open_windows:,}"
        rows = [
            ("rows", rate),
            *counts,
            ("open windows", open_windows),
            *((name.replace("_", " "), text) for name, text in times if text),
        ]
        return small_table(f"Micro-batch {self.batch_id}", [*rows, ("state", f"{self.state_bytes:,} bytes")])

    @classmethod
    def of(
        cls,
        batch_id: int,
        seconds: float,
        reports: Sequence[Mapping[str, Any]],
        *,
        tags: Iterable[str],
        groups: int,
        late_kept: bool,
    ) -> BatchProgress:
        """Compute the progress of a query with these outputs and key groups from the metrics of key groups.

        A group with rows that was also woken by the clock comes twice. ``late_kept``: late rows have an output with a sink.
        """
        rows = max((one["input_rows"] for one in reports), default=0)
        # For a group that comes twice, the state of the second report counts, from when the clock woke it.
        latest = {one["key_group"]: one for one in sorted(reports, key=lambda one: bool(one["woken"]))}
        spans = [one["open_windows"] for one in latest.values() if one["open_windows"] is not None]
        kept = [one["kept_windows"] for one in latest.values()]
        numbered = max(span[1] for span in spans) - min(span[0] for span in spans) + 1 if spans else 0
        ours: dict[str, Any] = {name: sum(one[theirs] for one in reports) for name, theirs in _SUMS.items()}
        ours |= {name: max((one[name] for one in reports if one[name] is not None), default=None) for name in _MAY_BE_UNKNOWN}
        ours |= {name: max((one[name] for one in reports), default=0) for name in _SAME}
        ours |= {f"{kind}_firings": sum(one["firings"].get(kind, 0) for one in reports) for kind in FIRINGS}
        for name, them, of in (("rows", reports, _came), ("bytes", latest.values(), _state_bytes), ("us", reports, _took)):
            # On a tie, the first group.
            most, group = max(((of(one), -one["key_group"]) for one in them), default=(0, 1))
            ours |= {f"most_{name}": most, f"most_{name}_group": -group}
        partitions = next((one["partitions"] for one in reports if one["partitions"] is not None), ())
        return cls(
            batch_id=batch_id,
            rows=rows,
            duration_ms=round(seconds * 1000),
            rows_per_second=rows / seconds if seconds > 0 else 0.0,
            fired_windows=count_in_runs((first, last) for one in reports for first, last in one["fired_windows"]),
            open_windows=None if None in kept else numbered + sum(kept),
            state_bytes=sum(map(_state_bytes, latest.values())),
            dropped_rows=0 if late_kept else ours["late_rows"],
            output_rows={tag: sum(one["outputs"].get(tag, 0) for one in reports) for tag in tags},
            groups=groups,
            groups_reporting=len(latest),
            partitions=tuple(PartitionProgress(*one) for one in partitions),
            **ours,
        )

    @classmethod
    def of_spark(cls, progress: Mapping[str, Any], name: str = "panestream") -> BatchProgress | None:
        """Read an entry of Spark's ``recentProgress``, or return None if it does not have counters of panestream.

        If all rows were filtered out before the windows, the counters are 0 and the state is unknown, as no key group took part.
        ``name`` is the name of the operator's counters, if the query has several operators.
        """
        counters = _as_dict((progress["observedMetrics"] or {}).get(name))
        took = progress["durationMs"].get("addBatch")
        if took is None or counters is None:
            return None
        query = json.loads(counters["query"]) if counters["query"] else {"tags": [], "groups": 0, "late_kept": False}
        told = cls.of(progress["batchId"], took / 1000, metrics_of(counters["reports"] or ()), **query)
        return replace(
            told,
            open_windows=told.open_windows if counters["query"] else None,
            stages=dict(progress["durationMs"]),
            spark_dropped_rows=sum(each["numRowsDroppedByWatermark"] for each in progress.get("stateOperators") or ()),
        )


_COUNTS = (
    *("windowed_rows", "late_rows", "dropped_rows", "invalid_rows", "outside_rows", "history_rows"),
    *("fired_rows", "early_firings", "on_time_firings", "late_firings"),
)
"""The counters that a notebook shows if they are not zero."""
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
"""The counters that are sums over the key groups, with the key groups' names for them."""
_SAME = ("invalid_rows", "history_rows", "partition_count", "idle_partitions")
"""The counters that are equal in all key groups, as is ``input_rows``. A group that the clock woke reports less."""
_MAY_BE_UNKNOWN = ("watermark", "watermark_before", "max_event_time")
_TOLD = "__panestream_told"
"""The column with a key group's own metrics, next to the rows while they are observed."""
_PLAIN = {"input_rows": "max", "late_rows": "sum", "invalid_rows": "max", "fired_rows": "sum", "watermark": "max"}
"""The counters that Spark's progress also shows as numbers, and how those of the key groups become one."""
_REPORT = ", ".join(f"{name} BIGINT" for name in _PLAIN)


def _came(report: Mapping[str, Any]) -> int:
    return int(report["windowed_rows"] + report["late_rows"] + report["outside_rows"])


def _state_bytes(report: Mapping[str, Any]) -> int:
    return int(report["state_bytes"])


def _took(report: Mapping[str, Any]) -> int:
    return int(report["operator_us"])


def _as_dict(row: Any) -> dict[str, Any] | None:
    """Return the counters of one progress. Through Spark Connect a row comes as its values and its schema."""
    if row is None:
        return None
    counters: dict[str, Any] = row.asDict()
    if set(counters) != {"values", "schema"}:
        return counters
    return dict(zip([each["name"] for each in counters["schema"]["fields"]], counters["values"], strict=True))


def observed(operated: DataFrame, plan: WindowPlan, name: str = OBSERVED, *, late_kept: bool) -> DataFrame:
    """Return the operator's rows such that each progress of the query has their counters in ``observedMetrics[name]``.

    There, ``reports`` has the metrics of each key group as text, and ``query`` what :meth:`BatchProgress.of_spark` must know to
    add them up. An expression for each counter would double the processor time of a micro-batch without rows (decision 0205).
    """
    text = f"CASE WHEN tag = '{METRICS}' THEN string(body) END"
    # Parsed once, in a column next to the rows: each observed counter is evaluated separately and would parse the text again.
    report = F.expr(f"from_json({text}, '{_REPORT}')")
    query = json.dumps({"tags": plan.tags, "groups": plan.groups, "late_kept": late_kept})
    # As text, since each function of a Column takes a dozen Java calls. Tags are Python identifiers and need no escaping.
    columns = [F.expr(f"{how}({_TOLD}.{counter}) AS {counter}") for counter, how in _PLAIN.items()]
    columns += [F.expr(f"collect_list({text}) AS reports"), F.expr(f"'{query}' AS query")]
    return operated.select("*", report.alias(_TOLD)).observe(name, *columns).drop(_TOLD)


def metrics_of(bodies: Iterable[str]) -> list[dict[str, Any]]:
    """Return the counters of the key groups from the bodies of their metrics rows."""
    return [json.loads(body) for body in bodies]


_NAME_TAKEN = "DUPLICATED_METRICS_NAME"
_MAX_NAMES = 100


def counters_name(df: DataFrame) -> str:
    """Return the name for the counters of an operator over these rows: ``panestream``, ``panestream_2`` and so on.

    Spark refuses two equal names in one query, so consecutive operators get consecutive numbers. Spark's analysis is called,
    since only Spark knows the rows' plan.
    """
    for number in range(1, _MAX_NAMES):
        name = OBSERVED if number == 1 else f"{OBSERVED}_{number}"
        try:
            with silence_analysis_errors():
                df.observe(name, F.count(F.lit(1)).alias("rows")).schema  # noqa: B018
        except AnalysisException as error:
            if _NAME_TAKEN not in str(error):
                raise
        else:
            return name
    return OBSERVED
