"""``panestream run --report FILE``: the page about a run, written even if the run fails."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from panestream.errors import JobError
from panestream.jobs.live import PipeConsole, PlainConsole
from panestream.jobs.loading import LoadedJob
from panestream.spark.failures import first_sentence, of_spark

if TYPE_CHECKING:
    from panestream.insight.report_recording import RunReport


@contextmanager
def reported(loaded: LoadedJob, page: Path | None, told: Sequence[tuple[str, str]], console: PipeConsole) -> Generator[LoadedJob]:
    """Record the run of a job, and write the report page at its end, even after a failure.

    A page that cannot be written raises ``JobError`` before the run, but is only a warning after it. ``told`` are titles and
    texts that describe the run.
    """
    if page is None:
        yield loaded
        return
    from panestream.insight.report import DONE
    from panestream.insight.report_recording import RunReport, shown_settings, versions

    check_writable(page)
    _check_beside(page)
    report = RunReport()
    run, job = report.run, loaded.job
    run.name = job.name or page.stem
    run.told += [("job file", str(loaded.document.path)), *told, ("versions", versions())]
    run.checkpoint = str(job.checkpoint) if job.mode == "stream" else ""
    try:
        yield replace(loaded, report=report)
    except BaseException as error:
        run.outcome, run.error = _ended_by(error)
        raise
    else:
        run.outcome = DONE
    finally:
        run.settings = [*run.settings, *shown_settings({name: str(value) for name, value in job.spark.items()})]
        _write(report, page, console)


def check_writable(page: Path) -> None:
    """Raise ``JobError`` if the page cannot be written, before Spark starts, which takes seconds."""
    if page.is_dir() or not page.parent.is_dir():
        why = "it is a folder" if page.is_dir() else f"there is no folder {page.parent}"
        raise JobError(f"the page {page} cannot be written: {why}")


def _check_beside(page: Path) -> None:
    """Test with a temporary file whether the folder is writable: the page is written there and then moved to its place."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{page.name}.", dir=page.parent)
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise JobError(f"the page {page} cannot be written: {error.strerror or error}") from error


def _ended_by(error: BaseException) -> tuple[str, str]:
    from panestream.insight.report import FAILED, STOPPED

    if isinstance(error, (typer.Exit, KeyboardInterrupt)):
        # After Ctrl-C, or because nobody reads the output.
        return STOPPED, ""
    said = first_sentence(error) if isinstance(error, Exception) and of_spark(error) else str(error)
    return FAILED, f"{type(error).__name__}: {said}"


def _write(report: RunReport, page: Path, console: PipeConsole) -> None:
    try:
        report.write(page)
    except Exception as error:  # noqa: BLE001 - a page is not worth a run
        said = f"the report {page} could not be written: {error}"
        PlainConsole(stderr=True).print(Text("warning: ", style="bold yellow").append(said, style="default"), soft_wrap=True)
    else:
        console.print(Text("report  ", style="dim").append(str(page), style="default"), soft_wrap=True)
