"""Keyed broadcast process functions on the engine: what Flink's operator promises, the state that rules write, and refusals."""

from __future__ import annotations

import re

import pytest

import panestream as pst
from panestream.engine.operators.row.broadcast import KeyedBroadcastOperator, Rule
from panestream.engine.operators.row.contents import ProcessRows, RowPlan
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, PlanMismatchError, StateDamagedError
from panestream.testing.simulation.schedule import MicroBatch, Row
from tests.comparison.broadcast import Query, engine

LAST = pst.state.ValueStateDescriptor("last")
SEEN = pst.state.ListStateDescriptor("seen")
RULES = pst.state.MapStateDescriptor("rules")


class Rules(pst.functions.KeyedBroadcastProcessFunction):
    """Does nothing; tests replace methods."""

    def process_element(self, value, ctx):
        return None

    def process_broadcast_element(self, value, ctx):
        return None


def function(**methods):
    return type("Given", (Rules,), methods)()


def operator(given, state=None, group=0):
    plan = RowPlan(WindowQuery(pst.GlobalWindows()), ProcessRows(given))
    return KeyedBroadcastOperator(plan, MemoryState() if state is None else state, group)


def rule(value, time=0):
    return None, time, Rule(value)


def values(output):
    return [(key, value, time) for key, _, value, time in output.fired]


def put(self, value, ctx):
    ctx.get_broadcast_state(RULES).put(value, ctx.timestamp())


def known(self, value, ctx):
    yield list(ctx.get_broadcast_state(RULES).items())


def test_row_is_processed_with_its_key():
    given = function(process_element=lambda self, value, ctx: [ctx.get_current_key()])
    assert values(operator(given).process([(5, 12, "5"), (42, 13, "42")])) == [(5, 5, 12), (42, 42, 13)]


def test_rule_sees_the_state_of_every_key_that_has_it():
    def add(self, value, ctx):
        ctx.get_list_state(SEEN).add(value)

    def look(self, value, ctx):
        ctx.apply_to_keyed_state(SEEN, lambda key, seen: [(key, seen.get())])

    state, rows = MemoryState(), [(key, 12, key) for key in ("one", "two", "two", "one", "two")]
    given = function(process_element=add, process_broadcast_element=look)
    first = operator(given, state)
    first.process([*rows, ("three", 3, "three")])
    first.commit()
    found = values(operator(given, state).process([rule(1, 13)]))
    assert sorted(found) == [(key, (key, [key] * count), 13) for key, count in (("one", 2), ("three", 1), ("two", 3))]


def test_rule_changes_and_deletes_the_state_of_keys():
    def apply(self, value, ctx):
        ctx.apply_to_keyed_state(LAST, lambda key, last: last.update(value) if key == "a" else last.clear())

    given = function(
        process_element=lambda self, value, ctx: [ctx.get_state(LAST).value(), ctx.get_state(LAST).update(value)][:1],
        process_broadcast_element=apply,
    )
    state = MemoryState()
    first = operator(given, state)
    first.process([("a", 0, 1), ("b", 0, 2), rule(7)])
    first.commit()
    assert [value for _, value, _ in values(operator(given, state).process([("a", 1, 0), ("b", 1, 0)]))] == [7, None]


def test_rule_and_rows_see_their_times_and_timers_run_after_both():
    def said(self, value, ctx):
        yield f"rule {value} {ctx.current_watermark()} {ctx.timestamp()} {ctx.current_processing_time()}"

    def row(self, value, ctx):
        ctx.timer_service().register_event_time_timer(41)
        yield f"row {value} {ctx.timer_service().current_watermark()} {ctx.timestamp()}"

    given = function(
        process_broadcast_element=said,
        process_element=row,
        on_timer=lambda self, timestamp, ctx: [f"timer {timestamp} {ctx.get_current_key()}"],
    )
    of = operator(given)
    of.advance_watermark(10)
    assert values(of.process([rule(5, 12)], 40, 3)) == [(None, "rule 5 10 12 3", 12)]
    assert values(of.process([("6", 13, "a"), ("6", 15, "b")], 50)) == [
        ("6", "row a 40 13", 13),
        ("6", "row b 40 15", 15),
        ("6", "timer 41 6", 41),
    ]


def test_rows_and_rules_write_to_side_outputs():
    given = function(
        process_element=lambda self, value, ctx: ctx.output("rows", value),
        process_broadcast_element=lambda self, value, ctx: ctx.output("rules", value),
    )
    sent = operator(given).process([rule(5, 12), ("k", 13, 6)]).side_outputs
    assert {tag: [(key, value, time) for key, _, value, time in rows] for tag, rows in sent.items()} == {
        "rules": [(None, 5, 12)],
        "rows": [("k", 6, 13)],
    }


def test_row_sees_the_rules_before_it_and_timer_sees_all():
    def row(self, value, ctx):
        ctx.timer_service().register_event_time_timer(41)
        return known(self, value, ctx)

    given = function(process_element=row, process_broadcast_element=put, on_timer=known)
    output = operator(given).process([rule("a", 10), rule("b", 12), ("k", 13, 1), rule("c", 21)], 50)
    assert [value for _, value, _ in values(output)] == [[("a", 10), ("b", 12)], [("a", 10), ("b", 12), ("c", 21)]]


def test_output_of_rule_comes_from_one_key_group_and_of_a_key_from_its_own():
    def say(self, value, ctx):
        ctx.output("side", value)
        yield value

    given = function(process_broadcast_element=say)
    outputs = [operator(given, group=group).process([rule("a")]) for group in range(3)]
    assert [len(output.fired) for output in outputs] == [1, 0, 0]
    assert [list(output.side_outputs) for output in outputs] == [["side"], [], []]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 4)])
def test_savepoint_gives_each_new_key_group_the_rules_once(before, after):
    def run(query, *rows):
        return query.run(MicroBatch((tuple(rows),)))[0]

    query = Query(engine(before, 0, function(process_broadcast_element=_put_number, process_element=_numbers)))
    run(query, *(Row(None, 3, ("set", n), n, "right") for n in (1, 2, 3)))
    query = query.restored(after)
    found = run(query, *(Row(f"k{n}", 4, ("read", n), n, "left") for n in range(30)))
    assert {row[1:] for row in found} == {("row", 4, (1, 2, 3))}
    assert len(found) == 30


def _put_number(self, value, ctx):
    ctx.get_broadcast_state(RULES).put(value.n, value)


def _numbers(self, value, ctx):
    yield "row", ctx.timestamp(), [rule.n for _, rule in ctx.get_broadcast_state(RULES).items()]


def test_savepoint_of_rules_that_differ_between_key_groups_is_refused_for_other_key_groups():
    def by_key(self, value, ctx):
        ctx.apply_to_keyed_state(LAST, lambda key, last: ctx.get_broadcast_state(RULES).put(key, 1))

    given = function(process_element=lambda self, value, ctx: ctx.get_state(LAST).update(1), process_broadcast_element=by_key)
    query = Query(engine(2, 0, given))
    rows = [Row(f"k{n}", 0, ("add", n), n, "left") for n in range(9)]
    query.run(MicroBatch(((*rows, Row(None, 1, ("set", 9), 9, "right")),)))
    query.restored(2)
    with pytest.raises(PlanMismatchError, match=re.escape("process_broadcast_element depends on keyed state or chance")):
        query.restored(3)


def test_rules_are_written_only_if_they_change():
    state, given = MemoryState(), function(process_broadcast_element=put)

    def written(*rows):
        of = operator(given, SealedState(state, 0, "rules"))
        of.process(rows)
        of.commit()
        return sorted(key for space, key in state.values if space == "meta")

    assert written(("k", 0, 1)) == [0, 1]
    assert written(rule("a")) == [0, 1, 2]
    assert written(rule("a")) == [0, 1, 2]
    assert written(("k", 0, 1)) == [0, 1, 2]
    assert written(rule("b")) == [0, 1, 3]


def test_missing_rules_are_damage():
    state, given = MemoryState(), function(process_broadcast_element=put, process_element=known)
    of = operator(given, SealedState(state, 0, "rules"))
    of.process([rule("a")])
    of.commit()
    del state.values["meta", 2]
    with pytest.raises(StateDamagedError, match="value 2 of 'meta' is missing"):
        operator(given, SealedState(state, 0, "rules")).process([("k", 0, 1)])


def test_all_rules_can_be_removed():
    def remove(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        rules.remove(value) if rules.contains(value) else rules.put(value, 1)

    state, given = MemoryState(), function(process_broadcast_element=remove, process_element=known)
    for _ in range(2):
        of = operator(given, state)
        of.process([rule("a")])
        of.commit()
    assert values(operator(given, state).process([("k", 0, 1)])) == [("k", [], 0)]


def test_rows_and_timers_cannot_write_rules():
    def write(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(1, 1)

    with pytest.raises(pst.functions.WindowFunctionError, match="has no attribute 'put'"):
        operator(function(process_element=write)).process([("k", 0, 1)])


def test_broadcast_state_with_time_to_live_is_refused():
    brief = pst.state.MapStateDescriptor("rules", pst.state.StateTtlConfig.of("1 hour"))
    given = function(process_broadcast_element=lambda self, value, ctx: ctx.get_broadcast_state(brief))
    with pytest.raises(InvalidPlanError, match="'rules' has a time to live"):
        operator(given).process([rule(1)])


def test_expired_state_of_a_key_is_not_passed_to_a_rule():
    brief = pst.state.ValueStateDescriptor("brief", pst.state.StateTtlConfig(10))
    given = function(
        process_element=lambda self, value, ctx: ctx.get_state(brief).update(value),
        process_broadcast_element=lambda self, value, ctx: ctx.apply_to_keyed_state(brief, lambda key, state: [key]),
    )
    of = operator(given)
    of.process([("a", 0, 1)], processing_time=1)
    of.process([("b", 0, 1)], processing_time=8)
    assert values(of.process([rule(1)], processing_time=12)) == [("b", "b", 0)]


@pytest.mark.parametrize("method", ["process_broadcast_element", "the function of apply_to_keyed_state"])
def test_error_of_rule_names_method_and_key(method):
    def fail(*_):
        raise KeyError("price")

    def apply(self, value, ctx):
        ctx.apply_to_keyed_state(LAST, fail)

    given = function(
        process_element=lambda self, value, ctx: ctx.get_state(LAST).update(1),
        process_broadcast_element=fail if method.startswith("process") else apply,
    )
    key = "None" if method.startswith("process") else "'ann'"
    with pytest.raises(pst.functions.WindowFunctionError, match=rf"^{method} raised KeyError: 'price' \(at key {key}\)"):
        operator(given).process([("ann", 0, 1), rule(1)])


def test_idle_rules_do_not_hold_timers_back():
    def run(idle):
        query, found = Query(engine(2, 0, idle=idle)), []
        query.run(MicroBatch(((Row(None, 0, ("set", 1), 0, "right"),),), 1))
        for number in range(8):
            row = Row("a", 10 * number, ("wait", number), number, "left")
            found += query.run(MicroBatch(((row,),), 10 * number))[0]
        return sum(row[1] == "timer" for row in found)

    assert (run(None), run(20)) == (0, 7)


def test_rules_are_shown_once_with_the_state_of_keys():
    query = Query(engine(3, 0))
    query.run(MicroBatch(((Row(None, 3, ("set", 1), 0, "right"), Row("a", 4, ("add", 5), 1, "left")),)))
    plan, shown = query.engine.plan, []
    for group, state in enumerate(query.states):
        saved = plan.operator.for_group(plan, state, group).tables()
        shown += plan.operator.views(plan, saved, group).user_state.to_pylist()
    found = sorted((row["of"], row["key"]["key"], row["name"], row["value"]) for row in shown)
    assert [(of, key, name) for of, key, name, _ in found] == [("broadcast", None, "rules"), ("key", "a", "numbers")]
    assert "$tuple" in found[0][3]
