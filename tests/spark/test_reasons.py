"""The readable sentence in an error of Spark, from its text alone. Without Spark."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from panestream.spark.failures import first_sentence, of_ended_spark

PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "a.py", line 1, in first
KeyError: 'x'

During handling of the above exception, another exception occurred:

ValueError: in between
panestream.errors.OperatorError: the last one
"""


LOST_TASK = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 5) "
    "(192.0.2.2 executor driver): "
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("[TABLE_GONE] There is none. SQLSTATE: 42P01;\n'Project [a]\n+- Relation", "[TABLE_GONE] There is none."),
        ("\n\n  No plan;\nmore", "No plan"),
        ("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: batch 2 SQLSTATE: XXKST\n=== S", "batch 2"),
        (
            f"{LOST_TASK}java.io.IOException: Mkdirs failed (exists=false)\n\tat java",
            "java.io.IOException: Mkdirs failed (exists=false)",
        ),
        ("", "RuntimeError"),
        (PYTHON, "panestream.errors.OperatorError: the last one"),
        ("Job aborted\nValueError: no traceback, no worker", "Job aborted"),
    ],
)
def test_reason_is_the_first_sentence_of_an_error(words, said):
    assert first_sentence(RuntimeError(words)) == said


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (RuntimeError("Job 7 cancelled because SparkContext was shut down"), True),
        (RuntimeError("Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:"), True),
        (RuntimeError("<_InactiveRpcError of RPC that terminated with: status = StatusCode.UNAVAILABLE"), True),
        (Py4JNetworkError("Answer from Java side is empty"), True),
        (RuntimeError("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file /c/part-0.txt"), False),
        (RuntimeError("Checksum error: /c/part-0.txt at 0"), False),
    ],
)
def test_errors_of_an_ended_spark_are_recognised(error, ended):
    """Then the file that was being read is not reported, because it may be fine."""
    assert of_ended_spark(error) == ended
