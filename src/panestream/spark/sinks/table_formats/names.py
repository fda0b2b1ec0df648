"""How tables are called: in one to three parts, or by format and path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.columns import quoted
from panestream.spark.places import file_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IN_PARTS = re.compile(r"[A-Za-z_][\w$-]*(\.[A-Za-z_][\w$-]*){0,2}")
_BY_PATH = re.compile(r"([A-Za-z_]\w*)\.`([^`]+)`")


def check_table_name(name: str) -> None:
    """Refuses what is no table's name.

    Raises:
        SinkError: says what is one.
    """
    if not isinstance(name, str) or not (_IN_PARTS.fullmatch(name) or _BY_PATH.fullmatch(name)):
        raise SinkError(
            f"{name!r} is no table name: write table, schema.table or catalog.schema.table; or a Delta table's path, delta.`PATH`"
        )


def quoted_name(name: str) -> str:
    """A checked table name as Spark takes it literally.

    >>> print(quoted_name("shop.click-counts"), quoted_name("delta.`/data/clicks`"))
    `shop`.`click-counts` `delta`.`/data/clicks`
    """
    by_path = _BY_PATH.fullmatch(name)
    return ".".join(quoted(part) for part in (by_path.groups() if by_path else name.split(".")))


def table_place(spark: SparkSession, name: str) -> str:
    """One text for all spellings of a table's name."""
    by_path = _BY_PATH.fullmatch(name)
    if by_path:
        return file_place(by_path.group(2))
    parts = name.split(".")
    if len(parts) == 1:
        parts = [spark.catalog.currentDatabase(), *parts]
    if len(parts) == 2:
        parts = [spark.catalog.currentCatalog(), *parts]
    return "table " + ".".join(parts).lower()
