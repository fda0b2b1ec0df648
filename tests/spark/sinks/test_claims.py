"""The owner of a sink's folder, if the owner continues while another query still claims the folder."""

from __future__ import annotations

import shutil

import pytest

import panestream as pst
from panestream.errors import EnvironmentNotReadyError, SinkError
from panestream.spark.sinks import claims
from panestream.spark.sinks.base import QueryRunInfo
from tests.spark.local_files import LocalFiles, leave_marker


def test_query_whose_claim_was_swept_does_not_replace_the_owners_marker(tmp_path, monkeypatch):
    """The owner's first micro-batch deletes leftover attempts, so the other query does not find its own local claim."""
    spark = LocalFiles()

    def overtaken(spark, path, marker):
        leave_marker(spark, path, marker)
        monkeypatch.setattr(claims, "write_marker", leave_marker)
        claims.claim(spark, str(tmp_path), "owner", {"owner"})
        shutil.rmtree(tmp_path / claims.ATTEMPTS)

    monkeypatch.setattr(claims, "write_marker", overtaken)
    found = claims.claim(spark, str(tmp_path), "late", {"late"})
    assert [one["query"] for one in found.values()] == ["owner"]
    assert claims.owners(spark, str(tmp_path)) == found


def vanished(kind):
    """Return the errors of Python, Spark and panestream for a missing file."""
    if kind == "python":
        return FileNotFoundError(2, "No such file or directory", "part-0")
    error = EnvironmentNotReadyError("Spark cannot write out/_attempts/claim-ab")
    error.spark_error = FileNotFoundError("part-0")
    return error


@pytest.mark.parametrize("kind", ["python", "panestream"])
@pytest.mark.parametrize("step", ["write_marker", "list_files", "read_markers"])
def test_error_of_query_whose_claim_vanishes_names_the_owner(tmp_path, monkeypatch, step, kind):
    """The owner continues meanwhile, and sweeps all claims."""
    spark, sink = LocalFiles(), pst.ParquetSink(str(tmp_path / "out"))
    monkeypatch.setattr(claims, "write_marker", leave_marker)
    local_folder = claims.local_folder
    if step == "read_markers":  # the owner's process sees the folder, but this process does not
        monkeypatch.setattr(claims, "local_folder", lambda address: None)
    intact = getattr(claims, step)

    def overtaken(spark, path, *more):
        if step == "read_markers" and "claim-" not in path:
            return intact(spark, path, *more)
        monkeypatch.setattr(claims, step, intact)
        monkeypatch.setattr(claims, "local_folder", local_folder)
        sink.open(spark, QueryRunInfo("owner", queries=frozenset({"owner"})))
        shutil.rmtree(tmp_path / "out" / claims.ATTEMPTS)
        raise vanished(kind)

    monkeypatch.setattr(claims, step, overtaken)
    with pytest.raises(SinkError, match="out holds the output of another query"):
        sink.open(spark, QueryRunInfo("late", queries=frozenset({"late"})))


def test_claim_that_vanishes_without_an_owner_is_an_error_of_the_sink(tmp_path, monkeypatch):
    def fail(spark, path, marker):
        raise vanished("python")

    monkeypatch.setattr(claims, "write_marker", fail)
    with pytest.raises(
        SinkError, match=r"out lost a file while this query claimed it .*Start again, or choose another directory"
    ):
        claims.claim(LocalFiles(), str(tmp_path / "out"), "q", {"q"})


def test_place_where_spark_cannot_write_stays_an_error_of_the_environment(tmp_path, monkeypatch):
    """Java also reports a file without write permission as "not found"."""

    def fail(spark, path, marker):
        raise vanished("panestream")

    monkeypatch.setattr(claims, "write_marker", fail)
    with pytest.raises(EnvironmentNotReadyError, match="Spark cannot write"):
        claims.claim(LocalFiles(), str(tmp_path / "out"), "q", {"q"})
