from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from tests.processes import ANY_PORT, ran

pytestmark = pytest.mark.spark


@pytest.mark.skipif(not pyspark.__version__.startswith("4.0."), reason="only Spark 4.0 has no streams through Connect")
def test_connect_of_spark_4_0_runs_batches_and_refuses_streams():
    said = ran(Path(__file__).with_name("connect.py"), **ANY_PORT)
    panes, row, *refused = said.splitlines()[-4:]
    # Every instant is in two sliding windows. Windows with early firings have more results.
    assert (panes, row.split()[0]) == ("panes 9", "row")
    assert all(line.startswith("Spark Connect of Spark 4.0 does not support stateful operators") for line in refused)
    assert len(refused) == 2
