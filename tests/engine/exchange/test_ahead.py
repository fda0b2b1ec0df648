"""Event times too far ahead, and how ``pack`` treats such rows. ``pack`` is a plain function, so no Spark is needed."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.exchange.group_run import gather
from panestream.engine.exchange.packing import PackColumns, ahead_of_rows, pack
from panestream.errors import InvalidEventTimeError, InvalidPlanError
from panestream.windowing.watermarks import WatermarkStrategy
from tests.engine.exchange.test_exchange import ROWS, plan

HOUR, DAY = 3_600_000_000, 86_400_000_000
YEAR_9999 = 253_402_300_799_000_000


def naive(times, most):
    ordered = sorted(times)
    last = (len(ordered) - 1) // 2
    while last + 1 < len(ordered) and ordered[last + 1] - ordered[last] <= most:
        last += 1
    return [time > ordered[last] for time in times] if times else []


def test_rows_ahead_of_the_others_equal_the_naive_definition():
    for seed in range(300):
        rng = random.Random(seed)
        times = [rng.choice([rng.randint(0, 100), rng.randint(0, 20), 10**6]) for _ in range(rng.randint(0, 12))]
        for since in (0, -60, -(10**9)):  # before 1970, and from before to after 1970
            moved = [since + time for time in times]
            assert ahead_of_rows(np.asarray(moved, np.int64), 9).tolist() == naive(moved, 9)


def test_steady_rows_over_years_and_a_single_row_are_never_too_far_ahead():
    years = np.arange(0, 3650 * DAY, DAY)
    assert not ahead_of_rows(years, DAY).any()
    assert ahead_of_rows(np.append(years, YEAR_9999), DAY).sum() == 1
    assert not ahead_of_rows(np.asarray([YEAR_9999]), DAY).any()


def pack_times(strategy, times, clock=None, tag="invalid"):
    recipe = replace(plan(), watermark=strategy, invalid_tag=tag)
    row = pa.table([pa.array(range(len(times))), pa.array(range(len(times)))], schema=ROWS)
    columns = {"time": pa.array(times, pa.int64()), "key": row["key"], "row": row.to_struct_array()}
    positions = {"row": 2}
    if clock is not None:
        columns["clock"], positions["processing_time"] = pa.array([clock] * len(times), pa.int64()), 3
    parts = pack(recipe, PackColumns((pa.int64(),), (), **positions), pa.table(columns).to_batches())
    return gather(recipe, [part for _, part in parts])


BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")


@pytest.mark.parametrize("of", ["clock", "rows"])
def test_row_too_far_ahead_is_invalid_and_does_not_move_the_watermark(of):
    times = [HOUR, YEAR_9999, None, 2 * HOUR]
    batch = pack_times(BOUNDED.max_ahead("1 hour", of=of), times, HOUR if of == "clock" else None)
    assert batch.seen == {"": 2 * HOUR}
    assert (batch.input_rows, batch.invalid_rows) == (4, 2)
    assert sorted(pa.concat_tables(batch.invalid)["value"].to_pylist()) == [1, 2]
    assert pack_times(BOUNDED, times).seen == {"": YEAR_9999}


@pytest.mark.parametrize(
    ("strategy", "times", "message"),
    [
        (
            BOUNDED.max_ahead("1 hour"),
            [1, YEAR_9999],
            r"1 of 2 rows .* 1 hour ahead of the clock, .*9999-12-31T23:59:59Z at 1970",
        ),
        (BOUNDED.max_ahead("1 hour", of="rows"), [1, 2, YEAR_9999], "1 of 3 rows .* ahead of the other rows, .*9999-12-31"),
        (BOUNDED, [1, None], "1 of 2 rows .* an unusable event time in 'ts' .*: the first has null"),
        (BOUNDED, [2**62, 1], f"1 of 2 rows .* an unusable event time in 'ts' .*: the first has {2**62} microseconds"),
    ],
)
def test_row_too_far_ahead_is_an_error_without_a_side_output(strategy, times, message):
    with pytest.raises(InvalidEventTimeError, match=message + r".*side_output_invalid"):
        pack_times(strategy, times, 5, tag=None)


def test_error_ends_with_the_way_out_of_the_plan():
    recipe = replace(plan(), way_out="Say event_time.invalid = 'side_output'")
    table = pa.table({"time": pa.array([None], pa.int64()), "key": pa.array([1])})
    with pytest.raises(InvalidEventTimeError, match=r"event_time.invalid = 'side_output'$"):
        list(pack(recipe, PackColumns((pa.int64(),), ()), table.to_batches()))


def test_max_ahead_refuses_unknown_references_and_negative_times():
    assert repr(BOUNDED.max_ahead("1 day", of="rows")).endswith(".max_ahead('1 day', of='rows')")
    with pytest.raises(InvalidPlanError, match="'clock' or of 'rows'"):
        BOUNDED.max_ahead("1 day", of="row")
    with pytest.raises(InvalidPlanError, match="negative"):
        BOUNDED.max_ahead("-1 day")
