"""Options that are refused for windows that run only on columns."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import ReduceRows
from panestream.engine.plan import WindowQuery
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows, on_columns_only
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import LookBackWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import applied
from panestream.windowing.triggers import CountTrigger
from tests.comparison import harness

BACK = LookBackWindows.of("1 minute")
COUNT = DeclaredAggregates([agg.count()], {}, harness.KEYS)
OF_ROWS = FunctionOfRows(ReduceRows(max), harness.ROWS, harness.ROWS, max)
BEHIND = replace(COUNT, then=applied(lambda key, window, rows: rows), results=pa.schema([]))

TRIGGER = "fire once, at the watermark: leave out the trigger CountTrigger.of(3)"
EVICTOR = "do not keep elements to evict. Leave out CountEvictor.of(3)"
LATENESS = "emit no result twice: leave out allowed_lateness, and let the watermark wait longer"
FIRINGS = "have one firing each: leave out every_firing"
OWN = "functions of your own over rows do not run there: they compute declared aggregates (panestream.agg)"


@pytest.mark.parametrize("trigger", [None, BACK.get_default_trigger()])
def test_valid_request_is_returned_unchanged(trigger):
    assert on_columns_only(WindowQuery(BACK, trigger), COUNT, "look-backs") is COUNT


@pytest.mark.parametrize(
    ("more", "request_", "reasons"),
    [
        ({"trigger": CountTrigger.of(3)}, COUNT, TRIGGER),
        ({"evictor": CountEvictor.of(3)}, COUNT, EVICTOR),
        ({"allowed_lateness": 1}, COUNT, LATENESS),
        ({"every_firing": True}, COUNT, FIRINGS),
        ({}, OF_ROWS, OWN),
        ({}, BEHIND, OWN),
        ({"evictor": CountEvictor.of(3), "every_firing": True}, OF_ROWS, f"{EVICTOR}; {FIRINGS}; {OWN}"),
        (
            {"trigger": CountTrigger.of(3), "evictor": CountEvictor.of(3), "allowed_lateness": 1, "every_firing": True},
            BEHIND,
            f"{TRIGGER}; {EVICTOR}; {LATENESS}; {FIRINGS}; {OWN}",
        ),
    ],
    ids=["trigger", "evictor", "lateness", "firings", "function", "then", "some", "all"],
)
def test_error_lists_all_refused_options(more, request_, reasons):
    with pytest.raises(InvalidPlanError) as error:
        on_columns_only(WindowQuery(BACK, **more), request_, "look-backs")
    assert str(error.value) == f"{BACK!r}: look-backs run as columns only, and {reasons}"
