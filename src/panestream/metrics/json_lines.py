"""Progress of micro-batches as JSON lines, for log readers and for later analysis."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from panestream.spark.progress.listening import ProgressListener, QueryRun
from panestream.spark.progress.micro_batch import BatchProgress


class JsonLinesMetrics(ProgressListener):
    """A listener that appends a line to a file for each micro-batch of each query of a session, also through Spark Connect.

    A line has ``query`` (its name, or its id), ``id``, ``run_id``, ``timestamp`` (start of the micro-batch), and the fields of
    :class:`~panestream.BatchProgress`. The file is opened for each line, so it may be moved at any time. Errors never fail a
    query, but are logged.

    Args:
        path: the file. Missing folders are created.

    Raises:
        OSError: if the file cannot be written.

    Examples:
        >>> metrics = pst.metrics.JsonLinesMetrics(folder + "/metrics.jsonl")
        >>> spark.streams.addListener(metrics)
        >>> spark.streams.removeListener(metrics)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8"):
            pass  # fail now rather than log an error at each micro-batch

    def batch(self, run: QueryRun, progress: BatchProgress, spark: Mapping[str, Any]) -> None:
        head = {"query": run.label, "id": run.id, "run_id": run.run_id, "timestamp": spark["timestamp"]}
        # ASCII, as a terminal may show the file: names and labels are users'. JSON escapes all controls but DEL.
        line = json.dumps({**head, **asdict(progress)}, separators=(",", ":")).replace("\x7f", "\\u007f")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
