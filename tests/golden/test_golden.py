"""Checkpoints that earlier versions wrote, a folder for each format of state: they are shown as they were, and go on.

``python -m scripts.make_golden`` writes those of this version's format; once they are there they stay as they are.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from panestream.engine.storage.payload import FORMAT_VERSION
from panestream.testing import MicroBatches
from tests.golden.queries import KEPT, QUERIES, ROWS, SCHEMA
from tests.golden.shown import gone_on, shown_of, tables_of

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent for path in HERE.glob("state-*/*/values.json"))
TABLES = {"panes", "emitted", "purged", "sessions", "rows", "windows", "elements", "keys"}


def kept(folder: Path, name: str) -> dict:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def query_of(folder: Path) -> str:
    return folder.name.replace("_", " ")


def named(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


def test_there_are_files_of_this_format_for_each_query():
    assert {query_of(folder) for folder in FOLDERS if folder.parent.name == f"state-{FORMAT_VERSION}"} == set(QUERIES)


def test_every_table_of_every_operator_has_rows_in_some_file():
    rows: Counter = Counter()
    for folder in FOLDERS:
        plan, groups = tables_of(kept(folder, "values"))
        for tables in groups.values():
            for name, table in tables.tables.items():
                rows[plan.operator.name, name] += table.num_rows
    assert {name for _, name in rows} == TABLES
    assert min(rows.values()) > 0, rows


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_it_is_shown_as_it_was(folder):
    assert shown_of(kept(folder, "values")) == kept(folder, "shown")


@pytest.mark.spark
@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_it_goes_on(folder, spark, tmp_path):
    with tarfile.open(folder / "checkpoint.tar.gz") as packed:
        packed.extractall(tmp_path)
    # Spark knows the files of the first micro-batches by other paths: here are those that come after.
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)
    for batch in ROWS[KEPT:]:
        rows.add(batch)
    found = gone_on(QUERIES[query_of(folder)](rows.stream()), str(tmp_path / "checkpoint"), len(ROWS))
    assert found == kept(folder, "afterwards")
