"""The lease of a run on its checkpoint: what it finds there, in which mode it runs, and whose output it continues."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from panestream.engine.plan import WindowPlan, check_identity
from panestream.engine.savepoint.operators import NamedPlan, check_chain, default_name
from panestream.engine.savepoint.plans import plan_json
from panestream.errors import CheckpointError, StateDamagedError, StateFormatError
from panestream.spark.checkpoint.epoch import (
    ENDS,
    FIRSTS,
    GAPS,
    RUNS,
    UNKNOWN,
    Epoch,
    Rank,
    address_of,
    in_order,
    planner_of,
    ranks_of,
    read_entries,
)
from panestream.spark.checkpoint.lineage import (
    Lineage,
    RestoredFrom,
    check_not_continued,
    check_not_succeeded,
    check_only_successor,
    fence_predecessor,
    lineage_after,
    next_restored_from,
    successors,
)
from panestream.spark.checkpoint.records import PARTS, read_markers, write_marker
from panestream.spark.checkpoint.spark_logs import last_committed, last_logged
from panestream.spark.compat import check_data_frames, check_rows, wants_data_frames
from panestream.spark.operator.processor import RestartInfo
from panestream.spark.places import escaped, file_place
from panestream.spark.session import numbers_micro_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NEW_CHECKPOINT = (
    "start on a new checkpoint, from a savepoint of this one: pst.savepoint(spark, checkpoint, folder), then "
    "start(savepoint=folder)"
)


@dataclass(frozen=True, slots=True)
class CheckpointMode:
    """How a query runs.

    Attributes:
        clock: whether Spark's clock wakes it without new rows. Such a query never ends by itself.
        signals: whether it reads control messages as a source in addition to its input.
        ends: whether it should end by itself.
        closes: whether it should close all windows at its end, which takes a signal.
    """

    clock: bool = False
    signals: bool = False
    ends: bool = False
    closes: bool = False

    @classmethod
    def wanted(cls, plan: WindowPlan, *, ends: bool, closes: bool) -> CheckpointMode:
        """Return the mode for a new checkpoint."""
        return cls(plan.wakes_up, closes or (plan.wakes_up and plan.watermark.closes_after is not None), ends, closes)

    def on(self, entry: Mapping[str, Any], plan: WindowPlan, checkpoint: str) -> CheckpointMode:
        """Return the mode on a checkpoint with micro-batches, given the last run's ``entry``.

        Raises:
            CheckpointError: the checkpoint was created in another mode.
        """
        # Earlier versions used the clock only for windows and triggers of processing time.
        clock = bool(entry.get("clock", plan.operator.capabilities.uses_processing_time and plan.processing_time is None))
        if self.clock and not clock:
            raise CheckpointError(
                f"the checkpoint {checkpoint} was begun by a query that no clock wakes, and Spark cannot change that: it can run "
                "on without closing_after, or until it has read all there is (trigger='availableNow', with fire_at_end=True "
                f"where it was begun so). For closing_after {_NEW_CHECKPOINT}"
            )
        if clock and self.ends:
            raise CheckpointError(
                f"the checkpoint {checkpoint} belongs to a query with processing-time timers (closing_after, or windows or "
                f"triggers of processing time), so with 'availableNow' Spark would run empty micro-batches forever. Give "
                f"trigger='10 seconds' and stop the query yourself; or {_NEW_CHECKPOINT}"
            )
        signals = bool(entry.get("signals", False))
        if self.closes and not signals:
            raise CheckpointError(
                f"the checkpoint {checkpoint} was begun without fire_at_end=True, which has Spark read a source of signals "
                f"beside the input, and Spark cannot add a source: go on without it, or {_NEW_CHECKPOINT}"
            )
        return CheckpointMode(clock, signals, self.ends, self.closes)

    def as_json(self) -> dict[str, bool]:
        """Return the values to store in the checkpoint."""
        return {"clock": self.clock, "signals": self.signals}


@dataclass(frozen=True)
class Lease:
    """The contents of a checkpoint before a run is added to it.

    Attributes:
        epoch: the new run, not yet registered.
        queries: all identities of the checkpoint, and the identities of its predecessors. Two copies that were both started on a
            new checkpoint leave two identities.
        last: the last committed micro-batch, or -1.
        written: the places of outputs that received committed micro-batches.
        data_frames: whether the state was created over data frames, as in Spark 4.0, or will be if the checkpoint is new.
        new: whether the checkpoint did not belong to any query.
        restored_from: the savepoint that the checkpoint starts from, or None.
        state_of: after the last committed micro-batch the state is at least as new as after this one. None if that is unknown.
        is_last_known: False if, after a killed run, Spark's own writer (``.main.writeStream``) may have committed ``last``.
        committer: the entry of the last run that committed a micro-batch, or empty.
        chain: all operators of the query, the one with the ``plan`` last. Empty if they are unknown.
    """

    epoch: Epoch
    query: str
    queries: frozenset[str]
    plan: WindowPlan
    last: int
    written: frozenset[str]
    data_frames: bool = False
    new: bool = False
    restored_from: RestoredFrom | None = None
    mode: CheckpointMode = field(default_factory=CheckpointMode)
    restart_info: RestartInfo = field(default_factory=partial(RestartInfo, ""))
    state_of: int | None = None
    is_last_known: bool = True
    committer: Mapping[str, Any] = field(default_factory=dict)
    chain: Sequence[NamedPlan] = ()

    @property
    def succession(self) -> Lineage | None:
        """The inheritance from the queries before this one, or None if this query is the first."""
        return None if self.restored_from is None else self.restored_from.succession

    @property
    def first(self) -> int:
        """The number that sinks use for micro-batch 0."""
        return self.succession.first if self.succession else 0

    @property
    def begins_with(self) -> RestoredFrom | None:
        """The savepoint whose state must still be restored, as nothing has been committed yet, or None."""
        return self.restored_from if self.last < 0 else None


def read_lease(
    spark: SparkSession,
    plan: WindowPlan,
    checkpoint: str,
    requested: RestoredFrom | None = None,
    mode: CheckpointMode | None = None,
    chain: Sequence[NamedPlan] = (),
) -> Lease:
    """Read the entries of a checkpoint for a new run, and refuse the run if it cannot resume from it.

    Raises:
        CheckpointError: the checkpoint was started in another mode or from another savepoint.
        PlanMismatchError: another plan has planned micro-batches here. The state would refuse it too, but only after the start.
        StateDamagedError: an entry cannot be read, or Spark's plan of a committed micro-batch is missing.
        EnvironmentNotReadyError: this version of Spark cannot resume a query of another version.
    """
    entries = read_entries(spark, checkpoint)
    number, query, last = 1, str(uuid.uuid4()), -1
    data_frames, planned = wants_data_frames(spark), -1
    mode = mode or CheckpointMode.wanted(plan, ends=False, closes=False)
    restored_from = requested
    if entries:
        newest = max(entries)
        check_not_succeeded(in_order(entries), checkpoint, partial(last_committed, spark))
        planned, last = last_logged(spark, checkpoint, "offsets"), last_logged(spark, checkpoint, "commits")
        _check_planned(checkpoint, planned, last)
        recorded = RestoredFrom.of_json(entries[newest].get("born"))
        restored_from = next_restored_from(checkpoint, recorded, requested, planned=planned >= 0, committed=last >= 0)
        if planned >= 0:
            check_chain(entries[newest].get("operators", ()), chain[:-1], f"the checkpoint {checkpoint}")
            check_identity(entries[newest]["identity"], plan.identity(), f"the checkpoint {checkpoint}")
            data_frames = bool(entries[newest].get("data_frames", False))
            if not data_frames:
                check_rows(spark, checkpoint)
            mode = mode.on(entries[newest], plan, checkpoint)
        number, query = newest[0] + 1, str(entries[newest]["query"])
    elif restored_from is not None and restored_from.succession is not None:
        query = restored_from.succession.new_identity()
    if data_frames:
        check_data_frames(spark)
    queries = {query, *(str(marker["query"]) for marker in entries.values())}
    # A run that committed nothing may not have written to its places.
    written = {place for marker in entries.values() if last > marker["after"] for place in marker["places"]}
    if restored_from is not None and restored_from.succession is not None:
        queries |= set(restored_from.succession.queries)
        written |= set(restored_from.succession.places)
    epoch = Epoch(checkpoint, number, uuid.uuid4().hex)
    restart_info = RestartInfo(epoch.entry, planned, _planned_by(entries, planned))
    state_facts = _known_state(spark, checkpoint, entries, last)
    return Lease(
        epoch,
        query,
        frozenset(queries),
        plan,
        last,
        frozenset(written),
        data_frames,
        not entries,
        restored_from,
        mode,
        restart_info,
        chain=chain,
        **state_facts,
    )


def _known_state(spark: SparkSession, checkpoint: str, entries: Mapping[Rank, Mapping[str, Any]], last: int) -> dict[str, Any]:
    """Return what the runs of a checkpoint recorded about its state, as fields of a lease."""
    way_out = "it contains the lower limit for the age of the state. Restore it from a copy of the checkpoint"
    marks: dict[str, dict[Rank, dict[str, Any]]] = {kind: {} for kind in (GAPS, FIRSTS, ENDS)}
    pattern = f"{escaped(checkpoint)}/{{{','.join(marks)}}}/*/{PARTS}"
    for path, mark in read_markers(spark, pattern, way_out).items():
        marks["/".join(path.split("/")[-4:-2])].update(dict.fromkeys(ranks_of([path]), mark))
    gaps, firsts, ends = marks.values()

    def has_committed(rank: Rank, entry: Mapping[str, Any]) -> bool:
        if not entry.get("tells_firsts"):  # an earlier panestream
            return bool(entry["after"] < last)
        return rank in firsts and firsts[rank]["batch_id"] <= last

    # Entry 0 does not belong to a run. With entry 0 alone, Spark's own writer made the commits (``.main.writeStream``).
    committers = [rank for rank, entry in entries.items() if rank[0] > 0 and has_committed(rank, entry)]
    if not committers:
        return {}
    committer = max(committers)
    end = min(int(ends[committer]["last"]), last) if committer in ends else last
    facts: dict[str, Any] = {"committer": entries[committer], "is_last_known": committer in ends and end == last}
    if entries[committer].get("tells_gaps"):  # earlier versions did not
        oldest = min(end, int(gaps[committer]["state_of"])) if committer in gaps else end
        facts["state_of"] = None if oldest == UNKNOWN else oldest
    return facts


def _check_planned(checkpoint: str, planned: int, last: int) -> None:
    """Refuse a checkpoint without Spark's plan of a committed micro-batch: Spark would repeat an earlier one, then fail."""
    if last > planned:
        raise StateDamagedError(
            f"the checkpoint {checkpoint} is damaged: micro-batch {last} was committed (commits/{last}), but Spark's plan of it "
            f"(offsets/{last}) is missing. Put back that file, or a copy of the whole checkpoint from before the damage"
        )


def _planned_by(entries: Mapping[Rank, Mapping[str, Any]], number: int) -> str:
    """Return the entry of the run that planned a micro-batch, or an empty string if it is unknown."""
    planner = planner_of({rank: marker.get("planned", marker["after"]) for rank, marker in entries.items()}, number)
    return "" if planner is None else Epoch("", *planner).entry


def ensure_identity(
    spark: SparkSession,
    plan: WindowPlan,
    checkpoint: str,
    requested: RestoredFrom | None = None,
    mode: CheckpointMode | None = None,
    chain: Sequence[NamedPlan] = (),
) -> Lease:
    """Return the result of :func:`read_lease`, after recording the identity of a new query in an entry 0.

    Sinks store the identity in their places. If a start fails after that, the next start must use the same identity, or its own
    outputs would refuse it.
    """
    lease = read_lease(spark, plan, checkpoint, requested, mode, chain)
    if lease.new:
        register(spark, replace(lease, epoch=replace(lease.epoch, number=0)), [])
        lease = read_lease(spark, plan, checkpoint, requested, mode, chain)
    return lease


def register(spark: SparkSession, lease: Lease, places: Iterable[str]) -> None:
    """Add the run to the checkpoint, which it then holds. Raise FencedError if another copy was started at the same moment."""
    marker = {"query": lease.query, "identity": lease.plan.identity(), "after": lease.last, "places": sorted(places)}
    marker |= {"data_frames": lease.data_frames, "plan": _saved_plan(lease.plan)}
    marker |= {
        "planned": lease.restart_info.planned,
        "tells_gaps": numbers_micro_batches(spark),
        "tells_firsts": True,
        **lease.mode.as_json(),
    }
    marker |= {} if lease.restored_from is None else {"born": lease.restored_from.as_json()}
    marker |= _saved_chain(lease.chain)
    write_marker(spark, f"{lease.epoch.checkpoint}/{RUNS}/{lease.epoch.entry}", marker)
    lease.epoch.check(spark)
    lease.epoch.forget_old()


def _saved_chain(chain: Sequence[NamedPlan]) -> Mapping[str, Any]:
    """Return the name of the last operator, unless it is the only one and was not named, and the operators before it."""
    if [each.name for each in chain] in ([], [default_name(1)]):
        return {}
    before = [{"uid": each.name, "identity": each.plan.identity(), "plan": _saved_plan(each.plan)} for each in chain[:-1]]
    return {"uid": chain[-1].name, "operators": before}


def _saved_plan(plan: WindowPlan) -> Mapping[str, Any] | None:
    """Return the plan for readers without the job's code, or None for a foreign operator. The query itself does not need it."""
    try:
        return plan_json(plan)
    except StateFormatError:
        return None


def lineage_of(spark: SparkSession, checkpoint: str, batch_id: int) -> Lineage:
    """Return what a query inherits that starts from the savepoint of a micro-batch."""
    entries = read_entries(spark, checkpoint)
    return lineage_after(in_order(entries), address_of(spark, checkpoint), batch_id)


def succeed(spark: SparkSession, lease: Lease, places: Iterable[str]) -> Epoch | None:
    """Record a succession in the old query's checkpoint, if both queries write to a common place.

    Returns:
        The new entry, which stops the old query or a competing successor. None if the queries share no place.

    Raises:
        CheckpointError: the old query continued there after the savepoint, or another query succeeded it there.
        FencedError: the old query was started again at the same moment.
    """
    old = lease.succession
    shared = set(places) & set(old.places) if old is not None and lease.last < 0 else set()
    if lease.restored_from is None or old is None or not shared:
        return None
    entries = read_entries(spark, old.checkpoint) if old.checkpoint else {}
    if not entries or entries[max(entries)]["query"] not in old.queries:
        # The old checkpoint was history, was deleted or now belongs to another query. Then the savepoint holds the record.
        old = replace(old, checkpoint=lease.restored_from.path, batch_id=-1)
        entries = read_entries(spark, old.checkpoint) or {(0, ""): {"query": old.queries[-1]}}
    check_not_continued(old, last_committed(spark, old.checkpoint), shared)
    mine = file_place(address_of(spark, lease.epoch.checkpoint))
    others = [each for each in successors(in_order(entries)) if file_place(each) != mine]
    _check_only_successor(spark, old, others, shared)
    epoch = Epoch(old.checkpoint, max(entries)[0] + 1, uuid.uuid4().hex)
    last, successor = last_committed(spark, old.checkpoint), address_of(spark, lease.epoch.checkpoint)
    fence_predecessor(spark, f"{old.checkpoint}/{RUNS}/{epoch.entry}", entries[max(entries)], last, successor)
    epoch.check(spark)
    # A query that ran there, or started from there, may have committed a micro-batch in the meantime.
    check_not_continued(old, last_committed(spark, old.checkpoint), shared)
    _check_only_successor(spark, old, others, shared)
    return epoch


def _check_only_successor(spark: SparkSession, old: Lineage, others: Iterable[str], shared: Iterable[str]) -> None:
    entries = {each: list(read_entries(spark, each).values()) for each in others}
    check_only_successor(old, entries, shared, partial(last_committed, spark))
