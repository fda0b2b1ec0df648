"""The views and outputs that are stored with a checkpoint, computed again for comparison."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import panestream as pst
from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.plans import plan_of
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables

VIEWS = ("windows", "elements", "user_state", "timers")


def tables_of(saved: Mapping[str, Any]) -> tuple[WindowPlan, dict[int, StateTables]]:
    """Return the plan and the state tables of each key group that a ``values.json`` holds."""
    plan = plan_of(saved["plan"])
    found = {}
    for group, values in saved["groups"].items():
        state = MemoryState({(space, number): b64decode(value) for space, number, value in values})
        found[int(group)] = plan.operator.for_group(plan, state, int(group)).tables()
    return plan, found


def shown_of(saved: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the four state views as sorted JSON text, without sizes, which may change."""
    plan, groups = tables_of(saved)
    views = [plan.operator.views(plan, tables, group) for group, tables in groups.items()]
    return {
        name: sorted(
            _text({column: value for column, value in row.items() if column != "bytes"})
            for view in views
            for row in getattr(view, name).to_pylist()
        )
        for name in VIEWS
    }


def outputs_after_resuming(result: Any, checkpoint: str, batches: int, **more: Any) -> dict[str, list[str]]:
    """Run a query for this many micro-batches and return its outputs. The result is empty if the clock fires windows."""
    sinks = {tag: pst.MemorySink() for tag in result.plan.tags}
    clock = result.plan.wakes_up
    query = result.start(checkpoint=checkpoint, trigger="1 second" if clock else "availableNow", **sinks, **more)
    if clock:
        deadline = time.monotonic() + 60
        while query.is_active and len(list(Path(checkpoint, "commits").glob("[0-9]*"))) < batches and time.monotonic() < deadline:
            time.sleep(0.2)
        query.stop()
        return {}
    query.await_termination()
    return {tag: sorted(_text(row.asDict(recursive=True)) for row in sink.rows) for tag, sink in sinks.items()}


def _text(row: Any) -> str:
    return json.dumps(row, default=str, sort_keys=True, ensure_ascii=False)
