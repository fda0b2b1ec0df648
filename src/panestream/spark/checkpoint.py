"""What panestream keeps in a checkpoint beside Spark's own: whose it is, and which run of the query holds it.

Each start adds an entry, ``panestream/runs/NUMBER-NAME``, and never changes another: a crash loses nothing. The entry with the
largest number (of equals, with the largest name) holds the checkpoint; the runs of all others stop where they next look.
Through Spark, so on any file system and from a client of Spark Connect; where this process sees the same files, it looks itself.
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
from panestream.spark.markers import PARTS, list_files, read_markers, write_marker, write_new_marker
from panestream.spark.mode import Mode
from panestream.spark.operator.flavours import check_data_frames, check_rows, wants_data_frames
from panestream.spark.operator.processor import TakenUp
from panestream.spark.places import escaped, file_place, local_folder
from panestream.spark.savepoint.birth import Birth, birth_of_next
from panestream.spark.session import numbers_micro_batches
from panestream.spark.succession import (
    SUCCESSOR,
    Succession,
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
"""In a gap, of which micro-batch the state is: nobody knows."""
_ENTRY = re.compile(r"(\d{10})-([0-9a-f]+)")
_KEPT = 20
_BROKEN = (
    "the checkpoint's identity was in it. If there are other entries beside it, delete this one's folder, they say the same; "
    "else restore the checkpoint from a copy, or start from a new checkpoint with new outputs"
)

Rank = tuple[int, str]
"""A run's number and name: of two runs the larger one was started later."""


@dataclass(frozen=True)
class Epoch:
    """One run of a query: its entry in the checkpoint.

    Attributes:
        checkpoint: the folder, as the user named it.
        number: one more than the largest when the run was started.
        name: random; tells apart two runs that were started in the same moment.
    """

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
        """Raises where this run does not hold the checkpoint.

        Raises:
            FencedError: another copy of the query was started later.
            SinkError: the entry is gone: the checkpoint was deleted, or an older copy of it was put in its place.
        """
        self.check_holds(self._entries(spark), lambda: (newest_entry(spark, self.checkpoint) or {}).get(SUCCESSOR))

    def check_holds(self, entries: Collection[Rank], successor_of_newest: Callable[[], str | None]) -> None:
        """The rule of :meth:`check`, of the entries that are there.

        Args:
            entries: the runs that the checkpoint knows.
            successor_of_newest: gives the checkpoint of the query that succeeds this one, where the newest entry is its.

        Raises:
            FencedError: another run holds it.
            SinkError: this run is not among them.
        """
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
        """Whether a run is known to the checkpoint; one that is not belongs to a future that a restored copy has forgotten."""
        return rank in self._entries(spark)

    def write_gap(self, spark: SparkSession, state_of: int) -> None:
        """Leaves in the checkpoint that this run had a micro-batch which left the state as that of ``state_of``."""
        write_marker(spark, f"{self.checkpoint}/{_GAPS}/{self.entry}", {"state_of": state_of})

    def write_first(self, spark: SparkSession, batch_id: int) -> None:
        """Leave in the checkpoint, before the commit, which micro-batch is the first of this run."""
        self._leave(spark, _FIRSTS, {"batch_id": batch_id})

    def write_end(self, spark: SparkSession) -> None:
        """Leave in the checkpoint that this run has ended, and which micro-batch it committed last."""
        self._leave(spark, _ENDS, {"last": last_committed(spark, self.checkpoint)})

    def _leave(self, spark: SparkSession, kind: str, marker: Mapping[str, Any]) -> None:
        runs = self._seen_here()
        folder = None if runs is None else runs.with_name(Path(kind).name) / self.entry
        write_new_marker(spark, f"{self.checkpoint}/{kind}/{self.entry}", folder, marker)

    def forget_old(self) -> None:
        """Deletes the entries of runs long past, where this process sees the files."""
        runs = self._seen_here()
        if runs is not None:
            folders = [runs.with_name(Path(kind).name) for kind in (_RUNS, _GAPS, _FIRSTS, _ENDS)]
            for path in [path for folder in folders if folder.is_dir() for path in folder.iterdir()]:
                entry = _ENTRY.fullmatch(path.name)
                if entry and int(entry.group(1)) < self.number - _KEPT:
                    shutil.rmtree(path, ignore_errors=True)

    @property
    def is_local(self) -> bool:
        """Whether the registered run's checkpoint lies on a file system of this machine."""
        return self._seen_here() is not None

    def _entries(self, spark: SparkSession) -> set[Rank]:
        runs = self._seen_here()
        if runs is None:
            # Numbers follow one another: if there is a larger one, the next is there. Few paths are listed without a Spark job.
            near = f"{{{self.number:010d},{self.number + 1:010d}}}-*"
            return set(_ranks(list_files(spark, _entries_pattern(self.checkpoint, near))))
        # A start that was broken off leaves a folder without a part: it never held the checkpoint.
        return set(_ranks(path.as_posix() for path in runs.glob(f"*/{PARTS}")))

    def _seen_here(self) -> Path | None:
        """The folder of the entries, where this process sees the files that Spark sees: those with this run's random name."""
        folder = local_folder(file_place(self.checkpoint))
        runs = None if folder is None else folder / _RUNS
        return runs if runs is not None and (runs / self.entry).is_dir() else None


@dataclass(frozen=True)
class Claim:
    """What a checkpoint says before a run is added to it.

    Attributes:
        epoch: of the run to come, not yet registered.
        query: the query's identity.
        queries: all identities that the checkpoint ever had: more than one where two copies were started at once the first time;
            and of the queries that it succeeds.
        plan: of the run to come.
        last: the last micro-batch that was committed; -1: none.
        written: the places of outputs that had micro-batches committed to them.
        data_frames: whether its state was begun over data frames, as Spark 4.0 does; of a new one whether it is to be.
        new: whether the checkpoint knew no query yet.
        born: the savepoint that it began with, or is to begin with; None: with nothing.
        mode: how the query runs on it.
        taken_up: what the run to come found planned.
        state_of: after the last committed micro-batch the state is that of this one, or of a later one. None if that is unknown.
        is_last_known: whether it is known who committed the last micro-batch. After a run that was killed, Spark's own writer
            (``.main.writeStream``) may have.
        committer: the entry of the last run that committed a micro-batch, or empty if there is none.
    """

    epoch: Epoch
    query: str
    queries: frozenset[str]
    plan: WindowPlan
    last: int
    written: frozenset[str]
    data_frames: bool = False
    new: bool = False
    born: Birth | None = None
    mode: Mode = field(default_factory=Mode)
    taken_up: TakenUp = field(default_factory=partial(TakenUp, ""))
    state_of: int | None = None
    is_last_known: bool = True
    committer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def succession(self) -> Succession | None:
        """What it has from queries before it; None: there were none."""
        return None if self.born is None else self.born.succession

    @property
    def first(self) -> int:
        """What sinks call micro-batch 0."""
        return self.succession.first if self.succession else 0

    @property
    def begins_with(self) -> Birth | None:
        """The savepoint whose state must be put in: no micro-batch has been committed that has it."""
        return self.born if self.last < 0 else None


def look_at(
    spark: SparkSession, plan: WindowPlan, checkpoint: str, birth: Birth | None = None, mode: Mode | None = None
) -> Claim:
    """Reads the entries of a checkpoint.

    Args:
        spark: the session.
        plan: of the run to come.
        checkpoint: the folder.
        birth: the savepoint that it is to begin with; None: none was asked for.
        mode: how the query is to run; None: as its plan needs it.

    Raises:
        CheckpointError: it began otherwise.
        PlanMismatchError: it belongs to another plan, and micro-batches of that were planned. (The state holds the plan too, and
            refuses another; here it is found before anything runs.)
        StateDamagedError: an entry cannot be read; Spark's plan of a committed micro-batch is gone.
        StateFormatError: a newer panestream wrote it.
        EnvironmentNotReadyError: this Spark cannot go on with what another version began.
    """
    entries = _read_entries(spark, checkpoint)
    number, query, last = 1, str(uuid.uuid4()), -1
    data_frames, planned = wants_data_frames(spark), -1
    mode = mode or Mode.wanted(plan, ends=False, closes=False)
    born = birth
    if entries:
        newest = max(entries)
        check_not_succeeded(_in_order(entries), checkpoint, partial(last_committed, spark))
        planned, last = _last(spark, checkpoint, "offsets"), _last(spark, checkpoint, "commits")
        _check_planned(checkpoint, planned, last)
        told = Birth.of_json(entries[newest].get("born"))
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
    # A run that committed nothing may not have come to write to its places.
    written = {place for marker in entries.values() if last > marker["after"] for place in marker["places"]}
    if born is not None and born.succession is not None:
        queries |= set(born.succession.queries)
        written |= set(born.succession.places)
    epoch = Epoch(checkpoint, number, uuid.uuid4().hex)
    found = TakenUp(epoch.entry, planned, _planned_by(entries, planned))
    known = _known_state(spark, checkpoint, entries, last)
    return Claim(
        epoch, query, frozenset(queries), plan, last, frozenset(written), data_frames, not entries, born, mode, found, **known
    )


def _known_state(spark: SparkSession, checkpoint: str, entries: Mapping[Rank, Mapping[str, Any]], last: int) -> dict[str, Any]:
    """Return what the runs of a checkpoint say of its state, as fields of a claim."""
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

    # Entry 0 is of no run: what is committed beside it alone, Spark's own writer committed (``.main.writeStream``).
    committers = [rank for rank, entry in entries.items() if rank[0] > 0 and has_committed(rank, entry)]
    if not committers:
        return {}
    committer = max(committers)
    end = min(int(ends[committer]["last"]), last) if committer in ends else last
    known: dict[str, Any] = {"committer": entries[committer], "is_last_known": committer in ends and end == last}
    if entries[committer].get("tells_gaps"):  # an earlier panestream did not
        oldest = min(end, int(gaps[committer]["state_of"])) if committer in gaps else end
        known["state_of"] = None if oldest == UNKNOWN else oldest
    return known


def _check_planned(checkpoint: str, planned: int, last: int) -> None:
    """Refuses a checkpoint that has lost Spark's plan of a micro-batch: Spark would run one before it again, and then fail."""
    if last > planned:
        raise StateDamagedError(
            f"the checkpoint {checkpoint} is damaged: micro-batch {last} was committed (commits/{last}), and Spark's plan of it "
            f"(offsets/{last}) is gone. Put back that file, or a copy of the whole checkpoint from before the damage"
        )


def _planned_by(entries: Mapping[Rank, Mapping[str, Any]], number: int) -> str:
    """What the run is called that planned a micro-batch, as far as they tell."""
    planner = planner_of({rank: marker.get("planned", marker["after"]) for rank, marker in entries.items()}, number)
    return "" if planner is None else Epoch("", *planner).entry


def planner_of(found: Mapping[Rank, int], number: int) -> Rank | None:
    """The run that planned a micro-batch: the last one that did not find it planned; None: all found it.

    Args:
        found: of each run the last micro-batch that it found planned.
        number: of the micro-batch.
    """
    return max((rank for rank, planned in found.items() if planned < number), default=None)


def introduce(
    spark: SparkSession, plan: WindowPlan, checkpoint: str, birth: Birth | None = None, mode: Mode | None = None
) -> Claim:
    """What :func:`look_at` finds, of a checkpoint that knows the query: a new one is told its identity first, by an entry 0.

    Sinks leave that identity in their places. A start that ends between there and here, refused by the next sink or killed,
    would else be a stranger to its own outputs the next time.

    Raises:
        FencedError: another copy was started in the same moment, and holds the checkpoint.
    """
    claim = look_at(spark, plan, checkpoint, birth, mode)
    if claim.new:
        register(spark, replace(claim, epoch=replace(claim.epoch, number=0)), [])
        claim = look_at(spark, plan, checkpoint, birth, mode)
    return claim


def register(spark: SparkSession, claim: Claim, places: Iterable[str]) -> None:
    """Adds the run to the checkpoint: from now on it holds it.

    Args:
        spark: the session.
        claim: what :func:`look_at` found.
        places: of the run's outputs.

    Raises:
        FencedError: another copy was started in the same moment, and holds it.
    """
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
    """The plan as a whole, for those who look into the checkpoint without the job's code.

    None: an operator of another package runs it. The query needs nothing of this, so it runs all the same.
    """
    try:
        return plan_json(plan)
    except StateFormatError:
        return None


def newest_entry(spark: SparkSession, checkpoint: str, batch_id: int | None = None) -> Mapping[str, Any] | None:
    """What the run that holds the checkpoint left there; None: none was started there.

    Args:
        spark: the session.
        checkpoint: the folder.
        batch_id: a micro-batch; then it is the run that committed this one. Of runs long past the entries are gone: the oldest
            that is there stands in for them.

    Raises:
        StateDamagedError: an entry cannot be read.
        StateFormatError: a newer panestream wrote it.
    """
    entries = _read_entries(spark, checkpoint)
    if batch_id is None or not entries:
        return entries[max(entries)] if entries else None
    begun = [rank for rank, marker in entries.items() if marker["after"] < batch_id]
    return entries[max(begun, default=min(entries))]


def _read_entries(spark: SparkSession, checkpoint: str) -> dict[Rank, dict[str, Any]]:
    markers = read_markers(spark, _entries_pattern(checkpoint), _BROKEN)
    return {rank: marker for path, marker in markers.items() for rank in _ranks([path])}


def succession_of(spark: SparkSession, checkpoint: str, batch_id: int) -> Succession:
    """What a query has that starts from the savepoint of a micro-batch."""
    entries = _read_entries(spark, checkpoint)
    return succession_after(_in_order(entries), _address(spark, checkpoint), batch_id)


def _address(spark: SparkSession, checkpoint: str) -> str:
    """The folder of a checkpoint as processes find it that work elsewhere: a relative path as Spark understands it here."""
    if checkpoint.startswith("/") or urlsplit(checkpoint).scheme:
        return checkpoint
    entries = list_files(spark, _entries_pattern(checkpoint))
    return unquote(entries[0]).split(f"/{_RUNS}/", maxsplit=1)[0] if entries else checkpoint


def _in_order(entries: Mapping[Rank, dict[str, Any]]) -> list[dict[str, Any]]:
    """What runs left, the newest last."""
    return [entries[rank] for rank in sorted(entries)]


def succeed(spark: SparkSession, claim: Claim, places: Iterable[str]) -> Epoch | None:
    """Tells the query that a new one succeeds, in its checkpoint, where both write to the same places.

    Args:
        spark: the session.
        claim: of the new one's checkpoint.
        places: of its outputs.

    Returns:
        The entry by which it learns of it, or by which others that start from the same savepoint do; None: no place is shared.

    Raises:
        CheckpointError: it went on there after the savepoint, or another query succeeded it there.
        FencedError: it was started again in the same moment.
    """
    old = claim.succession
    shared = set(places) & set(old.places) if old is not None and claim.last < 0 else set()
    if claim.born is None or old is None or not shared:
        return None
    entries = _read_entries(spark, old.checkpoint) if old.checkpoint else {}
    if not entries or entries[max(entries)]["query"] not in old.queries:
        # It was history, is gone, or is another query's by now: who goes on from the savepoint is told in that.
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
    # What ran there, or from there, until now may have committed a micro-batch in between.
    check_not_gone_on(old, last_committed(spark, old.checkpoint), shared)
    _check_only_heir(spark, old, others, shared)
    return epoch


def _check_only_heir(spark: SparkSession, old: Succession, others: Iterable[str], shared: Iterable[str]) -> None:
    known = {each: list(_read_entries(spark, each).values()) for each in others}
    check_only_heir(old, known, shared, partial(last_committed, spark))


def last_committed(spark: SparkSession, checkpoint: str) -> int:
    """The last micro-batch that was committed; -1: none."""
    return _last(spark, checkpoint, "commits")


def planned_at(spark: SparkSession, checkpoint: str, batch_id: int) -> int | None:
    """When Spark planned a micro-batch, milliseconds since 1970, by the clock of the driver that did; None: its log does not say.

    It is planned anew at a restart only where no plan of it was written.
    """
    lines = spark.read.text(f"{escaped(checkpoint)}/offsets/{batch_id}").collect()
    found = [match for row in lines for match in re.findall(r'"batchTimestampMs":\s*(\d+)', row.value)]
    return int(found[0]) if found else None


def _entries_pattern(checkpoint: str, names: str = "*") -> str:
    return f"{escaped(checkpoint)}/{_RUNS}/{names}/{PARTS}"


def _ranks(paths: Iterable[str]) -> list[Rank]:
    """The runs whose entries these files are."""
    entries = [_ENTRY.fullmatch(path.split("/")[-2]) for path in paths]
    return [(int(entry.group(1)), entry.group(2)) for entry in entries if entry]


def logged(spark: SparkSession, checkpoint: str, log: str) -> frozenset[int]:
    """The micro-batches in one of Spark's logs: ``offsets`` has those that were planned, ``commits`` those that were committed.

    Of both Spark keeps the last 100 (``spark.sql.streaming.minBatchesToRetain``).
    """
    names = [path.rsplit("/", 1)[-1] for path in list_files(spark, f"{escaped(checkpoint)}/{log}")]
    return frozenset(int(name) for name in names if name.isdigit())


def _last(spark: SparkSession, checkpoint: str, log: str) -> int:
    """The last micro-batch in one of Spark's logs; -1: none."""
    return max(logged(spark, checkpoint, log), default=-1)
