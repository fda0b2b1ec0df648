"""The example for Feast runs beside PySpark, if Feast is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRINTED = """\
ann at 09:01:00: (20, 20)
ann at 10:00:30: (25, 25)
ann at 14:00:00: (None, 26)
bob at 09:42:30: (9, 9)
bob at 10:41:00: (9, 9)
dan at 10:00:00: (None, None)
0 of 6 differ from tiles
"""


@pytest.mark.spark
def test_features_that_feast_joins_equal_those_of_tiles():
    """Only Spark writes the files that Feast reads."""
    pytest.importorskip("feast")
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "feature_store" / "spending.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
        check=False, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert PRINTED in done.stdout
    assert done.stdout.endswith("{'ann': (None, 26), 'bob': (None, 9), 'cid': (3, 3)}\n")
