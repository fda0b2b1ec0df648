"""Checkpoints and savepoints of earlier versions, one folder for each state format, can still be inspected and resumed.

``python -m scripts.make_golden`` writes the files of the current format. It never replaces an existing file.
"""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from panestream.engine.savepoint.plans import PLAN_FORMAT, plan_of
from panestream.engine.storage.payload import FORMAT_VERSION
from panestream.engine.storage.sealed_state import SEAL_VERSION
from panestream.engine.storage.state_tables import TABLES_FORMAT
from panestream.errors import PanestreamError, PanestreamWarning
from panestream.spark.savepoint.manifest import CHAIN_FORMAT, SAVEPOINT_FORMAT
from panestream.testing import MicroBatches
from scripts import make_golden
from tests.golden.files import CHECKPOINTS, HERE, SAVEPOINTS, query_of, read_json, unpack_checkpoint
from tests.golden.queries import KEPT, QUERIES, ROWS, SCHEMA, over
from tests.golden.shown import outputs_after_resuming, shown_of, tables_of

TABLES = {"panes", "emitted", "purged", "sessions", "rows", "windows", "elements", "keys"}
TABLES |= {"waiting", "history", "steps", "left", "right"}


def named(file: Path) -> str:
    return f"{file.parent.name}-{query_of(file)}"


def has_checksums(file: Path) -> bool:
    return file.parent.name.endswith("-with-checksums")


def test_every_query_has_a_checkpoint_of_the_current_format():
    assert {query_of(file) for file in CHECKPOINTS if file.parent.name == f"state-{SEAL_VERSION}"} == set(QUERIES)


def test_every_table_of_every_operator_has_rows_in_some_file():
    rows: Counter = Counter()
    for file in CHECKPOINTS:
        plan, groups = tables_of(read_json(file, "values"))
        for tables in groups.values():
            for name, table in tables.tables.items():
                rows[plan.operator.name, name] += table.num_rows
    assert {name for _, name in rows} == TABLES
    assert min(rows.values()) > 0, rows


def test_page_of_state_format_names_every_version_table_and_column():
    page = (HERE.parents[1] / "docs" / "reference" / "state-format.md").read_text("utf-8")
    numbers = {
        "SEAL_VERSION": SEAL_VERSION,
        "FORMAT_VERSION": FORMAT_VERSION,
        "TABLES_FORMAT": TABLES_FORMAT,
        "PLAN_FORMAT": PLAN_FORMAT,
    }
    numbers |= {"SAVEPOINT_FORMAT": SAVEPOINT_FORMAT, "CHAIN_FORMAT": CHAIN_FORMAT}
    missing = {name for name, number in numbers.items() if not re.search(rf"`{name}` .*\| {number} \|", page)}
    words = set(re.findall(r"`([^`]+)`", page))
    for file in CHECKPOINTS:
        _, groups = tables_of(read_json(file, "values"))
        for tables in groups.values():
            columns = {column for table in tables.tables.values() for column in table.column_names}
            # The page writes "#2.sum" as "sum", "row 1" as "row n", and "value total" as "value NAME". It describes a user's
            # partial by its type.
            told = {re.sub(r"^#\d+\.", "", re.sub(r"^(row|column) \d+$", r"\1 n", column)) for column in columns}
            told = {"value NAME" if column.startswith("value ") else column for column in told}
            missing |= {*tables.tables, *tables.header, *(told if query_of(file) != "two phases" else ())} - words
    assert not missing


@pytest.mark.parametrize("file", CHECKPOINTS, ids=named)
def test_state_views_of_old_checkpoint_are_unchanged(file):
    assert shown_of(read_json(file, "values")) == read_json(file, "shown")


@pytest.mark.spark
@pytest.mark.parametrize("file", CHECKPOINTS, ids=named)
def test_query_resumes_from_old_checkpoint(file, spark, tmp_path):
    checkpoint = unpack_checkpoint(file, tmp_path)
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)
    for batch in ROWS:
        rows.add(batch)
    found = outputs_after_resuming(over(rows, query_of(file)), str(checkpoint), len(ROWS))
    assert found == read_json(file, "afterwards")


def test_every_operator_has_a_savepoint_of_the_current_format():
    operators = {plan_of(read_json(file, "values")["plan"]).operator.name for file in CHECKPOINTS}
    folders = {"": make_golden.BEFORE_CHECKSUMS, "-with-checksums": make_golden.OF_EACH_OPERATOR}
    for folder, queries in folders.items():
        of_this_kind = [file for file in SAVEPOINTS if file.parent.name == f"savepoint-{SAVEPOINT_FORMAT}{folder}"]
        assert sorted(query_of(file) for file in of_this_kind) == sorted(queries)
    assert {plan_of(read_json(file, "plan")).operator.name for file in SAVEPOINTS if has_checksums(file)} == operators


@pytest.mark.parametrize("file", SAVEPOINTS, ids=named)
def test_savepoint_with_checksums_has_one_for_each_file(file):
    with tarfile.open(file) as packed:
        names = packed.getnames()
        (manifest,) = [name for name in names if name.startswith("savepoint/manifest/part-")]
        text = packed.extractfile(manifest).read().decode()
    files = [name for name in names if name.endswith(".parquet")]
    assert len(files) > 1
    assert all((Path(name).name in text) == has_checksums(file) for name in files)


@pytest.mark.spark
@pytest.mark.parametrize("file", SAVEPOINTS, ids=named)
def test_query_starts_from_old_savepoint_alone(file, spark, tmp_path):
    with tarfile.open(file) as packed:
        packed.extractall(tmp_path)
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)
    for batch in ROWS[KEPT:]:
        rows.add(batch)
    more = {"savepoint": str(tmp_path / "savepoint"), "source_offsets": "job"}
    # Savepoints from before checksums existed start too, with a warning.
    older = pytest.warns(
        PanestreamWarning, match="the savepoint .* does not have checksums, because an earlier panestream wrote it"
    )
    with nullcontext() if has_checksums(file) else older:
        found = outputs_after_resuming(over(rows, query_of(file)), str(tmp_path / "checkpoint"), len(ROWS) - KEPT, **more)
    assert found == read_json(file, "afterwards")


@pytest.mark.spark
def test_savepoint_with_a_changed_value_is_refused(spark, tmp_path):
    """Later versions must recompute the checksums that this version wrote."""
    (file,) = [file for file in SAVEPOINTS if has_checksums(file) and query_of(file) == "counts"]
    with tarfile.open(file) as packed:
        packed.extractall(tmp_path)
    changed = next(
        path for path in sorted((tmp_path / "savepoint" / "state").rglob("*.parquet")) if pq.read_metadata(path).num_rows
    )
    table = pq.read_table(changed)
    place = next(at for at, column in enumerate(table.schema) if pa.types.is_integer(column.type) and "group" not in column.name)
    more = pc.add(table.column(place), pa.scalar(1, table.schema.field(place).type))
    pq.write_table(table.set_column(place, table.schema.field(place), more), changed)
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)
    rows.add(ROWS[KEPT])
    more = {"savepoint": str(tmp_path / "savepoint"), "source_offsets": "job"}
    with pytest.raises(PanestreamError, match=f"{re.escape(changed.name)} was changed: it has another checksum"):
        outputs_after_resuming(over(rows, "counts"), str(tmp_path / "checkpoint"), 1, **more)
