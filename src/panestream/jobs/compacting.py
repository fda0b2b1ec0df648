"""``panestream compact``: the small files of a job's output, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from panestream.jobs.live import PipeConsole
from panestream.jobs.sessions import QuietSession, SessionOf
from panestream.spark.sinks.compacting import compact
from panestream.spark.sinks.compaction import Compaction

make_session: SessionOf = QuietSession
"""Makes the session; tests put another one here."""


def put_together(path: str, file_bytes: int, grace: float, settings: Mapping[str, str], console: PipeConsole) -> None:
    """Compacts a file sink's folder, and prints what was done.

    Args:
        path: the sink's.
        file_bytes: about how large files become.
        grace: for how many seconds what was replaced stays.
        settings: of Spark.
        console: where to print.

    Raises:
        SinkError: it is no place that can be compacted, or another compaction is at work there.
    """
    with console.status("starting Spark"):
        session = make_session("panestream compact", settings)
    with session as spark, console.status(f"putting the files of {path} together"):
        done = compact(spark, path, file_bytes=file_bytes, grace_seconds=grace)
    for name, what in told(done):
        console.print(Text(f"{name:<12}", style="dim").append(what, style="default"), soft_wrap=True)


def told(done: Compaction) -> Iterator[tuple[str, str]]:
    """What was done, by title."""
    yield "folders", f"{done.folders:,}"
    yield "files", f"{done.files_before:,} -> {done.files_after:,}"
    yield "rows", f"{done.rows:,}"
    if done.left:
        yield "left", f"{done.left:,} that changed meanwhile: run it again"


__all__ = ["put_together", "told"]
