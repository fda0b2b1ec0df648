"""The command of the kills: it finds a row that is missing or there twice, deals out what it was asked for, and kills."""

from __future__ import annotations

import copy
import json
from itertools import pairwise

import pytest

from tests.recovery.crashes.cells import Cell
from tests.recovery.crashes.queries import QUERIES, TARDY, clicks, settled, write_clicks

ROW = {"user": 1, "window_start": 0, "window_end": 60, "clicks": 2, "revenue": 9, "newest": 4}
FIRINGS = [{**ROW, "clicks": 1, "firing": "on_time", "firing_number": 0}, {**ROW, "firing": "late", "firing_number": 1}]
LATE = [{"user": TARDY, "n": 7, "price": 1, "ts": 5}]
EXPECTED = {"main": FIRINGS, "late": LATE, "batch": [ROW]}


def difference(sink, operator="panes", **found):
    cell = Cell("worker", operator, sink, 1)
    cell.compare({**copy.deepcopy(EXPECTED), **found}, EXPECTED)
    return cell.difference


def test_the_same_rows_are_identical_in_any_order():
    assert difference("files", main=FIRINGS[::-1]) == ""


@pytest.mark.parametrize("sink", ["files", "kafka"])
def test_a_row_that_is_missing_twice_or_another_is_found(sink):
    assert "1 rows missing, 0 too many" in difference(sink, main=FIRINGS[:1])
    assert "0 rows missing, 1 too many" in difference(sink, main=[*FIRINGS, FIRINGS[1]])
    assert "late: 1 rows missing" in difference(sink, late=[])
    another_number = [FIRINGS[0], {**FIRINGS[1], "firing_number": 2}]
    assert "main: 1 rows missing, 1 too many" in difference(sink, main=another_number)


def test_a_merged_table_is_what_the_batch_gives():
    assert difference("delta", "sessions", main=[ROW]) == ""
    assert "1 too many" in difference("delta", "sessions", main=[ROW, ROW])
    assert "1 too many" in difference("iceberg", "sessions", main=[ROW, {**ROW, "window_end": 90}])


def test_a_changelog_comes_to_what_is_left_of_it():
    changes = [{**ROW, "op": "insert", "clicks": 1}, {**ROW, "op": "update_before", "clicks": 1}, {**ROW, "op": "update_after"}]
    assert settled(QUERIES["sessions"], changes) == [dict(sorted(ROW.items()))]
    with pytest.raises(AssertionError, match="taken back more often"):
        settled(QUERIES["sessions"], [{**ROW, "op": "delete"}])


def test_the_clicks_have_late_rows_and_tardy_ones_and_a_last_file(tmp_path):
    rows = clicks(6, seed=1)
    assert rows == clicks(6, seed=1) != clicks(6, seed=2)
    assert any(user == TARDY for of_file in rows for user, *_ in of_file)
    assert any(late[3] < early[3] for of_file in rows[:-1] for early, late in pairwise(of_file))
    assert min(row[3] for row in rows[-1]) > max(row[3] for row in rows[-2])
    write_clicks(tmp_path / "clicks", rows)
    assert len(list((tmp_path / "clicks").iterdir())) == 6


def test_the_command_deals_out_its_kills_and_takes_one_cell():
    pytest.importorskip("pyspark")
    from tests.recovery.crashes.campaign import parse, planned
    from tests.recovery.crashes.places import SINKS
    from tests.recovery.crashes.strikes import DRIVER, KINDS

    cells = planned(parse(["--kills", "300"]))
    assert abs(sum(cell.wanted for cell in cells) - 300) <= len(KINDS)
    assert {(cell.operator, cell.sink) for cell in cells if cell.kind == DRIVER} == {(o, s) for o in QUERIES for s in SINKS}
    [one] = planned(parse(["--kills", "300", "--only", "driver/panes/delta"]))
    assert one.wanted == next(cell.wanted for cell in cells if cell.title == one.title)
    assert one.chance(1).random() == next(cell for cell in cells if cell.title == one.title).chance(1).random()
    with pytest.raises(SystemExit, match="there is no cell"):
        planned(parse(["--only", "driver/pains/delta"]))


@pytest.mark.spark
def test_each_query_is_run_by_its_operator(spark, tmp_path):
    from tests.recovery.crashes.queries import SCHEMA

    for name, query in QUERIES.items():
        df = spark.createDataFrame([], SCHEMA)
        assert name in str(query.build(df).explain()), name


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.whole
def test_kills_of_one_cell(tmp_path):
    pytest.importorskip("confluent_kafka")
    from tests.recovery.crashes.campaign import main

    with pytest.raises(SystemExit) as ended:
        main(["--kills", "60", "--only", "worker/panes/files", "--results", str(tmp_path)])
    assert ended.value.code == 0
    found = json.loads((tmp_path / "crashes.json").read_text())
    assert found["struck"] >= 1
    assert found["identical"] == 1
