"""What the README shows is true: its Python runs, its job file is a job, its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


SHAPES = ("reduced", "applied", "processed", "tables", "averaged")
LOOK = """
import json
found = {name: [list(row)[3:] for row in globals()[name].main.orderBy("user_id", "window_start").collect()] for name in %r}
open("found.json", "w").write(json.dumps(found, default=str))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path):
    query, functions = blocks("python")
    assert all(re.search(rf"^{name} = hours\.", functions, re.MULTILINE) for name in SHAPES)
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    # 40 clicks, one every five minutes.
    times = [start + timedelta(minutes=5 * n) for n in range(40)]
    table = pa.table(
        {"user_id": [n % 2 for n in range(40)], "price": [1.5] * 40, "ts": pa.array(times, pa.timestamp("us", tz="UTC"))}
    )
    (tmp_path / "clicks").mkdir()
    pq.write_table(table, tmp_path / "clicks" / "a.parquet")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([query, functions, LOOK % (SHAPES,)])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = pq.read_table(tmp_path / "out" / "main").to_pylist()
    # A full hour holds six clicks of each of the two users.
    assert {"user_id", "window_start", "window_end", "clicks", "revenue"} <= set(found[0])
    full = [row for row in found if row["window_start"] >= start.replace(tzinfo=row["window_start"].tzinfo)]
    assert full
    assert all((row["clicks"], row["revenue"]) == (6, 9.0) for row in full)
    # 40 clicks from midnight on are three full hours and 20 minutes: of each user six an hour, then two.
    shapes = json.loads((tmp_path / "found.json").read_text())
    hour = 3_600_000_000
    first = int(start.timestamp()) * 1_000_000
    assert [price for price, _ in shapes["reduced"]] == 8 * [1.5]
    assert shapes["applied"] == 2 * [[6, 1.5], [6, 1.5], [6, 1.5], [2, 1.5]]
    assert shapes["processed"] == 2 * [[first + hour * n] for n in (1, 2, 3, 4)]
    assert shapes["tables"] == 16 * [[1.5]]
    assert shapes["averaged"] == 8 * [[1.5]]


def test_the_job_file_of_the_readme_is_a_job(tmp_path):
    from panestream.jobs.loading import load_job

    path = tmp_path / "job.toml"
    (job,) = blocks("toml")
    path.write_text(job)
    (tmp_path / "data" / "clicks").mkdir(parents=True)
    load_job(path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    assert not [page.name for page in folder.glob("[0-9]*.md") if page.name not in listed]
