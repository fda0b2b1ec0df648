"""Windows that close on silence, compared with a definition on random input with pauses, restarts and late rows.

``PANESTREAM_CASES=10000 pytest tests/engine/runtime/test_silence_random.py`` runs more cases, ``PANESTREAM_SEED`` others.
"""

import random

import pytest

from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison.harness import run_cases
from tests.engine.runtime.silences import Definition, Query, Step, run

CHUNKS = 4


def random_query(rng: random.Random) -> Query:
    size = rng.choice([5, 10, 10, 30])
    sliding = rng.random() < 0.4
    assigner = SlidingEventTimeWindows(size, rng.choice([size // 5, size + 3])) if sliding else TumblingEventTimeWindows(size)
    watermark = WatermarkStrategy(rng.choice([0, 0, 2, size]), closes_after=rng.choice([1, 5, 12, 40]))
    watermark = watermark.per_partition("p") if rng.random() < 0.4 else watermark
    return Query(assigner, watermark, rng.choice([0, 0, 3, size]), rng.random() < 0.3, rng.choice([1, 2, 3]))


def random_steps(rng: random.Random, query: Query) -> list[Step]:
    """Return steps of live or old data: event time is the clock minus a lag, or far in the past. Some rows are far behind."""
    clock, steps, run_ = rng.choice([0, 1000]), [], 0
    shift, lag = rng.choice([0, 0, -5000, 700]), rng.choice([0, 3, 10])
    paces = [rng.choice([0.05, 0.3, 0.6]), rng.choice([0.05, 0.95])]
    for number in range(rng.randint(3, 16)):
        if rng.random() < 0.12:
            run_ += 1
            clock += rng.choice([0, 1, 30, 500])
        elif rng.random() < 0.05:
            clock -= rng.randint(1, 40)
        clock += rng.choice([0, 1, 1, 3, rng.randint(1, 60)])
        rows = []
        if rng.random() > paces[number // 4 % 2]:
            for _ in range(rng.randint(1, 4)):
                back = rng.randint(0, 80) if rng.random() < 0.15 else rng.randint(0, lag)
                rows.append((rng.choice("abcd"), clock + shift - back, rng.randint(1, 9), rng.choice("01")))
        broken = rng.random() < 0.08
        step = Step(clock, str(run_), tuple(rows), broken, end=rng.random() < 0.06)
        steps.append(step)
        if broken:
            run_ += 1
            steps.append(Step(clock, str(run_), tuple(rows), end=step.end))
            clock += rng.choice([0, 2, 90])
    return steps


def case(rng: random.Random, seed: int) -> None:
    query = random_query(rng)
    steps = random_steps(rng, query)
    outputs, definition, last = run(query, steps), Definition(query), MIN_TIMESTAMP
    for number, (step, actual) in enumerate(zip(steps, outputs, strict=True)):
        description = f"seed {seed}, micro-batch {number}: {query}\n" + "\n".join(map(str, steps[: number + 1]))
        if step.broken:
            # The output of an interrupted micro-batch is checked when it is repeated, and must be the same.
            again = outputs[number + 1]
            assert (again.fired, again.late, again.watermark) == (actual.fired, actual.late, actual.watermark), description
            continue
        expected = definition.take(step, steps[number - 1].run if number > 0 and steps[number - 1].broken else step.run)
        assert sorted(actual.late) == sorted(expected.late), description
        assert {window[:3]: window[3:] for window in actual.fired} == {window[:3]: window[3:] for window in expected.fired}, (
            description
        )
        if expected.watermark is not None or actual.watermark is not None:
            assert actual.watermark == expected.watermark, description
            assert actual.watermark >= last, description
            last = actual.watermark


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_closing_on_silence_equals_the_definition(chunk):
    run_cases(60, chunk, CHUNKS, case)
