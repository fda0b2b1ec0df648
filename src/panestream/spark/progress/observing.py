"""Names of a query's counters in Spark's progress, if it has several panestream operators."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.spark.compat import silence_analysis_errors
from panestream.spark.progress.micro_batch import OBSERVED

_TAKEN = "DUPLICATED_METRICS_NAME"
_MOST = 100


def counters_name(df: DataFrame) -> str:
    """Return the name for the counters of an operator over these rows: ``panestream``, ``panestream_2`` and so on.

    Spark refuses two equal names in one query, so consecutive operators get consecutive numbers. Spark's analysis is called,
    since only Spark knows the rows' plan.
    """
    for number in range(1, _MOST):
        name = OBSERVED if number == 1 else f"{OBSERVED}_{number}"
        try:
            with silence_analysis_errors():
                df.observe(name, F.count(F.lit(1)).alias("rows")).schema  # noqa: B018
        except AnalysisException as error:
            if _TAKEN not in str(error):
                raise
        else:
            return name
    return OBSERVED
