"""``[source]`` of a job file: where rows come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from panestream.jobs.schema import Place, boolean, ddl, identifier, integer, location, reads, spark_options, sql, table

FILE_FORMATS = ("csv", "json", "parquet", "orc", "text")
"""Source formats that read files: they want a path and can be cut into micro-batches by ``files_per_batch``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """``[source]``: where rows come from.

    Attributes:
        format: csv, json, parquet, orc, text, or any other format that Spark knows by name (kafka, rate, delta, …).
        path: file or folder; seen from the folder of the job file. May be a glob.
        schema: the columns as Spark DDL.
        header: whether CSV files begin with a line of names.
        files_per_batch: how many files a micro-batch takes at most.
        columns: derived columns as SQL, added in this order; later ones may use earlier ones.
        where: SQL filter, after the derived columns. Rows for which it is not true are not part of the job.
        options: passed on to Spark.
    """

    format: str = field(metadata=reads(identifier))
    path: str | None = field(default=None, metadata=reads(location))
    schema: str | None = field(default=None, metadata=reads(ddl))
    header: bool | None = field(default=None, metadata=reads(boolean))
    files_per_batch: int | None = field(default=None, metadata=reads(integer(1)))
    columns: Mapping[str, str] = field(default_factory=dict, metadata=reads(table(identifier, sql)))
    where: str | None = field(default=None, metadata=reads(sql))
    options: Mapping[str, str] = field(default_factory=dict, metadata=reads(spark_options))

    @property
    def reads_files(self) -> bool:
        """Whether rows come from files."""
        return self.format in FILE_FORMATS

    def check(self, place: Place) -> None:
        """What only shows when the keys are seen together."""
        if self.reads_files:
            if self.path is None:
                place.note(f"'path' is missing: format {self.format!r} reads files")
            if self.schema is None and self.format in ("csv", "json"):
                place.note(f"'schema' is missing: {self.format} files do not say the types of their columns")
        elif self.files_per_batch is not None:
            place.at("files_per_batch").note(f"is for files ({', '.join(FILE_FORMATS)}), not for format {self.format!r}")
        if self.header is not None and self.format != "csv":
            place.at("header").note(f"is for format 'csv', not for {self.format!r}")
        for own, option in (("header", "header"), ("files_per_batch", "maxFilesPerTrigger")):
            if getattr(self, own) is not None and option.lower() in {given.lower() for given in self.options}:
                place.at("options").note(f"{option!r} and source.{own} say the same: keep one of them")
