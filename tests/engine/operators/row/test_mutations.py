"""The planted faults can be planted: each text is still where the list says. Whether tests notice them, run_mutations.py finds out."""

from __future__ import annotations

from pathlib import Path

import panestream
from tests.engine.operators.row.mutations import MUTANTS

PACKAGE = Path(panestream.__file__).parent


def test_every_planted_fault_can_be_planted():
    texts = {name: (PACKAGE / name).read_text("utf-8") for name in {name for name, _, _ in MUTANTS}}
    lost = [f"{name}: {old!r}" for name, old, new in MUTANTS if old not in texts[name] or old == new]
    assert not lost, "\n".join(lost)
