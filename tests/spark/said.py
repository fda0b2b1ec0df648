"""Columns by their names in the plan, on both of Spark's clients. Not a test module, because other processes run it too."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from panestream.errors import InvalidPlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

SCHEMA = "user string, ts timestamp, price bigint, wait int, at struct<x: int>, tags array<string>"


def columns(df: DataFrame) -> dict[str, Column]:
    """Return columns that the two clients print differently (literals, comparisons, items) or equally."""
    return {
        "price": df.price,
        "(price * wait)": F.col("price") * F.col("wait"),
        "(price * 2) AS twice": (F.col("price") * 2).alias("twice"),
        "CAST(wait AS STRING)": F.col("wait").cast("string"),
        "lower(user)": F.lower("user"),
        "concat(user, it's)": F.concat("user", F.lit("it's")),
        "CASE WHEN (wait = 1) THEN yes ELSE no END": F.when(F.col("wait") == 1, "yes").otherwise("no"),
        "((NOT (wait > 1)) AND true)": ~(F.col("wait") > 1) & F.lit(True),
        "at.x": F.col("at.x"),
        "tags[0]": F.col("tags")[0],
        "date_trunc(hour, ts)": F.date_trunc("hour", df["ts"]),
        "ts + INTERVAL '0 00:05:00' DAY TO SECOND": F.col("ts") + F.lit(timedelta(minutes=5)),
        "transform(tags, lambdafunction(upper(namedlambdavariable()), namedlambdavariable()))": F.transform("tags", F.upper),
        "coalesce(price, 1099511627776)": F.coalesce("price", F.lit(2**40)),
        "(wait IN (1, 2))": F.col("wait").isin(1, 2),
        "(wait * 60)": F.expr("wait * 60"),
    }


def refused(build: Callable[[], object]) -> str:
    """Return the error that ``build`` raises."""
    try:
        build()
    except InvalidPlanError as error:
        return str(error)
    return "not refused"


def check_refusals(errors: list[str]) -> None:
    """Check the errors of a Spark aggregate, a Column of another DataFrame, and a column that does not exist."""
    assert "agg.sum('price')" in errors[0]
    assert "a Column of another DataFrame" in errors[1]
    assert "did you mean 'price'" in errors[2]
