"""Checks the outputs, counters and state of simulated runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from panestream.engine.plan import MAIN
from panestream.testing.simulation.disk import Disk, OutputRow
from panestream.testing.simulation.engines import Engine
from panestream.testing.simulation.process import BrokenPromiseError, places_of
from panestream.testing.simulation.schedule import Settings
from panestream.testing.simulation.sinks import Files, HeldBy, Merged, Place, Records, Transactions
from panestream.testing.simulation.subject import Answer, Subject

READER = HeldBy("the checkpoint", 0, "reader")
Counts = Mapping[int, Mapping[str, int]]


@dataclass
class Judge:
    """Compares runs with their expected results, and with disk and counters of each micro-batch of the undisturbed run."""

    subject: Subject
    after: Mapping[int, Disk]
    counts: Counts
    _seen: dict[Any, Any] = field(default_factory=dict, repr=False)

    # -- the undisturbed run -------------------------------------------------------------------------------------------

    def undisturbed(self, disk: Disk) -> None:
        """Check the undisturbed run against the definition, if there is one, and for leftover state."""
        engine = self.subject.engine(self.subject.settings)
        known = self._must_be(disk, 0, None)
        self._outputs(disk, engine, known, None, None)
        self._compare_counts(self.counts, known)
        self.subject.check_whole([row for rows in self._files(disk, MAIN).read().values() for row in rows])
        self._left(disk, engine, None, 0)

    def _must_be(self, disk: Disk, first: int, changed: Settings | None) -> list[tuple[Answer, Mapping[str, int]]]:
        """Return the expected result of each micro-batch of the run on ``disk``, with settings changed before ``first``."""
        settings = self._settings(first, changed)
        known = self.subject.must_be(settings, disk.checkpoint.starts())
        if known is not None:
            return known
        last = self.after[max(self.after)]
        engine = self.subject.engine(self.subject.settings)
        read = {tag: self._read(last, tag)[0].read() for tag in engine.tags}
        answers = [{tag: self.subject.answer(tag, rows.get(n, ())) for tag, rows in read.items()} for n in sorted(self.after)]
        return [(answer, self.counts[number]) for number, answer in enumerate(answers)]

    def _settings(self, first: int, changed: Settings | None) -> list[Settings]:
        every = len(self.subject.job.batches)
        return [self.subject.settings if changed is None or number < first else changed for number in range(every)]

    # -- disturbed runs ------------------------------------------------------------------------------------------------

    def as_if_nothing_had_been(self, disk: Disk, number: int) -> bool:
        """Return whether the disk (and so all later results) equals the undisturbed run's; raise if readers find other rows."""
        then = self.after[number]
        for tag in self.subject.engine(self.subject.settings).tags:
            for now, before in zip(self._read(disk, tag), self._read(then, tag), strict=True):
                self._same_as_then(now, before, number)
        groups = range(self.subject.engine(self.subject.settings).groups)
        return all(
            disk.checkpoint.state(group, number + 1) == then.checkpoint.state(group, number + 1)
            and disk.checkpoint.timers.get((group, number + 1)) == then.checkpoint.timers.get((group, number + 1))
            for group in groups
        )

    def _same_as_then(self, now: Place, before: Place, number: int) -> None:
        if isinstance(now, Merged) and isinstance(before, Merged):
            found: Any = now.disk.places.merged
            wanted: Any = before.disk.places.merged
            same = found == wanted
        else:
            found, wanted = now.read(), before.read()
            # The same rows in another order are the same result.
            same = found == wanted or _bags(found) == _bags(wanted)
        if not same:
            raise BrokenPromiseError(f"after micro-batch {number} {now.name} has {found}, without disturbance {wanted}")

    def never_a_part(self, disk: Disk) -> None:
        """Check that readers of files find either nothing or all rows of a micro-batch."""
        last = self.after[max(self.after)]
        for tag in self.subject.engine(self.subject.settings).tags:
            whole = self._files(last, tag).read()
            for number, rows in self._files(disk, tag).read().items():
                if Counter(rows) != Counter(whole.get(number, ())):
                    raise BrokenPromiseError(
                        f"a reader of the files of {tag} finds of micro-batch {number} {rows}, all are {whole.get(number)}"
                    )

    def counted(self, disk: Disk, counters: Counts, first: int, changed: Settings | None) -> None:
        """Check the counters of the run on ``disk``, which started with ``first``."""
        known = self._must_be(disk, first, changed)
        self._compare_counts(counters, known)

    def at_the_end(self, disk: Disk, engine: Engine, first: int, changed: Settings | None) -> None:
        """Check all outputs and the state of a complete run that was restarted before ``first``."""
        old = None if changed is None else self._must_be(disk, 0, None)
        self._outputs(disk, engine, self._must_be(disk, first, changed), old, first if changed is not None else None)
        self._left(disk, engine, changed, first)

    def files_at_the_end(self, disk: Disk, engine: Engine) -> None:
        """Check only the files: tables and topics skip the micro-batch numbers that they already have."""
        known = self._must_be(disk, 0, None)
        for tag in engine.tags:
            self._place(self._files(disk, tag), tag, known, None, None)

    def at_the_end_if_reached(self, disk: Disk, engine: Engine) -> None:
        """Check all outputs if all micro-batches are committed."""
        if len(disk.checkpoint.commits) == len(self.subject.job.batches):
            self._outputs(disk, engine, self._must_be(disk, 0, None), None, None)

    # -- implementation ------------------------------------------------------------------------------------------------

    def _read(self, disk: Disk, tag: str) -> list[Place]:
        return places_of(self.subject.job, disk, READER, tag)

    def _files(self, disk: Disk, tag: str) -> Files:
        return next(place for place in self._read(disk, tag) if isinstance(place, Files))

    def _compare_counts(self, counters: Counts, known: Sequence[tuple[Answer, Mapping[str, int]]]) -> None:
        for number, counted in counters.items():
            if counted != known[number][1]:
                raise BrokenPromiseError(f"micro-batch {number} counted {counted}, must be {known[number][1]}")

    def _outputs(
        self,
        disk: Disk,
        engine: Engine,
        known: Sequence[tuple[Answer, Mapping[str, int]]],
        old: Sequence[tuple[Answer, Mapping[str, int]]] | None,
        changed: int | None,
    ) -> None:
        for tag in engine.tags:
            for place in self._read(disk, tag):
                if isinstance(place, Merged):
                    if changed is None:
                        self._merged(place, known)
                    continue
                self._place(place, tag, known, old, changed)

    def _place(
        self,
        place: Place,
        tag: str,
        known: Sequence[tuple[Answer, Mapping[str, int]]],
        old: Sequence[tuple[Answer, Mapping[str, int]]] | None,
        changed: int | None,
    ) -> None:
        read: Mapping[int, Sequence[OutputRow]] = place.read()
        for number, (answer, _) in enumerate(known):
            found = self.subject.answer(tag, read.get(number, ()))
            # Tables and topics keep the first result of a micro-batch, even if other settings would change it.
            before = old[number][0][tag] if old is not None and number == changed else None
            self._compare(place, number, found, answer[tag], before)
        strays = sorted(set(read) - set(range(len(known))))
        if strays:
            raise BrokenPromiseError(f"{place.name} has micro-batches {strays} that never were")

    def _compare(self, place: Place, number: int, found: Any, wanted: Any, before: Any) -> None:
        if found == wanted:
            return
        if before is not None and isinstance(place, Transactions) and found == before:
            return
        if before is not None and isinstance(place, Records):
            return  # The topic has records of both attempts, and a reader finds either of them.
        raise BrokenPromiseError(f"{place.name}, micro-batch {number}: {_different(found, wanted)}")

    def _merged(self, place: Merged, known: Sequence[tuple[Answer, Mapping[str, int]]]) -> None:
        """Check that the table has the last row of each key and window."""
        last: dict[Any, Any] = {}
        for answer, _ in known:
            for key, told in answer[MAIN].items():
                last.update({(key, *one[:2]): one for one in told})
        by_key = self.subject.answer(MAIN, list(place.disk.places.merged.values()))
        found = {(key, *one[:2]): one for key, told in by_key.items() for one in told}
        if found != last:
            raise BrokenPromiseError(f"the table of merged results has {found}, must have {last}")

    def _left(self, disk: Disk, engine: Engine, changed: Settings | None, first: int) -> None:
        """Check that no unexpected state remains when all windows are closed."""
        number = max(disk.checkpoint.commits) + 1
        states = [disk.checkpoint.state(group, number) for group in range(engine.groups)]
        then = self.after[max(self.after)].checkpoint
        if changed is None and self._seen and states == [then.state(group, number) for group in range(engine.groups)]:
            return
        may = self.subject.may_stay(self._settings(first, changed))
        known = tuple(map(id, states))
        if known not in self._seen:
            # The states are stored too, so that their ids are not reused.
            self._seen[known] = states, set() if may is None else engine.left(states)
        left = self._seen[known][1] - (may or set())
        if left:
            raise BrokenPromiseError(f"all windows are closed, and the state has something of the keys {left}")


def _different(found: Any, wanted: Any) -> str:
    """Describe a difference; for counted rows only the surplus and missing ones.

    >>> _different(Counter(["('ann', 3)", "('bob', 1)"]), Counter(["('ann', 2)", "('bob', 1)"]))
    "found ('ann', 3), must be ('ann', 2) beside what is right"
    """
    if isinstance(found, Counter) and isinstance(wanted, Counter):
        extra, lacking = (", ".join(map(str, sorted(some.elements()))) for some in (found - wanted, wanted - found))
        return f"found {extra or 'nothing'}, must be {lacking or 'nothing'}" + (" beside what is right" if found & wanted else "")
    return f"found {found}, must be {wanted}"


def _bags(found: Any) -> Any:
    return {number: Counter(rows) for number, rows in found.items() if rows}


__all__ = ["Judge"]
