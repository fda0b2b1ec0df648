"""Parts that all demos use: a session, printed lines, and a picture as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from panestream.insight.drawing import Draw, both
from panestream.insight.page import picture_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Output = Annotated[Path, typer.Option("--output", help="The folder of the picture.")]
OUTPUT = Path("demo-output")


def say(title: str, text: str) -> None:
    """Print a line of the summary, with a title in its own column."""
    print(f"{title:<18}  {text}", flush=True)


@contextmanager
def workshop(name: str) -> Iterator[tuple[SparkSession, Path]]:
    """Start Spark, with a temporary folder for the data of the demo. Spark's messages go to a file in the folder."""
    import panestream as pst

    with tempfile.TemporaryDirectory(prefix="panestream-demo-", ignore_cleanup_errors=True) as folder:
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4"}
        spark = pst.build_session(name, settings, log=Path(folder) / "spark.log")
        try:
            yield spark, Path(folder)
        finally:
            spark.stop()


def label_end(axes: Any, x: Any, y: Any, text: str, colour: str) -> None:
    """Write a text at the right end of a line."""
    place = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
    axes.annotate(text, (x, y), color=colour, **place)


def time_axis(axes: Any, form: str) -> None:
    """Write times below the axes, in a format of ``strftime``."""
    from matplotlib import dates as matplotlib_dates

    dates: Any = matplotlib_dates  # its functions have no types
    axes.xaxis.set_major_formatter(dates.DateFormatter(form))


def save_picture(path: Path, draw: Draw, label: str, *, height: float = 4.4) -> Path:
    """Draw an SVG file and print its place. ``label`` describes the picture for people who cannot see it."""
    pictures = both(draw, height, label)
    if pictures is None:
        raise SystemExit("the picture needs matplotlib: pip install 'panestream[cli]'")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(picture_file(pictures[0]), encoding="utf-8")
    say("picture", str(path))
    return path
