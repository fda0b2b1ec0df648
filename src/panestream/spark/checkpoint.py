"""What panestream keeps in a checkpoint beside Spark's own: whose it is."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from panestream.engine.plan import WindowPlan, check_identity
from panestream.spark.notes import read_note, write_note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE = "panestream"


def claim_checkpoint(spark: SparkSession, plan: WindowPlan, checkpoint: str) -> str:
    """Reads or leaves panestream's note in the checkpoint: the query's identity, and the plan it belongs to.

    The state holds the plan too, and refuses another; here it is found before anything runs.
    """
    path = f"{checkpoint}/{_NOTE}"
    note = read_note(spark, path)
    if note is None:
        note = {"query": str(uuid.uuid4()), "identity": plan.identity()}
        write_note(spark, path, note)
    check_identity(note["identity"], plan.identity(), f"the checkpoint {checkpoint}")
    return str(note["query"])
