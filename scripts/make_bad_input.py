"""Update the tables of docs/reference/bad-input.md: run every case of bad input, and write its outcome.

The cases are in tests/bad_input/cases.py and job_files.py. The rest of the page is written by hand. A run takes some minutes and
needs Java, except for the job files. A test runs the cases and compares their outcome with the page.

    make bad-input                        all
    make bad-input ARGS="Keys Files"      some tables
    make bad-input ARGS="--job-files"     only the table of job files, at once
    make bad-input ARGS="Keys --batches"  without the streams, which take most of the time (the page notes that)
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bad_input.cases import CASES
from tests.bad_input.job_files import JOB_FILES
from tests.bad_input.room import Case, Outcome, Room

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "bad-input.md"
SAME, NOT_RUN = "the same", "not run"
BATCHES, ALONE = "--batches", "--job-files"
JOBS = "Job files"
"""The title of the table of job files, which are refused before a batch or a stream starts."""
_CELL = re.compile(r"(?<!\\)\|")
_MARKED = re.compile(r"(<!-- made: (?P<group>[^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def line_of(case: Case, batch: Outcome | None, stream: Outcome | None) -> str:
    """Return a line of the table."""
    told = "" if batch is None else batch.text()
    streamed = NOT_RUN if stream is None else stream.text()
    return f"| {case.name} | {told} | {SAME if streamed == told else streamed} | {case.option} |"


def page_says(text: str, group: str, name: str) -> tuple[str, str]:
    r"""Return the page's text about a case, as a batch and as a stream.

    >>> page_says("<!-- made: Keys -->\n| null | no rows | the same |  |\n<!-- end -->", "Keys", "null")
    ('no rows', 'no rows')
    """
    found = next(mark for mark in _MARKED.finditer(text) if mark["group"] == group)
    lines = [[cell.strip() for cell in _CELL.split(line)[1:-1]] for line in found[0].splitlines()]
    _, batch, stream, *_ = next(line for line in lines if line[:1] == [name])
    return batch, batch if stream == SAME else stream


def renewed(text: str, tables: dict[str, list[str]]) -> str:
    """Return the page with new tables."""
    of_input = ["| input | as a batch | as a stream | what changes it |", "|---|---|---|---|"]
    of_jobs = ["| job file | error for each mistake |", "|---|---|"]

    def table(mark: re.Match[str]) -> str:
        lines, head = tables.get(mark["group"]), of_jobs if mark["group"] == JOBS else of_input
        return mark[0] if lines is None else mark[1] + "\n".join([*head, *lines]) + "\n" + mark[3]

    return _MARKED.sub(table, text)


def ran(spark: Any, group: str, case: Case, *, streams: bool) -> str:
    """Run a case, and describe its outcome."""
    with tempfile.TemporaryDirectory() as folder:
        room = Room(spark, Path(folder))
        batch = room.batch(case) if case.batch else None
        stream = room.stream(case) if streams else None
        for kind, outcome in (("batch", batch), ("stream", stream)):
            if outcome is not None:
                print(f"{group}: {case.name} ({kind}): {'' if outcome.kind else 'NOT KIND: '}{outcome.text()}", flush=True)
        return line_of(case, batch, stream)


def lines_of_jobs() -> list[str]:
    """Return the table of job files."""
    lines = []
    for job in JOB_FILES:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(f"| {job.name} | {job.errors_in(Path(folder))} |")
    return lines


def main(chosen: list[str]) -> None:
    """Run the cases of some groups, or of all."""
    streams = BATCHES not in chosen
    if ALONE in chosen or not chosen:
        PAGE.write_text(renewed(PAGE.read_text("utf-8"), {JOBS: lines_of_jobs()}), encoding="utf-8")
    if ALONE in chosen:
        return
    chosen = [each for each in chosen if each != BATCHES]
    from panestream.spark.session import build_session

    spark = build_session("bad input", {"spark.ui.enabled": "false", "spark.driver.memory": "2g"}, master="local[2]")
    spark.sparkContext.setLogLevel("OFF")
    try:
        for group, cases in CASES.items():
            if chosen and not any(group.lower().startswith(each.lower()) for each in chosen):
                continue
            lines = [ran(spark, group, case, streams=streams) for case in cases]
            PAGE.write_text(renewed(PAGE.read_text("utf-8"), {group: lines}), encoding="utf-8")
            print(f"renewed {group} in {PAGE}", flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
