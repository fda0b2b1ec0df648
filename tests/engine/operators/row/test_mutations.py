"""Every planted fault can still be planted: its text exists in the file. run_mutations.py checks that tests notice the faults."""

from __future__ import annotations

from pathlib import Path

import panestream
from tests.engine.operators.row.mutations import MUTANTS

PACKAGE = Path(panestream.__file__).parent


def test_every_planted_fault_can_be_planted():
    texts = {name: (PACKAGE / name).read_text("utf-8") for name in {name for name, _, _ in MUTANTS}}
    lost = [f"{name}: {old!r}" for name, old, new in MUTANTS if old not in texts[name] or old == new]
    assert not lost, "\n".join(lost)
