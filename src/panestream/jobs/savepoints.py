"""A job that starts from a savepoint: its sources are told where to begin, as far as a job file says where they read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from panestream.errors import JobError
from panestream.jobs.loading import LoadedJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def from_savepoint(loaded: LoadedJob, spark: SparkSession) -> tuple[LoadedJob, dict[str, Any]]:
    """The job with sources that begin where the savepoint ends, and what ``start`` takes beside.

    Files need nothing, ``start`` leaves out those that were read. Where the checkpoint has gone on since, the savepoint is not
    read.

    Raises:
        JobError: the job is a batch; something is said of a savepoint, and none is given.
        CheckpointError: there is no such savepoint; the source cannot begin there.
    """
    from panestream.spark.savepoint.birth import Birth
    from panestream.spark.savepoint.positions import DELTA, KAFKA
    from panestream.spark.savepoint.taking_over import savepoint_for

    if loaded.savepoint is None:
        if loaded.allow_incomplete:
            raise JobError("--allow-incomplete says something of a savepoint: give --savepoint, too")
        return loaded, {}
    job = loaded.job
    if job.mode != "stream":
        raise JobError(f"{loaded.document.path}: a batch has no state: --savepoint is for streams")
    saved = savepoint_for(spark, loaded.savepoint, str(job.checkpoint))
    how: dict[str, Any] = {"savepoint": loaded.savepoint}
    if loaded.allow_incomplete:
        how["allow_incomplete"] = True
    if isinstance(saved, Birth) or not saved.positions:
        return loaded, how
    told = []
    # Spark numbers the sources of two streams as they stand, the left one first.
    for position in saved.positions:
        if position.number >= len(job.streams):
            break
        where, stream = job.streams[position.number]
        options, source = saved.source_options(position.number), stream.source
        told.append(position.kind == DELTA and source.reads_table)
        if position.kind == KAFKA and source.kafka is not None:
            job = job.with_source(where, replace(source, kafka=replace(source.kafka, starting=options["startingOffsets"])))
        elif told[-1]:
            job = job.with_source(where, replace(source, options={**source.options, **options}))
    if all(told):
        # They were just told, and it cannot be seen.
        how["source_offsets"] = "job"
    return replace(loaded, job=job), how


__all__ = ["from_savepoint"]
