"""Delta Lake: a transaction carries who writes and which micro-batch, and Delta passes over one that it has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panestream.spark.sinks.base import EXACTLY_ONCE
from panestream.spark.sinks.table_formats.base import Commit, TableFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class DeltaFormat(TableFormat):
    """A Delta table."""

    name: str = "delta"

    def append(self, df: DataFrame, table: str, options: Mapping[str, str], commit: Commit) -> None:
        writer = df.write.format(self.name).mode("append").options(**dict(options))
        if commit.batch_id is not None:
            writer = writer.option("txnAppId", commit.writer).option("txnVersion", str(commit.batch_id))
        writer.saveAsTable(table)

    def append_guarantee(self) -> str:
        return EXACTLY_ONCE
