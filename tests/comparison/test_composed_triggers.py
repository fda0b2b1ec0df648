"""Compare composed triggers on the row operator with their definition, restarted at every step.


``PANESTREAM_CASES=20000 pytest tests/comparison/test_composed_triggers.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random

import pytest

import panestream as pst
from panestream.testing import WindowTestHarness
from tests.comparison import harness
from tests.comparison.naive_triggers import Definition, part_of

CHUNKS = 4


def random_trigger(rng: random.Random, depth: int = 3):
    """Return a composition, or one of Flink's triggers."""
    leaves = [
        lambda: pst.triggers.AfterCount(rng.randint(1, 4)),
        lambda: pst.triggers.AfterCount(rng.randint(1, 4)),
        lambda: pst.triggers.AfterProcessingTime(rng.choice([0, 1, 5, 20])),
        pst.AfterWatermark,
        lambda: pst.CountTrigger(rng.randint(1, 4)),
        pst.triggers.EventTimeTrigger.create,
        lambda: pst.ContinuousEventTimeTrigger(rng.choice([3, 5, 8]), only_changed=rng.random() < 0.4),
    ]
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(leaves)()
    some = [random_trigger(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    kind = rng.randrange(6)
    if kind == 0:
        return pst.triggers.Repeatedly.of(some[0])
    if kind == 1:
        return pst.triggers.AfterAny.of(*some)
    if kind == 2:
        return pst.triggers.AfterAll.of(*some)
    if kind == 3:
        return pst.triggers.AfterEach.of(
            *(one if part_of(one).finishes else pst.triggers.AfterCount(2) for one in some[:-1]), some[-1]
        )
    if kind == 4:
        return pst.triggers.OrFinally.of(some[0], random_trigger(rng, depth - 1))
    trigger = pst.AfterWatermark()
    if rng.random() < 0.7:
        trigger = trigger.early(some[0])
    return trigger.late(random_trigger(rng, depth - 1)) if rng.random() < 0.6 else trigger


def is_composed(trigger) -> bool:
    return type(trigger) not in (pst.CountTrigger, pst.triggers.EventTimeTrigger, pst.ContinuousEventTimeTrigger)


def case(rng: random.Random, seed: int) -> None:
    inner = random_trigger(rng)
    while not is_composed(inner):
        inner = random_trigger(rng)
    trigger = pst.PurgingTrigger.of(inner) if rng.random() < 0.4 else inner
    span, lateness, sessions = rng.choice([4, 10, 25]), rng.choice([0, 3, 40]), rng.random() < 0.5
    windows = pst.EventTimeSessionWindows(span) if sessions else pst.TumblingEventTimeWindows(span)
    ours = WindowTestHarness(windows, trigger=trigger, allowed_lateness=lateness, apply=lambda key, window, rows: [tuple(rows)])
    theirs = Definition(trigger, gap=span if sessions else None, size=None if sessions else span, lateness=lateness)
    steps, time, clock, watermark = [], rng.choice([0, -60, 1000]), 0, None
    for number in range(rng.randint(1, 25)):
        kind = rng.random()
        if kind < 0.6:
            time += rng.randint(0, span // 2)
            back = rng.randint(0, 3 * span) if rng.random() < 0.3 else rng.randint(0, span // 2)
            steps.append(("row", rng.choice("aab"), time - back, number))
        elif kind < 0.8:
            watermark = time - rng.randint(0, span) if watermark is None else max(watermark, time - rng.randint(0, span))
            steps.append(("watermark", watermark + (rng.randint(0, 60) if rng.random() < 0.2 else 0)))
        else:
            clock += rng.randint(0, 12)
            steps.append(("clock", clock))
    steps.append(("end",))
    for number, step in enumerate(steps):
        take(ours, theirs, step)
        found = [(one.key, one.window.start, one.window.end, one.value) for one in ours.extract_output()]
        told = f"seed {seed}: {trigger!r}\n{windows!r}, lateness {lateness}\n{steps[: number + 1]}"
        # Several keys of an instant have no promised order.
        assert by_key(found) == by_key(theirs.fired), f"{told}\nexpected {theirs.fired}, found {found}"
        theirs.fired.clear()
        ours.restore(ours.snapshot())
    assert (ours.num_timers(), ours.num_state_entries()) == (0, 0), f"seed {seed}: {trigger!r} leaves something: {steps}"


def by_key(fired) -> list:
    """Return the firings of each key, in order."""
    return sorted(fired, key=lambda one: one[0])


def take(ours, theirs, step) -> None:
    """Run one step on both sides."""
    kind, *given = step
    if kind == "row":
        key, timestamp, value = given
        ours.process_element(value, timestamp, key)
        theirs.row(key, timestamp, value)
    elif kind == "watermark":
        ours.process_watermark(*given)
        theirs.watermark(*given)
    elif kind == "clock":
        ours.set_processing_time(*given)
        theirs.set_clock(*given)
    else:
        ours.end_of_input()
        theirs.watermark(2**63 - 1)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_composed_triggers_agree_with_their_definition(chunk):
    harness.run_cases(60, chunk, CHUNKS, case)
