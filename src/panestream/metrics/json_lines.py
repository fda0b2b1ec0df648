"""What micro-batches did as lines of JSON: for whatever reads logs, and for looking back."""

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
    """Appends a line to a file for every micro-batch of every query of a session, also through Spark Connect.

    A line has ``query`` (its name, or its id), ``id``, ``run_id`` and ``timestamp`` (when the micro-batch began), and then all
    that :class:`~panestream.BatchProgress` has, by the same names. The file is opened anew for each line: it may be moved away at
    any time. An error in it never fails a query: it is logged.

    Args:
        path: the file; folders that are missing are made.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8"):
            pass  # rather an error now than none in the log at every micro-batch

    def batch(self, run: QueryRun, progress: BatchProgress, spark: Mapping[str, Any]) -> None:
        """Appends a line."""
        head = {"query": run.label, "id": run.id, "run_id": run.run_id, "timestamp": spark["timestamp"]}
        # ASCII, as a terminal may show the file: names and labels are users'. JSON escapes all controls but DEL.
        line = json.dumps({**head, **asdict(progress)}, separators=(",", ":")).replace("\x7f", "\\u007f")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
