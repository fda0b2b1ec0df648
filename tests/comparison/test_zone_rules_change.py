"""A query that restarts under other zone rules counts each row once, and loses none."""

from dataclasses import replace

import pytest

from panestream.engine.plan import WindowQuery
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import CalendarDays
from panestream.windowing.zones import ZoneRules
from tests.comparison import harness

HOUR = 3_600_000_000
DAY = 24 * HOUR


def days(change: int) -> CalendarDays:
    """Return days of a zone whose clock goes forward by an hour at an instant."""
    one = CalendarDays.of(1, zone="UTC")
    object.__setattr__(one, "rules", ZoneRules("UTC", "made up", (change,), (0, HOUR)))
    return one


def query(change: int) -> harness.Query:
    return harness.Query(WindowQuery(days(change)), (agg.count().alias("n"), agg.collect_list("v").alias("vs")), 0)


def run(plans: list, batches: list) -> list:
    state, fired = harness.MemoryState(), []
    for plan, batch in zip(plans, batches, strict=True):
        fired += harness.run(plan, [batch], state)[0].fired
    return fired


# The clock should go forward at 12 of the second day. Then a government decides on 22 of the first, so that day ends at 23 UTC.
BATCHES = [
    harness.MicroBatch([[("a", 10 * HOUR, 1, None, 1), ("a", 23 * HOUR - 1, 2, None, 2)]]),
    harness.MicroBatch([[("a", 23 * HOUR - 1, 3, None, 3), ("a", 23 * HOUR, 4, None, 4)]]),
    harness.MicroBatch([[("a", 3 * DAY, 5, None, 5)]]),
    harness.MicroBatch([], end=True),
]


def test_day_on_columns_keeps_its_rows_and_ends_by_new_zone_rules():
    old, new = query(DAY + 12 * HOUR).columnar(), query(22 * HOUR).columnar()
    fired = run([old, new, new, new], BATCHES)
    assert fired[:2] == [
        (("a", 0, 23 * HOUR), (3, [1, 2, 3])),
        (("a", 23 * HOUR, 47 * HOUR), (1, [4])),
    ]
    assert sum(values[0] for _, values in fired) == 5


def test_open_day_on_the_row_operator_is_split_by_new_zone_rules_without_loss():
    old, new = query(DAY + 12 * HOUR).row(), query(22 * HOUR).row()
    fired = run([old, new, new, new], BATCHES)
    assert sorted(fired)[:2] == [(("a", 0, 23 * HOUR), (1, [3])), (("a", 0, DAY), (2, [1, 2]))]
    assert sum(values[0] for _, values in fired) == 5


@pytest.mark.parametrize("which", ["columnar", "row"])
def test_checkpoint_identity_depends_on_the_zone_but_not_on_its_rules(which):
    old, new = (getattr(query(change), which)() for change in (DAY + 12 * HOUR, 22 * HOUR))
    assert old.identity() == new.identity()
    other = replace(new, assigner=CalendarDays.of(1, zone="Europe/Berlin"))
    object.__setattr__(other, "_identity", None)
    assert other.identity() != old.identity()
