"""Which run of a streaming query a task works for."""

from __future__ import annotations


def run_id() -> str:
    """Which run of a streaming query this task works for, as Spark says; empty where it does not.

    Spark makes the run's id the group of all jobs of a streaming query: so every way to start one tells it, Connect's too. In
    ``foreachBatch`` through Connect the jobs are of another session, which does not know.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or context.getLocalProperty("sql.streaming.queryId") is None:
        return ""
    return context.getLocalProperty("spark.jobGroup.id") or ""
