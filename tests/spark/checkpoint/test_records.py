"""Valid and invalid markers, the errors about invalid ones, and who reads and writes them. Without Spark's JVM."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from zlib import crc32

import pytest
from pyspark.errors import AnalysisException, PySparkException

from panestream.errors import EnvironmentNotReadyError, StateDamagedError, StateFormatError
from panestream.spark.checkpoint import records
from panestream.spark.checkpoint.records import (
    _decoded,
    _is_missing,
    _tail,
    folder_here,
    list_files,
    read_markers,
    write_marker,
)
from panestream.spark.places import escaped
from tests.spark.local_files import LocalFiles
from tests.spark.plain_files import PlainSpark

DO = "put back a copy"


def text_of(marker, checksum=None):
    """Return a marker as written: names in order, with a checksum of everything else."""
    told = json.dumps(marker, sort_keys=True).encode()
    return json.dumps({**marker, "crc32": crc32(told) if checksum is None else checksum}, sort_keys=True).encode()


@pytest.mark.parametrize("marker", [{"format": 1}, {"format": 1, "b": [1, {"x": None}], "a": "é"}, {"format": 0, "a": 1}])
def test_marker_is_read_as_written(marker):
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
def test_incomplete_marker_is_refused(content, kind, said):
    with pytest.raises(kind) as error:
        _decoded(content, "/c/m", DO)
    assert str(error.value) == said
    assert type(error.value) is kind


def test_marker_is_read_by_its_address_and_overwritten(tmp_path, monkeypatch):
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


def test_marker_is_one_line_with_sorted_names_and_a_checksum(tmp_path, monkeypatch):
    spark, made = PlainSpark(monkeypatch), []
    plain_range = spark.range

    def range_of(rows):
        select = plain_range(rows).select

        def selected(column):
            written = select(column)
            coalesce = written.coalesce
            return SimpleNamespace(coalesce=lambda parts: made.append((rows, parts)) or coalesce(parts))

        return SimpleNamespace(select=selected)

    monkeypatch.setattr(spark, "range", range_of)
    write_marker(spark, str(tmp_path / "m"), {"z": 1, "a": [2]})
    told = '{"a": [2], "format": 1, "z": 1}'
    assert made == [(1, 1)]
    (file,) = (tmp_path / "m").iterdir()
    assert file.read_text() == f'{{"a": [2], "crc32": {crc32(told.encode())}, "format": 1, "z": 1}}\n'


def sees_no_temporary_files(monkeypatch):
    monkeypatch.setattr(records.tempfile, "NamedTemporaryFile", lambda: nullcontext(SimpleNamespace(name="/elsewhere/a")))


def without_jobs(monkeypatch, application):
    """A session of an application, which may list and read files, and which runs no job."""
    spark = PlainSpark(monkeypatch, **{"spark.app.id": application})
    spark.range = None
    return spark


def test_marker_of_a_path_that_spark_sees_as_this_process_does_takes_no_job(tmp_path, monkeypatch):
    spark = without_jobs(monkeypatch, "same machine")
    for place in (f"{tmp_path}/a b%20[c]", f"file:{tmp_path}/d", f"file://{tmp_path}/e"):
        assert read_markers(spark, f"{escaped(place)}/part-*", DO) == {}
        write_marker(spark, place, {"n": 1})
        assert list(read_markers(spark, f"{escaped(place)}/part-*", DO).values()) == [{"format": 1, "n": 1}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b%20[c]", "d", "e"]


@pytest.mark.parametrize("place", ["{}/m", "file:{}/m"])
def test_marker_is_written_by_spark_if_spark_sees_other_files(place, tmp_path, monkeypatch):
    sees_no_temporary_files(monkeypatch)
    spark = PlainSpark(monkeypatch, **{"spark.app.id": f"another machine {place}"})
    path = place.format(tmp_path)
    assert folder_here(spark, path) is None
    write_marker(spark, path.removeprefix("file:"), {"n": 1})
    assert [file.name for file in (tmp_path / "m").iterdir()] == ["part-00000.txt"]


@pytest.mark.parametrize("path", ["m", "runs/m", "hdfs://host/m", "s3:/m", "file:m", ""])
def test_path_that_spark_resolves_by_itself_is_not_looked_up_here(path, monkeypatch):
    assert folder_here(without_jobs(monkeypatch, "same machine"), path) is None


def test_connect_client_does_not_look_for_files_of_the_server(tmp_path, monkeypatch):
    spark = without_jobs(monkeypatch, "same machine")
    assert folder_here(spark, str(tmp_path)) == tmp_path.resolve()
    monkeypatch.setattr(records, "is_connect", lambda spark: True)
    assert folder_here(spark, str(tmp_path)) is None


def test_folder_that_does_not_exist_has_no_files_and_spark_is_not_asked(tmp_path, monkeypatch):
    spark = without_jobs(monkeypatch, "same machine")
    assert folder_here(spark, str(tmp_path)) is not None
    monkeypatch.setattr(records, "_reader", None)
    assert list_files(spark, f"{tmp_path}/none/*/part-*") == []
    with pytest.raises(TypeError):
        list_files(spark, f"{tmp_path}/*/part-*")


def reader_that_fails(monkeypatch, error):
    """A session that finds a marker but cannot read its content."""

    class Session:
        conf = LocalFiles.conf
        read = property(lambda self: self)

        def format(self, kind):
            self.kind = kind
            return self

        def option(self, name, value):
            return self

        def load(self, paths):
            return self

        def inputFiles(self):  # noqa: N802 (Spark's name)
            return ["file:/c/m/part-0"]

        def where(self, condition):
            return self

        def select(self, *columns):
            assert (self.kind, columns) == ("binaryFile", ("path", "content"))
            return self

        def collect(self):
            raise error

    return Session()


def test_marker_that_spark_cannot_read_counts_as_damaged(monkeypatch):
    error = PySparkException("[FAILED_READ_FILE] Checksum error: file:/c/m/part-0 at 0.\nat org.apache...\nat java...")
    with pytest.raises(StateDamagedError) as damaged:
        read_markers(reader_that_fails(monkeypatch, error), "/c/m/part-*", DO)
    text = str(damaged.value)
    assert text.startswith("a marker of /c/m/part-* cannot be read: put back a copy (")
    assert "Checksum error: file:/c/m/part-0 at 0" in text
    assert "org.apache" not in text
    assert damaged.value.spark_error is error
    assert damaged.value.__suppress_context__


@pytest.mark.parametrize(
    "error",
    [OSError("full"), KeyboardInterrupt(), ValueError("x"), PySparkException("SparkContext was shut down")],
    ids=["of files", "of the user", "of values", "of Spark that has ended"],
)
def test_unrelated_error_while_reading_a_marker_is_raised(monkeypatch, error):
    with pytest.raises(type(error)) as raised:
        read_markers(reader_that_fails(monkeypatch, error), "/c/m/part-*", DO)
    assert raised.value is error


class Refusing:
    """A session whose readers raise."""

    conf = LocalFiles.conf

    def __init__(self, error):
        self.error, self.read = error, self

    def format(self, kind):
        return self

    def option(self, name, value):
        return self

    def load(self, paths):
        assert paths == ["/c/*", "/c/*"]
        raise self.error


def test_missing_path_means_no_files_and_other_errors_are_raised():
    missing, other = AnalysisException("[PATH_NOT_FOUND] /c/*"), AnalysisException("[OTHER] no")
    assert list_files(Refusing(missing), "/c/*") == []
    assert (_is_missing(missing), _is_missing(other)) == (True, False)
    with pytest.raises(AnalysisException, match=r"\[OTHER\]"):
        list_files(Refusing(other), "/c/*")
    with pytest.raises(OSError, match="full"):
        list_files(Refusing(OSError("full")), "/c/*")


@pytest.mark.parametrize("recursive", [False, True])
def test_files_in_subfolders_are_listed_if_recursive(recursive):
    asked = {}

    class Session:
        conf = LocalFiles.conf
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


def test_two_spellings_of_an_address_have_one_folder_and_file():
    assert _tail("file:/c/x/a/part-0") == _tail("file:///c/x/a/part-0") == "a/part-0"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "Mkdirs failed to create file:/ro/a",
            "Spark may not use a file or folder. Give the user .* (Mkdirs failed to create file:/ro/a)",
        ),
        ("x\nCaused by: chmod: cannot access '/ro/a'", "x"),
    ],
)
def test_marker_that_cannot_be_written_is_refused_in_one_line(said, why, monkeypatch):
    spark, error = PlainSpark(monkeypatch), PySparkException(said)

    def refuse(rows):
        raise error

    spark.range = refuse
    with pytest.raises(EnvironmentNotReadyError) as refused:
        write_marker(spark, "/ro/a", {"n": 1})
    assert str(refused.value).startswith(f"Spark cannot write /ro/a: {why.partition('.*')[0]}")
    assert str(refused.value).endswith(why.partition(".*")[2])
    assert len(str(refused.value).splitlines()) == 1
    assert refused.value.spark_error is error


def test_error_outside_of_spark_while_writing_a_marker_is_raised(monkeypatch):
    spark = PlainSpark(monkeypatch)
    for error in (ValueError("mine"), PySparkException("SparkContext was shut down")):
        with monkeypatch.context() as patched:
            patched.setattr(spark, "range", lambda rows, error=error: (_ for _ in ()).throw(error), raising=False)
            with pytest.raises(type(error)) as raised:
                write_marker(spark, "/ro/a", {})
        assert raised.value is error


def test_connect_server_gets_a_query_before_a_failing_question_about_files(monkeypatch):
    """The server logs the stack of a question that fails, but not of a query."""
    asked = []

    def collect():
        asked.append("run")
        raise AnalysisException("[PATH_NOT_FOUND] nothing is there")

    files = SimpleNamespace(limit=lambda rows: SimpleNamespace(collect=collect), inputFiles=lambda: asked.append("question"))
    monkeypatch.setattr(records, "_reader", lambda *told: files)
    monkeypatch.setattr(records, "is_connect", lambda spark: True)
    assert list_files("a session", "/c/*") == []
    assert asked == ["run"]
