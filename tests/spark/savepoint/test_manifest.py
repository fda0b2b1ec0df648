"""Manifests of savepoints, and folders that are not savepoints. Without Spark's JVM."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from zlib import crc32

import pytest

import panestream as pst
from panestream.engine.savepoint.operators import NamedPlan
from panestream.engine.savepoint.plans import plan_json
from panestream.errors import CheckpointError, PanestreamError, StateDamagedError, StateFormatError
from panestream.spark.checkpoint.lineage import Lineage, RestoredFrom, next_restored_from
from panestream.spark.savepoint.manifest import (
    SavepointManifest,
    check_free,
    check_manifest,
    is_savepoint,
    read_manifest,
    table_folder,
    versions,
    write_manifest,
)
from panestream.spark.savepoint.saved import Savepoint, read_savepoint
from panestream.spark.savepoint.source_offsets import SourcePosition, positions_as_saved
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness
from tests.spark.plain_files import PlainSpark

PLAN = replace(
    harness.Query(harness.WindowQuery(TumblingEventTimeWindows(10_000_000)), (agg.count().alias("n"),)).columnar(), groups=2
)
SOURCES = [
    SourcePosition(0, "files", '{"logOffset":3}', 4, {"part-0": [4, "17"]}),
    SourcePosition(1, "kafka", '{"clicks":{"0":23}}'),
]
SUCCESSION = Lineage(("q", "q+2"), 6, ("file:/out",), "/old", 5)
MANIFEST = SavepointManifest(
    plan_json(PLAN),
    [{"a": 1}, {"a": 2}],
    {"panes": 3},
    {"panes": {"part-0": [3, "-5"]}},
    5,
    "/old",
    json.loads(json.dumps(SUCCESSION.as_saved())),
    positions_as_saved(SOURCES),
    None,
    {"panestream": "1", "spark": "4.1.0"},
    "2026-01-01T00:00:00+00:00",
    "name",
)


@pytest.fixture
def spark(monkeypatch):
    return PlainSpark(monkeypatch)


def written(spark, folder):
    write_manifest(spark, str(folder), MANIFEST)
    return next((folder / "manifest").glob("part-*"))


def change(part, **changed):
    """Change a manifest and update its checksum."""
    told = {**json.loads(part.read_text()), **changed}
    told.pop("crc32")
    part.write_text(json.dumps({**told, "crc32": crc32(json.dumps(told, sort_keys=True).encode())}, sort_keys=True))


def test_manifest_is_read_as_written(spark, tmp_path):
    part = written(spark, tmp_path / "saved")
    found = read_manifest(spark, f"{tmp_path}/saved/")
    assert found == replace(MANIFEST, saved_plan=json.loads(json.dumps(MANIFEST.saved_plan)))
    assert (found.groups, found.plan.identity()) == (2, PLAN.identity())
    assert json.loads(part.read_text())["savepoint"] == 1
    # Unknown fields of a later version are ignored.
    change(part, more=7)
    assert read_manifest(spark, str(tmp_path / "saved")) == found
    assert is_savepoint(spark, str(tmp_path / "saved"))
    assert table_folder("saved/", "panes") == "saved/state/panes"
    assert set(versions(spark)) == {"panestream", "spark"}
    assert versions(spark)["spark"] == "4.1.0"


OF_FIRST = {"uid": "first", "saved_plan": plan_json(PLAN), "headers": [{"a": 3}], "tables": {"panes": 7}, "checksums": {}}


def test_manifest_of_several_operators_has_a_format_that_earlier_versions_refuse(spark, tmp_path):
    whole = replace(MANIFEST, uid="last", operators=[OF_FIRST])
    write_manifest(spark, f"{tmp_path}/saved", whole)
    part = next((tmp_path / "saved" / "manifest").glob("part-*"))
    assert json.loads(part.read_text())["savepoint"] == 2
    saved = read_savepoint(spark, tmp_path / "saved")
    assert (saved.operators, saved.manifest.tables, saved.folder) == (("first", "last"), {"panes": 3}, "state")
    first = read_savepoint(spark, tmp_path / "saved", operator="first")
    assert (first.manifest.tables, first.manifest.groups, first.folder) == ({"panes": 7}, 1, "operators/0")
    assert first.operator("last").manifest.tables == {"panes": 3}
    assert first.restored_from == saved.restored_from
    with pytest.raises(CheckpointError, match="has no operator 'lost'; did you mean 'last'"):
        saved.operator("lost")


def test_manifest_of_one_operator_has_the_first_format_and_its_name_only_if_it_was_set(spark, tmp_path):
    for name in ("", "counts"):
        write_manifest(spark, f"{tmp_path}/{name or 'none'}", replace(MANIFEST, uid=name))
        told = json.loads(next((tmp_path / (name or "none") / "manifest").glob("part-*")).read_text())
        assert (told["savepoint"], told.get("uid", ""), "operators" in told) == (1, name, False)
        assert read_savepoint(spark, tmp_path / (name or "none")).operators == (name or "operator-1",)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ([{**OF_FIRST, "uid": "../x"}], "has 'operators' as no savepoint has it"),
        ([{**OF_FIRST, "more": 1}], "has 'operators' as no savepoint has it"),
        ([OF_FIRST, OF_FIRST], "has 'operators' as no savepoint has it"),
        ([{**OF_FIRST, "headers": []}], "saved, operator first, has 'headers' as no savepoint has it"),
        ([{**OF_FIRST, "tables": {"rows": 1}}], "saved, operator first, has the tables rows, where its plan has panes"),
    ],
)
def test_wrong_operators_of_a_manifest_are_refused(spark, tmp_path, wrong, why):
    write_manifest(spark, f"{tmp_path}/saved", replace(MANIFEST, uid="last", operators=wrong))
    with pytest.raises(StateDamagedError, match=why):
        read_manifest(spark, f"{tmp_path}/saved")


def test_state_of_a_savepoint_goes_to_the_operators_of_its_names():
    saved = Savepoint("saved", replace(MANIFEST, uid="last", operators=[OF_FIRST]), None, operators=("first", "last"))
    query = [NamedPlan(name, PLAN) for name in ("first", "between", "last")]
    assert {name: each.folder for name, each in saved.of_operators(query, may_drop=False).items()} == {
        "first": "operators/0",
        "last": "state",
    }
    unnamed = Savepoint("saved", MANIFEST, None)
    assert {name: each.folder for name, each in unnamed.of_operators(query, may_drop=False).items()} == {"first": "state"}


def test_each_savepoint_has_a_unique_name():
    first, second = (SavepointManifest({}, [], {}) for _ in range(2))
    assert first.name != second.name


@pytest.mark.parametrize(
    ("format_", "why"),
    [
        (3, "has format 3: a newer panestream wrote it: run that version"),
        (0, "has format 0: this version of panestream does not read it"),
        ("x", "has format 'x': this version of panestream does not read it"),
    ],
)
def test_savepoint_of_another_format_is_refused(spark, tmp_path, format_, why):
    change(written(spark, tmp_path), savepoint=format_)
    with pytest.raises(StateFormatError, match=f"the savepoint {tmp_path} {why}"):
        read_manifest(spark, str(tmp_path))


def test_folder_that_is_not_a_savepoint_is_refused_with_its_content(spark, tmp_path):
    def said(name):
        with pytest.raises(CheckpointError) as caught:
            read_savepoint(spark, tmp_path / name)
        return str(caught.value).removeprefix(f"{tmp_path}/{name} ")

    for path in ("broken/state/panes/part-0", "checkpoint/offsets/0", "other/a.csv"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("x")
    assert said("broken") == "was interrupted while it was written. Take another savepoint"
    assert said("checkpoint").startswith("is a checkpoint, and no savepoint: pst.savepoint(spark, checkpoint, folder) takes one")
    assert said("other") == "is not a savepoint (pst.savepoint makes one)"
    assert said("nothing") == "is not a savepoint (pst.savepoint makes one): it does not exist"
    found = [is_savepoint(spark, f"{tmp_path}/{name}/") for name in ("broken", "checkpoint", "other", "nothing")]
    assert found == [True, False, False, False]
    with pytest.raises(CheckpointError, match="a savepoint is a folder; got ''"):
        read_savepoint(spark, "")


def test_savepoint_into_a_used_folder_is_refused(spark, tmp_path):
    check_free(spark, str(tmp_path / "nothing"))
    # An incomplete savepoint is overwritten.
    for path in ("broken/state/panes/part-0", "broken/sources/0/part-0", "other/state/panes/part-0", "other/state/panes/x"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    check_free(spark, f"{tmp_path}/broken/")
    with pytest.raises(
        CheckpointError, match=rf"other holds something else \(file://{tmp_path}/other/state/panes/x\): a savepoint"
    ):
        check_free(spark, str(tmp_path / "other"))
    written(spark, tmp_path / "saved")
    with pytest.raises(CheckpointError, match="saved holds a savepoint already: each needs a folder of its own"):
        check_free(spark, str(tmp_path / "saved"))


TOLD = asdict(MANIFEST)
ONE_SOURCE = {"number": 0, "kind": "files", "offset": "{}"}
ONE_BEFORE = {"queries": ["q"], "first": 0, "checkpoint": "", "batch_id": -1}


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("headers", [[{}]]),
        ("tables", [{"panes": 0}]),
        ("checksums", [{}, {"panes": {}}, {"panes": {"a": [0, "0"], "b c": [1, "-" + "9" * 38]}}]),
        ("batch_id", [None, 0, 7]),
        ("checkpoint", [None, ""]),
        ("succession", [None, ONE_BEFORE, {**ONE_BEFORE, "queries": ["a+b-c_1", "x" * 200], "places": ["", "s3://x"]}]),
        ("sources", [[], [ONE_SOURCE], [{**ONE_SOURCE, "files": 3, "checksums": {"a": [3, "1"]}}]]),
        ("until", [None, -5, 0]),
        ("versions", [{}]),
        ("taken_at", [""]),
        ("name", ["a", "x" * 100]),
    ],
)
def test_manifest_with_valid_field_is_accepted(field, values):
    for value in values:
        check_manifest("saved", {**TOLD, field: value}, "do so")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("saved_plan", ["x", None, []]),
        ("headers", [None, {}, [], [{}, 3]]),
        ("tables", [None, [], {"panes": -1}, {"panes": True}, {"panes": 1.0}, {"Panes": 1}, {"": 1}, {"panes/..": 1}, {1: 1}]),
        ("checksums", [None, [], {"panes": []}, {"panes": {"a/b": [1, "1"]}}, {"panes": {"a\\b": [1, "1"]}}, {"x-y": {}}]),
        (
            "checksums",
            [{"panes": {"a": one}} for one in ((1, "1"), [1], [1, "1", 2], [-1, "1"], ["1", "1"], [1, 1], [1, "1.5"], [1, ""])]
            + [{"panes": {"a": [1, "9" * 39]}}, {"panes": {"a\n": [1, "1"]}}, {"panes": {"": [1, "1"]}}],
        ),
        ("batch_id", [-1, "0", True]),
        ("checkpoint", [3]),
        (
            "succession",
            [
                [],
                *({**ONE_BEFORE, "queries": one} for one in ([], "q", None, [3], ["a/b"], ["x" * 201], ["q", ""])),
                *({**ONE_BEFORE, "places": one} for one in ("x", None, [3])),
                *({**ONE_BEFORE, name: value} for name, value in (("first", "0"), ("first", True), ("checkpoint", 3))),
                *({**ONE_BEFORE, name: None} for name in ("first", "checkpoint", "batch_id")),
            ],
        ),
        (
            "sources",
            [
                {},
                None,
                [3],
                [ONE_SOURCE, None],
                *(
                    [{**ONE_SOURCE, name: value}]
                    for name, value in (("number", -1), ("number", "0"), ("kind", 3), ("offset", None))
                ),
                *([{**ONE_SOURCE, name: value}] for name, value in (("files", -1), ("files", "1"), ("checksums", {"a": 3}))),
            ],
        ),
        ("until", ["0", 1.5, False]),
        ("versions", [None, []]),
        ("taken_at", [None, 3]),
        ("name", [None, "", "x" * 101, "a/b", "ä"]),
    ],
)
def test_manifest_with_invalid_field_is_refused(field, values):
    for value in values:
        with pytest.raises(
            StateDamagedError, match=f"the manifest of the savepoint saved has '{field}' as no savepoint has it .*: do"
        ):
            check_manifest("saved", {**TOLD, field: value}, "do so")


def test_long_value_is_shortened_in_the_error():
    for length, shown in ((78, "'" + "/" * 78 + "'"), (79, "'" + "/" * 76 + "...")):
        with pytest.raises(StateDamagedError) as caught:
            check_manifest("saved", {**TOLD, "name": "/" * length}, "do so")
        assert str(caught.value).endswith(f"has 'name' as no savepoint has it ({shown}): do so")


def test_manifest_with_missing_field_or_wrong_tables_is_refused():
    for field in ("saved_plan", "headers", "tables"):
        with pytest.raises(StateDamagedError, match=f"^the manifest of the savepoint saved has no '{field}': do so$"):
            check_manifest("saved", {name: value for name, value in TOLD.items() if name != field}, "do so")
    check_manifest("saved", {name: TOLD[name] for name in ("saved_plan", "headers", "tables")}, "do so")
    with pytest.raises(StateDamagedError, match="has the tables none, where its plan has panes: do so"):
        check_manifest("saved", {**TOLD, "tables": {}}, "do so")
    with pytest.raises(StateDamagedError, match="has the tables panes, rows, where its plan has panes: do so"):
        check_manifest("saved", {**TOLD, "tables": {"rows": 1, "panes": 2}}, "do so")
    with pytest.raises(PanestreamError, match=r"do so|saved plan"):
        check_manifest("saved", {**TOLD, "saved_plan": {"format": 1}}, "do so")


def test_savepoint_gives_positions_and_options_for_its_successor(spark, tmp_path):
    saved = Savepoint(str(tmp_path), MANIFEST, spark)
    assert (saved.batch_id, saved.plan.identity()) == (5, PLAN.identity())
    assert saved.restored_from == RestoredFrom("name", str(tmp_path), SUCCESSION, positions_as_saved(SOURCES))
    assert replace(saved, manifest=replace(MANIFEST, until=9)).restored_from.until == 9
    assert saved.positions == tuple(SOURCES)
    assert (saved.source_options(), saved.source_options(1)) == ({}, {"startingOffsets": '{"clicks":{"0":23}}'})
    for number in (-1, 2):
        with pytest.raises(CheckpointError, match=f"there is no source {number}: the savepoint {tmp_path} has 2, from 0"):
            saved.source_options(number)
    with pytest.raises(CheckpointError, match=f"source 1 of the savepoint {tmp_path} is of kafka, not of files"):
        saved.unread(None, 1)
    history = Savepoint(str(tmp_path), replace(MANIFEST, sources=[], batch_id=None), spark)
    with pytest.raises(CheckpointError, match="knows of none: it was made of history"):
        history.source_options()
    with pytest.raises(CheckpointError, match="the savepoint has no table 'rows', only panes"):
        saved.table("rows")
    assert (history.batch_id, history.restored_from.until, history.positions) == (None, None, ())


@pytest.mark.parametrize(
    ("sums", "tables", "has"),
    [({"panes": {}}, {"panes": 3}, True), ({}, {"panes": 3}, False), ({}, {"panes": 0}, True), ({}, {}, True)],
)
def test_savepoint_reports_whether_it_has_checksums(spark, sums, tables, has):
    saved = Savepoint("there", replace(MANIFEST, checksums=sums, tables=tables), spark)
    assert saved.has_checksums is has
    assert (saved._parts()["checksums"] == "of each file") is has


def test_repr_of_a_savepoint(spark):
    saved = Savepoint("there", MANIFEST, spark)
    assert saved._parts() == {
        "savepoint": "there",
        "micro-batch": "5",
        "windows": "TumblingEventTimeWindows.of('10 seconds')",
        "key": "key",
        "key groups": "2",
        "taken": "2026-01-01T00:00:00+00:00",
        "checksums": "of each file",
    }
    assert repr(saved).startswith("<Savepoint: savepoint there | micro-batch 5 | windows Tumbling")
    assert saved._where() == "the savepoint there after micro-batch 5"
    history = Savepoint("there", replace(MANIFEST, batch_id=None, checksums={}), spark)
    assert (history._parts()["micro-batch"], history._where()) == ("", "the savepoint there")
    assert history._parts()["checksums"] == "none: only its rows can be counted"


# -- the savepoint that a checkpoint started from --------------------------------------------------------------------------------

ONE, ANOTHER = RestoredFrom("one", "/saved/one"), RestoredFrom("another", "/saved/another")


def test_birth_of_a_checkpoint_survives_json():
    born = RestoredFrom("one", "/saved", SUCCESSION, positions_as_saved(SOURCES), own_position=True, until=7)
    assert RestoredFrom.of_json(json.loads(json.dumps(born.as_json()))) == born
    assert RestoredFrom.of_json(json.loads(json.dumps(ONE.as_json()))) == replace(ONE, sources=[])
    assert RestoredFrom.of_json(None) is None
    assert [ONE.lies_at(path) for path in ("/saved/one/", "file:/saved/./one", "/saved/two")] == [True, True, False]


@pytest.mark.parametrize(
    ("born", "asked", "planned", "committed", "next_"),
    [
        (None, None, False, False, None),
        (None, None, True, True, None),
        (ONE, None, True, True, ONE),
        (None, ONE, False, False, ONE),
        (ANOTHER, ONE, False, False, ONE),
        (ONE, replace(ONE, path="/moved"), True, False, replace(ONE, path="/moved")),
        (ONE, ONE, True, True, ONE),
    ],
)
def test_birth_of_the_next_run_follows_from_the_checkpoint(born, asked, planned, committed, next_):
    assert next_restored_from("cp", born, asked, planned=planned, committed=committed) == next_


@pytest.mark.parametrize(
    ("born", "asked", "planned", "why"),
    [
        (ONE, None, False, r"cp is to begin with the savepoint /saved/one, .*start once more with savepoint='/saved/one'"),
        (ONE, None, True, r"cp is to begin with the savepoint /saved/one, "),
        (None, ONE, True, r"cp did not begin with a savepoint: .*; to start from /saved/one give another checkpoint"),
        (ANOTHER, ONE, True, r"cp began with another savepoint \(/saved/another\): .*to start from /saved/one give"),
    ],
)
def test_checkpoint_with_another_birth_is_refused(born, asked, planned, why):
    with pytest.raises(CheckpointError, match=why):
        next_restored_from("cp", born, asked, planned=planned, committed=False)


def test_read_savepoint_is_public():
    assert pst.state.read_savepoint is read_savepoint


def test_second_of_two_concurrent_savepoints_in_a_folder_is_refused(spark, tmp_path):
    path = str(tmp_path / "s")
    check_free(spark, path)
    write_manifest(spark, path, replace(MANIFEST, name="ab"))
    with pytest.raises(CheckpointError, match="holds a savepoint already: each needs a folder of its own"):
        write_manifest(spark, path, MANIFEST)
    assert read_manifest(spark, path).name == "ab"
