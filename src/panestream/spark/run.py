"""The run of a streaming query that a task works for."""

from __future__ import annotations


def run_id() -> str:
    """Return the id of the streaming query's run that this task works for, or an empty string if Spark does not have it.

    Spark makes the run's id the job group of a streaming query, so it is set for every way to start one, also Connect's. In
    ``foreachBatch`` through Connect, jobs belong to another session and lack it.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or context.getLocalProperty("sql.streaming.queryId") is None:
        return ""
    return context.getLocalProperty("spark.jobGroup.id") or ""
