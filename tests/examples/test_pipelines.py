"""The example of a declarative pipeline runs, runs again with more files, and starts fresh. Its numbers were worked out by hand."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "pipelines"


def put(folder: Path, number: int, *rows: tuple[str, float, int]) -> None:
    lines = [json.dumps({"user": user, "price": price, "ts": f"2026-03-02T12:00:{at:02}Z"}) for user, price, at in rows]
    half = folder.parent / f"{number}.writing"
    half.write_text("\n".join(lines))
    os.utime(half, (1_700_000_000 + number,) * 2)
    half.rename(folder / f"{number}.json")


def pipeline(home: Path, *arguments: str) -> str:
    spark_home = Path(pyspark.__file__).parent
    settings = ["--conf", "spark.sql.catalogImplementation=hive", "--conf", "spark.ui.enabled=false"]
    settings += ["--conf", "spark.python.unix.domain.socket.enabled=true"]
    done = subprocess.run(
        [spark_home / "bin" / "spark-pipelines", *settings, *arguments, "--spec", home / "spark-pipeline.yml"],
        cwd=home,
        env={
            **os.environ,
            "SPARK_HOME": str(spark_home),
            "PYTHONPATH": str(ROOT / "src"),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",  # use a free port instead of Spark Connect's 15002
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    return done.stdout + done.stderr


def table(home: Path, name: str, *columns: str) -> list[tuple]:
    """Return the rows in the files of a table. Spark writes each file as a whole, and lists the files of a stream in a log."""
    folder = home / "spark-warehouse" / name
    log = folder / "_spark_metadata"
    files = sorted(folder.glob("*.parquet"))
    if log.is_dir():
        named = [line for file in log.glob("[0-9]*") for line in file.read_text().splitlines()[1:]]
        known = {Path(json.loads(line)["path"]).name for line in named}
        files = [file for file in files if file.name in known]
    if not files:
        return []
    return sorted(tuple(row[column] for column in columns) for row in ds.dataset(files).to_table().to_pylist())


def late_files(home: Path) -> list[tuple]:
    lines = [line for file in (home / "late").glob("*.json") for line in file.read_text("utf-8").splitlines()]
    return sorted((row["user"], row["price"]) for row in map(json.loads, lines))


@pytest.mark.spark
def test_pipeline_resumes_from_its_checkpoint_and_refreshes_fully(tmp_path):
    if not (Path(pyspark.__file__).parent / "bin" / "spark-pipelines").exists():
        pytest.skip("Spark has declarative pipelines from 4.1 on")
    for needed in ("pandas", "grpc", "grpc_status", "zstandard", "yaml"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"Spark's pipelines need {needed}: install panestream[connect] and pyyaml")
    shutil.copytree(EXAMPLE, tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    home, clicks = tmp_path / "pipeline", tmp_path / "clicks"
    clicks.mkdir()
    spec = home / "spark-pipeline.yml"
    text = spec.read_text("utf-8").replace("/tmp/panestream-pipeline", str(tmp_path))
    spec.write_text(text, "utf-8")

    put(clicks, 1, ("ann", 1.0, 1), ("ann", 2.0, 2), ("bob", 3.0, 5), ("ann", 4.0, 17))
    said = pipeline(home, "run")
    assert "PanestreamWarning" not in said
    # The watermark is 12. One window of each user is over, and the window with second 17 stays open.
    first = [("ann", 2, 3.0), ("bob", 1, 3.0)]
    assert table(home, "clicks_per_user", "user", "clicks", "revenue") == first
    # The watermark is 17, so three sessions are over: from second 1 to 7, 5 to 10, and the one with second 17 stays open.
    assert table(home, "user_sessions", "user", "clicks", "revenue") == [("ann", 2, 3.0), ("bob", 1, 3.0)]

    put(clicks, 2, ("ann", 7.0, 3), ("ann", 5.0, 18), ("zoe", 9.0, 40))
    pipeline(home, "run")
    # The open window kept its row from the first run. The click of second 3 is late, since the watermark was restored.
    both = sorted([*first, ("ann", 2, 9.0)])
    assert table(home, "clicks_per_user", "user", "clicks", "revenue") == both
    assert table(home, "late_clicks", "user", "price") == [("ann", 7.0)]
    assert late_files(tmp_path) == [("ann", 7.0)]
    # The click of second 3 extends the first session from [1, 7) to [1, 8), so the first result is deleted.
    changed = table(home, "session_changes", "user", "op", "clicks", "revenue")
    assert changed == [
        ("ann", "delete", 2, 3.0),
        ("ann", "insert", 2, 3.0),
        ("ann", "insert", 2, 9.0),
        ("ann", "insert", 3, 10.0),
        ("bob", "insert", 1, 3.0),
    ]
    valid = [("ann", 2, 9.0), ("ann", 3, 10.0), ("bob", 1, 3.0)]
    assert table(home, "user_sessions", "user", "clicks", "revenue") == valid
    assert table(home, "revenue_per_user", "user", "clicks", "revenue") == [("ann", 4, 12.0), ("bob", 1, 3.0)]

    pipeline(home, "run", "--full-refresh-all")
    # In one run, no row is late, because the watermark has its initial value while the rows arrive.
    anew = sorted([("ann", 3, 10.0), ("bob", 1, 3.0), ("ann", 2, 9.0)])
    assert table(home, "clicks_per_user", "user", "clicks", "revenue") == anew
    assert table(home, "late_clicks", "user", "price") == []
    assert table(home, "user_sessions", "user", "clicks", "revenue") == valid
    assert table(home, "revenue_per_user", "user", "clicks", "revenue") == [("ann", 5, 19.0), ("bob", 1, 3.0)]
