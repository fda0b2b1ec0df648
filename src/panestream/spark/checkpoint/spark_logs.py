"""Damage to Spark's logs in a checkpoint. Spark's own errors rarely name the file and never suggest a remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from panestream.errors import StateDamagedError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.places import escaped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from panestream.errors import OperatorError, PanestreamError
from panestream.spark.checkpoint.records import read_files
from panestream.spark.failures import first_sentence, known_reason, of_ended_spark, of_spark, raise_as

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGS = "{metadata,offsets/*,commits/*,sources/*/*}"
_FILE = re.compile(r"/(metadata|offsets/\d+|commits/\d+|sources/\d+/\d+(?:\.compact)?)$")
_CHECKSUM = re.compile(r"Checksum error: (.+?) at \d+")
_VERSION = re.compile(r"\0?v\d+")
_IDENTITY = re.compile(r'^\{.*"id":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".*\}$')
WAY_OUT = (
    "Put back a copy of the whole checkpoint from before the damage; or start on a new checkpoint, with new outputs or from a "
    "savepoint"
)


@contextmanager
def explained(spark: SparkSession, checkpoint: str) -> Iterator[None]:
    """Raise Spark's errors in the block as panestream's, if the reason is known.

    Raises:
        OperatorError: Spark may not write, or lacks space or memory.
        StateDamagedError: a log in the checkpoint is damaged.
    """
    try:
        yield
    except Exception as error:
        explanation = named(spark, checkpoint, error)
        if explanation is None:
            raise
        raise_as(explanation, error)


def named(spark: SparkSession, checkpoint: str, error: BaseException) -> PanestreamError | None:
    """Return the error that explains a failure of Spark outside of windows and sinks, or None if the reason is not known."""
    if not of_spark(error) or of_ended_spark(error):
        return None
    reason = known_reason(error)
    if reason is not None:
        return OperatorError(f"the query on the checkpoint {checkpoint} failed: {reason}")
    try:
        damage = damage_of_logs(spark, checkpoint)
    except Exception as other:
        if not of_spark(other):
            raise
        return None  # the logs cannot be read: the first error says more
    if damage is None:
        return None
    sentence = first_sentence(error)
    return StateDamagedError(f"Spark's log in the checkpoint {checkpoint} is damaged: {damage} ({sentence}). {WAY_OUT}")


def damage_of_logs(spark: SparkSession, checkpoint: str) -> str | None:
    """Return a description of the damage in Spark's logs of a checkpoint, or None if they look intact."""
    pattern = f"{escaped(checkpoint.rstrip('/'))}/{_LOGS}"
    names = {match[1] for address in list_files(spark, pattern) if (match := _FILE.search(unquote(address)))}
    gone = missing_log(names)
    try:
        files = read_files(spark, pattern) if names else {}
    except Exception as error:
        broken = _CHECKSUM.search(str(error)) if of_spark(error) else None
        file = _FILE.search(broken[1]) if broken else None
        if file is None:
            raise
        return f"{file[1]} was changed, its checksum (.crc) is another"
    texts = {match[1]: content for path, content in files.items() if (match := _FILE.search(path))}
    # A compacted log may be too large to read here.
    read = sorted((name for name in names if name in texts or not name.endswith(".compact")), key=_newest_first)
    cut = (f"{name} {fault}" for name in read if (fault := _fault(name, texts.get(name, b""))))
    return next(cut, gone) or _missing_source(names, texts)


def missing_log(names: set[str]) -> str | None:
    """Return which log lacks a micro-batch that Spark needs, or None.

    >>> missing_log({"offsets/1", "offsets/3", "commits/3"}), missing_log({"commits/4", "offsets/3"})
    ('offsets/2 is gone', 'offsets/4 is gone')
    >>> missing_log({"metadata", "offsets/0", "offsets/1", "commits/0"})
    >>> missing_log({"metadata", "sources/0/0"}), missing_log({"offsets/7"}), missing_log({"offsets/0"})
    ('offsets is gone', 'commits is gone', 'metadata is gone')
    """
    planned, committed = _numbers(names, "offsets"), _numbers(names, "commits")
    last = max(planned | committed, default=None)
    if last is None:
        return "offsets is gone" if any(name.startswith("sources/") for name in names) else None
    if not planned:
        return "offsets is gone"
    if not committed and last > 0:
        return "commits is gone"
    if max(committed, default=-1) < last - 1:
        return f"commits/{last - 1} is gone"
    # Spark starts with the last planned micro-batch, and with the end of the one before.
    lost = next((number for number in (last, last - 1) if number >= min(planned) and number not in planned), None)
    if lost is not None:
        return f"offsets/{lost} is gone"
    return None if "metadata" in names else "metadata is gone"


def _numbers(names: set[str], log: str) -> set[int]:
    return {int(number) for name in names for folder, _, number in [name.rpartition("/")] if folder == log}


def _newest_first(name: str) -> tuple[str, int]:
    folder, _, number = name.removesuffix(".compact").rpartition("/")
    return folder, -int(number) if number.isdigit() else 0


def _fault(name: str, content: bytes) -> str | None:
    """Return how a file of a log is damaged, or None."""
    lines = content.decode("utf-8", "replace").splitlines()
    if not content.strip():
        return "is empty"
    if name == "metadata":
        return None if _IDENTITY.search(lines[0]) else "is cut off or was changed"
    if not _VERSION.fullmatch(lines.pop(0)):
        return "does not begin with a version"
    return None if all(map(_is_whole, lines)) and lines else "is cut off or was changed"


def _is_whole(line: str) -> bool:
    """Return whether a line that begins as JSON ends as JSON. Sources may write other lines."""
    if not line.startswith("{"):
        return True
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _missing_source(names: set[str], texts: Mapping[str, bytes]) -> str | None:
    """Return the missing entry of a file source's log that the last planned micro-batch needs, or None."""
    offsets = texts.get(f"offsets/{max(_numbers(names, 'offsets'), default=-1)}", b"")
    ends = re.findall(rb'^\{"logOffset":(\d+)\}$', offsets, re.MULTILINE)
    logs = {name.split("/")[1] for name in names if name.startswith("sources/")}
    if ends and not logs:
        return "sources is gone"
    if len(ends) != 1 or len(logs) != 1:
        return None  # it is uncertain which log belongs to which source
    (log,) = logs
    entries = {name.rpartition("/")[2] for name in names if name.startswith("sources/")}
    compacted = max((int(name.removesuffix(".compact")) for name in entries if name.endswith(".compact")), default=-1)
    lost = next((number for number in range(compacted + 1, int(ends[0]) + 1) if str(number) not in entries), None)
    return None if lost is None else f"sources/{log}/{lost} is gone"


def last_committed(spark: SparkSession, checkpoint: str) -> int:
    """Return the last committed micro-batch, or -1."""
    return last_logged(spark, checkpoint, "commits")


def planned_at(spark: SparkSession, checkpoint: str, batch_id: int) -> int | None:
    """Return when Spark first planned a micro-batch (milliseconds, clock of that driver), or None if its log does not have it."""
    lines = spark.read.text(f"{escaped(checkpoint)}/offsets/{batch_id}").collect()
    times = [match for row in lines for match in re.findall(r'"batchTimestampMs":\s*(\d+)', row.value)]
    return int(times[0]) if times else None


def logged(spark: SparkSession, checkpoint: str, log: str) -> frozenset[int]:
    """Return the micro-batches in Spark's log ``offsets`` (planned) or ``commits`` (committed).

    Spark keeps the last 100 in each (``spark.sql.streaming.minBatchesToRetain``).
    """
    names = [path.rsplit("/", 1)[-1] for path in list_files(spark, f"{escaped(checkpoint)}/{log}")]
    return frozenset(int(name) for name in names if name.isdigit())


def last_logged(spark: SparkSession, checkpoint: str, log: str) -> int:
    """Return the last micro-batch in one of Spark's logs, or -1."""
    return max(logged(spark, checkpoint, log), default=-1)
