"""Planted faults: does any test notice? ``python tests/engine/operators/row/run_mutations.py [WORD...]`` runs those whose text
contains a word, or all; ``1/2`` and ``2/2`` run half of them each, side by side.

Every mutant replaces one piece of text in a copy of the package and runs the tests of the row operator until one fails: first
those that are likeliest to notice.
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
"""Seconds for the tests of one mutant. All of them take two minutes; what takes much longer hangs, and eats memory meanwhile."""
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
    f"{HERE}/test_elements_at_rest.py",
    f"{HERE}/test_firings.py",
)
FIRST = {
    CODEC: f"{HERE}/test_codec.py",
    INTERLEAVING: f"{HERE}/test_grouped.py",
    CONTENTS: f"{HERE}/test_firings.py",
    PAGES: f"{HERE}/test_firings.py",
}
"""Which tests are likeliest to notice a fault in a file; else it is those of the contract."""


def is_killed(mutant: tuple[str, str, str], folder: Path) -> str | None:
    """The first test that fails; None where all pass."""
    name, old, new = mutant
    path = folder / "panestream" / name
    text = path.read_text()
    if old not in text:
        return "NOT APPLICABLE: the text is not there"
    path.write_text(text.replace(old, new))
    first = f"{HERE}/test_declared.py" if name.startswith(AGGREGATES) else FIRST.get(name, TESTS[0])
    files = [first, *(file for file in TESTS if file != first)]
    try:
        found = run(folder, files)
    except subprocess.TimeoutExpired:
        return "does not end"
    finally:
        path.write_text(text)
    failed = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return None if found.returncode == 0 else (failed or [found.stdout[-200:] + found.stderr[-200:]])[0]


def run(folder: Path, files: list[str]) -> subprocess.CompletedProcess[str]:
    """The tests, on the package in ``folder``, until the first failure."""
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
    """Runs the mutants; the exit status says whether at least 95 % were killed."""
    parts = [tuple(map(int, word.split("/"))) for word in words if re.fullmatch(r"\d+/\d+", word)]
    words = [word for word in words if not re.fullmatch(r"\d+/\d+", word)]
    chosen = [mutant for mutant in MUTANTS if not words or any(word in " ".join(mutant) for word in words)]
    for part, parts_in_all in parts:
        chosen = chosen[part - 1 :: parts_in_all]
    survivors = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "src" / "panestream", folder / "panestream")
        if run(folder, list(TESTS)).returncode:
            print("the tests fail without any fault")
            return 2
        for at, mutant in enumerate(chosen):
            killer = is_killed(mutant, folder)
            if killer is None or killer.startswith("NOT"):
                survivors.append(mutant)
            print(f"{at + 1}/{len(chosen)} {mutant[0]}: {mutant[2][:60]!r}: {killer or 'SURVIVED'}"[:220], flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed")
    for survivor in survivors:
        print("survivor:", *survivor, sep="\n    ")
    return 1 if len(survivors) > len(chosen) * 0.05 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
