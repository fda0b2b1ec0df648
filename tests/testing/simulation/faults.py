"""Faults planted in the simulated code. Each is a patch, and lists the disturbances that must reveal it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pyarrow as pa

from panestream.engine.operators.as_of_join import AsOfOperator
from panestream.engine.operators.intervals import IntervalOperator, IntervalSpec
from panestream.engine.operators.look_back.operator import LookBackOperator, LookBackSpec
from panestream.engine.runtime.group_operator import GroupOperator
from panestream.engine.runtime.sides import Pairs, Sides
from panestream.engine.runtime.watermarks import ClosedWindows, WatermarkTracker
from panestream.engine.storage.blocks import PaneBlocks
from panestream.engine.storage.keyed_pages import KeyedPages
from panestream.engine.storage.sealed_state import SmallValues
from panestream.engine.tiles import format as tiles
from panestream.spark.checkpoint.epoch import Epoch
from panestream.spark.kafka.deduplicator import KafkaDeduplicator
from panestream.spark.sinks import micro_batch_folders
from panestream.spark.sinks.outputs import Outputs
from panestream.testing.simulation import disk, process
from panestream.testing.simulation.engines import Columns, PlanEngine
from panestream.windowing.time import MIN_TIMESTAMP


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        name: a description.
        plant: applies the patch.
        kinds: the disturbances, one of which must reveal it.
        operators: the operators to simulate.
    """

    name: str
    plant: Callable[[], mock._patch]
    kinds: frozenset[str]
    operators: tuple[str, ...] = ("panes", "accumulating", "sessions", "counts", "row")


FAULTS: list[Fault] = []


def fault(*kinds: str, operators: tuple[str, ...] | None = None):
    def known(plant):
        more = {} if operators is None else {"operators": operators}
        FAULTS.append(Fault(plant.__name__.replace("_", " "), plant, frozenset(kinds), **more))
        return plant

    return known


@fault("nothing")
def a_state_write_is_lost():
    def put(self, space, key, value):
        self._step(f"put {space} {key} of key group {self.group}")
        if space == "meta" or self.version % 2 == 0:
            self.values[space, key] = value

    planted = ExitStack()
    planted.enter_context(mock.patch.object(SmallValues, "MAX_BYTES", -1))
    planted.enter_context(mock.patch.object(disk.TaskState, "put", put))
    return planted


@fault("crash")
def what_a_broken_task_wrote_stays():
    def begin(self):
        # As if a task wrote directly into the store instead of its own version.
        self.values = dict(self.disk.checkpoint.state(self.group, self.version))

    def put(self, space, key, value):
        self._step(f"put {space} {key} of key group {self.group}")
        self.values[space, key] = value
        kept = self.disk.checkpoint.states.setdefault((self.group, self.version), {})
        self.disk.checkpoint.states[self.group, self.version] = {**kept, (space, key): value}

    return mock.patch.multiple(disk.TaskState, __post_init__=begin, put=put)


@fault("crash")
def a_micro_batch_is_committed_before_its_outputs():
    def micro_batch(self, number):
        checkpoint, own = self.disk.checkpoint, number - self.disk.checkpoint.first
        self.disk.before(f"plan micro-batch {number}")
        checkpoint.offsets[own] = self.name
        checkpoint.commits.add(own)
        self.write(number)

    return mock.patch.object(process.Process, "micro_batch", micro_batch)


@fault("crash", "two copies", "twice")
def an_output_is_appended_and_not_replaced():
    def write(self, batch_id, save):
        save(self.publisher.new_name())
        attempt = max(self.publisher.folders.children(self.publisher.attempts), key=lambda path: path.name)
        target = self.folder / f"{self.column}={batch_id}"
        there = self.publisher.folders.tree.setdefault(target, {})
        there.update({f"{len(there)}-{name}": rows for name, rows in self.publisher.folders.tree.pop(attempt).items()})

    return mock.patch.object(micro_batch_folders.MicroBatchFolders, "write", write)


@fault("crash", "two copies")
def files_are_moved_one_by_one():
    def write(self, batch_id, save):
        folders, target = self.publisher.folders, self.folder / f"{self.column}={batch_id}"
        folders.tree.pop(target, None)
        save_into = folders.tree.setdefault(target, {})
        name = self.publisher.new_name()
        save(name)
        for file, rows in folders.tree.pop(self.publisher.attempts / name).items():
            folders.disk.before(f"move {file}")
            save_into[file] = rows

    return mock.patch.object(micro_batch_folders.MicroBatchFolders, "write", write)


@fault("older checkpoint", operators=("counts",))
def what_later_micro_batches_left_stays():
    return mock.patch.object(micro_batch_folders.MicroBatchFolders, "begin", return_value=None)


@fault("two copies", "savepoint")
def a_copy_that_was_overtaken_goes_on():
    return mock.patch.object(Epoch, "check_holds", return_value=None)


@fault("nothing")
def a_reader_takes_records_as_they_come_only_once_of_each_batch():
    def takes(self, topic, partition, headers):
        batch = dict(headers)["panestream-batch"]
        return self._seen.setdefault((topic, partition, batch), batch) is not None and batch != "1"

    return mock.patch.object(KafkaDeduplicator, "takes", takes)


@fault("crash")
def a_reader_takes_every_record():
    return mock.patch.object(KafkaDeduplicator, "takes", return_value=True)


@fault("nothing", operators=("panes", "sessions", "accumulating", "row"))
def the_watermark_goes_back():
    advance = WatermarkTracker.advance

    def going_back(self, seen, batch_time, generated=None, run=""):
        advance(self, seen, batch_time, generated, run)
        if seen and self.strategy.delay is not None and not self.strategy.partition_column:
            self.watermark = max(seen.values()) - self.strategy.delay - 1
        return self.watermark

    return mock.patch.object(WatermarkTracker, "advance", going_back)


@fault("nothing", operators=("panes", "sessions", "row"))
def a_timer_of_the_clock_is_forgotten():
    operate = PlanEngine.operate

    def forgetting(self, state, group, arrived, clock, planned_in):
        return replace(operate(self, state, group, arrived, clock, planned_in), wake_up=None)

    return mock.patch.object(PlanEngine, "operate", forgetting)


@fault("nothing", operators=("panes",))
def closed_panes_are_kept():
    return mock.patch.object(ClosedWindows, "at", return_value=-(2**63))


@fault("nothing")
def late_rows_are_not_counted():
    measure = GroupOperator._measure

    def measuring(self, batch, step, output):
        measure(self, batch, step, output)
        output.metrics.late_rows = 0

    return mock.patch.object(GroupOperator, "_measure", measuring)


@fault("crash", "two copies", "twice", operators=("panes",))
def a_task_gives_other_results_the_second_time():
    operate, seen = PlanEngine.operate, set()

    def operating(self, state, group, arrived, clock, planned_in):
        operated = operate(self, state, group, arrived, clock, planned_in)
        again = (id(self), state.version, group) in seen
        seen.add((id(self), state.version, group))
        if again and operated.rows.get("main"):
            operated.rows["main"] = operated.rows["main"][1:]
        return operated

    return mock.patch.object(PlanEngine, "operate", operating)


@fault("savepoint")
def a_savepoint_loses_the_rows_of_a_key_group():
    dealt = PlanEngine.dealt

    def dealing(self, states, other):
        made = dealt(self, states, other)
        return [*made[:-1], ({}, None)] if len(made) > 1 else made

    return mock.patch.object(PlanEngine, "dealt", dealing)


@fault("savepoint", operators=("panes", "sessions"))
def numbers_begin_anew_after_a_savepoint():
    deliver = Outputs.deliver

    def delivering(self, rows_of, present, batch_id):
        self.first = 0
        deliver(self, rows_of, present, batch_id)

    return mock.patch.object(Outputs, "deliver", delivering)


# Faults of joins, of queries about rows near a row, and of tiles.

for_each = ("joins", "co-groups", "intervals", "look-backs", "predicates", "tiles", "as-of joins")
FAULTS += [
    Fault(f"a state write is lost, of {each}", a_state_write_is_lost, frozenset({"nothing"}), (each,)) for each in for_each
]
FAULTS += [
    Fault(f"late rows are not counted, of {each}", late_rows_are_not_counted, frozenset({"nothing"}), (each,))
    for each in for_each
    if each != "co-groups"
]
FAULTS += [
    Fault(
        f"a savepoint loses the rows of a key group, of {each}",
        a_savepoint_loses_the_rows_of_a_key_group,
        frozenset({"savepoint"}),
        (each,),
    )
    for each in for_each
]
FAULTS += [
    Fault(f"a timer of the clock is forgotten, of {each}", a_timer_of_the_clock_is_forgotten, frozenset({"nothing"}), (each,))
    for each in ("joins", "co-groups")
]


def what_rests_rests_twice():
    return mock.patch.object(PaneBlocks, "append", twice(PaneBlocks.append))


FAULTS += [
    Fault(f"{what} rest twice", what_rests_rests_twice, frozenset({"nothing"}), (each,))
    for what, each in (
        ("rows of an interval join", "intervals"),
        ("rows of an as-of join", "as-of joins"),
        ("rows that are looked back at", "look-backs"),
        ("rows of a join", "joins"),
        ("partials of tiles", "tiles"),
    )
]


def twice(append):
    def appending(self, table):
        append(self, table.take(np.repeat(np.arange(table.num_rows), 2)))

    return appending


@fault("nothing", operators=("predicates",))
def steps_of_predicates_rest_twice():
    write = KeyedPages.write

    def writing(self, read, changed, table, hashes, due):
        again = np.repeat(np.arange(table.num_rows), 2)
        write(self, read, changed, table.take(again), hashes[again], due[again])

    return mock.patch.object(KeyedPages, "write", writing)


@fault("nothing", operators=("predicates",))
def a_window_that_a_gap_ends_waits_for_the_next_row():
    return mock.patch.object(KeyedPages, "due", lambda self, time: np.zeros(len(self.index), np.bool_))


@fault("nothing", operators=("look-backs",))
def a_row_that_waits_is_forgotten():
    close = LookBackOperator._close

    def closing(self, fresh, step):
        close(self, replace(fresh, rows=fresh.rows.slice(0, 0)), step)

    return mock.patch.object(LookBackOperator, "_close", closing)


@fault("nothing", operators=("look-backs",))
def history_goes_too_early():
    return mock.patch.object(LookBackSpec, "longest", 0)


@fault("nothing", operators=("intervals",))
def a_row_without_a_partner_is_forgotten():
    alone = IntervalOperator._emit_alone

    def emitting(self, side, fresh, step, output):
        if side == "right":
            alone(self, side, fresh, step, output)

    return mock.patch.object(IntervalOperator, "_emit_alone", emitting)


@fault("nothing", operators=("intervals",))
def a_row_that_was_kept_of_the_right_is_not_seen():
    near = IntervalOperator._near

    def nearly(self, side, rows, bounds):
        return near(self, side, rows, bounds).slice(1 if side == "right" else 0)

    return mock.patch.object(IntervalOperator, "_near", nearly)


@fault("nothing", operators=("intervals",))
def rows_of_an_interval_join_go_before_their_partners_come():
    return mock.patch.object(IntervalSpec, "kept_for", lambda self, side: self.over(side) - 3)


@fault("nothing", operators=("as-of joins",))
def the_newest_row_of_a_key_is_forgotten():
    rows_of = AsOfOperator._rows_of
    return mock.patch.object(
        AsOfOperator,
        "_rows_of",
        lambda self, side, pages: rows_of(self, side, pages).slice(pages.num_rows if side == "right" else 0),
    )


@fault("nothing", operators=("as-of joins",))
def a_row_that_waits_for_a_later_one_is_not_woken():
    return mock.patch.object(KeyedPages, "due", lambda self, time: np.zeros(len(self.index), np.bool_))


@fault("nothing", operators=("as-of joins",))
def a_deleted_row_is_still_joined():
    deletes = AsOfOperator._deletes
    return mock.patch.object(AsOfOperator, "_deletes", lambda self, right: deletes(self, right) & False)


@fault("nothing", operators=("joins",))
def a_row_of_the_right_is_dropped_before_a_join():
    return mock.patch.object(Columns, "batch", without_the_last_of_the_right("value right"))


@fault("nothing", operators=("co-groups",))
def a_row_of_the_right_is_dropped_before_a_function():
    return mock.patch.object(Columns, "batch", without_the_last_of_the_right("row"))


def without_the_last_of_the_right(name):
    """Keep and count the row, but drop the right side's last part of it."""
    batch = Columns.batch

    def batched(self, table, clock):
        made = batch(self, table, clock)
        if name not in made.schema.names:
            return made
        at = made.schema.get_field_index(name)
        values = made.column(at).to_pylist()
        of_right = [place for place, side in enumerate(table["from"].to_pylist()) if side.startswith("right")]
        for place in of_right[-1:]:
            values[place] = {"left": None, "right": None} if name == "row" else None
        return made.set_column(at, made.schema.field(at), pa.array(values, made.schema.field(at).type))

    return batched


@fault("nothing", operators=("joins",))
def null_keys_meet():
    return mock.patch.object(Pairs, "_unknown_apart", lambda self, emitted: emitted)


@fault("nothing", operators=("joins", "intervals"))
def pairs_of_a_payload_lack_the_last():
    opened = Pairs.opened

    def opening(self, kept):
        for table in opened(self, kept):
            yield table.slice(0, max(table.num_rows - 1, 1))

    return mock.patch.object(Pairs, "opened", opening)


@fault("nothing", operators=("joins", "intervals", "co-groups"))
def a_side_of_which_nothing_came_is_not_waited_for():
    def forgetting(self):
        for side, _ in self.strategy.sides:
            self.partitions.pop(side, None) if self.partitions[side].max_timestamp == MIN_TIMESTAMP else None

    return mock.patch.object(WatermarkTracker, "_forget_placeholders", forgetting)


@fault("nothing", operators=("joins", "intervals"))
def late_rows_of_the_two_sides_are_exchanged():
    apart = Sides.apart
    return mock.patch.object(Sides, "apart", lambda self, rows: tuple(reversed(apart(self, rows))))


@fault("nothing", operators=("tiles",))
def of_several_tiles_the_first_is_read():
    last = tiles._last
    return mock.patch.object(tiles, "_last", lambda keys, starts, rows: last(keys, starts, -rows))


@contextmanager
def planted(one: Fault) -> Iterator[None]:
    with one.plant():
        yield


__all__ = ["FAULTS", "Fault", "planted"]
