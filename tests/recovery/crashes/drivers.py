"""Kills of the driver: each life of a query is a process, killed at a random moment or at a chosen critical step."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.recovery.crashes.cells import Cell
from tests.recovery.crashes.victims import Progress, Victim, state_files, wait_until, where_struck

AIMS = (
    "any moment",
    "within the commit of the state",
    "published, not committed",
    "while the sink writes",
    "before the rename",
    "after the rename",
)
OF_FILES = 2
"""How many of the aims, at the end of the list, apply only to file sinks."""
LIFE_SECONDS = 400
LONGEST_WRITE_SECONDS = 1.5


def kill_drivers(cell: Cell, folder: Path, plan: Mapping[str, Any], turn: int, chance: random.Random, deadline: float) -> None:
    """Run a cell to its end with kills in between. Its output is then in the folder.

    Args:
        cell: The cell whose ``struck`` is filled.
        folder: The folder of the processes.
        plan: The plan of a session. Its ``cells`` holds this cell.
        turn: The number of the first aim.
        chance: Decides the moments of kills.
        deadline: After this time nothing is killed.

    Raises:
        RuntimeError: The job failed by itself, or did not end in time.
    """
    aims = AIMS if cell.sink == "files" else AIMS[:-OF_FILES]
    told, tries = dict(plan["cells"][0]), 0
    while len(cell.struck) < cell.wanted and tries < 2 * cell.wanted + 2 and time.monotonic() < deadline:
        aim = aims[(turn + len(cell.struck)) % len(aims)]
        tries += 1
        struck = _one_life(folder, plan, told, aim, chance)
        if struck is None:
            break
        if struck:
            cell.struck.append(struck)
    victim = Victim.start(folder, {**plan, "cells": [told]})
    try:
        if not wait_until(lambda: not victim.running, LIFE_SECONDS, 0.1) or victim.process.returncode:
            raise RuntimeError(f"{cell.title} ended with {victim.process.returncode}:\n{victim.tail()}")
    finally:
        if victim.running:
            victim.kill()


def _one_life(folder: Path, plan: Mapping[str, Any], told: Mapping[str, Any], aim: str, chance: random.Random) -> str | None:
    """Return where the kill struck, an empty string if it did not strike, or None if the query ended."""
    checkpoint = Path(told["checkpoint"])
    begun = Progress.of(checkpoint)
    victim = Victim.start(folder, {**plan, "cells": [{**told, **_from_within(aim, begun, str(told["name"]), chance)}]})
    try:
        deadline = time.monotonic() + LIFE_SECONDS
        if aim == "any moment":
            # Let each life make progress. Otherwise a query that is killed often would never end.
            wanted = begun.planned + chance.choice([1, 2, 2])
            wait_until(lambda: not victim.running or Progress.of(checkpoint).planned >= wanted, LIFE_SECONDS, 0.005)
            time.sleep(chance.uniform(0, 2.5))
        elif aim == "within the commit of the state":
            _wait_for_half_a_commit(victim, checkpoint, deadline)
        else:
            wait_until(lambda: not victim.running, LIFE_SECONDS, 0.05)
            if victim.process.returncode == -signal.SIGKILL:
                return f"aimed: {aim}"
        if not victim.running:
            if victim.process.returncode:
                raise RuntimeError(f"{told['name']} ended with {victim.process.returncode}:\n{victim.tail()}")
            return None
        if victim.has_rows(str(told["name"])):
            return ""
    finally:
        if victim.running:
            victim.kill()
    return where_struck(checkpoint, lambda number: _published(told, number))


def _from_within(aim: str, begun: Progress, name: str, chance: random.Random) -> dict[str, Any]:
    """Return how the victim kills itself in the first or second micro-batch of its life."""
    kill = {"target": name, "output": "main", "batch": begun.committed + chance.choice([1, 2]), "number": begun.planned}
    if aim == "published, not committed":
        return {"kill": {**kill, "seconds": None}}
    if aim == "while the sink writes":
        return {"kill": {**kill, "seconds": chance.uniform(0, LONGEST_WRITE_SECONDS)}}
    return {"rename": aim.split(maxsplit=1)[0]} if "rename" in aim else {}


def _wait_for_half_a_commit(victim: Victim, checkpoint: Path, deadline: float) -> None:
    """Wait until the first partition of the state has a version that the others do not have."""
    while victim.running and time.monotonic() < deadline:
        versions = set(state_files(checkpoint).values())
        if len(versions) > 1:
            return
        time.sleep(0.001)


def _published(told: Mapping[str, Any], number: int) -> bool | None:
    return (Path(told["folder"]) / "main" / f"batch_id={number}").is_dir() if told["sink"] == "files" else None
