"""``panestream savepoint``: the state of a job, taken out of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from panestream.engine.explain import listed
from panestream.engine.plan import stable_repr
from panestream.jobs.live import PipeConsole
from panestream.jobs.sessions import QuietSession, SessionOf
from panestream.spark.savepoint.manifest import Manifest
from panestream.spark.savepoint.writing import take

make_session: SessionOf = QuietSession
"""Makes the session; tests put another one here."""


def take_out(checkpoint: str, folder: str, batch_id: int | None, settings: Mapping[str, str], console: PipeConsole) -> None:
    """Takes a savepoint, and prints what it holds.

    Args:
        checkpoint: the checkpoint.
        folder: where to.
        batch_id: after which micro-batch; None: the last.
        settings: of Spark.
        console: where to print.

    Raises:
        CheckpointError: there is no such checkpoint or micro-batch; the folder holds something.
    """
    with console.status("starting Spark"):
        session = make_session("panestream savepoint", settings)
    with session as spark, console.status(f"looking into {checkpoint}") as status:
        taken = take(spark, checkpoint, folder, batch_id, status.update)
    for name, what in told(taken.manifest, folder):
        console.print(Text(f"{name:<12}", style="dim").append(what, style="default"), soft_wrap=True)


def told(manifest: Manifest, folder: str) -> Iterator[tuple[str, str]]:
    """What a savepoint holds, by title."""
    plan = manifest.plan
    yield "savepoint", folder
    yield "checkpoint", f"{manifest.checkpoint}, after micro-batch {manifest.batch_id}"
    yield "windows", stable_repr(plan.assigner)
    yield "key", listed(plan.key_names) or "none"
    yield "key groups", str(manifest.groups)
    yield "rows", ", ".join(f"{name} {rows:,}" for name, rows in manifest.tables.items())
    yield "versions", ", ".join(f"{name} {version}" for name, version in manifest.versions.items())


__all__ = ["take_out", "told"]
