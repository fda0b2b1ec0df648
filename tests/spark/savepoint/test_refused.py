"""Reasons to refuse a checkpoint when it is read, and errors about damage. Without Spark's JVM."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import AnalysisException, PySparkException

from panestream.engine.savepoint.operators import NamedPlan
from panestream.errors import CheckpointError, OperatorError, PlanMismatchError, StateDamagedError
from panestream.spark.checkpoint.lease import ensure_identity, register
from panestream.spark.savepoint import integrity, locate
from panestream.spark.savepoint.decode import StoredState, check_key_groups, explain_read_errors
from panestream.spark.savepoint.integrity import WrittenPart, verify
from panestream.spark.savepoint.locate import StateLocation, check_only_ours, micro_batches_with_state, operators_in
from panestream.spark.savepoint.manifest import write_manifest
from panestream.spark.savepoint.read import read_checkpoint
from panestream.spark.savepoint.restore import cutover_time, savepoint_for
from panestream.spark.savepoint.saved import _headers_by_group, no_state
from panestream.spark.savepoint.source_offsets import SourcePosition, numbers_of_logs
from panestream.spark.savepoint.validate import check_last_partition
from tests.spark.plain_files import PlainSpark
from tests.spark.savepoint.test_manifest import MANIFEST, PLAN

WAY_OUT = "Put back a copy of the whole checkpoint from before the damage, or take another micro-batch (batch_id=, --batch)"


@pytest.fixture
def spark(monkeypatch):
    return PlainSpark(monkeypatch)


def files(folder: Path, *names: str, text: str = "v1\n{}") -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


# -- reading a checkpoint -----------------------------------------------------------------------------------------------------


def test_folder_without_a_committed_micro_batch_is_refused_with_its_content(spark, tmp_path):
    def said(name):
        with pytest.raises(CheckpointError) as caught:
            read_checkpoint(spark, tmp_path / name)
        return str(caught.value).replace(f"{tmp_path}/", "")

    ensure_identity(spark, PLAN, str(tmp_path / "started"))
    files(tmp_path, "planned/offsets/0", "other/a.csv", "broken/state/panes/part-0")
    write_manifest(spark, str(tmp_path / "saved"), MANIFEST)
    for name in ("started", "planned"):
        assert said(name) == f"the checkpoint {name} has no micro-batch: none was committed yet"
    for name in ("saved", "broken"):
        assert said(name) == f"{name} is a savepoint, not a checkpoint. Read it with pst.state.read_savepoint(spark, folder)"
    assert said("other") == "other is not a checkpoint of a streaming query"
    assert said("nothing") == "nothing is not a checkpoint of a streaming query: it does not exist"
    with pytest.raises(CheckpointError, match="a checkpoint is a folder; got 3"):
        read_checkpoint(spark, 3)


@pytest.fixture
def checkpoint(spark, tmp_path, monkeypatch):
    """A query that committed micro-batches 0 to 3. Spark reports one operator with two partitions."""
    path = str(tmp_path / "cp")
    claim = ensure_identity(spark, PLAN, path)
    register(spark, claim, [])
    files(tmp_path / "cp", *(f"{log}/{number}" for log in ("offsets", "commits") for number in range(4)))
    files(tmp_path / "cp", *(f"state/0/{part}/{version}.zip" for part in range(2) for version in (2, 3, 4)))
    operators = {0: 2}
    monkeypatch.setattr(locate, "operators_in", lambda session, folder: operators)
    return SimpleNamespace(path=path, folder=tmp_path / "cp", operators=operators)


def test_missing_micro_batch_is_refused_with_the_available_ones(spark, checkpoint):
    found = read_checkpoint(spark, checkpoint.path)
    assert (found.batch_id, found.path, found.plan.identity()) == (3, checkpoint.path, PLAN.identity())
    assert found.stored.operator_id == 0
    assert found._parts() == {
        "checkpoint": checkpoint.path,
        "micro-batch": "3",
        "windows": "TumblingEventTimeWindows.of('10 seconds')",
        "key": "key",
    }
    assert read_checkpoint(spark, checkpoint.path, 1).batch_id == 1
    for asked in (0, 4, -1):
        with pytest.raises(CheckpointError, match=f"cp has no micro-batch {asked}: it has 1 to 3"):
            read_checkpoint(spark, checkpoint.path, asked)
    (checkpoint.folder / "state/0/0/3.zip").unlink()
    with pytest.raises(CheckpointError, match="cp has no micro-batch 0: it has 1, 3"):
        read_checkpoint(spark, checkpoint.path, 0)
    for version in (2, 4):
        (checkpoint.folder / f"state/0/0/{version}.zip").unlink()
    with pytest.raises(CheckpointError, match="cp has no micro-batch 0: Spark has cleaned all of its state"):
        read_checkpoint(spark, checkpoint.path, 0)


def test_checkpoint_without_a_stored_plan_is_refused(spark, checkpoint, tmp_path):
    for each in checkpoint.folder.glob("panestream/runs/*"):
        each.rename(tmp_path / each.name)
    with pytest.raises(
        CheckpointError, match=r"cp does not contain the plan of its query: it was not created by start\(\)\. Give the plan"
    ):
        read_checkpoint(spark, checkpoint.path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("panestream.spark.checkpoint.lease._saved_plan", lambda plan: None)
        ensure_identity(spark, PLAN, checkpoint.path)
    with pytest.raises(CheckpointError, match="the plan of its query: an operator of another package runs it"):
        read_checkpoint(spark, checkpoint.path)


def test_checkpoint_without_state_of_panestream_is_refused(spark, checkpoint, tmp_path):
    checkpoint.operators.clear()
    with pytest.raises(
        StateDamagedError, match=r"state in the checkpoint .*cp is missing \(state/\*/_metadata\). Put back a copy"
    ):
        read_checkpoint(spark, checkpoint.path)
    (checkpoint.folder / "panestream").rename(tmp_path / "away")
    with pytest.raises(CheckpointError, match="cp is of a query without windows of panestream's"):
        read_checkpoint(spark, checkpoint.path, plan=PLAN)


def test_missing_partition_of_the_state_is_named(spark, checkpoint):
    check_last_partition(spark, checkpoint.path, 0, 2)
    for operator, partitions, gone in ((0, 3, "state/0/2"), (1, 1, "state/1/0")):
        with pytest.raises(StateDamagedError) as caught:
            check_last_partition(spark, checkpoint.path, operator, partitions)
        assert str(caught.value) == f"the state of the checkpoint {checkpoint.path} cannot be read: {gone} is missing. {WAY_OUT}"
    checkpoint.operators[0] = 3
    with pytest.raises(StateDamagedError, match="state/0/2 is missing"):
        read_checkpoint(spark, checkpoint.path)


def test_micro_batches_with_state_are_listed_from_files(spark, tmp_path):
    path = files(tmp_path, "offsets/0", "offsets/1", "offsets/2", "commits/1", "commits/2", "commits/0")
    names = ("1.changelog", "2.zip", "3_4bd1f5c2-aa.changelog", "9.zip", "_schema", "x.zip", "5.tmp")
    files(tmp_path, *(f"state/7/0/{name}" for name in names), "state/7/1/1.zip", "state/6/0/1.zip")
    assert micro_batches_with_state(spark, path, 7) == [0, 1, 2]
    (tmp_path / "offsets/1").unlink()
    assert micro_batches_with_state(spark, path, 7) == [0, 2]
    (tmp_path / "commits/0").unlink()
    assert micro_batches_with_state(spark, path, 7) == [2]
    assert (micro_batches_with_state(spark, path, 6), micro_batches_with_state(spark, path, 5)) == ([], [])


def of_metadata(rows=None, error=None):
    """A session whose source of state metadata has these rows."""

    def collect():
        if error is not None:
            raise error
        return [SimpleNamespace(operatorId=number, numPartitions=parts, operatorProperties=told) for number, parts, told in rows]

    frame = SimpleNamespace(select=lambda *names: SimpleNamespace(collect=collect))

    reader = SimpleNamespace(load=lambda path: frame)
    return SimpleNamespace(read=SimpleNamespace(format=lambda name: reader))


def test_operators_of_panestream_are_found_in_state_metadata(monkeypatch):
    monkeypatch.setattr(locate, "list_files", lambda spark, pattern: ["file:/cp/commits/0"])
    ours, other = (json.dumps({"stateVariables": [{"stateName": name}]}) for name in ("panestream", "count"))
    rows = [(2, 4, ours), (0, 4, ours), (1, 4, other), (3, 200, None), (4, 200, ""), (5, 1, "null")]
    assert list(operators_in(of_metadata(rows), "cp").items()) == [(0, 4), (2, 4)]
    with pytest.raises(CheckpointError, match=r"Spark cannot read the checkpoint cp: \[STDS_NO_PARTITION\] nothing is there"):
        operators_in(of_metadata(error=AnalysisException("[STDS_NO_PARTITION] nothing is there")), "cp")
    for error in (AnalysisException("[OTHER] x"), ValueError("[STDS_ x")):
        with pytest.raises(type(error)):
            operators_in(of_metadata(error=error), "cp")


@pytest.mark.parametrize(
    ("address", "master"), [("hdfs://host/a%20b", "local[2]"), ("file:///a%20b", "spark://host:7077"), ("file:///a%20b", "local")]
)
def test_checkpoint_with_an_encoded_name_is_refused_unless_a_link_leads_there(address, master, monkeypatch):
    """A link helps on one machine only, and only if Spark sees it."""
    monkeypatch.setattr(locate, "list_files", lambda spark, path: [f"{address}/commits/0"] if path == "a b/commits" else [])
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: master))
    with pytest.raises(
        CheckpointError, match=r"cannot read the checkpoint a b: its address has %20 .*\(ln -s 'a b' LINK\), and read that$"
    ):
        locate.readable_path(session, "a b")


def test_checkpoint_with_an_encoded_name_is_read_through_a_link(spark, tmp_path):
    spark.conf = SimpleNamespace(get=lambda name, default: "local[2, 4]")
    folder = files(tmp_path / "a [b]% #c", "commits/0")
    path = locate.readable_path(spark, folder)
    assert Path(path).resolve() == Path(folder)
    assert path.isascii()
    assert not set(path) & set("%[# ")
    assert locate.readable_path(spark, folder) == path
    for plain in ("/data/cp", "s3a://bucket/cp", files(tmp_path / "nothing of Spark's", "a")):
        assert locate.readable_path(spark, plain) == plain


# -- damage ------------------------------------------------------------------------------------------------------------------


def test_state_that_spark_cannot_load_gives_a_readable_error(spark, tmp_path):
    stored = StoredState(spark, files(tmp_path, *(f"state/2/{part}/1.zip" for part in (0, 1, 3))), 4, PLAN, 2)

    def said(error):
        with pytest.raises(StateDamagedError) as caught, explain_read_errors(stored):
            raise error
        assert caught.value.spark_error is error
        return str(caught.value)

    first = f"the state of the checkpoint {tmp_path} after micro-batch 4 cannot be read: "
    assert said(PySparkException("[CANNOT_LOAD_STATE_STORE] a file is odd\nat x")) == (
        f"{first}[CANNOT_LOAD_STATE_STORE] a file is odd. {WAY_OUT}"
    )
    # For a missing partition Spark raises another error.
    assert said(PySparkException("assertion failed")) == f"{first}state/2/2 is missing. {WAY_OUT}"
    files(tmp_path, "state/2/2/1.zip")
    for error in (PySparkException("assertion failed"), ValueError("CANNOT_LOAD_STATE_STORE")):
        with pytest.raises(type(error)) as caught, explain_read_errors(stored):
            raise error
        assert caught.value is error
    with pytest.raises(PySparkException), explain_read_errors(replace(stored, operator_id=9)):
        raise PySparkException("assertion failed")
    with pytest.raises(OperatorError, match=r"^in a worker$"), explain_read_errors(stored):
        raise PySparkException("x\npanestream.errors.OperatorError: in a worker\n\nat y")


def test_missing_key_groups_are_counted_in_the_error(spark):
    stored = StoredState(spark, "cp", 4, PLAN)
    check_key_groups(stored, 0)  # no row has come
    check_key_groups(stored, 2)
    with pytest.raises(StateDamagedError) as caught:
        check_key_groups(stored, 1)
    assert (
        str(caught.value) == f"the state of the checkpoint cp after micro-batch 4 lacks key groups: there are 1 of 2. {WAY_OUT}"
    )


def test_headers_are_sorted_by_key_group():
    def of(**found):
        rows = [SimpleNamespace(key_group=int(name[1:]), header=json.dumps(header)) for name, header in found.items()]
        return _headers_by_group(SimpleNamespace(collect=lambda: rows), PLAN)

    assert of(g1={"b": 1}, g0={"a": 1}) == [{"a": 1}, {"b": 1}]
    assert of() == [no_state(PLAN, 0).header, no_state(PLAN, 1).header]
    with pytest.raises(StateDamagedError, match="the state of key group 1 is missing: only 1 of 2 exist"):
        of(g0={})


def test_savepoint_of_a_query_with_a_stateful_operator_of_spark_is_refused():
    def of(*found):
        rows = [SimpleNamespace(operatorName=name, operatorId=number, operatorProperties=of_it) for name, number, of_it in found]
        frame = SimpleNamespace(distinct=lambda: SimpleNamespace(collect=lambda: rows))
        load = SimpleNamespace(load=lambda path: SimpleNamespace(select=lambda *names: frame))
        return SimpleNamespace(read=SimpleNamespace(format=lambda name: load))

    ours = json.dumps({"stateVariables": [{"stateName": "panestream"}]})
    check_only_ours(of(("transformWithStateExec", 0, ours), ("transformWithStateExec", 1, ours)), "/cp")
    with pytest.raises(CheckpointError, match=r"cp has stateful operators of Spark \(dedupe \(1\)\): a savepoint holds"):
        check_only_ours(of(("transformWithStateExec", 0, ours), ("dedupe", 1, None)), "/cp")


def test_operator_of_a_checkpoint_is_found_by_its_name_among_those_of_spark():
    entry = {"uid": "last", "operators": [{"uid": "first"}, {"uid": "second"}]}
    found = StateLocation(None, "/cp", 0, "/cp", [0], entry, {0: 2, 2: 2, 3: 4}, [0])
    assert {uid: found.number_of(uid) for uid in found.uids} == {"first": 3, "second": 2, "last": 0}
    with pytest.raises(CheckpointError, match=r"the checkpoint /cp has no operator 'secon'; did you mean 'second'\?"):
        found.number_of("secon")
    assert replace(found, entry={}, operators={0: 2}).number_of("operator-1") == 0
    with pytest.raises(CheckpointError, match=r"has 3 operators, and start\(\) knew 1: .*pst.stream\(result\) instead of"):
        replace(found, entry={}).number_of("operator-1")


def test_run_records_its_operators_and_a_later_run_may_name_them(spark, tmp_path):
    path = str(tmp_path / "cp")

    def started(*names):
        lease = ensure_identity(spark, PLAN, path, chain=[NamedPlan(name, PLAN) for name in names])
        register(spark, lease, [])
        return locate.locate(spark, path, None)

    alone = started("operator-1")
    assert (alone.uids, {"uid", "operators"} & set(alone.entry)) == (("operator-1",), set())
    assert started("counts").uids == ("counts",)
    found = started("operator-1", "operator-2")
    assert found.uids == ("operator-1", "operator-2")
    assert found.before[0]["identity"] == PLAN.identity()
    assert started("counts", "largest").uids == ("counts", "largest")
    files(tmp_path / "cp", "offsets/0", "commits/0")
    with pytest.raises(PlanMismatchError, match=r"cp belongs to a query with 2 operators, and this query has 3"):
        started("counts", "between", "largest")


def test_changed_rows_of_a_savepoint_are_refused(monkeypatch):
    class Frame:
        def __init__(self, sums):
            self.sums = sums

        def count(self):
            if isinstance(self.sums, Exception):
                raise self.sums
            return sum(rows for rows, _ in self.sums.values())

    def sums_of(frame):
        frame.count()
        return frame.sums

    monkeypatch.setattr(integrity, "file_sums", sums_of)

    def said(part, sums):
        try:
            verify("the savepoint s", {"state/panes": part}, lambda name: Frame(sums))
        except StateDamagedError as error:
            begin, _, end = str(error).partition(" is not what was written there: state/panes ")
            assert (begin, end.endswith("Put a copy that is whole in its place, or start from another savepoint")) == (
                "the savepoint s",
                True,
            )
            return end.rpartition(". Put")[0]
        return None

    was = {"a": [2, "7"], "b": [1_000, "-3"]}
    assert said(WrittenPart(3), {"a": [3, ""]}) is None
    assert said(WrittenPart(3), {"a": [1_003, ""]}) == "has 1,003 rows, and had 3 when it was written"
    assert said(WrittenPart(1_002, was), was) is None
    assert (
        said(WrittenPart(1_002, was), {"a": [2, "7"]})
        == "has 2 rows, and had 1,002 when it was written: the file b is missing or empty"
    )
    assert said(WrittenPart(1_002, was), {**was, "a": [2, "8"]}) == "was changed: the file a was changed: it has another checksum"
    copied = WrittenPart(1_002, was, copied=True)
    assert said(copied, {"c": [1_002, "4"]}) is None
    assert said(copied, {"c": [1_002, "5"]}) == "was changed: it has another checksum"
    assert said(copied, {"c": [1_001, "4"]}) == "has 1,001 rows, and had 1,002 when it was written"
    assert said(WrittenPart(3), AnalysisException("[PATH_NOT_FOUND] no path")) == "is gone"
    assert said(WrittenPart(3, was), AnalysisException("[OTHER] no")) == "cannot be read ([OTHER] no)"
    assert said(WrittenPart(3), PySparkException("PATH_NOT_FOUND")) == "cannot be read (PATH_NOT_FOUND)"
    for error in (ValueError("x"), PySparkException("SparkContext was shut down")):
        with pytest.raises(type(error)) as caught:
            verify("s", {"p": WrittenPart(3)}, lambda name, error=error: Frame(error))
        assert caught.value is error


# -- sources -----------------------------------------------------------------------------------------------------------------


def positions(*kinds):
    return [SourcePosition(number, kind, "{}") for number, kind in enumerate(kinds)]


def test_numbers_of_source_logs_follow_from_kinds_and_folders(spark, tmp_path):
    assert numbers_of_logs(spark, "nowhere", positions("kafka", "delta")) == {0: 0, 1: 1}
    path = files(tmp_path / "two", "sources/0/0", "sources/1/0", "sources/odd/0")
    assert numbers_of_logs(spark, f"{path}/", positions("files", "kafka")) == {0: 0, 1: 1}
    # Other kinds of sources may or may not have a log.
    assert numbers_of_logs(spark, path, positions("files", "files", "delta")) == {0: 0, 1: 1, 2: 2}
    with pytest.raises(CheckpointError, match=rf"3 inputs of the query have 2 logs in {path}/sources: some of them are one Data"):
        numbers_of_logs(spark, path, positions("delta", "files", "files"))


def test_inputs_from_one_data_frame_share_a_log_number(spark, tmp_path):
    path = files(tmp_path, "sources/0/0", "sources/1/0")
    for number, ends in enumerate((("a", "a", "b"), ("a", "c", "d"), ("a", "c"))):
        files(tmp_path, f"offsets/{number}", text="\n".join(["v1", "{}", *ends]))
    with pytest.raises(CheckpointError, match="3 inputs of the query have 2 logs"):
        numbers_of_logs(spark, path, positions("files", "files", "kafka"))
    files(tmp_path, "offsets/1", text="v1\n{}\nc\nd\nc")
    files(tmp_path, "offsets/0", text="v1\n{}\na\nb\na")
    assert numbers_of_logs(spark, path, positions("files", "files", "files")) == {0: 0, 1: 1, 2: 0}


# -- starting from a savepoint -----------------------------------------------------------------------------------------------


def test_savepoint_of_a_checkpoint_is_needed_until_its_first_commit(spark, tmp_path):
    saved, cp = tmp_path / "saved", str(tmp_path / "cp")
    history = replace(MANIFEST, succession=None, until=77)
    write_manifest(spark, str(saved), history)
    assert (cutover_time(spark, None, cp), savepoint_for(spark, str(saved), cp).manifest.name) == (None, "name")
    restored_from = replace(savepoint_for(spark, str(saved), cp).restored_from, sources=[])
    assert cutover_time(spark, savepoint_for(spark, str(saved), cp), cp) == cutover_time(spark, restored_from, cp) == 77
    claim = ensure_identity(spark, PLAN, cp, restored_from)
    register(spark, claim, [])
    assert cutover_time(spark, None, cp) == 77
    # Nothing was committed, so its state is needed.
    assert savepoint_for(spark, str(saved), cp).path == str(saved)
    files(tmp_path / "cp", "offsets/0", "commits/0")
    assert savepoint_for(spark, str(saved), cp) == restored_from
    # It has disappeared from its place, or from the place that it was moved to. Another savepoint may be in its place.
    saved.rename(tmp_path / "moved")
    assert savepoint_for(spark, str(saved), cp) == savepoint_for(spark, str(tmp_path / "moved"), cp) == restored_from
    with pytest.raises(CheckpointError, match="elsewhere is not a savepoint"):
        savepoint_for(spark, str(tmp_path / "elsewhere"), cp)
    write_manifest(spark, str(saved), replace(history, name="another"))
    assert savepoint_for(spark, str(saved), cp).manifest.name == "another"
