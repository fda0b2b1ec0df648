"""The crash campaign detects missing and repeated rows, distributes the requested kills, and kills."""

from __future__ import annotations

import copy
import json
from itertools import pairwise

import pytest

from tests.recovery.crashes.cells import Cell, cells_of, in_turns
from tests.recovery.crashes.queries import QUERIES, TARDY, clicks, settled, write_clicks

ROW = {"user": 1, "window_start": 0, "window_end": 60, "clicks": 2, "revenue": 9, "newest": 4}
FIRINGS = [{**ROW, "clicks": 1, "firing": "on_time", "firing_number": 0}, {**ROW, "firing": "late", "firing_number": 1}]
LATE = [{"user": TARDY, "n": 7, "price": 1, "ts": 5}]
EXPECTED = {"main": FIRINGS, "late": LATE, "batch": [ROW]}


def difference(sink, operator="panes", **found):
    cell = Cell("worker", operator, sink, 1)
    cell.compare({**copy.deepcopy(EXPECTED), **found}, EXPECTED)
    return cell.difference


def test_comparison_ignores_the_order_of_rows():
    assert difference("files", main=FIRINGS[::-1]) == ""


def test_rows_of_a_serving_store_are_compared_with_the_batch():
    last = {**ROW, "firing": "late", "firing_number": 1}
    assert difference("postgres", main=[last]) == ""
    assert "1 rows missing, 0 too many" in difference("redis", main=[])
    assert "1 too many" in difference("redis", main=FIRINGS)
    assert "late: 1 rows missing" in difference("postgres", main=[last], late=[])


@pytest.mark.parametrize("sink", ["files", "kafka"])
def test_comparison_reports_missing_repeated_and_changed_rows(sink):
    assert "1 rows missing, 0 too many" in difference(sink, main=FIRINGS[:1])
    assert "0 rows missing, 1 too many" in difference(sink, main=[*FIRINGS, FIRINGS[1]])
    assert "late: 1 rows missing" in difference(sink, late=[])
    another_number = [FIRINGS[0], {**FIRINGS[1], "firing_number": 2}]
    assert "main: 1 rows missing, 1 too many" in difference(sink, main=another_number)


def test_merged_table_is_compared_with_the_batch():
    assert difference("delta", "sessions", main=[ROW]) == ""
    assert "1 too many" in difference("delta", "sessions", main=[ROW, ROW])
    assert "1 too many" in difference("iceberg", "sessions", main=[ROW, {**ROW, "window_end": 90}])


def test_settled_changelog_has_only_the_remaining_rows():
    changes = [{**ROW, "op": "insert", "clicks": 1}, {**ROW, "op": "update_before", "clicks": 1}, {**ROW, "op": "update_after"}]
    assert settled(QUERIES["sessions"], changes) == [dict(sorted(ROW.items()))]
    with pytest.raises(AssertionError, match="taken back more often"):
        settled(QUERIES["sessions"], [{**ROW, "op": "delete"}])


def test_settled_join_has_all_rows_of_the_newest_firing():
    pair = {"user": 1, "window_start": 0, "window_end": 60, "n": 1, "price": 2, "ts": 3, "m": 4, "offer": 5, "at": 6}
    first, again = [{**pair, "firing_number": 0}], [{**pair, "m": m, "firing_number": 1} for m in (4, 7)]
    assert settled(QUERIES["join"], first + again) == [dict(sorted({**pair, "m": m}.items())) for m in (4, 7)]


def test_both_streams_of_split_clicks_have_tardy_rows_and_last_rows():
    rows = clicks(6, seed=1)
    for of_left in (True, False):
        assert any(user == TARDY and (n % 3 == 0) == of_left for of_file in rows for user, n, *_ in of_file)
        assert any((n % 3 == 0) == of_left for _, n, *_ in rows[-1])


@pytest.mark.parametrize("operators", [1, 2, 4, 5, 8, 11, 12])
@pytest.mark.parametrize("sinks", [1, 2, 3, 4])
def test_interrupted_campaign_has_struck_every_operator_and_sink(operators, sinks):
    operators, sinks = [f"o{one}" for one in range(operators)], tuple("abcd"[:sinks])
    cells = cells_of("worker", 100, 100, sinks, operators)
    pairs = [(cell.operator, cell.sink) for cell in cells]
    assert len(set(pairs)) == len(pairs) == len(operators) * len(sinks)
    assert [operator for operator, _ in pairs[: len(operators)]] == operators
    struck = [cell for cell in cells if cell.wanted]
    assert struck == cells[: len(struck)]
    assert {cell.operator for cell in struck} == set(operators)
    assert {cell.sink for cell in struck} == set(sinks)
    assert sum(cell.wanted for cell in cells) == 100
    assert max(cell.wanted for cell in struck) - min(cell.wanted for cell in struck) <= 1


def test_operator_gets_no_cell_with_a_sink_that_does_not_suit_it():
    cells = cells_of("driver", 20, 2, ("x", "y"), ("a", "b", "c"), lambda operator, sink: operator == "a" or sink == "y")
    assert {(cell.operator, cell.sink) for cell in cells} == {("a", "x"), ("a", "y"), ("b", "y"), ("c", "y")}
    assert [cell.operator for cell in cells[:3]] == ["a", "b", "c"]
    assert cells_of("driver", 20, 2, ("x",), ("b",), lambda operator, sink: False) == []


def test_each_cell_gets_the_requested_kills_until_none_are_left():
    operators = ["a", "b", "c"]
    assert [cell.wanted for cell in cells_of("disk", 12, 2, ("x", "y"), operators)] == [2] * 6
    assert [cell.wanted for cell in cells_of("disk", 12, 3, ("x", "y"), operators)] == [3] * 4 + [0] * 2
    assert [cell.wanted for cell in cells_of("disk", 4, 9, ("x", "y"), operators)] == [2, 1, 1, 0, 0, 0]
    assert [cell.wanted for cell in cells_of("disk", 2, 9, ("x", "y"), operators)] == [1, 1, 0, 0, 0, 0]
    assert not any(cell.wanted for cell in cells_of("disk", 0, 2, ("x", "y"), operators))


def test_kinds_of_kills_take_turns_breadth_first():
    cells = [*cells_of("driver", 3, 1, ("x",), "abc"), *cells_of("disk", 10, 1, ("x", "y"), "abcde"), Cell("disk", "f", "x", 0)]
    turns = in_turns(cells, {"driver": 1, "disk": 4})
    assert [(turn[0].kind, "".join(cell.operator for cell in turn)) for turn in turns] == [
        ("driver", "a"),
        ("disk", "abcd"),
        ("driver", "b"),
        ("driver", "c"),
        ("disk", "eabc"),
        ("disk", "de"),
    ]
    assert in_turns([], {}) == []


def test_clicks_have_late_rows_tardy_rows_and_a_last_file(tmp_path):
    rows = clicks(6, seed=1)
    assert rows == clicks(6, seed=1) != clicks(6, seed=2)
    assert any(user == TARDY for of_file in rows for user, *_ in of_file)
    assert any(late[3] < early[3] for of_file in rows[:-1] for early, late in pairwise(of_file))
    assert min(row[3] for row in rows[-1]) > max(row[3] for row in rows[-2])
    write_clicks(tmp_path / "clicks", rows)
    assert len(list((tmp_path / "clicks").iterdir())) == 6


def test_command_distributes_its_kills_and_can_run_one_cell():
    pytest.importorskip("pyspark")
    from tests.recovery.crashes.campaign import parse, planned
    from tests.recovery.crashes.places import SERVING, SINKS, suits
    from tests.recovery.crashes.strikes import DRIVER, KINDS

    cells = planned(parse(["--kills", "300"]))
    assert abs(sum(cell.wanted for cell in cells) - 300) <= len(KINDS)
    assert {(cell.operator, cell.sink) for cell in cells if cell.kind == DRIVER} == {
        (o, s) for o in QUERIES for s in SINKS if suits(o, s)
    }
    for kind in (DRIVER, *KINDS):
        struck = [cell for cell in cells if cell.kind == kind and cell.wanted]
        sinks = SINKS if kind == DRIVER else KINDS[kind].sinks
        assert {cell.operator for cell in struck} == {o for o in QUERIES if any(suits(o, sink) for sink in sinks)}
        assert {cell.sink for cell in struck} == set(sinks)
    few = planned(parse(["--kills", "12", "--operators", "join", "tiles"]))
    assert {cell.operator for cell in few if cell.wanted} == {"join", "tiles"}
    few = planned(parse(["--kills", "12", "--sinks", *SERVING]))
    assert {(cell.kind, cell.sink) for cell in few} == {(k, s) for k in (DRIVER, *KINDS) if k != "broker" for s in SERVING}
    [one] = planned(parse(["--kills", "300", "--only", "driver/panes/delta"]))
    assert one.wanted == next(cell.wanted for cell in cells if cell.title == one.title)
    assert one.chance(1).random() == next(cell for cell in cells if cell.title == one.title).chance(1).random()
    with pytest.raises(SystemExit, match="there is no cell"):
        planned(parse(["--only", "driver/pains/delta"]))


@pytest.mark.spark
def test_each_query_runs_on_the_operator_that_it_names(spark, tmp_path):
    from tests.recovery.crashes.queries import SCHEMA

    for name, query in QUERIES.items():
        df = spark.createDataFrame([], SCHEMA)
        assert query.build(df).operator.name == query.operator, name


@pytest.mark.spark
def test_query_with_killed_workers_has_identical_output(tmp_path):
    pytest.importorskip("confluent_kafka")
    from tests.recovery.crashes.campaign import main

    with pytest.raises(SystemExit) as ended:
        main(["--kills", "60", "--only", "worker/panes/files", "--results", str(tmp_path)])
    assert ended.value.code == 0
    found = json.loads((tmp_path / "crashes.json").read_text())
    assert found["struck"] >= 1
    assert found["identical"] == 1
