"""Do the tests notice planted faults? ``python -m tests.mutants.run --sample 190 --seed 1`` draws some of each package, and tells.

It goes on where it was cut: which tests reach what, and what became of each fault, are kept in ``build/mutants``. ``--retry`` tries
survivors again (after a test was written), ``--fresh`` all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.mutants.equivalents import EQUIVALENT
from tests.mutants.faults import Fault
from tests.mutants.planting import IMPOSSIBLE, SURVIVED, Job, TimedTest, Verdict, write_jobs
from tests.mutants.reach import PACKAGE
from tests.mutants.report import as_markdown, lines_of
from tests.mutants.sampling import DRIVER, PACKAGES, Reached, drawn, in_reach, likeliest_tests, possible

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
RESULTS = ROOT / "benchmarks" / "results"
ROOMS = (
    *("tests/engine", "tests/windowing", "tests/comparison", "tests/spark", "tests/testing", "tests/tracing", "tests/inspection"),
    *("tests/datastream", "src/panestream/windowing", "src/panestream/engine", "src/panestream/spark"),
    *(f"tests/conformance/test_{name}.py" for name in ("row_operator", "panes", "sessions_and_counts", "runner")),
)
"""Where the tests lie that are asked."""
MARKED = "not spark and not connectors and not slow"
SPARK_TESTS = ("tests/spark/sinks", "tests/spark/test_succession.py")
"""Those with Spark that ``--spark`` asks besides."""
# As many random cases as a fault must survive: fewer than the ordinary run has, since every fault pays for them.
CASES = {"PANESTREAM_CASES": "8", "PANESTREAM_RANDOM_SCENARIOS": "30"}


def main(words: Sequence[str] | None = None) -> int:
    """The exit status says whether at least 95 % of those that are not equivalent were killed."""
    chosen = _arguments(words)
    WORK.mkdir(parents=True, exist_ok=True)
    reach = [] if chosen.only_tell else reached(chosen.spark, chosen.fresh)
    packages = {name: drawn(own, chosen.seed, name) for name, own in possible(PACKAGE, chosen.packages).items()}
    kept = {} if chosen.fresh else read_verdicts()
    asked = {name: in_reach(faults, reach) if name.startswith(DRIVER) else faults for name, faults in packages.items()}
    while not chosen.only_tell and (pending := _pending(asked, kept, chosen)):
        jobs = [Job(fault, likeliest_tests(fault, reach, chosen.budget)) for fault in pending]
        print(f"{len(jobs)} faults, {len({test.name for job in jobs for test in job.tests})} tests", flush=True)
        kept |= {verdict.fault.name: verdict for verdict in run_jobs(jobs) if verdict.fault is not None}
        chosen.retry = False
    return _tell(packages, kept, chosen)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=190, help="how many faults in all, as many of each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--budget", type=float, default=15.0, help="seconds of the processor for the tests of one fault")
    parser.add_argument("--spark", action="store_true", help="ask some tests that start Spark, too")
    parser.add_argument("--retry", action="store_true", help="try survivors that no reason is known for again")
    parser.add_argument("--fresh", action="store_true", help="forget what was found before")
    parser.add_argument("--only-tell", action="store_true", help="write the page from what was found before")
    return parser.parse_args(words)


def _pending(asked: dict[str, list[Fault]], kept: dict[str, Verdict], chosen: argparse.Namespace) -> list[Fault]:
    """The faults to try: the first of each package, then the second of each, so that wherever it is cut, it is cut evenly."""
    each = -(-chosen.sample // len(asked))
    turns: list[tuple[int, Fault]] = []
    for faults in asked.values():
        can_be = [fault for fault in faults if fault.name not in kept or kept[fault.name].became != IMPOSSIBLE]
        turns += enumerate(can_be[:each])
    holes = {name for name, verdict in kept.items() if verdict.became == SURVIVED and name not in EQUIVALENT}
    ordered = [fault for _, fault in sorted(turns, key=lambda turn: turn[0])]
    again = [fault for fault in ordered if chosen.retry and fault.name in holes]
    return again + [fault for fault in ordered if fault.name not in kept]


def run_jobs(jobs: list[Job], work: Path = WORK, root: Path = ROOT) -> list[Verdict]:
    """Runs jobs in one pytest, and again from where it ended early; each verdict is kept at once.

    Raises:
        RuntimeError: pytest ends and has judged nothing.
    """
    found: list[Verdict] = [Verdict(job.fault, SURVIVED, "no test reaches it") for job in jobs if not job.tests]
    with (work / "verdicts").open("a") as kept:
        kept.writelines(json.dumps(asdict(verdict)) + "\n" for verdict in found)
    pending = [job for job in jobs if job.tests]
    while pending:
        before = _lines(work / "verdicts")
        write_jobs(work / "jobs", pending)
        ended = _pytest(
            root,
            ["-s", "-p", "tests.mutants.planting", "--plant", str(work / "jobs"), "--verdicts", str(work / "verdicts")],
            pending,
        )
        new = [as_verdict(line) for line in _lines(work / "verdicts")[len(before) :]]
        if not new:
            raise RuntimeError(f"pytest judged nothing:\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")
        for verdict in new:
            print(f"    {verdict.became}: {verdict.fault.name if verdict.fault else 'no fault'}: {verdict.by}"[:220], flush=True)
        found += new
        pending = pending[len(new) :]
    return found


def _pytest(root: Path, options: list[str], jobs: Iterable[Job]) -> subprocess.CompletedProcess[str]:
    files = sorted({test.name.partition("::")[0] for job in jobs for test in job.tests})
    return run_pytest([*options, *files], root)


def run_pytest(arguments: list[str], root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """pytest as faults are tried with it."""
    environment = {
        **os.environ,
        **CASES,
        "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), str(ROOT)]),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(WORK / "hypothesis"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def reached(spark: bool, fresh: bool) -> list[Reached]:
    """What each test reaches: of files that are as they were it is known from before.

    Raises:
        RuntimeError: a test fails without any fault.
    """
    path = WORK / "reach"
    known = json.loads(path.read_text()) if path.exists() and not fresh else {}
    files = {file.relative_to(ROOT).as_posix(): _digest(file) for room in ROOMS for file in files_of(ROOT / room)}
    marked = dict.fromkeys(files, MARKED)
    if spark:
        more = {f"{file.relative_to(ROOT).as_posix()}": _digest(file) for room in SPARK_TESTS for file in files_of(ROOT / room)}
        marked |= dict.fromkeys(more, "not connectors")
        files |= more
    stale = [name for name, digest in files.items() if not _is_fresh(known.get(name), digest, marked[name])]
    for mark, room in sorted({(marked[name], _room(name)) for name in stale}):
        own = [name for name in stale if (marked[name], _room(name)) == (mark, room)]
        print(f"which functions the tests of {room} reach: {len(own)} files", flush=True)
        ended = run_pytest(["-m", mark, "-p", "tests.mutants.reach", "--reach", str(WORK / "found"), *own])
        if ended.returncode not in (0, 5):  # 5: no test is left by the marks
            raise RuntimeError(f"tests fail without any fault:\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")
        found = json.loads((WORK / "found").read_text())
        for name in own:
            tests = {test: each for test, each in found.items() if test.partition("::")[0] == name}
            known[name] = {"digest": files[name], "marked": mark, "tests": tests}
        path.write_text(json.dumps(known))
    return [
        Reached(TimedTest(test, each["seconds"], each["waited"]), frozenset(each["reached"]))
        for name in files
        for test, each in known[name]["tests"].items()
        if each["passed"]
    ]


def _is_fresh(entry: dict[str, str] | None, digest: str, marked: str) -> bool:
    return entry is not None and entry["digest"] == digest and (entry["marked"] == marked or marked == MARKED)


def _room(name: str) -> str:
    return "/".join(name.split("/")[:3])


def files_of(room: Path) -> list[Path]:
    """The files of a room that hold tests, or examples that run."""
    if room.is_file():
        return [room]
    if "src" in room.relative_to(ROOT).parts:
        return [path for path in sorted(room.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
    return sorted(room.rglob("test_*.py"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def as_verdict(line: str) -> Verdict:
    read = json.loads(line)
    return Verdict(read["fault"] and Fault(**read["fault"]), read["became"], read["by"])


def read_verdicts() -> dict[str, Verdict]:
    """What became of the faults that were tried before; of one that was tried again, the last."""
    return {verdict.fault.name: verdict for verdict in all_verdicts() if verdict.fault}


def all_verdicts() -> list[Verdict]:
    """All that were given, in order."""
    return [as_verdict(line) for line in _lines(WORK / "verdicts")]


def _tell(packages: dict[str, list[Fault]], kept: dict[str, Verdict], chosen: argparse.Namespace) -> int:
    """Writes the page and its figures."""
    known = {fault.name for faults in packages.values() for fault in faults}
    verdicts = [verdict for name, verdict in kept.items() if name in known]
    lines = lines_of(verdicts, {name: len(faults) for name, faults in packages.items()}, EQUIVALENT)
    facts = [
        f"Command: `python -m tests.mutants.run --sample {chosen.sample} --seed {chosen.seed}`; Python {platform.python_version()}.",
        "As many faults of each package, drawn by the seed. Tests that reach a fault's function are run, the likeliest first.",
        "Of `spark` and what lies below it faults are drawn from the functions that the tests asked reach.",
    ]
    first = {verdict.fault.name: verdict.became for verdict in reversed(all_verdicts()) if verdict.fault}
    judged = [name for name, verdict in kept.items() if name in known and verdict.became != IMPOSSIBLE]
    at_once = sum(first[name] != SURVIVED for name in judged)
    mended = sum(first[name] == SURVIVED != kept[name].became for name in judged)
    facts.append(
        f"When first tried {at_once} of {len(judged)} were killed. {mended} more are killed by tests that were written then, or that "
        "were not asked at first. How the tests stand with faults that nobody has looked at another seed says."
    )
    page = as_markdown(lines, verdicts, EQUIVALENT, facts)
    if set(chosen.packages) == set(PACKAGES):
        (RESULTS / "mutants.md").write_text(page)
        told = [{**asdict(line), "survived": line.survived, "share": line.share} for line in lines]
        survivors = {
            verdict.fault.name: EQUIVALENT.get(verdict.fault.name, "a hole") for verdict in verdicts if _survived(verdict)
        }
        page_json = {"seed": chosen.seed, "packages": told, "survivors": survivors}
        (RESULTS / "mutants.json").write_text(json.dumps(page_json, indent=1) + "\n")
    print(page)
    return 0 if (lines[-1].share or 0) >= 0.95 else 1


def _survived(verdict: Verdict) -> bool:
    return verdict.became == SURVIVED


if __name__ == "__main__":
    sys.exit(main())
