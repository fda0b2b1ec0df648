"""Spark starts a Python for the processor in every micro-batch: it must not load what it does not need."""

import subprocess
import sys


def test_the_processor_brings_in_nothing_heavy():
    code = (
        "import sys; import pyspark.sql.streaming.transform_with_state_driver_worker; before = set(sys.modules)\n"
        "import panestream.spark.processor\n"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before}))\n"
        "print(sorted(name for name in sys.modules if name.startswith('panestream')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    brought, own = (set(eval(line)) for line in done.stdout.splitlines())
    assert own == {"panestream", "panestream.spark", "panestream.spark.processor"}
    assert not brought & {"pyarrow", "numpy", "pandas"}
