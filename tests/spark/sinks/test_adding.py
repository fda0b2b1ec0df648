"""A sink is one file. A query opens and guards it like the built-in ones, and nothing lists it. See CONTRIBUTING."""

from __future__ import annotations

import importlib

import pytest

import panestream as pst
from panestream.errors import SinkError

LINES_SINK = '''
from dataclasses import dataclass
from pathlib import Path

from panestream.spark.places import file_place
from panestream.spark.sinks.base import Sink


@dataclass(frozen=True)
class LinesSink(Sink):
    """A text file for each micro-batch."""

    folder: str

    def place(self, spark):
        return file_place(self.folder)

    def write(self, df, batch_id):
        lines = sorted(str(tuple(row)) for row in df.select("user", "n").collect())
        Path(self.folder, f"{batch_id}.txt").write_text("\\n".join(lines))

    def describe(self):
        return f"lines {self.folder}"
'''


@pytest.fixture
def lines_sink(tmp_path, monkeypatch):
    (tmp_path / "lines_sink.py").write_text(LINES_SINK)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("lines_sink").LinesSink


@pytest.mark.spark
def test_new_sink_in_one_file_works_and_is_guarded(spark, tmp_path, lines_sink):
    (tmp_path / "out").mkdir()
    rows = spark.sql("SELECT * FROM VALUES ('ann', TIMESTAMP '2025-01-01'), ('ann', TIMESTAMP '2025-01-01') AS t(user, ts)")
    stream = pst.stream(rows).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    windows = stream.key_by("user").window(pst.TumblingEventTimeWindows.of("1 hour")).side_output_late_data("late")
    result = windows.aggregate(pst.agg.count().alias("n"))
    sink = lines_sink(str(tmp_path / "out"))
    result.run(main=sink)
    assert (tmp_path / "out" / "None.txt").read_text() == "('ann', 2)"
    # It is guarded like the others: two outputs cannot share a place.
    with pytest.raises(SinkError, match="'main' and 'late' have one place"):
        result.run(main=sink, late=sink)
