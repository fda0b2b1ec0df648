"""Locate the state in a checkpoint: the path for Spark's reader, the operator of a plan, and the micro-batches that are left.

A query may have several stateful operators: windows over the results of windows, and Spark's own. Each operator of panestream
stores the identity of its plan in its state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from panestream.engine.savepoint.operators import default_name
from panestream.errors import CheckpointError, did_you_mean
from panestream.spark.checkpoint.epoch import newest_entry
from panestream.spark.checkpoint.records import list_files
from panestream.spark.checkpoint.spark_logs import logged
from panestream.spark.failures import first_sentence, of_spark, raise_as, words_of
from panestream.spark.places import escaped, is_plain, local_folder
from panestream.spark.session import has_local_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def readable_path(spark: SparkSession, checkpoint: str) -> str:
    """Return a path under which Spark's state reader finds a checkpoint, or raise CheckpointError.

    The reader encodes the address of a folder twice: it looks for ``a%20b`` if the folder is called ``a b``. On one machine a
    link with a plain name helps. Executors on other machines would not see the link.
    """
    if is_plain(checkpoint):
        return checkpoint
    commits = list_files(spark, f"{escaped(checkpoint)}/commits")
    address = commits[0].rsplit("/commits/", 1)[0] if commits else ""
    if "%" not in address:
        return checkpoint
    folder = local_folder(address)
    if folder is not None and has_local_executors(spark):
        path = str(_link_to(folder) / "checkpoint")
        if list_files(spark, f"{path}/commits"):
            return path
    raise CheckpointError(
        f"Spark's state reader cannot read the checkpoint {checkpoint}: its address has %20 and the like (for a blank, %, [ or "
        f"{{), and the reader looks for a folder of that name. Copy the checkpoint to a plain path, or make a link there "
        f"(ln -s {checkpoint!r} LINK), and read that"
    )


@cache
def _link_to(folder: Path) -> Path:
    """Return a folder with a link to another folder. It exists until this process ends, as DataFrames are read late."""
    home = TemporaryDirectory(prefix="panestream-")
    _LINK_FOLDERS.append(home)
    (Path(home.name) / "checkpoint").symlink_to(folder, target_is_directory=True)
    return Path(home.name)


_LINK_FOLDERS: list[TemporaryDirectory[str]] = []
"""Keeps the folders of the links until Python deletes them at its end."""


VARIABLE = "panestream"
"""The name of every operator's state variable."""
_STATE_FILE = re.compile(r"(\d+)(?:_[^.]*)?\.(?:zip|changelog)")


def operators_in(spark: SparkSession, path: str) -> dict[int, int]:
    """Return the partitions of panestream's operators in a checkpoint, by Spark's number of the operator, in order.

    Spark counts operators from the end of the query, so an input has a larger number. Raises CheckpointError if Spark's state
    reader does not find the metadata of the operators.
    """
    try:
        known = spark.read.format("state-metadata").load(readable_path(spark, path))
        rows = known.select("operatorId", "numPartitions", "operatorProperties").collect()
    except Exception as error:
        if not of_spark(error) or "[STDS_" not in words_of(error):
            raise
        raise_as(CheckpointError(f"Spark cannot read the checkpoint {path}: {first_sentence(error)}"), error)
    return dict(sorted((row.operatorId, row.numPartitions) for row in rows if VARIABLE in _variables(row.operatorProperties)))


def check_only_ours(spark: SparkSession, path: str) -> None:
    """Raise CheckpointError if a query has stateful operators of Spark, whose state would not be in a savepoint."""
    known = spark.read.format("state-metadata").load(readable_path(spark, path))
    rows = known.select("operatorId", "operatorName", "operatorProperties").distinct().collect()
    others = sorted(
        f"{row.operatorName} ({row.operatorId})" for row in rows if VARIABLE not in _variables(row.operatorProperties)
    )
    if others:
        raise CheckpointError(
            f"the query of the checkpoint {path} has stateful operators of Spark ({', '.join(others)}): a savepoint holds the "
            "state of windows only. Write what they make to a table or a topic, by a query of its own"
        )


def _variables(properties: str | None) -> list[str]:
    known: Mapping[str, Any] = json.loads(properties or "{}") or {}
    return [variable["stateName"] for variable in known.get("stateVariables", [])]


def micro_batches_with_state(spark: SparkSession, path: str, operator_id: int) -> list[int]:
    """Return the committed micro-batches whose state Spark has not cleaned yet, in order."""
    # Spark's version n of a state belongs to micro-batch n - 1. All partitions are cleaned equally.
    files = list_files(spark, f"{escaped(path)}/state/{operator_id}/0")
    versions = {int(match[1]) for file in files if (match := _STATE_FILE.fullmatch(file.rsplit("/", 1)[-1]))}
    # Spark reads the settings of a state from the log of offsets.
    there = logged(spark, path, "commits") & logged(spark, path, "offsets") & {version - 1 for version in versions}
    return sorted(there)


@dataclass(frozen=True)
class StateLocation:
    """What a checkpoint contains, as found: nothing is checked yet.

    Attributes:
        address: the path for Spark's state reader.
        committed: the committed micro-batches.
        entry: the entry of the query that ran the requested micro-batch, or empty. It has the operators of the newest entry, if
            that knows them, because a later run may name them or be the first to know them.
        operators: the partitions of panestream's operators by their number, empty before the first commit.
        with_state: the micro-batches whose state Spark still has.
        saved_plan: the plan of the last operator as JSON, or None if it is unknown.
        uid: the name of the last operator.
        before: ``uid``, ``identity`` and ``plan`` of each operator before it, the first one first.
        uids: the names of all operators, the first one first.
    """

    spark: SparkSession
    path: str
    batch_id: int
    address: str
    committed: Collection[int]
    entry: Mapping[str, Any]
    operators: Mapping[int, int]
    with_state: Sequence[int]
    saved_plan: Mapping[str, Any] | None = field(init=False)
    uid: str = field(init=False)
    before: Sequence[Mapping[str, Any]] = field(init=False)
    uids: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        uid, before = str(self.entry.get("uid", default_name(1))), tuple(self.entry.get("operators", ()))
        derived = {"saved_plan": self.entry.get("plan"), "uid": uid, "before": before}
        derived["uids"] = (*(each["uid"] for each in before), uid)
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def number_of(self, uid: str) -> int:
        """Return Spark's number of an operator; raises CheckpointError if there is no such operator, or they are unknown.

        Spark counts from the end.
        """
        if len(self.operators) != len(self.uids):
            raise CheckpointError(
                f"the query of the checkpoint {self.path} has {len(self.operators)} operators, and start() knew "
                f"{len(self.uids)}: build the later ones over the result itself, pst.stream(result) instead of "
                f"pst.stream(result.main), and start the query once more on this checkpoint"
            )
        if uid not in self.uids:
            raise CheckpointError(f"the checkpoint {self.path} has no operator {uid!r}; {did_you_mean(uid, self.uids)}")
        return sorted(self.operators)[len(self.before) - self.uids.index(uid)]


def locate(spark: SparkSession, path: str, batch_id: int | None) -> StateLocation:
    """Find the state of a checkpoint after a micro-batch, or after the last committed one."""
    committed = logged(spark, path, "commits")
    number = max(committed, default=-1) if batch_id is None else batch_id
    entry, newest = newest_entry(spark, path, number) or {}, newest_entry(spark, path) or {}
    entry = {**entry, **{name: newest[name] for name in ("uid", "operators") if name in newest}}
    operators = operators_in(spark, path) if committed else {}
    with_state = micro_batches_with_state(spark, path, min(operators)) if operators else []
    address = readable_path(spark, path) if committed else path
    return StateLocation(spark, path, number, address, committed, entry, operators, with_state)
