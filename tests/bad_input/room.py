"""Run a case as a batch and as a stream, and describe its outcome: the error, or the number of rows in each output."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

import panestream as pst
from panestream import agg
from panestream.errors import PanestreamError, PanestreamWarning

HANGS = 120
"""A stream that takes longer than this many seconds hangs."""
TAGS = ("main", "late", "invalid")


@dataclass(frozen=True)
class Case:
    """Faulty input.

    Attributes:
        name: the input, as named in the page.
        option: the changed option, as named in the page.
        rows: a SQL query of rows (user, at, n) to write as Parquet, or None if ``files`` writes the input.
        files: writes the input files.
        read: reads the input with ``spark.read`` or ``spark.readStream``. None reads Parquet with the schema of the files.
        later: changes the input after a first run of the stream, which resumes from its checkpoint. A batch sees both inputs.
        meanwhile: changes the input after it was listed and before it is read (in a stream, after the first micro-batch).
        query: arguments of :func:`query_of` that differ.
        waiting: the number of rows in open windows at the end of the stream.
        counted: the number of rows that Spark delivers if the input is not refused. None if unknown.
        batch: whether the case runs as a batch.
        quick: whether its stream is part of every test run.
    """

    name: str
    option: str = ""
    rows: str | None = None
    files: Callable[[Path], None] | None = None
    read: Callable[[Any, Path], Any] | None = None
    later: Callable[[Path], None] | None = None
    meanwhile: Callable[[Path], None] | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    waiting: int = 0
    counted: int | None = None
    batch: bool = True
    quick: bool = False


@dataclass
class Outcome:
    """The outcome of a case.

    Attributes:
        error: the exception, or None.
        outputs: the number of rows of each output.
        totals: the sums in the output, as text.
        warned: panestream's warnings.
        balance: the number of rows in windows, late, invalid, or waiting. None after an error.
    """

    error: BaseException | None = None
    outputs: dict[str, int] = field(default_factory=dict)
    totals: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    balance: int | None = None

    @property
    def kind(self) -> bool:
        """Return whether the run raised a panestream error or no error."""
        return self.error is None or isinstance(self.error, PanestreamError)

    def text(self) -> str:
        """Return the outcome as the page shows it."""
        if self.error is not None:
            return f"`{type(self.error).__name__}`<br>{plain(str(self.error))}"
        parts = [f"`{tag}` has {count} {'row' if count == 1 else 'rows'}" for tag, count in self.outputs.items() if count]
        told = ", ".join(parts) or "no rows"
        told += f"; total {', '.join(self.totals)}" if self.totals else ""
        return told + "".join(f". Warns: {plain(each)}" for each in self.warned)


def plain(text: str) -> str:
    """Return a message without the parts that vary: folders, Spark's numbers, and durations."""
    text = re.sub(r"\s+", " ", text.split("\nJVM stacktrace", maxsplit=1)[0]).strip()
    text = re.sub(r"(?:file:)?/+[^\s'\"`,;()]*/([^\s/'\"`,;():]+)", r"…/\1", text)
    text = re.sub(r"part-[0-9a-f-]+[\w.-]*", "part-…", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "…", text)
    text = re.sub(r"#\d+L?", "", text)
    text = re.sub(r"\d+ days(?: \d+ (?:hours?|minutes?|seconds?))* ahead", "… ahead", text)
    text = re.sub(r"moved the watermark by [\w ]+,", "moved the watermark by …,", text)
    text = re.sub(r" at 20\d\d-\d\d-\d\dT[\d:.]+Z: \.max_ahead", " at …: .max_ahead", text)
    return (text if len(text) <= 420 else text[:419] + "…").replace("|", "\\|").replace("<", "&lt;")


def query_of(
    df: Any,
    *,
    time: str = "at",
    key: str = "user",
    unit: str | None = None,
    value: str = "n",
    invalid: bool = False,
    late: bool = False,
    max_ahead: str | None = None,
) -> Any:
    """Return the query of all cases: the number of rows and their sum, by user and minute."""
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")
    strategy = strategy if max_ahead is None else strategy.max_ahead(max_ahead)
    stream = pst.stream(df).assign_timestamps(time, strategy, unit=unit)
    stream = stream.side_output_invalid("invalid") if invalid else stream
    windowed = stream.key_by(key).window(pst.TumblingEventTimeWindows.of("1 minute")).options(key_groups=1)
    windowed = windowed.side_output_late_data("late") if late else windowed
    return windowed.aggregate(agg.count().alias("rows"), agg.sum(value).alias("total"))


class Room:
    """A folder to run a case in.

    Args:
        spark: the session.
        folder: an empty folder.
    """

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def batch(self, case: Case) -> Outcome:
        """Run a case as a batch."""
        here = self._input(case, "batch")
        if case.later is not None:
            case.later(here)
        with _watched() as outcome:
            result = query_of(self._read(case, self._spark.read, here), **case.query)
            if case.meanwhile is not None:
                case.meanwhile(here)
            result.run(**self._sinks(result, "batch"))
            self._look(outcome, "batch")
        return outcome

    def stream(self, case: Case) -> Outcome:
        """Run a case as a stream that ends when all input is read. Run it again if the input changes later."""
        here = self._input(case, "stream")
        with _watched() as outcome:
            self._run(case, here)
            if case.later is not None:
                case.later(here)
                self._run(case, here)
            self._look(outcome, "stream", case.waiting)
        return outcome

    def _run(self, case: Case, here: Path) -> None:
        result = query_of(self._read(case, self._spark.readStream, here), **case.query)

        def on_progress(_progress: Any) -> None:
            if case.meanwhile is not None:
                case.meanwhile(here)

        sinks = self._sinks(result, "stream")
        query = result.start(checkpoint=self._folder / "checkpoint", on_progress=on_progress, **sinks)
        try:
            assert query.await_termination(HANGS), "the query hangs"
        finally:
            query.stop()

    def _input(self, case: Case, kind: str) -> Path:
        here = self._folder / f"{kind}-input"
        here.mkdir(parents=True)
        if case.rows is not None:
            self._spark.sql(case.rows).coalesce(1).write.mode("append").parquet(str(here))
        if case.files is not None:
            case.files(here)
        return here

    def _read(self, case: Case, reader: Any, here: Path) -> Any:
        if case.read is not None:
            return case.read(reader, here)
        return reader.schema(self._spark.read.parquet(str(here)).schema).parquet(str(here))

    def _sinks(self, result: Any, kind: str) -> dict[str, Any]:
        wanted = ["main", *(tag for tag in TAGS[1:] if tag in (result.plan.late_tag, result.plan.invalid_tag))]
        return {tag: pst.ParquetSink(self._folder / f"{kind}-{tag}") for tag in wanted}

    def _look(self, outcome: Outcome, kind: str, waiting: int = 0) -> None:
        """Count the rows of the outputs with Arrow, because Python's ``datetime`` has no year 10000."""
        outcome.balance = waiting
        for tag in TAGS:
            files = [str(file) for file in sorted((self._folder / f"{kind}-{tag}").rglob("*.parquet"))]
            if not files:
                continue
            wanted = ["rows", "total"] if tag == "main" else []
            table = ds.dataset(files, format="parquet").to_table(columns=wanted or None)
            outcome.outputs[tag] = table.num_rows
            outcome.balance += table.num_rows if tag != "main" else pc.sum(table.column("rows")).as_py() or 0
            if tag == "main":
                outcome.totals = sorted(str(value) for value in table.column("total").to_pylist())


@contextmanager
def _watched() -> Any:
    """Collect the exception and the warnings of a block."""
    outcome = Outcome()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield outcome
        except Exception as error:  # noqa: BLE001 - that is what is looked at
            outcome.error = error
    outcome.warned = sorted({str(each.message) for each in warned if issubclass(each.category, PanestreamWarning)})
