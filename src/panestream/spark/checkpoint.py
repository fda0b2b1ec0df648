"""Panestream's records in a checkpoint: which query it belongs to, and which run of the query holds it.

Each start adds an entry, ``panestream/runs/NUMBER-NAME``, and never changes another, so a crash loses nothing. The run with the
largest number (on a tie, the largest name) holds the checkpoint. All other runs stop at their next check. Spark reads and writes
the entries, so this works on any file system and from a Spark Connect client. If this process sees the same files, it reads them
directly.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from panestream.engine.plan import WindowPlan, check_identity
from panestream.engine.savepoint.plans import plan_json
from panestream.errors import FencedError, SinkError, StateDamagedError, StateFormatError
from panestream.spark.compat import check_data_frames, check_rows, wants_data_frames
from panestream.spark.markers import PARTS, list_files, read_markers, write_marker, write_new_marker
from panestream.spark.mode import CheckpointMode
from panestream.spark.operator.processor import RestartInfo
from panestream.spark.places import escaped, file_place, local_folder
from panestream.spark.savepoint.birth import RestoredFrom, birth_of_next
from panestream.spark.session import numbers_micro_batches
from panestream.spark.succession import (
    SUCCESSOR,
    Lineage,
    check_not_gone_on,
    check_not_succeeded,
    check_only_heir,
    succession_after,
    successors,
    tell_old,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNS, _GAPS = "panestream/runs", "panestream/gaps"
_FIRSTS, _ENDS = "panestream/firsts", "panestream/ends"
UNKNOWN = -1
"""In a gap record: the micro-batch that the state belongs to is unknown."""
_ENTRY = re.compile(r"(\d{10})-([0-9a-f]+)")
_KEPT = 20
_BROKEN = (
    "the checkpoint's identity was in it. If there are other entries beside it, delete this one's folder, they say the same; "
    "else restore the checkpoint from a copy, or start from a new checkpoint with new outputs"
)

Rank = tuple[int, str]
"""A run's number and name. The larger of two ranks was started later."""


@dataclass(frozen=True)
class Epoch:
    """One run of a query, as its entry in the checkpoint. Numbers increase; the random name separates simultaneous starts."""

    checkpoint: str
    number: int
    name: str

    @property
    def rank(self) -> Rank:
        return self.number, self.name

    @property
    def entry(self) -> str:
        """The name of the entry's folder."""
        return f"{self.number:010d}-{self.name}"

    def check(self, spark: SparkSession) -> None:
        """Raise FencedError if a later run holds the checkpoint, or SinkError if this run's entry was deleted or replaced."""
        self.check_holds(self._entries(spark), lambda: (newest_entry(spark, self.checkpoint) or {}).get(SUCCESSOR))

    def check_holds(self, entries: Collection[Rank], successor_of_newest: Callable[[], str | None]) -> None:
        """Apply the rule of :meth:`check` to ``entries``. ``successor_of_newest`` returns a successor's checkpoint, or None."""
        newest = max(entries, default=self.rank)
        if newest > self.rank:
            successor = successor_of_newest()
            if successor is not None:
                raise FencedError(
                    f"another query goes on from a savepoint, with the checkpoint {successor}, and writes to the same places "
                    f"(it says so in {self.checkpoint}): this run stops, and publishes nothing more"
                )
            raise FencedError(
                f"another copy of this query was started later on the checkpoint {self.checkpoint} (run {newest[0]}, this is "
                f"run {self.number}): this copy stops, and publishes nothing more. Let only one copy run for one checkpoint; "
                "if the other one was the mistake, stop it and start this one again"
            )
        if self.rank not in entries:
            raise SinkError(
                f"the checkpoint {self.checkpoint} was deleted or replaced while the query ran (the entry of run {self.number} "
                "is gone): this run stops. Start the query again, it goes on from the checkpoint that is there"
            )

    def registered(self, spark: SparkSession, rank: Rank) -> bool:
        """Return whether the checkpoint has an entry for a run. A restored copy lacks the entries of later runs."""
        return rank in self._entries(spark)

    def write_gap(self, spark: SparkSession, state_of: int) -> None:
        """Record that a micro-batch of this run left the state as it was after ``state_of``."""
        write_marker(spark, f"{self.checkpoint}/{_GAPS}/{self.entry}", {"state_of": state_of})

    def write_first(self, spark: SparkSession, batch_id: int) -> None:
        """Record, before the commit, the first micro-batch of this run."""
        self._leave(spark, _FIRSTS, {"batch_id": batch_id})

    def write_end(self, spark: SparkSession) -> None:
        """Record that this run has ended, and the last micro-batch that was committed."""
        self._leave(spark, _ENDS, {"last": last_committed(spark, self.checkpoint)})

    def _leave(self, spark: SparkSession, kind: str, marker: Mapping[str, Any]) -> None:
        runs = self._seen_here()
        folder = None if runs is None else runs.with_name(Path(kind).name) / self.entry
        write_new_marker(spark, f"{self.checkpoint}/{kind}/{self.entry}", folder, marker)

    def forget_old(self) -> None:
        """Delete the entries of old runs if this process sees the files."""
        runs = self._seen_here()
        if runs is not None:
            folders = [runs.with_name(Path(kind).name) for kind in (_RUNS, _GAPS, _FIRSTS, _ENDS)]
            for path in [path for folder in folders if folder.is_dir() for path in folder.iterdir()]:
                entry = _ENTRY.fullmatch(path.name)
                if entry and int(entry.group(1)) < self.number - _KEPT:
                    shutil.rmtree(path, ignore_errors=True)

    @property
    def is_local(self) -> bool:
        """True if the checkpoint of a registered run is on a file system of this machine."""
        return self._seen_here() is not None

    def _entries(self, spark: SparkSession) -> set[Rank]:
        runs = self._seen_here()
        if runs is None:
            # Numbers are consecutive: if a larger one exists, so does the next. Spark lists a few paths without a job.
            near = f"{{{self.number:010d},{self.number + 1:010d}}}-*"
            return set(_ranks(list_files(spark, _entries_pattern(self.checkpoint, near))))
        # An interrupted start leaves a folder without a part file. It never held the checkpoint.
        return set(_ranks(path.as_posix() for path in runs.glob(f"*/{PARTS}")))

    def _seen_here(self) -> Path | None:
        """Return the folder of the entries, or None if this process does not see an entry there with this run's random name."""
        folder = local_folder(file_place(self.checkpoint))
        runs = None if folder is None else folder / _RUNS
        return runs if runs is not None and (runs / self.entry).is_dir() else None


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
        born: the savepoint that the checkpoint starts from, or None.
        state_of: after the last committed micro-batch the state is at least as new as after this one. None if that is unknown.
        is_last_known: False if, after a killed run, Spark's own writer (``.main.writeStream``) may have committed ``last``.
        committer: the entry of the last run that committed a micro-batch, or empty.
    """

    epoch: Epoch
    query: str
    queries: frozenset[str]
    plan: WindowPlan
    last: int
    written: frozenset[str]
    data_frames: bool = False
    new: bool = False
    born: RestoredFrom | None = None
    mode: CheckpointMode = field(default_factory=CheckpointMode)
    taken_up: RestartInfo = field(default_factory=partial(RestartInfo, ""))
    state_of: int | None = None
    is_last_known: bool = True
    committer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def succession(self) -> Lineage | None:
        """The inheritance from the queries before this one, or None if this query is the first."""
        return None if self.born is None else self.born.succession

    @property
    def first(self) -> int:
        """The number that sinks use for micro-batch 0."""
        return self.succession.first if self.succession else 0

    @property
    def begins_with(self) -> RestoredFrom | None:
        """The savepoint whose state must still be restored, as nothing has been committed yet, or None."""
        return self.born if self.last < 0 else None


def read_lease(
    spark: SparkSession, plan: WindowPlan, checkpoint: str, birth: RestoredFrom | None = None, mode: CheckpointMode | None = None
) -> Lease:
    """Read the entries of a checkpoint for a new run, and refuse the run if it cannot resume from it.

    Raises:
        CheckpointError: the checkpoint was started in another mode or from another savepoint.
        PlanMismatchError: another plan has planned micro-batches here. The state would refuse it too, but only after the start.
        StateDamagedError: an entry cannot be read, or Spark's plan of a committed micro-batch is missing.
        EnvironmentNotReadyError: this version of Spark cannot resume a query of another version.
    """
    entries = _read_entries(spark, checkpoint)
    number, query, last = 1, str(uuid.uuid4()), -1
    data_frames, planned = wants_data_frames(spark), -1
    mode = mode or CheckpointMode.wanted(plan, ends=False, closes=False)
    born = birth
    if entries:
        newest = max(entries)
        check_not_succeeded(_in_order(entries), checkpoint, partial(last_committed, spark))
        planned, last = _last(spark, checkpoint, "offsets"), _last(spark, checkpoint, "commits")
        _check_planned(checkpoint, planned, last)
        told = RestoredFrom.of_json(entries[newest].get("born"))
        born = birth_of_next(checkpoint, told, birth, planned=planned >= 0, committed=last >= 0)
        if planned >= 0:
            check_identity(entries[newest]["identity"], plan.identity(), f"the checkpoint {checkpoint}")
            data_frames = bool(entries[newest].get("data_frames", False))
            if not data_frames:
                check_rows(spark, checkpoint)
            mode = mode.on(entries[newest], plan, checkpoint)
        number, query = newest[0] + 1, str(entries[newest]["query"])
    elif born is not None and born.succession is not None:
        query = born.succession.new_identity()
    if data_frames:
        check_data_frames(spark)
    queries = {query, *(str(marker["query"]) for marker in entries.values())}
    # A run that committed nothing may not have written to its places.
    written = {place for marker in entries.values() if last > marker["after"] for place in marker["places"]}
    if born is not None and born.succession is not None:
        queries |= set(born.succession.queries)
        written |= set(born.succession.places)
    epoch = Epoch(checkpoint, number, uuid.uuid4().hex)
    found = RestartInfo(epoch.entry, planned, _planned_by(entries, planned))
    known = _known_state(spark, checkpoint, entries, last)
    return Lease(
        epoch, query, frozenset(queries), plan, last, frozenset(written), data_frames, not entries, born, mode, found, **known
    )


def _known_state(spark: SparkSession, checkpoint: str, entries: Mapping[Rank, Mapping[str, Any]], last: int) -> dict[str, Any]:
    """Return what the runs of a checkpoint recorded about its state, as fields of a claim."""
    way_out = "it says how old the state may be. Restore it from a copy of the checkpoint"
    marks: dict[str, dict[Rank, dict[str, Any]]] = {kind: {} for kind in (_GAPS, _FIRSTS, _ENDS)}
    pattern = f"{escaped(checkpoint)}/{{{','.join(marks)}}}/*/{PARTS}"
    for path, mark in read_markers(spark, pattern, way_out).items():
        marks["/".join(path.split("/")[-4:-2])].update(dict.fromkeys(_ranks([path]), mark))
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
    known: dict[str, Any] = {"committer": entries[committer], "is_last_known": committer in ends and end == last}
    if entries[committer].get("tells_gaps"):  # earlier versions did not
        oldest = min(end, int(gaps[committer]["state_of"])) if committer in gaps else end
        known["state_of"] = None if oldest == UNKNOWN else oldest
    return known


def _check_planned(checkpoint: str, planned: int, last: int) -> None:
    """Refuse a checkpoint without Spark's plan of a committed micro-batch: Spark would repeat an earlier one, then fail."""
    if last > planned:
        raise StateDamagedError(
            f"the checkpoint {checkpoint} is damaged: micro-batch {last} was committed (commits/{last}), and Spark's plan of it "
            f"(offsets/{last}) is gone. Put back that file, or a copy of the whole checkpoint from before the damage"
        )


def _planned_by(entries: Mapping[Rank, Mapping[str, Any]], number: int) -> str:
    """Return the entry of the run that planned a micro-batch, or an empty string if it is unknown."""
    planner = planner_of({rank: marker.get("planned", marker["after"]) for rank, marker in entries.items()}, number)
    return "" if planner is None else Epoch("", *planner).entry


def planner_of(found: Mapping[Rank, int], number: int) -> Rank | None:
    """Return the last run that did not find micro-batch ``number`` planned. ``found`` has the last planned one at each start."""
    return max((rank for rank, planned in found.items() if planned < number), default=None)


def ensure_identity(
    spark: SparkSession, plan: WindowPlan, checkpoint: str, birth: RestoredFrom | None = None, mode: CheckpointMode | None = None
) -> Lease:
    """Return the result of :func:`read_lease`, after recording the identity of a new query in an entry 0.

    Sinks store the identity in their places. If a start fails after that, the next start must use the same identity, or its own
    outputs would refuse it.
    """
    claim = read_lease(spark, plan, checkpoint, birth, mode)
    if claim.new:
        register(spark, replace(claim, epoch=replace(claim.epoch, number=0)), [])
        claim = read_lease(spark, plan, checkpoint, birth, mode)
    return claim


def register(spark: SparkSession, claim: Lease, places: Iterable[str]) -> None:
    """Add the run to the checkpoint, which it then holds. Raise FencedError if another copy was started at the same moment."""
    marker = {"query": claim.query, "identity": claim.plan.identity(), "after": claim.last, "places": sorted(places)}
    marker |= {"data_frames": claim.data_frames, "plan": _saved_plan(claim.plan)}
    marker |= {
        "planned": claim.taken_up.planned,
        "tells_gaps": numbers_micro_batches(spark),
        "tells_firsts": True,
        **claim.mode.as_json(),
    }
    marker |= {} if claim.born is None else {"born": claim.born.as_json()}
    write_marker(spark, f"{claim.epoch.checkpoint}/{_RUNS}/{claim.epoch.entry}", marker)
    claim.epoch.check(spark)
    claim.epoch.forget_old()


def _saved_plan(plan: WindowPlan) -> Mapping[str, Any] | None:
    """Return the plan for readers without the job's code, or None for a foreign operator. The query itself does not need it."""
    try:
        return plan_json(plan)
    except StateFormatError:
        return None


def newest_entry(spark: SparkSession, checkpoint: str, batch_id: int | None = None) -> Mapping[str, Any] | None:
    """Return the entry of the newest run, or of the run that committed ``batch_id``. None if no run was ever started.

    The entries of old runs are deleted. For their micro-batches, return the oldest remaining entry.
    """
    entries = _read_entries(spark, checkpoint)
    if batch_id is None or not entries:
        return entries[max(entries)] if entries else None
    begun = [rank for rank, marker in entries.items() if marker["after"] < batch_id]
    return entries[max(begun, default=min(entries))]


def _read_entries(spark: SparkSession, checkpoint: str) -> dict[Rank, dict[str, Any]]:
    markers = read_markers(spark, _entries_pattern(checkpoint), _BROKEN)
    return {rank: marker for path, marker in markers.items() for rank in _ranks([path])}


def succession_of(spark: SparkSession, checkpoint: str, batch_id: int) -> Lineage:
    """Return what a query inherits that starts from the savepoint of a micro-batch."""
    entries = _read_entries(spark, checkpoint)
    return succession_after(_in_order(entries), _address(spark, checkpoint), batch_id)


def _address(spark: SparkSession, checkpoint: str) -> str:
    """Return the checkpoint's folder for processes elsewhere: a relative path is resolved as Spark resolves it here."""
    if checkpoint.startswith("/") or urlsplit(checkpoint).scheme:
        return checkpoint
    entries = list_files(spark, _entries_pattern(checkpoint))
    return unquote(entries[0]).split(f"/{_RUNS}/", maxsplit=1)[0] if entries else checkpoint


def _in_order(entries: Mapping[Rank, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of runs, oldest first."""
    return [entries[rank] for rank in sorted(entries)]


def succeed(spark: SparkSession, claim: Lease, places: Iterable[str]) -> Epoch | None:
    """Record a succession in the old query's checkpoint, if both queries write to a common place.

    Returns:
        The new entry, which stops the old query or a competing successor. None if the queries share no place.

    Raises:
        CheckpointError: the old query continued there after the savepoint, or another query succeeded it there.
        FencedError: the old query was started again at the same moment.
    """
    old = claim.succession
    shared = set(places) & set(old.places) if old is not None and claim.last < 0 else set()
    if claim.born is None or old is None or not shared:
        return None
    entries = _read_entries(spark, old.checkpoint) if old.checkpoint else {}
    if not entries or entries[max(entries)]["query"] not in old.queries:
        # The old checkpoint was history, was deleted or now belongs to another query. Then the savepoint holds the record.
        old = replace(old, checkpoint=claim.born.path, batch_id=-1)
        entries = _read_entries(spark, old.checkpoint) or {(0, ""): {"query": old.queries[-1]}}
    check_not_gone_on(old, last_committed(spark, old.checkpoint), shared)
    mine = file_place(_address(spark, claim.epoch.checkpoint))
    others = [each for each in successors(_in_order(entries)) if file_place(each) != mine]
    _check_only_heir(spark, old, others, shared)
    epoch = Epoch(old.checkpoint, max(entries)[0] + 1, uuid.uuid4().hex)
    last, successor = last_committed(spark, old.checkpoint), _address(spark, claim.epoch.checkpoint)
    tell_old(spark, f"{old.checkpoint}/{_RUNS}/{epoch.entry}", entries[max(entries)], last, successor)
    epoch.check(spark)
    # A query that ran there, or started from there, may have committed a micro-batch in the meantime.
    check_not_gone_on(old, last_committed(spark, old.checkpoint), shared)
    _check_only_heir(spark, old, others, shared)
    return epoch


def _check_only_heir(spark: SparkSession, old: Lineage, others: Iterable[str], shared: Iterable[str]) -> None:
    known = {each: list(_read_entries(spark, each).values()) for each in others}
    check_only_heir(old, known, shared, partial(last_committed, spark))


def last_committed(spark: SparkSession, checkpoint: str) -> int:
    """Return the last committed micro-batch, or -1."""
    return _last(spark, checkpoint, "commits")


def planned_at(spark: SparkSession, checkpoint: str, batch_id: int) -> int | None:
    """Return when Spark first planned a micro-batch (milliseconds, clock of that driver), or None if its log does not have it."""
    lines = spark.read.text(f"{escaped(checkpoint)}/offsets/{batch_id}").collect()
    found = [match for row in lines for match in re.findall(r'"batchTimestampMs":\s*(\d+)', row.value)]
    return int(found[0]) if found else None


def _entries_pattern(checkpoint: str, names: str = "*") -> str:
    return f"{escaped(checkpoint)}/{_RUNS}/{names}/{PARTS}"


def _ranks(paths: Iterable[str]) -> list[Rank]:
    """Return the runs that these files are entries of."""
    entries = [_ENTRY.fullmatch(path.split("/")[-2]) for path in paths]
    return [(int(entry.group(1)), entry.group(2)) for entry in entries if entry]


def logged(spark: SparkSession, checkpoint: str, log: str) -> frozenset[int]:
    """Return the micro-batches in Spark's log ``offsets`` (planned) or ``commits`` (committed).

    Spark keeps the last 100 in each (``spark.sql.streaming.minBatchesToRetain``).
    """
    names = [path.rsplit("/", 1)[-1] for path in list_files(spark, f"{escaped(checkpoint)}/{log}")]
    return frozenset(int(name) for name in names if name.isdigit())


def _last(spark: SparkSession, checkpoint: str, log: str) -> int:
    """Return the last micro-batch in one of Spark's logs, or -1."""
    return max(logged(spark, checkpoint, log), default=-1)
