"""Make clicks and a job file for them, and show what the job finds."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from hot_items.clicks import BROKEN, EMPTY_TIME, LATE, Shape, make_clicks, split_file, write_clicks
from panestream.errors import JobError
from panestream.spark.progress.micro_batch import BatchProgress

MARKER = ".panestream-demo.json"
"""A file that marks the folder of a demo, with the demo's settings."""

PICTURE = "hot_items.png"
JOB_FILE = "hot_items.toml"
_OWN = ("clicks", "main", "late", "invalid", "checkpoint", JOB_FILE, PICTURE)

ENOUGH_FILES = 10
"""With fewer files, a micro-batch spans hours, and late rows may arrive before the watermark has closed their windows."""

SHOWN = 3
"""The number of printed items of each window. The picture and the Parquet files have more."""

JOB_TEXT = """\
# What `make run` runs. Run it yourself:  {again}
# (It goes on from its checkpoint; a new --output begins anew.)

name = "hot items"
mode = "stream"
key = ["item_id"]
checkpoint = "checkpoint"

[source]
format = "csv"
path = "clicks"
schema = "user_id BIGINT, item_id BIGINT, category_id BIGINT, behavior STRING, timestamp BIGINT, _corrupt_record STRING"
files_per_batch = 1
# Lines that cannot be read stay in, so that they are seen: they have no event time and go to [sinks.invalid].
where = "behavior = 'pv' OR _corrupt_record IS NOT NULL"

[event_time]
column = "timestamp"
unit = "seconds"
invalid = "side_output"

[watermark]
strategy = "bounded"
delay = "5 seconds"

[window]
type = "sliding"
size = "1 hour"
slide = "5 minutes"

[[aggregate]]
function = "count"
alias = "views"

[top]
n = 10
by = "views"

[sinks.main]
format = "parquet"
path = "main"

[sinks.late]
format = "parquet"
path = "late"

[sinks.invalid]
format = "parquet"
path = "invalid"

[trigger]
available_now = true

[spark]
ui.enabled = false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The options of the demo: ``make run ARGS=--help`` explains them."""

    output: Path
    input: Path | None = None
    rows: int = 3_000_000
    seed: int = 1
    files: int = 12
    utc_offset: float = 8
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A demo whose clicks and job file are written.

    Attributes:
        demo: the requested demo.
        job_file: the job.
        expected: the number of late and invalid rows by output. It is empty if the user provided the clicks.
    """

    demo: Demo
    job_file: Path
    expected: dict[str, int]

    def ranking(self, progress: BatchProgress) -> Iterable[RenderableType]:
        """Return the hottest items of each window that the micro-batch fired, a line each."""
        if not progress.fired_rows:
            return
        rows = read_output(self.demo.output / "main" / f"batch_id={progress.batch_id}")
        rows.sort(key=lambda row: (row["window_end"], row["rank"]))
        for end, items in groupby(rows, key=lambda row: row["window_end"]):
            yield ranking_line(end, [(row["item_id"], row["views"]) for row in items], self.demo.utc_offset)


def prepare(demo: Demo, console: Console) -> Prepared:
    """Make the folder, the clicks and the job file.

    Without ``keep``, files of an earlier demo are replaced. A folder with other files is refused.

    Raises:
        JobError: the folder contains other things, or ``keep`` is set and it has a demo with other settings, or the input is
            invalid.
    """
    marker = _claim(demo)
    output = demo.output.resolve()
    if marker is None:
        if demo.input is None:
            with console.status(f"making {demo.rows:,} clicks"):
                clicks = make_clicks(Shape(rows=demo.rows, seed=demo.seed))
                write_clicks(clicks, output / "clicks", demo.files)
            broken = clicks.count(BROKEN)
            # Only page views count. The behavior of broken lines is unknown.
            expected = {"invalid": broken + clicks.count(EMPTY_TIME, behavior="pv")}
            if demo.files >= ENOUGH_FILES:
                expected["late"] = clicks.count(LATE, behavior="pv")
            total, parts = len(clicks), demo.files
        else:
            with console.status(f"cutting {demo.input}"):
                paths, total = split_file(demo.input, output / "clicks", demo.files)
            expected, parts = {}, len(paths)
        again = shlex.join(["panestream", "run", str(demo.output / JOB_FILE)])
        (output / JOB_FILE).write_text(JOB_TEXT.format(again=again), encoding="utf-8")
        marker = {"finished": True, "settings": _settings(demo), "expected": expected, "rows": total, "files": parts}
        (output / MARKER).write_text(json.dumps(marker, indent=1), encoding="utf-8")
    _introduce(demo, marker, console)
    return Prepared(demo, output / JOB_FILE, marker["expected"])


def _settings(demo: Demo) -> dict[str, Any]:
    """Return the settings that the clicks depend on."""
    if demo.input is not None:
        return {"input": str(demo.input.resolve()), "files": demo.files}
    return {name: value for name, value in asdict(demo).items() if name in ("rows", "seed", "files")}


def _claim(demo: Demo) -> dict[str, Any] | None:
    """Take the folder. Return the marker of the earlier demo to resume, or None to start again."""
    output = demo.output
    if output.exists() and not output.is_dir():
        raise JobError(f"--output {output} is a file: name a folder")
    marker: dict[str, Any] | None = None
    if (output / MARKER).is_file():
        try:
            marker = json.loads((output / MARKER).read_text(encoding="utf-8"))
        except ValueError:
            marker = None
    elif output.is_dir() and any((output / name).exists() for name in _OWN):
        raise JobError(f"--output {output} holds something that no demo made: name another folder, or empty it first")
    if demo.keep and marker and marker["finished"]:
        before, now = marker.get("settings"), _settings(demo)
        if before != now:
            raise JobError(f"--keep: {output} was made with other settings ({before}, now {now}); leave --keep out to begin anew")
        return marker
    output.mkdir(parents=True, exist_ok=True)
    # Write the marker first, and again at the end. An interrupted demo owns its folder, but cannot be resumed.
    (output / MARKER).write_text(json.dumps({"finished": False}), encoding="utf-8")
    for name in _OWN:
        path = output / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return None


def _introduce(demo: Demo, marker: dict[str, Any], console: Console) -> None:
    what = f"clicks of {demo.input}" if demo.input is not None else "made-up clicks of a shop"
    console.print(
        Text.assemble(
            ("Hot items", "bold"),
            f": {marker['rows']:,} {what} in {marker['files']} files, a micro-batch each.\n"
            f"The most viewed items per hour, every five minutes; the clock is {_zone_name(demo.utc_offset)}.\n",
        ),
        soft_wrap=True,
    )


def ranking_line(end: datetime, items: list[tuple[int, int]], utc_offset: float) -> Text:
    """Return one window's ranking: its end, and the hottest items with their views.

    >>> ranking_line(datetime(2025, 11, 11, 9, tzinfo=timezone.utc), [(7, 120), (12, 30)], 8).plain
    'to 17:00   1.       7    120   2.      12     30'
    """
    line = Text(
        f"to {end.astimezone(timezone(timedelta(hours=utc_offset))):%H:%M}", style="dim", no_wrap=True, overflow="ellipsis"
    )
    for rank, (item, views) in enumerate(items[:SHOWN], start=1):
        line.append(f"   {rank}. ", style="dim")
        line.append(f"{item:>7} ", style="bold" if rank == 1 else "default")
        line.append(f"{views:>6,}", style="green")
    return line


def read_output(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the Parquet files below ``folder``, with instants in UTC. Without files, return no rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for file in sorted(folder.rglob("*.parquet")) if folder.is_dir() else []:
        # with partitioning=None, the folder of the batch does not become a column
        table = pq.read_table(file, partitioning=None)
        # Spark writes instants in a form that other readers see without a zone.
        instant = pa.timestamp("us", tz="UTC")
        fields = [pa.field(each.name, instant if pa.types.is_timestamp(each.type) else each.type) for each in table.schema]
        rows += table.cast(pa.schema(fields)).to_pylist()
    return rows


def show_outcome(prepared: Prepared, console: Console) -> None:
    """Draw the picture, and compare the side outputs with the expected numbers."""
    from hot_items.picture import Ranked, hot_items_picture

    demo, output = prepared.demo, prepared.demo.output
    late = read_output(output / "late")
    written = {"late": len(late), "invalid": len(read_output(output / "invalid"))}
    for name, made in prepared.expected.items():
        mark = ("as many as were made", "green") if written[name] == made else (f"but {made:,} were made", "bold red")
        console.print(Text.assemble((f"{name:<19} ", "dim"), f"{written[name]:,} rows in the output: ", mark))
    with console.status("drawing the picture"):
        rows = [Ranked(row["window_end"], row["item_id"], row["views"]) for row in read_output(output / "main")]
        picture = hot_items_picture(
            rows,
            [datetime.fromtimestamp(row["timestamp"], timezone.utc) for row in late],
            output / PICTURE,
            title="Hot items: views per hour, every five minutes",
            utc_offset=demo.utc_offset,
        )
    for name, path in (("picture", picture), ("job file", output / JOB_FILE)):
        console.print(Text.assemble((f"{name:<19} ", "dim"), str(path)), soft_wrap=True)


def _zone_name(utc_offset: float) -> str:
    return "UTC" if utc_offset == 0 else str(timezone(timedelta(hours=utc_offset)))
