"""Checkpoints that earlier versions wrote, a folder for each format of state: they are shown as they were, and go on.

``python -m scripts.make_golden`` writes those of this version's format; once they are there they stay as they are.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from panestream.engine.savepoint.plans import PLAN_FORMAT
from panestream.engine.storage.payload import FORMAT_VERSION
from panestream.engine.storage.state_tables import TABLES_FORMAT
from panestream.spark.savepoint.manifest import SAVEPOINT_FORMAT
from panestream.testing import MicroBatches
from tests.golden.queries import QUERIES, ROWS, SCHEMA
from tests.golden.shown import gone_on, shown_of, tables_of

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("state-*/*.tar.gz"))
TABLES = {"panes", "emitted", "purged", "sessions", "rows", "windows", "elements", "keys"}


def kept(file: Path, name: str) -> dict:
    with tarfile.open(file) as packed:
        found = packed.extractfile(f"{name}.json")
        assert found is not None
        return json.load(found)


def query_of(file: Path) -> str:
    return file.name.removesuffix(".tar.gz").replace("_", " ")


def named(file: Path) -> str:
    return f"{file.parent.name}-{query_of(file)}"


def test_there_are_files_of_this_format_for_each_query():
    assert {query_of(file) for file in FILES if file.parent.name == f"state-{FORMAT_VERSION}"} == set(QUERIES)


def test_every_table_of_every_operator_has_rows_in_some_file():
    rows: Counter = Counter()
    for file in FILES:
        plan, groups = tables_of(kept(file, "values"))
        for tables in groups.values():
            for name, table in tables.tables.items():
                rows[plan.operator.name, name] += table.num_rows
    assert {name for _, name in rows} == TABLES
    assert min(rows.values()) > 0, rows


def test_the_page_of_the_format_has_every_version_table_and_column():
    page = (HERE.parents[1] / "docs" / "reference" / "state-format.md").read_text("utf-8")
    numbers = {"FORMAT_VERSION": FORMAT_VERSION, "TABLES_FORMAT": TABLES_FORMAT, "PLAN_FORMAT": PLAN_FORMAT}
    numbers["SAVEPOINT_FORMAT"] = SAVEPOINT_FORMAT
    missing = {name for name, number in numbers.items() if not re.search(rf"`{name}` .*\| {number} \|", page)}
    words = set(re.findall(r"`([^`]+)`", page))
    for file in FILES:
        _, groups = tables_of(kept(file, "values"))
        for tables in groups.values():
            columns = {column for table in tables.tables.values() for column in table.column_names}
            # "#2.sum" is told as "sum", "row 1" as "row n", "value total" as "value NAME"; a user's own partial by its type.
            told = {re.sub(r"^#\d+\.", "", re.sub(r"^(row|column) \d+$", r"\1 n", column)) for column in columns}
            told = {"value NAME" if column.startswith("value ") else column for column in told}
            missing |= {*tables.tables, *tables.header, *(told if query_of(file) != "two phases" else ())} - words
    assert not missing


@pytest.mark.parametrize("file", FILES, ids=named)
def test_it_is_shown_as_it_was(file):
    assert shown_of(kept(file, "values")) == kept(file, "shown")


@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=named)
def test_it_goes_on(file, spark, tmp_path):
    with tarfile.open(file) as packed:
        packed.extractall(tmp_path)
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)
    for batch in ROWS:
        rows.add(batch)
    # Spark wrote down where all this was when it was made: its input, and the schema of its state.
    checkpoint = tmp_path / "checkpoint"
    for log in (*checkpoint.glob("sources/0/*"), *checkpoint.glob("state/*/_metadata/**/*")):
        if log.is_file():
            told = re.sub(r"file:/[^\"]*/(in|checkpoint)/", tmp_path.as_uri() + r"/\1/", log.read_text("utf-8"))
            log.write_text(told, "utf-8")
    found = gone_on(QUERIES[query_of(file)](rows.stream()), str(checkpoint), len(ROWS))
    assert found == kept(file, "afterwards")
