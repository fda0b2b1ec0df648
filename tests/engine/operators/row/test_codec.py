"""How values are stored: as columns, exactly as they were, and pickled only if the user allows it."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panestream
from panestream.engine.kernels.python_values import RowType
from panestream.engine.operators.row.codec import Codec, canonical_key, stable_hash
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows, RowPlan
from panestream.engine.operators.row.pages import ColumnReader, ColumnWriter, pickled_columns
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, StateFormatError
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction
from panestream.windowing.state import ValueStateDescriptor
from panestream.windowing.triggers import Trigger, TriggerResult


class Row(NamedTuple):
    name: str
    amount: float | None


@dataclass
class Point:
    x: int

    __hash__ = None


@dataclass(frozen=True)
class Fixed:
    x: int


def roundtrip(values, element_type=Row, *, pickled=False):
    codec = Codec(element_type, pickled)
    writer = ColumnWriter(codec)
    writer.values("value", values)
    data = writer.finish()
    return ColumnReader(data, codec).values("value"), pickled_columns(data)


UTC, BERLIN = dt.timezone.utc, ZoneInfo("Europe/Berlin")
HALF = dt.timezone(dt.timedelta(hours=5, minutes=30))
NAMED = dt.timezone(dt.timedelta(0), "Z")
NOON = dt.datetime(2026, 7, 1, 12, 0, 0, 5)
D = decimal.Decimal
PLAIN = {
    "nothing": [],
    "integers": [1, -5, 2**62],
    "small and large integers": [2**63 - 1, -(2**63)],
    "integers beyond int64": [2**63, -(2**63) - 1, 0, None, 255, -256, 10**50],
    "None": [None, None],
    "None among integers": [1, None, 3],
    "booleans": [True, False, None],
    "floats": [1.5, math.inf, -0.0],
    "strings": ["", "ä", None],
    "half a character": ["\ud800", None, "a"],
    "bytes": [b"", b"\x00"],
    "tuples": [(1, "a"), (2, "b")],
    "None among tuples": [(1, None), None, (2, (3.5, "c"))],
    "tuples in tuples": [((1, 2), (3, 4))],
    "tuples of different lengths": [(1,), (1, 2), (), None],
    "empty tuples": [(), ()],
    "dicts": [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
    "None among dicts": [{"a": {"b": 1}}, None],
    "empty dicts": [{}, None],
    "dicts of different shapes": [{"a": 1}, {"b": 1, "c": None}],
    "dicts of another order": [{"b": 1, "a": 2}, {"a": 3, "b": 4}],
    "dicts with any keys": [{1: 2, (1, "a"): [3]}, {None: {1.5: "x"}}],
    "long tuples": [tuple(range(100)), None],
    "large dicts": [{f"k{n}": n for n in range(100)}, None],
    "counters": [Counter("abca"), Counter(), None],
    "lists": [[1], [], None, [2, None]],
    "lists of lists": [[[1], [[2]]], []],
    "lists of tuples": [[("a", 1), ("b", 2)], [("c", 3)]],
    "sets": [{1, 2}, set(), None],
    "frozensets": [frozenset({"a"}), frozenset()],
    "sets of all sorts": [{1, "a", None, (1, 2), 2.5, frozenset({3})}],
    "integers and floats": [1, 2.0, None, 3],
    "booleans and integers": [True, 1, 0, False],
    "all sorts": [1, "a", (1, 2), None, [1], {"a": 1}, b"x", dt.date(2026, 1, 1), {3}],
    "rows": [Row("x", 1.5), Row("y", None), None],
    "rows and tuples": [Row("x", 1.5), ("y", 2)],
    "dates": [dt.date(2026, 1, 2), None, dt.date.min, dt.date.max],
    "datetimes": [NOON, None, dt.datetime.min, dt.datetime.max],
    "datetimes in UTC": [NOON.replace(tzinfo=UTC), None, dt.datetime.max.replace(tzinfo=UTC)],
    "datetimes in zones": [NOON.replace(tzinfo=BERLIN), NOON.replace(tzinfo=HALF), None, NOON.replace(tzinfo=UTC), NOON],
    "datetimes in a zone with a name": [NOON.replace(tzinfo=NAMED), NOON.replace(tzinfo=UTC)],
    "datetimes in the hour that comes twice": [NOON.replace(tzinfo=BERLIN, fold=1), NOON.replace(fold=1), NOON],
    "times": [dt.time(1, 2, 3, 4), None],
    "spans": [dt.timedelta(days=1, microseconds=5), None, dt.timedelta(-1)],
    "decimals": [D("1.50"), D("-3.25")],
    "decimals of different digits": [D("1.0"), D("1.00"), D("1E+5"), D("NaN"), D("-Infinity"), D("1" * 60), None],
    "numpy's numbers": [np.float64(1.5), None, np.float64(-0.0)],
    "numpy's numbers of several types": [np.int8(3), np.uint64(2**64 - 1), np.bool_(True), np.float32(0.1), np.float16(2)],
}


def exact_text(value):
    """Return a text that shows what equality ignores: types, order, NaN, time zones."""
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, map(exact_text, value)))
    if isinstance(value, dict):
        return type(value).__name__, [(exact_text(key), exact_text(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [exact_text(item) for item in value]
    return type(value).__name__, repr(value)


@pytest.mark.parametrize("case", PLAIN)
def test_plain_values_are_stored_as_columns(case):
    values_read, pickled = roundtrip(PLAIN[case])
    assert list(map(exact_text, values_read)) == list(map(exact_text, PLAIN[case]))
    assert pickled == []


def test_long_tuples_and_dicts_are_stored_in_one_column():
    for value, word in ((tuple(range(33)), "tuples"), ({f"k{n}": n for n in range(33)}, "map")):
        assert Codec().encode([value])[1][0] == word
    for value, word in ((tuple(range(32)), "tuple"), ({f"k{n}": n for n in range(32)}, "dict")):
        assert Codec().encode([value])[1][0] == word
    wide = RowType(pa.schema([(f"c{n}", pa.int64()) for n in range(50)]))
    assert Codec(wide.element).encode([wide.make(range(50))])[1][0] == "row"


def test_time_zones_are_equal_after_reading_and_utc_is_identical():
    values_read, _ = roundtrip([NOON.replace(tzinfo=zone) for zone in (UTC, BERLIN, HALF)])
    assert [value.tzinfo for value in values_read] == [UTC, BERLIN, HALF]
    assert values_read[0].tzinfo is UTC


@pytest.mark.parametrize("dtype", ["?", "i2", ">i4", "u8", "f4", "f8"])
def test_numpy_arrays_are_stored_as_columns(dtype):
    values = [np.arange(6).reshape(2, 3).astype(dtype), np.array([], dtype), None, np.array(7, dtype)]
    values_read, pickled = roundtrip(values)
    assert pickled == []
    for before, after in zip(values, values_read, strict=True):
        assert (after is None) == (before is None)
        if before is not None:
            assert (after.dtype, after.shape, after.tolist()) == (before.dtype, before.shape, before.tolist())
            assert after.flags.writeable


NOT_PLAIN = {
    "an object": ([Point(3), None], "Point", ""),
    "in a tuple": ([(1, Point(3))], "Point", " (at [1])"),
    "in a dict": ([{"a": [Point(3)]}], "Point", " (at ['a'][...])"),
    "a range": ([range(3)], "builtins.range", ""),
    "among others": ([1, Point(3)], "Point", ""),
    "a time with a zone": ([dt.time(1, tzinfo=UTC)], "datetime.time", ""),
    "an array of objects": ([np.array([Point(3), None])], "numpy.ndarray", ""),
}


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_error_names_type_and_place_of_a_value_that_needs_a_pickle(case):
    values, name, place = NOT_PLAIN[case]
    with pytest.raises(InvalidPlanError) as raised:
        roundtrip(values)
    assert f"an element holds a {name if '.' in name else f'{__name__}.{name}'}{place}, which" in str(raised.value)
    assert ".options(allow_pickled_state=True)" in str(raised.value)


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_value_without_columns_is_pickled_if_allowed(case):
    values, _, _ = NOT_PLAIN[case]
    values_read, pickled = roundtrip(values, pickled=True)
    assert list(map(repr, values_read)) == list(map(repr, values))
    assert len(pickled) == 1


def test_only_the_part_of_a_value_that_needs_it_is_pickled():
    values_read, pickled = roundtrip([(1, Point(2)), (3, Point(4))], pickled=True)
    assert (values_read, pickled) == ([(1, Point(2)), (3, Point(4))], ["value.1"])
    assert roundtrip([{"a": 1, "b": Point(2)}], pickled=True)[1] == ["value.b"]


@pytest.mark.parametrize(
    "kind",
    [list, tuple, lambda items: {"a": items[0]}, lambda items: {"a": items[0], "b": 1}],
    ids=["list", "tuple", "dict", "dict beside a number"],
)
@pytest.mark.parametrize(("levels", "fits"), [(63, True), (64, False), (5000, False)])
def test_value_nested_too_deeply_is_refused_with_the_name_of_its_state(kind, levels, fits):
    value = 1
    for _ in range(levels):
        value = kind([value])
    writer = ColumnWriter(Codec())
    if fits:
        writer.values("global:seen", [value])
        assert ColumnReader(writer.finish()).values("global:seen") == [value]
        return
    with pytest.raises(InvalidPlanError, match=r"the per-key state 'seen' holds a value that is nested more than 63 levels deep"):
        writer.values("global:seen", [value])


def test_value_that_cannot_be_pickled_is_refused():
    with pytest.raises(InvalidPlanError, match="cannot be pickled"):
        roundtrip([lambda: 1], pickled=True)


def test_sets_of_objects_need_the_permission_to_pickle():
    with pytest.raises(InvalidPlanError, match=r"Fixed cannot be a key or in a set.*allow_pickled_state"):
        roundtrip([{Fixed(1)}])
    assert roundtrip([{Fixed(1), Fixed(2)}], pickled=True)[0] == [{Fixed(1), Fixed(2)}]


class Bomb:
    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


def test_pickle_is_not_read_without_permission():
    writer = ColumnWriter(Codec(pickled=True))
    writer.values("value", [(1, Bomb())])
    data = writer.finish()
    with pytest.raises(
        InvalidPlanError, match=r"reading a pickle runs its code\. Allow it with .options\(allow_pickled_state=True"
    ):
        ColumnReader(data, Codec()).values("value")
    assert not Bomb.exploded


def test_decoding_refuses_rows_without_their_type_and_unknown_kinds():
    codec = Codec(Row)
    with pytest.raises(StateFormatError, match="element_type"):
        Codec().decode(*codec.encode([Row("a", 1)]))
    with pytest.raises(StateFormatError, match="'quaternion'"):
        codec.decode(pa.nulls(1), ["quaternion"])


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary()
    | st.dates()
    | st.datetimes(timezones=st.none() | st.timezones() | st.just(UTC))
    | st.timedeltas()
    | st.decimals(allow_nan=False)
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner) | st.frozensets(inner, max_size=3), max_leaves=4)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.tuples(inner, inner)
        | st.lists(inner, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(ANYTHING))
def test_random_values_are_read_back_exactly(values):
    values_read, pickled = roundtrip(values)
    assert list(map(exact_text, values_read)) == list(map(exact_text, values))
    assert pickled == []


# -------------------------------------------------------------------- the same bytes everywhere


def environment(seed):
    return {**os.environ, "PYTHONPATH": str(Path(panestream.__file__).parent.parent), "PYTHONHASHSEED": seed}


def output_of(program, seed):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment(seed)
    ).stdout.strip()


def test_hashes_are_the_same_in_every_process():
    keys = [None, True, 3, -1.5, "ä", b"x", ("a", 1, None), dt.date(2026, 1, 1), frozenset({"a", "b"})]
    program = (
        "import datetime; from panestream.engine.operators.row.codec import stable_hash;"
        f"print([stable_hash(key) for key in {keys!r}])"
    )
    assert output_of(program, "123") == str([stable_hash(key) for key in keys])


def test_sets_have_the_same_bytes_in_every_process():
    program = (
        "from panestream.engine.operators.row.pages import ColumnWriter; import hashlib; writer = ColumnWriter();"
        "writer.values('value', [set('abcdefgh'), {1, 'a', (2, 'b'), frozenset('xyz')}, {'k': {'p', 'q'}}]);"
        "print(hashlib.sha256(writer.finish()).hexdigest())"
    )
    assert len({output_of(program, seed) for seed in "12"}) == 1


# -------------------------------------------------------------------- keys


def test_nan_and_zeros_of_either_sign_are_one_key():
    nan = float("nan")
    assert canonical_key(nan) is canonical_key(float("nan"))
    assert stable_hash(canonical_key(("a", 0.0))) == stable_hash(canonical_key(("a", -0.0)))
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), ReduceRows(lambda a, b: a + b))
    state = MemoryState()
    for value in (1, 2):
        operator = RowOperator(plan, state)
        operator.process([(("x", float("nan")), 1, value), (-0.0, 1, value), (0.0, 1, value)])
        operator.commit()
    fired = RowOperator(plan, state).process([], new_watermark=9).fired
    assert sorted(value for _, _, value, _ in fired) == [3, 6]


def test_keys_of_user_classes_need_the_permission_to_pickle():
    rows = [(Fixed(1), 1, 1)]
    with pytest.raises(InvalidPlanError, match=r"Fixed cannot be a key.*allow_pickled_state"):
        RowOperator(RowPlan(WindowQuery(TumblingEventTimeWindows(10)), ReduceRows(max)), MemoryState()).process(rows)
    plan, state = RowPlan(WindowQuery(TumblingEventTimeWindows(10), pickled_state=True), ReduceRows(max)), MemoryState()
    for _ in range(2):
        operator = RowOperator(plan, state)
        operator.process(rows)
        operator.commit()
    assert [key for key, *_ in RowOperator(plan, state).process([], new_watermark=9).fired] == [Fixed(1)]


# -------------------------------------------------------------------- which value an error names


class ObjectAccumulators(AggregateFunction):
    def create_accumulator(self):
        return {"points": []}

    def add(self, value, accumulator):
        return {"points": [*accumulator["points"], Point(value)]}

    def get_result(self, accumulator):
        return sum(point.x for point in accumulator["points"])


@dataclass(frozen=True)
class ObjectStateTrigger(Trigger):
    def on_element(self, element, timestamp, window, ctx):
        ctx.get_partitioned_state(ValueStateDescriptor("last")).update(Point(element))
        return TriggerResult.FIRE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    on_processing_time = on_event_time

    def clear(self, window, ctx):
        pass


@dataclass(frozen=True)
class ObjectStateFunction(ProcessWindowFunction):
    everywhere: bool

    def process(self, key, context, elements):
        store = context.global_state() if self.everywhere else context.window_state()
        store.get_state(ValueStateDescriptor("seen")).update(Point(3))


WINDOWS = TumblingEventTimeWindows(10)
PLACES = {
    "an accumulator holds a {point} (at ['points'][...]), which": RowPlan(
        WindowQuery(WINDOWS), AggregateRows(ObjectAccumulators())
    ),
    "an element holds a builtins.object, which": RowPlan(WindowQuery(WINDOWS), KeepRows(ObjectStateFunction(True))),
    "the trigger's state 'last' holds a {point}, which": RowPlan(
        WindowQuery(WINDOWS, trigger=ObjectStateTrigger()), ReduceRows(max)
    ),
    "the per-window state 'seen' holds a {point}, which": RowPlan(
        WindowQuery(WINDOWS, trigger=ObjectStateTrigger()), ReduceRows(max, ObjectStateFunction(False))
    ),
    "the per-key state 'seen' holds a {point}, which": RowPlan(
        WindowQuery(WINDOWS, trigger=ObjectStateTrigger()), ReduceRows(max, ObjectStateFunction(True))
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_error_says_whether_element_accumulator_or_state_holds_the_value(place):
    plan = PLACES[place]
    operator = RowOperator(plan, MemoryState())
    operator.process([("k", 1, object() if "object" in place else 5)])
    if "per-" in place:  # otherwise the trigger's state would be refused first
        for window_state in operator.store.all_window_states():
            window_state.trigger_values.clear()
    with pytest.raises(InvalidPlanError) as raised:
        operator.commit()
    assert str(raised.value).startswith(place.format(point=f"{__name__}.Point"))
    assert ("create_accumulator" in str(raised.value)) == ("accumulator" in place)


def test_accumulators_of_any_class_are_stored_if_pickles_are_allowed():
    plan, state = RowPlan(WindowQuery(WINDOWS, pickled_state=True), AggregateRows(ObjectAccumulators())), MemoryState()
    for value in (1, 2):
        operator = RowOperator(plan, state)
        operator.process([("k", 1, value)])
        operator.commit()
    ((_, _, value, _),) = RowOperator(plan, state).process([], new_watermark=9).fired
    assert value == 3
    refusing = RowOperator(RowPlan(WindowQuery(WINDOWS), AggregateRows(ObjectAccumulators())), state)
    with pytest.raises(InvalidPlanError, match=r"allow_pickled_state"):
        refusing.process([], new_watermark=9)


def test_rows_with_a_schema_are_read_back_as_rows():
    row_type = RowType(pa.schema([("user", pa.string()), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(10, 2))]))
    rows = [row_type.make(("ann", NOON.replace(tzinfo=UTC), D("1.50"))), row_type.make((None, None, None)), None]
    values_read, pickled = roundtrip(rows, row_type.element)
    assert (values_read, pickled) == (rows, [])
    assert type(values_read[0]) is row_type.element
