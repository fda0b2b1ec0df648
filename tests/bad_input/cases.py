"""The cases of bad input. Their outcomes make up ``docs/reference/bad-input.md``."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bad_input.room import Case

T0 = "TIMESTAMP'2026-01-01 00:00:00Z'"
MICROS = 1_767_225_600_000_000
CLOSING = f"('z', {T0} + INTERVAL 1 HOUR, 0L)"
"""A row that ends all other windows, while its own window waits."""
INVALID_OPTION = "`.side_output_invalid(tag)`, `event_time.invalid` of a job file"


def values(*rows: str) -> str:
    return f"SELECT * FROM VALUES {', '.join(rows)} AS rows(user, at, n)"


def timed(name: str, time: str, option: str = INVALID_OPTION, **more: Any) -> list[Case]:
    """Pair a row of this time with a valid row. The case runs without and with an output for invalid rows."""
    rows = values(f"('a', {T0}, 1L)", f"('a', {time}, 2L)", CLOSING)
    return [
        Case(name, option, rows, **more),
        Case(
            f"{name}, with `side_output_invalid`",
            "",
            rows,
            query={**more.get("query", {}), "invalid": True},
            waiting=1,
            counted=3,
        ),
    ]


def numbered(name: str, *numbers: str, option: str = "", counted: int | None = None, quick: bool = False) -> Case:
    """Sum rows with these numbers."""
    rows = [f"('a', {T0}, {number})" for number in numbers]
    kind = f"('z', {T0} + INTERVAL 1 HOUR, NULL)"
    return Case(name, option, values(*rows, kind), waiting=1, counted=counted and counted + 1, quick=quick)


def keyed(name: str, key: str, count: int = 1, **more: Any) -> Case:
    """Use rows with this key, and a row one hour later."""
    rows = [*[f"({key}, {T0}, 1L)"] * count, f"({key}, {T0} + INTERVAL 1 HOUR, 0L)"]
    return Case(name, "", values(*rows), waiting=1, counted=count + 1, **more)


def seconds(name: str, time: str, kind: str = "DOUBLE", **more: Any) -> Case:
    """Use numbers of seconds as times."""
    rows = f"SELECT 'a' AS user, CAST({time} AS {kind}) AS at, 1L AS n"
    return Case(name, INVALID_OPTION, rows, query={"unit": "seconds"}, **more)


# -- files -----------------------------------------------------------------------------------------------------------------

_number = iter(range(10**6))


def _put(file: Path, data: bytes) -> None:
    """Write a file with the next modification time, because Spark reads files in the order of these times."""
    file.write_bytes(data)
    time = 1_700_000_000 + next(_number)
    os.utime(file, (time, time))


def parquet(here: Path, name: str, columns: Mapping[str, Sequence[Any]], **types: pa.DataType) -> None:
    """Write a Parquet file. A column ``at`` has seconds of the first hour of 2026."""
    arrays = {}
    for column, rows in columns.items():
        if column == "at" and column not in types:
            arrays[column] = pa.array([MICROS + 1_000_000 * row for row in rows], pa.timestamp("us", "UTC"))
        else:
            arrays[column] = pa.array(rows, types.get(column))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink)
    _put(here / f"{name}.parquet", sink.getvalue().to_pybytes())


def good(here: Path, name: str = "1-good", at: int = 0) -> None:
    parquet(here, name, {"user": ["a", "a"], "at": [at, at + 1], "n": [1, 2]})


def closing(here: Path) -> None:
    parquet(here, "9-closing", {"user": ["z"], "at": [3600], "n": [0]})


SCHEMA = "user STRING, at TIMESTAMP, n BIGINT"


def of_parquet(reader: Any, here: Path) -> Any:
    return reader.schema(SCHEMA).parquet(str(here))


def one_by_one(reader: Any, here: Path) -> Any:
    return reader.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(here))


def text_of(kind: str, schema: str = SCHEMA, **options: Any) -> Any:
    def read(reader: Any, here: Path) -> Any:
        return reader.schema(schema).format(kind).options(**options).load(str(here))

    return read


def csv_with(*lines: str) -> Any:
    whole = ["a,2026-01-01T00:00:00Z,1", *lines, "z,2026-01-01T01:00:00Z,0"]
    return lambda here: _put(here / "1.csv", "\n".join(whole).encode() + b"\n")


def json_with(*lines: str) -> Any:
    whole = ['{"user": "a", "at": "2026-01-01T00:00:00Z", "n": 1}', *lines, '{"user": "z", "at": "2026-01-01T01:00:00Z", "n": 0}']
    return lambda here: _put(here / "1.json", "\n".join(whole).encode() + b"\n")


def cut_gzip(here: Path) -> None:
    lines = "".join(f"a,2026-01-01T00:00:{n % 60:02},{n}\n" for n in range(20_000))
    data = gzip.compress(lines.encode())
    _put(here / "1.csv.gz", data[: len(data) // 2])


def cut_parquet(here: Path) -> None:
    good(here)
    data = (here / "1-good.parquet").read_bytes()
    _put(here / "2-cut.parquet", data[: len(data) // 2])


def two_and_closing(here: Path) -> None:
    good(here)
    good(here, "2-good", 10)
    closing(here)


def vanish(here: Path) -> None:
    """Delete the file before the stream resumes. Spark's log still lists it."""
    (here / "1-good.parquet").unlink()
    good(here, "2-good", 10)
    closing(here)


def with_later(**columns: Any) -> Any:
    """Write a later file whose columns differ from the first file's."""
    types = columns.pop("types", {})

    def later(here: Path) -> None:
        parquet(here, "2-later", columns, **types)
        closing(here)

    return later


LATER = {"user": ["b"], "at": [20], "n": [5]}
CHANGED = {"files": good, "read": of_parquet, "waiting": 1}

CASES: Mapping[str, Sequence[Case]] = {
    "Event times": [
        *timed("null", "CAST(NULL AS TIMESTAMP)", quick=True),
        Case(
            "the year 9999",
            "`WatermarkStrategy.max_ahead`",
            values(f"('a', {T0}, 1L)", "('a', TIMESTAMP'9999-12-31 23:59:59Z', 2L)"),
            waiting=1,
            counted=2,
            quick=True,
        ),
        Case(
            "the year 9999, with `max_ahead('1 hour')`",
            INVALID_OPTION,
            values(f"('a', {T0}, 1L)", "('a', TIMESTAMP'9999-12-31 23:59:59Z', 2L)"),
            query={"max_ahead": "1 hour"},
        ),
        Case(
            "the year 9999, with `max_ahead('1 hour')` and `side_output_invalid`",
            "",
            values(f"('a', {T0}, 1L)", "('a', TIMESTAMP'9999-12-31 23:59:59Z', 2L)"),
            query={"max_ahead": "1 hour", "invalid": True},
            waiting=1,
            counted=2,
        ),
        *timed("the year 294247, the last that Spark has", "TIMESTAMP'+294247-01-10 04:00:54Z'"),
        *timed("the smallest number, `timestamp_micros(-9223372036854775808)`", "timestamp_micros(-9223372036854775808L)"),
        Case(
            "before 1970, and before our era",
            "",
            values("('a', TIMESTAMP'1969-12-31 23:59:59Z', 1L)", "('b', TIMESTAMP'-0044-03-15 12:00:00Z', 2L)", CLOSING),
            waiting=1,
            counted=3,
        ),
        seconds("a number that is NaN, as seconds", "'NaN'"),
        seconds("an infinite number, as seconds", "'Infinity'", quick=True),
        seconds("a number too large, as seconds", "1e300"),
        seconds("the largest integer, as seconds", "9223372036854775807", "BIGINT"),
        Case(
            "a string that is not a time",
            "`try_to_timestamp`, and then as for null",
            "SELECT 'a' AS user, 'yesterday' AS text, 1L AS n",
            query={"time": "to_timestamp(text)"},
        ),
        Case(
            "a string that is not a time, read by `try_to_timestamp`",
            INVALID_OPTION,
            "SELECT 'a' AS user, 'yesterday' AS text, 1L AS n",
            query={"time": "try_to_timestamp(text)"},
        ),
    ],
    "Values": [
        numbered("null", "NULL", "1L", counted=2),
        numbered("NaN", "DOUBLE('NaN')", "1.0D", counted=2),
        numbered("infinite, of both signs", "DOUBLE('Infinity')", "DOUBLE('-Infinity')", counted=2),
        numbered(
            "a sum beyond BIGINT",
            "9223372036854775807L",
            "1L",
            option="`CAST(n AS DECIMAL(38, 0))`, or DOUBLE",
            quick=True,
        ),
        numbered(
            "a sum beyond DECIMAL(38, 0)",
            f"CAST('{'9' * 38}' AS DECIMAL(38, 0))",
            "CAST(1 AS DECIMAL(38, 0))",
            option="`CAST(n AS DOUBLE)`",
        ),
    ],
    "Keys": [
        keyed("null", "CAST(NULL AS STRING)"),
        keyed("empty", "''"),
        keyed("of a megabyte", "repeat('x', 1048576)", 3, quick=True),
        keyed("NaN", "DOUBLE('NaN')"),
        keyed("with a zero byte, and half a character", "concat('a', chr(0), CAST(X'FF' AS STRING))"),
    ],
    "Columns": [
        Case("missing: the time", "", "SELECT 'a' AS user, 1L AS n"),
        Case("renamed: the key", "", f"SELECT 'a' AS users, {T0} AS at, 1L AS n"),
        Case("of another type: a number as the time", "`unit=`", "SELECT 'a' AS user, 17L AS at, 1L AS n"),
        Case("of another type: words to sum", "", f"SELECT 'a' AS user, {T0} AS at, 'much' AS n"),
        Case("of another type: a map as the key", "", f"SELECT map('a', 1) AS user, {T0} AS at, 1L AS n"),
    ],
    "Files that appear later, with another schema": [
        Case("Parquet with another type: BIGINT becomes STRING", "", later=with_later(**{**LATER, "n": ["five"]}), **CHANGED),
        Case(
            "Parquet with a type that is wider: FLOAT becomes DOUBLE",
            "the schema of the reader",
            later=with_later(**{**LATER, "n": [5.5]}),
            **CHANGED,
        ),
        Case("Parquet with a column more", "", later=with_later(**LATER, more=[1]), counted=4, **CHANGED),
        Case("Parquet without the column that is summed", "", later=with_later(user=["b"], at=[20]), counted=4, **CHANGED),
        Case("Parquet without the time", INVALID_OPTION, later=with_later(user=["b"], n=[5]), quick=True, **CHANGED),
        Case(
            "Parquet with the time as a string",
            "",
            later=with_later(**{**LATER, "at": ["2026-01-01"]}, types={"at": pa.string()}),
            **CHANGED,
        ),
    ],
    "Files": [
        Case("an empty folder", "", files=lambda here: None, read=of_parquet, counted=0),
        Case("a CSV file of no bytes", "", files=lambda here: _put(here / "1.csv", b""), read=text_of("csv"), counted=0),
        Case("a Parquet file of no bytes", "", files=lambda here: _put(here / "1.parquet", b""), read=of_parquet),
        Case("a Parquet file that is cut", "", files=cut_parquet, read=of_parquet, quick=True),
        Case("a gzip file that is cut", "", files=cut_gzip, read=text_of("csv")),
        Case(
            "a file that vanishes after it was read",
            "",
            files=good,
            read=of_parquet,
            later=vanish,
            waiting=1,
            counted=5,
            batch=False,
        ),
        Case(
            "a file that vanishes between listing and reading",
            "",
            files=two_and_closing,
            read=one_by_one,
            meanwhile=lambda here: (here / "2-good.parquet").unlink(missing_ok=True),
        ),
        Case(
            "CSV, a line that cannot be read",
            "Spark's `mode`: `PERMISSIVE` makes nulls of it",
            files=csv_with("a,soon,much"),
            read=text_of("csv"),
        ),
        Case(
            "CSV, a line that cannot be read, with `side_output_invalid`",
            "",
            files=csv_with("a,soon,much"),
            read=text_of("csv"),
            query={"invalid": True},
            waiting=1,
            counted=3,
        ),
        Case(
            "CSV, `mode=FAILFAST`",
            "",
            files=csv_with("a,soon,much"),
            read=text_of("csv", mode="FAILFAST"),
        ),
        Case(
            "CSV, `mode=DROPMALFORMED`: Spark drops the line before panestream sees it",
            "`PERMISSIVE`, the default",
            files=csv_with("a,soon,much"),
            read=text_of("csv", mode="DROPMALFORMED"),
            waiting=1,
            counted=2,
        ),
        Case("JSON, a line that cannot be read", INVALID_OPTION, files=json_with('{"user": "a", "at'), read=text_of("json")),
        Case(
            "JSON, a line that cannot be read, with `side_output_invalid`",
            "",
            files=json_with('{"user": "a", "at'),
            read=text_of("json"),
            query={"invalid": True},
            waiting=1,
            counted=3,
        ),
    ],
}
