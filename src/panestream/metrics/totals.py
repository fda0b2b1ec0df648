"""The data for exporters: for each query, counters that add up and gauges of the last micro-batch."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.metrics.table import ACTIVE, ERRORS, FAILED, METRICS, Labels, Metric, ObservedMicroBatch
from panestream.spark.progress.listening import ProgressListener, QueryRun
from panestream.spark.progress.micro_batch import BatchProgress

Values = dict[str, dict[Labels, float]]


@dataclass(slots=True)
class _Query:
    """One query under its label. Its id is constant over all runs on a checkpoint, and its gauges are empty once it has ended."""

    id: str
    counters: Values = field(default_factory=dict)
    gauges: Values = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)
    failures: int = 0

    def take(self, batch: ObservedMicroBatch) -> None:
        everybody = batch.progress.groups_reporting == batch.progress.groups
        for metric in METRICS:
            if metric.kind == "counter":
                counted = self.counters.setdefault(metric.name, {})
                for labels, value in metric.read(batch):
                    counted[labels] = counted.get(labels, 0) + value
            elif metric.always or (batch.progress.groups_reporting and (everybody or not metric.complete)):
                # Replace all values, so that the series of vanished source partitions disappear.
                self.gauges[metric.name] = dict(metric.read(batch))


class TotalsListener(ProgressListener):
    """A listener with the data for exporters. Each reading is consistent, with all values from the same micro-batches."""

    def __init__(self, most_partitions: int, most_ended: int) -> None:
        super().__init__()
        self._most_partitions = most_partitions
        self._most_ended = most_ended
        self._queries: dict[str, _Query] = {}
        self._reading = threading.Lock()

    def readings(self) -> list[tuple[Metric, dict[Labels, float]]]:
        """Return each metric with its values, whose first label is ``query`` if the metric has that label."""
        with self._reading:
            found: list[tuple[Metric, dict[Labels, float]]] = []
            for metric in METRICS:
                values = {
                    (label, *labels): value
                    for label, query in self._queries.items()
                    for labels, value in (query.counters | query.gauges).get(metric.name, {}).items()
                }
                found.append((metric, values))
            found.append((ACTIVE, {(label,): float(bool(query.runs)) for label, query in self._queries.items()}))
            found.append((FAILED, {(label,): float(query.failures) for label, query in self._queries.items()}))
            found.append((ERRORS, {(): float(self.errors)}))
            return found

    def batch(self, run: QueryRun, progress: BatchProgress, spark: Mapping[str, Any]) -> None:
        batch = ObservedMicroBatch.of(progress, spark, self._most_partitions)
        with self._reading:
            query = self._queries.setdefault(run.label, _Query(run.id))
            query.id = run.id
            query.runs.add(run.run_id)
            query.take(batch)

    def ended(self, run: QueryRun, error: str | None) -> None:
        with self._reading:
            ran = {label: one for label, one in self._queries.items() if run.run_id in one.runs}
            # A run that ends before its first micro-batch is recognised by the id of its query.
            known = ran or {label: one for label, one in self._queries.items() if run.id == one.id}
            for label, query in known.items():  # each of several operators has its own
                query.runs.discard(run.run_id)
                query.failures += error is not None
                if not query.runs:
                    query.gauges.clear()  # with gauges, the query would seem to run
                    # Move it to the end, because the first ended queries are forgotten first.
                    self._queries[label] = self._queries.pop(label)
            over = [label for label, one in self._queries.items() if not one.runs]
            for label in over[: max(len(over) - self._most_ended, 0)]:
                del self._queries[label]
