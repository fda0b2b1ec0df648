"""Parse table names: one to three parts, or format and path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from panestream.errors import SinkError
from panestream.spark.columns import quoted
from panestream.spark.places import file_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IN_PARTS = re.compile(r"[A-Za-z_][\w$-]*(\.[A-Za-z_][\w$-]*){0,2}")
_BY_PATH = re.compile(r"([A-Za-z_]\w*)\.`([^`]+)`")
_NO_CATALOG = "REQUIRES_SINGLE_PART_NAMESPACE"
"""The error of the session's own catalog if the first of three parts is not a catalog."""
_NOT_THERE = ("DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST", "PATH_NOT_FOUND")


def check_table_name(name: str) -> None:
    """Raise SinkError if the text is not a table's name."""
    if not isinstance(name, str) or not (_IN_PARTS.fullmatch(name) or _BY_PATH.fullmatch(name)):
        raise SinkError(
            f"{name!r} is not a table name. Write table, schema.table or catalog.schema.table; or a Delta table's path, "
            f"delta.`PATH`"
        )


def quoted_name(name: str) -> str:
    """Quote a checked table name, so that Spark takes it literally.

    >>> print(quoted_name("shop.click-counts"), quoted_name("delta.`/data/clicks`"))
    `shop`.`click-counts` `delta`.`/data/clicks`
    """
    return ".".join(quoted(part) for part in path_of(name) or name.split("."))


def path_of(name: str) -> tuple[str, str] | None:
    """Return format and path of a table that has them as its name, otherwise None.

    >>> path_of("delta.`/data/clicks`"), path_of("shop.clicks")
    (('delta', '/data/clicks'), None)
    """
    by_path = _BY_PATH.fullmatch(name)
    return (by_path.group(1), by_path.group(2)) if by_path else None


def table_exists(spark: SparkSession, name: str) -> bool:
    """Return whether a table or view exists; raises SinkError if the session lacks the catalog in its name."""
    try:
        return bool(spark.catalog.tableExists(quoted_name(name)))
    except AnalysisException as error:
        if _NO_CATALOG in str(error) and not path_of(name) and name.count(".") == 2:
            catalog = name.partition(".")[0]
            raise SinkError(
                f"the table {name}: this session has no catalog {catalog!r}; start it with "
                f".config('spark.sql.catalog.{catalog}', CLASS) and its settings (docs/how-to/iceberg.md has an example), or "
                f"write schema.table"
            ) from error
        # For a name Spark returns False; for a missing path it raises an error.
        if path_of(name) and any(what in str(error) for what in _NOT_THERE):
            return False
        raise


def table_place(spark: SparkSession, name: str) -> str:
    """Return the same text for all spellings of a table's name."""
    by_path = path_of(name)
    if by_path is not None:
        return file_place(by_path[1])
    parts = name.split(".")
    if len(parts) == 1:
        parts = [spark.catalog.currentDatabase(), *parts]
    if len(parts) == 2:
        parts = [spark.catalog.currentCatalog(), *parts]
    return "table " + ".".join(parts).lower()


def catalog_of(spark: SparkSession, table: str) -> str:
    """Return the catalog of a table's name: its first part if that is a catalog, otherwise the current one."""
    first, _, rest = table.partition(".")
    there = rest and spark.conf.get(f"spark.sql.catalog.{first}", None) is not None
    return first if there else spark.catalog.currentCatalog()
