"""A batch over files finds out by a sample whether Spark or Python reduces its rows. Results are the same either way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panestream as pst
from panestream import agg
from panestream.spark import row_density

pytestmark = pytest.mark.spark

SECOND = 1_000_000
ROWS = 20_000
KEYS = 1_000


def written(folder: Path, *, rows_per_second: int) -> str:
    """Write rows of 1,000 keys in the order of time, disordered by up to a second."""
    rng = np.random.default_rng(29)
    order = np.arange(ROWS) * SECOND // rows_per_second
    times = order + rng.integers(0, SECOND, ROWS)
    columns = {"key": rng.integers(0, KEYS, ROWS), "ts": times, "v": rng.integers(0, 9, ROWS)}
    path = folder / f"{rows_per_second}.parquet"
    pq.write_table(pa.table(columns), path)
    return str(path)


def windowed(rows: Any, **options: Any) -> Any:
    timed = pst.stream(rows).assign_timestamps("ts", pst.WatermarkStrategy.no_watermarks(), unit="microseconds")
    windows = timed.key_by("key").window(pst.tumbling("10 seconds")).options(key_groups=2, **options)
    return windows.aggregate(agg.sum("v").alias("total"))


BY_SPARK = "by Spark's own aggregation"


def sampled(result: Any) -> int:
    """Return the rows of a key in a pane that ``explain()`` shows."""
    found = re.search(r"by a sample of the files, a key has about (\d+) rows in a pane", str(result.explain()))
    assert found is not None
    return int(found.group(1))


def test_sample_of_files_chooses_who_reduces_the_rows(spark: Any, tmp_path: Path) -> None:
    # 10 seconds have 5,000 rows of 1,000 keys, or 50,000.
    few_rows, many_rows = (spark.read.parquet(written(tmp_path, rows_per_second=rate)) for rate in (500, 5_000))
    few, many = windowed(few_rows), windowed(many_rows)
    assert 4 <= sampled(few) <= 6
    assert 35 <= sampled(many) <= 70
    assert BY_SPARK not in str(few.explain())
    assert BY_SPARK in str(many.explain())
    rows = sorted(map(tuple, few.main.collect()))
    for others in (1, 99):
        assert rows == sorted(map(tuple, windowed(few_rows, rows_per_pane=others).main.collect()))
    assert len(rows) > KEYS


def test_rows_are_sampled_only_if_the_plan_does_nothing_but_read_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = spark.read.parquet(written(tmp_path, rows_per_second=500))
    behind_more = [files.where("v > 3"), files.distinct(), files.limit(15_000), spark.createDataFrame(files.toArrow())]
    asked: list[Any] = []
    monkeypatch.setattr(row_density, "rows_per_pane", lambda *given: asked.append(given))
    for rows in behind_more:
        assert "sample" not in str(windowed(rows).explain())
    assert "sample" not in str(windowed(files, rows_per_pane=5).explain())
    assert not asked
    windowed(files.withColumn("v", files.v + 1)).explain()
    assert len(asked) == 1


def test_sample_that_fails_leaves_the_error_to_the_query(spark: Any, tmp_path: Path) -> None:
    files = spark.read.parquet(written(tmp_path, rows_per_second=500))
    broken = windowed(files.selectExpr("key", "v", "if(v > 9, ts, raise_error('no time')) AS ts"))
    assert "sample" not in str(broken.explain())
    with pytest.raises(Exception, match="no time"):
        broken.main.collect()


def test_few_rows_are_not_judged(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "few.parquet"
    pq.write_table(pa.table({"key": [1, 2], "ts": [0, SECOND], "v": [1, 2]}), path)
    assert "sample" not in str(windowed(spark.read.parquet(str(path))).explain())
