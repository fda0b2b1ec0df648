"""Flame graphs: both recordings are read, and a box is as wide as its share of the samples."""

from __future__ import annotations

from benchmarks.flames import Box, drawn, java_stacks, python_stacks

PYTHON = """\
process 7:"python -m pyspark.daemon";<module> (pyspark/daemon.py:9);main (pyspark/worker.py:3);pack (src/panestream/a/packing.py:5) 3
"""
JAVA = """\
jdk.ExecutionSample {
  sampledThread = "Executor task launch worker for task 0.0" (javaThreadId = 7)
  stackTrace = [
    org.apache.spark.Sink.write(Object) line: 5
    java.lang.Thread.run() line: 840
  ]
}
jdk.ExecutionSample {
  sampledThread = "C2 CompilerThread0" (javaThreadId = 8)
  stackTrace = [
    java.lang.Other.run() line: 1
  ]
}
"""


def test_stacks_begin_with_the_language_and_lack_what_is_the_same_in_all():
    assert list(python_stacks(PYTHON)) == [(["Python", "main (worker.py)", "panestream pack (packing.py)"], 3.0)]
    assert list(java_stacks(JAVA)) == [(["Java", "tasks", "Thread.run", "Sink.write"], 1.0)]


def test_box_is_as_wide_as_its_share_and_ours_are_green():
    root = Box()
    for stack, samples in [*python_stacks(PYTHON), *java_stacks(JAVA)]:
        root.add(stack, samples)
    picture = drawn(root, "all <samples>")
    assert "all &lt;samples&gt;: 100.0%" in picture
    assert 'panestream pack (packing.py): 75.0%</title><rect width="900.0" height="14" fill="#8fc98f"/>' in picture
    assert 'Sink.write: 25.0%</title><rect width="300.0" height="14" fill="#9ec1e0"/>' in picture
