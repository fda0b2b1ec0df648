"""Paths in the forms that users write, and places that must not overlap."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

import panestream as pst
from panestream.errors import InvalidPlanError, SinkError
from panestream.spark.places import check_apart, escaped, file_place, is_below, is_hidden, local_folder, path_of
from panestream.testing import MicroBatches


class Odd:
    """A path as bytes, which pathlib allows."""

    def __fspath__(self):
        return b"out"


@pytest.mark.parametrize(
    ("given", "path"),
    [("out", "out"), ("  out ", "  out "), ("s3://b/out", "s3://b/out"), (Path("out") / "late", "out/late"), ("é\x20", "é ")],
)
def test_paths_are_strings_or_pathlib_paths(given, path):
    assert path_of(given, "a sink needs a folder", SinkError) == path


@pytest.mark.parametrize("given", [None, 3, "", "  ", b"out", ["out"], "a\nb", "a\x1fb", "\x00", Odd()])
@pytest.mark.parametrize("error", [SinkError, InvalidPlanError])
def test_value_that_is_not_a_path_is_shown_in_the_error(given, error):
    with pytest.raises(error) as raised:
        path_of(given, "a sink needs a folder", error)
    assert str(raised.value) == f"a sink needs a folder; got {given!r}"


def test_address_as_a_pathlib_path_is_refused():
    with pytest.raises(SinkError) as raised:
        path_of(Path("hdfs://host/out"), "a sink needs a folder", SinkError)
    assert str(raised.value) == ("a sink needs a folder; pathlib has made 'hdfs:/host/out' of an address: give it as a string")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/data//x/../out/", "file:/data/out"),
        (" /data/out ", "file:/data/out"),
        ("file:/data/out", "file:/data/out"),
        ("FILE:///data/out/", "file:/data/out"),
        ("file://localhost/data/out", "file:/data/out"),
        ("S3A://Bucket/Out/", "s3a://bucket/Out"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket/", "s3a://bucket"),
        ("hdfs://Host:8020//a/./b/../c", "hdfs://host:8020/a/c"),
        ("hdfs:/a/b", "hdfs:///a/b"),
        ("abfss://c@acc.dfs/a%20b", "abfss://c@acc.dfs/a%20b"),
    ],
)
def test_folder_has_one_place_in_all_spellings(path, place):
    assert file_place(path) == place


def test_links_lead_to_one_place(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert file_place(str(tmp_path / "link")) == file_place(str(tmp_path / "real"))


@pytest.mark.parametrize(
    ("uri", "folder"),
    [
        ("file:/a%20b", Path("/a b")),
        ("File:///a", Path("/a")),
        ("file://host/a", Path("/a")),
        ("/a", None),
        ("s3://b/a", None),
    ],
)
def test_only_file_addresses_are_local_folders(uri, folder):
    assert local_folder(uri) == folder


def test_pattern_characters_in_paths_are_escaped():
    assert escaped(r"a*b?[c]{d}\e") == r"a\*b\?\[c\]\{d\}\\e"
    assert escaped("file:/plain-_.out") == "file:/plain-_.out"


@pytest.mark.parametrize(
    ("inner", "outer", "below"),
    [
        ("file:/out/late", "file:/out", True),
        ("file:/out/late", "file:/out/", True),
        ("file:/out/a/_late", "file:/out", True),
        ("file:/out/_late", "file:/out", False),
        ("file:/out/.late", "file:/out", False),
        ("file:/output", "file:/out", False),
        ("file:/out", "file:/out", False),
        ("file:/out", "file:/out/late", False),
        ("file:/out", "file:/", True),
    ],
)
def test_readers_of_a_folder_see_folders_below_it(inner, outer, below):
    assert is_below(inner, outer) is below


def test_hidden_names_are_those_that_spark_skips():
    assert [is_hidden(name) for name in ("_a", ".a", "a_", "a.b", "")] == [True, True, False, False, False]


NESTED = "readers of the outer folder would find files of the inner folder. Put them side by side"


@pytest.mark.parametrize(
    ("places", "checkpoint", "said"),
    [
        ({}, "/c", None),
        ({"main": "file:/out"}, None, None),
        ({"main": "file:/out"}, "/out/_checkpoint", None),
        ({"main": "file:/out", "late": "file:/out2"}, "/checkpoint", None),
        ({"main": "file:/out", "late": "file:/out/_late"}, None, None),
        (
            {"main": "file:/out", "seen": "file:/seen", "late": "file:/out"},
            None,
            (
                "the outputs 'main' and 'late' have one place, file:/out: each would replace or hide the other's rows. "
                "Give each output its own place"
            ),
        ),
        (
            {"main": "file:/out/in", "late": "file:/out"},
            None,
            f"the outputs 'main' and 'late' are nested (file:/out/in, file:/out): {NESTED}",
        ),
        (
            {"main": "file:/out", "late": "file:/out/in"},
            None,
            f"the outputs 'main' and 'late' are nested (file:/out, file:/out/in): {NESTED}",
        ),
        (
            {"main": "file:/out"},
            "/out/",
            f"the output 'main' and the checkpoint are nested (file:/out, file:/out): {NESTED}",
        ),
        (
            {"seen": "file:/other", "main": "file:/out/in"},
            "file:///out",
            f"the output 'main' and the checkpoint are nested (file:/out/in, file:/out): {NESTED}",
        ),
        (
            {"main": "file:/out"},
            "/out/checkpoint",
            f"the output 'main' and the checkpoint are nested (file:/out, file:/out/checkpoint): {NESTED}",
        ),
    ],
)
def test_overlapping_outputs_and_checkpoint_are_refused(places, checkpoint, said):
    if said is None:
        assert check_apart(places, checkpoint) is None
        return
    with pytest.raises(SinkError) as raised:
        check_apart(places, checkpoint)
    assert str(raised.value) == said


@pytest.mark.spark
@pytest.mark.parametrize("name", [r"in[1]{a,b}\d*?", "in 100% #1 %20"])
def test_query_reads_and_writes_below_a_folder_that_looks_like_a_pattern(spark, tmp_path, name):
    """Only Spark shows how its readers handle a path. They read input, signals and savepoints by patterns."""
    home = tmp_path / name
    rows = MicroBatches(spark, home / "in", "k string, at timestamp")
    rows.add([("a", datetime(2026, 1, 1, tzinfo=timezone.utc))]).add([("a", datetime(2026, 1, 1, 0, 2, tzinfo=timezone.utc))])
    assert rows.batch().count() == 2
    stream = pst.stream(rows.stream()).assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps())
    counts = stream.key_by("k").window(pst.TumblingEventTimeWindows.of("1 minute")).aggregate(pst.agg.count().alias("n"))
    query = counts.start(main=pst.FileSink(str(home / "out")), checkpoint=str(home / "checkpoint"), fire_at_end=True)
    query.await_termination()
    assert [row.n for row in spark.read.parquet(escaped(str(home / "out"))).collect()] == [1, 1]
