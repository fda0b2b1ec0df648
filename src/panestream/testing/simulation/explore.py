"""Explores all disturbances of a schedule: each crash, second copy, older checkpoint and savepoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from panestream.errors import FencedError, PanestreamError
from panestream.testing.simulation.disk import Checkpoint, ConflictError, Disk, TaskState, keep
from panestream.testing.simulation.judge import Judge
from panestream.testing.simulation.process import BrokenPromiseError, Process, Remembered
from panestream.testing.simulation.schedule import Settings
from panestream.testing.simulation.subject import Subject

CRASH, COPIES, TWICE, OLDER, SAVEPOINT, NOTHING = "crash", "two copies", "twice", "older checkpoint", "savepoint", "nothing"
KINDS = (CRASH, COPIES, TWICE, OLDER, SAVEPOINT)
RUN_OUT = 8
"""One of this many crashes runs to the end of the schedule, even if its state has been seen before."""
REALLY = 8
"""One of this many runs executes its tasks again, even if all of them have run with the same rows and states."""
AGAIN = 6
"""One of this many crashes is followed by another crash while the micro-batch is repeated."""
RECUT = {0: "", 1: ", and all that follows comes at once", 2: ", and each part that follows comes by itself"}
IN_TASK = ("put ", "remove ")


class CrashError(BaseException):
    """The process was killed."""


@dataclass(frozen=True)
class Disturbance:
    """A disturbance of a run before a step of the run or micro-batch.

    ``kind`` is one of :data:`KINDS`, or ``nothing``. ``batch`` is the current micro-batch, or the last one in the old checkpoint.
    The restart has other ``settings`` if they are not None. ``groups`` is the number of key groups after a savepoint.
    """

    kind: str
    batch: int = 0
    step: int = 0
    settings: Settings | None = None
    groups: int | None = None
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        said = {
            NOTHING: "with no disturbance",
            CRASH: f"a crash in micro-batch {self.batch}, before step {self.step} of the run ({self.name})",
            COPIES: f"another copy begins in micro-batch {self.batch}, before step {self.step} of it ({self.name})",
            TWICE: "every output is delivered twice",
            OLDER: f"the checkpoint is put back that was there after micro-batch {self.batch}{RECUT.get(self.step, '')}",
            SAVEPOINT: f"a savepoint after micro-batch {self.batch} is the beginning of a query with {self.groups} key groups",
        }[self.kind]
        return said if self.settings is None else f"{said}, and it is started again with {self.settings}"


class BrokenError(AssertionError):
    """A run that broke the promise ``what`` after a disturbance."""

    def __init__(self, disturbance: Disturbance, what: str) -> None:
        super().__init__(f"{disturbance}: {what}")
        self.disturbance, self.what = disturbance, what


@dataclass
class Moment:
    """A step of the undisturbed run, with the disk before it."""

    batch: int
    name: str
    disk: Disk


@dataclass
class Recorder:
    """Records every step of a run."""

    disk: Disk
    moments: list[Moment] = field(default_factory=list)
    batch: int = 0

    def __call__(self, step: str) -> None:
        if step.startswith("plan micro-batch"):
            self.batch = int(step.rsplit(" ", 1)[-1])
        # The writes of a task are invisible before it commits.
        same = step.startswith(IN_TASK) and self.moments and self.moments[-1].name.startswith(IN_TASK)
        self.moments.append(Moment(self.batch, step, self.moments[-1].disk if same else self.disk.copy()))


@dataclass
class At:
    """Calls a function before the step of a given number."""

    step: int
    happens: Any
    count: int = 0
    names: list[str] = field(default_factory=list)

    @property
    def happened(self) -> bool:
        return 0 <= self.step < self.count

    def __call__(self, step: str) -> None:
        number, self.count = self.count, self.count + 1
        self.names.append(step)
        if number == self.step:
            self.happens()


def dies() -> None:
    """Crash the process."""
    raise CrashError


@dataclass
class Explorer:
    """Runs a schedule undisturbed, and then once for each possible disturbance; ``change`` are other settings for restarts."""

    subject: Subject
    change: Settings | None = None
    kinds: Collection[str] = KINDS
    runs: Counter[str] = field(default_factory=Counter)
    memory: dict[Any, Remembered] = field(init=False, default_factory=dict, repr=False)
    moments: list[Moment] = field(init=False, default_factory=list)
    after: dict[int, Disk] = field(init=False, default_factory=dict)
    judge: Judge = field(init=False)

    def explore(self) -> None:
        """Run all disturbances; raise ``BrokenError`` for the first run that breaks a promise."""
        self._reference()
        ways = {CRASH: self._crashes, COPIES: self._copies, TWICE: self._twice, OLDER: self._older, SAVEPOINT: self._savepoints}
        for kind in KINDS:
            if kind in self.kinds:
                for disturbance in ways[kind]():
                    self.run(disturbance)

    def run(self, disturbance: Disturbance) -> None:

        does = {
            CRASH: self._crash,
            COPIES: self._copy,
            TWICE: self._deliver_twice,
            OLDER: self._go_back,
            SAVEPOINT: self._succeed,
        }[disturbance.kind]
        self._guarded(disturbance, lambda: does(disturbance))

    def _guarded(self, disturbance: Disturbance, run: Any) -> None:
        self.runs[disturbance.kind] += 1
        try:
            run()
        except (AssertionError, PanestreamError, ConflictError, KeyError, ValueError, TypeError, RuntimeError) as error:
            raise BrokenError(disturbance, f"{type(error).__name__}: {error}") from error

    def _process(
        self, disk: Disk, name: str, settings: Settings | None = None, groups: int | None = None, *, really: bool = False
    ) -> Process:
        engine = self.subject.engine(settings or self.subject.settings, groups)
        return Process(self.subject.job, engine, disk, name, memory=self.memory, really=really)

    # -- no disturbance ------------------------------------------------------------------------------------------------

    def _reference(self) -> None:
        disk = Disk()
        recorder = Recorder(disk, self.moments)
        disk.before = recorder
        process = self._process(disk, "first")

        def ended(number: int) -> bool:
            self.after[number] = disk.copy()
            return False

        def run() -> None:
            process.start().run(ended=ended)
            recorder("the end")
            self.judge = Judge(self.subject, self.after, dict(process.counters))
            self.judge.undisturbed(disk)

        self._guarded(Disturbance(NOTHING), run)

    # -- crashes -------------------------------------------------------------------------------------------------------

    def _crashes(self) -> Iterator[Disturbance]:
        for step, moment in enumerate(self.moments):
            settings = self.change if step % 3 == 2 else None
            yield Disturbance(CRASH, moment.batch, step, settings, name=moment.name)

    def _crash(self, disturbance: Disturbance) -> None:
        moment = self.moments[disturbance.step]
        disk = moment.disk.copy()
        if moment.name.startswith(IN_TASK):
            self._die_in_task(disturbance.step, disk)
        self.judge.never_a_part(disk)
        first = self._process(disk, "nobody").next()
        # Once the tasks are done, all crashes of a micro-batch start with the same states: some of them represent all.
        really = disturbance.step % (2 if moment.name.startswith(IN_TASK) else REALLY) == 0
        if disturbance.step % AGAIN == AGAIN - 1:
            self._die_again(disk, disturbance)
        process = self._process(disk, "second", disturbance.settings, really=really).start()
        run_out = disturbance.settings is not None or self.subject.job.silences or disturbance.step % RUN_OUT == 0
        process.run(ended=lambda number: not run_out and self.judge.as_if_nothing_had_been(disk, number))
        self.judge.counted(disk, process.counters, first, disturbance.settings)
        if run_out:
            self.judge.at_the_end(disk, process.engine, first, disturbance.settings)

    def _die_again(self, disk: Disk, disturbance: Disturbance) -> None:

        death = At(1 + disturbance.step * 7 % 23, dies)
        disk.before = death
        try:
            self._process(disk, "again", disturbance.settings).start().run()
        except BaseException:  # a crash in a sink is reported as the sink's error
            if not death.happened:
                raise
        disk.before = lambda _: None

    def _die_in_task(self, step: int, disk: Disk) -> None:
        """Interrupt a task between two of its writes, which are lost."""
        moment = self.moments[step]
        begin = step
        while self.moments[begin - 1].name.startswith(IN_TASK):
            begin -= 1
        group = int(moment.name.rsplit(" ", 1)[-1])
        disk.before = At(step - begin, dies)
        process = self._process(disk, "first").start_as(min(disk.checkpoint.entries))
        batch = self.subject.job.batches[moment.batch]
        arrived = process.arrived(moment.batch)[group]
        try:
            state, planned_in = TaskState(disk, group, moment.batch), process.planned_in(moment.batch)
            process.engine.operate(state, group, arrived, batch.clock, planned_in)
        except CrashError:
            disk.before = lambda _: None
        else:
            raise BrokenPromiseError("a task that was run again took other steps than the first time")

    # -- two copies ----------------------------------------------------------------------------------------------------

    def _copies(self) -> Iterator[Disturbance]:
        for number in range(len(self.subject.job.batches)):
            disk, steps = self._before(number), At(-1, dies)
            disk.before = steps
            self._process(disk, "third").start().micro_batch(number)
            begun = False
            for step, name in enumerate([*steps.names, "the end"]):
                # The steps within a task are invisible to other processes, so the first write represents all.
                if not (begun and name.startswith(IN_TASK)):
                    yield Disturbance(COPIES, number, step, name=name)
                begun = name.startswith(IN_TASK)

    def _before(self, number: int) -> Disk:
        return self.after[number - 1].copy() if number else Disk()

    def _copy(self, disturbance: Disturbance) -> None:
        number, disk = disturbance.batch, self._before(disturbance.batch)
        more = 1 + disturbance.step % 2
        other, entered = self._process(disk, "other"), list[bool]()

        def another_starts() -> None:
            entered.append(any(rank[1] == "third" for rank in disk.checkpoint.entries))
            disk.before = lambda _: None
            other.start().run(upto=min(number + more, len(self.subject.job.batches)))

        disk.before = At(disturbance.step, another_starts)
        process, fenced = self._process(disk, "third"), False
        try:
            process.start().micro_batch(number)
        except (FencedError, ConflictError):
            fenced = True
        if not entered:
            another_starts()
        elif entered[0] and not fenced:
            raise BrokenPromiseError("a copy went on though another was started later")
        # Restarted idle timers may let windows fire in other micro-batches, so only the end is comparable.
        silences = self.subject.job.silences
        if not silences:
            self.judge.never_a_part(disk)
        last = self._process(disk, "last", really=disturbance.step % REALLY == 0).start()
        last.run(ended=lambda n: not silences and self.judge.as_if_nothing_had_been(disk, n))
        self.judge.at_the_end_if_reached(disk, last.engine)

    # -- twice ---------------------------------------------------------------------------------------------------------

    def _twice(self) -> Iterator[Disturbance]:
        yield Disturbance(TWICE)

    def _deliver_twice(self, disturbance: Disturbance) -> None:
        disk = Disk()
        process = self._process(disk, "first")
        process.deliveries, process.really = 2, True
        process.start().run()
        self.judge.at_the_end(disk, process.engine, 0, None)

    # -- an older checkpoint -------------------------------------------------------------------------------------------

    def _older(self) -> Iterator[Disturbance]:
        for number in range(len(self.subject.job.batches) - 1):
            # Cutting the later rows costs as much as fifty crashes, so each micro-batch tries only one way.
            yield from (Disturbance(OLDER, number, step) for step in (0, 1 + number % 2))

    def _go_back(self, disturbance: Disturbance) -> None:
        number = disturbance.batch
        if disturbance.step:
            self._go_back_to_other_rows(disturbance)
            return
        disk = Disk(self.after[number].checkpoint.copy(), self.after[max(self.after)].places.copy())
        process = self._process(disk, "restored").start()
        process.run()
        if self.subject.job.silences:
            # As with rows that are cut differently, restarted idle timers may give other results for a micro-batch.
            self.judge.files_at_the_end(disk, process.engine)
        else:
            self.judge.at_the_end(disk, process.engine, number + 1, None)

    def _go_back_to_other_rows(self, disturbance: Disturbance) -> None:
        """Repeat the later rows in other micro-batches; the files must contain exactly their results."""
        other = self.subject.recut(disturbance.batch, at_once=disturbance.step == 1)
        if other is None:
            return
        disk = Disk(self.after[disturbance.batch].checkpoint.copy(), self.after[max(self.after)].places.copy())
        process = Process(other.job, other.engine(self.subject.settings), disk, "restored")
        process.start().run()
        Judge(other, {}, {}).files_at_the_end(disk, process.engine)

    # -- a savepoint ---------------------------------------------------------------------------------------------------

    def _savepoints(self) -> Iterator[Disturbance]:
        for number in range(len(self.subject.job.batches) - 1):
            others = [groups for groups in (1, 2, 3) if groups != self.subject.engine(self.subject.settings).groups]
            yield Disturbance(SAVEPOINT, number, groups=others[number % 2])

    def _succeed(self, disturbance: Disturbance) -> None:
        old = self.after[disturbance.batch].copy()
        engine = self.subject.engine(self.subject.settings)
        there = [old.checkpoint.state(group, disturbance.batch + 1) for group in range(engine.groups)]
        other = self.subject.engine(self.subject.settings, disturbance.groups)
        born = Checkpoint(query="q+1", first=disturbance.batch + 1)
        for group, (state, timer) in enumerate(engine.dealt(there, other)):
            keep(born, group, 0, state, timer)
        old.checkpoint.entries[max(old.checkpoint.entries)[0] + 1, "told"] = "another checkpoint"
        disk = Disk(born, old.places)
        process = self._process(disk, "heir", None, disturbance.groups).start()
        before = self._process(old, "first")
        before.start_as(min(old.checkpoint.entries))
        try:
            before.micro_batch(disturbance.batch + 1)
        except FencedError:
            pass
        else:
            raise BrokenPromiseError("a query went on though another succeeded it")
        process.run()
        self.judge.at_the_end(disk, process.engine, disturbance.batch + 1, None)


def first_broken(subject: Subject, change: Settings | None, kinds: Collection[str]) -> BrokenError | None:
    """Return the error of the first run that does not keep a promise, or None if all do."""
    try:
        Explorer(subject, change, kinds).explore()
    except BrokenError as error:
        return error
    return None
