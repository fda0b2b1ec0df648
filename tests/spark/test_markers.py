"""What a marker must be to be believed, and what is said of one that is not: without Spark's JVM."""

from __future__ import annotations

import json
from types import SimpleNamespace
from zlib import crc32

import pytest
from pyspark.errors import AnalysisException

from panestream.errors import StateDamagedError, StateFormatError
from panestream.spark.markers import _decoded, _is_missing, _tail, list_files, read_markers, write_marker
from tests.spark.plain_files import PlainSpark

DO = "put back a copy"


def text_of(marker, checksum=None):
    """As a marker is written: in the order of names, its checksum over all else."""
    told = json.dumps(marker, sort_keys=True).encode()
    return json.dumps({**marker, "crc32": crc32(told) if checksum is None else checksum}, sort_keys=True).encode()


@pytest.mark.parametrize("marker", [{"format": 1}, {"format": 1, "b": [1, {"x": None}], "a": "é"}, {"format": 0, "a": 1}])
def test_a_marker_is_read_as_it_was_written(marker):
    assert _decoded(text_of(marker), "/c/m", DO) == marker


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (b"", StateDamagedError, "the marker /c/m is empty: put back a copy"),
        (b" \n", StateDamagedError, "the marker /c/m is empty: put back a copy"),
        (b'{"format": 1, "a', StateDamagedError, "the marker /c/m is cut off or no marker of panestream's: put back a copy"),
        (b"[" * 100_000, StateDamagedError, "the marker /c/m is cut off or no marker of panestream's: put back a copy"),
        (b"[1]", StateDamagedError, "the marker /c/m is cut off or no marker of panestream's: put back a copy"),
        (b"\xff\xfe", StateDamagedError, "the marker /c/m is cut off or no marker of panestream's: put back a copy"),
        (
            text_of({"format": 2, "a": 1}),
            StateFormatError,
            "the marker /c/m is of a newer panestream (format 2, this one knows 1): run that version",
        ),
        (
            text_of({"a": 1}),
            StateFormatError,
            "the marker /c/m is of a newer panestream (format None, this one knows 1): run that version",
        ),
        (
            text_of({"format": "1"}),
            StateFormatError,
            "the marker /c/m is of a newer panestream (format '1', this one knows 1): run that version",
        ),
        (text_of({"format": 1}, 7), StateDamagedError, "the marker /c/m was changed, its checksum is another: put back a copy"),
        (b'{"format": 1, "a": 1}', StateDamagedError, "the marker /c/m was changed, its checksum is another: put back a copy"),
    ],
)
def test_what_is_no_whole_marker_is_refused(content, kind, said):
    with pytest.raises(kind) as error:
        _decoded(content, "/c/m", DO)
    assert str(error.value) == said
    assert type(error.value) is kind


def test_what_was_written_is_read_by_its_address_and_written_over(tmp_path, monkeypatch):
    spark = PlainSpark(monkeypatch)
    folder = tmp_path / "of us"
    pattern = f"{folder}/*/part-*"
    assert read_markers(spark, pattern, DO) == {}
    write_marker(spark, str(folder / "a"), {"n": 1})
    write_marker(spark, str(folder / "b"), {"n": 2, "format": 1})
    write_marker(spark, str(folder / "a"), {"n": 3})
    found = read_markers(spark, pattern, DO)
    assert list(found.values()) == [{"format": 1, "n": 3}, {"format": 1, "n": 2}]
    assert [address.rsplit("/", 3)[1:3] for address in found] == [["of%20us", "a"], ["of%20us", "b"]]
    (folder / "b" / "part-00000.txt").write_text("")
    with pytest.raises(StateDamagedError, match=r"^the marker .*/of us/b/part-00000.txt is empty: put back a copy$"):
        read_markers(spark, pattern, DO)


class Refusing:
    """A session whose readers raise."""

    def __init__(self, error):
        self.error, self.read = error, self

    def format(self, kind):
        return self

    def option(self, name, value):
        return self

    def load(self, paths):
        assert paths == ["/c/*", "/c/*"]
        raise self.error


def test_nothing_is_there_where_spark_finds_no_path_and_all_else_is_an_error():
    missing, other = AnalysisException("[PATH_NOT_FOUND] /c/*"), AnalysisException("[OTHER] no")
    assert list_files(Refusing(missing), "/c/*") == []
    assert (_is_missing(missing), _is_missing(other)) == (True, False)
    with pytest.raises(AnalysisException, match=r"\[OTHER\]"):
        list_files(Refusing(other), "/c/*")
    with pytest.raises(OSError, match="full"):
        list_files(Refusing(OSError("full")), "/c/*")


@pytest.mark.parametrize("recursive", [False, True])
def test_folders_below_are_looked_into_where_that_is_wanted(recursive):
    asked = {}

    class Session:
        read = property(lambda self: self)

        def format(self, kind):
            asked["format"] = kind
            return self

        def option(self, name, value):
            asked[name] = value
            return self

        def load(self, paths):
            asked["paths"] = paths
            return SimpleNamespace(inputFiles=lambda: ("file:/c/a", "file:/c/b"))

    assert list_files(Session(), "/c/*", recursive) == ["file:/c/a", "file:/c/b"]
    told = {"format": "text", "recursiveFileLookup": "true" if recursive else "false", "paths": ["/c/*", "/c/*"]}
    assert asked == told


def test_two_spellings_of_an_address_are_one_by_folder_and_file():
    assert _tail("file:/c/x/a/part-0") == _tail("file:///c/x/a/part-0") == "a/part-0"
