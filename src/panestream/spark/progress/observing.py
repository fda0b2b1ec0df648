"""What a query's counters are called in Spark's progress, where one query has several panestream operators."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.spark.asking import asking
from panestream.spark.progress.micro_batch import OBSERVED

_TAKEN = "DUPLICATED_METRICS_NAME"
_MOST = 100


def counters_name(df: DataFrame) -> str:
    """What the counters of an operator over these rows are called: ``panestream``, or with a number behind it.

    Spark refuses two of one name in one query. So of operators that follow one another the first is ``panestream``, the next
    ``panestream_2``. Spark's analysis is asked, since only it knows what is in the rows' plan.
    """
    for number in range(1, _MOST):
        name = OBSERVED if number == 1 else f"{OBSERVED}_{number}"
        try:
            with asking():
                df.observe(name, F.count(F.lit(1)).alias("rows")).schema  # noqa: B018
        except AnalysisException as error:
            if _TAKEN not in str(error):
                raise
        else:
            return name
    return OBSERVED
