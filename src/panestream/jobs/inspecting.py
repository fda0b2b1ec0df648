"""``panestream inspect``: what is in a checkpoint, or in a savepoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from panestream.errors import JobError
from panestream.inspection.document import document_of
from panestream.inspection.page import page_of
from panestream.inspection.summary import Summary
from panestream.inspection.text import told
from panestream.jobs.json_output import json_text
from panestream.jobs.live import PipeConsole
from panestream.jobs.sessions import QuietSession, SessionOf
from panestream.spark.savepoint.manifest import is_savepoint
from panestream.spark.savepoint.reading import CheckpointState, read_checkpoint
from panestream.spark.savepoint.saved import Savepoint, read_savepoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

make_session: SessionOf = QuietSession
"""Makes the session; tests put another one here."""


@dataclass(frozen=True)
class Inspection:
    """What was typed.

    Attributes:
        path: the checkpoint.
        batch_id: after which micro-batch; None: the last.
        keys, windows: the filters.
        most: how many of each list.
        as_json: whether it is for machines.
        page: the file of the page to write; None: none.
        settings: of Spark.
    """

    path: str
    batch_id: int | None
    keys: Sequence[str]
    windows: Sequence[str]
    most: int
    as_json: bool
    page: Path | None
    settings: Mapping[str, str]


def show(asked: Inspection, console: PipeConsole) -> None:
    """Looks, and prints what was found.

    Raises:
        CheckpointError: there is no checkpoint, micro-batch, key column or the like of what was typed.
        JobError: the page cannot be written.
    """
    if asked.page is not None:
        check_writable(asked.page)
    summary = _looked(asked, console)
    if asked.page is not None:
        asked.page.write_text(page_of(summary), "utf-8")
    if asked.as_json:
        console.file.write(json_text(document_of(summary)) + "\n")
        return
    if asked.page is not None:
        console.print(Text("page  ", style="dim").append(str(asked.page), style="default"), soft_wrap=True)
        return
    for each in told(summary, console):
        console.print(each)


def _looked(asked: Inspection, console: PipeConsole) -> Summary:
    with console.status("starting Spark"):
        session = make_session("panestream inspect", asked.settings)
    with session as spark, console.status(f"looking into {asked.path}"):
        return state_of(spark, asked.path, asked.batch_id).summary(asked.keys, asked.windows, most=asked.most)


def state_of(spark: SparkSession, path: str, batch_id: int | None) -> CheckpointState | Savepoint:
    """The state at a path: of a checkpoint, or of a savepoint.

    Raises:
        CheckpointError: there is none, or no such micro-batch.
        JobError: a micro-batch was asked for of a savepoint.
    """
    if not is_savepoint(spark, path):
        return read_checkpoint(spark, path, batch_id)
    if batch_id is not None:
        raise JobError(f"{path} is a savepoint, which is of one micro-batch: leave --batch out")
    return read_savepoint(spark, path)


def check_writable(page: Path) -> None:
    """Before Spark is started, which takes seconds."""
    if page.is_dir() or not page.parent.is_dir():
        why = "it is a folder" if page.is_dir() else f"there is no folder {page.parent}"
        raise JobError(f"the page {page} cannot be written: {why}")
