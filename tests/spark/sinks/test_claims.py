"""Who owns a sink's folder, where the owner goes on while another query still claims it."""

from __future__ import annotations

import shutil

import pytest

import panestream as pst
from panestream.errors import EnvironmentNotReadyError, SinkError
from panestream.spark.sinks import claims
from panestream.spark.sinks.base import QueryRunInfo
from tests.spark.local_files import LocalFiles, leave_marker


def test_a_query_whose_claim_the_owner_has_swept_does_not_replace_the_owners_marker(tmp_path, monkeypatch):
    """The owner's first micro-batch deletes what lies among the attempts: the other finds no local claim of its own."""
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
    """What Python, Spark, or panestream for Spark say of a file that is gone."""
    if kind == "python":
        return FileNotFoundError(2, "No such file or directory", "part-0")
    error = EnvironmentNotReadyError("Spark cannot write out/_attempts/claim-ab")
    error.spark_error = FileNotFoundError("part-0")
    return error


@pytest.mark.parametrize("kind", ["python", "panestream"])
@pytest.mark.parametrize("step", ["write_marker", "list_files", "read_markers"])
def test_query_whose_claim_vanishes_in_any_step_is_told_whose_the_folder_is(tmp_path, monkeypatch, step, kind):
    """The owner goes on meanwhile, and sweeps all claims."""
    spark, sink = LocalFiles(), pst.ParquetSink(str(tmp_path / "out"))
    monkeypatch.setattr(claims, "write_marker", leave_marker)
    local_folder = claims.local_folder
    if step == "read_markers":  # this process does not see the folder, the owner's does
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
    """Java calls a file that it may not write "not found", too."""

    def fail(spark, path, marker):
        raise vanished("panestream")

    monkeypatch.setattr(claims, "write_marker", fail)
    with pytest.raises(EnvironmentNotReadyError, match="Spark cannot write"):
        claims.claim(LocalFiles(), str(tmp_path / "out"), "q", {"q"})
