"""The breakdown of a micro-batch is read from Spark's event log."""

from __future__ import annotations

import json

import pytest

from benchmarks.breakdown import batches, table

pytestmark = pytest.mark.full


def log(folder):
    """Write the log of a micro-batch with two stages of two tasks, a micro-batch without data, and a job outside of micro-batches."""

    def task(stage, launch, finish, **values):
        ids = {"python": 1, "written": 2, "operate": 3}
        names = {
            "python": "time to execute Python code",
            "written": "shuffle write time",
            "operate": "time to execute Python code",
        }
        found = [{"ID": ids[key], "Name": names[key], "Update": str(value)} for key, value in values.items()]
        return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": {"Launch Time": launch, "Finish Time": finish, "Accumulables": found}}  # fmt: skip

    def stage(number, submitted, completed):
        info = {"Stage ID": number, "Submission Time": submitted, "Completion Time": completed}
        return {"Event": "SparkListenerStageCompleted", "Stage Info": info}

    plan = {
        "nodeName": "TransformWithStateInPySpark",
        "metrics": [{"accumulatorId": 3, "metricType": "timing"}],
        "children": [
            {
                "nodeName": "Exchange",
                "metrics": [{"accumulatorId": 2, "metricType": "nsTiming"}],
                "children": [
                    {"nodeName": "MapInArrow", "metrics": [{"accumulatorId": 1, "metricType": "timing"}], "children": []}
                ],
            }
        ],
    }
    lines = [
        {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", "sparkPlanInfo": plan},
        {"Event": "SparkListenerJobStart", "Properties": {}, "Stage IDs": [1]},
        task(1, 0, 999, python=999),
        {"Event": "SparkListenerJobStart", "Properties": {"streaming.sql.batchId": "4"}, "Stage IDs": [8, 7]},
        task(7, 100, 160, python=50, written=3_000_000),
        task(7, 100, 190, python=80, written=1_000_000),
        stage(7, 95, 195),
        task(8, 200, 240, operate=30),
        stage(8, 196, 250),
    ]
    (folder / "events_1_local").write_text("\n".join(map(json.dumps, lines)))


def test_log_gives_stages_tasks_and_operators_of_a_micro_batch(tmp_path):
    log(tmp_path)
    (batch,) = batches(tmp_path)
    assert batch.stages == {0: 100, 1: 54}
    assert batch.tasks == {0: [60, 90], 1: [40]}
    assert batch.metrics[0, "pack", "time to execute Python code"] == [50, 80]
    assert batch.metrics[0, "Exchange", "shuffle write time"] == [3, 1]
    assert batch.metrics[1, "operate", "time to execute Python code"] == [30]


def test_table_shows_the_slowest_task(tmp_path):
    log(tmp_path)
    lines = table(batches(tmp_path), [{"addBatch": 180, "walCommit": 20}])
    assert "| all | 200 |" in lines
    assert "| its longest task | 90 |" in lines
    assert "| … pack: time to execute Python code | 80 |" in lines
    assert "| … operate: time to execute Python code | 30 |" in lines
