"""How many modules the reading of a checkpoint enters on its way to a text, and that it never goes back to an earlier step.

The way has four steps: locate what the checkpoint contains, validate it, decode the state on the executors, render the summary.

- A module is entered when one of its functions is called. Returning to a caller does not count, and neither do imports.
- Counted are the modules that read a checkpoint: `spark/savepoint`, `engine/inspection`, and the `inspect` modules of `insight`.
- Each of them belongs to one step. Within a step modules may call each other. A module must not be entered after a later step began.
- Decoding runs here, in this process, and not in Spark's workers. Otherwise their half of the way would be missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from panestream.insight.inspect_text import render_text
from panestream.jobs.state_commands import _state_of
from panestream.spark.savepoint.decode import GroupByGroup, StoredState
from tests.golden.files import CHECKPOINTS, query_of, unpack_checkpoint

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "panestream"
LOCATE, VALIDATE, DECODE, RENDER = range(4)
STEPS = {
    "spark/savepoint/manifest.py": LOCATE,  # whether it is a savepoint
    "spark/savepoint/read.py": LOCATE,
    "spark/savepoint/locate.py": LOCATE,
    "spark/savepoint/validate.py": VALIDATE,
    "spark/savepoint/inspectable_state.py": VALIDATE,
    "engine/inspection/filters.py": VALIDATE,  # the keys and windows that the user asks for
    "spark/savepoint/decode.py": DECODE,
    "engine/inspection/reduce.py": DECODE,
    "engine/inspection/merge.py": RENDER,
    "engine/inspection/summary.py": RENDER,
    "insight/inspect_text.py": RENDER,
    "insight/inspect_page.py": RENDER,
}
MAX_MODULES = 12


def counted(path: str) -> bool:
    return path.startswith(("spark/savepoint/", "engine/inspection/", "insight/inspect"))


def modules_entered(call) -> list[str]:
    """The counted modules in the order of entering: one entry for each call that comes from another counted module."""
    way: list[str] = []

    def look(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            path = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
            if counted(path) and way[-1:] != [path]:
                way.append(path)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return way


def faults(way: list[str]) -> list[str]:
    """What is wrong with a way: a module without a step, too many modules, or a module entered after a later step began."""
    wrong = [f"{path} has no step" for path in sorted(set(way) - set(STEPS))]
    if len(set(way)) > MAX_MODULES:
        wrong.append(f"{len(set(way))} modules, at most {MAX_MODULES}")
    latest = LOCATE
    for path in way:
        step = STEPS.get(path, latest)
        if step < latest:
            wrong.append(f"{path} is entered again after step {latest} began")
        latest = max(latest, step)
    return wrong


def decoded_here(stored, made, schema, groups=None, *, header_only=False, numbered=True):
    """The same as `StoredState.map_groups`, in this process."""
    values = stored.values(header_only=header_only).toArrow()
    run = GroupByGroup(stored.plan.groups if numbered else None, made)
    return stored.spark.createDataFrame(pa.Table.from_batches(run(values.to_batches()), schema))


@pytest.mark.spark
def test_reading_a_checkpoint_goes_from_step_to_step(spark, tmp_path, monkeypatch):
    """On Spark, because only its state reader returns the values of a checkpoint."""
    monkeypatch.setattr(StoredState, "map_groups", decoded_here)
    *_, file = [each for each in CHECKPOINTS if query_of(each) == "panes"]
    checkpoint = str(unpack_checkpoint(file, tmp_path))
    console = Console(width=120, record=True, file=(tmp_path / "text").open("w", encoding="utf-8"))

    def inspect():
        for part in render_text(_state_of(spark, checkpoint, None, None).summary(), console):
            console.print(part)

    way = modules_entered(inspect)
    assert "Key groups" in console.export_text()
    assert not faults(way), "\n".join([*faults(way), "the way:", *way])
    assert {STEPS[path] for path in way} == {LOCATE, VALIDATE, DECODE, RENDER}


def test_step_back_and_module_without_a_step_are_reported():
    there = ["spark/savepoint/read.py", "spark/savepoint/locate.py", "spark/savepoint/validate.py", "spark/savepoint/decode.py"]
    assert not faults([*there[:2], there[0], *there[1:]])
    assert faults([*there, there[1]]) == ["spark/savepoint/locate.py is entered again after step 2 began"]
    assert faults(["insight/inspect_all.py"]) == ["insight/inspect_all.py has no step"]
    assert faults([*STEPS, "insight/inspect_all.py"])[1] == "13 modules, at most 12"
