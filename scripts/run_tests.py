"""Run the tests in parts, and print the time of each part.

    python scripts/run_tests.py test                          # as `make test`
    python scripts/run_tests.py all                           # as `make test-all`
    python scripts/run_tests.py changed --seconds 600         # the rest of `all` that belongs to the changed files
    python scripts/run_tests.py smoke --python PYTHON         # one test of Spark Connect and of each connector
    python scripts/run_tests.py test -- -k sliding -x         # arguments of pytest, for every part

Tests marked `full` run only in `all` and `changed`. Everything ends with exit status 1 if any part failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import selection  # noqa: E402

TESTS = ROOT / "tests"
NO_TESTS = 5
"""The exit status of pytest if nothing was selected."""
NIGHTLY = ("benchmarks", "connectors", "data", "mutants", "recovery", "versions")
"""Folders of tests of which one takes minutes: `all` runs them, and `changed` does not."""
CONNECT = "tests/spark/test_elsewhere.py::test_query_through_spark_connect_gives_the_expected_results"
COMMITS = 50
"""Without a tag, this many commits count as changed."""
CACHED = {"PYTHONDONTWRITEBYTECODE": ""}
"""pytest keeps the test files that it has compiled: the next part, and the next run, start faster."""
PARALLEL = {
    "engine": ["-n", "2", "--dist", "worksteal"],
    "spark": ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"],
    "connectors": [],
}
SELECTED = {"engine": "not spark and not connectors", "spark": "spark and not connectors", "connectors": "connectors"}


@dataclass(frozen=True)
class Part:
    """One run of pytest.

    Attributes:
        name: the name of the part in the summary.
        words: the arguments of pytest.
        environment: variables set for it.
        python: the interpreter.
    """

    name: str
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def run(self) -> tuple[int, float]:
        """Run pytest; return its exit status and the seconds it took."""
        print(f"-- {self.name}: pytest {' '.join(self.words)}", flush=True)
        begin = time.monotonic()
        command = [self.python, "-m", "pytest", *self.words]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **CACHED, **self.environment}, check=False)  # noqa: S603
        return done.returncode, time.monotonic() - begin


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen parts; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["test", "all", "changed", "smoke"])
    parser.add_argument(
        "--python", default="", help="the interpreter that has Delta, Iceberg and Kafka; without it they are left out"
    )
    parser.add_argument("--seconds", type=int, default=0, help="start no test of `changed` later than this")
    chosen = parser.parse_args(words[:split])
    own = words[split + 1 :]
    parts = {
        "test": lambda: test(own),
        "all": lambda: test_all(own, chosen.python),
        "changed": lambda: changed(own, chosen.seconds),
        "smoke": lambda: smoke(own, chosen.python),
    }[chosen.what]()
    return report([(part, *part.run()) for part in parts])


def test(own: list[str]) -> list[Part]:
    """Return the parts of `make test`."""
    # Import only the test files that the list names: importing all of them takes long.
    places = {"engine": [], "spark": [] if own else selected_places()}
    return [
        Part(
            name,
            [*_words(name, f"{SELECTED[name]} and not full", own), *files],
            {} if own else {"PANESTREAM_BUDGET": name},
        )
        for name, files in places.items()
    ]


def selected_places() -> list[str]:
    """Return the files of the selected tests with Spark, and the folder whose docstrings have examples with Spark."""
    return [*dict.fromkeys(entry.partition("::")[0] for entry in selection.read()), "src/panestream"]


def test_all(own: list[str], connectors: str) -> list[Part]:
    """Return the parts of `make test-all`."""
    costs = os.environ.get("PANESTREAM_COSTS", "")
    environments = {
        name: {"PANESTREAM_COSTS": costs.replace("*", name), **({} if name == "connectors" else {"PANESTREAM_FULL": "1"})}
        for name in SELECTED
    }
    parts = [Part(name, _words(name, SELECTED[name], own), environments[name]) for name in ("engine", "spark")]
    if connectors:
        # That environment lacks what other test files import.
        words = [*_words("connectors", SELECTED["connectors"], own), *([] if own else ["tests/connectors"])]
        parts.append(Part("connectors", words, environments["connectors"], connectors))
    return parts


def changed(own: list[str], seconds: int) -> list[Part]:
    """Return the part of `make test-all` that belongs to the files changed since the last tag, or in the last commits."""
    folders = rooms(changed_files())
    if not folders:
        print("-- changed: nothing to run", flush=True)
        return []
    words = ["-m", "full and not connectors", *PARALLEL["spark"], *own, *map(str, folders)]
    return [Part("changed", words, {"PANESTREAM_FULL": "1", "PANESTREAM_SECONDS": str(seconds)})]


def smoke(own: list[str], connectors: str) -> list[Part]:
    """Return the smoke tests of Spark Connect and, if they are there, of the connectors."""
    parts = [Part("connect", ["-m", "spark", CONNECT, *own])]
    if connectors:
        parts.append(
            Part("connectors", ["-m", "smoke", "tests/connectors", *own], {"PYSPARK_PYTHON": connectors}, python=connectors)
        )
    return parts


def _words(name: str, marked: str, own: list[str]) -> list[str]:
    """Return pytest's arguments. A few chosen files run in one process."""
    files = narrowed(own)
    parallel = [] if files or any((ROOT / word.partition("::")[0]).exists() for word in own) else PARALLEL[name]
    return ["-m", marked, *parallel, *own, *files]


def narrowed(own: Sequence[str]) -> list[str]:
    """Return the test files that a plain ``-k word`` can mean, so that the others are not imported; empty if it may be any."""
    if "-k" not in own or any(not word.startswith("-") and (ROOT / word.partition("::")[0]).exists() for word in own):
        return []
    word = own[own.index("-k") + 1] if own.index("-k") + 1 < len(own) else ""
    if not re.fullmatch(r"\w+", word):
        return []
    files = [
        path
        for path in TESTS.rglob("test_*.py")
        if word.lower() in f"{path.relative_to(ROOT)}\n{path.read_text('utf-8')}".lower()
    ]
    return [str(path.relative_to(ROOT)) for path in sorted(files)]


def changed_files() -> list[str]:
    """Return the paths that differ from the last tag, or from the commit before the last ones."""
    tag = _git("describe", "--tags", "--abbrev=0")
    number = _git("rev-list", "--count", "HEAD")
    since = tag or f"HEAD~{min(COMMITS, int(number or 1) - 1)}"
    return (_git("diff", "--name-only", since) or "").split()


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return done.stdout.strip() if done.returncode == 0 else ""


def rooms(files: Iterable[str]) -> list[Path]:
    """Return the files and folders of tests that mirror the changed ones, without those inside another.

    >>> [path.as_posix() for path in rooms(["src/panestream/spark/sinks/files.py", "README.md"])]
    ['tests/spark/sinks']
    """
    found: set[Path] = set()
    for name in files:
        path = Path(name)
        if name.startswith("src/panestream/"):
            room = Path("tests", *path.parts[2:-1])
            found.add(room) if len(path.parts) > 3 and (ROOT / room).is_dir() else None
        elif name.startswith("tests/") and path.name.startswith("test_") and (ROOT / path).is_file():
            found.add(path) if path.parts[1] not in NIGHTLY else None
    return sorted(path for path in found if not any(parent in found for parent in path.parents))


def report(done: Sequence[tuple[Part, int, float]]) -> int:
    """Print the time of each part; return 1 if a part failed, or if no part had a test."""
    for part, status, seconds in done:
        outcome = {0: "passed", NO_TESTS: "no tests"}.get(status, f"FAILED (exit status {status})")
        print(f"-- {part.name}: {outcome} in {int(seconds // 60)} min {int(seconds % 60):02} s")
    failed = any(status not in (0, NO_TESTS) for _, status, _ in done)
    empty = bool(done) and all(status == NO_TESTS for _, status, _ in done)
    return 1 if failed or empty else 0


if __name__ == "__main__":
    sys.exit(main())
