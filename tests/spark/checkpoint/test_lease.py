"""The run that holds a checkpoint, and the facts that the next run finds there, from its files alone. Without Spark."""

from __future__ import annotations

import re

import pytest

from panestream.errors import CheckpointError, FencedError, PlanMismatchError, SinkError, StateDamagedError
from panestream.spark.checkpoint import epoch, lineage, records
from panestream.spark.checkpoint import lease as checkpoints
from panestream.spark.checkpoint.epoch import Epoch, newest_entry, planner_of, read_entries
from panestream.spark.checkpoint.lease import CheckpointMode, Lease, ensure_identity, lineage_of, read_lease, register, succeed
from panestream.spark.checkpoint.lineage import Lineage, RestoredFrom
from panestream.spark.checkpoint.records import read_markers
from panestream.spark.checkpoint.spark_logs import last_committed, logged, planned_at
from panestream.spark.operator.processor import RestartInfo
from tests.engine.exchange.test_exchange import plan as plan_of
from tests.spark.local_files import LocalFiles, leave_marker

SPARK = LocalFiles()
PLAN = plan_of(3)


@pytest.fixture(autouse=True)
def written_here(monkeypatch):
    for module in (epoch, checkpoints, lineage):
        monkeypatch.setattr(module, "write_marker", leave_marker)
    monkeypatch.setattr(checkpoints, "wants_data_frames", lambda spark: False)
    monkeypatch.setattr(checkpoints, "check_rows", lambda spark, path: None)


def entry(checkpoint, number, name="ab", **told):
    marker = {"query": "q", "identity": PLAN.identity(), "after": -1, "planned": -1, "places": [], "plan": None, **told}
    leave_marker(SPARK, checkpoint / "panestream/runs" / f"{number:010d}-{name}", marker)


def logs(checkpoint, planned, committed):
    """Write Spark's logs: micro-batches up to these."""
    for log, last in (("offsets", planned), ("commits", committed)):
        (checkpoint / log).mkdir(parents=True, exist_ok=True)
        for number in range(last + 1):
            (checkpoint / log / str(number)).write_text(f'v1\n{{"batchTimestampMs":{1000 + number},"conf":{{}}}}\n-')
        (checkpoint / log / "tmp.5").write_text("of a crash")


def test_entry_with_the_largest_number_and_then_name_holds_the_checkpoint(tmp_path):
    for number, name in ((1, "ab"), (2, "aa"), (2, "ab")):
        entry(tmp_path, number, name)
    Epoch(str(tmp_path), 2, "ab").check(SPARK)
    for number, name in ((1, "ab"), (2, "aa")):
        with pytest.raises(FencedError, match=rf"started later on the checkpoint {tmp_path} \(run 2, this is run {number}\)"):
            Epoch(str(tmp_path), number, name).check(SPARK)


def test_missing_entry_of_a_run_means_a_replaced_checkpoint(tmp_path):
    entry(tmp_path, 1)
    for there in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SinkError, match=r"deleted or replaced while the query ran \(the entry of run 2 is missing\)"):
            Epoch(str(there), 2, "ab").check(SPARK)
    # A later run's entry is found even if this run's entry is missing.
    with pytest.raises(FencedError, match="run 1, this is run 0"):
        Epoch(str(tmp_path), 0, "ab").check(SPARK)


def test_fenced_run_names_the_query_that_took_over_its_outputs(tmp_path):
    entry(tmp_path, 1)
    entry(tmp_path, 2, successor="/new")
    with pytest.raises(FencedError, match=rf"continues from a savepoint, with the checkpoint /new, .*as noted in {tmp_path}\)"):
        Epoch(str(tmp_path), 1, "ab").check(SPARK)


def test_interrupted_start_does_not_hold_the_checkpoint(tmp_path):
    entry(tmp_path, 1)
    (tmp_path / "panestream/runs/0000000002-ab").mkdir()
    for leftover in (".0000000003-ab-0f", "odd"):
        assert list(read_entries(SPARK, str(tmp_path))) == [(1, "ab")]
        (tmp_path / "panestream/runs" / leftover).mkdir()
        (tmp_path / "panestream/runs" / leftover / "part-0").touch()
    epoch = Epoch(str(tmp_path), 1, "ab")
    epoch.check(SPARK)
    assert [epoch.registered(SPARK, rank) for rank in ((1, "ab"), (2, "ab"), (1, "aa"))] == [True, False, False]


def test_entries_of_old_runs_are_deleted(tmp_path):
    for number in range(1, 31):
        entry(tmp_path, number)
    (tmp_path / "panestream/runs/odd").mkdir()
    Epoch(str(tmp_path), 30, "ab").forget_old()
    left = sorted(path.name for path in (tmp_path / "panestream/runs").iterdir())
    assert left == [*(f"{number:010d}-ab" for number in range(10, 31)), "odd"]
    # A process that does not see its own entry does not see the files that Spark sees.
    Epoch(str(tmp_path), 60, "ab").forget_old()
    assert len(list((tmp_path / "panestream/runs").iterdir())) == 22


def test_checkpoint_without_the_plan_of_a_committed_micro_batch_is_refused(tmp_path):
    entry(tmp_path, 1)
    logs(tmp_path, 3, 3)
    assert read_lease(SPARK, PLAN, str(tmp_path)).last == 3
    (tmp_path / "offsets" / "3").unlink()
    with pytest.raises(StateDamagedError) as error:
        read_lease(SPARK, PLAN, str(tmp_path))
    assert str(error.value) == (
        f"the checkpoint {tmp_path} is damaged: micro-batch 3 was committed (commits/3), but Spark's plan of it (offsets/3) is "
        "missing. Put back that file, or a copy of the whole checkpoint from before the damage"
    )


def test_state_is_as_old_as_the_last_commit_unless_a_gap_is_recorded(tmp_path):
    logs(tmp_path, 5, 5)
    entry(tmp_path, 1)
    assert read_lease(SPARK, PLAN, str(tmp_path)).state_of is None  # an earlier panestream committed it
    entry(tmp_path, 2, after=2, tells_gaps=True)
    entry(tmp_path, 3, after=5)
    claim = read_lease(SPARK, PLAN, str(tmp_path))
    assert (claim.last, claim.state_of, claim.committer["after"]) == (5, 5, 2)
    Epoch(str(tmp_path), 1, "ab").write_gap(SPARK, 0)
    assert read_lease(SPARK, PLAN, str(tmp_path)).state_of == 5
    Epoch(str(tmp_path), 2, "ab").write_gap(SPARK, 3)
    assert read_lease(SPARK, PLAN, str(tmp_path)).state_of == 3
    Epoch(str(tmp_path), 2, "ab").write_gap(SPARK, 8)  # recorded before the commit, which never happened
    assert read_lease(SPARK, PLAN, str(tmp_path)).state_of == 5
    for mark in (Epoch.write_end, lambda epoch, spark: epoch.write_first(spark, 3)):
        mark(Epoch(str(tmp_path), 2, "ab"), SPARK)
    entry(tmp_path, 30, after=5)
    Epoch(str(tmp_path), 30, "ab").forget_old()
    assert [list((tmp_path / "panestream" / kind).iterdir()) for kind in ("gaps", "firsts", "ends")] == [[], [], []]


def test_age_of_state_is_unknown_after_commits_without_start(tmp_path):
    """``.main.writeStream`` leaves neither entries nor gaps, so there may be micro-batches without rows."""
    logs(tmp_path, 2, 2)
    claim = ensure_identity(SPARK, PLAN, str(tmp_path))
    assert (claim.last, claim.state_of, claim.committer) == (2, None, {})


def test_unknown_age_of_state_stays_unknown_in_the_next_run(tmp_path):
    """For example a run through Connect, which counts, and then a run whose only micro-batch is empty.

    The state is still as counted.
    """
    logs(tmp_path, 6, 6)
    entry(tmp_path, 1, after=5, tells_gaps=True)
    Epoch(str(tmp_path), 1, "ab").write_gap(SPARK, epoch.UNKNOWN)
    assert read_lease(SPARK, PLAN, str(tmp_path)).state_of is None


def test_commits_of_the_run_before_are_not_attributed_to_a_run_without_micro_batches(tmp_path):
    """The run before passes its check, the second run starts and looks, and then the run before commits and is killed."""
    logs(tmp_path, 5, 5)
    entry(tmp_path, 1, tells_gaps=True, tells_firsts=True)
    before = Epoch(str(tmp_path), 1, "ab")
    before.write_first(SPARK, 0)
    claim = read_lease(SPARK, PLAN, str(tmp_path))
    register(SPARK, claim, [])
    before.write_gap(SPARK, 5)
    logs(tmp_path, 6, 6)  # without rows
    found = read_lease(SPARK, PLAN, str(tmp_path))
    assert (found.last, found.state_of, found.committer["after"]) == (6, 5, -1)
    claim.epoch.write_first(SPARK, 7)
    assert read_lease(SPARK, PLAN, str(tmp_path)).state_of == 5  # it is not committed yet
    logs(tmp_path, 7, 7)
    found = read_lease(SPARK, PLAN, str(tmp_path))
    assert (found.state_of, found.committer["after"]) == (7, 5)


@pytest.mark.parametrize("gap", [None, 2])
def test_age_of_state_is_unknown_for_commits_after_the_end_of_a_run(tmp_path, gap):
    """Another writer, for example Spark's own, may have committed only micro-batches without rows."""
    logs(tmp_path, 4, 4)
    entry(tmp_path, 1, tells_gaps=True, tells_firsts=True)
    run = Epoch(str(tmp_path), 1, "ab")
    run.write_first(SPARK, 0)
    if gap is not None:
        run.write_gap(SPARK, gap)
    assert not read_lease(SPARK, PLAN, str(tmp_path)).is_last_known
    run.write_end(SPARK)
    found = read_lease(SPARK, PLAN, str(tmp_path))
    assert (found.state_of, found.is_last_known) == (4 if gap is None else gap, True)
    logs(tmp_path, 7, 7)
    found = read_lease(SPARK, PLAN, str(tmp_path))
    assert (found.state_of, found.is_last_known) == (4 if gap is None else gap, False)
    entry(tmp_path, 2, after=7, tells_gaps=True, tells_firsts=True)
    Epoch(str(tmp_path), 2, "ab").write_first(SPARK, 8)
    logs(tmp_path, 8, 8)
    assert read_lease(SPARK, PLAN, str(tmp_path)).state_of == 8


def test_marks_are_written_without_spark_if_this_process_sees_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(epoch, "write_marker", records.write_marker)
    written = []

    class Session(LocalFiles):
        """A session that does not tell its application, so that only the run's own entry shows where the checkpoint is."""

        def range(self, rows):
            written.append(rows)
            raise OSError("a job of Spark")

    entry(tmp_path, 1)
    Epoch(str(tmp_path), 1, "ab").write_first(Session(), 3)
    (mark,) = read_markers(SPARK, f"{tmp_path}/panestream/firsts/*/part-*", "").values()
    assert (mark["batch_id"], written) == (3, [])
    # A mark exists, which Spark overwrites; and this process does not see the entry of run 2.
    for number in (1, 2):
        with pytest.raises(OSError, match="a job of Spark"):
            Epoch(str(tmp_path), number, "ab").write_first(Session(), 3)


def test_checkpoint_is_local_if_this_process_sees_its_entry(tmp_path):
    entry(tmp_path, 1)
    assert [Epoch(place, 1, "ab").is_local for place in (str(tmp_path), f"file:{tmp_path}", "hdfs://host/x")] == [
        True,
        True,
        False,
    ]
    assert not Epoch(str(tmp_path), 2, "ab").is_local


def test_planned_and_committed_micro_batches_are_read_from_spark_logs(tmp_path):
    logs(tmp_path, planned=4, committed=3)
    assert logged(SPARK, str(tmp_path), "offsets") == {0, 1, 2, 3, 4}
    assert last_committed(SPARK, str(tmp_path)) == 3
    assert last_committed(SPARK, str(tmp_path / "nowhere")) == -1
    assert planned_at(SPARK, str(tmp_path), 2) == 1002
    (tmp_path / "offsets/2").write_text("v1\n{}\n-")
    assert planned_at(SPARK, str(tmp_path), 2) is None


def test_entry_of_the_run_that_committed_a_micro_batch_is_found(tmp_path):
    assert [newest_entry(SPARK, str(tmp_path), batch) for batch in (None, 3)] == [None, None]
    for number, after in ((4, 2), (5, 2), (6, 7)):
        entry(tmp_path, number, after=after)
        (tmp_path / "panestream/runs" / f"{number:010d}-ab" / "_SUCCESS").touch()

    assert newest_entry(SPARK, str(tmp_path))["after"] == 7
    # The oldest entry replaces those that were deleted.
    assert [newest_entry(SPARK, str(tmp_path), batch)["after"] for batch in (0, 2, 3, 7, 8)] == [2, 2, 2, 2, 7]


@pytest.mark.parametrize(
    ("number", "planner"), [(0, (1, "a")), (3, (1, "a")), (4, (3, "c")), (5, (3, "c")), (9, (4, "d")), (-1, None)]
)
def test_micro_batch_was_planned_by_the_last_run_that_did_not_find_it(number, planner):
    assert planner_of({(1, "a"): -1, (2, "b"): 3, (3, "c"): 3, (4, "d"): 8}, number) == planner


def test_lease_of_a_new_checkpoint(tmp_path):
    claim = read_lease(SPARK, PLAN, str(tmp_path))
    assert (claim.epoch.number, claim.last, claim.new, claim.restored_from, claim.first) == (1, -1, True, None, 0)
    assert (claim.queries, claim.written, claim.mode) == ({claim.query}, frozenset(), CheckpointMode())
    assert claim.restart_info == RestartInfo(claim.epoch.entry, -1, "")
    assert read_lease(SPARK, PLAN, str(tmp_path)).query != claim.query


def test_lease_of_the_next_run_has_last_commit_and_written_places(tmp_path):
    entry(tmp_path, 1, query="p", places=["a"])
    entry(tmp_path, 2, places=["b", "c"], after=1, planned=2)
    entry(tmp_path, 3, places=["d"], after=3, planned=3)
    logs(tmp_path, planned=4, committed=3)
    claim = read_lease(SPARK, PLAN, str(tmp_path))
    assert (claim.epoch.number, claim.query, claim.queries) == (4, "q", {"p", "q"})
    # Run 3 committed nothing, and perhaps wrote nothing to its folder.
    assert (claim.last, claim.written, claim.new, claim.data_frames) == (3, {"a", "b", "c"}, False, False)
    assert claim.restart_info == RestartInfo(claim.epoch.entry, 4, "0000000003-ab")


def test_another_plan_is_refused_once_a_micro_batch_was_planned(tmp_path):
    entry(tmp_path, 1, identity=plan_of(4).identity())
    assert read_lease(SPARK, PLAN, str(tmp_path)).query == "q"
    logs(tmp_path, planned=0, committed=-1)
    with pytest.raises(PlanMismatchError, match=f"the checkpoint {tmp_path}"):
        read_lease(SPARK, PLAN, str(tmp_path))


def test_query_with_a_successor_that_committed_is_refused(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    entry(old, 1)
    entry(old, 2, successor=str(new))
    logs(new, planned=0, committed=-1)
    read_lease(SPARK, PLAN, str(old))
    logs(new, planned=0, committed=0)
    with pytest.raises(CheckpointError, match=f"with the checkpoint {new}"):
        read_lease(SPARK, PLAN, str(old))


def test_new_checkpoint_gets_an_identity_before_sinks_open(tmp_path):
    claim = ensure_identity(SPARK, PLAN, str(tmp_path))
    (path,) = (tmp_path / "panestream/runs").iterdir()
    assert path.name.startswith("0000000000-")
    assert (claim.epoch.number, claim.new, claim.query) == (1, False, newest_entry(SPARK, str(tmp_path))["query"])
    assert ensure_identity(SPARK, PLAN, str(tmp_path)).query == claim.query
    assert len(list((tmp_path / "panestream/runs").iterdir())) == 1


def test_entry_of_a_run_has_query_places_and_plan(tmp_path):
    claim = Lease(
        Epoch(str(tmp_path), 3, "ab"),
        "q",
        frozenset({"q"}),
        PLAN,
        5,
        frozenset(),
        mode=CheckpointMode(signals=True),
        restart_info=RestartInfo("", 6),
    )
    register(SPARK, claim, ["b", "a"])
    found = dict(newest_entry(SPARK, str(tmp_path)))
    assert found.pop("plan") is not None
    assert found == {
        "format": 1,
        "query": "q",
        "identity": PLAN.identity(),
        "after": 5,
        "places": ["a", "b"],
        "data_frames": False,
        "planned": 6,
        "tells_gaps": True,
        "tells_firsts": True,
        "clock": False,
        "signals": True,
    }
    entry(tmp_path, 4)
    with pytest.raises(FencedError):
        register(SPARK, claim, [])


def test_starting_run_deletes_old_entries(tmp_path):
    entry(tmp_path, 1)
    register(SPARK, Lease(Epoch(str(tmp_path), 22, "ab"), "q", frozenset(), PLAN, -1, frozenset()), [])
    assert [path.name for path in (tmp_path / "panestream/runs").iterdir()] == ["0000000022-ab"]


class Succeeding:
    """A query whose savepoint was taken after micro-batch 5, and a query that starts from it."""

    def __init__(self, folder, places=("file:/a", "file:/b")):
        self.old, self.new = folder / "old", folder / "new"
        entry(self.old, 1, places=list(places))
        logs(self.old, planned=5, committed=5)
        self.restored_from = RestoredFrom("s", str(folder / "saved"), lineage_of(SPARK, str(self.old), 5))

    def claim(self, name="new"):
        return read_lease(SPARK, PLAN, str(self.new.with_name(name)), self.restored_from)


def test_lease_of_a_query_from_savepoint_continues_its_numbers(tmp_path):
    them = Succeeding(tmp_path)
    assert them.restored_from.succession == Lineage(("q",), 6, ("file:/a", "file:/b"), str(them.old), 5)
    claim = them.claim()
    assert (claim.first, claim.written, claim.begins_with, claim.new) == (6, {"file:/a", "file:/b"}, them.restored_from, True)
    assert (claim.query.startswith("q+"), claim.queries) == (True, {"q", claim.query})


def test_old_query_is_fenced_if_its_successor_shares_a_folder(tmp_path):
    them = Succeeding(tmp_path)
    claim = them.claim()
    assert succeed(SPARK, claim, ["file:/c"]) is None
    epoch = succeed(SPARK, claim, ["file:/b", "file:/c"])
    assert (epoch.checkpoint, epoch.number) == (str(them.old), 2)
    found = newest_entry(SPARK, str(them.old))
    assert (found["successor"], found["after"], found["places"], found["query"]) == (str(them.new), 5, [], "q")
    with pytest.raises(FencedError, match=re.escape(f"with the checkpoint {them.new},")):
        Epoch(str(them.old), 1, "ab").check(SPARK)
    # The same query may start once more. Another query may start until the first has committed something.
    assert succeed(SPARK, claim, ["file:/b"]).number == 3
    assert succeed(SPARK, them.claim("newer"), ["file:/b"]).number == 4
    register(SPARK, claim, ["file:/b"])
    logs(them.new, planned=0, committed=0)
    with pytest.raises(CheckpointError, match=f"another query continued from {them.old} already, with the checkpoint {them.new}"):
        succeed(SPARK, them.claim("newer"), ["file:/b"])


def test_savepoint_of_an_old_query_that_continued_is_refused(tmp_path):
    them = Succeeding(tmp_path)
    logs(them.old, planned=6, committed=6)
    with pytest.raises(CheckpointError, match=r"of micro-batch 5, but the query went on .* up to micro-batch 6"):
        succeed(SPARK, them.claim(), ["file:/a"])


def test_successor_is_recorded_in_the_savepoint_if_the_old_checkpoint_is_missing(tmp_path):
    them = Succeeding(tmp_path)
    claim = them.claim()
    (them.old / "panestream").rename(tmp_path / "gone")
    epoch = succeed(SPARK, claim, ["file:/a"])
    assert (epoch.checkpoint, epoch.number) == (them.restored_from.path, 1)
    found = newest_entry(SPARK, them.restored_from.path)
    assert (found["successor"], found["after"], found["query"]) == (str(them.new), -1, "q")


def test_query_that_has_committed_no_longer_succeeds_the_old_query(tmp_path):
    them = Succeeding(tmp_path)
    register(SPARK, them.claim(), ["file:/a"])
    logs(them.new, planned=0, committed=0)
    claim = them.claim()
    assert (claim.begins_with, claim.restored_from, succeed(SPARK, claim, ["file:/a"])) == (None, them.restored_from, None)


def test_commit_of_a_rival_successor_during_the_start_is_detected(tmp_path, monkeypatch):
    them = Succeeding(tmp_path)
    succeed(SPARK, them.claim(), ["file:/b"])
    register(SPARK, them.claim(), ["file:/b"])
    tell = checkpoints.fence_predecessor

    def told(*given):
        tell(*given)
        logs(them.new, planned=0, committed=0)

    monkeypatch.setattr(checkpoints, "fence_predecessor", told)
    with pytest.raises(CheckpointError, match=f"another query continued from {them.old} already, with the checkpoint {them.new}"):
        succeed(SPARK, them.claim("newer"), ["file:/b"])
