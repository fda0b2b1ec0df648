"""The Python code of docs/how-to/delta.md runs from top to bottom."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.connectors import components

pytestmark = [pytest.mark.connectors, pytest.mark.delta]

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "delta.md").read_text("utf-8")


def test_delta_page_names_the_tested_release():
    assert components.DELTA["4.1"] in PAGE


def test_python_of_the_delta_page_runs(spark, tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 5
    monkeypatch.chdir(tmp_path)
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    times = pa.array([start + timedelta(minutes=10 * n) for n in range(400)], pa.timestamp("us", tz="UTC"))
    Path("clicks").mkdir()
    pq.write_table(pa.table({"user_id": [n % 2 for n in range(400)], "price": [2] * 400, "ts": times}), "clicks/a.parquet")
    names = {}
    tables = ("hours", "clicks_by_hour", "days", "prices", "pairs")
    # The session resolves relative paths itself, because Java's working directory is another folder.
    page = "\n".join(blocks).replace('"clicks")\ntimed', f'"{tmp_path}/clicks")\ntimed').replace('"out/', f'"{tmp_path}/out/')
    try:
        # The session exists already. Building it again would change the settings of the test session.
        exec(page.replace("pst.build_session(", "(lambda *_: session)("), {"session": spark, **names}, names)
        assert "main: table hours, exactly once" in capsys.readouterr().out
        # 400 clicks, one every ten minutes, complete 66 hours. Each hour has six clicks, three of each user.
        assert {row.clicks for row in spark.table("hours").collect()} == {3}
        assert spark.table("hours").count() == spark.table("clicks_by_hour").count() == 2 * 66
        assert sorted(map(tuple, spark.table("days").select("user_id", "clicks").collect())) == [
            (0, 72),
            (0, 72),
            (1, 72),
            (1, 72),
        ]
        assert [tuple(row)[-2:] for row in spark.table("pairs").collect()] == [(3, 4)]
    finally:
        for table in tables:
            spark.sql(f"DROP TABLE IF EXISTS {table}")
