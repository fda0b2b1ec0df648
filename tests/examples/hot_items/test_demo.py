"""The folder, job file and ranking of the demo, without Spark."""

from __future__ import annotations

import json
from io import StringIO
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from hot_items.demo import JOB_FILE, MARKER, Demo, prepare
from panestream.errors import JobError
from panestream.jobs.loading import load_job


@pytest.fixture
def prepare_demo(tmp_path):
    def make(**settings):
        settings = {"rows": 1_000, "files": 4, "output": tmp_path / "out", **settings}
        return prepare(Demo(**settings), Console(file=StringIO()))

    return make


def test_demo_writes_clicks_and_a_valid_job_file(prepare_demo, tmp_path):
    prepared = prepare_demo()
    assert len(list((tmp_path / "out" / "clicks").iterdir())) == 4
    assert prepared.job_file == tmp_path / "out" / JOB_FILE
    assert load_job(prepared.job_file).job.sinks.main.path == str(tmp_path / "out" / "main")
    assert set(prepared.expected) == {"invalid"}
    assert set(prepare_demo(files=24).expected) == {"late", "invalid"}
    assert f"panestream run {tmp_path / 'out' / JOB_FILE}" in (tmp_path / "out" / JOB_FILE).read_text()


def test_second_run_of_the_demo_starts_fresh_and_leaves_other_files(prepare_demo, tmp_path):
    prepare_demo()
    (tmp_path / "out" / "checkpoint").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    prepare_demo(rows=2_000, files=3)
    assert not (tmp_path / "out" / "checkpoint").exists()
    assert len(list((tmp_path / "out" / "clicks").iterdir())) == 3
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def test_keep_option_resumes_an_earlier_demo(prepare_demo, tmp_path):
    first = prepare_demo()
    (tmp_path / "out" / "checkpoint").mkdir()
    assert prepare_demo(keep=True).expected == first.expected
    assert (tmp_path / "out" / "checkpoint").exists()
    with pytest.raises(JobError, match=r"--keep: .* was made with other settings"):
        prepare_demo(keep=True, rows=5_000)


@pytest.mark.full
def test_keep_option_starts_fresh_after_an_unfinished_preparation(prepare_demo, tmp_path):
    prepare_demo(keep=True)
    (tmp_path / "out" / MARKER).write_text(json.dumps({"finished": False}))
    (tmp_path / "out" / JOB_FILE).unlink()
    prepare_demo(keep=True)
    assert (tmp_path / "out" / JOB_FILE).exists()


def test_demo_refuses_a_folder_with_foreign_files(prepare_demo, tmp_path):
    (tmp_path / "out" / "main").mkdir(parents=True)
    with pytest.raises(JobError, match="holds something that no demo made"):
        prepare_demo()
    assert (tmp_path / "out" / "main").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(JobError, match="is a file"):
        prepare_demo(output=tmp_path / "file")


def test_demo_accepts_a_file_of_clicks(prepare_demo, tmp_path):
    (tmp_path / "in.csv").write_text("".join(f"1,{item},3,pv,{1_511_658_000 + item}\n" for item in range(10)))
    prepared = prepare_demo(input=tmp_path / "in.csv")
    assert prepared.expected == {}
    assert len(list((tmp_path / "out" / "clicks").iterdir())) == 4


def test_ranking_has_a_line_for_each_fired_window(prepare_demo, tmp_path):
    prepared = prepare_demo()
    folder = tmp_path / "out" / "main" / "batch_id=5"
    folder.mkdir(parents=True)
    ends = [1_762_851_600, 1_762_851_600, 1_762_851_900]
    table = pa.table(
        {
            "item_id": [12, 7, 7],
            "window_end": pa.array([end * 1_000_000_000 for end in ends], pa.timestamp("ns")),  # as Spark writes them
            "views": [30, 120, 99],
            "rank": [2, 1, 1],
        }
    )
    pq.write_table(table, folder / "part-0.parquet")
    progress = SimpleNamespace(batch_id=5, fired_rows=3)
    assert [line.plain for line in prepared.ranking(progress)] == [
        "to 17:00   1.       7    120   2.      12     30",
        "to 17:05   1.       7     99",
    ]
    assert list(prepared.ranking(SimpleNamespace(batch_id=6, fired_rows=0))) == []
