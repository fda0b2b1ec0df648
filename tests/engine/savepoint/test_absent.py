"""Placeholders for user code that cannot be imported: calling one raises an error that names the missing function."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.savepoint.recipes import (
    AbsentAssigner,
    AbsentColumnAggregate,
    AbsentEvictor,
    AbsentFunction,
    AbsentGenerator,
    AbsentMergingAssigner,
    AbsentOverRows,
    AbsentTrigger,
    absent_aggregate,
    absent_reduce,
)
from panestream.errors import InvalidPlanError

TRIGGER = AbsentTrigger("Mine", processing_time=True)
COLUMNS = AbsentColumnAggregate("Mine", pa.int64(), pa.string())


@pytest.mark.parametrize(
    "call",
    [
        lambda: TRIGGER.on_element(1, 2, None, None),
        lambda: TRIGGER.on_event_time(1, None, None),
        lambda: TRIGGER.on_processing_time(1, None, None),
        lambda: TRIGGER.on_merge(None, None),
        lambda: TRIGGER.clear(None, None),
        lambda: AbsentAssigner("Mine", event_time=True).assign_windows(1, 2, 3),
        lambda: AbsentMergingAssigner("Mine", event_time=True).merge_windows([]),
        lambda: AbsentEvictor("Mine").evict_before((), 0, None, None),
        lambda: absent_aggregate("Mine").add(1, 2),
        lambda: absent_aggregate("Mine").get_result(1),
        lambda: absent_aggregate("Mine").merge(1, 2),
        lambda: COLUMNS.partial([], None, 0),
        lambda: COLUMNS.merge(None, None, 0),
        lambda: COLUMNS.final(None),
        lambda: AbsentFunction("Mine").apply(1, None, []),
        lambda: AbsentOverRows("Mine").results(None, None, None),
    ],
)
def test_calling_a_placeholder_names_the_missing_code(call):
    with pytest.raises(InvalidPlanError, match=r"does not contain the code of Mine. You can inspect its state, but not run it"):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: absent_reduce(1, 2), "the reduce function"),
        (lambda: AbsentGenerator().on_event(1, 2, None), "the watermark generator"),
    ],
)
def test_placeholder_without_a_name_is_named_by_its_role(call, name):
    with pytest.raises(InvalidPlanError, match=f"does not contain the code of {name}. You can inspect its state, but not run it"):
        call()


def test_placeholders_have_a_repr_and_keep_their_kind_of_time():
    assert [repr(each) for each in (TRIGGER, AbsentAssigner("Mine", event_time=True), AbsentEvictor("Mine"))] == ["Mine"] * 3
    assert (TRIGGER.uses_processing_time, TRIGGER.can_merge(), AbsentAssigner("Mine", event_time=False).is_event_time) == (
        True,
        True,
        False,
    )
    assert absent_aggregate("Mine").create_accumulator() is None
    assert (repr(COLUMNS), COLUMNS.partial_type, COLUMNS.result_type) == ("Mine", pa.int64(), pa.string())
    assert (repr(AbsentFunction("Mine")), AbsentOverRows("Mine").described) == ("Mine", "Mine")
