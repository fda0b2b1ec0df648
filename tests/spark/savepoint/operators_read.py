"""A script for a separate process without the code of the jobs whose checkpoints it reads. Not a test module.

    operators_read.py FOLDER remote|MASTER

It writes the state views of the checkpoints FOLDER/checkpoints/NAME to FOLDER/found.json.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def as_json(value: Any) -> Any:
    """Return a value of a row as JSON, with times as seconds. Times without a zone are local."""
    if isinstance(value, datetime):
        return (value.astimezone(timezone.utc) - START).total_seconds()
    if hasattr(value, "asDict"):
        return {name: as_json(part) for name, part in value.asDict().items()}
    return [as_json(part) for part in value] if isinstance(value, list) else value


def main() -> None:
    """Run the script, as the module describes."""
    folder, where = Path(sys.argv[1]), sys.argv[2]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    spark = (builder.remote("local[2]") if where == "remote" else builder.master(where)).getOrCreate()
    import panestream as pst

    found = {}
    for checkpoint in sorted((folder / "checkpoints").iterdir()):
        state = pst.state.read_checkpoint(spark, str(checkpoint))
        frames = {name: getattr(state, name) for name in ("windows", "elements", "user_state", "timers", "watermarks")}
        found[checkpoint.name] = {name: [as_json(row) for row in frame.collect()] for name, frame in frames.items()}
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
