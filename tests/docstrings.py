"""Runs the examples in docstrings, also those that need Spark.

An example that uses one of ``NAMES`` and does not define it gets its value: a session, some clicks, a query that has ended. It is then a
test with Spark. The values are shared and small, and no example may change them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = {
    "spark",
    "df",
    "clicks",
    "keyed",
    "views",
    "orders",
    "prices",
    "rules",
    "hours",
    "sessions",
    "query",
    "checkpoint",
    "folder",
    "servers",
    "saved_path",
}
"""The names that examples with Spark may use. ``pst``, ``agg`` and ``F`` come with them."""
COSTLY = {"query": "finished_query", "checkpoint": "finished_query", "saved_path": "savepoint_of_examples"}
"""Fixtures that make a name only if an example uses it."""
KAFKA = "servers"
"""The name of a broker's address. `tests/connectors/kafka` runs the examples that use it."""


def used_names(sources: str) -> set[str]:
    """Return the names that an example takes from `NAMES`.

    >>> sorted(used_names("found = clicks.key_by('user')\\nprint(found, spark)"))
    ['clicks', 'spark']
    >>> used_names("clicks = 3\\nclicks + 1")
    set()
    """
    made: set[str] = set()
    used: set[str] = set()
    if "build_session(" in sources:
        used.add("spark")
    for statement in ast.parse(sources).body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        used |= {node.id for node in names if isinstance(node.ctx, ast.Load)} - made
        made |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        made |= {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    return used & NAMES


def names_of(item: pytest.Item) -> set[str]:
    """Return the names of `NAMES` that a test of a docstring in ``src`` uses."""
    if not isinstance(item, pytest.DoctestItem) or "src" not in item.path.parts:
        return set()
    return used_names("\n".join(example.source for example in item.dtest.examples))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the examples that need Spark, or Spark with Kafka."""
    names = names_of(item)
    if names:
        item.add_marker(pytest.mark.connectors if KAFKA in names else pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two cores, as `build_session` makes it."""
    from panestream.spark.session import build_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    session = build_session(
        "panestream tests",
        {
            "spark.sql.warehouse.dir": str(warehouse),
            "spark.ui.enabled": "false",
            "spark.python.daemon.module": "tests.workers",
            "spark.driver.memory": "2g",
        },
        master="local[2]",
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def clicks_of_examples(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that need no query."""
    from pyspark.sql import functions as F

    import panestream as pst

    at = datetime(2026, 5, 1, 10, 5, tzinfo=timezone.utc)
    rows = [("ann", "home", 3.0, 0), ("bob", "home", 1.0, 15), ("ann", "cart", 5.0, 65)]
    input_files = pst.testing.MicroBatches(
        spark, tmp_path_factory.mktemp("clicks"), "user string, page string, price double, ts timestamp"
    )
    input_files.add([(user, page, price, at + timedelta(minutes=after)) for user, page, price, after in rows])
    df = input_files.batch()
    clicks = pst.stream(df, time="ts", out_of_orderness="5 seconds")
    keyed = clicks.key_by("user")
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").with_idleness("1 minute")
    return {
        "pst": pst,
        "agg": pst.agg,
        "F": F,
        "spark": spark,
        "df": df,
        "clicks": clicks,
        "keyed": keyed,
        **dict.fromkeys(["views", "orders", "prices"], keyed),
        "rules": pst.stream(df, time="ts", watermark=strategy),
        "hours": keyed.window(pst.tumbling("1 hour")),
        "sessions": keyed.window(pst.session("10 minutes")),
        "arriving": input_files.stream(),
    }


@pytest.fixture(scope="session")
def finished_query(clicks_of_examples: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A streaming query that has read all clicks, and its checkpoint."""
    pst, agg = clicks_of_examples["pst"], clicks_of_examples["agg"]
    checkpoint = str(tmp_path_factory.mktemp("checkpoint"))
    arriving = pst.stream(clicks_of_examples["arriving"], time="ts", out_of_orderness="5 seconds")
    totals = arriving.group_by("user", pst.tumbling("1 hour")).aggregate(agg.sum("price").alias("total"))
    query = totals.start(main=pst.MemorySink(), checkpoint=checkpoint, trigger={"availableNow": True})
    query.await_termination()
    return {"query": query, "checkpoint": checkpoint}


@pytest.fixture(scope="session")
def savepoint_of_examples(
    spark: SparkSession, finished_query: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The path of a savepoint of that query."""
    from panestream.spark.savepoint.saved import savepoint

    return {"saved_path": savepoint(spark, finished_query["checkpoint"], str(tmp_path_factory.mktemp("saved"))).path}


@pytest.fixture
def doctest_namespace(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Return the values of `NAMES` for an example that uses them, with an empty folder."""
    names = names_of(request.node)
    if not names:
        return {}
    namespace = {**request.getfixturevalue("clicks_of_examples"), "folder": str(tmp_path)}
    for name, fixture in COSTLY.items():
        if name in names:
            namespace |= request.getfixturevalue(fixture)
    return namespace
