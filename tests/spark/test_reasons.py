"""What an error of Spark's says, in a sentence. Without Spark: it is its text that is read."""

from __future__ import annotations

import pytest

from panestream.spark.reasons import first_sentence

PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "a.py", line 1, in first
KeyError: 'x'

During handling of the above exception, another exception occurred:

ValueError: in between
panestream.errors.OperatorError: the last one
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("[TABLE_GONE] There is none. SQLSTATE: 42P01;\n'Project [a]\n+- Relation", "[TABLE_GONE] There is none."),
        ("\n\n  No plan;\nmore", "No plan"),
        ("", "RuntimeError"),
        (PYTHON, "panestream.errors.OperatorError: the last one"),
        ("Job aborted\nValueError: no traceback, no worker", "Job aborted"),
    ],
)
def test_the_first_sentence(words, said):
    assert first_sentence(RuntimeError(words)) == said
