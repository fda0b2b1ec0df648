"""One process that runs a query, as Spark's driver does: what it plans, computes, delivers and commits, and in which order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from panestream.engine.plan import MAIN
from panestream.engine.storage.sealed_state import check_that_groups_agree
from panestream.spark.checkpoint import Rank, planner_of
from panestream.spark.operator.processor import TakenUp
from panestream.spark.sinks.outputs import Outputs
from panestream.testing.simulation.disk import ConflictError, Disk, State, TaskState, keep
from panestream.testing.simulation.engines import Engine, Operated
from panestream.testing.simulation.schedule import MicroBatch
from panestream.testing.simulation.sinks import Files, HeldBy, Merged, Place, Records, Several, Snapshots, Transactions

COUNTED = ("windowed_rows", "late_rows", "outside_rows")


class BrokenPromiseError(AssertionError):
    """Something that must hold does not."""


@dataclass(frozen=True)
class Job:
    """What is run, but for its settings.

    Attributes:
        batches: what the source has.
        merges: whether the main output is merged into a table, too: where a window is emitted once in a micro-batch.
        exchanges: whether the file system can exchange folders in one step.
        silences: whether it matters which run planned a micro-batch.
    """

    batches: Sequence[MicroBatch]
    merges: bool = False
    exchanges: bool = True
    silences: bool = False


@dataclass(frozen=True)
class Remembered:
    """What a task did.

    Attributes:
        before: the state that it began with.
        operated: what it gave; None: there was nothing to do for it.
        values: the state that it left.
        timer: when the clock is to wake the key group up.
        steps: what it wrote on its way.
    """

    before: State | None
    operated: Operated | None
    values: State
    timer: int | None
    steps: Sequence[str]

    def commit(self, disk: Disk, group: int, version: int) -> None:
        """The next version is there."""
        disk.before(f"commit the state of key group {group}")
        keep(disk.checkpoint, group, version + 1, self.values, self.timer)


@dataclass
class Process:
    """A run of the query.

    Attributes:
        job: the query.
        engine: what computes it.
        disk: what survives.
        name: of the run; of two that start at once the larger one holds the checkpoint.
        counters: what each micro-batch counted, by the number that sinks have.
        deliveries: how often each output is delivered.
        memory: tasks that were run, by what they depend on; None: nothing is remembered.
        really: whether a task that is remembered is run all the same, and must then write the same.
    """

    job: Job
    engine: Engine
    disk: Disk
    name: str
    counters: dict[int, dict[str, int]] = field(default_factory=dict)
    deliveries: int = 1
    memory: dict[Any, Remembered] | None = None
    really: bool = True
    outputs: Outputs = field(init=False, repr=False)
    taken_up: TakenUp = field(init=False, repr=False)

    def start(self) -> Process:
        """Enters the run into the checkpoint: from now on it holds it."""
        checkpoint = self.disk.checkpoint
        number = max((rank[0] for rank in checkpoint.entries), default=0) + 1
        epoch = HeldBy("the checkpoint", number, self.name, self.disk)
        self.disk.before("enter the run into the checkpoint")
        checkpoint.entries[epoch.rank] = None
        checkpoint.found[epoch.rank] = max(checkpoint.offsets, default=-1)
        epoch.check(None)
        return self.start_as(epoch.rank)

    def start_as(self, rank: Rank) -> Process:
        """Goes on as a run that is in the checkpoint."""
        epoch = HeldBy("the checkpoint", *rank, self.disk)
        sinks = {tag: Several(places_of(self.job, self.disk, epoch, tag)) for tag in self.engine.tags}
        self.outputs = Outputs(sinks, epoch, first=self.disk.checkpoint.first)
        found = self.disk.checkpoint.found
        earlier = planner_of({other: planned for other, planned in found.items() if other < rank}, found[rank])
        self.taken_up = TakenUp(_called(rank), found[rank], "" if earlier is None else _called(earlier))
        return self

    def run(self, upto: int | None = None, ended: Callable[[int], bool] = lambda _: False) -> None:
        """Runs micro-batches.

        Args:
            upto: before this one it stops; None: when there are no more rows.
            ended: is told the number of each that is committed; True: that is enough.
        """
        until = len(self.job.batches) if upto is None else upto
        while (number := self.next()) < until:
            self.micro_batch(number)
            if ended(number):
                return

    def next(self) -> int:
        """The micro-batch that comes next, by the number that sinks have: one that was not committed, or a new one."""
        return max(self.disk.checkpoint.commits, default=-1) + 1 + self.disk.checkpoint.first

    def micro_batch(self, number: int) -> None:
        """Plans, computes, delivers and commits one micro-batch."""
        disk, checkpoint = self.disk, self.disk.checkpoint
        own = number - checkpoint.first
        if own not in checkpoint.offsets:
            disk.before(f"plan micro-batch {number}")
            if own in checkpoint.offsets:
                raise ConflictError(f"micro-batch {number} was planned by another")
            checkpoint.offsets[own] = self.name
        self.write(number)
        disk.before(f"commit micro-batch {number}")
        if own in checkpoint.commits:
            raise ConflictError(f"micro-batch {number} was committed by another")
        checkpoint.commits.add(own)

    def write(self, number: int) -> None:
        """What ``foreachBatch`` does (:class:`panestream.spark.query.SinkWriter`): the tasks, and the delivery."""
        spark: Any = None
        self.outputs.check(spark)
        try:
            operated = self.tasks(number)
            metrics = [one.metrics for one in operated]
            if not self.engine.wakes_up:
                check_that_groups_agree(metrics)
            self._count(number, metrics)
            rows: dict[str, Any] = {tag: [] for tag in self.engine.tags}
            for one in operated:
                for tag, some in one.rows.items():
                    rows[tag] += some
            present = {tag for tag, some in rows.items() if some}
            for _ in range(self.deliveries):
                self.outputs.deliver(rows.__getitem__, present, number - self.disk.checkpoint.first)
            # Not to be committed by a run that holds the checkpoint no more.
            self.outputs.check(spark)
        except Exception as error:
            self.outputs.check_after(spark, error)
            raise

    def tasks(self, number: int) -> list[Operated]:
        """The tasks of the key groups, one after another, in any order."""
        groups = list(range(self.engine.groups))
        random.Random(f"{number}/{self.name}").shuffle(groups)
        arrived: list[list[Any]] = []
        done: dict[int, Operated] = {}
        for group in groups:
            known = self._key(number, group)
            remembered = None if self.memory is None else self.memory.get(known)
            if remembered is None or self.really:
                arrived = arrived or self.arrived(number)
                remembered = self._task(number, group, arrived[group], remembered)
                if self.memory is not None:
                    self.memory[known] = remembered
            else:
                for step in remembered.steps:
                    self.disk.before(step)
                remembered.commit(self.disk, group, number - self.disk.checkpoint.first)
            if remembered.operated is not None:
                done[group] = remembered.operated
        return [done[group] for group in sorted(done)]

    def _key(self, number: int, group: int) -> Any:
        """What a task depends on; a state is known by itself, since it is never changed."""
        checkpoint = self.disk.checkpoint
        own = number - checkpoint.first
        state = checkpoint.states.get((group, own))
        run = self.planned_in(own) if self.job.silences else ""
        return id(self.engine), number, own, group, id(state), checkpoint.timers.get((group, own)), run

    def _task(self, number: int, group: int, arrived: Sequence[Any], known: Remembered | None) -> Remembered:
        """Runs a task. One that was run before must write the same."""
        checkpoint, batch = self.disk.checkpoint, self.job.batches[number]
        own = number - checkpoint.first
        state, timer = TaskState(self.disk, group, own), checkpoint.timers.get((group, own))
        operated = None
        if arrived or (timer is not None and timer < batch.clock):
            operated = self.engine.operate(state, group, arrived, batch.clock, self.planned_in(own))
            timer = operated.wake_up if self.engine.wakes_up else None
        before = checkpoint.states.get((group, own))
        made = Remembered(
            before, operated, state.values if operated is not None or before is None else before, timer, state.steps
        )
        if known is not None:
            if (known.values, known.timer, known.steps) != (made.values, made.timer, made.steps):
                raise BrokenPromiseError(f"micro-batch {number} was run again, and key group {group} wrote another state")
            made = replace(known, operated=operated)
        made.commit(self.disk, group, own)
        return made

    def arrived(self, number: int) -> list[list[Any]]:
        """What comes to each key group, in any order; in the same for the same run and micro-batch."""
        rng = random.Random(f"{self.name}/{number}")
        return self.engine.pack(self.job.batches[number], self.name if self.job.silences else "", rng)

    def planned_in(self, own: int) -> str:
        """Which run planned a micro-batch, as far as it matters; ``own``: its number in this checkpoint."""
        return self.taken_up.planned_in(own) if self.job.silences else ""

    def _count(self, number: int, metrics: Sequence[Mapping[str, Any]]) -> None:
        """In = in windows + late + invalid + outside."""
        counted = {name: sum(one[name] for one in metrics) for name in COUNTED}
        counted["invalid_rows"] = max((one["invalid_rows"] for one in metrics), default=0)
        rows = sum(len(task) for task in self.job.batches[number].tasks)
        told = {one["input_rows"] for one in metrics if not one["woken"]} or {0}
        if told != {rows} or sum(counted.values()) != rows:
            raise BrokenPromiseError(f"micro-batch {number} has {rows} rows; counted were {sorted(told)} rows, {counted}")
        self.counters[number] = counted


def _called(rank: Rank) -> str:
    """What an operator knows a run by."""
    return f"{rank[0]}-{rank[1]}"


def places_of(job: Job, disk: Disk, epoch: HeldBy, tag: str) -> list[Place]:
    """Where an output goes: to sinks of every kind."""
    writer = f"{disk.checkpoint.query}/{tag}"
    places: list[Place] = [
        Files(disk, epoch, writer, f"files of {tag}", job.exchanges),
        Transactions(disk, epoch, writer, f"transactions of {tag}"),
        Snapshots(disk, epoch, writer, f"snapshots of {tag}"),
        Records(disk, epoch, writer, f"records of {tag}"),
    ]
    if job.merges and tag == MAIN:
        places.append(Merged(disk, epoch, writer, "merged"))
    return places
