"""A process that runs a query like Spark's driver: it plans, computes, delivers and commits in the same order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from panestream.engine.plan import MAIN
from panestream.engine.storage.state_age import check_that_groups_agree
from panestream.spark.checkpoint.epoch import Rank, planner_of
from panestream.spark.operator.processor import RestartInfo
from panestream.spark.sinks.outputs import Outputs
from panestream.testing.simulation.disk import ConflictError, Disk, State, TaskState, keep
from panestream.testing.simulation.engines import Engine, Operated
from panestream.testing.simulation.schedule import MicroBatch
from panestream.testing.simulation.sinks import Files, HeldBy, Merged, Place, Records, Several, Snapshots, Transactions

COUNTED = ("windowed_rows", "late_rows", "outside_rows")


class BrokenPromiseError(AssertionError):
    """A promise was broken."""


@dataclass(frozen=True)
class SimulatedJob:
    """A query without its settings.

    Attributes:
        merges: whether the main output is also merged into a table, which needs one result of a window in a micro-batch.
        exchanges: whether the file system can exchange folders in one step.
        silences: whether it matters which run planned a micro-batch.
    """

    batches: Sequence[MicroBatch]
    merges: bool = False
    exchanges: bool = True
    silences: bool = False


@dataclass(frozen=True)
class Remembered:
    """The effects of a task on the state ``before``; ``operated`` is None if the task did not have any work."""

    before: State | None
    operated: Operated | None
    values: State
    timer: int | None
    steps: Sequence[str]

    def commit(self, disk: Disk, group: int, version: int) -> None:

        disk.before(f"commit the state of key group {group}")
        keep(disk.checkpoint, group, version + 1, self.values, self.timer)


@dataclass
class Process:
    """A run of the query.

    Attributes:
        name: decides which of two runs that start at once holds the checkpoint (the larger name).
        counters: the counters of each micro-batch, by the number in the sinks.
        deliveries: the number of times that each output is delivered.
        memory: finished tasks by their inputs, or None to disable it.
        really: whether a finished task runs again, which must give the same writes.
    """

    job: SimulatedJob
    engine: Engine
    disk: Disk
    name: str
    counters: dict[int, dict[str, int]] = field(default_factory=dict)
    deliveries: int = 1
    memory: dict[Any, Remembered] | None = None
    really: bool = True
    outputs: Outputs = field(init=False, repr=False)
    restart_info: RestartInfo = field(init=False, repr=False)

    def start(self) -> Process:
        """Enter the run into the checkpoint, which it holds from now on."""
        checkpoint = self.disk.checkpoint
        number = max((rank[0] for rank in checkpoint.entries), default=0) + 1
        epoch = HeldBy("the checkpoint", number, self.name, self.disk)
        self.disk.before("enter the run into the checkpoint")
        checkpoint.entries[epoch.rank] = None
        checkpoint.found[epoch.rank] = max(checkpoint.offsets, default=-1)
        epoch.check(None)
        return self.start_as(epoch.rank)

    def start_as(self, rank: Rank) -> Process:
        """Continue as a run that is in the checkpoint."""
        epoch = HeldBy("the checkpoint", *rank, self.disk)
        sinks = {tag: Several(places_of(self.job, self.disk, epoch, tag)) for tag in self.engine.tags}
        self.outputs = Outputs(sinks, epoch, first=self.disk.checkpoint.first)
        found = self.disk.checkpoint.found
        earlier = planner_of({other: planned for other, planned in found.items() if other < rank}, found[rank])
        self.restart_info = RestartInfo(_called(rank), found[rank], "" if earlier is None else _called(earlier))
        return self

    def run(self, upto: int | None = None, ended: Callable[[int], bool] = lambda _: False) -> None:
        """Run micro-batches before ``upto`` (by default all), until ``ended`` returns True for a committed number."""
        until = len(self.job.batches) if upto is None else upto
        while (number := self.next()) < until:
            self.micro_batch(number)
            if ended(number):
                return

    def next(self) -> int:
        """Return the next micro-batch (uncommitted or new), by its number in the sinks."""
        return max(self.disk.checkpoint.commits, default=-1) + 1 + self.disk.checkpoint.first

    def micro_batch(self, number: int) -> None:

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
        """Run the tasks and the delivery, as ``foreachBatch`` does (:class:`panestream.spark.query.SinkWriter`)."""
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
            # A run that lost the checkpoint must not commit.
            self.outputs.check(spark)
        except Exception as error:
            self.outputs.check_after(spark, error)
            raise

    def tasks(self, number: int) -> list[Operated]:
        """Run the tasks of the key groups one by one, in random order."""
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
        """Return the inputs of a task as a key; a state is identified by its id, since it never changes."""
        checkpoint = self.disk.checkpoint
        own = number - checkpoint.first
        state = checkpoint.states.get((group, own))
        run = self.planned_in(own) if self.job.silences else ""
        return id(self.engine), number, own, group, id(state), checkpoint.timers.get((group, own)), run

    def _task(self, number: int, group: int, arrived: Sequence[Any], known: Remembered | None) -> Remembered:
        """Run a task; a repeated task must give the same writes."""
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
        """Return the input of each key group, in random order that is fixed for a run and micro-batch."""
        rng = random.Random(f"{self.name}/{number}")
        return self.engine.pack(self.job.batches[number], self.name if self.job.silences else "", rng)

    def planned_in(self, own: int) -> str:
        """Return the run that planned a micro-batch, if it matters; ``own`` is its number in this checkpoint."""
        return self.restart_info.planned_in(own) if self.job.silences else ""

    def _count(self, number: int, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Check that input rows equal the sum of rows in windows and late, invalid and outside rows."""
        counted = {name: sum(one[name] for one in metrics) for name in COUNTED}
        counted["invalid_rows"] = max((one["invalid_rows"] for one in metrics), default=0)
        rows = sum(len(task) for task in self.job.batches[number].tasks)
        told = {one["input_rows"] for one in metrics if not one["woken"]} or {0}
        if told != {rows} or sum(counted.values()) != rows:
            raise BrokenPromiseError(f"micro-batch {number} has {rows} rows; counted were {sorted(told)} rows, {counted}")
        self.counters[number] = counted


def _called(rank: Rank) -> str:

    return f"{rank[0]}-{rank[1]}"


def places_of(job: SimulatedJob, disk: Disk, epoch: HeldBy, tag: str) -> list[Place]:
    """Return sinks of every kind for an output."""
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
