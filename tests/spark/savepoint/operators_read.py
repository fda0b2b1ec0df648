"""A script that a test runs in a process of its own, without the code of the jobs whose checkpoints it reads.

    operators_read.py FOLDER remote|MASTER

Writes what the checkpoints FOLDER/checkpoints/NAME show to FOLDER/found.json. Not a test module.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def told(value: Any) -> Any:
    """A value of a row as JSON: times as seconds, those without a zone being of this machine's."""
    if isinstance(value, datetime):
        return (value.astimezone(timezone.utc) - START).total_seconds()
    if hasattr(value, "asDict"):
        return {name: told(part) for name, part in value.asDict().items()}
    return [told(part) for part in value] if isinstance(value, list) else value


def main() -> None:
    """See above."""
    folder, where = Path(sys.argv[1]), sys.argv[2]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    spark = (builder.remote("local[2]") if where == "remote" else builder.master(where)).getOrCreate()
    import panestream as pst

    found = {}
    for checkpoint in sorted((folder / "checkpoints").iterdir()):
        state = pst.state.read_checkpoint(spark, str(checkpoint))
        frames = {name: getattr(state, name) for name in ("windows", "elements", "user_state", "timers", "watermarks")}
        found[checkpoint.name] = {name: [told(row) for row in frame.collect()] for name, frame in frames.items()}
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
