"""What each micro-batch did: the same numbers whichever way a query runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panestream.engine.exchange.group_run import METRICS

OBSERVED = "panestream"
"""The name of the counters in the progress that Spark reports."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """What one micro-batch did.

    Attributes:
        batch_id: Spark's number of the micro-batch.
        rows: input rows.
        duration_ms: from the start of the operator to the last sink.
        rows_per_second: the two divided.
        watermark, max_event_time: microseconds since the epoch; None: unknown yet.
        watermark_before: the watermark before this micro-batch.
        late_rows, invalid_rows, fired_rows, fired_windows: in this micro-batch.
        open_windows: windows that have rows and have not fired.
        state_bytes, state_calls: size of the panes kept, calls of the state store, over all key groups.
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
    open_windows: int
    state_bytes: int
    state_calls: int
    watermark_before: int | None = None

    @classmethod
    def of(cls, batch_id: int, seconds: float, groups: list[dict[str, Any]]) -> BatchProgress:
        """From the metrics of the key groups."""
        rows = max((group["input_rows"] for group in groups), default=0)
        spans = [group["open_windows"] for group in groups if group["open_windows"] is not None]
        fired = set().union(*(group["fired_windows"] for group in groups))
        return cls(
            batch_id=batch_id,
            rows=rows,
            duration_ms=round(seconds * 1000),
            rows_per_second=rows / seconds if seconds > 0 else 0.0,
            watermark=_largest(groups, "watermark"),
            watermark_before=_largest(groups, "watermark_before"),
            max_event_time=_largest(groups, "max_event_time"),
            late_rows=sum(group["late_rows"] for group in groups),
            invalid_rows=max((group["invalid_rows"] for group in groups), default=0),
            fired_rows=sum(group["fired_rows"] for group in groups),
            fired_windows=len(fired),
            open_windows=max(span[1] for span in spans) - min(span[0] for span in spans) + 1 if spans else 0,
            state_bytes=sum(group["state_bytes"] for group in groups),
            state_calls=sum(group["state_calls"] for group in groups),
        )

    @classmethod
    def of_spark(cls, progress: Mapping[str, Any], name: str = "panestream") -> BatchProgress | None:
        """From an entry of Spark's ``recentProgress``; None where no micro-batch ran, or none of panestream's.

        Args:
            progress: the entry, as classic Spark or Spark Connect gives it.
            name: what the operator's counters are called in it, where the query has several.
        """
        counters = _as_dict((progress["observedMetrics"] or {}).get(name))
        took = progress["durationMs"].get("addBatch")
        if took is None or counters is None or counters.get("input_rows") is None:
            return None
        known = {field.name: counters[field.name] for field in fields(cls) if field.name in counters}
        return cls(
            batch_id=progress["batchId"],
            rows=counters["input_rows"],
            duration_ms=took,
            rows_per_second=counters["input_rows"] / took * 1000 if took > 0 else 0.0,
            **{name: 0 if value is None and name not in _MAY_BE_UNKNOWN else value for name, value in known.items()},
        )


_MAY_BE_UNKNOWN = ("watermark", "watermark_before", "max_event_time")


def _largest(groups: Iterable[Mapping[str, Any]], name: str) -> int | None:
    """Of what the groups know; None: none does."""
    return max((group[name] for group in groups if group[name] is not None), default=None)


def _as_dict(row: Any) -> dict[str, Any] | None:
    """The counters of one progress. Through Spark Connect a row comes as its values beside its schema."""
    if row is None:
        return None
    counters: dict[str, Any] = row.asDict()
    if set(counters) != {"values", "schema"}:
        return counters
    return dict(zip([field["name"] for field in counters["schema"]["fields"]], counters["values"], strict=True))


def observed(operated: DataFrame, name: str = OBSERVED) -> DataFrame:
    """Operator rows whose counters Spark shows in each progress of the query, under ``observedMetrics[name]``."""

    def text(name: str) -> Column:
        return F.when(F.col("tag") == METRICS, F.get_json_object(F.col("body").cast("string"), f"$.{name}"))

    def counter(name: str) -> Column:
        return text(name).cast("bigint")

    sums = [F.sum(counter(name)).alias(name) for name in ("late_rows", "fired_rows", "state_bytes", "state_calls")]
    names = ("input_rows", "invalid_rows", "watermark", "watermark_before", "max_event_time")
    same = [F.max(counter(name)).alias(name) for name in names]
    # The key groups fire the same windows: their numbers are counted once.
    fired = F.array_distinct(F.flatten(F.collect_list(F.from_json(text("fired_windows"), "array<bigint>"))))
    open_windows = F.max(counter("open_windows[1]")) - F.min(counter("open_windows[0]")) + 1
    windows = [F.size(fired).cast("bigint").alias("fired_windows"), open_windows.alias("open_windows")]
    return operated.observe(name, *same, *sums, *windows)


def metrics_of(bodies: Iterable[str]) -> list[dict[str, Any]]:
    """What the key groups counted, from the bodies of their rows of metrics."""
    return [json.loads(body) for body in bodies]
