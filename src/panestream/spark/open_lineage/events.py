"""OpenLineage's run events as plain dictionaries, by its published JSON Schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from panestream.spark.open_lineage.datasets import Dataset, without_secrets
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.windowing.time import iso

START, RUNNING, COMPLETE, ABORT, FAIL = "START", "RUNNING", "COMPLETE", "ABORT", "FAIL"
_SPEC = "https://openlineage.io/spec/"
_OWN = "urn:panestream:openlineage:1#/$defs/"
"""The ``$id`` of docs/reference/openlineage.schema.json."""
_COUNTS = {
    "rows": "rows",
    "windowed_rows": "windowedRows",
    "late_rows": "lateRows",
    "dropped_rows": "droppedRows",
    "invalid_rows": "invalidRows",
    "outside_rows": "outsideRows",
    "spark_dropped_rows": "sparkDroppedRows",
    "early_firings": "earlyFirings",
    "on_time_firings": "onTimeFirings",
    "late_firings": "lateFirings",
}
"""The counters of a micro-batch that a run adds up, with their names in the facet."""
_MOST_MESSAGE = 1000


@dataclass(slots=True)
class RunTotals:
    """The counts of a run so far.

    Attributes:
        micro_batches: the number of counted micro-batches.
        missed: micro-batches whose progress Spark had forgotten before it was read. Counts do not include them.
        last: the progress of the last micro-batch.
        counts, outputs: sums over the micro-batches, by name and by output.
        inputs: rows of each dataset, or None if they are unknown because a source has several datasets.
    """

    micro_batches: int = 0
    missed: int = 0
    last: BatchProgress | None = None
    counts: Counter[str] = field(default_factory=Counter)
    outputs: Counter[str] = field(default_factory=Counter)
    inputs: dict[Dataset, int | None] = field(default_factory=dict)

    def add(self, progress: BatchProgress, sources: Sequence[tuple[Sequence[Dataset], int]]) -> None:
        """Add a micro-batch. ``sources`` has the datasets and the rows of each source."""
        if self.last is not None:
            self.missed += progress.batch_id - self.last.batch_id - 1
        self.last = progress
        self.micro_batches += 1
        self.counts.update({name: getattr(progress, name) for name in _COUNTS})
        self.outputs.update(progress.output_rows)
        for datasets, rows in sources:
            for dataset in datasets:
                before = self.inputs.get(dataset, 0)
                self.inputs[dataset] = None if len(datasets) > 1 or before is None else before + rows


@dataclass(frozen=True, slots=True)
class OutputDataset:
    """An output of the query, its dataset, and its columns. ``counted``: whether the key groups' rows are the sink's rows."""

    tag: str
    dataset: Dataset
    columns: Sequence[tuple[str, str]]
    counted: bool = True


@dataclass(frozen=True)
class LineageRun:
    """The constant part of the events of a run.

    Attributes:
        namespace, job, run_id: the run, as OpenLineage identifies it.
        query_id: Spark's id of the query, the same for all runs on a checkpoint.
        windows: the assigner as text.
        is_bounded: whether the run ends after it has read all available input.
        every: the seconds between two events of a running query.
        spark_version, version: the versions of Spark and panestream.
        parent: namespace, job and run of the task that started the query, if known.
    """

    namespace: str
    job: str
    run_id: str
    query_id: str
    windows: str
    is_bounded: bool
    every: int
    spark_version: str
    version: str
    parent: tuple[str, str, str] | None = None

    @property
    def _producer(self) -> str:
        return f"https://pypi.org/project/panestream/{self.version}/"

    def event(
        self, kind: str, time: str, totals: RunTotals, outputs: Sequence[OutputDataset], error: str | None = None
    ) -> dict[str, Any]:
        """Return an event with the totals of the run so far, at ``time`` (ISO 8601). ``error`` is the text of a failure."""
        run = {
            "processing_engine": self._facet(
                "facets/1-1-1/ProcessingEngineRunFacet.json#/$defs/ProcessingEngineRunFacet",
                {"name": "spark", "version": self.spark_version, "openlineageAdapterVersion": self.version},
            ),
            "panestream_windows": self._facet("WindowsRunFacet", self._windows(totals)),
        }
        if self.parent is not None:
            namespace, job, run_id = self.parent
            run["parent"] = self._facet(
                "facets/1-2-0/ParentRunFacet.json#/$defs/ParentRunFacet",
                {"run": {"runId": run_id}, "job": {"namespace": namespace, "name": job}},
            )
        if error is not None:
            message = without_secrets(error.strip().splitlines()[0] if error.strip() else "unknown")[:_MOST_MESSAGE]
            run["errorMessage"] = self._facet(
                "facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
                {"message": message, "programmingLanguage": "PYTHON"},
            )
        pattern = {"eventTrigger": "PERIODIC", "eventContentMode": "ACCUMULATIVE", "windowDuration": self.every}
        kind_of_job = {
            "processingType": "BATCH" if self.is_bounded else "STREAMING",
            "integration": "SPARK",
            "jobType": "QUERY",
            "emissionPattern": pattern,
        }
        job_type = self._facet("facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet", kind_of_job)
        return {
            "eventType": kind,
            "eventTime": time,
            "producer": self._producer,
            "schemaURL": f"{_SPEC}2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": self.run_id, "facets": run},
            "job": {"namespace": self.namespace, "name": self.job, "facets": {"jobType": job_type}},
            "inputs": [self._input(dataset, rows) for dataset, rows in totals.inputs.items()],
            "outputs": [self._output(output, totals) for output in outputs],
        }

    def _facet(self, schema: str, content: Mapping[str, Any]) -> dict[str, Any]:
        url = _SPEC + schema if "/" in schema else _OWN + schema
        return {"_producer": self._producer, "_schemaURL": url, **content}

    def _windows(self, totals: RunTotals) -> dict[str, Any]:
        found: dict[str, Any] = {
            "queryId": self.query_id,
            "windows": self.windows,
            "microBatches": totals.micro_batches,
            "missedMicroBatches": totals.missed,
            **{theirs: totals.counts[name] for name, theirs in _COUNTS.items()},
            "outputRows": dict(totals.outputs),
        }
        if totals.last is not None:
            last = {"batchId": totals.last.batch_id, "openWindows": totals.last.open_windows}
            found |= {**last, "watermark": iso(totals.last.watermark)}
        return {name: value for name, value in found.items() if value is not None}

    def _input(self, dataset: Dataset, rows: int | None) -> dict[str, Any]:
        statistics = "facets/1-0-0/InputStatisticsInputDatasetFacet.json#/$defs/InputStatisticsInputDatasetFacet"
        facets = {} if rows is None else {"inputStatistics": self._facet(statistics, {"rowCount": rows})}
        return {**dataset._asdict(), "inputFacets": facets}

    def _output(self, output: OutputDataset, totals: RunTotals) -> dict[str, Any]:
        columns = [{"name": name, "type": kind} for name, kind in output.columns]
        schema = self._facet("facets/1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet", {"fields": columns})
        facets = {"panestream_output": self._facet("OutputFacet", {"output": output.tag})}
        if output.counted:
            statistics = "facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"
            facets["outputStatistics"] = self._facet(statistics, {"rowCount": totals.outputs[output.tag]})
        return {**output.dataset._asdict(), "facets": {"schema": schema}, "outputFacets": facets}
