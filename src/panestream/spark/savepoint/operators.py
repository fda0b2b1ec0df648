"""Find the operator of a query that holds the state of a plan, and the micro-batches whose state Spark still has.

A query may have several stateful operators: windows over the results of windows, and Spark's own. Each operator of panestream
stores the identity of its plan in its state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panestream.engine.plan import KEY_GROUPS, WindowPlan
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.storage import payload
from panestream.engine.storage.sealed_state import META, SealedState, group_in
from panestream.engine.storage.state import MemoryState
from panestream.errors import CheckpointError, PlanMismatchError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.checkpoint.spark_logs import logged
from panestream.spark.failures import first_sentence, of_spark, raise_as, words_of
from panestream.spark.places import escaped
from panestream.spark.savepoint.addresses import readable_path
from panestream.spark.savepoint.values import VARIABLE, StoredState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Identity = Mapping[str, str]
_IDENTITY = pa.schema([("identity", pa.string())])
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


def _variables(properties: str | None) -> list[str]:
    known: Mapping[str, Any] = json.loads(properties or "{}") or {}
    return [variable["stateName"] for variable in known.get("stateVariables", [])]


def held(spark: SparkSession, path: str, operator_id: int) -> list[int]:
    """Return the committed micro-batches whose state Spark has not cleaned yet, in order."""
    # Spark's version n of a state belongs to micro-batch n - 1. All partitions are cleaned equally.
    files = list_files(spark, f"{escaped(path)}/state/{operator_id}/0")
    versions = {int(match[1]) for file in files if (match := _STATE_FILE.fullmatch(file.rsplit("/", 1)[-1]))}
    # Spark reads the settings of a state from the log of offsets.
    there = logged(spark, path, "commits") & logged(spark, path, "offsets") & {version - 1 for version in versions}
    return sorted(there)


def operator_of(stored: StoredState, operators: Collection[int], identity: Identity) -> int:
    """Return the operator whose state has a plan's identity, the last of the query if there are several.

    ``stored`` is the state of any operator. Raises PlanMismatchError with the differences to the most similar operator.
    """
    identities = {number: _identity(replace(stored, operator_id=number)) for number in operators}
    for number in operators:
        found = identities[number]
        if found is not None and not _differences(found, identity):
            return number
    # An operator without state has not received any rows yet.
    empty = [number for number, found in identities.items() if found is None]
    if empty:
        return empty[0]
    differences = min((_differences(found, identity) for found in identities.values() if found is not None), key=len)
    lines = [f"  {name}: {there or '(absent)'}  ->  {given or '(absent)'}" for name, (there, given) in differences.items()]
    raise PlanMismatchError(
        "\n".join([f"the state in the checkpoint {stored.path} is of another plan (there -> given):", *lines]), differences
    )


def operator_and_plan(stored: StoredState, operators: Collection[int], plan: WindowPlan) -> tuple[int, WindowPlan]:
    """Return the operator that runs a user's plan, and the plan as if read from a checkpoint, with its number of key groups.

    Raises PlanMismatchError if no operator runs the plan, and CheckpointError if several do.
    """
    identities = [_identity(replace(stored, operator_id=number)) for number in operators]
    found = [
        (number, identity)
        for number, identity in zip(operators, identities, strict=True)
        if identity is not None and not _differences(identity, plan.identity())
    ]
    if len(found) > 1:
        raise CheckpointError(
            f"{len(found)} operators of the query in {stored.path} run this plan: which one is meant cannot be told. Leave "
            "plan= out to read the last one, which start() was called of"
        )
    if found:
        ((number, identity),) = found
        plan = replace(plan, groups=int(identity[KEY_GROUPS]))
    else:
        number = operator_of(stored, operators, plan.identity())
    return number, plan_of(json.loads(json.dumps(plan_json(plan))))


def _differences(there: Identity, given: Identity) -> dict[str, tuple[str | None, str | None]]:
    names = sorted({*there, *given} - {KEY_GROUPS})
    return {name: (there.get(name), given.get(name)) for name in names if there.get(name) != given.get(name)}


def _identity(stored: StoredState) -> dict[str, str] | None:
    """Return the identity of the plan of an operator's state, or None without state."""
    found = stored.made_of(identity_in, _IDENTITY, header_only=True, numbered=False).first()
    return None if found is None else json.loads(found.identity)


def identity_in(state: MemoryState, _: int) -> Iterable[pa.Table]:
    """Make one row with the identity in the meta record of a key group."""
    group = group_in(state.get(META, 0) or b"")
    _rows, header = payload.decode_numbers(SealedState(state, group, "of unknown windows").get(META, 0) or b"")
    return [pa.table({"identity": [json.dumps(header["identity"])]}, schema=_IDENTITY)]
