"""Plant faults and check that tests notice them. ``python tests/engine/operators/row/run_mutations.py [WORD...]`` plants the
faults whose text contains a word, or all of them. ``1/2`` and ``2/2`` plant half of them each, to run side by side.

Each mutant replaces a piece of text in a copy of the package and runs the tests of the row operator until one fails. The tests
that are likeliest to notice run first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT))

from tests.engine.operators.row.mutations import (  # noqa: E402 - it is run as a program
    AGGREGATES,
    CODEC,
    CONTENTS,
    INTERLEAVING,
    MUTANTS,
    PAGES,
)

PATIENCE = 400
"""Seconds for the tests of one mutant. All tests take two minutes. A run that takes much longer hangs and uses more and more
memory.
"""
HERE = "tests/engine/operators/row"
TESTS = (
    f"{HERE}/test_contract.py",
    f"{HERE}/test_state.py",
    f"{HERE}/test_growth.py",
    f"{HERE}/test_declared.py",
    "tests/windowing",
    "tests/conformance/test_row_operator.py",
    f"{HERE}/test_random_scenarios.py",
    "tests/conformance/test_runner.py",
    f"{HERE}/test_codec.py",
    f"{HERE}/test_grouped.py",
    f"{HERE}/test_stored_elements.py",
    f"{HERE}/test_firings.py",
)
FIRST = {
    CODEC: f"{HERE}/test_codec.py",
    INTERLEAVING: f"{HERE}/test_grouped.py",
    CONTENTS: f"{HERE}/test_firings.py",
    PAGES: f"{HERE}/test_firings.py",
}
"""The tests that are likeliest to notice a fault in a file. The default is the contract test."""


def is_killed(mutant: tuple[str, str, str], folder: Path) -> str | None:
    """Return the first test that fails, or None if all pass."""
    name, old, new = mutant
    path = folder / "panestream" / name
    text = path.read_text()
    if old not in text:
        return "NOT APPLICABLE: the text is not there"
    path.write_text(text.replace(old, new))
    first = f"{HERE}/test_declared.py" if name.startswith(AGGREGATES) else FIRST.get(name, TESTS[0])
    files = [first, *(file for file in TESTS if file != first)]
    try:
        result = run(folder, files)
    except subprocess.TimeoutExpired:
        return "does not end"
    finally:
        path.write_text(text)
    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return None if result.returncode == 0 else (failed or [result.stdout[-200:] + result.stderr[-200:]])[0]


def run(folder: Path, files: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the tests on the package in ``folder`` until the first failure."""
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={folder} {ROOT}", "-o", "filterwarnings=default"]
    environment = {
        **os.environ,
        "PANESTREAM_RANDOM_SCENARIOS": "240",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{folder}:{ROOT}",
    }
    command = [sys.executable, "-m", "pytest", *arguments, *files]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=PATIENCE, check=False)


def main(words: list[str]) -> int:
    """Run the mutants. Return 0 if at least 95 % were killed."""
    parts = [tuple(map(int, word.split("/"))) for word in words if re.fullmatch(r"\d+/\d+", word)]
    words = [word for word in words if not re.fullmatch(r"\d+/\d+", word)]
    mutants = [mutant for mutant in MUTANTS if not words or any(word in " ".join(mutant) for word in words)]
    for part, parts_in_all in parts:
        mutants = mutants[part - 1 :: parts_in_all]
    survivors = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "src" / "panestream", folder / "panestream")
        if run(folder, list(TESTS)).returncode:
            print("the tests fail without any fault")
            return 2
        for at, mutant in enumerate(mutants):
            killer = is_killed(mutant, folder)
            if killer is None or killer.startswith("NOT"):
                survivors.append(mutant)
            print(f"{at + 1}/{len(mutants)} {mutant[0]}: {mutant[2][:60]!r}: {killer or 'SURVIVED'}"[:220], flush=True)
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} killed")
    for survivor in survivors:
        print("survivor:", *survivor, sep="\n    ")
    return 1 if len(survivors) > len(mutants) * 0.05 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
